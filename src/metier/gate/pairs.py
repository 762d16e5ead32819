"""The paired view: what the rows of one skill on one stack say about tasks of which both arms are known.

    y1 = mean success over the `use` rows of (task, digest),   y0 over its `skip` rows,   D = y1 − y0

Only pairs enter a gain (SkillDelta, rule 3.13). A pair never mixes digests or stacks; a `skip` row without any skill is
a control, and stands in where a task has no `skip` row of this skill's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.gate.rows import COUNTED
from metier.late import dataclass
from metier.store import Store

Floats = NDArray[np.float64]

VECTOR = np.dtype("<f4")
"""How embeddings lie in the store."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Past tasks of one skill (or bundle) on one stack for which both arms are known, oldest first."""

    tasks: NDArray[np.int64]
    names: tuple[str, ...]
    texts: tuple[str | None, ...]
    families: tuple[str | None, ...]
    digests: tuple[str, ...]
    y0: Floats
    """Mean success without the skill; NaN where only the difference is known."""
    y1: Floats
    gains: Floats
    n0: NDArray[np.int64]
    """Runs behind y0."""
    n1: NDArray[np.int64]
    tokens0: Floats
    """Mean tokens without the skill; NaN where unknown."""
    tokens1: Floats
    at: Floats
    """Seconds since 1970 of the pair's newest run."""
    vectors: NDArray[np.float32]
    """(m, d) unit rows, all zeros where the task has no embedding by this encoder; d is 0 without any."""
    blank: NDArray[np.bool_]
    """Where a text waits to be embedded by this encoder."""

    def __len__(self) -> int:
        return len(self.tasks)

    def where(self, mask: NDArray[np.bool_]) -> Pairs:
        """Those pairs alone, in the same order."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        taken: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        taken.update((name, tuple(getattr(self, name)[i] for i in rows)) for name in _LISTS)
        return Pairs(**taken)

    def of(self, digest: str) -> NDArray[np.bool_]:
        """Which pairs were made with the skill as it is now; the others are stale (rule 3.3)."""
        if len(set(self.digests)) <= 1:  # nearly always; a set of one string is fast
            return np.full(len(self.digests), bool(self.digests) and self.digests[0] == digest)
        return np.array([d == digest for d in self.digests], dtype=bool)


_LISTS = ("names", "texts", "families", "digests")
_ARRAYS = ("tasks", "y0", "y1", "gains", "n0", "n1", "tokens0", "tokens1", "at", "vectors", "blank")


def joined(parts: Sequence[Pairs]) -> Pairs:
    """All pairs of the parts, one part after the other; parts whose vectors have another dimension lose them."""
    full = [part for part in parts if len(part)]
    if len(full) <= 1:
        return full[0] if full else parts[0]
    dim = max(part.vectors.shape[1] for part in full)
    matrix = np.zeros((sum(len(part) for part in full), dim), dtype=np.float32)
    at = 0
    for part in full:
        if part.vectors.shape[1] == dim:
            matrix[at : at + len(part)] = part.vectors
        at += len(part)
    put: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in full]) for n in _ARRAYS if n != "vectors"}
    put.update((name, tuple(each for part in full for each in getattr(part, name))) for name in _LISTS)
    return Pairs(**put, vectors=matrix)


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows that are kept and shown but enter no pair."""

    agent: int = 0
    """Reported by an agent itself (rule 3.14)."""
    single: int = 0
    """Judged, but their other arm is missing (rule 3.13)."""
    unjudged: int = 0
    """Nobody said whether it succeeded."""


@dataclass(slots=True)
class _Arm:
    success: float
    runs: int
    tokens: float
    first: int
    at: float
    family: str | None


def read(store: Store, stack: str, skill: str, encoder: str) -> tuple[Pairs, Tally]:
    """The paired view of one skill, straight from the store."""
    judged = store.rows(
        "SELECT task, digest, arm, avg(coalesce(success, gain)) AS mean, count(*) AS runs, avg(tokens) AS tokens,"
        " min(n) AS first, max(at) AS at, max(family) AS family FROM outcomes"
        f" WHERE stack = ? AND skill = ? AND {COUNTED} AND coalesce(success, gain) IS NOT NULL"
        " GROUP BY task, digest, arm ORDER BY first",
        (stack, skill),
    )
    arms: dict[tuple[int, str], dict[str, _Arm]] = {}
    for task, digest, arm, mean, runs, tokens, first, at, family in judged:
        told = _Arm(mean, runs, float("nan") if tokens is None else tokens, first, at, family)
        arms.setdefault((task, digest), {})[arm] = told
    lonely = any("skip" not in found and "use" in found for found in arms.values())
    controls = _controls(store, stack, skill) if lonely else {}
    kept: list[tuple[int, str, _Arm | None, _Arm]] = []
    singles = 0
    for (task, digest), found in arms.items():
        without = found.get("skip") or controls.get(task)
        if "pair" in found:
            kept.append((task, digest, None, found["pair"]))
        if "use" in found and without is not None:
            kept.append((task, digest, without, found["use"]))
        else:
            singles += sum(told.runs for arm, told in found.items() if arm != "pair")
    loose = store.rows(
        f"SELECT sum(origin = 'agent') AS agent, sum({COUNTED} AND coalesce(success, gain) IS NULL) AS unjudged"
        " FROM outcomes WHERE stack = ? AND skill = ?",
        (stack, skill),
    )[0]
    tally = Tally(agent=loose["agent"] or 0, single=singles, unjudged=loose["unjudged"] or 0)
    return _arrays(store, sorted(kept, key=_age), stack, skill, encoder), tally


