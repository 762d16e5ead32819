"""Randomised single arms, and the probability that exploration logged."""

from __future__ import annotations

import numpy as np
import pytest

from metier.gate.online import FEWEST, randomised
from metier.store import log_route
from metier.types import Candidate, Route, Slate, Task, Verdict

from .material import STACK, bank, outcome, skill

A = skill("a")


def test_a_difference_of_randomised_arms_is_weighted_by_their_propensities(tmp_path):
    b = bank(tmp_path)
    rng = np.random.default_rng(0)
    rows, use, skip = [], [], []
    for number in range(400):  # easy tasks are explored less: unweighted means would mistake ease for gain
        easy = number % 2 == 0
        chance = 0.9 if easy else 0.3
        used = rng.random() < chance
        success = float(rng.random() < (0.8 if easy else 0.2) + (0.1 if used else 0.0))
        (use if used else skip).append((success, 1 / (chance if used else 1 - chance)))
        arm = "use" if used else "skip"
        rows.append(outcome(f"t{number}", A, arm, success, propensity=chance if used else 1 - chance))
    b.append(rows)
    found = randomised(b.store, STACK, A.id, A.digest)
    by_hand = [sum(y * w for y, w in arm) / sum(w for _, w in arm) for arm in (use, skip)]
    assert found is not None and found.gain == pytest.approx(by_hand[0] - by_hand[1])
    assert found.low < 0.1 < found.high and (found.used, found.skipped) == (len(use), len(skip))
    plain = np.mean([y for y, _ in use]) - np.mean([y for y, _ in skip])
    assert abs(found.gain - 0.1) < abs(plain - 0.1)
    assert len(b.pairs(STACK, A.id)) == 0  # and it is no pair


def test_too_few_rows_of_an_arm_or_of_this_digest_give_no_difference(tmp_path):
    b = bank(tmp_path)
    b.append([outcome(f"t{n}", A, "use", 1.0, propensity=0.5) for n in range(FEWEST)])
    b.append([outcome(f"s{n}", A, "skip", 0.0, propensity=0.5) for n in range(FEWEST - 1)])
    assert randomised(b.store, STACK, A.id, A.digest) is None
    b.append([outcome("s9", skill("a", digest="new"), "skip", 0.0, propensity=0.5)])
    b.append([outcome("s8", A, "skip", 0.0, propensity=0.5, origin="agent"), outcome("s7", A, "skip", 0.0)])
    assert randomised(b.store, STACK, A.id, A.digest) is None
    b.append([outcome("s6", A, "skip", 0.0, propensity=0.5)])
    found = randomised(b.store, STACK, A.id, A.digest)
    assert found is not None and found.gain == 1.0 and found.low < 1.0


@pytest.mark.parametrize(
    ("level", "reason", "propensity", "arm", "kept"),
    [
        ("load", "gain", 0.8, "use", 0.8),
        ("load", "gain", 0.8, "skip", None),
        ("skip", "explore", 0.2, "skip", 0.2),
        ("skip", "explore", 0.2, "use", None),
        ("offer", "no-evidence", None, "use", None),
    ],
)
def test_an_outcome_of_a_route_takes_over_the_propensity_its_exploration_logged(
    tmp_path, level, reason, propensity, arm, kept
):
    b = bank(tmp_path)
    verdict = Verdict(level, reason, propensity=propensity)
    slate = Slate("r_1", Task("t", stack=STACK), (Candidate(A, 1.0, (), verdict), Candidate(skill("b"), 0.5)))
    route = Route("r_1", slate, "", 0)
    log_route(b.store, route, text="full", source="api")
    b.append([outcome("t", A, arm, 1.0, route="r_1")])
    assert [row.outcome.propensity for row in b.outcomes()] == [kept]
