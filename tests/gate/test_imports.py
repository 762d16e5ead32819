"""Every format in and out, twice, with bad rows refused by their place."""

from __future__ import annotations

import gzip
import json
import lzma

import numpy as np
import pytest

from metier.errors import InputError
from metier.gate import exports
from metier.gate.imports import Given, import_file

from .material import STACK, Written, bank, fill, outcome, pair, skill

GIVEN = Given(stack=STACK, skill="given:a", digest="digest-of-a")
A = skill("a")


def lines(path, rows):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return path


def test_bad_rows_are_refused_with_their_line_and_the_good_ones_go_in(tmp_path):
    good = {"task": "t", "skills": ["given:a"], "digests": ["d"], "stack": STACK, "arm": "use", "success": 1}
    rows = [
        good,
        "{broken",
        {**good, "success": 7},
        "",
        {"x": 1},
        {**good, "arm": "skip"},
        [1],
        {**good, "digests": []},
    ]
    path = lines(tmp_path / "rows.jsonl", rows)
    b = bank(tmp_path)
    done = import_file(b, path, Given())
    assert (done.kind, done.read, done.new) == ("lines", 2, 2)
    assert [place for place, _ in done.refused] == ["line 2", "line 3", "line 5", "line 7", "line 8"]
    assert "success is 7" in done.refused[1][1] and "not JSON" in done.refused[0][1]
    assert b.pairs(STACK, "given:a").gains.tolist() == [0.0]


def test_importing_twice_changes_nothing_even_after_the_skill_changed(tmp_path):
    row = {
        "id": "q1",
        "text": "t",
        "family": "f",
        "y0": 0.25,
        "y1": 1.0,
        "tokens0": 10.4,
        "tokens1": None,
        "skill": "a",
    }
    path = tmp_path / "panel.json"
    path.write_text(json.dumps({"rows": [row, {**row, "id": "q2"}]}), encoding="utf-8")
    b = bank(tmp_path)
    for digest, new in (("first", 4), ("first", 0), ("second", 0)):
        done = import_file(b, path, Given(stack=STACK, resolve=lambda name, d=digest: (f"given:{name}", d)))
        assert (done.read, done.new, done.refused) == (4, new, ())
    found = b.pairs(STACK, "given:a")
    assert found.digests == ("first", "first") and found.y0.tolist() == [0.25, 0.25]
    assert found.tokens0.tolist() == [10, 10] and np.isnan(found.tokens1).all() and found.names == ("q1", "q2")


def test_the_same_line_twice_in_one_file_is_two_runs(tmp_path):
    told = {"schema": "skilldelta-outcome-v1", "task_id": "t", "skill_enabled": True, "success": True}
    path = lines(tmp_path / "o.jsonl", [told, told, {**told, "skill_enabled": False, "success": False}])
    b = bank(tmp_path)
    assert [import_file(b, path, GIVEN).new for _ in range(2)] == [3, 0]
    assert b.pairs(STACK, "given:a").n1.tolist() == [2]


def test_the_reference_plugins_outcome_lines_go_in_and_out(tmp_path):
    told = [
        {"schema": "skilldelta-outcome-v1", "time": "2026-11-30T10:00:00+00:00", "task_id": f"t{n}",
         "skill_enabled": bool(n % 2), "success": n < 2, "tokens": 100 + n, "route_id": "r"}
        for n in range(4)
    ]  # fmt: skip
    told.append({"schema": "skilldelta-outcome-v1", "time": "2026-11-30T10:00:00Z", "task_id": "x", "skill_enabled": 1})
    b = bank(tmp_path)
    done = import_file(b, lines(tmp_path / "in.jsonl", told), GIVEN)
    assert (done.new, done.refused) == (5, ())
    assert b.tally(STACK, "given:a").unjudged == 1
    out = tmp_path / "out.jsonl"
    assert exports.outcomes_v1(b, out, stack=STACK, skill="given:a") == 5
    assert exports.outcomes_v1(b, out, stack=STACK, skill="given:a") == 5  # it appends
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(written) == 10
    for before, after in zip(told, written, strict=False):
        assert {**before, "time": 0, "skill_enabled": bool(before["skill_enabled"])} == {**after, "time": 0} | (
            {"route_id": "r"} if "route_id" in before else {}
        )


