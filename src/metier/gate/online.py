"""What single arms can and cannot say (SkillDelta, rule 3.13).

    μ̂_a = Σ y/p / Σ 1/p        over rows of arm a whose probability p of being taken was logged (exploration, rule 3.4a)

Their difference is shown, labelled as what it is, and never enters τ̂. Self-selected use after an offer is counted and
shown: nobody knows what would have happened without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metier.gate.rows import COUNTED
from metier.store import Store

Z95 = 1.959964
"""Normal quantile of a 95% interval."""
FEWEST = 5
"""Rows of each arm below which a difference of randomised arms is not worth an interval."""


@dataclass(frozen=True, slots=True)
class Randomised:
    """The propensity-weighted difference of randomised single arms."""

    gain: float
    low: float
    high: float
    used: int
    skipped: int


def randomised(store: Store, stack: str, skill: str, digest: str) -> Randomised | None:
    """The weighted difference for one skill as it is now; None with too few rows of either arm."""
    rows = store.rows(
        "SELECT arm, success, propensity FROM outcomes WHERE stack = ? AND skill = ? AND digest = ?"
        f" AND {COUNTED} AND propensity IS NOT NULL AND success IS NOT NULL AND arm IN ('use', 'skip')",
        (stack, skill, digest),
    )
    means: dict[str, tuple[float, float, int]] = {}
    for arm in ("use", "skip"):
        told = np.array([(row["success"], 1.0 / row["propensity"]) for row in rows if row["arm"] == arm])
        if len(told) < FEWEST:
            return None
        y, w = told[:, 0], told[:, 1]
        mean = float((w * y).sum() / w.sum())
        # of the weighted mean; a floor of one dissenting row keeps unanimous arms from certainty
        spread = max(float((w**2 * (y - mean) ** 2).sum() / w.sum() ** 2), 1.0 / (4.0 * len(y) ** 2))
        means[arm] = (mean, spread, len(y))
    gain = means["use"][0] - means["skip"][0]
    reach = Z95 * float(np.sqrt(means["use"][1] + means["skip"][1]))
    return Randomised(gain, max(gain - reach, -1.0), min(gain + reach, 1.0), means["use"][2], means["skip"][2])
