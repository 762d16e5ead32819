"""Which diagnostic goes with which module's gain: rank correlations, with the other diagnostics held still.

    ρ(x, y) = Pearson of the ranks        ρ(x, y | z) = Pearson of what z does not explain of either's ranks

SkillRep, rule 1.16. Intervals are percentile bootstraps over requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
RESAMPLES = 500
"""Enough for two digits of a correlation's interval."""
LEAST = 8
"""Fewer requests than this say nothing about a correlation with two others held still."""


def ranks(values: Values) -> Values:
    """Ranks from 1, ties at their mean."""
    order = np.argsort(values, kind="stable")
    _, first, counts = np.unique(values[order], return_index=True, return_counts=True)
    out = np.empty(len(values))
    out[order] = np.repeat(first + (counts + 1) / 2, counts)
    return out


def pearson(x: Values, y: Values) -> float:
    """NaN when either does not vary."""
    a, b = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum() / scale) if scale > 1e-12 else float("nan")


def spearman(x: Values, y: Values) -> float:
    """Rank correlation, ties at their mean rank."""
    return pearson(ranks(x), ranks(y))


def partial(x: Values, y: Values, others: Values) -> float:
    """Spearman's ρ of x and y with the columns of `others` (n, k) held still, on ranks by least squares."""
    if others.shape[1] == 0:
        return spearman(x, y)
    held = np.column_stack([np.ones(len(x)), *(ranks(column) for column in others.T)])
    left = [v - held @ np.linalg.lstsq(held, v, rcond=None)[0] for v in (ranks(x), ranks(y))]
    return pearson(left[0], left[1])


def correlation(x: Values, y: Values, others: Values | None = None, *, seed: int = 0) -> dict[str, Any]:
    """{rho, ci95, n}, over the rows where everything is known; rho is null where there are too few or none vary."""
    held = np.zeros((len(x), 0)) if others is None else others
    known = ~(np.isnan(x) | np.isnan(y) | np.isnan(held).any(axis=1))
    x, y, held = x[known], y[known], held[known]
    if len(x) < LEAST:
        return {"rho": None, "ci95": None, "n": len(x)}
    value, rng = partial(x, y, held), np.random.default_rng(seed)
    if np.isnan(value):
        return {"rho": None, "ci95": None, "n": len(x)}
    draws = [partial(x[at], y[at], held[at]) for at in rng.integers(0, len(x), size=(RESAMPLES, len(x)))]
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return {"rho": round(value, 3), "ci95": [round(float(low), 3), round(float(high), 3)], "n": len(x)}


def between(columns: Mapping[str, Values], *, seed: int = 0) -> list[dict[str, Any]]:
    """Every pair of diagnostics."""
    names = list(columns)
    return [
        {"x": a, "y": b, **correlation(columns[a], columns[b], seed=seed)}
        for n, a in enumerate(names)
        for b in names[n + 1 :]
    ]


def with_gains(
    diagnostics: Mapping[str, Values], gains: Mapping[str, Values], *, seed: int = 0
) -> list[dict[str, Any]]:
    """Each module's gain with each diagnostic, plainly and with the other diagnostics held still."""
    rows = []
    for module, gain in gains.items():
        for name, values in diagnostics.items():
            others = np.column_stack([v for other, v in diagnostics.items() if other != name] or [np.zeros(0)])
            others = others if len(others) == len(values) else np.zeros((len(values), 0))
            rows.append(
                {
                    "module": module,
                    "diagnostic": name,
                    "plain": correlation(values, gain, seed=seed),
                    "partial": correlation(values, gain, others, seed=seed),
                }
            )
    return rows
