import numpy as np
import pytest
from tests.rerank.material import MESH, skill

from metier.rerank.calibrate import (
    Attribution,
    Judged,
    attribute,
    audit,
    calibrated,
    fit_lambda,
    pairs_of,
    recovery,
    worths,
)
from metier.rerank.extract import extract
from metier.types import Outcome

REQUEST = "Compute the mass of the STL mesh with numpy and the material table"
GOOD = extract(skill("good", MESH), MESH)
BAD_BODY = MESH.replace("3. Look up the density in the material table.\n", "").replace("`numpy`", "`trimesh`")
BAD = extract(skill("bad", BAD_BODY), BAD_BODY)


def margin(pair: Judged) -> float:
    better, worse = worths(pair)
    return better - worse


def test_masking_what_supports_the_better_skill_lowers_the_margin() -> None:
    pair = Judged(REQUEST, GOOD, BAD)
    assert margin(pair) > 0
    found = attribute([pair])
    table = next(n for n in GOOD.nodes if "material table" in n.text)
    assert found.mean((GOOD.digest, table.id)) > 0
    assert margin(Judged(REQUEST, GOOD.without(table.id), BAD)) < margin(pair)


def test_what_supports_the_worse_skill_is_suspicious() -> None:
    found = attribute([Judged(REQUEST, BAD, GOOD)])
    table = next(n for n in GOOD.nodes if "material table" in n.text)
    assert dict(audit(found, budget=1.0))[GOOD.digest, table.id] > 0


def test_the_audit_shows_a_fifth_worst_first() -> None:
    found = Attribution({("d", f"n{i}"): [float(i)] for i in range(20)})
    assert audit(found) == [(("d", f"n{i}"), -float(i)) for i in range(4)]
    assert audit(Attribution()) == []


def test_reliability_moves_only_after_three_judged_pairs_and_stays_in_its_bounds() -> None:
    node = GOOD.nodes[2]
    for times, moves in ((2, False), (3, True)):
        found = Attribution({(GOOD.digest, node.id): [-1.0] * times, (GOOD.digest, "x"): [1.0]})
        new = calibrated(GOOD, found)
        assert (node.id in new) is moves
    assert new[node.id] == pytest.approx(node.reliability * np.exp(0.3 * np.tanh(-1.0)), rel=1e-6)
    low = GOOD.reweighted({node.id: 0.05})
    assert calibrated(low, found)[node.id] == 0.05
    high = Attribution({(GOOD.digest, node.id): [1.0] * 3, (GOOD.digest, "x"): [-1.0]})
    assert calibrated(GOOD.reweighted({node.id: 1.0}), high)[node.id] == 1.0


def test_calibration_restores_part_of_a_margin_that_a_false_node_took() -> None:
    lie = next(n for n in GOOD.nodes if "material table" in n.text)
    claimed = extract(skill("liar", BAD_BODY + f"\n- {lie.text}\n"), BAD_BODY + f"\n- {lie.text}\n")
    requests = [REQUEST, "density from the material table", "Look up density, material table, mass"]
    pairs = [Judged(r, GOOD, claimed) for r in requests]
    new = calibrated(claimed, attribute(pairs))
    spoken = next(n for n in claimed.nodes if n.text == lie.text)
    assert new[spoken.id] < spoken.reliability
    before = sum(margin(p) for p in pairs)
    assert sum(margin(Judged(p.request, GOOD, claimed.reweighted(new))) for p in pairs) >= before


def test_recovery_is_one_for_a_full_repair_and_zero_for_none() -> None:
    clean, corrupt = np.array([1.0, 0.5]), np.array([0.2, 0.5])
    assert recovery(clean, corrupt, clean) == 1.0 and recovery(clean, corrupt, corrupt) == 0.0
    assert recovery(clean, clean, clean) == 0.0


def test_pairs_come_from_outcomes_that_may_teach() -> None:
    def row(name: str, success: float | None, **more: object) -> Outcome:
        made = {
            "task": "t",
            "skills": (name,),
            "digests": (name,),
            "stack": "s",
            "arm": "use",
            "success": success,
            **more,
        }
        return Outcome(**made)  # type: ignore[arg-type]

    graphs = {"good": GOOD, "bad": BAD}
    found = pairs_of([row("good", 1.0), row("bad", 0.0), row("bad", 0.5)], lambda s, d: graphs.get(s))
    assert found == [Judged("t", GOOD, BAD)]
    for wrong in (
        row("bad", 0.0, origin="agent"), row("bad", 0.0, origin="import"), row("bad", None),
        row("bad", 0.0, arm="skip"), row("bad", 1.0), row("bad", 0.0, stack="other"), row("gone", 0.0),
        row("bad", 0.0, skills=("bad", "x"), digests=("", "")),
    ):  # fmt: skip
        assert pairs_of([row("good", 1.0), wrong], lambda s, d: graphs.get(s)) == []
    hidden = [row("good", 1.0, task="id:4f"), row("bad", 0.0, task="id:4f")]
    assert pairs_of(hidden, lambda s, d: graphs.get(s)) == []


def test_lambda_is_the_minimum_of_the_pairwise_loss_and_never_negative() -> None:
    rng = np.random.default_rng(3)
    text, worth = rng.normal(0, 1, 200), rng.normal(0.4, 1, 200)
    lam = fit_lambda(text, worth)
    grid = np.linspace(0, 16, 4001)
    losses = [np.logaddexp(0, -(text + g * worth)).sum() for g in grid]
    assert lam == pytest.approx(grid[int(np.argmin(losses))], abs=0.01)
    assert fit_lambda(text, -worth) == 0.0 and fit_lambda(np.zeros(0), np.zeros(0)) == 0.0
    assert fit_lambda(np.ones(3), np.ones(3)) == 16.0
