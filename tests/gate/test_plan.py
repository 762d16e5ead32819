"""What evidence costs, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest

from metier.errors import InputError
from metier.gate.fit import FEWEST, fit
from metier.gate.gain import gain_interval
from metier.gate.plan import needs, pairs_needed, reruns
from metier.store import log_events
from metier.types import Event

from .material import STACK, Written, bank, fill, skill


@pytest.mark.parametrize("gain", [0.0, 0.3, -0.6])
@pytest.mark.parametrize("width", [0.5, 0.2, 0.1])
def test_the_pairs_needed_are_the_fewest_that_reach_the_wanted_width(gain, width):
    n = pairs_needed(gain, width)
    enough, short = (np.diff(gain_interval(gain * m, m))[0] / 2 for m in (n, n - 1))
    assert enough <= width < short


def test_a_width_that_cannot_be_is_an_error():
    for width in (0.0, 1.0, -0.2):
        with pytest.raises(InputError, match="half-width"):
            pairs_needed(0.0, width)


def test_a_skill_lacks_what_its_present_digest_lacks(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1, 0, 1, 0], tokens=100)
    fill(b, skill("a", digest="old"), [1] * 50, task="old {}")
    (need,) = needs(b, STACK, {a.id: a.digest}, 0.3)
    assert (need.pairs, need.gain) == (4, 0.5)
    assert need.wanted == pairs_needed(0.5, 0.3) and need.runs == 2 * (need.wanted - 4)
    assert need.tokens == need.runs * 100


def test_a_new_stack_reruns_first_what_is_frequent_and_matters(tmp_path):
    b = bank(tmp_path)
    often, rare, harmful, done = (skill(n) for n in ("often", "rare", "harmful", "done"))
    fill(b, often, [1, 0, 0, 0], tokens=100)
    fill(b, rare, [1, 1, 1, 1], tokens=100)
    fill(b, harmful, [-1, -1, 0, 0], tokens=100)
    fill(b, done, [1, 1])
    fill(b, done, [1, 1], stack="new")
    shown = [(often, 60), (rare, 5), (harmful, 20)]
    routes = [Event(f"r{s.name}{n}", s.id, "offered", 1.0) for s, count in shown for n in range(count)]
    log_events(b.store, routes + [Event("rx", "given:none", "offered", 1.0)] * 15)
    told = reruns(b, STACK, "new", {}, exchange=2.0)
    assert [r.family for r in told] == [often.id, harmful.id, rare.id]
    assert [r.frequency for r in told] == [pytest.approx(n / 86) for n in (60, 20, 5)]
    first = told[0]
    assert (first.runs, first.tokens) == (8, 800.0)
    worth = 0.25 * 100 / 2.0 * 1000  # a gain of 25 points at 2 points per 1,000 tokens
    assert first.breaks_even == int(np.ceil(800 / (worth * 60 / 86)))
    assert all(r.breaks_even is None for r in reruns(b, STACK, "new", {}) if r.gain > 0)


def test_families_are_rerun_together(tmp_path):
    b, one, two = bank(tmp_path), skill("one"), skill("two")
    fill(b, one, [1, 1])
    fill(b, two, [0, 0])
    (told,) = reruns(b, STACK, "new", {one.id: "f", two.id: "f"})
    assert (told.family, told.skills, told.gain, told.frequency) == ("f", (one.id, two.id), 0.5, 1.0)


def test_a_family_with_enough_pairs_gets_the_threshold_that_serves_it(tmp_path):
    b, a, small = bank(tmp_path), skill("a"), skill("small")
    near = {f"good {n}": [1.0, 0.01 * n] for n in range(FEWEST)} | {f"bad {n}": [0.01 * n, 1.0] for n in range(FEWEST)}
    encoder = Written(near, dim=2)
    fill(b, a, [1] * FEWEST, task="good {}", tokens=100)
    fill(b, a, [-1] * FEWEST, task="bad {}", tokens=100)
    fill(b, small, [1] * (FEWEST - 1))
    b.embed(encoder)
    (told,) = fit(b, STACK, {}, "written")
    assert (told.family, told.pairs, told.eta) == (a.id, 2 * FEWEST, 0.0)
    assert b.fitted(STACK) == {a.id: 0.0}
    (half,) = fit(b, STACK, {}, "written", rate=0.25)
    assert half.eta > 0 and b.fitted(STACK) == {a.id: half.eta}
    (cheap,) = fit(b, STACK, {}, "written", tokens=0.0)
    assert cheap.eta < -0.9  # it costs nothing more, so everything may be used
