"""When no skill is relevant the answer is none, with the near miss and why (SkillRep's retriever, rule 1.13).

The floor is on the best cosine before projection, fitted for each encoder at several library sizes: the maximum over N
skills grows with N, about linearly in log N.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from metier.types import Encoder

READABLE_SHARE = 0.5
"""An encoder that knows less than this share of a request: its vector says nothing, the lexical channel decides."""


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
