"""The hook events: a prompt gets the skills that match it, as information; everything else is only observed.

Claude Code and Codex send the same JSON. Whatever goes wrong, the answer is `{}`: a hook that fails must cost the agent
nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.edge.hooks.chatter import needless
from metier.edge.hooks.used import happened, read_turn, seen_in
from metier.errors import IndexProblem, StoreError
from metier.store import Store, compacted, fact, set_fact
from metier.text import count_tokens, one_line
from metier.types import UNKNOWN_STACK, Candidate, Level, Skill, Slate, Verdict

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop
    from metier.router import Router, Shown

CAP = 9_000
"""Characters of injected text, at most; over 10,000 Claude Code shows a 2 KB preview instead (field report 20)."""
PROMPT_CAP = 200_000
"""Characters of a prompt that are looked at; what follows is pasted matter that the first part introduces."""
SESSION_DAYS = 30
"""A session's stack is forgotten after this many days."""
ASKED_SECONDS = 60.0
"""A refresh asked for this recently is under way or has failed; asking again would only pile processes up."""


def answer(
    event: Mapping[str, Any], shop: Workshop, *, host: str, complain: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """What the host reads; `{}` where there is nothing to say, where anything fails, and for events not known."""
    act = _EVENTS.get(str(event.get("hook_event_name", "")))
    if act is None:
        return {}
    try:
        return act(event, shop, host)
    except Exception as error:  # whatever breaks, the agent goes on as if metier were not there
        complain(f"metier hook: {type(error).__name__}: {one_line(str(error), 300)}")
        return {}


def in_time(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What `work` returns if it does so within `seconds`, else `{}`; the work is left to itself then."""
    done: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True, name="metier-hook")
    thread.start()
    thread.join(seconds)
    return done[0] if done else {}


# ------------------------------------------------------------------------------------------------------- the events


def _prompt(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    prompt = event.get("prompt")
    if not isinstance(prompt, str) or needless(prompt) or not _ready(shop):
        return {}
    if _due(shop):
        _refresh_once(shop)
    router = guarded(shop.router(source="hook"), shop.store)
    route = router.route(prompt[:PROMPT_CAP], stack=_stack(event, shop, host), session=_session(event), local=True)
    if not route.text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event["hook_event_name"], "additionalContext": route.text}}


def _session_start(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    session = _session(event)
    if session is not None:
        stack = _said_stack(event, host)
        if stack:
            set_fact(shop.store, f"session:{session}", stack)
            old = time.time() - SESSION_DAYS * 86_400
            shop.store.write("DELETE FROM facts WHERE key LIKE 'session:%' AND at < ?", (old,))
        if event.get("source") in ("compact", "clear"):
            compacted(shop.store, session)
    _ready(shop)
    return {}


def _compacted(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    session = _session(event)
    perhaps = event.get("hook_event_name") == "PreCompress" and event.get("trigger") == "auto"
    if session is not None and not perhaps:  # Gemini asks so before every request; `Turn.shrunk` tells whether it did
        compacted(shop.store, session)
    return {}


def _tool_used(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    given = event.get("tool_input")
    if event.get("tool_name") == "Skill" and isinstance(given, Mapping):
        name = given.get("skill") or given.get("command")
        if isinstance(name, str) and name:
            happened(shop, _session(event), [_valid(name)], "used")
    elif given is not None:
        seen_in(shop, _session(event), [json.dumps(given, ensure_ascii=False)])
    return {}


def _expanded(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    name = event.get("command_name")
    if event.get("expansion_type", "slash_command") == "slash_command" and isinstance(name, str) and name:
        happened(shop, _session(event), [_valid(name).lstrip("/")], "used")
    return {}


def _stopped(event: Mapping[str, Any], shop: Workshop, host: str) -> dict[str, Any]:
    path, session = event.get("transcript_path"), _session(event)
    if session is not None and isinstance(path, str) and path:
        turn = read_turn(Path(path).expanduser())
        seen_in(shop, session, turn.calls)
        if turn.shrunk:
            compacted(shop.store, session)
        if turn.model and fact(shop.store, f"session:{session}") is None:  # some sessions do not start with a model
            set_fact(shop.store, f"session:{session}", f"{host}/{turn.model}"[:200])
    return {}


_EVENTS: Mapping[str, Callable[[Mapping[str, Any], Workshop, str], dict[str, Any]]] = {
    "UserPromptSubmit": _prompt,
    "SessionStart": _session_start,
    "PostToolUse": _tool_used,
    "UserPromptExpansion": _expanded,
    "Stop": _stopped,
    "PreCompact": _compacted,
    "PostCompact": _compacted,
    "BeforeAgent": _prompt,  # Gemini CLI's names for three of these
    "AfterAgent": _stopped,
    "PreCompress": _compacted,
}
EVENTS = tuple(_EVENTS)
"""Every event that is answered or observed."""

# ------------------------------------------------------------------------------------------- session, stack, index


def _session(event: Mapping[str, Any]) -> str | None:
    session = event.get("session_id")
    return _valid(session[:200]) if isinstance(session, str) and session else None


def _valid(text: str) -> str:
    """The text without halves of surrogate pairs, which no database keeps."""
    return text.encode("utf-8", "replace").decode()


def _said_stack(event: Mapping[str, Any], host: str) -> str | None:
    model = event.get("model")
    if isinstance(model, Mapping):
        model = model.get("id") or model.get("display_name")
    return _valid(f"{host}/{model.strip()}"[:200]) if isinstance(model, str) and model.strip() else None


def _stack(event: Mapping[str, Any], shop: Workshop, host: str) -> str:
    """The user's own setting, else what this event says, else what the session's start said."""
    if shop.config.stack != UNKNOWN_STACK:
        return shop.config.stack
    session = _session(event)
    said = _said_stack(event, host)
    if said or not session:
        return said or UNKNOWN_STACK
    try:
        return str(fact(shop.store, f"session:{session}", UNKNOWN_STACK))
    except StoreError:  # a full disk or a read-only home costs the memory, not the answer
        return UNKNOWN_STACK


def _ready(shop: Workshop) -> bool:
    """Whether there is an index to answer from; where there is none, one is being built behind, never here."""
    current = shop.view.current()
    if current is not None:
        try:
            shop.reopen(current)
            return True
        except IndexProblem:
            shop.view.distrust()  # so that the refresh does not take it for a good one
    _refresh_once(shop)
    return False


def _due(shop: Workshop) -> bool:
    """Whether the folders should be looked at again, or vectors are missing."""
    facts = shop.view.facts()
    return not facts.get("complete") or time.time() - float(facts.get("at", 0.0)) > shop.config.rescan


def _refresh_once(shop: Workshop) -> None:
    """One process brings the index up to date behind; the router is not to look at the folders itself meanwhile."""
    now = time.time()
    asked = float(shop.view.facts().get("asked", 0.0))
    shop.view.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    shop.view.note(at=now)
    if now - asked > ASKED_SECONDS:
        shop.view.note(asked=now)
        shop.refresh_behind()


# ------------------------------------------------------------------------------------------- size cap and trust


def guarded(router: Router, store: Store, limit: int = CAP) -> Router:
    """The same router, whose text never passes `limit` characters and says where a loaded skill has changed.

    What does not fit whole becomes a card, or waits; nothing is cut in the middle (methods 5.2).
    """
    inner = router.disclose

    def disclose(slate: Slate, seen: Any) -> Shown:
        given = {c.skill.id: c.verdict for c in slate.candidates}
        trial = slate
        out = inner(trial, seen)
        while True:
            text = "\n".join([*changed(store, out.loaded), out.text])
            if len(text) <= limit or not (out.loaded or out.offered):
                break
            last = (out.loaded or out.offered)[-1].id
            trial = replace(trial, candidates=tuple(_held(c) if c.skill.id == last else c for c in trial.candidates))
            out = inner(trial, seen)
        kept = tuple(replace(c, verdict=given[c.skill.id]) for c in out.slate.candidates)
        return replace(out, slate=replace(out.slate, candidates=kept), text=text, tokens=count_tokens(text))  # type: ignore[type-var]

    return replace(router, disclose=disclose)


def changed(store: Store, skills: Sequence[Skill]) -> list[str]:
    """One line for each of these that was last loaded under another digest (field report 25)."""
    lines = []
    for skill in skills:
        before = store.rows(
            "SELECT digest FROM events WHERE skill = ? AND what = 'loaded' AND digest <> '' ORDER BY n DESC LIMIT 1",
            (skill.id,),
        )
        if before and before[0]["digest"] != skill.digest:
            lines.append(
                f"[metier] {one_line(skill.name, 64)} has changed since it was last loaded here "
                f"(sha256 {before[0]['digest'][:12]} then, {skill.digest[:12]} now)."
            )
    return lines


def _held(candidate: Candidate) -> Candidate:
    level: Level = "offer" if candidate.verdict.level == "load" else "skip"
    return replace(candidate, verdict=Verdict(level, candidate.verdict.reason))
