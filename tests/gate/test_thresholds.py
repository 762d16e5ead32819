"""Thresholds from a use rate, a token budget or past tasks; drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.errors import InputError
from metier.gate.thresholds import drift, eta_for, eta_for_rate, eta_for_tokens, fit_eta, token_price

TAUS = st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.3, 0.5, 1.0]), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(TAUS, st.floats(0, 1))
def test_a_wanted_use_rate_is_kept_and_not_undershot_needlessly(taus, rate):
    tau = np.array(taus)
    eta = eta_for_rate(tau, rate)
    assert np.mean(tau > eta) <= rate + 1e-12
    lower = sorted({t for t in taus if t < eta}, reverse=True)
    if lower and eta in taus:  # the next lower threshold would use too much
        assert np.mean(tau >= eta) > rate - 1e-12


@settings(max_examples=100, deadline=None)
@given(st.data(), TAUS)
def test_a_token_budget_is_kept_and_any_lower_threshold_would_break_it(data, taus):
    tau = np.array(taus)
    extra = np.array(data.draw(st.lists(st.integers(0, 100), min_size=len(taus), max_size=len(taus))), float)
    budget = data.draw(st.floats(0, 120))
    eta = eta_for_tokens(tau, extra, budget)
    assert np.sum(extra * (tau > eta)) / len(tau) <= budget + 1e-9
    candidates = sorted({*taus, -2.0})
    best = min(t for t in candidates if np.sum(extra * (tau > t)) / len(tau) <= budget + 1e-9)
    assert (tau > eta).tolist() == (tau > best).tolist()


def test_a_budget_over_unknown_tokens_is_an_error():
    with pytest.raises(InputError, match="unknown"):
        eta_for_tokens([0.1, 0.2], [1.0, float("nan")], 5)
    with pytest.raises(InputError, match="use rate"):
        eta_for_rate([0.1], 1.2)


@settings(max_examples=100, deadline=None)
@given(st.data(), TAUS)
def test_a_fitted_threshold_beats_every_other_on_the_tasks_it_was_fitted_on(data, taus):
    tau = np.array(taus)
    gains = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=len(taus), max_size=len(taus))))
    eta = fit_eta(tau, gains)
    best = max(np.sum(gains * (tau > t)) for t in [-2.0, *taus])
    assert np.sum(gains * (tau > eta)) == pytest.approx(best)


def test_of_equal_thresholds_the_one_nearest_zero_is_fitted():
    assert fit_eta([-0.5, 0.5], [-1.0, 1.0]) == 0.0
    assert 0.2 <= fit_eta([0.2, 0.5], [-1.0, 1.0]) < 0.5


def test_tokens_can_be_worth_more_than_the_gain():
    assert fit_eta([0.5], [0.1], extra=[5000.0], exchange=1.0) == 0.0
    eta = fit_eta([0.5, 0.4], [0.1, 0.1], extra=[20000.0, 100.0], exchange=1.0)
    assert eta >= 0.5 or eta < 0.4  # a costlier task with a higher τ̂ cannot be left out alone
    assert token_price(2000.0, 1.5) == pytest.approx(0.03) and token_price(2000.0, None) == 0


def test_drift_is_noticed_and_steadiness_is_not():
    rng = np.random.default_rng(5)
    steady = [abs(drift(rng.choice([-1, 0, 1], size=60, p=[0.1, 0.5, 0.4])) or 0) for _ in range(200)]
    assert np.mean(np.array(steady) > 3.0) < 0.02
    turned = [drift(np.concatenate([rng.choice([0, 1], size=40), rng.choice([-1, 0], size=20)])) for _ in range(50)]
    assert all(z is not None and z < -3.0 for z in turned)
    assert drift(np.ones(15)) is None and drift(np.ones(60)) == 0.0


def test_where_eta_comes_from_is_said():
    stated = {"id": 0.3, "fam": 0.2}
    assert eta_for("id", "n", "fam", default=0.0, stated=stated, fitted={}) == (0.3, "skill id in the configuration")
    assert eta_for("x", "n", "fam", default=0.0, stated=stated, fitted={"fam": 0.9})[0] == 0.2
    assert eta_for("x", "n", "g", default=0.0, stated=stated, fitted={"g": 0.9}) == (0.9, "fitted for family g")
    assert eta_for("x", "n", "h", default=0.05, stated=stated, fitted={"g": 0.9}) == (0.05, "default")
