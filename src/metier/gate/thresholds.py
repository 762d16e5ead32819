"""Where η comes from when nobody states it, and when old evidence should no longer be believed (SkillDelta, 3.4).

rate     the smallest η with  mean[τ̂ > η] ≤ r            a wanted use rate
tokens   the smallest η with  mean[Δtokens · 1(τ̂ > η)] ≤ b   extra tokens a task, on average
fitted   argmax_η  mean[(D − λ·Δtokens) · 1(τ̂ > η)]        past tasks, each predicted without itself
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metier.errors import InputError

Floats = NDArray[np.float64]

POINT = 0.01
"""One success point, in success."""
PER_TOKENS = 1000.0
"""Exchange rates are stated per this many tokens."""
RECENT = 1.0 / 3.0
"""Share of the newest pairs that drift sets against the older ones: enough rows for a mean of their own."""
DRIFT_Z = 3.0
"""|z| from which drift is reported: one false alarm in 370 stable skills."""
MIN_DRIFT = 6
"""Fewest pairs on either side before drift is judged."""


def eta_for_rate(tau: ArrayLike, rate: float) -> float:
    """The smallest threshold under which at most `rate` of the tasks would use the skill."""
    if not 0.0 <= rate <= 1.0:
        raise InputError(f"use rate is {rate}; it is a share between 0 and 1")
    values = np.sort(np.asarray(tau, dtype=np.float64))[::-1]
    allowed = int(np.floor(rate * len(values) + 1e-9))
    return float(values[allowed]) if allowed < len(values) else _below(values)


def eta_for_tokens(tau: ArrayLike, extra: ArrayLike, budget: float) -> float:
    """The smallest threshold under which using costs at most `budget` extra tokens a task on average.

    `extra` (n,) is what the skill adds to each task's tokens; it may be negative.
    """
    values, cost = np.asarray(tau, dtype=np.float64), np.asarray(extra, dtype=np.float64)
    if values.shape != cost.shape or not np.isfinite(cost).all():
        raise InputError("a token budget needs the extra tokens of every task; some are unknown")
    order = np.argsort(-values, kind="stable")
    values, spent = values[order], np.cumsum(cost[order]) / max(len(cost), 1)
    last = np.append(values[1:] != values[:-1], True)  # tasks of equal τ̂ are used together or not at all
    for at in np.flatnonzero(last & (spent <= budget))[::-1]:
        return float(values[at + 1]) if at + 1 < len(values) else _below(values)
    return float(values[0]) if len(values) else 0.0


def fit_eta(tau: ArrayLike, gains: ArrayLike, *, extra: ArrayLike | None = None, exchange: float = 0.0) -> float:
    """The threshold that would have served the past tasks best; of equals, the one nearest zero.

    `tau` must be leave-one-out. `exchange`: success points that 1,000 tokens are worth.
    """
    values, worth = np.asarray(tau, dtype=np.float64), np.asarray(gains, dtype=np.float64).copy()
    if extra is not None and exchange:
        worth -= token_price(np.asarray(extra, dtype=np.float64), exchange)
    order = np.argsort(-values, kind="stable")
    ranked, total = values[order], np.concatenate(([0.0], np.cumsum(worth[order])))
    best: tuple[float, float] | None = None
    for used in range(len(ranked) + 1):
        if 0 < used < len(ranked) and ranked[used] == ranked[used - 1]:
            continue
        upper = ranked[used - 1] if used else np.inf
        lower = ranked[used] if used < len(ranked) else -np.inf
        eta = float(min(max(0.0, lower), np.nextafter(upper, -np.inf)))  # nearest zero with lower ≤ η < upper
        if not np.isfinite(eta):
            eta = 0.0
        if best is None or (total[used], -abs(eta)) > (best[0], -abs(best[1])):
            best = (float(total[used]), eta)
    return best[1] if best else 0.0


def token_price(tokens: Floats | float, exchange: float | None) -> Floats | float:
    """What tokens cost, in success, at `exchange` success points per 1,000 tokens (rule 3.4)."""
    return 0.0 if not exchange else tokens * (exchange * POINT / PER_TOKENS)


def drift(gains: ArrayLike) -> float | None:
    """z of the newest third's mean gain against the older ones', gains in order of time; None with too few pairs."""
    values = np.asarray(gains, dtype=np.float64)
    recent = int(np.ceil(len(values) * RECENT))
    old, new = values[: len(values) - recent], values[len(values) - recent :]
    if min(len(old), len(new)) < MIN_DRIFT:
        return None
    # A gain is bounded by ±1, so a side without any spread still gets the spread of one dissenting row.
    floor = 1.0 / len(values)
    spread = np.sqrt(max(old.var(ddof=1), floor) / len(old) + max(new.var(ddof=1), floor) / len(new))
    return float((new.mean() - old.mean()) / spread)


def eta_for(
    skill_id: str, name: str, family: str, *, default: float, stated: Mapping[str, float], fitted: Mapping[str, float]
) -> tuple[float, str]:
    """The threshold in force and where it came from: user's skill, user's family, fitted family, default (3.4)."""
    for key, where in ((skill_id, "skill"), (name, "skill"), (family, "family")):
        if key in stated:
            return stated[key], f"{where} {key} in the configuration"
    if family in fitted:
        return fitted[family], f"fitted for family {family}"
    return default, "default"


def _below(values: Floats) -> float:
    return float(np.nextafter(values[-1], -np.inf)) if len(values) else 0.0
