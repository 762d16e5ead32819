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
from metier.edge.web.server import running, serve

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


def test_a_session_begins_a_server_where_that_is_wanted_and_it_ends_when_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    begun: list[list[str]] = []
    shop = workshop(tmp_path)
    monkeypatch.setattr("subprocess.Popen", lambda words, **how: begun.append(words) if "serve" in words else None)
    started = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(shop.cwd)}
    home = str(shop.home)
    entry.cold(started, "claude-code", home, {})
    assert begun == []
    monkeypatch.setenv("METIER_HOOK_SERVE", "1800")
    entry.cold({**started, "hook_event_name": "Stop"}, "claude-code", home, {})
    assert begun == []
    entry.cold(started, "claude-code", home, {})
    assert [w for w in begun[0] if w.startswith("--")] == ["--quiet", "--port=0", "--idle=1800", f"--home={home}"]


def test_an_idle_server_ends_in_order(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    serve(shop, port=0, idle=0.05)
    assert not (shop.home / "serve.json").exists() and running(shop.home) is None


def test_a_server_that_is_asked_stays(tmp_path: Path) -> None:
    with served(workshop(tmp_path)) as client:
        meter = client.made.meter
        assert meter is not None
        before = meter.last
        assert client.get("/v1/health").status in (200, 404)
        assert meter.last > before and not client.made.server.should_exit
