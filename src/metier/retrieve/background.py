"""What all skills have in common says nothing about which one is meant: it is projected away (SkillRep, rules 4 and 5).

    U1 = top-k1 right singular vectors of D (not centred)       D ← unit(D − D U1 U1ᵀ)
    U2 = two directions of generic words, orthogonal to U1      D ← D − D U2 U2ᵀ      (not rescaled)

D is kept as it was encoded. As U = [U1 U2] is orthonormal, a projected score is  s_d · (d·q − (d·U)(U·q)):  the index
holds d·U (N × k) and the rescaling s_d, and one product gives the cosine before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metier.late import dataclass

if TYPE_CHECKING:
    from metier.types import Vectors

GENERIC_DIRECTIONS = 2  # SkillRep: the second level removes two directions
GENERIC_WORDS = 1000  # methods 1.4 [ours]: content words of highest document frequency, encoded alone
GUARD = 10  # methods 1.4: fewer than this many documents per direction cannot tell background from content
VANISHED = 1e-6
"""A vector with less than this left after U1 was all background: its row stays zero."""
_BLOCK = 8192


# Function words carry no topic, so they say nothing about generic *content*. From the usual English stop lists.
STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing don down during each etc few for from further get had has have having he her here
    hers him his how i if in into is it its itself just let may me might more most must my no nor not now of off on
    once one only or other our ours out over own per same she should so some such than that the their theirs them
    then there these they this those through to too two under until up upon us very via was we were what when where
    which while who whom why will with within without would you your yours
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Background:
    """The directions that were found, and how much of the documents lies in the second level."""

    first: Vectors
    """(k1, d) orthonormal rows."""
    second: Vectors
    """(≤ 2, d) orthonormal rows, orthogonal to `first`."""
    documents: int
    """N when they were found."""

    @property
    def all(self) -> Vectors:
        """(k, d): both levels."""
        return np.concatenate([self.first, self.second])


def top_directions(vectors: Vectors, count: int) -> Vectors:
    """float32 (count, d): the top right singular vectors, by the Gram matrix in float64; signs fixed."""
    dim = vectors.shape[1]
    gram = np.zeros((dim, dim))
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        gram += block.T @ block
    values, columns = np.linalg.eigh(gram)
    best = columns[:, ::-1][:, : min(count, int((values > values[-1] * 1e-12).sum()) if len(vectors) else 0)].T
    signs = np.sign(best[np.arange(len(best)), np.abs(best).argmax(axis=1)])[:, None] if len(best) else 1.0
    return np.ascontiguousarray(best * signs, np.float32)


def generic_directions(word_vectors: Vectors, first: Vectors, count: int = GENERIC_DIRECTIONS) -> Vectors:
    """float32 (≤ count, d): top singular vectors of generic words with U1 taken out; orthogonal to U1 (rule 1.4)."""
    rest = word_vectors.astype(np.float64)
    rest -= (rest @ first.T) @ first
    found = top_directions(rest.astype(np.float32), count).astype(np.float64)
    found -= (found @ first.T) @ first
    return np.linalg.qr(found.T)[0].T.astype(np.float32) if len(found) else found.astype(np.float32)


def random_directions(count: int, dim: int, *, seed: int) -> Vectors:
    """float32 (count, d) orthonormal: the control that should change nothing (rule 1.5)."""
    drawn = np.random.default_rng(seed).standard_normal((dim, count))
    return np.ascontiguousarray(np.linalg.qr(drawn)[0].T, np.float32)


def enough(documents: int, first: int) -> bool:
    """Whether that many documents can carry `first` directions and the generic ones (rule 1.4)."""
    return first > 0 and documents >= GUARD * (first + GENERIC_DIRECTIONS)


def directions_for(projection: Sequence[tuple[int, int]], documents: int) -> int:
    """k1 for a library of that size, by the encoder's profile; 0 where it has none (rules 1.4 and 1.5)."""
    chosen = 0
    for size, first in projection:
        if documents >= size:
            chosen = first
    return chosen if enough(documents, chosen) else 0


def coordinates(vectors: Vectors, background: Background) -> tuple[Vectors, NDArray[np.float32], float]:
    """d·U (N, k), the rescaling s (N,), and mean ‖U2ᵀd‖² of the rescaled documents (rules 4 and 5)."""
    exact = background.all.astype(np.float64).T  # equal documents get equal coordinates, whatever their rows
    coords = np.empty((len(vectors), exact.shape[1]), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        coords[start : start + _BLOCK] = vectors[start : start + _BLOCK].astype(np.float64) @ exact
    k1 = len(background.first)
    left = np.square(vectors, dtype=np.float64).sum(axis=1) - np.square(coords[:, :k1], dtype=np.float64).sum(axis=1)
    alive = left > VANISHED
    scale = np.zeros(len(vectors), np.float32)
    scale[alive] = 1.0 / np.sqrt(left[alive])
    second = np.square(coords[:, k1:] * scale[:, None], dtype=np.float64).sum(axis=1)
    return coords, scale, float(second[alive].mean()) if alive.any() else 0.0


def projected_scores(
    cosines: NDArray[Any], query: NDArray[Any], directions: Vectors, coords: NDArray[Any], scale: NDArray[np.float32]
) -> NDArray[Any]:
    """(N,) in the precision of what is given: q · P d for every document, from the cosines before projection."""
    scores: NDArray[Any] = scale * (cosines - coords @ (directions @ query))
    return scores
