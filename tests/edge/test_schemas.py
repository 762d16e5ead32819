"""One schema's name, one shape: whoever reads `schema` can rely on the rest (decision 0064)."""

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from edge.material import workshop
from metier.assemble.workshop import Workshop
from metier.edge import wire
from metier.edge.cli.main import main

SOURCE = Path(__file__).parents[2] / "src" / "metier"
NAME = re.compile(r"(metier|skilldelta)-[a-z-]+-v\d+")


def makers() -> dict[str, list[str]]:
    """Schema → the places that make an object of it: a dict with the name, or a constant that holds it."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                found[node.value].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def test_every_schema_is_made_in_one_place() -> None:
    found = makers()
    assert len(found) > 25
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return workshop(tmp_path, host="cli")


def test_an_outcome_is_answered_alike_by_the_command_line_and_over_http(
    shop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette", reason="needs metier[serve]")
    from edge.served import served

    monkeypatch.chdir(shop.cwd)
    with served(shop) as client:
        route = client.post("/v1/route", {"task": "why is this query slow"}).json
        body = {"route_id": route["route_id"], "skill": "sql-tuning", "success": 1, "tokens": 7, "origin": "person"}
        over_http = client.post("/v1/outcomes", body).json
    capsys.readouterr()
    command = ["record", route["route_id"], "sql-tuning", "--success", "1", "--tokens", "7", "--json"]
    assert main([*command, "--home", str(shop.home)]) == 0
    assert json.loads(capsys.readouterr().out) == over_http
    assert over_http["schema"] == "metier-record-v1" and over_http["counts"] is True


def test_an_error_names_choices_only_where_there_are_some() -> None:
    assert wire.error("x", "y") == {"schema": "metier-error-v1", "error": "x", "message": "y"}
    assert wire.error("x", "y", ("a",))["choices"] == ["a"]
