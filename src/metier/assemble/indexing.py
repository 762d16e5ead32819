"""From roots to a generation: scan, compare, index, switch. Everything an index's freshness rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metier.assemble.views import View
from metier.errors import IndexProblem
from metier.types import Encoder, Library, Problem, Shadowed, Skill

if TYPE_CHECKING:
    from metier.library.scan import Root
    from metier.retrieve.opened import Index

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
    precedence: str
    body: Callable[[Skill], str]
    vectors: Path
    """The home's cache of vectors."""


def open_generation(folder: Path) -> Opened:
    """The catalogue and the index of one generation, mapped. Raises `IndexProblem` when it is damaged."""
    from metier.library import catalogue
    from metier.retrieve.index import load

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
        source.roots, previous=None if full else earlier, spool=view.spool, precedence=source.precedence
    )
    took = time.perf_counter() - scanned
    part = view.begin()
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
    )
    change = changes(earlier, library)
    final = view.switch(part)
    view.note(at=time.time(), seconds=took, complete=encoder is not None)
    return Built(
        skills=len(library.skills),
        added=len(change.added),
        changed=len(change.changed),
        removed=len(change.removed),
        unchanged=len(change.unchanged),
        encoded=made.encoded,
        problems=tuple(library.problems),
        shadowed=tuple(library.shadowed),
        looked=library.looked,
        encoder=made.encoder or "none (words alone)",
        generation=final.name,
        seconds=time.perf_counter() - began,
    )


def earlier_library(current: Path | None) -> Library | None:
    """The catalogue of a generation, or None where there is none that can be read."""
    from metier.library import catalogue

    if current is None:
        return None
    try:
        return catalogue.open(current / "library")
    except IndexProblem:
        return None
