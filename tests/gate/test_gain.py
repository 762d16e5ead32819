"""The gain predictor against loops, and its errors, shrinkage and intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.errors import BankError, InputError
from metier.gate import gain
from metier.gate.gain import KAPPA, Rule, beta_interval, estimate, gain_interval, panel, predict, tasks

from .oracle import answer

KNOBS = [
    Rule(k=k, scope=scope, weighting=weighting, score=score, threshold=threshold, kappa=shrink[0], toward=shrink[1])
    for k, scope, weighting, score, threshold, shrink in itertools.product(
        (1, 3, 6, 50), ("family", "global", "skill"), ("cosine", "uniform"), ("signed", "positive-label"),
        ("zero", "prevalence", 0.1), ((0.0, "zero"), (2.0, "zero"), (6.0, "skill")),
    )
]  # fmt: skip


def random_panel(rng):
    """A small panel with ties, negative cosines, lone families, duplicate vectors and repeated outcomes."""
    n, d = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    vectors = rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(n, d)).astype(float)
    vectors[~vectors.any(axis=1)] = 1.0
    twins = rng.integers(0, n, size=n // 3)
    vectors[twins] = vectors[rng.integers(0, n, size=n // 3)]
    families = [f"f{rng.integers(0, 4)}" for _ in range(n)]
    skills = [f"s{rng.integers(0, 6)}" for _ in range(n)]
    levels = int(rng.choice([1, 3, 1000]))
    y0, y1 = (rng.integers(0, levels + 1, size=n) / levels for _ in range(2))
    return [f"t{i}" for i in range(n)], families, skills, vectors, y0, y1


def test_the_rule_agrees_with_loops_on_a_thousand_random_panels_with_every_knob():
    rng = np.random.default_rng(20261130)
    for number in range(1000):
        ids, families, skills, vectors, y0, y1 = random_panel(rng)
        support = panel(tasks(ids, families, vectors, skills=skills), y0, y1)
        rule = KNOBS[number % len(KNOBS)]
        found = predict(support.tasks, support, rule)
        rows = list(zip(ids, families, skills, vectors.tolist(), y0.tolist(), y1.tolist(), strict=True))
        for i, row in enumerate(rows):
            tau, threshold, size = answer(row, rows, rule)
            assert found.tau[i] == pytest.approx(tau, abs=1e-9), (number, rule, i)
            assert found.threshold[i] == pytest.approx(threshold, abs=1e-9)
            assert found.support[i] == size
            if abs(tau - threshold) > 1e-9:
                assert found.use[i] == (tau > threshold)


def test_the_rule_agrees_with_loops_for_tasks_outside_the_support():
    rng = np.random.default_rng(7)
    for number in range(100):
        ids, families, skills, vectors, y0, y1 = random_panel(rng)
        rows = list(zip(ids, families, skills, vectors.tolist(), y0.tolist(), y1.tolist(), strict=True))
        half = len(ids) // 2
        support = panel(tasks(ids[:half], families[:half], vectors[:half], skills=skills[:half]), y0[:half], y1[:half])
        asked = tasks(ids[half:], families[half:], vectors[half:], skills=skills[half:])
        rule = KNOBS[(number * 37) % len(KNOBS)]
        found = predict(asked, support, rule)
        for i, row in enumerate(rows[half:]):
            tau, threshold, size = answer(row, rows[:half], rule)
            assert (found.tau[i], found.threshold[i], found.support[i]) == (
                pytest.approx(tau, abs=1e-9),
                pytest.approx(threshold, abs=1e-9),
                size,
            )


def test_the_answer_for_one_task_is_the_answer_for_many():
    rng = np.random.default_rng(3)
    for _ in range(200):
        m, k = int(rng.integers(8, 40)), int(rng.integers(1, 8))
        vectors = rng.normal(size=(m + 1, 4)) + 1.5  # near enough that nothing is shrunk
        y0, y1 = rng.random(m + 1), rng.random(m + 1)
        support = panel(tasks([str(i) for i in range(m + 1)], ["f"] * (m + 1), vectors), y0, y1)
        many = predict(support.tasks.take([0]), support, Rule(k=k))
        near = gain.cosines(support.tasks.vectors[:1], support.tasks.vectors[1:])[0]
        one = estimate(near, support.gains[1:], Rule(k=k))
        assert one is not None and not one.shrunk
        assert one.tau == pytest.approx(many.tau[0], abs=1e-12)
        assert (one.neighbours + 1).tolist() == many.neighbours[0].tolist()
        assert one.weights == pytest.approx(many.weights[0], abs=1e-12)


def test_ties_keep_the_order_of_the_bank():
    vectors = np.array([[1.0, 0.0]] * 5 + [[3.0, 0.0]])
    support = panel(tasks(list("abcdef"), ["f"] * 6, vectors), [0] * 6, [1, 0, 0, 0, 0, 1])
    found = predict(support.tasks, support, Rule(k=2))
    assert found.neighbours.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]


def test_a_task_is_never_its_own_neighbour_nor_part_of_its_pool():
    support = panel(tasks(["a", "b"], ["f", "f"], [[1.0, 0.0], [0.0, 1.0]]), [0, 0], [1, 0])
    found = predict(support.tasks, support, Rule(threshold="prevalence"))
    assert found.neighbours[0].tolist() == [1, -1, -1, -1, -1, -1]
    assert found.threshold.tolist() == [0.0, 1.0]
    assert found.support.tolist() == [1, 1]


def test_neighbours_without_any_cosine_count_alike():
    support = panel(tasks(["a", "b", "c"], ["f"] * 3, [[1, 0], [-1, 0], [-2, 0]]), [0, 0, 1], [0, 1, 1])
    found = predict(support.tasks, support, Rule())
    assert found.tau[0] == pytest.approx(0.5)
    assert found.weights[0].tolist() == [1, 1, 0, 0, 0, 0]


def test_a_gain_of_exactly_the_threshold_does_not_load():
    support = panel(tasks(["a", "b"], ["f", "f"], [[1, 0], [1, 0]]), [0, 0.5], [0, 1])
    assert not predict(support.tasks, support, Rule(threshold=0.5)).use[0]
    assert predict(support.tasks, support, Rule(threshold=0.4999)).use[0]


def test_an_empty_pool_predicts_no_gain_with_no_support():
    support = panel(tasks(["a", "b"], ["f", "g"], [[1, 0], [1, 0]]), [0, 0], [1, 1])
    found = predict(support.tasks, support, Rule())
    assert found.tau.tolist() == [0, 0] and found.support.tolist() == [0, 0] and not found.use.any()
    assert estimate(np.zeros(0), np.zeros(0), Rule()) is None


@pytest.mark.parametrize(
    ("ids", "vectors", "y1", "says"),
    [
        (["a", "a"], [[1, 0], [0, 1]], [0, 1], "'a' appears twice"),
        (["a", "b"], [[1, 0], [0, 0]], [0, 1], "'b' (row 1) is all zeros"),
        (["a", "b"], [[1, 0], [np.nan, 1]], [0, 1], "'b' (row 1) has a value that is not finite"),
        (["a", "b"], [[1, 0], [np.inf, 1]], [0, 1], "'b' (row 1) has a value that is not finite"),
        (["a", "b"], [[1, 0], [0, 1]], [0, 1.01], "y1 of task 'b' is 1.01"),
        (["a", "b"], [[1, 0], [0, 1]], [0, -0.5], "y1 of task 'b' is -0.5"),
        (["a", "b"], [[1, 0], [0, 1]], [0, np.nan], "y1 of task 'b' is nan"),
        (["a", "b"], [[1, 0]], [0, 1], "2 ids but 1 vectors"),
        (["a", "b"], [[1, 0], [0, 1]], [0], "one success for each"),
    ],
)
def test_a_panel_that_cannot_be_right_is_an_error_that_names_the_row(ids, vectors, y1, says):
    with pytest.raises(BankError, match=says.replace("(", r"\(").replace(")", r"\)")):
        panel(tasks(ids, ["f"] * len(ids), vectors), [0] * len(y1), y1)


def test_vectors_of_unequal_dimensions_are_an_error():
    support = panel(tasks(["a"], ["f"], [[1.0, 0.0]]), [0], [1])
    with pytest.raises(BankError, match="3 dimensions and the past ones 2"):
        predict(tasks(["q"], ["f"], [[1.0, 0.0, 0.0]]), support, Rule())


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "6"])
def test_a_k_below_one_is_an_error(k):
    with pytest.raises(InputError, match="k is"):
        Rule(k=k)


@pytest.mark.parametrize("knob", [{"scope": "x"}, {"weighting": "x"}, {"score": "x"}, {"threshold": "x"},
                                  {"threshold": math.nan}, {"kappa": -1.0}])  # fmt: skip
def test_an_unknown_knob_is_an_error(knob):
    with pytest.raises(InputError):
        Rule(**knob)


def test_few_neighbours_are_shrunk_by_two_pseudo_neighbours_of_mean_weight():
    near, gains = np.array([0.9, 0.5]), np.array([1.0, 1.0])
    found = estimate(near, gains, Rule(k=6))
    assert found is not None and found.shrunk
    assert found.tau == pytest.approx(1.4 / (1.4 + KAPPA * 0.7))
    assert found.interval[0] < found.tau < found.interval[1] < 1.0


def test_a_poor_neighbourhood_is_shrunk_even_when_it_is_large():
    far = estimate(np.full(10, 0.1), np.ones(10), Rule(k=6))
    close = estimate(np.full(10, 0.9), np.ones(10), Rule(k=6))
    assert far is not None and close is not None
    assert far.tau == pytest.approx(6 / 8) and close.tau == pytest.approx(1.0)


def test_the_shrunk_gain_is_the_mean_of_the_distribution_its_interval_comes_from():
    for gains in ([1.0], [1.0, -1.0, 0.0], [0.25, 0.5]):
        found = estimate(np.full(len(gains), 0.8), np.array(gains), Rule(k=6))
        assert found is not None
        a, b = 1 + (len(gains) + sum(gains)) / 2, 1 + (len(gains) - sum(gains)) / 2
        assert found.tau == pytest.approx(2 * a / (a + b) - 1)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (1, 7), (4, 4), (30, 5), (400, 300)])
def test_beta_intervals_agree_with_the_exact_binomial_sums(a, b):
    def below(x):  # P(Beta(a, b) ≤ x) = P(Binomial(a + b − 1, x) ≥ a) for whole a and b
        n = a + b - 1
        return math.fsum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))

    low, high = beta_interval(a, b, level=0.9)
    assert below(low) == pytest.approx(0.05, abs=2e-3)
    assert below(high) == pytest.approx(0.95, abs=2e-3)


def test_more_pairs_narrow_the_interval():
    widths = [np.diff(gain_interval(0.2 * n, n))[0] for n in (1, 5, 20, 100, 1000)]
    assert all(a > b for a, b in itertools.pairwise(widths))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=30),
    st.integers(1, 10),
    st.sampled_from(["cosine", "uniform"]),
)
def test_an_estimate_lies_within_its_neighbours_gains_and_its_interval(rows, k, weighting):
    near, gains = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    found = estimate(near, gains, Rule(k=k, weighting=weighting))
    assert found is not None
    used = gains[found.neighbours]
    assert min(used.min(), 0) - 1e-9 <= found.tau <= max(used.max(), 0) + 1e-9
    assert -1 <= found.interval[0] <= found.tau <= found.interval[1] <= 1
    assert found.support == len(rows) and len(found.neighbours) == min(k, len(rows))


def test_an_estimate_may_be_pulled_towards_the_mean_of_the_skill_and_its_family():
    near, gains = np.full(8, 0.5), np.array([1.0] * 6 + [-1.0] * 2)
    found = estimate(near, gains, Rule(k=6, kappa=6.0, toward="skill"), kin=0.2)
    own = (4 + 5 * 0.2) / (8 + 5)
    assert found is not None and found.tau == pytest.approx((6 * 1.0 + 6 * own) / 12)
    few = estimate(near[:3], gains[:3], Rule(k=6, kappa=6.0, toward="skill"), kin=1.0)
    assert few is not None and few.tau == pytest.approx((3 + 6) / (3 + 6 + KAPPA))


def test_old_rows_with_half_the_trust_weigh_half():
    found = estimate(np.array([0.8, 0.8]), np.array([1.0, -1.0]), Rule(k=2), trust=np.array([1.0, 0.5]))
    assert found is not None
    assert found.tau == pytest.approx((0.8 - 0.4) / 1.2)
