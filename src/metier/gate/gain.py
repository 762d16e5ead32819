"""How much a skill is expected to help on this very task, from paired past tasks (paper: SkillDelta).

    D_i  = y1_i − y0_i                                     one past task, with the skill and without it
    τ̂(t) = Σ_{i ∈ N_k(t)} w_i · D_i / Σ w_i                w_i = max(cos(t, t_i), 0)
    use  ⇔ τ̂(t) > η                                        strict

Two doors to the same rule: `predict` answers for many tasks at once (evaluation, leave-one-task-out), `estimate`
for one task against one pool (the Gate stage). Neither ever reads the outcome of the task it answers for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metier.errors import BankError, InputError
from metier.late import dataclass

Floats = NDArray[np.float64]

K = 6  # SkillDelta, rule 3.1: neighbours
KAPPA = 2.0
"""Rule 3.5: pseudo-neighbours of no gain, each of mean weight. Two make the estimate the mean of a Beta posterior
under the uniform prior, so that the estimate and its interval are the same statement."""
PRIOR = 5.0
"""Rows of the pool's mean that a skill's own mean starts from, where estimates are shrunk towards it; the middle of the
flat stretch measured on public pairs (decision 0042)."""
NEAR = 0.25
"""Cosine below which a past task says little about this one: unrelated requests stay under it (rule 1.13)."""
LEVEL = 0.95
"""Mass of the interval shown beside an estimate."""
_GRID = np.linspace(-1.0, 1.0, 129)  # points over ±8 standard deviations of the Beta: quantiles to 1e-3 of its width
_REACH = 8.0
_EDGE = 1e-15  # keeps both logarithms finite
_DECIMALS = 12  # cosines equal to this many places are ties; float64 dot products differ by 1e-16 between kernels
_BLOCK = 1024  # asked tasks per similarity block: bounds memory at 8 MB per thousand past tasks

GainScope = Literal["family", "global", "skill"]
Weighting = Literal["cosine", "uniform"]
Score = Literal["signed", "positive-label"]
Toward = Literal["zero", "skill"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Every knob of the predictor (rules 3.1, 3.5); the defaults are the paper's."""

    k: int = K
    scope: GainScope = "family"
    weighting: Weighting = "cosine"
    score: Score = "signed"
    """`signed` averages D; `positive-label` averages [D > 0]."""
    threshold: float | Literal["zero", "prevalence"] = "zero"
    """`prevalence`: the share of D > 0 in the pool."""
    kappa: float = 0.0
    """Shrinkage, in neighbours of mean weight; 0 is the paper's rule."""
    toward: Toward = "zero"
    """What estimates shrink to: no gain, or the mean gain of the skill's other tasks (decision 0042)."""

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k is {self.k!r}; it counts neighbours and must be an integer of at least 1")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}; use one of {', '.join(allowed)}")
        bad = isinstance(self.threshold, str) and self.threshold not in ("zero", "prevalence")
        if bad or (not isinstance(self.threshold, str) and not np.isfinite(self.threshold)):
            raise InputError(f"threshold is {self.threshold!r}; use zero, prevalence or a finite number")
        if not (np.isfinite(self.kappa) and self.kappa >= 0):
            raise InputError(f"kappa is {self.kappa!r}; shrinkage must be a finite number of at least 0")


