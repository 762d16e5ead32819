"""`metier demo` tells its story on the bundled skills, to people and to programs, and leaves no home behind."""

import json
from pathlib import Path

import pytest

from metier.edge.cli.main import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "home"))


def test_the_demo_finds_stays_silent_and_earns_a_load(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["demo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, silent, earned = told["routes"]
    assert (told["schema"], told["skills"]) == ("metier-demo-v1", 15)
    assert first["candidates"][0]["name"] == "pdf-tables"
    assert first["candidates"][0]["verdict"]["level"] == "offer"
    assert silent["candidates"] == [] and "nothing relevant" in silent["note"]
    assert earned["candidates"][0]["name"] == "pdf-tables"
    assert earned["candidates"][0]["verdict"]["level"] == "load"
    assert "# Tables from PDF reports" in earned["text"]
    assert not (tmp_path / "home").exists()


def test_the_demo_explains_every_step_to_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--set", "encoder=hash", "tidy this csv"]) == 0
    out = capsys.readouterr().out
    assert "── 1. Index" in out and '── 2. Route: "tidy this csv"' in out and "metier doctor" in out


def test_a_verb_of_two_words_says_which_ones_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and all(f"metier eval {name}" in err for name in ("retrieval", "rerank", "gate"))
    assert main(["eval", "--help"]) == 0
    assert "metier eval gate" in capsys.readouterr().out


def test_a_folder_is_registered_and_unregistered_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    folder.mkdir()
    assert main(["index", str(folder), "--json", "--set", "encoder=hash"]) == 0
    capsys.readouterr()
    assert main(["index", "--forget", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "metier-unregister-v1", "paths": [str(folder)]}
