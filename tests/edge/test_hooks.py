"""The hooks as a host calls them: what goes in is what its documentation says, what comes out can be relied on."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.material import project, settled, workshop, write_skill
from golden import golden_json
from metier.assemble.workshop import Workshop
from metier.disclose import Disclose, Disclosed
from metier.edge.hooks.answer import CAP, EVENTS, answer, guarded, in_time
from metier.edge.hooks.chatter import needless
from metier.edge.hooks.desk import DESKS, Desk
from metier.edge.hooks.used import Turn, read_turn
from metier.router import Router
from metier.store import fact, shown
from metier.types import Candidate, Skill, Slate, Task, Verdict


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return workshop(tmp_path)


def base(**more: Any) -> dict[str, Any]:
    """The members that Claude Code 2.1.197 sends with every event."""
    return {
        "session_id": "4b1b8f6e-session", "transcript_path": "/nowhere/t.jsonl", "cwd": "/nowhere",
        "prompt_id": "p1", "permission_mode": "default", **more,
    }  # fmt: skip


def prompt(text: str, **more: Any) -> dict[str, Any]:
    return base(hook_event_name="UserPromptSubmit", prompt=text, **more)


def context(shop: Workshop, text: str, **more: Any) -> str:
    said = answer(prompt(text, **more), shop, host="claude-code")
    return str(said["hookSpecificOutput"]["additionalContext"]) if said else ""


def events(shop: Workshop) -> list[tuple[str, str]]:
    return [(r["skill"], r["what"]) for r in shop.store.rows("SELECT skill, what FROM events ORDER BY n")]


# ------------------------------------------------------------------------------------------------ what comes out


def test_the_documented_events_get_the_documented_answers_golden(shop: Workshop, tmp_path: Path) -> None:
    asked = [
        base(hook_event_name="SessionStart", source="startup", model="claude-opus-4-8"),
        prompt("use the pdf-forms skill on this application"),
        base(hook_event_name="UserPromptExpansion", expansion_type="slash_command", command_name="sql-tuning",
             command_args="orders.sql", command_source="projectSettings", prompt="/sql-tuning orders.sql"),
        prompt("/sql-tuning orders.sql"),
        base(hook_event_name="PostToolUse", tool_name="Skill", tool_input={"skill": "pdf-forms"},
             tool_response={"success": True, "commandName": "pdf-forms"}, tool_use_id="toolu_1", duration_ms=13,
             effort={"level": "high"}),
        base(hook_event_name="Stop", stop_hook_active=False, last_assistant_message="Done.", background_tasks=[],
             session_crons=[], effort={"level": "high"}),
        base(hook_event_name="SomethingOfTomorrow", anything=[1, {"x": None}]),
    ]  # fmt: skip
    said = [{"event": event, "answer": answer(event, shop, host="claude-code")} for event in asked]
    golden_json("hooks-claude-code.json", json.loads(settled(json.dumps(said), tmp_path)))


def test_codex_gets_the_same_json_and_gemini_its_own_event_name(shop: Workshop) -> None:
    event = {
        "session_id": "s", "turn_id": "t", "transcript_path": None, "cwd": "/", "model": "gpt-6",
        "permission_mode": "default", "hook_event_name": "UserPromptSubmit", "prompt": "why is this query slow",
    }  # fmt: skip
    said = answer(event, shop, host="codex")
    assert set(said) == {"hookSpecificOutput"}
    assert set(said["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    said = answer({**event, "hook_event_name": "BeforeAgent", "session_id": "g"}, shop, host="gemini")
    assert said["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"


def test_the_text_states_facts_says_who_wrote_it_and_gives_no_orders(shop: Workshop) -> None:
    text = context(shop, "get my lost commits back")
    assert text.startswith("[metier]") and "git-recovery" in text
    assert not any(word in text for word in ("MUST", "MANDATORY", "IMPORTANT", "ALWAYS"))


@pytest.mark.parametrize(
    "said",
    ["", "   ", "hi", "Hello!", "thanks", "Thank you so much!!", "ok", "yes please", "go on", "LGTM", "2+2",
     "what is 17 * 23?", "12.5 % 3 =", "?!", "…", "danke schön", "merci", "谢谢", "はい", "спасибо", "/clear",
     "/sql-tuning slow.sql", "  OK, thanks  ", "👍"],
)  # fmt: skip
def test_small_talk_sums_and_commands_of_the_host_get_nothing(said: str) -> None:
    assert needless(said)


@pytest.mark.parametrize(
    "said",
    ["why is this query slow", "fill in the form", "use pdf-forms", "$pdf-forms", "git", "修复这个查询",
     "notes for 2.1", "thanks, now write the release notes", "what is 17 * 23 in the style of a form?",
     "continue with the migration"],
)  # fmt: skip
def test_anything_that_may_be_work_is_looked_up(said: str) -> None:
    assert not needless(said)


# ------------------------------------------------------------------------------------------------ what is remembered


def test_what_a_session_was_shown_is_not_shown_again_until_it_is_compacted(shop: Workshop) -> None:
    first = context(shop, "why is this query slow")
    assert "sql-tuning" in first
    assert "sql-tuning" not in context(shop, "why is this query slow")
    assert "sql-tuning" in context(shop, "why is this query slow", session_id="another")
    answer(base(hook_event_name="SessionStart", source="compact"), shop, host="claude-code")
    assert "sql-tuning" in context(shop, "why is this query slow")


def test_what_was_shown_before_makes_no_room_for_skills_that_fit_less(tmp_path: Path) -> None:
    shop = workshop(tmp_path, cards=2)
    assert "sql-tuning" in context(shop, "why is this query slow")
    assert context(shop, "why is this query slow") == "", "the two that fit best are known; the others fit less"
    assert "pdf-forms" in context(shop, "fill in PDF forms from a list of answers")


def test_the_model_named_when_the_session_starts_becomes_the_stack_of_its_routes(shop: Workshop) -> None:
    answer(base(hook_event_name="SessionStart", source="startup", model="claude-opus-4-8"), shop, host="claude-code")
    context(shop, "why is this query slow")
    context(shop, "why is this query slow", session_id="unknown")
    stacks = [r["stack"] for r in shop.store.rows("SELECT stack FROM routes ORDER BY at")]
    assert stacks == ["claude-code/claude-opus-4-8", "default"]
    assert fact(shop.store, "session:4b1b8f6e-session") == "claude-code/claude-opus-4-8"


def test_a_stack_that_the_user_set_wins_over_the_model_of_the_session(tmp_path: Path) -> None:
    shop = workshop(tmp_path, stack="mine/1")
    answer(base(hook_event_name="SessionStart", source="startup", model="m"), shop, host="claude-code")
    context(shop, "why is this query slow")
    assert [r["stack"] for r in shop.store.rows("SELECT stack FROM routes")] == ["mine/1"]


def test_a_request_in_the_log_of_a_hook_is_a_hash(shop: Workshop) -> None:
    context(shop, "why is this query slow")
    row = shop.store.rows("SELECT text, hash, source FROM routes")[0]
    assert row["text"] is None and len(row["hash"]) == 64 and row["source"] == "hook"


# ------------------------------------------------------------------------------------------------ what was used


def test_a_skill_tool_call_is_seen_as_use_of_the_offered_skill_once(shop: Workshop) -> None:
    context(shop, "why is this query slow")
    call = base(hook_event_name="PostToolUse", tool_name="Skill", tool_input={"skill": "sql-tuning"})
    for _ in range(2):
        assert answer(call, shop, host="claude-code") == {}
    assert [event for event in events(shop) if event[1] == "used"] == [("project:sql-tuning", "used")]
    route = shop.store.rows("SELECT id FROM routes")[0]["id"]
    assert shop.store.rows("SELECT route FROM events WHERE what = 'used'")[0]["route"] == route


def test_a_skill_that_a_person_calls_by_its_command_is_use_without_an_offer(shop: Workshop) -> None:
    event = base(hook_event_name="UserPromptExpansion", expansion_type="slash_command", command_name="release-notes")
    answer(event, shop, host="claude-code")
    assert [what for _, what in events(shop)] == ["used"]
    answer({**event, "command_name": "no-such-skill"}, shop, host="claude-code")
    answer({**event, "expansion_type": "mcp_prompt", "command_name": "git-recovery"}, shop, host="claude-code")
    assert len(events(shop)) == 1


@pytest.mark.parametrize("style", ["claude", "codex"])
def test_reading_an_offered_skill_is_seen_in_the_transcript_when_the_agent_stops(
    shop: Workshop, tmp_path: Path, style: str
) -> None:
    text = context(shop, "why is this query slow")
    command = f"cat {shop.cwd}/.claude/skills/sql-tuning/SKILL.md"
    block = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
    payload = {"type": "function_call", "arguments": json.dumps({"cmd": command})}
    call = {"message": {"content": [block]}} if style == "claude" else {"type": "response_item", "payload": payload}
    transcript = tmp_path / "t.jsonl"
    lines = [json.dumps({"type": "user", "message": {"content": text + command}}), "{broken", json.dumps(call)]
    transcript.write_text("\n".join(lines[:2]), encoding="utf-8")
    stop = base(hook_event_name="Stop", transcript_path=str(transcript))
    answer(stop, shop, host="claude-code")
    assert "used" not in [what for _, what in events(shop)], "text that was only shown is no use"
    transcript.write_text("\n".join(lines), encoding="utf-8")
    for _ in range(2):
        answer(stop, shop, host="claude-code")
    assert [skill.rpartition("/")[2].rpartition(":")[2] for skill, what in events(shop) if what == "used"] == [
        "sql-tuning"
    ]


def test_a_transcript_that_is_huge_or_no_file_is_read_within_bounds(tmp_path: Path) -> None:
    big = tmp_path / "big.jsonl"
    call = json.dumps({"message": {"content": [{"type": "tool_use", "input": {"n": 1}}]}})
    big.write_text("x" * 3_000_000 + "\n" + call + "\n", encoding="utf-8")
    assert read_turn(big) == Turn(('{"n": 1}',))
    assert read_turn(tmp_path) == read_turn(tmp_path / "none") == Turn()


def test_a_session_that_began_without_a_model_learns_it_from_its_own_transcript(shop: Workshop, tmp_path: Path) -> None:
    answer(base(hook_event_name="SessionStart", source="startup"), shop, host="claude-code")
    transcript = tmp_path / "t.jsonl"
    said = [
        {"message": {"role": "assistant", "model": "<synthetic>", "content": []}},
        {"message": {"role": "user", "model": "not-me", "content": []}},
        {"message": {"role": "assistant", "model": "claude-opus-4-8", "content": []}},
    ]
    transcript.write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
    answer(base(hook_event_name="Stop", transcript_path=str(transcript)), shop, host="claude-code")
    context(shop, "why is this query slow")
    assert [r["stack"] for r in shop.store.rows("SELECT stack FROM routes")] == ["claude-code/claude-opus-4-8"]


# ------------------------------------------------------------------------------------------------ size and trust


def test_the_text_never_passes_9000_characters_and_no_body_is_cut(tmp_path: Path) -> None:
    shop = workshop(tmp_path, budget=50_000, cards=50, built=False)
    for n in range(40):
        write_skill(shop.cwd / ".claude" / "skills", f"query-{n}", f"slow query number {n} " + "words " * 100, "body")
    shop.refresh()
    text = context(shop, "a slow query number that has many words")
    assert 4_000 < len(text) <= CAP
    assert all(line.startswith(("- ", "[metier]", "Possibly", "(")) for line in text.splitlines())


def loaded_slate(*names: str) -> Slate:
    skills = [Skill(f"user:{n}", n, f"about {n}", "d" * 64, "/r", "user", (f"/r/{n}",)) for n in names]
    candidates = tuple(Candidate(s, 9.0 - i, (), Verdict("load", "gain")) for i, s in enumerate(skills))
    return Slate("r_1", Task("t"), candidates)


def reading(shop: Workshop, body: Callable[[Skill], str]) -> Router:
    """The hook's router, whose skills have these bodies."""
    router = shop.router(source="hook")
    assert isinstance(router.disclose, Disclose)
    return guarded(replace(router, disclose=replace(router.disclose, body=body, loads=2, budget=50_000)), shop.store)


