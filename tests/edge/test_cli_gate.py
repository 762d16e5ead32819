"""`record`, `bank`, `collect` and `eval gate` as people and scripts meet them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metier.edge.cli.main import main

AGENT = Path(__file__).parents[1] / "evaluate" / "agent.py"
STACK = "agent/model-1"
BODY = "---\nname: {name}\ndescription: {about}\n---\n# How\n\nA useful trick.\n"
SKILLS = {"pdf-forms": "Fill in PDF forms.", "sql-tuning": "Tune slow SQL queries."}


class Home:
    """`metier` in this process with the hashed encoder, over two small skills."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main([*words, f"--home={self.folder / 'home'}", "--set", "encoder=hash"])
        out, err = self.capsys.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def verdicts(self, text: str = "fill in a pdf form", stack: str = STACK) -> dict[str, tuple[str, str]]:
        found = self.json("route", text, "--stack", stack)
        return {c["name"]: (c["verdict"]["level"], c["verdict"]["reason"]) for c in found["candidates"]}


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, about in SKILLS.items():
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(BODY.format(name=name, about=about), encoding="utf-8")
    made = Home(tmp_path, capsys)
    assert made.run("index", str(tmp_path / "skills"))[0] == 0
    return made


def panel(folder: Path, gains: int = 6, *, name: str = "p.json") -> Path:
    rows = [
        {"id": f"f{n}", "family": "forms", "text": f"fill in pdf form {n}", "y0": 0, "y1": 1, "skill": "pdf-forms",
         "tokens0": 100, "tokens1": 150} for n in range(gains)
    ] + [
        {"id": f"q{n}", "family": "sql", "text": f"fill in query form {n}", "y0": 1, "y1": 0, "skill": "sql-tuning",
         "tokens0": 100, "tokens1": 300} for n in range(gains)
    ]  # fmt: skip
    (folder / name).write_text(json.dumps({"rows": rows}), encoding="utf-8")
    return folder / name


def test_recorded_pairs_let_a_skill_load_and_the_output_said_what_would(home: Home) -> None:
    assert home.verdicts()["pdf-forms"] == ("offer", "no-evidence")
    found = home.json("route", "fill in a pdf form", "--stack", STACK)["candidates"][0]["evidence"][-1]
    assert found["stage"] == "gate" and found["detail"]["earns"].startswith("3 more paired past tasks")
    for number in range(3):
        route = home.json("route", f"fill in pdf form {number}", "--stack", STACK)["route_id"]
        told = home.json("record", route, "pdf-forms", "--success", "1", "--tokens", "90", "--origin", "check")
        assert (told["arm"], told["success"], told["stack"]) == ("use", 1.0, STACK)
        assert home.run("record", route, "pdf-forms", "--success", "0", "--arm", "skip")[0] == 0
    assert home.verdicts()["pdf-forms"] == ("load", "gain")
    assert home.verdicts(stack="agent/model-2")["pdf-forms"] == ("offer", "no-evidence")
    (home.folder / "skills" / "pdf-forms" / "SKILL.md").write_text(
        BODY.format(name="pdf-forms", about="Fill in PDF forms.") + "changed", encoding="utf-8"
    )
    assert home.run("index")[0] == 0
    assert home.verdicts()["pdf-forms"] == ("offer", "stale")


def test_recording_the_same_outcome_twice_is_recording_it_once(home: Home) -> None:
    route = home.json("route", "fill in a pdf form", "--stack", STACK)["route_id"]
    for _ in range(2):
        assert home.run("record", route, "pdf-forms", "--success", "1")[0] == 0
    assert home.json("bank", "show")["rows"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("record", "r_none", "pdf-forms", "--success", "1"), "r_none"),
        (("record", "ROUTE", "no-such-skill", "--success", "1"), "no-such-skill"),
        (("record", "ROUTE", "pdf-forms", "--success", "1.5"), "success is 1.5"),
        (("bank", "import", "nowhere.jsonl"), "nowhere.jsonl: there is no such file"),
        (("bank", "import"), "needs a FILE"),
        (("bank", "export", "x.json", "--format", "support"), "name it with --skill"),
        (("bank", "export", "x.json", "--summary", "pdf-forms"), "no paired tasks"),
        (("bank", "plan", "--width", "2"), "half-width is 2"),
        (("budget", "--window", "-5"), "--window -5"),
        (("collect", "t.jsonl", "--agent", "cat"), "t.jsonl: there is no such file"),
        (("eval", "gate", "--panel", "gone.json"), "gone.json: there is no such file"),
    ],
)
def test_what_cannot_be_done_says_why_on_one_line(home: Home, words: tuple[str, ...], says: str) -> None:
    route = home.json("route", "fill in a pdf form", "--stack", STACK)["route_id"]
    code, out, err = home.run(*(route if word == "ROUTE" else word for word in words))
    assert (code, out) == (1, "") and says in err
    assert len(err.strip().splitlines()) == 1