def test_the_reference_plugins_support_file_goes_in_and_out(tmp_path):
    told = {
        "schema": "skilldelta-support-v1", "embedding_model": "enc",
        "tasks": [{"id": "h1", "embedding": [3.0, 4.0], "d": 1, "text": "one"},
                  {"id": "h2", "embedding": [0, 1], "d": -0.5},
                  {"id": "h3", "embedding": [0, 0], "d": 1}, {"id": "h4", "embedding": [1, 0], "d": 2}, {"d": 1}],
    }  # fmt: skip
    path = tmp_path / "support.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    b = bank(tmp_path)
    done = import_file(b, path, GIVEN)
    assert (done.kind, done.new) == ("support", 2)
    assert [place for place, _ in done.refused] == ["tasks[2]", "tasks[3]", "tasks[4]"]
    found = b.pairs(STACK, "given:a", "enc")
    assert found.gains.tolist() == [1.0, -0.5] and np.isnan(found.y0).all()
    assert found.vectors.tolist() == [pytest.approx([0.6, 0.8]), [0.0, 1.0]]
    assert import_file(b, path, GIVEN).new == 0
    out = tmp_path / "out.json"
    assert exports.support(b, out, stack=STACK, skill="given:a", encoder="enc") == 2
    again = json.loads(out.read_text(encoding="utf-8"))
    assert again["schema"] == "skilldelta-support-v1" and again["embedding_model"] == "enc"
    assert [(t["id"], t["d"]) for t in again["tasks"]] == [("h1", 1.0), ("h2", -0.5)]
    with pytest.raises(InputError, match="no paired tasks with vectors"):
        exports.support(b, out, stack=STACK, skill="given:a", encoder="another")


def test_a_panel_with_vectors_goes_in_and_out(tmp_path):
    rows = [{"id": f"q{n}", "family": "f", "skill": "given:a", "y0": 0.0, "y1": 1.0, "tokens0": 5.0, "tokens1": 7.0}
            for n in range(3)]  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    np.savez(tmp_path / "p.npz", ids=np.array(["q2", "q0", "q1"]), vectors=np.eye(3))
    b = bank(tmp_path)
    given = Given(stack=STACK, digest="d", encoder="enc")
    assert import_file(b, tmp_path / "p.json", given, vectors=tmp_path / "p.npz").new == 6
    assert exports.panel(b, tmp_path / "out.json", stack=STACK, encoder="enc") == 3
    again = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert again["rows"] == rows and again["stack"] == STACK
    with np.load(tmp_path / "out.npz", allow_pickle=False) as data:
        assert data["ids"].tolist() == ["q0", "q1", "q2"]
        assert data["vectors"].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_sr_agents_results_of_both_arms_pair_by_instance(tmp_path):
    details = [{"instance_id": f"champ_{n}", "correct": n > 0, "skill_annotations": ["a"]} for n in range(3)]
    base = {"dataset": "champ", "model": "m", "metrics": {}}
    for name, method, change in (("without", "none", False), ("with", "oracle", True)):
        told = {**base, "method": method, "details": [{**d, "correct": d["correct"] or change} for d in details]}
        (tmp_path / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
    (tmp_path / "i.json").write_text(
        json.dumps([{"instance_id": "champ_0", "question": "how many?", "dataset": "champ"}]), encoding="utf-8"
    )
    b, given = bank(tmp_path), Given(resolve=lambda name: (f"given:{name}", "d"))
    assert import_file(b, tmp_path / "without.json", given, instances=tmp_path / "i.json").new == 3
    with pytest.raises(InputError, match="say --arm use or --arm skip"):
        import_file(b, tmp_path / "with.json", given)
    with_arm = Given(resolve=given.resolve, arm="use")
    assert import_file(b, tmp_path / "with.json", with_arm, instances=tmp_path / "i.json").new == 3
    found = b.pairs("m/SR-Agents", "given:a")
    assert found.gains.tolist() == [1.0, 0.0, 0.0] and found.texts == ("how many?", None, None)
    assert found.families == ("champ",) * 3


def test_paired_lines_go_in_from_compressed_files(tmp_path):
    told = {"task_id": "q", "task": "t", "family": "f", "skill_ids": ["b", "a"], "stack": "s", "success_without": 0,
            "success_with": 1, "tokens_without": None, "tokens_with": None}  # fmt: skip
    text = (json.dumps(told) + "\n").encode()
    (tmp_path / "p.jsonl.xz").write_bytes(lzma.compress(text))
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(text))
    b = bank(tmp_path)
    done = import_file(b, tmp_path / "p.jsonl.xz", Given())
    assert (done.new, done.unbound) == (2, 2)
    assert import_file(b, tmp_path / "p.jsonl.gz", Given()).new == 0
    assert b.pairs("s", ["a", "b"]).gains.tolist() == [1.0]