def nothing(store: Store) -> tuple[Pairs, Tally]:
    """What `read` gives for a skill without a row."""
    return _arrays(store, (), "", "", ""), Tally()


def _age(pair: tuple[int, str, _Arm | None, _Arm]) -> int:
    without, used = pair[2], pair[3]
    return used.first if without is None else min(without.first, used.first)


def _controls(store: Store, stack: str, skill: str) -> dict[int, _Arm]:
    """Task → its runs without any skill, for the tasks this skill was used on."""
    rows = store.rows(
        "SELECT task, avg(success) AS mean, count(*) AS runs, avg(tokens) AS tokens, min(n) AS first, max(at) AS at,"
        f" max(family) AS family FROM outcomes WHERE skill = '' AND arm = 'skip' AND stack = ? AND {COUNTED}"
        " AND success IS NOT NULL AND task IN (SELECT task FROM outcomes WHERE stack = ? AND skill = ?) GROUP BY task",
        (stack, stack, skill),
    )
    nan = float("nan")
    return {row[0]: _Arm(row[1], row[2], nan if row[3] is None else row[3], row[4], row[5], row[6]) for row in rows}


def _arrays(
    store: Store, kept: Sequence[tuple[int, str, _Arm | None, _Arm]], stack: str, skill: str, encoder: str
) -> Pairs:
    inside = "(SELECT task FROM outcomes WHERE stack = ? AND skill = ?)"
    told: dict[int, tuple[str, str | None]] = {}
    vectors: dict[int, NDArray[np.float32]] = {}
    if kept:
        for row in store.rows(f"SELECT task, name, text FROM bank_tasks WHERE task IN {inside}", (stack, skill)):
            told[row[0]] = (row[1], row[2])
        if encoder:
            found = store.rows(
                f"SELECT task, vector FROM bank_vectors WHERE encoder = ? AND task IN {inside}", (encoder, stack, skill)
            )
            vectors = {row[0]: np.frombuffer(row[1], dtype=VECTOR) for row in found}
    dim = max((len(v) for v in vectors.values()), default=0)
    matrix = np.zeros((len(kept), dim), dtype=np.float32)
    for at, (task, *_) in enumerate(kept):
        if dim and len(vectors.get(task, ())) == dim:
            matrix[at] = vectors[task]
    nan = float("nan")
    y0 = np.array([nan if w is None else w.success for _, _, w, _ in kept], dtype=np.float64)
    mean = np.array([u.success for *_, u in kept], dtype=np.float64)  # y1, or D itself where only that is known
    only = np.isnan(y0)
    return Pairs(
        tasks=np.array([task for task, *_ in kept], dtype=np.int64),
        names=tuple(told[task][0] for task, *_ in kept),
        texts=tuple(told[task][1] for task, *_ in kept),
        families=tuple(u.family if w is None else u.family or w.family for _, _, w, u in kept),
        digests=tuple(digest for _, digest, *_ in kept),
        y0=y0,
        y1=np.where(only, nan, mean),
        gains=np.where(only, mean, mean - y0),
        n0=np.array([0 if w is None else w.runs for _, _, w, _ in kept], dtype=np.int64),
        n1=np.array([u.runs for *_, u in kept], dtype=np.int64),
        tokens0=np.array([nan if w is None else w.tokens for _, _, w, _ in kept], dtype=np.float64),
        tokens1=np.array([u.tokens for *_, u in kept], dtype=np.float64),
        at=np.array([u.at if w is None else max(u.at, w.at) for _, _, w, u in kept], dtype=np.float64),
        vectors=matrix,
        blank=np.array([told[task][1] is not None and task not in vectors for task, *_ in kept], dtype=bool),
    )
