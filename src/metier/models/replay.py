"""The fakes that metier ships, so that tests and demonstrations need no model and no mock.

`HashEncoder` places texts by the words and letter groups they share. It knows no synonyms, but texts about the same
thing lie close and others do not, always in the same way on every machine.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from metier.text import words
from metier.types import Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors

DIM = 256
GRAMS = (3, 4)
"""Letter groups of a word: long enough to tell words apart, short enough to survive inflection."""
GRAM_WEIGHT = 0.3
"""Of a letter group against its whole word, so that an exact word counts for more than a similar one."""
_COMMON = "a an and are as at be by can do for from has have i if in into is it its me my not of on or our so that the"
_COMMON += " their them then these this to up us was we when will with you your"
COMMON = frozenset(_COMMON.split())
COMMON_WEIGHT = 0.1
"""Of words that say nothing about the subject."""


class HashEncoder:
    """Deterministic unit vectors from hashed words and letter groups; the same for queries and documents."""

    def __init__(self, dim: int = DIM) -> None:
        self.profile = Profile(f"hash-{dim}", dim, 8192)

    def __repr__(self) -> str:
        return f"HashEncoder({self.profile.dim})"

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 (len(texts), dim) unit rows; a text without words is a row of zeros."""
        vectors = np.zeros((len(texts), self.profile.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word, count in Counter(words(text)[: self.profile.max_tokens]).items():
                weight = (1 + np.log(count)) * (COMMON_WEIGHT if word in COMMON else 1.0)
                for feature, share in _features(word):
                    code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                    row[(code >> 1) % len(row)] += weight * share * (1 if code & 1 else -1)
            length = np.sqrt(np.dot(row, row))
            if length > 0:
                row /= length
        return vectors


def _features(word: str) -> Iterator[tuple[str, float]]:
    yield word, 1.0
    bounded = f"<{word}>"
    for size in GRAMS:
        for start in range(len(bounded) - size + 1):
            yield f"{size}{bounded[start : start + size]}", GRAM_WEIGHT
