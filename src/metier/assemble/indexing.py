"""From roots to a generation: scan, compare, index, switch. Everything an index's freshness rests on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from metier.assemble.views import View
from metier.assemble.writing import Written
from metier.errors import IndexProblem
from metier.late import dataclass
from metier.types import Encoder, Library, Problem, Shadowed, Skill

if TYPE_CHECKING:
    from metier.library.scan import Changes
    from metier.library.walk import Root
    from metier.retrieve.opened import Index

FAMILIES = "families.json"
Progress = Callable[[str, int], Callable[[int], None]]
"""(label, total) → a function called with the number done."""


@dataclass(frozen=True, slots=True)
class Built:
    """What `refresh` did."""

    skills: int
    added: int
    changed: int
    removed: int
    unchanged: int
    encoded: int
    problems: tuple[Problem, ...]
    shadowed: tuple[Shadowed, ...]
    looked: tuple[str, ...]
    encoder: str
    generation: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Opened:
    """A generation at hand: row i of the index is skill i of the library."""

    folder: Path
    library: Library
    index: Index


def no_progress(label: str, total: int) -> Callable[[int], None]:
    """Progress nobody watches."""
    return lambda done: None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a view's skills come from and how their bodies are read."""

    view: View
    roots: Sequence[Root]
    given: Library | None
    """A library that is at hand already; the roots are not scanned then."""
    precedence: Literal["agentskills", "claude-code"]
    body: Callable[[Skill], str]
    vectors: Path
    """The home's cache of vectors."""
    collapse: bool = True
    """Whether exact duplicates become one skill; evaluation keeps them apart."""
    written: Written = field(default_factory=Written)
    """What a qualified language model wrote for the skills (rule 1.2)."""


def open_generation(folder: Path) -> Opened:
    """The catalogue and the index of one generation, mapped. Raises `IndexProblem` when it is damaged."""
    from metier.library import catalogue
    from metier.retrieve.opened import load

    return Opened(folder, catalogue.open(folder / "library"), load(folder / "index"))


def build_generation(
    source: Source, encoder: Encoder | None, *, full: bool = False, progress: Progress = no_progress
) -> Built:
    """A new generation of the view is current. Without an encoder it holds words alone.

    Skills whose folders did not change are not read again, texts that were encoded once are not encoded again.
    """
    from metier.library import catalogue
    from metier.library.scan import changes, scan
    from metier.retrieve.index import build

    view, began, current = source.view, time.perf_counter(), source.view.current()
    earlier = earlier_library(current)
    scanned = time.perf_counter()
    library = source.given or scan(
        source.roots,
        previous=None if full else earlier,
        spool=view.spool,
        precedence=source.precedence,
        collapse=source.collapse,
    )
    took = time.perf_counter() - scanned
    change = changes(earlier, library)
    if (
        current is not None
        and earlier is not None
        and not full
        and _nothing_new(earlier, library, change, source, encoder)
    ):
        view.note(at=time.time(), seconds=took, failed=None)
        return _built(library, change, 0, _name(encoder), current.name, began)
    part = view.begin()
    with ExitStack() as unfinished:
        unfinished.callback(view.drop, part)  # a full disk least of all keeps what was not finished
        catalogue.write(library, part / "library")
        show = progress("indexing", len(library.skills))
        made = build(
            library.skills,
            source.body,
            encoder,
            into=part / "index",
            vectors=source.vectors,
            previous=None if current is None else current / "index",
            full=full,
            progress=lambda done, total: show(done),
            requests=source.written.requests if encoder is not None else None,
        )
        if encoder is not None:
            _write_families(part, library.skills)
        final = view.switch(part, whole=encoder is not None, after=current)
        unfinished.pop_all()
    if final is None:  # another process made a whole one meanwhile: words alone do not replace it
        return _built(library, change, 0, _name(encoder), (view.current() or part).name, began)
    if view.spool.is_dir():  # of JSONL libraries alone
        from metier.library import rows

        rows.sweep(view.spool, rows.spools([*library.skills, *(earlier.skills if earlier else ())]))
    mark = source.written.mark if encoder is not None else ""
    view.note(at=time.time(), seconds=took, written=mark, failed=None)
    return _built(library, change, made.encoded, _name(encoder), final.name, began)


def _nothing_new(earlier: Library, now: Library, change: Changes, source: Source, encoder: Encoder | None) -> bool:
    """Whether the current generation already says all there is to say."""
    facts = source.view.facts()
    if encoder is not None and not (facts.get("complete") and facts.get("written", "") == source.written.mark):
        return False
    same = change.unchanged == len(now.skills) == len(earlier.skills)
    return same and (now.skills is earlier.skills or list(now.problems) == list(earlier.problems))


def _name(encoder: Encoder | None) -> str:
    return encoder.profile.name if encoder is not None else "none (words alone)"


def _built(library: Library, change: Changes, encoded: int, encoder: str, generation: str, began: float) -> Built:
    return Built(
        skills=len(library.skills),
        added=len(change.added),
        changed=len(change.changed),
        removed=len(change.removed),
        unchanged=change.unchanged,
        encoded=encoded,
        problems=tuple(library.problems),
        shadowed=tuple(library.shadowed),
        looked=library.looked,
        encoder=encoder,
        generation=generation,
        seconds=time.perf_counter() - began,
    )


def _write_families(generation: Path, skills: Sequence[Skill]) -> None:
    """Which skills look alike stands beside the index: the gate asks for it on every route, and it costs N² to find."""
    from metier.retrieve.index import families, load

    found = families(load(generation / "index"), skills)
    (generation / FAMILIES).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


class Families(Mapping[str, str]):
    """Skill id → family of look-alikes; the file is read when the first one is asked for."""

    def __init__(self, generation: Path) -> None:
        self._path = generation / FAMILIES

    @cached_property
    def _known(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # an index of words alone has none
            return {}
        return found if isinstance(found, dict) else {}

    def __getitem__(self, skill_id: str) -> str:
        return self._known[skill_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def earlier_library(current: Path | None) -> Library | None:
    """The catalogue of a generation, or None where there is none that can be read to its last byte."""
    from metier.library import catalogue

    if current is None:
        return None
    try:
        earlier = catalogue.open(current / "library")
        catalogue.verify(earlier)
    except IndexProblem:
        return None
    return earlier
