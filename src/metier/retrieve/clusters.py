"""Which skills look alike: pairs for the doctor, families for the gate (methods 3.15).

Every pair is compared exactly, block by block, so memory stays bounded whatever the library's size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from metier.errors import InputError
from metier.retrieve.opened import Index
from metier.types import Skill

FAMILY_COSINE = 0.92
"""Skills at least this close are one family: chains stay short, at most 7 of 12,610 public skills (decision 0035)."""
LOOK_ALIKE_COSINE = 0.9
"""Pairs at least this close are worth a look: 652 of those skills' 80 million pairs, 45% of them of one name."""
_CELLS = 16_000_000
"""Cosines held at once: 64 MB."""


def look_alikes(
    index: Index, skills: Sequence[Skill], threshold: float = LOOK_ALIKE_COSINE
) -> list[tuple[int, int, float]]:
    """(row, row, cosine) of every pair at `threshold` or above, closest first; the same folder twice is no pair."""
    pairs = [pair for pair in _pairs(index, threshold) if skills[pair[0]].digest != skills[pair[1]].digest]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))


def families(index: Index, skills: Sequence[Skill], threshold: float = FAMILY_COSINE) -> dict[str, str]:
    """Skill id → the name of its family, for skills that have look-alikes; the others are their own family.

    A family is named after its member with the smallest id: by that skill's name, or its id where two families would
    get the same name.
    """
    parent = list(range(index.size))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for one, other, _ in _pairs(index, threshold):
        a, b = root(one), root(other)
        if a != b:
            first, second = (a, b) if index.rank[a] < index.rank[b] else (b, a)
            parent[second] = first  # the smallest id stays on top, so the result does not depend on the order of pairs
    members: dict[int, list[int]] = {}
    for row in range(index.size):
        members.setdefault(root(row), []).append(row)
    groups = {head: rows for head, rows in members.items() if len(rows) > 1}
    names = Counter(skills[head].name for head in groups)
    return {
        skills[row].id: skills[head].name if names[skills[head].name] == 1 else skills[head].id
        for head, rows in groups.items()
        for row in rows
    }


def _pairs(index: Index, threshold: float) -> Iterator[tuple[int, int, float]]:
    if not 0 < threshold <= 1:
        raise InputError(f"look-alike threshold {threshold}: it is a cosine; give a number above 0 and at most 1")
    vectors = index.vectors
    if vectors is None:
        return
    block = max(1, _CELLS // max(len(vectors), 1))
    for start in range(0, len(vectors), block):
        cosines = vectors[start : start + block] @ vectors[start:].T
        ones, others = np.nonzero(cosines >= threshold)
        later = others > ones
        for one, other in zip(ones[later].tolist(), others[later].tolist(), strict=True):
            yield start + one, start + other, float(cosines[one, other])