def test_a_body_over_the_cap_goes_out_as_a_card_and_the_verdict_stays_what_it_was(shop: Workshop) -> None:
    router = reading(shop, lambda skill: "x" * (20_000 if skill.name == "big" else 10))
    out = router.disclose(loaded_slate("small", "big"), None)
    assert isinstance(out, Disclosed)
    assert [s.name for s in out.loaded] == ["small"] and [s.name for s in out.offered] == ["big"]
    assert len(out.text) <= CAP and "xxxxxxxxxx" in out.text
    assert [c.verdict.level for c in out.slate.candidates] == ["load", "load"]


def test_a_skill_that_changed_since_it_was_last_loaded_is_flagged(shop: Workshop) -> None:
    router = reading(shop, lambda skill: "body")
    slate = loaded_slate("a")
    assert "has changed" not in router.disclose(slate, None).text
    shop.store.write(
        "INSERT INTO events (route, skill, digest, what, at) VALUES ('r', 'user:a', ?, 'loaded', 1)", ("e" * 64,)
    )
    text = router.disclose(slate, None).text
    assert "a has changed since it was last loaded here (sha256 eeeeeeeeeeee then, dddddddddddd now)" in text


# ------------------------------------------------------------------------------------------------ when things break


def test_without_an_index_the_answer_is_empty_and_one_refresh_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = workshop(tmp_path, built=False)
    asked: list[int] = []
    monkeypatch.setattr(Workshop, "refresh_behind", lambda self: asked.append(1))
    for _ in range(3):
        assert answer(prompt("why is this query slow"), shop, host="claude-code") == {}
    assert asked == [1]


