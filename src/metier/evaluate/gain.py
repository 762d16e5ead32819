"""Whether the gate is worth having: its rule on a panel of paired outcomes, against everything simpler (SkillDelta).

    leave-one-task-out      every task predicted from the others of its family
    holdout(seed)           a stratified half of each family is the support, the other half is judged

The acceptance figures are success and tokens at matched rate, not AUROC (rule 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.evaluate import policy
from metier.evaluate.panel import Recorded
from metier.gate.gain import Panel, Predictions, Rule, Tasks, predict, seen_interval
from metier.text import words

Floats = NDArray[np.float64]

SCHEMA = "metier-eval-gate-v1"
NEIGHBOURS = (1, 2, 3, 6, 10, 20, 50)
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
SWEEP_SEEDS = 5
"""Draws of the support for each point of a sweep."""
BINS = 8
CURVE = 41
"""Thresholds of the success-against-tokens curve."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """Predictions for the judged rows of a panel, by one rule."""

    recorded: Recorded
    """The judged rows."""
    support: Recorded
    rule: Rule
    found: Predictions
    holdout: int | None
    all_rows: int

    @property
    def gains(self) -> Floats:
        return self.recorded.panel.gains


def evaluate(recorded: Recorded, rule: Rule, *, holdout: int | None = None) -> Evaluated:
    """Every task judged from the others, or the second half of each family from the first."""
    judged, support = (recorded, recorded) if holdout is None else halves(recorded, holdout)
    found = predict(judged.panel.tasks, support.panel, rule)
    return Evaluated(judged, support, rule, found, holdout, len(recorded))


def halves(recorded: Recorded, seed: int) -> tuple[Recorded, Recorded]:
    """(judged, support): half of each family, drawn by the seed, is support; the odd task is judged."""
    rng = np.random.default_rng(seed)
    families = np.asarray(recorded.panel.tasks.families)
    support = np.zeros(len(recorded), dtype=bool)
    for family in sorted(set(families.tolist())):
        rows = np.flatnonzero(families == family)
        support[rng.permutation(rows)[: len(rows) // 2]] = True
    return recorded.take(np.flatnonzero(~support)), recorded.take(np.flatnonzero(support))


def report(done: Evaluated) -> dict[str, Any]:
    """The stable JSON of `metier eval gate` (interfaces.md), with a few keys more."""
    panel, found, gains = done.recorded.panel, done.found, done.gains
    y0, y1 = panel.y0, panel.y1
    matched = policy.advantage_interval(gains, found.use)
    split = policy.between_within(gains, found.use, panel.tasks.families) if done.holdout is not None else None
    return {
        "schema": SCHEMA,
        "rows": len(panel),
        "panel_rows": done.all_rows,
        "protocol": "leave-one-task-out" if done.holdout is None else f"holdout seed {done.holdout}",
        "rule": rule_dict(done.rule),
        "predictions": [
            {"id": name, "tau": float(found.tau[i]), "threshold": float(found.threshold[i]), "use": bool(found.use[i])}
            for i, name in enumerate(panel.tasks.ids)
        ],
        "policy": {
            "success": policy.success(y0, gains, found.use),
            "always_off": float(y0.mean()),
            "always_on": float(y1.mean()),
            "use_rate": float(found.use.mean()),
            "token_saving": policy.token_saving(done.recorded.tokens0, done.recorded.tokens1, found.use),
        },
        "matched_rate": {
            "advantage_pp": matched.value * policy.PP,
            "ci95": [matched.low * policy.PP, matched.high * policy.PP],
            "between_pp": None if split is None else split[0] * policy.PP,
            "within_pp": None if split is None else split[1] * policy.PP,
        },
        "auroc": policy.auroc(gains > 0, found.tau),
        "balanced_accuracy": policy.balanced_accuracy(gains > 0, found.use),
        "gain_mae": float(np.abs(found.tau - gains).mean()),
        "note": "token saving leaves out what the bank cost to collect; the rule itself asks no model",
    }


def rule_dict(rule: Rule) -> dict[str, Any]:
    """The knobs by name."""
    return {name: getattr(rule, name) for name in ("k", "scope", "weighting", "score", "threshold", "kappa", "toward")}


# -------------------------------------------------------------------------------------------------------- baselines


def baselines(done: Evaluated, skills: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The gate and everything it must beat, each with success, use rate, tokens, AUROC and advantage (rule 3.8).

    Policies that only rank are given the gate's own use rate. `skills`: skill id → text, for lexical relevance.
    """
    rows, gains = done.recorded, done.gains
    panel, n, rate = rows.panel, len(rows), float(done.found.use.mean())
    table = [
        _line("always off", rows, np.zeros(n)),
        _line("always on", rows, np.ones(n)),
        _line("random at the gate's rate (exact)", rows, np.full(n, rate)),
        _line("gate", rows, done.found.use.astype(np.float64), done.found.tau),
    ]
    ranked = {
        "with-skill-only": with_skill_only(panel.tasks, done.support.panel, done.rule),
        "family mean": family_mean(panel.tasks, done.support.panel),
    }
    relevance = None if skills is None else lexical(rows, skills)
    if relevance is not None:
        ranked["lexical relevance"] = relevance
    for name, scores in ranked.items():
        table.append(_line(f"{name}, at the gate's rate", rows, policy.at_rate(scores, rate), scores))
    table.append(_line("family mean > 0", rows, (ranked["family mean"] > 0).astype(np.float64), ranked["family mean"]))
    if not np.isnan(rows.self_use).any():
        router = np.nan_to_num(rows.router_tokens)
        table.append(_line("self-judge", rows, rows.self_use, rows.self_use, router=router))
    table.append(_line("oracle (not attainable)", rows, (gains > 0).astype(np.float64), gains))
    return table


