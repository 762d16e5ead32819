"""When no skill is relevant the answer is none, with the near miss and why (rule 1.13).

The best cosine alone does not tell small talk from short requests: at 12,610 skills half of written needless messages
reach what the lowest 2% of real requests reach (decision 0033). So an encoder that was fitted has a *judge*,

    needed = w · q + a · max_d cos(q, d) + b · ln(1 + min(words, 12)) + c · ln N + e  ≥ 0

w tells what a message is about, the cosine whether something here fits it, N how high the best of N reaches by chance.
Encoders without a judge have their profile's floor on the cosine, by library size; without either, nothing abstains.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.late import dataclass
from metier.types import Encoder

if TYPE_CHECKING:
    from metier.types import Vectors

READABLE_SHARE = 0.5
"""An encoder that knows less than this share of a request: its vector says nothing, the lexical channel decides."""
CLEAR = 0.6
"""A skill this near is an answer, whatever the message reads like: 99% of needless ones stay below at 12,610 skills."""
WORDS_COUNTED = 12
"""Longer is no more a request than this: people also tell long stories that want nothing (decision 0033)."""
JUDGES = Path(__file__).parent / "data" / "judges.json"
"""Fitted by benchmarks/abstain.py on training/needless*.jsonl and requests that do need a skill; by encoder."""


@dataclass(frozen=True, slots=True)
class Judge:
    """One encoder's rule; positive means that a skill may be needed."""

    topic: Vectors
    """(d,)"""
    cosine: float
    words: float
    size: float
    bias: float

    def needed(self, query: Vectors, cosine: float, words: int, size: int) -> float:
        """Log-odds that a request with this vector, best cosine and number of words needs one of `size` skills."""
        return (
            float(self.topic @ query)
            + self.cosine * cosine
            + self.words * math.log1p(min(words, WORDS_COUNTED))
            + self.size * math.log(max(size, 1))
            + self.bias
        )


@lru_cache(maxsize=4)
def judge_of(encoder: str | None, path: Path = JUDGES) -> Judge | None:
    """The judge fitted for the encoder of that identity (`vectors.identity`), or None."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    found = known.get(encoder)
    if found is None:
        return None
    topic = np.frombuffer(base64.b64decode(found["topic"]), "<f2").astype(np.float32)
    return Judge(topic, found["cosine"], found["words"], found["size"], found["bias"])


def floor_at(floor: Sequence[tuple[int, float]], size: int) -> float | None:
    """The floor for a library of `size` skills, interpolated in log size; None when none was fitted."""
    if not floor:
        return None
    points = sorted(floor)
    if size <= points[0][0]:
        return points[0][1]
    for (n0, f0), (n1, f1) in itertools.pairwise(points):
        if size <= n1:
            return f0 + (f1 - f0) * (math.log(size) - math.log(n0)) / (math.log(n1) - math.log(n0))
    return points[-1][1]


def reads(encoder: Encoder | None, text: str) -> bool:
    """Whether the encoder knows at least half of the text's letters, where it can tell (its `readable`)."""
    share = getattr(encoder, "readable", None)
    return share is None or float(share(text)) >= READABLE_SHARE