_CHOICES: dict[str, tuple[str, ...]] = {
    "scope": ("family", "global", "skill"),
    "weighting": ("cosine", "uniform"),
    "score": ("signed", "positive-label"),
    "toward": ("zero", "skill"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """Tasks as the predictor sees them: no outcome. Made by `tasks`, which checks them (rule 3.2)."""

    ids: tuple[str, ...]
    families: tuple[str, ...]
    skills: tuple[str, ...]
    vectors: Floats
    """(n, d), rows of length 1."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Tasks:
        """Those rows, in that order."""
        at = [int(i) for i in rows]
        return Tasks(
            tuple(self.ids[i] for i in at),
            tuple(self.families[i] for i in at),
            tuple(self.skills[i] for i in at),
            self.vectors[np.asarray(at, dtype=np.intp)],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Past tasks with the mean success of both arms over their repeats. Made by `panel`."""

    tasks: Tasks
    y0: Floats
    y1: Floats

    @property
    def gains(self) -> Floats:
        return self.y1 - self.y0

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Panel:
        """Those rows, in that order."""
        at = np.asarray(rows, dtype=np.intp)
        return Panel(self.tasks.take(at), self.y0[at], self.y1[at])


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What the rule says about n tasks, with its reasons."""

    tau: Floats
    threshold: Floats
    use: NDArray[np.bool_]
    support: NDArray[np.intp]
    """Size of each task's pool."""
    neighbours: NDArray[np.intp]
    """(n, k) rows of the support panel, nearest first; −1 where the pool had fewer."""
    weights: Floats
    """(n, k), zero where there is no neighbour."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The expected gain on one task, and the past tasks it rests on."""

    tau: float
    interval: tuple[float, float]
    support: int
    neighbours: NDArray[np.intp]
    weights: Floats
    shrunk: bool


def tasks(
    ids: Sequence[str], families: Sequence[str], vectors: ArrayLike, *, skills: Sequence[str] | None = None
) -> Tasks:
    """Checked tasks with unit vectors; `skills` default to the families.

    Raises `BankError` naming the row: duplicate ids, unequal lengths, zero or non-finite vectors (rule 3.2).
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if matrix.ndim != 2:
        raise BankError(f"vectors have {matrix.ndim} dimensions; give one row of equal length per task")
    for what, values in (("families", families), ("vectors", matrix), ("skills", ids if skills is None else skills)):
        if len(values) != len(ids):
            raise BankError(f"there are {len(ids)} ids but {len(values)} {what}; give one for each task")
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise BankError(f"id {name!r} appears twice; every task needs an id of its own")
        seen.add(name)
    lengths = np.linalg.norm(matrix, axis=1)
    for bad, why in ((~np.isfinite(lengths), "has a value that is not finite"), (lengths == 0, "is all zeros")):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BankError(f"the vector of task {ids[row]!r} (row {row}) {why}; encode that task again")
    unit = matrix / lengths[:, None] if len(matrix) else matrix
    labels = tuple(families)
    return Tasks(tuple(ids), labels, labels if skills is None else tuple(skills), unit)


def panel(of: Tasks, y0: ArrayLike, y1: ArrayLike) -> Panel:
    """Checked outcomes for checked tasks. Raises `BankError`: success missing or outside [0, 1] (rule 3.2)."""
    arms = [np.asarray(y, dtype=np.float64) for y in (y0, y1)]
    for name, values in zip(("y0", "y1"), arms, strict=True):
        if values.shape != (len(of),):
            raise BankError(f"{name} has shape {values.shape}; give one success for each of the {len(of)} tasks")
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BankError(f"{name} of task {of.ids[row]!r} is {values[row]}; success lies between 0 and 1")
    return Panel(of, arms[0], arms[1])


def cosines(asked: Floats, past: Floats) -> Floats:
    """(n, m) cosines of unit rows, rounded so that ties are ties: equal past rows get equal values to the bit."""
    if asked.shape[1] != past.shape[1]:
        raise BankError(
            f"the asked tasks have {asked.shape[1]} dimensions and the past ones {past.shape[1]}; "
            "encode both with one encoder"
        )
    if not len(past):
        return np.zeros((len(asked), 0))
    first: dict[bytes, int] = {}
    same = [first.setdefault(row.tobytes(), number) for number, row in enumerate(past)]
    near: Floats = np.round(asked @ past.T, _DECIMALS)
    return near if len(first) == len(past) else near[:, same]


def predict(asked: Tasks, support: Panel, rule: Rule) -> Predictions:
    """The rule's answer for every asked task (SkillDelta, rule 3.1).

    A past task with the asked task's id is never its neighbour, nor part of its pool. Ties keep the order of the
    support. An empty pool gives τ̂ = 0 with support 0. Raises `BankError` where dimensions differ.
    """
    n, k = len(asked), rule.k
    found = Predictions(
        np.zeros(n),
        np.zeros(n),
        np.zeros(n, bool),
        np.zeros(n, np.intp),
        np.full((n, k), -1, np.intp),
        np.zeros((n, k)),
    )
    gains = support.gains
    value = gains if rule.score == "signed" else (gains > 0).astype(np.float64)
    place = {name: row for row, name in enumerate(support.tasks.ids)}
    own = np.array([place.get(name, -1) for name in asked.ids], dtype=np.intp)
    if asked.vectors.shape[1] != support.tasks.vectors.shape[1] and n and len(support):
        cosines(asked.vectors[:1], support.tasks.vectors[:1])  # names both dimensions
    for rows, pool in _groups(asked, support.tasks, rule.scope):
        for start in range(0, len(rows), _BLOCK):
            _answer(found, rows[start : start + _BLOCK], pool, own, asked, support, gains, value, rule)
    np.greater(found.tau, found.threshold, out=found.use)
    return found


def _groups(asked: Tasks, past: Tasks, scope: GainScope) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(asked rows, past rows they may learn from) for each family, each skill, or all together."""
    if scope == "global":
        return [(np.arange(len(asked)), np.arange(len(past)))]
    mine, theirs = (asked.families, past.families) if scope == "family" else (asked.skills, past.skills)
    pools: dict[str, list[int]] = {}
    for row, label in enumerate(theirs):
        pools.setdefault(label, []).append(row)
    wanted: dict[str, list[int]] = {}
    for row, label in enumerate(mine):
        wanted.setdefault(label, []).append(row)
    return [
        (np.array(rows, dtype=np.intp), np.array(pools.get(label, []), dtype=np.intp)) for label, rows in wanted.items()
    ]


def _answer(
    found: Predictions, rows: NDArray[np.intp], pool: NDArray[np.intp], own: NDArray[np.intp],
    asked: Tasks, support: Panel, gains: Floats, value: Floats, rule: Rule,
) -> None:  # fmt: skip
    """The answers of one block of asked tasks that share a pool are filled in."""
    if not isinstance(rule.threshold, str):
        found.threshold[rows] = rule.threshold
    if not len(pool):
        return
    near = cosines(asked.vectors[rows], support.tasks.vectors[pool])
    itself = pool[None, :] == own[rows, None]
    size = len(pool) - itself.sum(axis=1)
    found.support[rows] = size
    if rule.threshold == "prevalence":
        positive = gains[pool] > 0
        count = positive.sum() - (itself & positive[None, :]).sum(axis=1)
        found.threshold[rows] = np.divide(count, size, out=np.zeros(len(rows)), where=size > 0)
    order = np.argsort(np.where(itself, np.inf, -near), axis=1, kind="stable")[:, : rule.k]
    real = np.arange(order.shape[1])[None, :] < size[:, None]
    weights = _weights(np.take_along_axis(near, order, axis=1), real, rule)
    chosen = pool[order]
    total = weights.sum(axis=1)
    mean = np.divide(total, real.sum(axis=1), out=np.zeros(len(rows)), where=size > 0)
    weighed, total = (weights * value[chosen]).sum(axis=1), total + rule.kappa * mean
    if rule.kappa and rule.toward == "skill":
        weighed = weighed + rule.kappa * mean * _skill_means(value[pool], itself, pool, rows, asked, support)
    found.tau[rows] = np.divide(weighed, total, out=np.zeros(len(rows)), where=total > 0)
    found.neighbours[rows, : order.shape[1]] = np.where(real, chosen, -1)
    found.weights[rows, : order.shape[1]] = weights


def _skill_means(
    value: Floats, itself: NDArray[np.bool_], pool: NDArray[np.intp], rows: NDArray[np.intp], asked: Tasks, past: Panel
) -> Floats:
    """The mean of the asked task's skill in its pool, itself left out, started from `PRIOR` rows of the pool's mean."""
    labels = {name: code for code, name in enumerate(dict.fromkeys(past.tasks.skills))}
    codes = np.array([labels[past.tasks.skills[i]] for i in pool], dtype=np.intp)
    mine = np.array([labels.get(asked.skills[i], -1) for i in rows], dtype=np.intp)
    same = (codes[None, :] == mine[:, None]) & ~itself
    others = len(pool) - itself.sum(axis=1)
    everyone = np.divide(value.sum() - itself @ value, others, out=np.zeros(len(rows)), where=others > 0)
    means: Floats = (same @ value + PRIOR * everyone) / (same.sum(axis=1) + PRIOR)
    return means


def _weights(near: Floats, real: NDArray[np.bool_], rule: Rule) -> Floats:
    """Non-negative weights of the neighbours; all zero becomes uniform (rule 3.1)."""
    if rule.weighting == "uniform":
        return real.astype(np.float64)
    weights = np.where(real, np.maximum(near, 0.0), 0.0)
    return np.where(weights.sum(axis=1, keepdims=True) > 0, weights, real.astype(np.float64))


def estimate(
    near: Floats, gains: Floats, rule: Rule, *, trust: Floats | None = None, kin: float = 0.0
) -> Estimate | None:
    """The expected gain on one task from a pool of m past ones; None when the pool is empty.

    `near` (m,) cosines, `gains` (m,) D, `trust` (m,) factors on the weights (stale rows, rule 3.3), `kin` the mean gain
    of the family, which a mean of the skill starts from. With fewer than k neighbours, or none nearer than `NEAR`, the
    estimate is shrunk by at least `KAPPA` (rule 3.5).
    """
    if not len(gains):
        return None
    near = np.round(near, _DECIMALS)
    order = np.argsort(-near, kind="stable")[: rule.k]
    weights = np.ones(len(order)) if rule.weighting == "uniform" else np.maximum(near[order], 0.0)
    if not weights.any():
        weights = np.ones(len(order))
    if trust is not None:
        weights = weights * trust[order]
    total = float(weights.sum())
    value = gains[order] if rule.score == "signed" else (gains[order] > 0).astype(np.float64)
    poor = len(order) < rule.k or float(near[order[0]]) < NEAR
    kappa = max(KAPPA, rule.kappa) if poor else rule.kappa
    weighed, mean = float(weights @ value), total / len(order)
    pull = 0.0
    if rule.toward == "skill":
        everything = gains if rule.score == "signed" else (gains > 0).astype(np.float64)
        pull = rule.kappa * float((everything.sum() + PRIOR * kin) / (len(gains) + PRIOR))
        kappa = rule.kappa + (KAPPA if poor else 0.0)  # few past tasks stay pulled to no gain as well (rule 3.5)
    tau = (weighed + mean * pull) / (total + kappa * mean) if total > 0 else 0.0
    scaled = weights * (len(order) / total) if total > 0 else weights
    effective = float(scaled.sum() if trust is None else (scaled * trust[order]).sum())
    low, high = gain_interval(weighed / total * effective if total > 0 else 0.0, effective)
    interval = min(low, tau), max(high, tau)  # unshrunk, an all-positive neighbourhood lies at the posterior's edge
    return Estimate(tau, interval, len(gains), order, weights, kappa > 0)


def gain_interval(summed: float, count: float, *, level: float = LEVEL) -> tuple[float, float]:
    """Credible interval of a mean gain after `count` gains that sum to `summed` (rule 3.5).

    (1 + D)/2 lies in [0, 1]; under the uniform prior its mean is Beta(1 + (count+summed)/2, 1 + (count−summed)/2).
    """
    low, high = beta_interval(1.0 + (count + summed) / 2.0, 1.0 + (count - summed) / 2.0, level=level)
    return 2.0 * low - 1.0, 2.0 * high - 1.0


def seen_interval(gains: Floats, *, level: float = LEVEL) -> tuple[float, float]:
    """The same for gains at hand, widened to hold their mean: unanimous gains lie at the posterior's edge."""
    if not len(gains):
        return gain_interval(0.0, 0.0, level=level)
    mean = float(gains.mean())
    low, high = gain_interval(float(gains.sum()), len(gains), level=level)
    return min(low, mean), max(high, mean)


def beta_interval(a: float, b: float, *, level: float = LEVEL) -> tuple[float, float]:
    """The central interval of Beta(a, b) for a, b ≥ 1, by integrating its density on a grid about its mean."""
    mean = a / (a + b)
    spread = _REACH * np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    start, end = max(mean - spread, _EDGE), min(mean + spread, 1.0 - _EDGE)
    x = (start + end) / 2.0 + (end - start) / 2.0 * _GRID
    log = (a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x)
    density = np.exp(log - log.max())
    mass = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    tail = (1.0 - level) / 2.0 * mass[-1]
    low, high = np.interp((tail, mass[-1] - tail), mass, x)
    return float(low), float(high)
