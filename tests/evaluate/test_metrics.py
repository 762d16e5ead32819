"""Metrics against an independent implementation, and an interval that covers what it should."""

import random

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG

from metier.errors import InputError
from metier.evaluate.metrics import macro, measure, paired_bootstrap

PAIRS = [("mrr@10", RR @ 10), ("r@10", R @ 10), ("hit@1", Success @ 1), ("ndcg@10", nDCG @ 10), ("p@10", P @ 10),
         ("map@10", AP @ 10), ("r@50", R @ 50), ("ndcg@5", nDCG @ 5)]  # fmt: skip


def a_world(seed: int) -> tuple[dict[str, list[str]], dict[str, dict[str, float]]]:
    rng = random.Random(seed)
    docs = [f"d{n}" for n in range(80)]
    qrels = {f"q{n}": dict.fromkeys(rng.sample(docs, rng.randint(1, 12)), 1.0) for n in range(20)}
    rankings = {q: rng.sample(docs, rng.randint(1, 60)) for q in qrels}
    return rankings, qrels


@pytest.mark.parametrize(("name", "theirs"), PAIRS)
def test_each_metric_agrees_with_ir_measures(name: str, theirs: ir_measures.Measure) -> None:
    for seed in range(5):
        rankings, qrels = a_world(seed)
        run = {q: {d: float(len(r) - n) for n, d in enumerate(r)} for q, r in rankings.items()}
        whole = {q: {d: int(v) for d, v in gold.items()} for q, gold in qrels.items()}
        expected = {m.query_id: m.value for m in ir_measures.iter_calc([theirs], whole, run)}
        ours = dict(zip(qrels, measure(name, rankings, qrels), strict=True))
        assert ours == pytest.approx(expected, abs=1e-9)


def test_a_request_without_a_ranking_scores_zero_and_is_not_dropped() -> None:
    assert measure("mrr@10", {}, {"q": {"d": 1.0}}).tolist() == [0.0]


def test_full_coverage_wants_every_gold_skill() -> None:
    qrels = {"q": {"a": 1.0, "b": 1.0}}
    assert measure("fullcoverage@2", {"q": ["b", "a"]}, qrels).tolist() == [1.0]
    assert measure("completeness@2", {"q": ["a", "x", "b"]}, qrels).tolist() == [0.0]


def test_graded_relevance_enters_ndcg_linearly() -> None:
    qrels = {"q": {"a": 2.0, "b": 1.0}}
    worst = (1.0 + 2.0 / np.log2(3)) / (2.0 + 1.0 / np.log2(3))
    assert measure("ndcg@10", {"q": ["b", "a"]}, qrels)[0] == pytest.approx(worst)


@pytest.mark.parametrize("name", ["mrr", "mrr@0", "bleu@10", "", "mrr@x"])
def test_an_unknown_metric_is_named_with_what_there_is(name: str) -> None:
    with pytest.raises(InputError, match="mrr"):
        measure(name, {}, {})


def test_the_macro_mean_gives_each_dataset_the_same_weight() -> None:
    assert macro(np.array([1.0, 1.0, 1.0, 0.0]), ["a", "a", "a", "b"]) == 0.5


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(0, 5))
def test_a_constant_difference_has_an_interval_of_no_width(values: list[float], seed: int) -> None:
    a = np.array(values)
    found = paired_bootstrap(a, a + 0.25, seed=seed, resamples=200)
    assert found.delta == pytest.approx(0.25)
    assert (found.low, found.high) == (pytest.approx(0.25), pytest.approx(0.25))


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(0), 0
    for seed in range(200):
        a = rng.normal(0, 1, 80)
        found = paired_bootstrap(a, a + rng.normal(0.3, 1, 80), seed=seed, resamples=400)
        covered += found.low <= 0.3 <= found.high
    assert 0.89 <= covered / 200 <= 0.99


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(40), rng.random(40)
    assert paired_bootstrap(a, b, seed=3, resamples=500) == paired_bootstrap(a, b, seed=3, resamples=500)


def test_values_of_different_requests_cannot_be_paired() -> None:
    with pytest.raises(InputError, match="2 and 3"):
        paired_bootstrap(np.zeros(2), np.zeros(3))