def test_an_imported_panel_is_shown_moves_verdicts_and_changes_nothing_twice(home: Home) -> None:
    path = str(panel(home.folder))
    told = home.json("bank", "import", path, "--stack", STACK)
    assert (told["read"], told["new"], told["unbound"], told["refused"]) == (24, 24, 0, [])
    assert home.json("bank", "import", path, "--stack", STACK)["new"] == 0
    shown = home.json("bank", "show")
    (only,) = shown["stacks"]
    skills = {each["skill"].rpartition("/")[2].rpartition(":")[2]: each for each in only["skills"]}
    assert (only["stack"], skills["pdf-forms"]["pairs"], skills["pdf-forms"]["gain"]) == (STACK, 6, 1.0)
    assert skills["sql-tuning"]["gain"] == -1.0 and skills["sql-tuning"]["interval"][1] < 0
    assert home.verdicts() == {"pdf-forms": ("load", "gain"), "sql-tuning": ("skip", "no-gain")}
    assert len(home.json("bank", "show", "pdf-forms")["stacks"][0]["skills"]) == 1
    text = home.run("bank", "show")[1]
    assert STACK in text and "+1.00" in text and "-1.00" in text
    assert "24 known already" in home.run("bank", "import", path, "--stack", STACK)[1]
    mistyped = home.run("bank", "show", "--stack", "nobody/none")[1]
    assert "No outcomes on nobody/none" in mistyped and STACK in mistyped and "empty" not in mistyped


def test_refused_rows_are_named_with_their_line(home: Home) -> None:
    path = home.folder / "rows.jsonl"
    path.write_text('{"broken\n{"id": "a", "y0": 0, "y1": 2, "text": "t", "skill": "pdf-forms"}\n', encoding="utf-8")
    code, out, _ = home.run("bank", "import", str(path), "--stack", STACK)
    assert code == 0 and "0 new outcomes" in out and "line 1: not JSON" in out and "line 2: outcome of task 't'" in out


def test_every_export_can_be_read_again(home: Home) -> None:
    home.run("bank", "import", str(panel(home.folder)), "--stack", STACK)
    out = home.folder / "out"
    out.mkdir()
    assert home.json("bank", "export", str(out / "rows.jsonl"))["count"] == 24
    about = ("--skill", "pdf-forms", "--stack", STACK)
    assert home.json("bank", "export", str(out / "s.json"), "--format", "support", *about)["count"] == 6
    assert home.json("bank", "export", str(out / "o.jsonl"), "--format", "outcomes", *about)["count"] == 12
    assert home.json("bank", "export", str(out / "p.json"), "--format", "panel", "--stack", STACK)["count"] == 12
    assert home.json("bank", "export", str(out / "sum.json"), "--summary", "pdf-forms")["count"] == 1
    assert home.json("bank", "import", str(out / "rows.jsonl"))["new"] == 0
    assert home.json("bank", "import", str(out / "s.json"), "--skill", "pdf-forms", "--stack", "else")["new"] == 6
    assert home.json("bank", "import", str(out / "o.jsonl"), *about)["read"] == 12
    assert home.json("bank", "import", str(out / "sum.json"))["kind"] == "summary"
    told = home.json("eval", "gate", "--panel", str(out / "p.json"), "--vectors", str(out / "p.npz"))
    assert told["rows"] == 12 and told["policy"]["success"] == 1.0


def test_a_plan_says_what_is_missing_and_what_a_new_stack_would_cost(home: Home) -> None:
    home.run("bank", "import", str(panel(home.folder)), "--stack", STACK)
    told = home.json("bank", "plan", "--width", "0.3")
    assert told["pairs_for_a_new_skill"] > 20 and {n["pairs"] for n in told["skills"]} == {6}
    assert all(n["runs"] == 2 * max(n["wanted_pairs"] - 6, 0) for n in told["skills"])
    new = home.json("bank", "plan", "--stack", "agent/model-2", "--set", "gate.exchange=2")
    assert new["from"] == STACK and [f["runs"] for f in new["families"]] == [12, 12]
    assert {f["tokens"] for f in new["families"]} == {12 * 125.0, 12 * 200.0}
    assert all(f["breaks_even_tasks"] for f in new["families"])
    assert "pays after" in home.run("bank", "plan", "--stack", "agent/model-2")[1]
    worth = home.json("bank", "plan", "--worth")["simulated"]
    assert [w["support"] for w in worth] == [30, 60, 120, 240, 60, 240]


def test_a_fitted_threshold_is_in_force_for_its_family(home: Home) -> None:
    home.run("bank", "import", str(panel(home.folder, 24)), "--stack", STACK)
    told = home.json("bank", "fit", "--stack", STACK, "--use-rate", "0")
    assert len(told["families"]) == 2 and all(f["pairs"] == 24 for f in told["families"])
    assert home.verdicts()["pdf-forms"] == ("skip", "no-gain")
    assert "no family" in home.run("bank", "fit", "--stack", "other")[1]