def _line(
    name: str, rows: Recorded, use: Floats, scores: Floats | None = None, *, router: Floats | float = 0.0
) -> dict[str, Any]:
    gains = rows.panel.gains
    known = not (np.isnan(rows.tokens0).any() or np.isnan(rows.tokens1).any())
    return {
        "policy": name,
        "success": policy.success(rows.panel.y0, gains, use),
        "use_rate": float(use.mean()),
        "advantage_pp": policy.advantage(gains, use) * policy.PP,
        "auroc": None if scores is None else policy.auroc(gains > 0, scores),
        "tokens": float((rows.tokens0 + use * (rows.tokens1 - rows.tokens0) + router).mean()) if known else None,
        "token_saving": float(
            1.0 - (rows.tokens0 + use * (rows.tokens1 - rows.tokens0) + router).mean() / rows.tokens1.mean()
        ) if known and rows.tokens1.mean() > 0 else None,
    }  # fmt: skip


def with_skill_only(asked: Tasks, support: Panel, rule: Rule) -> Floats:
    """Success with the skill predicted on the same neighbours, the other arm unread: what paired history must beat."""
    only = Panel(support.tasks, np.zeros(len(support)), support.y1)
    return predict(asked, only, replace(rule, score="signed", threshold="zero")).tau


def family_mean(asked: Tasks, support: Panel) -> Floats:
    """The mean gain of the family's other tasks; 0 where there are none."""
    total: dict[str, float] = {}
    count: dict[str, int] = {}
    own: dict[tuple[str, str], float] = {}
    for name, family, gain in zip(support.tasks.ids, support.tasks.families, support.gains.tolist(), strict=True):
        total[family] = total.get(family, 0.0) + gain
        count[family] = count.get(family, 0) + 1
        own[family, name] = gain
    means = []
    for name, family in zip(asked.ids, asked.families, strict=True):
        mine = (family, name) in own
        others = count.get(family, 0) - mine
        means.append((total.get(family, 0.0) - own.get((family, name), 0.0)) / others if others else 0.0)
    return np.array(means)


def lexical(rows: Recorded, skills: Mapping[str, str]) -> Floats | None:
    """Relevance of each task to its skill's text: cosine of TF-IDF words; None where a text is not at hand."""
    names = rows.panel.tasks.skills
    needed = sorted({part for name in names for part in name.split("+")})
    if any(part not in skills for part in needed) or any(text is None for text in rows.texts):
        return None
    documents = {name: words(" ".join(skills[part] for part in name.split("+"))) for name in set(names)}
    frequency: dict[str, int] = {}
    for found in documents.values():
        for word in set(found):
            frequency[word] = frequency.get(word, 0) + 1
    total = len(documents)

    def weighed(found: Sequence[str]) -> dict[str, float]:
        counts: dict[str, float] = {}
        for word in found:
            counts[word] = counts.get(word, 0.0) + float(np.log((total + 1) / (frequency.get(word, 0) + 1)) + 1.0)
        length = float(np.sqrt(sum(v * v for v in counts.values()))) or 1.0
        return {word: value / length for word, value in counts.items()}

    vectors = {name: weighed(found) for name, found in documents.items()}
    return np.array(
        [
            sum(value * vectors[name].get(word, 0.0) for word, value in weighed(words(text or "")).items())
            for name, text in zip(names, rows.texts, strict=True)
        ]
    )


