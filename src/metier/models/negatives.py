"""Hard negatives: skills that look right for a request and are not (SkillRep, rule 1.8).

A third each from the encoder's own nearest, from the words' nearest (BM25, handed in: retrieval is another part), and
at random. Rows that mean the same as the answer (its group) are never among them: one false negative teaches the
opposite of what is wanted; SkillRouter measured 4 points for leaving them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from metier.types import Vectors

EACH = 3
"""Negatives kept of each kind; a step draws `Settings.negatives` of all of them."""
SKIP = 2
"""The very nearest that are not known twins are too often an answer nobody labelled: the first two are passed over."""
DEEP = 30
"""How far down a ranking a negative is taken from."""


def mine(
    gold: Sequence[int],
    groups: Sequence[int],
    request_vectors: Vectors,
    document_vectors: Vectors,
    lexical: Callable[[int], Sequence[int]] | None,
    *,
    seed: int = 0,
    each: int = EACH,
) -> list[tuple[int, ...]]:
    """Rows of negatives per request: `gold[i]` is its document's row, `lexical(i)` its documents by words, best first.

    Deterministic by `seed`.
    """
    marks = np.asarray(groups)
    found: list[tuple[int, ...]] = []
    for i, own in enumerate(gold):
        draw = np.random.default_rng((seed, i))
        scores = document_vectors @ request_vectors[i]
        near = np.argsort(-scores, kind="stable")[: DEEP + 1].tolist()
        kinds = [near, list(lexical(i))[: DEEP + 1] if lexical is not None else []]
        taken: dict[int, None] = {}
        for ranking in kinds:
            fair = [row for row in ranking if marks[row] != marks[own]][SKIP:]
            picked = draw.permutation(len(fair))[:each]
            taken.update(dict.fromkeys(fair[p] for p in sorted(picked.tolist())))
        while len(taken) < min(each * (len(kinds) + 1), int((marks != marks[own]).sum())):
            row = int(draw.integers(len(marks)))
            if marks[row] != marks[own]:
                taken[row] = None
        found.append(tuple(taken))
    return found