def test_an_empty_bank_says_how_to_fill_it(home: Home) -> None:
    code, out, _ = home.run("bank", "show")
    assert code == 0 and "metier collect" in out


def test_eval_gate_prints_the_json_that_other_programs_read(home: Home) -> None:
    rng = np.random.default_rng(0)
    rows = [{"id": f"t{n}", "family": f"f{n % 3}", "y0": float(rng.random() < 0.5), "y1": float(rng.random() < 0.6)}
            for n in range(60)]  # fmt: skip
    (home.folder / "p.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    np.savez(home.folder / "v.npz", ids=np.array([r["id"] for r in rows]), vectors=rng.normal(size=(60, 4)))
    base = ("eval", "gate", "--panel", str(home.folder / "p.json"), "--vectors", str(home.folder / "v.npz"))
    told = home.json(*base)
    assert told["schema"] == "metier-eval-gate-v1" and len(told["predictions"]) == told["rows"] == 60
    assert told["policy"]["token_saving"] is None and told["matched_rate"]["between_pp"] is None
    every = (
        "--k",
        "3",
        "--scope",
        "global",
        "--weighting",
        "uniform",
        "--score",
        "positive-label",
        "--threshold",
        "prevalence",
    )
    other = home.json(*base, *every)
    assert other["rule"]["k"] == 3 and all(0 < p["threshold"] < 1 and 0 <= p["tau"] <= 1 for p in other["predictions"])
    half = home.json(*base, "--holdout", "3", "--threshold", "0.1")
    assert half["rows"] == 30 and {p["threshold"] for p in half["predictions"]} == {0.1}
    assert half["matched_rate"]["between_pp"] + half["matched_rate"]["within_pp"] == pytest.approx(
        half["matched_rate"]["advantage_pp"]
    )
    assert home.json(*base, "--use-rate", "0.25")["policy"]["use_rate"] <= 0.25
    code, out, err = home.run(*base, "--report", str(home.folder / "report"))
    assert code == 0 and "advantage at matched rate" in out and (home.folder / "report" / "gate.md").exists(), err


def test_wrong_knobs_are_wrong_usage_or_one_line(home: Home) -> None:
    path = str(panel(home.folder))
    for words in (("--scope", "x"), ("--threshold", "often")):
        with pytest.raises(SystemExit) as caught:
            home.run("eval", "gate", "--panel", path, *words)
        assert caught.value.code == 2
    home.capsys.readouterr()
    code, out, err = home.run("eval", "gate", "--panel", path, "--k", "0")
    assert (code, out) == (1, "") and "k is 0" in err


def test_collect_plans_runs_records_and_resumes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_LOG", str(home.folder / "log"))
    (home.folder / "log").touch()
    lines = [{"id": f"t{n}", "task": f"do {n}", "skill": "pdf-forms"} for n in range(3)]
    (home.folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (home.folder / "check.py").write_text(
        "import json, os\ntold = open(os.environ['METIER_ANSWER_FILE']).read()\n"
        "print(1 if json.loads(told)['answer'] == 'right' else 0)\n",
        encoding="utf-8",
    )
    words = ("collect", str(home.folder / "tasks.jsonl"), "--agent", f"{sys.executable} {AGENT}",
             "--check", f"{sys.executable} {home.folder / 'check.py'}", "--stack", STACK)  # fmt: skip
    planned = home.json(*words)
    assert (planned["go"], planned["runs"], planned["left"], planned["started"]) == (False, 6, 6, 0)
    assert "Nothing was run" in home.run(*words)[1] and (home.folder / "log").read_text() == ""
    first = home.json(*words, "--go", "--max-runs", "3")
    assert (first["recorded"], first["capped"], first["left"]) == (3, "--max-runs 3", 3)
    rest = home.json(*words, "--go")
    assert (rest["recorded"], rest["open"], rest["left"]) == (3, 0, 0)
    assert home.verdicts("do 1 with a pdf form")["pdf-forms"] == ("load", "gain")


def test_a_check_is_found_where_the_person_stands_and_a_plan_says_what_is_not_there(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    Path("t.jsonl").write_text('{"task": "x", "skill": "pdf-forms"}', encoding="utf-8")
    words = ("collect", "t.jsonl", "--agent", "cat", "--check", "./check.sh", "--stack", STACK)
    assert "no program ./check.sh here" in home.run(*words)[2]
    Path("check.sh").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    Path("check.sh").chmod(0o755)
    assert home.run(*words)[2] == ""
    assert home.json(*words, "--go")["recorded"] == 2
    assert "not on the PATH" in home.run(*words[:3], "no-such-agent", *words[4:])[2]


def test_a_collection_without_a_stack_is_refused(home: Home) -> None:
    (home.folder / "t.jsonl").write_text('{"task": "x", "skill": "pdf-forms"}', encoding="utf-8")
    code, out, err = home.run("collect", str(home.folder / "t.jsonl"), "--agent", "cat", "--check", "true")
    assert (code, out) == (1, "") and "--stack" in err
