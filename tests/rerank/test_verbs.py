"""`metier graph`, `metier show --graph` and `metier eval rerank` as people run them."""

import json
from pathlib import Path

import pytest
from tests.evaluate.test_corrupt import BODY, DESCRIPTION, REQUEST
from tests.rerank.material import MESH

from metier.edge.cli.main import main


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("METIER_ENCODER", "hash")
    for name, body in (("mesh-mass", MESH), ("mesh-report", BODY)):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: {DESCRIPTION}\n---\n{body}", encoding="utf-8"
        )
    return tmp_path / "skills"


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    code = main([str(w) for w in words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_eval_rerank_prints_the_stated_json(shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = tmp_path / "own.jsonl"
    requests.write_text(json.dumps({"id": "1", "text": REQUEST, "gold": ["mesh-report"]}) + "\n", encoding="utf-8")
    words = ("eval", "rerank", "--skills", shelf, "--requests", requests, "--seed", "0", "--per-request", "3", "--json")
    found = ran(capsys, *words)
    assert found["schema"] == "metier-eval-rerank-v1" and found["pairs"] == 1
    assert set(found["ndcg@4"]) == {"text", "witness", "delta", "ci95"} and len(found["ndcg@4"]["ci95"]) == 2
    assert all(set(v) >= {"n", "text", "witness", "delta", "ci95"} for v in found["by_operator"].values())
    assert ran(capsys, *words)["ndcg@4"] == found["ndcg@4"]


def test_requests_that_state_nothing_are_an_error_on_one_line(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = tmp_path / "own.jsonl"
    requests.write_text(json.dumps({"id": "1", "text": "hello", "gold": ["mesh-report"]}) + "\n", encoding="utf-8")
    assert main(["eval", "rerank", "--skills", str(shelf), "--requests", str(requests)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "give requests with details" in err and err.count("\n") == 1


def test_graphs_are_built_once_shown_and_exported(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ran(capsys, "graph", "--skills", shelf, "--shared", "--json")
    assert (first["made"], first["unchanged"], first["failed"]) == (2, 0, 0)
    again = ran(capsys, "graph", "--skills", shelf, "--json")
    assert (again["made"], again["unchanged"]) == (0, 2)
    shown = ran(capsys, "show", "mesh-mass", "--graph", "--skills", shelf, "--json")
    assert {n["type"] for n in shown["graph"]["nodes"]} == {"capability", "method", "artifact", "constraint"}
    assert main(["show", "mesh-mass", "--graph", "--skills", str(shelf)]) == 0
    assert "constraint: The file must not exceed 50 MB." in capsys.readouterr().out
    assert len(ran(capsys, "graph", "export", "--skills", shelf)["graphs"]) == 2
    assert (
        main(["graph", "export", "--skills", str(shelf), "--format", "graphml", "--out", str(tmp_path / "g.xml")]) == 0
    )
    assert (tmp_path / "g.xml").read_text(encoding="utf-8").count("<node ") > 10


def test_a_persons_correction_is_kept_and_used(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ran(capsys, "show", "mesh-mass", "--graph", "--skills", shelf, "--json")
    element = shown["graph"]["nodes"][5]["id"]
    assert main(["graph", "audit", "--skills", str(shelf), "--correct", "mesh-mass", element, "0.1"]) == 0
    capsys.readouterr()
    after = ran(capsys, "show", "mesh-mass", "--graph", "--skills", shelf, "--json")
    assert next(n for n in after["graph"]["nodes"] if n["id"] == element)["rho"] == 0.1
    assert main(["graph", "audit", "--skills", str(shelf), "--correct", "mesh-mass", "nothing", "0.1"]) == 1
    assert "has no element 'nothing'" in capsys.readouterr().err
    assert main(["graph", "audit", "--skills", str(shelf), "--correct", "mesh-mass", element, "7"]) == 1
    assert "a number from 0 to 1" in capsys.readouterr().err
    assert ran(capsys, "graph", "audit", "--skills", shelf, "--json")["pairs"] == 0


def test_a_model_that_is_not_configured_is_named_with_its_remedy(
    shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "--skills", str(shelf), "--llm"]) == 1
    assert "llm.model is not set" in capsys.readouterr().err
