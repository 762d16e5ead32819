"""The gain rule with loops and no numpy arithmetic: what `metier.gate.gain` must agree with (methods 3)."""

from __future__ import annotations

import math


def unit(row):
    length = math.sqrt(math.fsum(x * x for x in row))
    return [x / length for x in row]


def answer(query, support, rule):
    """(tau, threshold, pool size) of a query (id, family, skill, vector); support rows go on with y0, y1."""
    q = unit(query[3])
    pool, rows = [], []
    for row in support:
        if row[0] == query[0]:
            continue
        if rule.scope == "family" and row[1] != query[1]:
            continue
        if rule.scope == "skill" and row[2] != query[2]:
            continue
        rows.append(row)
        pool.append((math.fsum(a * b for a, b in zip(q, unit(row[3]), strict=True)), row[5] - row[4]))
    if rule.threshold == "zero":
        threshold = 0.0
    elif rule.threshold == "prevalence":
        threshold = sum(1 for _, gain in pool if gain > 0) / len(pool) if pool else 0.0
    else:
        threshold = rule.threshold
    if not pool:
        return 0.0, threshold, 0
    # a stable sort by falling cosine; cosines that differ in the last bits only are ties
    near = sorted(pool, key=lambda pair: -round(pair[0], 12))[: rule.k]
    weights = [max(round(cosine, 12), 0.0) if rule.weighting == "cosine" else 1.0 for cosine, _ in near]
    if sum(weights) == 0:
        weights = [1.0] * len(near)
    values = [gain if rule.score == "signed" else float(gain > 0) for _, gain in near]
    total = math.fsum(weights)
    pull = 0.0
    if rule.toward == "skill":
        told = [gain if rule.score == "signed" else float(gain > 0) for _, gain in pool]
        mine = [t for t, row in zip(told, rows, strict=True) if row[2] == query[2]]
        pull = (math.fsum(mine) + 5 * math.fsum(told) / len(told)) / (len(mine) + 5)
    mean = total / len(near)
    weighed = math.fsum(w * v for w, v in zip(weights, values, strict=True)) + rule.kappa * mean * pull
    tau = weighed / (total + rule.kappa * mean)
    return tau, threshold, len(pool)
