"""Okapi BM25, exact, over arrays that are mapped from disk and never decoded (SkillRep, rules 1.7 and 11).

    BM25(q, d) = Σ_t w_t · idf_t · tf(t, d) / (tf(t, d) + k1 · (1 − b + b · |d| / mean |d|))
    idf_t      = ln(1 + (N − df_t + ½) / (df_t + ½))
    w_t      = (k3 + 1) · n_t / (k3 + n_t),  n_t = its count in the request + ½ its count in hypothetical skills

Everything but w_t is fixed once the index is built, so it is stored as the *impact* of a posting. Words are found by a
64-bit hash in a sorted array; terms in a large part of all documents also have a plain row of impacts, because adding a
row is several times faster than scattering its postings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from metier.errors import IndexProblem
from metier.hashing import blake2b
from metier.late import dataclass
from metier.retrieve.background import STOP_WORDS

K1 = 1.5  # methods 1.7: how soon repeating a word stops counting
B = 0.75  # methods 1.7: how much a long document is discounted
K3 = 1.5  # how soon repeating a word in the request stops counting; as K1 does for documents (decision 0032)
HYPOTHETICAL_WEIGHT = 0.5  # methods 1.7: a term of a hypothetical skill against one of the request

Hashes = NDArray[np.uint64]
Scores = NDArray[np.float32]


def term_hash(word: str) -> int:
    """64 bits of blake2b: two of a million words collide with probability 3e-8."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def term_hashes(words: Iterable[str]) -> Hashes:
    """uint64, one per word, in order."""
    return np.fromiter((term_hash(word) for word in words), np.uint64)


def query_weights(request: Sequence[str], hypothetical: Iterable[Sequence[str]] = ()) -> dict[str, float]:
    """w_t of each word: 1 in the request, ½ in each hypothetical skill, saturating as in Okapi's query term (rule 1.7).

    Function words are left out unless there is nothing else; a word said five times weighs less than twice one said
    once (decision 0032).
    """
    counts: dict[str, float] = dict(Counter(request))
    for draft in hypothetical:
        for word in draft:
            counts[word] = counts.get(word, 0.0) + HYPOTHETICAL_WEIGHT
    content = {word: n for word, n in counts.items() if word not in STOP_WORDS} or counts
    return {word: (K3 + 1) * n / (K3 + n) for word, n in content.items()}


def idf(df: NDArray[np.int64], documents: int) -> NDArray[np.float64]:
    """Never negative, so a word that every skill uses cannot count against one that has it."""
    return np.log1p((documents - df + 0.5) / (df + 0.5))


def impacts(
    tf: NDArray[np.uint16], lengths: NDArray[np.int64], idf_of: NDArray[np.float64], mean_length: float
) -> NDArray[np.float32]:
    """float32 impact of each posting, given its document's length and its term's idf (all of one shape)."""
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1e-9))
    return (idf_of * tf / (tf + norm)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Bm25:
    """The lexical channel: postings by term, terms by hash. Arrays may be read-only and mapped."""

    hashes: Hashes
    """(T,) sorted."""
    starts: NDArray[np.int64]
    """(T + 1,) where each term's postings begin."""
    docs: NDArray[np.int32]
    """(P,) rows, ascending within a term."""
    impact: NDArray[np.float32]
    """(P,)"""
    plain: NDArray[np.float32]
    """(R, N) impacts of the R commonest terms, document by document."""
    plain_row: NDArray[np.int32]
    """(T,) row of `plain`, or −1."""
    size: int
    """N, the number of documents."""

    def scores(self, weights: Mapping[str, float]) -> Scores:
        """float32 (N,): the BM25 score of every document for a bag of weighted words."""
        total = np.zeros(self.size, np.float32)
        if not weights or not len(self.hashes):
            return total
        wanted = term_hashes(weights)
        order = np.argsort(wanted, kind="stable")  # a fixed order of addition: equal documents get equal scores
        weight = np.fromiter(weights.values(), np.float32)[order]
        wanted = wanted[order]
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        known = self.hashes[at] == wanted
        row = np.empty_like(total)
        try:
            for term, w in zip(at[known].tolist(), weight[known], strict=True):
                place = self.plain_row[term]
                if place >= 0:
                    np.multiply(self.plain[place], w, out=row)
                    total += row
                else:
                    span = slice(self.starts[term], self.starts[term + 1])
                    total[self.docs[span]] += self.impact[span] * w
        except IndexError as error:
            raise IndexProblem(f"the index's postings are damaged ({error}); run: metier index --full") from error
        return total

    def knows(self, words: Iterable[str]) -> NDArray[np.bool_]:
        """Which of the words occur in any document, in order."""
        wanted = term_hashes(words)
        if not len(self.hashes):
            return np.zeros(len(wanted), np.bool_)
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        found: NDArray[np.bool_] = self.hashes[at] == wanted
        return found
