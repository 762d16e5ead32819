"""Ranking metrics and the paired bootstrap.

For a request with gold set G and a ranking r_1, r_2, …:

    RR@k = 1/rank of the first gold within k     R@k = |G ∩ top k| / |G|       Hit@1 = [r_1 ∈ G]
    NDCG@k = DCG@k / ideal DCG@k, linear gain    FullCoverage@k = Completeness@k = [G ⊆ top k]

A request without a ranking scores zero; it is not dropped (methods 6.4). Values are fractions; print them × 100.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metier.errors import InputError

Ranking = Sequence[str]
Gold = Mapping[str, float]
"""Document id → relevance; binary judgements are 1.0 each."""
Values = NDArray[np.float64]

REPORTED = (
    "mrr@10",
    "r@10",
    "hit@1",
    "ndcg@10",
    "r@20",
    "r@50",
    "fullcoverage@10",
    "completeness@10",
    "map@10",
    "p@10",
)
RESAMPLES = 10_000
"""Bootstrap resamples; the interval's ends move by less than 0.1 of their width between seeds."""


def _rr(ranking: Ranking, gold: Gold, k: int) -> float:
    return next((1.0 / n for n, doc in enumerate(ranking[:k], start=1) if gold.get(doc, 0.0) > 0), 0.0)


def _recall(ranking: Ranking, gold: Gold, k: int) -> float:
    wanted = {doc for doc, value in gold.items() if value > 0}
    return len(wanted.intersection(ranking[:k])) / len(wanted) if wanted else 0.0


def _precision(ranking: Ranking, gold: Gold, k: int) -> float:
    return sum(gold.get(doc, 0.0) > 0 for doc in ranking[:k]) / k


def _ndcg(ranking: Ranking, gold: Gold, k: int) -> float:
    gains = [gold.get(doc, 0.0) for doc in ranking[:k]]
    ideal = sorted(gold.values(), reverse=True)[:k]
    best = sum(g / np.log2(n + 1) for n, g in enumerate(ideal, start=1))
    return float(sum(g / np.log2(n + 1) for n, g in enumerate(gains, start=1)) / best) if best > 0 else 0.0


def _average_precision(ranking: Ranking, gold: Gold, k: int) -> float:
    wanted, found, total = sum(v > 0 for v in gold.values()), 0, 0.0
    for n, doc in enumerate(ranking[:k], start=1):
        if gold.get(doc, 0.0) > 0:
            found += 1
            total += found / n
    return total / wanted if wanted else 0.0


def _complete(ranking: Ranking, gold: Gold, k: int) -> float:
    return float(_recall(ranking, gold, k) == 1.0)


_MEASURES: Mapping[str, Callable[[Ranking, Gold, int], float]] = {
    "mrr": _rr, "r": _recall, "hit": lambda r, g, k: float(_rr(r, g, k) > 0), "ndcg": _ndcg, "p": _precision,
    "map": _average_precision, "fullcoverage": _complete, "completeness": _complete,
}  # fmt: skip


def measure(name: str, rankings: Mapping[str, Ranking], qrels: Mapping[str, Gold]) -> Values:
    """One value per request of `qrels`, in its order. `name` is a measure and a cut-off, such as `mrr@10`."""
    match = re.fullmatch(r"([a-z]+)@([1-9][0-9]*)", name)
    if match is None or match[1] not in _MEASURES:
        raise InputError(f"{name!r} is no metric; use one of {', '.join(_MEASURES)} with a cut-off, such as mrr@10")
    function, k = _MEASURES[match[1]], int(match[2])
    return np.array([function(rankings.get(q, ()), gold, k) for q, gold in qrels.items()], dtype=np.float64)


def macro(values: Values, datasets: Sequence[str]) -> float:
    """The mean over datasets of the mean within each."""
    labels = np.asarray(datasets)
    return float(np.mean([values[labels == name].mean() for name in dict.fromkeys(datasets)])) if len(values) else 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """b − a with its 95% interval."""

    delta: float
    low: float
    high: float
    n: int

    def as_dict(self, scale: float = 100.0) -> dict[str, object]:
        """In percent points by default."""
        return {
            "delta": round(self.delta * scale, 2),
            "ci95": [round(self.low * scale, 2), round(self.high * scale, 2)],
            "n": self.n,
        }


def paired_bootstrap(
    a: Values, b: Values, datasets: Sequence[str] | None = None, *, seed: int = 0, resamples: int = RESAMPLES
) -> Difference:
    """The macro difference b − a over the same requests, resampled within each dataset; percentile interval."""
    if a.shape != b.shape:
        raise InputError(f"paired values differ in number: {len(a)} and {len(b)}; compare runs over the same requests")
    labels = np.asarray(datasets if datasets is not None else ["all"] * len(a))
    differences, rng = (b - a).astype(np.float64), np.random.default_rng(seed)
    groups = [differences[labels == name] for name in dict.fromkeys(labels.tolist())]
    if not groups:
        return Difference(0.0, 0.0, 0.0, 0)
    draws = np.mean([_resampled_means(g, rng, resamples) for g in groups], axis=0)
    low, high = np.percentile(draws, [2.5, 97.5])
    return Difference(float(np.mean([g.mean() for g in groups])), float(low), float(high), len(a))


def _resampled_means(values: Values, rng: np.random.Generator, resamples: int) -> Values:
    """Means of `resamples` draws with replacement, in blocks so that memory stays small."""
    n, block = len(values), max(1, 4_000_000 // max(1, len(values)))
    parts = [
        values[rng.integers(0, n, size=(min(block, resamples - start), n))].mean(axis=1)
        for start in range(0, resamples, block)
    ]
    return np.concatenate(parts)
