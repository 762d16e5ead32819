import random

from tests.rerank.material import MESH, skill

from metier.evaluate.noise import AUDITS, audited, corrupted, curve, noisy, repaired
from metier.rerank.calibrate import Judged
from metier.rerank.extract import extract

COPY = MESH.replace("3. Look up the density in the material table.\n", "").replace("`numpy`", "`trimesh`")
GOOD, BAD = (extract(skill(name, body), body) for name, body in (("good", MESH), ("bad", COPY)))
PAIRS = [
    Judged(r, GOOD, BAD) for r in ("density from the material table", "parse the STL with numpy, compute the mass")
]


def test_the_share_of_errors_is_what_was_asked_for_and_ids_stay() -> None:
    none, all_ = (corrupted(GOOD, ["x"], share, random.Random(0)) for share in (0.0, 1.0))
    assert none == GOOD and {n.text for n in all_.nodes} == {"x"}
    assert [n.id for n in all_.nodes] == [n.id for n in GOOD.nodes]


def test_auditing_everything_recovers_everything_and_nothing_nothing() -> None:
    rows = noisy(PAIRS, 0.5, seed=1)
    everything = {(g.digest, n.id) for g in (GOOD, BAD) for n in g.nodes}
    assert repaired(rows, everything) == PAIRS
    assert repaired(rows, set()) == [r.corrupt for r in rows]


def test_an_audit_keeps_to_its_budget_and_is_the_same_twice() -> None:
    rows = noisy(PAIRS, 0.3)
    total = len(GOOD.nodes) + len(BAD.nodes)
    for how in AUDITS:
        assert len(audited(rows, how, 0.2)) == -(-total // 5) and audited(rows, how, 0.2) == audited(rows, how, 0.2)


def test_errors_cost_margin_and_attribution_looks_where_the_ranking_is_decided() -> None:
    row = curve(PAIRS, [0.5], budget=0.2, seed=4)[0]
    assert row["margin"]["corrupt"] < row["margin"]["clean"]
    assert row["recovery"]["attribution"]["margin"] >= row["recovery"]["random"]["margin"]
