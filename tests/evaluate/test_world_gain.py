"""Claims about the gate, tested where the truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metier.evaluate.world_gain import World, draw, worth
from metier.gate.gain import Rule, predict
from metier.gate.thresholds import DRIFT_Z, drift

SEEDS = range(6)


def mean_error(n, *, repeats=1, rule=None, **change):
    return np.mean([worth(World(seed=s, **change), n, repeats=repeats, rule=rule).error for s in SEEDS])


def test_a_world_is_its_seed():
    one, two, other = draw(World(seed=3), 50), draw(World(seed=3), 50), draw(World(seed=4), 50)
    assert one.tau.tolist() == two.tau.tolist() and one.recorded.panel.y1.tolist() == two.recorded.panel.y1.tolist()
    assert one.tau.tolist() != other.tau.tolist()


def test_outcomes_average_to_the_true_success_of_their_arm():
    drawn = draw(World(seed=1), 400, repeats=200)
    assert np.abs(drawn.recorded.panel.y0 - drawn.mu0).mean() < 0.03
    assert np.abs(drawn.recorded.panel.gains - drawn.tau).mean() < 0.05
    assert np.corrcoef(drawn.recorded.panel.gains, drawn.tau)[0, 1] > 0.95


def test_repeats_cut_the_error():
    errors = [mean_error(240, repeats=r) for r in (1, 4, 16)]
    assert errors[0] > 1.3 * errors[1] and errors[1] > 1.1 * errors[2]


def test_more_support_cuts_the_error_while_it_comes_nearer():
    errors = [mean_error(n, repeats=16) for n in (24, 120, 1200)]
    assert errors[0] > errors[1] > errors[2]


def test_more_support_helps_only_where_it_is_near():
    world = World(seed=2)
    past, asked = draw(world, 600, repeats=16), draw(world, 300, sample=1)
    families = np.asarray(past.recorded.panel.tasks.families)
    few = np.flatnonzero(families == "family-0")[:5]
    elsewhere = np.concatenate([few, np.flatnonzero(families != "family-0")])
    more = np.flatnonzero(families == "family-0")
    here = np.flatnonzero(np.asarray(asked.recorded.panel.tasks.families) == "family-0")

    def error(rows):
        found = predict(asked.recorded.panel.tasks.take(here), past.recorded.panel.take(rows), Rule())
        return np.abs(found.tau - asked.tau[here]).mean()

    assert error(elsewhere) == error(few)
    assert error(more) < 0.8 * error(few)


def test_what_the_representation_misses_cannot_be_bought_with_repeats():
    blind = [mean_error(600, repeats=r, residual=6.0) for r in (16, 64)]
    sharp = mean_error(600, repeats=16)
    assert blind[0] > 1.3 * sharp and blind[1] > 0.9 * blind[0]


def test_the_gate_beats_both_fixed_policies_where_gains_differ_in_sign():
    told = [worth(World(seed=s), 600, repeats=4) for s in SEEDS]
    assert np.mean([w.success - max(w.always_off, w.always_on) for w in told]) > 0.02
    assert all(w.success <= w.best + 1e-9 for w in told)
    assert np.mean([w.advantage_pp for w in told]) > 2


def test_where_nothing_can_be_gained_the_gate_gains_nothing():
    told = [worth(World(seed=s, level=0.0, slope=0.0), 300) for s in SEEDS]
    assert np.mean([abs(w.advantage_pp) for w in told]) < 0.2


def test_drift_is_noticed_in_the_order_of_time_and_steadiness_is_not():
    turned = draw(World(seed=5, families=1, level=0.0, slope=0.0, drift_at=0.7), 300)
    lifted = World(seed=5, families=1, level=3.0, slope=0.0)
    steady, changed = draw(lifted, 300), draw(replace(lifted, drift_at=0.7), 300)
    assert abs(drift(turned.recorded.panel.gains) or 0) < DRIFT_Z
    assert abs(drift(steady.recorded.panel.gains) or 0) < DRIFT_Z
    assert abs(steady.tau.mean()) > 0.1 and abs(drift(changed.recorded.panel.gains) or 0) > DRIFT_Z


def test_what_a_bank_costs_is_said_with_what_it_is_worth():
    told = worth(World(), 100, repeats=3)
    assert told.tokens_spent == pytest.approx(100 * 3 * 2400)