def test_our_own_rows_survive_a_round_trip_between_two_banks(tmp_path):
    one, two = bank(tmp_path / "1"), bank(tmp_path / "2")
    fill(one, A, [1, -1], tokens=12, family="f")
    fill(one, [skill("b"), A], [1])
    one.append([outcome("t", A, "use", None, origin="agent", propensity=0.25, route="r_9", repeat=3)])
    import_file(one, _support(tmp_path), GIVEN)
    assert exports.rows(one, tmp_path / "all.jsonl") == 8
    done = import_file(two, tmp_path / "all.jsonl", Given())
    assert (done.new, done.refused) == (8, ())
    assert two.outcomes() == one.outcomes()
    assert import_file(one, tmp_path / "all.jsonl", Given()).new == 0


def _support(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"tasks": [{"id": "h", "embedding": [1], "d": 1}]}), encoding="utf-8")
    return path


def test_what_a_release_carries_is_shown_elsewhere_and_never_counted(tmp_path):
    here, there = bank(tmp_path / "1"), bank(tmp_path / "2")
    fill(here, A, [1, 1, 0], family="forms", tokens=10)
    fill(here, A, [-1], family="tables", task="table {}")
    fill(here, skill("a", digest="old"), [-1] * 5, task="old {}")
    assert exports.summary(here, tmp_path / "sum.json", skill=A.id, name="a", digest=A.digest) == 2
    told = json.loads((tmp_path / "sum.json").read_text(encoding="utf-8"))
    assert (told["schema"], told["skill"], told["digest"]) == ("metier-skill-evidence-v1", "a", A.digest)
    forms = told["families"][0]
    assert (forms["family"], forms["n"], forms["stack"]) == ("forms", 3, STACK)
    assert forms["tau"] == pytest.approx(2 / 3, abs=1e-4) and forms["interval"][0] < forms["tau"] < forms["interval"][1]
    assert [import_file(there, tmp_path / "sum.json", Given()).new for _ in range(2)] == [2, 0]
    assert there.outcomes() == [] and len(there.store.rows("SELECT * FROM bank_summaries")) == 2
    with pytest.raises(InputError, match="no paired tasks with its present digest"):
        exports.summary(here, tmp_path / "x.json", skill=A.id, name="a", digest="unknown")


@pytest.mark.parametrize("content", ["", "   \n", "not json at all\n"])
def test_a_file_without_outcomes_says_so(tmp_path, content):
    path = tmp_path / "f.jsonl"
    path.write_text(content, encoding="utf-8")
    if content.strip():
        assert import_file(bank(tmp_path), path, GIVEN).refused[0][0] == "line 1"
    else:
        with pytest.raises(InputError, match="the file is empty"):
            import_file(bank(tmp_path), path, GIVEN)


def test_a_missing_file_a_missing_stack_and_raw_model_output_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        import_file(bank(tmp_path), tmp_path / "none.jsonl", GIVEN)
    row = {"id": "q", "text": "t", "y0": 0, "y1": 1, "skill": "a"}
    done = import_file(
        bank(tmp_path), lines(tmp_path / "r.jsonl", [row, {"instance_id": "x", "raw_output": ""}]), Given()
    )
    assert "pass --stack" in done.refused[0][1] and "sragents evaluate" in done.refused[1][1]


def test_imported_vectors_serve_the_gate_when_the_encoder_is_the_same(tmp_path):
    b, encoder = bank(tmp_path), Written(name="enc", dim=2)
    (tmp_path / "p.json").write_text(
        json.dumps({"rows": [{"id": "q", "family": "f", "y0": 0, "y1": 1}]}), encoding="utf-8"
    )
    np.savez(tmp_path / "p.npz", ids=np.array(["q"]), vectors=np.array([[0.0, 2.0]]))
    import_file(b, tmp_path / "p.json", Given(stack=STACK, skill="given:a", encoder="enc"), vectors=tmp_path / "p.npz")
    assert b.embed(encoder) == 0
    assert b.pairs(STACK, "given:a", "enc").vectors.tolist() == [[0.0, 1.0]]


def test_a_pair_appended_by_hand_and_a_panel_about_the_same_text_stay_two_tasks(tmp_path):
    b = bank(tmp_path)
    b.append(pair("same text", A, 0.0, 1.0))
    (tmp_path / "p.json").write_text(
        json.dumps({"rows": [{"id": "q", "text": "same text", "y0": 0, "y1": 0}]}), encoding="utf-8"
    )
    import_file(b, tmp_path / "p.json", GIVEN)
    assert b.pairs(STACK, A.id).gains.tolist() == [1.0, 0.0]
