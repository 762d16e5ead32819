"""A family's threshold from its own past tasks, each predicted without itself (SkillDelta, rule 3.4).

Three ways: the threshold that would have served best (with tokens priced, if a rate is given), a wanted use rate, or a
budget of extra tokens a task. What is fitted ranks below what the user states and above the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from metier.gate.bank import Bank
from metier.gate.gain import Rule, panel, predict, tasks
from metier.gate.pairs import Pairs, joined
from metier.gate.rows import bundle
from metier.gate.thresholds import eta_for_rate, eta_for_tokens, fit_eta

FEWEST = 20
"""Pairs of a family below which its own threshold would be noise: the default stays."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """One family's threshold and what it was fitted on."""

    family: str
    eta: float
    pairs: int
    how: str


def fit(
    bank: Bank, stack: str, families: Mapping[str, str], encoder: str, *,
    rate: float | None = None, tokens: float | None = None, exchange: float | None = None, rule: Rule | None = None,
) -> list[Fitted]:  # fmt: skip
    """Every family with enough pairs has a fitted threshold in the bank; what was fitted, by family."""
    grouped: dict[str, list[Pairs]] = {}
    for ids in bank.skills(stack):
        skill = bundle(ids)
        pairs = bank.pairs(stack, skill, encoder)
        if len(pairs) and pairs.vectors.shape[1]:
            newest = pairs.of(pairs.digests[int(np.argmax(pairs.at))])
            grouped.setdefault(families.get(skill, skill), []).append(pairs.where(newest & pairs.vectors.any(axis=1)))
    out = []
    for family, parts in sorted(grouped.items()):
        pairs = joined(parts)
        if len(pairs) < FEWEST:
            continue
        tau = _left_out(pairs, rule or Rule())
        extra = pairs.tokens1 - pairs.tokens0
        known = bool(np.isfinite(extra).all())
        if rate is not None:
            eta, how = eta_for_rate(tau, rate), f"use rate {rate:g}"
        elif tokens is not None:
            eta, how = eta_for_tokens(tau, extra, tokens), f"{tokens:g} extra tokens a task"
        else:
            price = exchange if known and exchange else 0.0
            eta = fit_eta(tau, pairs.gains, extra=extra if price else None, exchange=price)
            how = "success" + (f", {price:g} points per 1,000 tokens" if price else "")
        bank.keep_eta(stack, family, eta, f"{how}, {len(pairs)} pairs")
        out.append(Fitted(family, eta, len(pairs), how))
    return out


def _left_out(pairs: Pairs, rule: Rule) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Every pair's τ̂ from the others."""
    n = len(pairs)
    of = tasks([str(i) for i in range(n)], ["all"] * n, pairs.vectors)
    y0 = np.maximum(-pairs.gains, 0.0)  # only the difference enters the rule
    return predict(of, panel(of, y0, y0 + pairs.gains), rule).tau
