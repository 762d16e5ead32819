"""Two channels, one order: z-scores over the union of what either would have shown (SkillRep, rules 1.6 and 12).

    score = (1 − α) · z(dense) + α · z(lexical)        over top-K(dense) ∪ top-K(lexical)

Both channels score every candidate exactly, so nothing is missing and no rank has to stand in for a score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POOL = 1000  # SkillRep: candidates of each channel, or all skills where there are fewer
INERT = 1e-12  # a channel that spreads less than this says nothing: all its z are 0
RRF_K = 60  # Cormack et al.'s constant, for the comparison by ranks

Scores = NDArray[np.float32] | NDArray[np.float64]
Rows = NDArray[np.int64]


def best(scores: Scores, count: int) -> Rows:
    """Rows of the `count` highest scores (all where there are fewer), ties to the lower row; ascending rows."""
    if count >= len(scores):
        return np.arange(len(scores))
    edge = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > edge)
    level = np.flatnonzero(scores == edge)[: count - len(above)]
    return np.sort(np.concatenate([above, level]))


def pool(dense: Scores | None, lexical: Scores, count: int = POOL) -> Rows:
    """Rows of the union of both channels' best, ascending; a lexical score of 0 is no match and adds nobody."""
    matched = best(lexical, count)
    matched = matched[lexical[matched] > 0]
    return matched if dense is None else union(best(dense, count), matched, len(lexical))


def union(one: Rows, other: Rows, size: int) -> Rows:
    """Rows below `size` that are in either, ascending (numpy's own set functions first load its masked arrays)."""
    member = np.zeros(size, bool)
    member[one] = member[other] = True
    return np.flatnonzero(member)


def z(scores: Scores) -> NDArray[np.float64]:
    """Mean 0 and standard deviation 1, or all zeros when the channel is inert."""
    exact = scores.astype(np.float64)
    spread = exact.std() if len(exact) else 0.0
    return (exact - exact.mean()) / spread if spread >= INERT else np.zeros(len(exact))


def fused(z_dense: NDArray[np.float64], z_lexical: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """α weighs the lexical side (rule 1.6)."""
    return (1 - alpha) * z_dense + alpha * z_lexical


def reciprocal_rank(dense: Scores, lexical: Scores, alpha: float = 0.5, k: int = RRF_K) -> NDArray[np.float64]:
    """Fusion by ranks, the comparison the paper reports against: Σ weight / (k + rank)."""
    return (1 - alpha) / (k + _ranks(dense)) + alpha / (k + _ranks(lexical))


def _ranks(scores: Scores) -> NDArray[np.float64]:
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    return ranks
