"""Easy and hard pools: the hard one adds near-copies of gold, each with one or two stated requirements broken.

UniPool's rule for the pool: of documents with cosine ≥ 0.999 one stays, and no near-duplicate of gold does (SkillRep,
rule 1.15). The near-copies come from the operators of rule 2.10, about fifteen a gold skill; they are never gold.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metier.evaluate.corrupt import Corruption, chosen, corruptions

if TYPE_CHECKING:
    from metier.types import Vectors

SAME = 0.999  # UniPool: documents at or above this cosine are one
COPIES = 15  # SkillsBench's hard tier has about as many near-copies a gold skill
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class NearCopy:
    """A corrupted copy of one gold skill."""

    of: str
    """Id of the gold skill."""
    name: str
    description: str
    body: str
    operators: tuple[str, ...]


def kept_in_pool(documents: Vectors, gold: Sequence[int], threshold: float = SAME) -> NDArray[np.int64]:
    """Rows that stay: all gold; of other near-equal rows the first; nothing that nearly equals a gold row."""
    protected = set(gold)
    order = [*sorted(protected), *(n for n in range(len(documents)) if n not in protected)]
    place = {row: n for n, row in enumerate(order)}
    dropped: set[int] = set()
    for start in range(0, len(documents), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(documents)))
        close = documents[rows] @ documents.T >= threshold
        for i, j in zip(*np.nonzero(close), strict=True):
            a, b = int(rows[i]), int(j)
            if place[a] < place[b] and b not in protected:
                dropped.add(b)
    return np.array([n for n in range(len(documents)) if n not in dropped], np.int64)


def near_copies(
    id: str,
    name: str,
    description: str,
    body: str,
    requests: Sequence[str],
    *,
    seed: int = 0,
    count: int = COPIES,
    foreign: Sequence[str] = (),
) -> list[NearCopy]:
    """Up to `count` different copies: one requirement that a request states is broken, then two at once."""
    rng = random.Random(f"{seed}:{id}")
    found: list[Corruption] = []
    for request in requests:
        found += corruptions(request, body, description, rng, foreign=foreign)
    single = chosen(found, count, body)
    pairs = [(a, b) for a, b in itertools.combinations(found, 2) if not set(a.changes) & set(b.changes)]
    rng.shuffle(pairs)
    copies: dict[str, NearCopy] = {}
    for group in [*((c,) for c in [*single, *(c for c in found if c not in single)]), *pairs]:
        if len(copies) == count:
            break
        changed, told = _applied(group, body), description
        for one in group:
            told = one.describe(told)
        if changed != body and changed not in copies:
            copies[changed] = NearCopy(id, name, told, changed, tuple(one.operator for one in group))
    return list(copies.values())


def _applied(group: Sequence[Corruption], body: str) -> str:
    changes: dict[int, str | None] = {}
    for one in group:
        changes |= one.changes
    lines = [changes.get(n, line) for n, line in enumerate(body.split("\n"))]
    return "\n".join(line for line in lines if line is not None)


def library_rows(copies: Sequence[NearCopy]) -> list[Mapping[str, str]]:
    """The copies as rows of a JSONL library, with ids that tell nothing about which is the original."""
    return [
        {"id": f"near-copy-{n:05d}", "name": c.name, "description": c.description, "body": c.body}
        for n, c in enumerate(copies)
    ]
