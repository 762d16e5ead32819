"""Gemini and Qwen as they are: events and transcripts taken from gemini-cli 0.61.0 and qwen-code 0.24.4 at work."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge.material import workshop
from metier.assemble.workshop import Workshop
from metier.edge.hooks.answer import answer
from metier.edge.hooks.used import read_turn
from metier.store import fact

ASKED = "please write release notes from the commits between two tags"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return workshop(tmp_path)


def event(name: str, at: Path, **more: Any) -> dict[str, Any]:
    """The members that Gemini CLI sends with every event."""
    return {
        "session_id": "439b3e6b", "transcript_path": str(at / "chat.jsonl"), "cwd": str(at),
        "hook_event_name": name, "timestamp": "2026-11-30T23:36:01.888Z", **more,
    }  # fmt: skip


def said(shop: Workshop, at: Path) -> str:
    return json.dumps(answer(event("BeforeAgent", at, prompt=ASKED), shop, host="gemini"))


def turn(tokens: int, **more: Any) -> list[dict[str, Any]]:
    """A turn of Gemini's transcript: the prompt, a tool call with its answer, and what the model said."""
    answered = {"tokens": {"input": tokens, "output": 1, "total": tokens + 1}, "model": "gemini-2.5-pro"}
    called = {"id": "b", "type": "gemini", "content": "", **answered, **more}
    back = [{"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "…"}}}]
    return [
        {"id": "a", "type": "user", "content": [{"text": ASKED}]},
        called,
        {"$set": {"lastUpdated": "2026-11-30T23:36:02.664Z"}},
        {"id": "c", "type": "user", "content": back},
        {"id": "d", "type": "gemini", "content": "done", **answered},
    ]


def write(at: Path, entries: list[dict[str, Any]]) -> Path:
    lines = (json.dumps(e, separators=(",", ":")) for e in entries)
    (at / "chat.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return at / "chat.jsonl"


def test_gemini_asks_to_compress_before_every_request_and_nothing_is_shown_twice_for_that(
    shop: Workshop, tmp_path: Path
) -> None:
    assert "release-notes" in said(shop, tmp_path)
    assert answer(event("PreCompress", tmp_path, trigger="auto"), shop, host="gemini") == {}
    assert "release-notes" not in said(shop, tmp_path)
    answer(event("PreCompress", tmp_path, trigger="manual"), shop, host="gemini")
    assert "release-notes" in said(shop, tmp_path), "a compression that a person asked for takes place"


def test_a_request_of_under_half_the_one_before_shows_that_gemini_did_compress(shop: Workshop, tmp_path: Path) -> None:
    stop = event("AfterAgent", tmp_path, prompt=ASKED, prompt_response="done", stop_hook_active=False)
    assert "release-notes" in said(shop, tmp_path)
    write(tmp_path, [*turn(500_000), *turn(560_000)])
    answer(stop, shop, host="gemini")
    assert "release-notes" not in said(shop, tmp_path)
    write(tmp_path, [*turn(500_000), *turn(560_000), *turn(170_000)])
    answer(stop, shop, host="gemini")
    assert "release-notes" in said(shop, tmp_path)
    write(tmp_path, [*turn(560_000), *turn(170_000), *turn(180_000)])
    answer(stop, shop, host="gemini")
    assert "release-notes" not in said(shop, tmp_path), "an earlier turn's compression is not counted again"


def test_geminis_transcript_tells_the_model_and_the_skill_it_read(shop: Workshop, tmp_path: Path) -> None:
    assert "release-notes" in said(shop, tmp_path)
    call = {"name": "read_file", "args": {"file_path": f"{tmp_path}/project/.claude/skills/release-notes/SKILL.md"}}
    write(tmp_path, turn(100, toolCalls=[call]))
    answer(event("AfterAgent", tmp_path, prompt=ASKED), shop, host="gemini")
    assert fact(shop.store, "session:439b3e6b") == "gemini/gemini-2.5-pro"
    used = [r["skill"] for r in shop.store.rows("SELECT skill FROM events WHERE what = 'used'")]
    assert used == ["project:release-notes"]


def test_qwens_transcript_tells_the_model_and_its_calls(tmp_path: Path) -> None:
    parts = [
        {"text": "I look."},
        {"functionCall": {"id": "c", "name": "read_file", "args": {"file_path": "/s/SKILL.md"}}},
    ]
    entry = {"type": "assistant", "model": "qwen3-coder", "message": {"role": "model", "parts": parts}}
    seen = read_turn(write(tmp_path, [{"type": "system", "subtype": "ui_telemetry"}, entry]))
    assert seen.model == "qwen3-coder" and seen.calls == ('{"file_path": "/s/SKILL.md"}',) and not seen.shrunk


@pytest.mark.parametrize(
    "entry",
    [[], 1, None, {"type": "gemini", "toolCalls": 3, "model": 5, "tokens": []},
     {"type": "gemini", "toolCalls": [None, 1, {"args": None}], "model": "", "tokens": {"input": "many"}},
     {"type": "assistant", "model": {}, "message": {"parts": [None, {"functionCall": 1}], "role": []}}],
)  # fmt: skip
def test_a_transcript_of_another_shape_is_no_error(entry: Any, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(json.dumps([1, "model"]) + "\n" + json.dumps(entry) + '\n{"model": ', encoding="utf-8")
    assert read_turn(tmp_path / "t").model is None


def test_after_a_compaction_that_qwen_reports_skills_are_shown_anew(shop: Workshop, tmp_path: Path) -> None:
    ask = event("UserPromptSubmit", tmp_path, prompt=ASKED)
    assert answer(ask, shop, host="qwen") != {} and "release-notes" not in json.dumps(answer(ask, shop, host="qwen"))
    answer(event("PostCompact", tmp_path, trigger="auto", compact_summary="…"), shop, host="qwen")
    assert "release-notes" in json.dumps(answer(ask, shop, host="qwen"))
