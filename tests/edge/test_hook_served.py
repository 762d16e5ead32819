"""The hook's process, the http hook and the router in this process say the same, through a real `metier serve`."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge.material import SKILLS, workshop
from edge.served import served
from edge.test_hook_entry import ran
from metier.assemble.workshop import Workshop
from metier.edge.hooks import entry
from metier.edge.hooks.desk import Desk

pytest.importorskip("starlette")

ASKED = {
    "sql-tuning": "why is this query slow", "git-recovery": "get lost commits and branches back",
    "pdf-forms": "fill in PDF forms", "release-notes": "write release notes from the commits",
}  # fmt: skip


def first(said: Any) -> str:
    """The first skill on a card of a hook's answer."""
    lines = said["hookSpecificOutput"]["additionalContext"].splitlines()
    return str(next(line for line in lines if line.startswith("- "))[2:].partition(":")[0])


def test_every_way_to_ask_names_the_same_first_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = workshop(tmp_path)
    desk = Desk(lambda folder, host: Workshop(shop.config, cwd=folder), deadline=20.0)
    with served(shop, hook=desk) as client:
        assert entry.ask(b'{"hook_event_name": "Nothing"}', "codex", str(tmp_path / "home"), 20.0) == b"{}"
        for number, (name, text) in enumerate(ASKED.items()):
            event = {"hook_event_name": "UserPromptSubmit", "prompt": text, "cwd": str(shop.cwd)}
            by_http = client.post("/v1/hook/claude-code", {**event, "session_id": f"h{number}"}).json
            code, by_command, err = ran(tmp_path / "home", json.dumps({**event, "session_id": f"c{number}"}).encode())
            here = shop.router(source="hook").route(text).slate.candidates[0].skill.name
            assert (code, err) == (0, "")
            assert first(by_http) == first(by_command) == here == name
    assert {r["session"] for r in shop.store.rows("SELECT session FROM routes WHERE session IS NOT NULL")} == {
        f"{way}{n}" for way in "hc" for n in range(len(SKILLS))
    }