def test_with_a_corrupt_index_the_answer_is_empty_and_a_rebuild_is_asked_for(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = shop.view.current()
    assert current is not None
    for file in current.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    asked: list[int] = []
    monkeypatch.setattr(Workshop, "refresh_behind", lambda self: asked.append(1))
    fresh = Workshop(shop.config, cwd=shop.cwd)
    assert answer(prompt("why is this query slow"), fresh, host="claude-code") == {}
    assert asked == [1] and not fresh.complete()


def test_a_locked_store_costs_the_log_but_not_the_deadline(shop: Workshop) -> None:
    shop.router(source="hook")
    shop.store.busy = 0.05
    shop.store.close()
    with shop.store.transaction():
        other = Workshop(shop.config, cwd=shop.cwd)
        other.store.busy = 0.05
        said = answer(prompt("why is this query slow"), other, host="claude-code")
    assert "sql-tuning" in said["hookSpecificOutput"]["additionalContext"]


def test_whatever_raises_the_answer_is_empty_and_the_reason_goes_to_stderr(shop: Workshop, tmp_path: Path) -> None:
    shop.store.close()
    for file in (tmp_path / "home").glob("store.db*"):
        file.write_bytes(b"this is no database" * 100)
    said: list[str] = []
    broken = Workshop(shop.config, cwd=shop.cwd)
    event = base(hook_event_name="SessionStart", source="startup", model="m")
    assert answer(event, broken, host="claude-code", complain=said.append) == {}
    assert len(said) == 1 and "store.db" in said[0]


def test_work_that_takes_too_long_is_left_alone_and_the_answer_is_empty() -> None:
    began = time.monotonic()
    assert in_time(lambda: (time.sleep(5), {"late": 1})[1], 0.05) == {}  # type: ignore[func-returns-value,return-value]
    assert time.monotonic() - began < 4
    assert in_time(lambda: {"x": 1}, 5) == {"x": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("session_id", "prompt", "cwd", "transcript_path", "tool_name", "tool_input", "model", "source", "command_name",
        "expansion_type")  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(event=st.dictionaries(st.sampled_from(KEYS), JSON), name=st.sampled_from([*EVENTS, "x"]))
def test_any_json_is_answered_with_an_object_of_the_documented_shape(
    event: dict[str, Any], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said = answer({**event, "hook_event_name": name}, fuzzed_shop(tmp_path_factory), host="claude-code")
    json.dumps(said)
    assert set(said) <= {"hookSpecificOutput"}


_FUZZED: list[Workshop] = []


def fuzzed_shop(factory: pytest.TempPathFactory) -> Workshop:
    if not _FUZZED:
        _FUZZED.append(workshop(factory.mktemp("fuzz")))
    return _FUZZED[0]


# ------------------------------------------------------------------------------------------------ the warm server


def test_one_desk_answers_for_many_folders_and_keeps_their_skills_apart(tmp_path: Path) -> None:
    def open_shop(folder: Path, host: str) -> Workshop:
        return workshop(folder.parent)

    for name in ("one", "two"):
        project(tmp_path / name / "project")
    write_skill(tmp_path / "two" / "project" / ".claude" / "skills", "only-two", "Bake sourdough bread.", "Flour.")
    desk = Desk(open_shop, deadline=20.0)
    folders = [tmp_path / name / "project" for name in ("one", "two")]
    said = [desk(prompt("bake sourdough bread", cwd=str(f)), "claude-code") for f in folders]
    assert ["only-two" in json.dumps(s) for s in said] == [False, True]
    first, second = (desk.shop(str(f), "claude-code") for f in folders)
    assert first is desk.shop(str(folders[0]), "claude-code") and first is not second


def test_a_desk_lets_the_least_used_folder_go_and_answers_nonsense_with_nothing(tmp_path: Path) -> None:
    desk = Desk(lambda folder, host: workshop(tmp_path, built=False), deadline=20.0)
    for n in range(DESKS + 4):
        (tmp_path / str(n)).mkdir()
        desk.shop(str(tmp_path / str(n)), "codex")
    assert len(desk._shops) == DESKS
    assert desk("nonsense", "codex") == {} and desk(prompt("x y z", cwd=7), "codex") == {}  # type: ignore[arg-type]
    complaints: list[str] = []

    def fail(folder: Path, host: str) -> Workshop:
        raise ValueError("no")

    assert Desk(fail, deadline=20.0, complain=complaints.append)(prompt("slow query"), "codex") == {}
    assert complaints == ["metier hook: ValueError: no"]


def test_seen_skills_are_matched_by_what_the_store_remembers(shop: Workshop) -> None:
    context(shop, "why is this query slow")
    known = shown(shop.store, "4b1b8f6e-session")
    assert set(known.values()) == {"offered"} and "project:sql-tuning" in {skill for skill, _ in known}
    rng = random.Random(1)
    noise = {"command": "".join(rng.choice("/abcdefgh.md ") for _ in range(500))}
    answer(base(hook_event_name="PostToolUse", tool_name="Bash", tool_input=noise), shop, host="claude-code")
    assert set(shown(shop.store, "4b1b8f6e-session").values()) == {"offered"}
    touched = {"command": f"cat {shop.cwd}/.claude/skills/sql-tuning/SKILL.md"}
    answer(base(hook_event_name="PostToolUse", tool_name="Bash", tool_input=touched), shop, host="claude-code")
    now = {skill: what for (skill, _), what in shown(shop.store, "4b1b8f6e-session").items()}
    assert now["project:sql-tuning"] == "used"
