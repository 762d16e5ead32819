"""A small encoder and a few skills for the tests of retrieval; no model, no disk but what a test hands in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.errors import EncoderError
from metier.retrieve.build import Built, build
from metier.retrieve.opened import Index, load
from metier.text import fingerprint, words
from metier.types import Flag, Kind, Profile, Skill, Slate, Task

if TYPE_CHECKING:
    from metier.types import Vectors


@dataclass
class BagEncoder:
    """Sums a fixed random vector per word: texts that share words are close. Counts what it encodes."""

    profile: Profile = field(default_factory=lambda: Profile("bag", 64, 256))
    calls: list[str] = field(default_factory=list)
    breaks_after: int | None = None

    def readable(self, text: str) -> float:
        """Share of Latin letters: this encoder is to be thought of as an English one."""
        letters = [c for c in text if c.isalpha()]
        return sum(c.isascii() for c in letters) / len(letters) if letters else 1.0

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        out = np.zeros((len(texts), self.profile.dim), np.float32)
        for row, text in enumerate(texts):
            if self.breaks_after is not None and len(self.calls) >= self.breaks_after:
                raise EncoderError("bag: out of order")
            self.calls.append(text)
            for word in words(text):
                out[row] += np.random.default_rng(zlib.crc32(word.encode())).standard_normal(self.profile.dim)
            length = np.linalg.norm(out[row])
            out[row] = out[row] / length if length else 0
        return out


def skill(
    name: str, description: str = "", body: str = "", *, flags: Sequence[Flag] = (), excludes: Sequence[str] = ()
) -> tuple[Skill, str]:
    """A skill and its body."""
    made = Skill(
        f"given:{name}", name, description, fingerprint(name, description, body), "/skills", "given",
        (f"/skills/{name}",), flags=frozenset(flags), excludes=tuple(excludes),
    )  # fmt: skip
    return made, body


ZOO = (
    skill("pdf-tables", "Pull tables out of PDF reports", "Open the report, find each table, write csv rows."),
    skill("spreadsheet-report", "Turn a spreadsheet into a report with charts", "Load cells, compute sums, draw."),
    skill("sql-tuning", "Make slow SQL queries fast", "Read the plan, add an index, measure the query again."),
    skill("git-recovery", "Recover lost git commits", "Use reflog, find the commit, reset or cherry pick."),
    skill("release-notes", "Write release notes from merged pull requests", "List merges, group them, write notes."),
    skill("review", "Look over a change before it is merged", "Read the diff, question every risky line."),
)


def bodies(zoo: Sequence[tuple[Skill, str]]) -> Callable[[Skill], str]:
    texts: Mapping[str, str] = {made.id: body for made, body in zoo}
    return lambda made: texts[made.id]


def built(
    folder: Path, zoo: Sequence[tuple[Skill, str]] = ZOO, encoder: BagEncoder | None = None, **options: object
) -> Built:
    skills = [made for made, _ in zoo]
    return build(skills, bodies(zoo), encoder, into=folder / "index", vectors=folder / "vectors", **options)  # type: ignore[arg-type]


def opened(folder: Path, zoo: Sequence[tuple[Skill, str]] = ZOO, encoder: BagEncoder | None = None) -> Index:
    return load(built(folder, zoo, encoder).folder)


def asked(text: str) -> Slate:
    return Slate("r_1", Task(text))