# ----------------------------------------------------------------------------------------------- sweeps and curves


def sweep_k(recorded: Recorded, rule: Rule) -> list[dict[str, float]]:
    """Gain error, AUROC and advantage by the number of neighbours, leave-one-task-out."""
    return [{"k": k, **_figures(recorded, recorded, replace(rule, k=k))} for k in NEIGHBOURS]


def sweep_support(recorded: Recorded, rule: Rule) -> list[dict[str, float]]:
    """The same by how much of a held-out half's partner serves as support, mean over seeds."""
    out = []
    for share in SHARES:
        drawn = []
        for seed in range(SWEEP_SEEDS):
            judged, support = halves(recorded, seed)
            rng = np.random.default_rng(seed)
            keep = rng.permutation(len(support))[: max(1, round(share * len(support)))]
            drawn.append(_figures(judged, support.take(np.sort(keep)), rule))
        means = {key: float(np.mean([each[key] for each in drawn])) for key in drawn[0]}
        out.append({"share": share, "n": float(max(1, round(share * len(support)))), **means})
    return out


def sweep_repeats(recorded: Recorded, rule: Rule) -> list[dict[str, float]]:
    """The same by how many repeats of each past task are averaged; empty where single runs were not recorded."""
    told = [each for each in recorded.repeats if each is not None]
    if len(told) < len(recorded):
        return []
    most = min(min(len(without), len(used)) for without, used in told)
    out = []
    for count in [r for r in (1, 2, 3, 5, 8, 16) if r <= most]:
        y0 = np.array([without[:count].mean() for without, _ in told])
        y1 = np.array([used[:count].mean() for _, used in told])
        support = replace(recorded, panel=Panel(recorded.panel.tasks, y0, y1))
        out.append({"repeats": float(count), **_figures(recorded, support, rule)})
    return out


def leave_family_out(recorded: Recorded, rule: Rule) -> list[dict[str, Any]]:
    """Each family predicted from all the others: what the rule is worth where it has never been (shift)."""
    families = np.asarray(recorded.panel.tasks.families)
    out: list[dict[str, Any]] = []
    for family in sorted(set(families.tolist())):
        here = np.flatnonzero(families == family)
        rest = np.flatnonzero(families != family)
        if len(rest):
            figures = _figures(recorded.take(here), recorded.take(rest), replace(rule, scope="global"))
            out.append({"family": family, "n": len(here), **figures})
    return out


def _figures(judged: Recorded, support: Recorded, rule: Rule) -> dict[str, float]:
    found, gains = predict(judged.panel.tasks, support.panel, rule), judged.panel.gains
    area = policy.auroc(gains > 0, found.tau)
    return {
        "gain_mae": float(np.abs(found.tau - gains).mean()),
        "auroc": float("nan") if area is None else area,
        "advantage_pp": policy.advantage(gains, found.use) * policy.PP,
        "use_rate": float(found.use.mean()),
    }


def calibration(done: Evaluated) -> list[dict[str, float]]:
    """Observed gain against predicted gain in bins of equal size, with a 95% interval."""
    order = np.argsort(done.found.tau, kind="stable")
    out = []
    for rows in np.array_split(order, min(BINS, len(order))):
        if len(rows):
            observed = done.gains[rows]
            low, high = seen_interval(observed)
            out.append({"tau": float(done.found.tau[rows].mean()), "gain": float(observed.mean()), "low": low,
                        "high": high, "n": float(len(rows))})  # fmt: skip
    return out


def curve(done: Evaluated) -> list[dict[str, float | None]]:
    """Success, use rate and tokens as the threshold rises from 'always' to 'never'."""
    tau, rows = done.found.tau, done.recorded
    grid = np.unique(np.quantile(tau, np.linspace(0.0, 1.0, CURVE)))
    out: list[dict[str, float | None]] = []
    for eta in [float(np.nextafter(grid[0], -np.inf)), *grid.tolist()]:
        use = (tau > eta).astype(np.float64)
        line = _line("", rows, use)
        out.append({"eta": eta, "success": line["success"], "use_rate": line["use_rate"], "tokens": line["tokens"]})
    return out
