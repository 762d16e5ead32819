"""Padding: a gold skill that also talks about other things, and what that costs three ways of scoring it.

Sections of other skills are put between the gold's own, so that a vector of the whole sees all of them; everything else
stays as it was. The paper: one vector loses up to 9.68 MRR@10, the best section and BM25 nothing (SkillRep, rule 1.16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metier.evaluate.diagnose import sections
from metier.evaluate.metrics import paired_bootstrap

if TYPE_CHECKING:
    from metier.types import Vectors

LEVELS = (1, 2, 4)
"""Foreign sections put into a gold skill."""
OWN_WORDS = 60
"""A section that is longer is cut here, so that padding stays within what an encoder of 256 tokens reads."""
CANDIDATES = 32
"""Foreign sections drawn for a request; those farthest from it are used: they are what it does not need."""


def clipped(section: str, most: int = OWN_WORDS) -> str:
    """The first words of a section."""
    return " ".join(section.split()[:most])


def foreign_sections(bodies: Sequence[str], rng: np.random.Generator, count: int = CANDIDATES) -> list[str]:
    """`count` sections drawn at random from these bodies, cut to a few words each."""
    pool = [clipped(part) for body in bodies for part in sections(body)]
    return [pool[n] for n in rng.permutation(len(pool))[:count].tolist()]


def least_wanted(request: Vectors, texts: Sequence[str], vectors: Vectors, count: int) -> list[str]:
    """The texts farthest from the request, farthest first."""
    return [texts[n] for n in np.argsort(vectors @ request, kind="stable")[:count].tolist()]


def padded(body: str, foreign: Sequence[str]) -> str:
    """The body's sections with the foreign ones between them, a foreign one first."""
    own = sections(body) or [body]
    out: list[str] = []
    for n in range(max(len(own), len(foreign))):
        out += [*foreign[n : n + 1], *own[n : n + 1]]
    return "\n\n".join(out)


def rank_of(score: float, others: NDArray[np.float64]) -> float:
    """The rank of one document among others: one more than those above it, ties at their mean."""
    return 1.0 + float((others > score).sum()) + 0.5 * float((others == score).sum())


def reciprocal(rank: float, depth: int = 10) -> float:
    """1/rank within the depth, else 0."""
    return 1.0 / rank if rank <= depth else 0.0


def table(
    scores: Mapping[str, Mapping[int, NDArray[np.float64]]],
    others: Mapping[str, Sequence[NDArray[np.float64]]],
    datasets: Sequence[str],
) -> list[dict[str, Any]]:
    """One row a level: per way of scoring, MRR@10 and the paired difference to no padding.

    `scores[way][level]` (M,) are the gold's own scores, level 0 unpadded; `others[way][n]` those of the other skills.
    """
    rows = []
    value: Callable[[str, int], NDArray[np.float64]] = lambda way, level: np.array(  # noqa: E731
        [reciprocal(rank_of(float(s), o)) for s, o in zip(scores[way][level], others[way], strict=True)]
    )
    unpadded = {way: value(way, 0) for way in scores}
    for level in sorted(next(iter(scores.values()))):
        row: dict[str, Any] = {"sections": level}
        for way in scores:
            now = value(way, level)
            row[way] = {
                "mrr@10": round(100 * paired_bootstrap(np.zeros_like(now), now, datasets).delta, 2),
                "against_unpadded": paired_bootstrap(unpadded[way], now, datasets).as_dict(),
            }
        rows.append(row)
    return rows
