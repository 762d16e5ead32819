"""The gate's evaluation: figures against plain loops, and the shape other programs read."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.errors import BankError, InputError
from metier.evaluate import gain, gain_report, policy
from metier.evaluate.panel import read_panel, recorded
from metier.gate.gain import Rule

OUTCOMES = st.lists(
    st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2, st.booleans(), st.sampled_from("fgh")),
    min_size=1, max_size=30,
)  # fmt: skip


def made(n=40, *, seed=0, tokens=True, families=3):
    rng = np.random.default_rng(seed)
    rows = [
        {"id": f"t{i}", "family": f"f{i % families}", "skill": f"s{i % 2}", "text": f"task number {i}",
         "y0": float(rng.integers(0, 2)), "y1": float(rng.integers(0, 2)),
         "tokens0": 100 + i if tokens else None, "tokens1": 200 + i if tokens else None}
        for i in range(n)
    ]  # fmt: skip
    return rows, rng.normal(size=(n, 5))


@settings(max_examples=100, deadline=None)
@given(OUTCOMES)
def test_between_and_within_sum_to_the_advantage_over_exact_random_use(rows):
    y0, y1, use, families = (list(column) for column in zip(*rows, strict=True))
    y0, gains, use = np.array(y0), np.array(y1) - np.array(y0), np.array(use, float)
    random = y0.mean() + use.mean() * gains.mean()
    got = policy.advantage(gains, use)
    assert got == pytest.approx(policy.success(y0, gains, use) - random, abs=1e-12)
    between, within = policy.between_within(gains, use, families)
    assert between + within == pytest.approx(got, abs=1e-12)
    n = len(rows)
    by_hand = 0.0
    for family in set(families):
        here = [i for i in range(n) if families[i] == family]
        rate = sum(use[i] for i in here) / len(here)
        by_hand += len(here) / n * (rate - use.mean()) * sum(gains[i] for i in here) / len(here)
    assert between == pytest.approx(by_hand, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.5, 1.0])), min_size=1, max_size=30))
def test_auroc_is_the_share_of_pairs_ranked_right_with_ties_as_half(rows):
    labels, scores = [r[0] for r in rows], [r[1] for r in rows]
    pairs = [(a, b) for (x, a), (y, b) in itertools.product(rows, rows) if x and not y]
    expected = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs) if pairs else None
    assert policy.auroc(labels, scores) == (None if expected is None else pytest.approx(expected))


def test_random_at_the_matched_rate_is_exact_and_agrees_with_simulation():
    rng = np.random.default_rng(1)
    y0, y1 = rng.random(200), rng.random(200)
    simulated = np.mean([np.where(rng.random(200) < 0.3, y1, y0).mean() for _ in range(4000)])
    assert policy.success(y0, y1 - y0, np.full(200, 0.3)) == pytest.approx(simulated, abs=2e-3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.9]), min_size=1, max_size=20), st.floats(0, 1))
def test_a_policy_at_a_rate_uses_exactly_that_share_and_the_best_first(scores, rate):
    use = policy.at_rate(scores, rate)
    assert use.mean() == pytest.approx(rate) and ((use >= 0) & (use <= 1 + 1e-12)).all()
    order = np.argsort(-np.array(scores), kind="stable")
    assert (np.diff(use[order]) <= 1e-12).all()


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng, hits = np.random.default_rng(3), 0
    for trial in range(60):
        signal = rng.random(300)
        gains = (rng.random(300) < signal).astype(float) - (rng.random(300) < 0.3)
        use = signal > 0.5
        got = policy.advantage_interval(gains, use, seed=trial, resamples=400)
        hits += got.low <= 0.125 <= got.high  # E[(a − ½)(signal − 0.3)] = 1/8
    assert 51 <= hits <= 60


def test_a_paired_difference_of_a_policy_with_itself_is_exactly_zero():
    rng = np.random.default_rng(4)
    gains, use = rng.choice([-1.0, 0.0, 1.0], 100), rng.random(100) < 0.5
    assert policy.advantage_difference(gains, use, use) == policy.Interval(0.0, 0.0, 0.0)


def test_the_json_has_the_shape_that_other_programs_read(tmp_path):
    rows, vectors = made()
    told = gain.report(gain.evaluate(recorded(rows, vectors), Rule()))
    assert told["schema"] == "metier-eval-gate-v1" and told["rows"] == 40
    assert [set(p) for p in told["predictions"]] == [{"id", "tau", "threshold", "use"}] * 40
    assert set(told["policy"]) == {"success", "always_off", "always_on", "use_rate", "token_saving"}
    assert set(told["matched_rate"]) == {"advantage_pp", "ci95", "between_pp", "within_pp"}
    assert all(p["use"] == (p["tau"] > p["threshold"]) for p in told["predictions"])
    use = np.array([p["use"] for p in told["predictions"]])
    y0, y1 = np.array([r["y0"] for r in rows]), np.array([r["y1"] for r in rows])
    assert told["policy"]["success"] == pytest.approx(np.where(use, y1, y0).mean())
    assert told["policy"]["always_off"] == y0.mean() and told["policy"]["always_on"] == y1.mean()
    tokens = np.where(use, [r["tokens1"] for r in rows], [r["tokens0"] for r in rows])
    assert told["policy"]["token_saving"] == pytest.approx(1 - tokens.mean() / np.mean([r["tokens1"] for r in rows]))
    low, high = told["matched_rate"]["ci95"]
    assert low <= told["matched_rate"]["advantage_pp"] <= high
    json.dumps(gain_report.finite(told), allow_nan=False)


def test_leave_one_out_is_never_split_and_a_held_out_half_is(tmp_path):
    rows, vectors = made(41)
    data = recorded(rows, vectors)
    whole, half = gain.report(gain.evaluate(data, Rule())), gain.report(gain.evaluate(data, Rule(), holdout=7))
    assert whole["matched_rate"]["between_pp"] is None and whole["matched_rate"]["within_pp"] is None
    matched = half["matched_rate"]
    assert matched["between_pp"] + matched["within_pp"] == pytest.approx(matched["advantage_pp"])
    assert (half["rows"], half["panel_rows"]) == (21, 41) and half == gain.report(
        gain.evaluate(data, Rule(), holdout=7)
    )


def test_a_held_out_half_is_stratified_and_disjoint_from_its_support():
    rows, vectors = made(50, families=4)
    judged, support = gain.halves(recorded(rows, vectors), 3)
    assert not set(judged.panel.tasks.ids) & set(support.panel.tasks.ids) and len(judged) + len(support) == 50
    for family in {r["family"] for r in rows}:
        count = [each.panel.tasks.families.count(family) for each in (judged, support)]
        assert count[0] - count[1] in (0, 1)


def test_unknown_tokens_give_no_saving():
    rows, vectors = made(tokens=False)
    assert gain.report(gain.evaluate(recorded(rows, vectors), Rule()))["policy"]["token_saving"] is None
    rows, vectors = made()
    rows[3]["tokens1"] = None
    assert gain.report(gain.evaluate(recorded(rows, vectors), Rule()))["policy"]["token_saving"] is None


def test_leave_one_out_within_families_is_biased_when_gains_are_shuffled():
    """Methods 3.10: with gains permuted inside families nothing can be learnt, yet leave-one-out shows a loss."""
    rng = np.random.default_rng(11)
    biased, held = [], []
    for seed in range(30):
        rows, vectors = made(60, seed=seed, families=6)
        for family in range(6):
            here = [r for r in rows if r["family"] == f"f{family}"]
            for row, y1 in zip(here, rng.permutation([r["y1"] for r in here]), strict=True):
                row["y1"] = float(y1)
        data = recorded(rows, vectors)
        done = gain.evaluate(data, Rule(k=50, weighting="uniform"))
        biased.append(policy.between_within(done.gains, done.found.use, data.panel.tasks.families)[1])
        half = gain.evaluate(data, Rule(k=50, weighting="uniform"), holdout=seed)
        held.append(policy.between_within(half.gains, half.found.use, half.recorded.panel.tasks.families)[1])
    assert np.mean(biased) < -0.01
    assert abs(np.mean(held)) < 0.01


def test_baselines_agree_with_their_definitions():
    rows, vectors = made(30)
    for number, row in enumerate(rows):
        row |= {"self_use": number % 3 > 0, "router_tokens": 10}
    done = gain.evaluate(recorded(rows, vectors), Rule())
    table = {line["policy"]: line for line in gain.baselines(done)}
    y0, y1 = np.array([r["y0"] for r in rows]), np.array([r["y1"] for r in rows])
    assert table["always off"]["success"] == y0.mean() and table["always on"]["success"] == y1.mean()
    rate = done.found.use.mean()
    assert table["random at the gate's rate (exact)"]["success"] == pytest.approx(y0.mean() + rate * (y1 - y0).mean())
    asked = np.array([r["self_use"] for r in rows])
    assert table["self-judge"]["success"] == pytest.approx(np.where(asked, y1, y0).mean())
    assert table["self-judge"]["tokens"] == pytest.approx(
        np.where(asked, [r["tokens1"] for r in rows], [r["tokens0"] for r in rows]).mean() + 10
    )
    assert table["oracle (not attainable)"]["success"] == pytest.approx(np.maximum(y0, y1).mean())
    assert table["with-skill-only, at the gate's rate"]["use_rate"] == pytest.approx(rate)


def test_the_family_mean_leaves_the_task_itself_out():
    rows, vectors = made(9)
    data = recorded(rows, vectors)
    means = gain.family_mean(data.panel.tasks, data.panel)
    for i, row in enumerate(rows):
        others = [r["y1"] - r["y0"] for r in rows if r["family"] == row["family"] and r["id"] != row["id"]]
        assert means[i] == pytest.approx(np.mean(others))


def test_lexical_relevance_prefers_the_skill_that_shares_words_and_needs_every_text():
    rows, vectors = made(4)
    rows[0]["text"], rows[1]["text"] = "invert a matrix", "bake bread"
    data = recorded(rows, vectors)
    scores = gain.lexical(data, {"s0": "how to invert a matrix", "s1": "sorting lists of names"})
    assert scores is not None and scores[0] > scores[1] == 0
    assert gain.lexical(data, {"s0": "x"}) is None


def test_more_neighbours_more_support_and_more_repeats_are_swept():
    rng = np.random.default_rng(5)
    rows, vectors = made(60)
    for row in rows:
        row["repeats0"], row["repeats1"] = rng.integers(0, 2, 8).tolist(), rng.integers(0, 2, 8).tolist()
    data = recorded(rows, vectors)
    assert [each["k"] for each in gain.sweep_k(data, Rule())] == list(gain.NEIGHBOURS)
    assert [each["share"] for each in gain.sweep_support(data, Rule())] == list(gain.SHARES)
    assert [each["repeats"] for each in gain.sweep_repeats(data, Rule())] == [1, 2, 3, 5, 8]
    assert gain.sweep_repeats(recorded(*made(10)), Rule()) == []
    left = gain.leave_family_out(data, Rule())
    assert [(each["family"], each["n"]) for each in left] == [("f0", 20), ("f1", 20), ("f2", 20)]


def test_the_curve_runs_from_always_to_never():
    done = gain.evaluate(recorded(*made(50)), Rule())
    points = gain.curve(done)
    rates = [each["use_rate"] for each in points]
    assert rates[0] == 1.0 and rates[-1] == 0.0 and rates == sorted(rates, reverse=True)
    bins = gain.calibration(done)
    assert sum(each["n"] for each in bins) == 50 and all(b["low"] <= b["gain"] <= b["high"] for b in bins)


def test_the_report_is_written_as_markdown_json_and_plots(tmp_path):
    data = recorded(*made(30))
    told = gain_report.everything(gain.evaluate(data, Rule(), holdout=1), data)
    paths = gain_report.write(told, tmp_path / "out", title="a | panel")
    assert sorted(p.name for p in paths) == ["calibration.png", "gate.json", "gate.md", "success-tokens.png"]
    text = (tmp_path / "out" / "gate.md").read_text(encoding="utf-8")
    assert "between families" in text and "leave out what the bank cost" in text and "| always off |" in text
    again = json.loads((tmp_path / "out" / "gate.json").read_text(encoding="utf-8"))
    assert again["schema"] == "metier-eval-gate-v1" and len(again["baselines"]) >= 7
    assert (tmp_path / "out" / "calibration.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_committed_benchmark_says_is_what_its_table_says():
    """The committed figures hold together, stand beside the published ones, and show an advantage above zero."""
    folder = Path(__file__).parents[2] / "benchmarks" / "results"
    results = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("gate-*.json")]
    told = [each for each in results if each["schema"] == "metier-benchmark-gate-v1"]
    assert told
    for each in told:
        assert each["published"]["advantage_pp"] == 4.33 and each["encoder"].startswith("minilm")
        for arm in ("oracle_gold", "retrieved_top1"):
            figures, policies = each["arms"][arm]["leave_one_out"], each["arms"][arm]["policies"]
            by_name = {row["policy"]: row for row in policies}
            gate, random = by_name["gate"], by_name["random at the gate's rate (exact)"]
            advantage = figures["matched_rate"]["advantage_pp"]
            assert 100 * (gate["success"] - random["success"]) == pytest.approx(advantage, abs=0.01)
            assert figures["matched_rate"]["ci95"][0] > 0
            assert gate["auroc"] > by_name["with-skill-only, at the gate's rate"]["auroc"]
            held = each["arms"][arm]["held_out"]
            assert held["between_pp"]["mean"] + held["within_pp"]["mean"] == pytest.approx(
                held["advantage_pp"]["mean"], abs=1e-3
            )


# -------------------------------------------------------------------------------------------------- reading panels


def panel_file(tmp_path, rows, vectors=None, ids=None):
    (tmp_path / "p.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    if vectors is not None:
        np.savez(tmp_path / "v.npz", ids=np.array(ids or [str(r["id"]) for r in rows]), vectors=vectors)
    return tmp_path / "p.json", tmp_path / "v.npz"


def test_vectors_are_matched_by_id_whatever_their_order(tmp_path):
    rows, vectors = made(12)
    order = np.random.default_rng(0).permutation(12)
    plain = panel_file(tmp_path, rows, vectors)
    first = read_panel(plain[0], vectors=plain[1]).panel.tasks.vectors
    mixed = panel_file(tmp_path, rows, vectors[order], [rows[i]["id"] for i in order])
    assert read_panel(mixed[0], vectors=mixed[1]).panel.tasks.vectors.tolist() == first.tolist()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"y1": 1.2}, BankError, "y1 of task 't2' is 1.2"),
        ({"y1": None}, BankError, "'t2': y1 is missing"),
        ({"y0": "high"}, BankError, "'t2': y0 is 'high'"),
        ({"y0": float("nan")}, BankError, "y0 of task 't2' is nan"),
        ({"id": "t1"}, BankError, "'t1' appears twice"),
        ({"tokens0": -4}, BankError, "tokens0 is -4"),
        ({"id": None}, InputError, r"rows\[2\] has no id"),
    ],
)
def test_a_panel_row_that_cannot_be_right_is_an_error(tmp_path, change, error, says):
    rows, vectors = made(5)
    rows[2] |= change
    path, npz = panel_file(tmp_path, rows, vectors, ids=[f"t{i}" for i in range(5)])
    with pytest.raises(error, match=says):
        read_panel(path, vectors=npz)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda v: v.__setitem__((1, slice(None)), 0.0), "'t1' .* is all zeros"),
        (lambda v: v.__setitem__((1, 0), np.nan), "'t1' .* not finite"),
    ],
)
def test_a_vector_that_cannot_be_right_is_an_error(tmp_path, spoil, says):
    rows, vectors = made(5)
    spoil(vectors)
    path, npz = panel_file(tmp_path, rows, vectors)
    with pytest.raises(BankError, match=says):
        read_panel(path, vectors=npz)


def test_a_task_without_a_vector_or_a_text_says_what_to_give(tmp_path):
    rows, vectors = made(5)
    path, npz = panel_file(tmp_path, rows, vectors[:4], ids=["t0", "t1", "t2", "t3"])
    with pytest.raises(InputError, match="no vector for task 't4'"):
        read_panel(path, vectors=npz)
    with pytest.raises(InputError, match=r"give --vectors FILE\.npz"):
        read_panel(path)
    (tmp_path / "bad.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="not an NPZ file"):
        read_panel(path, vectors=tmp_path / "bad.npz")


def test_texts_are_encoded_where_there_are_no_vectors(tmp_path):
    from metier.models.replay import HashEncoder

    rows, _ = made(6)
    path, _ = panel_file(tmp_path, rows)
    vectors = read_panel(path, encoder=HashEncoder()).panel.tasks.vectors
    assert vectors.shape[0] == 6 and np.allclose(np.linalg.norm(vectors, axis=1), 1)
    del rows[0]["text"]
    path, _ = panel_file(tmp_path, rows)
    with pytest.raises(InputError, match="'t0' has no text"):
        read_panel(path, encoder=HashEncoder())


def test_a_panel_may_be_lines_or_paired_lines(tmp_path):
    rows, vectors = made(4)
    np.savez(tmp_path / "v.npz", ids=np.array([r["id"] for r in rows]), vectors=vectors)
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    other = [
        {"task_id": r["id"], "family": r["family"], "success_without": r["y0"], "success_with": r["y1"]} for r in rows
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(r) for r in other), encoding="utf-8")
    one, two = (read_panel(tmp_path / f"{name}.jsonl", vectors=tmp_path / "v.npz") for name in "ab")
    assert one.panel.gains.tolist() == two.panel.gains.tolist()
