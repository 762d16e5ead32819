"""The doctor's visit: what the library, the index, the machine and the log know of it, handed to `library.doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metier.assemble.indexing import Progress, no_progress
from metier.errors import LibraryError, MetierError, StoreError

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop
    from metier.library.doctor import Report
    from metier.types import Skill


def examined(shop: Workshop, hosts: Sequence[str] = ("claude-code",), progress: Progress = no_progress) -> Report:
    """The report on the skills as they are on disk now: the index is brought up to date first."""
    from metier.library.doctor import examine
    from metier.retrieve.index import look_alikes

    try:
        shop.refresh(progress=progress)
    except LibraryError:
        raise
    except MetierError as error:  # no encoder, a home that cannot be written: the doctor is asked for just then
        shop.warnings.append(f"the index could not be brought up to date: {error}")
    opened = shop.opened()
    return examine(
        opened.library,
        body=shop.body,
        look_alikes=look_alikes(opened.index, opened.library.skills),
        runnable=lambda skill: [f.label for f in shop.runnable(skill) if f.blocks],
        differ=lambda one, other: told_apart(shop, one, other),
        hosts=hosts,
        usage=usage(shop),
    )


def told_apart(shop: Workshop, one: Skill, other: Skill) -> str:
    """What tells two look-alikes apart: near-copies by the statements that differ, others by their own words."""
    from metier.library.doctor import difference
    from metier.rerank.differ import difference as by_statements
    from metier.rerank.differ import near_copies
    from metier.rerank.extract import extract

    graphs = [extract(skill, shop.body(skill)) for skill in (one, other)]
    said = by_statements(*graphs) if near_copies(*graphs) else ""
    return said or difference(one, other, shop.body)


def usage(shop: Workshop) -> dict[str, int]:
    """Skill id → how often it was loaded or used, as far as the log remembers."""
    sql = "SELECT skill, count(*) AS n FROM events WHERE what IN ('loaded', 'used') GROUP BY skill"
    try:
        return {row["skill"]: row["n"] for row in shop.store.rows(sql)}
    except StoreError:  # a home that cannot be read has no memory; the rest of the report stands
        return {}
