"""Weights, directions and fusion swept over their ranges; what is chosen on one half is reported on the other.

Each table is macro over datasets, in percent. A grid's own maximum flatters it: `halved` chooses on one stratified half
and reads the other, both ways (SkillRep, rules 1.2, 1.4, 1.6 and 1.16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from metier.evaluate.metrics import macro, paired_bootstrap
from metier.evaluate.sweep import Setting, Sweep

SHOWN = ("mrr@10", "r@10", "hit@1", "ndcg@10")
ALPHAS = tuple(round(0.1 * n, 1) for n in range(11))
FIRSTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""k1: the paper's grid is 1–3; with a small encoder the best grows with the library (methods 1.4)."""
W_Q = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
W_D = (0.0, 0.1, 0.2, 0.3, 0.4)


@dataclass(frozen=True, slots=True)
class Halves:
    """Two stratified halves of the requests, by position."""

    first: tuple[int, ...]
    second: tuple[int, ...]


def halves(datasets: Sequence[str], seed: int = 0) -> Halves:
    """Every dataset is split evenly, at random by `seed`; the odd one goes to the first half."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[int], list[int]] = ([], [])
    for name in dict.fromkeys(datasets):
        mine = [n for n, d in enumerate(datasets) if d == name]
        for place, n in enumerate(rng.permutation(len(mine)).tolist()):
            parts[place % 2].append(mine[n])
    return Halves(tuple(sorted(parts[0])), tuple(sorted(parts[1])))


def measured(sweep: Sweep, setting: Setting, names: Sequence[str] = SHOWN) -> dict[str, float]:
    """Percent, macro over datasets."""
    sets = sweep.arrays.datasets
    return {name: round(100 * macro(sweep.values(setting, name), sets), 2) for name in names}


def by_dataset(sweep: Sweep, setting: Setting, metric: str = "mrr@10") -> dict[str, float]:
    """Percent for each dataset alone."""
    values, sets = sweep.values(setting, metric), np.asarray(sweep.arrays.datasets)
    return {name: round(100 * float(values[sets == name].mean()), 2) for name in dict.fromkeys(sets.tolist())}


def row(sweep: Sweep, setting: Setting, **what: Any) -> dict[str, Any]:
    """One line of a table: what was set, its metrics, and MRR@10 of each dataset."""
    return {**what, "metrics": measured(sweep, setting), "by_dataset": by_dataset(sweep, setting)}


def alphas(base: Setting, values: Sequence[float] = ALPHAS) -> list[Setting]:
    """Fusion at every weight of the lexical channel (rule 1.6)."""
    return [replace(base, channels="fused", alpha=a) for a in values]


def firsts(base: Setting, values: Sequence[int] = FIRSTS) -> list[Setting]:
    """Two-level projection by k1 directions; 0 is none (rule 1.4)."""
    return [replace(base, step="two" if k else "none", first=max(k, 1)) for k in values]


def weights(base: Setting, w_q: Sequence[float] = W_Q, w_d: Sequence[float] = W_D) -> list[Setting]:
    """The pair (w_q, w_d) (rule 1.2)."""
    return [replace(base, w_q=q, w_d=d) for q in w_q for d in w_d]


def fusion(sweep: Sweep, base: Setting) -> dict[str, Any]:
    """Scores against ranks at one α, and against each channel alone, paired by request (rule 1.6)."""
    scores, ranks = (replace(base, channels=channels) for channels in ("fused", "ranks"))
    alone = {channels: replace(base, channels=channels) for channels in ("dense", "lexical")}
    sets, best = sweep.arrays.datasets, sweep.values(scores)
    return {
        "alpha": base.alpha,
        "scores": row(sweep, scores),
        "ranks": row(sweep, ranks),
        "scores_minus_ranks": paired_bootstrap(sweep.values(ranks), best, sets).as_dict(),
        **{
            f"scores_minus_{name}": paired_bootstrap(sweep.values(setting), best, sets).as_dict()
            for name, setting in alone.items()
        },
    }


def halved(sweep: Sweep, settings: Sequence[Setting], baseline: Setting, seed: int = 0) -> dict[str, Any]:
    """The best of `settings` on each stratified half, read on the other half against `baseline` (rule 1.16).

    `short_of_best` is what choosing there cost against the best that the reported half itself could have chosen.
    """
    sets, split = sweep.arrays.datasets, halves(sweep.arrays.datasets, seed)
    found = []
    for there, here in ((split.first, split.second), (split.second, split.first)):
        names = [sets[n] for n in here]

        def value(setting: Setting, rows: tuple[int, ...]) -> float:
            return macro(sweep.values(setting)[list(rows)], [sets[n] for n in rows])

        chosen = max(settings, key=lambda s: value(s, there))
        best = max(value(s, here) for s in settings)
        gain = paired_bootstrap(sweep.values(baseline)[list(here)], sweep.values(chosen)[list(here)], names)
        found.append(
            {
                "chosen": shown(chosen, baseline),
                "chosen_on": round(100 * value(chosen, there), 2),
                "reported_on": round(100 * value(chosen, here), 2),
                "short_of_best": round(100 * (best - value(chosen, here)), 2),
                "against_baseline": gain.as_dict(),
            }
        )
    return {
        "baseline": shown(baseline, None),
        "halves": found,
        "mean": round(float(np.mean([f["reported_on"] for f in found])), 2),
    }


def shown(setting: Setting, baseline: Setting | None) -> dict[str, Any]:
    """The fields of the setting, or only those in which it differs from the baseline."""
    mine = asdict(setting)
    return mine if baseline is None else {k: v for k, v in mine.items() if v != asdict(baseline)[k]}


def sweeps(sweep: Sweep, base: Setting, *, drafts: bool, seed: int = 0) -> Mapping[str, Any]:
    """All tables around `base`: α, k1, weights where there is something to mix, fusion, and the choices by halves."""
    tables: dict[str, Any] = {
        "base": asdict(base),
        "alpha": [row(sweep, s, alpha=s.alpha) for s in alphas(base)],
        "k1": [row(sweep, s, k1=0 if s.step == "none" else s.first) for s in firsts(replace(base, channels="dense"))],
        "fusion": fusion(sweep, base),
        "alpha_by_halves": halved(sweep, alphas(base), base, seed),
        "k1_by_halves": halved(sweep, firsts(base), base, seed),
    }
    w_q = W_Q if drafts else (0.0,)
    w_d = W_D if sweep.arrays.toward is not None or sweep.arrays.own is not None else (0.0,)
    if len(w_q) + len(w_d) > 2:
        grid = weights(base, w_q, w_d)
        tables["weights"] = [row(sweep, s, w_q=s.w_q, w_d=s.w_d) for s in grid]
        tables["weights_by_halves"] = halved(sweep, grid, replace(base, w_q=0.0, w_d=0.0), seed)
    return tables
