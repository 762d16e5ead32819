"""The router of a workshop: the one place that imports every stage and hands them to each other as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from metier.assemble.indexing import Families
from metier.assemble.writing import hypothetical
from metier.disclose import Disclose
from metier.errors import MetierError
from metier.late import pattern, replace
from metier.router import Router
from metier.store import Store, log_events, log_route, route_row, shown
from metier.text import fingerprint
from metier.types import Config, Encoder, Outcome, Route, Skill, Stage, Task

if TYPE_CHECKING:
    from metier.assemble.indexing import Opened
    from metier.assemble.views import View
    from metier.gate.bank import Bank
    from metier.gate.runnable import Runnable
    from metier.models.llm import ChatLLM
    from metier.rerank.keep import Graphs

LOOKED_SHOWN = 12
"""Places an empty library's note names; `metier index` lists all."""
STAGES = ("retrieve", "rerank", "gate")
HOOK_SHARE = 0.4
"""Share of a hook's deadline that a language model may take: a cold route needs half a second for everything else."""


_NAMED = pattern(r"(?:sha256|route):\S+\Z")
"""A task that the log named without its text."""


class Parts(Protocol):
    """What a router is made of; the workshop has it all."""

    config: Config
    warnings: list[str]

    @property
    def view(self) -> View: ...
    @property
    def store(self) -> Store: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def llm(self) -> ChatLLM | None: ...
    @property
    def bank(self) -> Bank: ...
    @property
    def runnable(self) -> Runnable: ...
    @property
    def graphs(self) -> Graphs: ...
    def body(self, skill: Skill, /) -> str: ...
    def fresh(self, skill: Skill, /) -> Skill | None: ...
    def skill(self, name: str, /) -> Skill: ...
    def text(self, skill: Skill, resource: str | None, nonce: str, /) -> str: ...
    def append(self, outcome: Outcome, /) -> None: ...


def make_router(shop: Parts, opened: Opened, wanted: Sequence[str], source: str) -> Router:
    """Stages, disclosure and log over one generation. `source` is what the log says the request came through."""
    config, _ = shop.config, shop.llm  # first: a setting that names no model is one of the warnings
    warnings = list(shop.warnings)
    encoder = _encoder_or_none(shop, opened, warnings)
    seconds = config.hook_deadline * HOOK_SHARE if source == "hook" else config.llm_deadline
    made = (make_stage(name, shop, opened, encoder, min(seconds, config.llm_deadline)) for name in wanted)
    stages = [stage for stage in made if stage is not None]
    return Router(
        stages=tuple(stages),
        disclose=Disclose(
            body=shop.body,
            host=config.host,
            budget=config.budget,
            cards=config.cards,
            loads=config.loads,
            cover_loads=config.cover_loads,
        ),
        skill=shop.skill,
        text=shop.text,
        log=lambda route: _noted(shop, route, source),
        events=lambda events: log_events(shop.store, events),
        seen=lambda session: shown(shop.store, session),
        append=lambda outcome: shop.append(_kept(outcome, shop.config.log_text)),
        logged=lambda route_id: _logged(shop, route_id),
        stack=config.stack,
        warnings=tuple(warnings),
    )


def _noted(shop: Parts, route: Route, source: str) -> None:
    """The route is in the log; an index that it found damaged is built anew by the next refresh."""
    from metier.retrieve.generation import REBUILD

    if any(REBUILD in step.error for step in route.slate.steps if step.error):
        shop.view.distrust()
    log_route(shop.store, route, text=shop.config.log_text, source=source)


def _encoder_or_none(shop: Parts, opened: Opened, warnings: list[str]) -> Encoder | None:
    if opened.index.vectors is None:
        return None
    try:
        return shop.encoder
    except MetierError as error:  # a folder that is gone, a name that is none, an extra that is not installed
        warnings.append(f"found by words alone: {error}")
        return None


def make_stage(
    name: str, shop: Parts, opened: Opened, encoder: Encoder | None, seconds: float | None = None
) -> Stage | None:
    """The stage of that name, or None where the configuration switches it off.

    `seconds`: how long a request waits for the language model (by default as configured).
    """
    config = shop.config
    if name == "retrieve":
        from metier.retrieve.stage import Retrieve

        return Retrieve(
            index=opened.index,
            skills=opened.library.skills,
            encoder=encoder,
            alpha=config.alpha,
            slate=config.slate,
            expand=hypothetical(shop.llm, shop.store, encoder, config.llm_deadline if seconds is None else seconds),
            refresh=shop.fresh,
            nothing=_nowhere(opened),
        )
    if name == "rerank" and config.rerank:
        from metier.rerank.witness import LAMBDA, Rerank

        return Rerank(
            graph=shop.graphs,
            encoder=encoder,
            lam=LAMBDA if config.lam is None else config.lam,
            families=Families(opened.folder) if opened.index.vectors is not None else None,
        )
    if name == "gate":
        from metier.gate.decide import Gate

        return Gate.of(config, shop.bank, encoder, shop.runnable, Families(opened.folder))
    return None


def _nowhere(opened: Opened) -> str:
    """What an empty library's note says."""
    looked = opened.library.looked
    places = ", ".join(looked[:LOOKED_SHOWN]) + (
        f" and {len(looked) - LOOKED_SHOWN} more" if looked[LOOKED_SHOWN:] else ""
    )
    return (
        f"no skills found: looked in {places or 'no place at all'}; run: metier index PATH (metier demo shows examples)"
    )


def _kept(outcome: Outcome, log_text: str) -> Outcome:
    """What is written back about a route keeps no more of its request than the log does (decision 0063)."""
    if outcome.route is None or log_text == "full" or _NAMED.match(outcome.task):
        return outcome
    named = f"sha256:{fingerprint(outcome.task)}" if log_text == "hash" else f"route:{outcome.route}"
    return replace(outcome, task=named)


def _logged(shop: Parts, route_id: str) -> Task | None:
    """The task of a logged route; where the log keeps no text, its hash stands in for it."""
    row = route_row(shop.store, route_id)
    if row is None:
        return None
    text = row["text"] or (f"sha256:{row['hash']}" if row["hash"] else f"route:{route_id}")
    return Task(text=text, stack=row["stack"], family=row["family"], session=row["session"])
