"""What a policy of using or skipping is worth on paired tasks, and against what it must be compared.

    success   = ȳ0 + mean(a·D)                                     a_i = 1: the skill is used on task i
    random    = ȳ0 + ā·mean(D)                                     exact, at the same use rate (SkillDelta, rule 3.9)
    advantage = success − random = between + within
    between   = Σ_g (n_g/n)(p_g − p)·D̄_g      within = (1/n) Σ_i (a_i − p_g(i))·D_i

The split is for held-out halves only: leave-one-out biases it (rule 3.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metier.errors import InputError

Floats = NDArray[np.float64]

PP = 100.0
"""Success to percent points."""
RESAMPLES = 4000
"""Bootstrap resamples: the ends of a 95% interval move by about 2% of its width between seeds."""
_BLOCK = 4_000_000  # drawn indices held at once: 32 MB


def auroc(positive: ArrayLike, scores: ArrayLike) -> float | None:
    """Probability that a positive scores above a negative, ties counting half; None with one class (rule 3.8)."""
    labels, values = np.asarray(positive, dtype=bool), np.asarray(scores, dtype=np.float64)
    if labels.shape != values.shape or not np.isfinite(values).all():
        raise InputError("AUROC needs one finite score for each label")
    n1 = int(labels.sum())
    n0 = len(labels) - n1
    if not n1 or not n0:
        return None
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[inverse.reshape(-1)]
    return float((ranks[labels].sum() - n1 * (n1 + 1) / 2.0) / (n1 * n0))


def balanced_accuracy(positive: ArrayLike, use: ArrayLike) -> float | None:
    """Mean of the true positive and the true negative rate; None with one class."""
    labels, chosen = np.asarray(positive, dtype=bool), np.asarray(use, dtype=bool)
    if labels.all() or not labels.any():
        return None
    return float((chosen[labels].mean() + (~chosen[~labels]).mean()) / 2.0)


def token_saving(tokens0: Floats, tokens1: Floats, use: ArrayLike, *, router: ArrayLike | float = 0.0) -> float | None:
    """1 − the policy's tokens over Always-on's; None where any task's tokens are unknown.

    Excludes what the bank cost to collect; `router` is what asking cost, zero for a rule that asks no model.
    """
    if np.isnan(tokens0).any() or np.isnan(tokens1).any() or not len(tokens1) or tokens1.mean() <= 0:
        return None
    spent = np.where(np.asarray(use, dtype=bool), tokens1, tokens0) + router
    return float(1.0 - spent.mean() / tokens1.mean())


def advantage(gains: Floats, use: ArrayLike) -> float:
    """Success above random use at the same rate, in success (rule 3.9)."""
    chosen = np.asarray(use, dtype=np.float64)
    return float((chosen * gains).mean() - chosen.mean() * gains.mean()) if len(gains) else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


def advantage_interval(gains: Floats, use: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The advantage with a paired bootstrap interval: tasks are drawn with their gain and their decision together."""
    return advantage_difference(gains, use, np.zeros(len(gains)), seed=seed, resamples=resamples)


def advantage_difference(
    gains: Floats, use: ArrayLike, other: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Advantage of `use` minus advantage of `other` on the same tasks, with its paired interval."""
    a, b = np.asarray(use, dtype=np.float64), np.asarray(other, dtype=np.float64)
    n = len(gains)
    if not n:
        return Interval(0.0, 0.0, 0.0)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    drawn: list[Floats] = []
    for start in range(0, resamples, block):
        at = rng.integers(0, n, size=(min(block, resamples - start), n))
        d = gains[at]
        step = a[at] - b[at]
        drawn.append((step * d).mean(axis=1) - step.mean(axis=1) * d.mean(axis=1))
    low, high = np.percentile(np.concatenate(drawn), [2.5, 97.5])
    return Interval(advantage(gains, a) - advantage(gains, b), float(low), float(high))


def between_within(gains: Floats, use: ArrayLike, families: Sequence[str]) -> tuple[float, float]:
    """(between, within) families, in success; they sum to the advantage (rule 3.9)."""
    chosen, labels = np.asarray(use, dtype=np.float64), np.asarray(families)
    n, p = len(gains), chosen.mean() if len(gains) else 0.0
    between = within = 0.0
    for family in dict.fromkeys(families):
        here = labels == family
        rate, share = chosen[here].mean(), here.sum() / n
        between += share * (rate - p) * gains[here].mean()
        within += float(((chosen[here] - rate) * gains[here]).sum()) / n
    return float(between), float(within)


def at_rate(scores: ArrayLike, rate: float) -> Floats:
    """Use probabilities of the policy that uses the top `rate` of tasks by score; ties share what is left over."""
    values = np.asarray(scores, dtype=np.float64)
    wanted = rate * len(values)
    use = np.zeros(len(values))
    for level in np.unique(values)[::-1]:
        here = values == level
        take = min(wanted, float(here.sum()))
        use[here] = take / here.sum()
        wanted -= take
        if wanted <= 0:
            break
    return use


def success(y0: Floats, gains: Floats, use: ArrayLike) -> float:
    """Mean success of the policy; `use` may hold probabilities."""
    return float((y0 + np.asarray(use, dtype=np.float64) * gains).mean()) if len(y0) else 0.0
