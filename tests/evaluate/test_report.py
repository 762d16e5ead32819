"""Reports say in Markdown what stands in the JSON beside it; plots are real pictures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from metier.edge.cli.diagnose import _print as for_people
from metier.edge.cli.main import main
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.evaluate.report import retrieval_report, table

from . import shelf

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """One run of each verb over the small library, with everything switched on."""
    folder = tmp_path_factory.mktemp("cli")
    skills, requests = shelf.library(folder), shelf.requests_file(folder)
    common = [
        "--skills", str(skills), "--requests", str(requests), "--home", str(folder / "home"), "--set", "encoder=hash",
        "--json", "--quiet",
    ]  # fmt: skip
    return {"folder": folder, "common": common}


def told(capsys: pytest.CaptureFixture[str], words: list[str]) -> dict:
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


def test_eval_retrieval_prints_the_stable_shape_and_writes_what_it_is_asked_for(
    said: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    folder: Path = said["folder"]
    extra = [
        "--tuned",
        "nowhere",
        "--ablate",
        "--sweep",
        "--report",
        str(folder / "r"),
        "--run",
        str(folder / "run.txt"),
    ]
    shown = told(capsys, ["eval", "retrieval", *said["common"], *extra, "--results", str(folder / "results.json")])
    assert shown["schema"] == "metier-eval-retrieval-v1"
    assert (shown["requests"], shown["skills"]) == (12, 60)
    assert {"mrr@10", "r@10", "hit@1", "ndcg@10"} <= set(shown["metrics"])
    assert set(shown["by_dataset"]) == {"first", "second"}
    assert set(shown["ms_per_request"]) == {"p50", "p95"}
    modules = [row["modules"] for row in shown["ablation"]]
    assert ["dense"] in modules and ["lexical"] in modules
    (default,) = [row for row in shown["ablation"] if row.get("default")]
    assert default["modules"] == shown["modules"] == ["lexical", "dense", "query-expansion"]
    assert default["metrics"]["mrr@10"] == shown["metrics"]["mrr@10"]
    assert json.loads((folder / "r" / "retrieval.json").read_text(encoding="utf-8")) == shown
    text = (folder / "r" / "retrieval.md").read_text(encoding="utf-8")
    assert f"{default['metrics']['mrr@10']:.1f}" in text and "**(default)**" in text
    for name in ("ablation.png", "alpha.png", "k1.png", "weights.png"):
        assert (folder / "r" / name).read_bytes().startswith(PNG) and f"![{name}]" in text
    assert len((folder / "run.txt").read_text(encoding="utf-8").splitlines()) > 12
    assert len(json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"]) == 12


def test_a_second_run_encodes_no_skill_and_ranks_the_same(said: dict, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", "retrieval", *said["common"], "--modules", "lexical,dense"]
    first, second = told(capsys, words), told(capsys, words)
    assert first["metrics"] == second["metrics"] and first["config"] == second["config"]
    vectors = sorted((said["folder"] / "home" / "vectors").rglob("*.vec"))
    assert told(capsys, words)["metrics"] == first["metrics"]
    assert sorted((said["folder"] / "home" / "vectors").rglob("*.vec")) == vectors


def test_named_modules_are_what_runs(said: dict, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, ["eval", "retrieval", *said["common"], "--modules", "dense,projection,document-expansion"])
    assert shown["modules"] == ["dense", "projection", "document-expansion"]


def test_diagnose_prints_the_stable_shape_and_a_report(said: dict, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, ["diagnose", *said["common"], "--report", str(said["folder"] / "d")])
    assert shown["schema"] == "metier-diagnose-v1"
    assert set(shown["background"]) == {"documents", "requests", "gap_after"}
    assert set(shown["unsaid_vocabulary"]) == {"lexical", "semantic", "soft", "request_in_gold"}
    assert {"value", "ci95", "n"} == set(shown["dilution"])
    gains = {(r["module"], r["diagnostic"]) for r in shown["correlations"]["gains"]}
    assert {m for m, _ in gains} == {"lexical", "projection", "query-expansion", "document-expansion"}
    assert {d for _, d in gains} == {"gap", "coverage", "dilution"}
    assert {(r["x"], r["y"]) for r in shown["correlations"]["between"]} == {
        ("gap", "coverage"), ("gap", "dilution"), ("coverage", "dilution"),
    }  # fmt: skip
    out = io.StringIO()
    for_people(shown, Screen(out=out))
    assert "background gap, documents" in out.getvalue() and "projection: o" in out.getvalue()
    assert (said["folder"] / "d" / "fifths.png").read_bytes().startswith(PNG)
    assert "## Unsaid vocabulary" in (said["folder"] / "d" / "diagnosis.md").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    shown = {"by_dataset": {}, "metrics": dict.fromkeys(("mrr@10", "r@10", "hit@1", "ndcg@10"), 0.0), "requests": 0,
             "skills": 0, "modules": [], "config": "c", "ms_per_request": {"p50": 0.0, "p95": 0.0}}  # fmt: skip
    with pytest.raises(InputError, match="file"):
        retrieval_report(shown, tmp_path / "file" / "inner", plots=False)


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    assert table(["a"], [["x|y"]]).splitlines()[-1] == "| x\\|y |"


def test_the_tuned_encoder_has_rows_of_its_own_where_it_is_named(
    said: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["--ablate", "--limit", "2", "--modules", "dense,lexical,tuned", "--untuned", "hash", "--tuned", "hash"]
    shown = told(capsys, ["eval", "retrieval", *said["common"], *extra])
    modules = [row["modules"] for row in shown["ablation"]]
    assert ["dense", "tuned"] in modules and ["lexical", "dense", "tuned"] in modules
    tuning = shown["modules_alone_and_last"][-1]
    assert tuning["base"] == ["tuned"] and tuning["alone"]["delta"] == tuning["last"]["delta"] == 0.0
