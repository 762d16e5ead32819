"""What the agent did with the skills it was shown: observed from its tool calls, never asked of it."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.errors import NotFound
from metier.late import dataclass
from metier.store import log_events, shown
from metier.types import Event, What

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop

ROUTES_BACK = 20
"""Routes of a session that are searched for a skill that the agent used."""
TRANSCRIPT_TAIL = 1_000_000
"""Bytes at the end of a transcript that are read when the agent stops: several turns of tool calls."""
SHRUNK = 0.5
"""A request of under this part of the one before has lost its history: Gemini keeps 30% when it compresses [ours]."""


def happened(shop: Workshop, session: str | None, names: Sequence[str], what: What) -> None:
    """Each of these skills was `what`, on the session's latest route that had it, once."""
    events = []
    for name in names:
        found = _on_routes(shop, session, name) or _in_library(shop, name)
        if found is not None and not _noted(shop, *found[:2], what, session):
            events.append(Event(found[0], found[1], what, time.time(), session, found[2]))
    if events:
        log_events(shop.store, events)


def _on_routes(shop: Workshop, session: str | None, name: str) -> tuple[str, str, str] | None:
    """(route, skill, digest) of the session's latest slate that holds a skill of that id or name."""
    if session is None:
        return None
    rows = shop.store.rows(
        "SELECT id, slate FROM routes WHERE session = ? ORDER BY at DESC LIMIT ?", (session, ROUTES_BACK)
    )
    bare = name.rpartition(":")[2]
    for row in rows:
        candidates = json.loads(row["slate"]).get("candidates", [])
        for wanted in (name, bare):
            for candidate in candidates:
                if wanted in (candidate["id"], candidate["name"]):
                    return row["id"], candidate["id"], candidate["digest"]
    return None


def _in_library(shop: Workshop, name: str) -> tuple[str, str, str] | None:
    """The same for a skill that was used though no route had it: the route is empty."""
    if shop.view.current() is None:
        return None
    for wanted in dict.fromkeys((name, name.rpartition(":")[2])):
        try:
            skill = shop.skill(wanted)
        except NotFound:
            continue
        return "", skill.id, skill.digest
    return None


def _noted(shop: Workshop, route: str, skill: str, what: What, session: str | None) -> bool:
    return bool(
        route
        and shop.store.rows(
            "SELECT 1 FROM events WHERE route = ? AND skill = ? AND what = ? AND session IS ?",
            (route, skill, what, session),
        )
    )


def seen_in(shop: Workshop, session: str | None, inputs: Sequence[str]) -> None:
    """Shown skills whose files these tool calls touched were used; a file is told by the end of its path."""
    if session is None or not inputs:
        return
    open_ones = {skill: what for (skill, _), what in shown(shop.store, session).items() if what != "used"}
    text = "\n".join(inputs).replace("\\\\", "/")
    touched = [skill for skill, what in open_ones.items() if _touched(text, skill, loaded=what == "loaded")]
    happened(shop, session, touched, "used")


def _touched(text: str, skill: str, *, loaded: bool) -> bool:
    """A body that is in the context already is used through its other files; any other by reading its SKILL.md."""
    folder = skill.partition(":")[2].strip("/")
    if not folder:
        return False
    return f"/{folder}/SKILL.md" in text or f"metier show '{skill}'" in text or (loaded and f"/{folder}/" in text)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the end of a transcript shows of the agent itself."""

    calls: tuple[str, ...] = ()
    """Inputs of its tool calls, as JSON."""
    model: str | None = None
    """The model that answered last, where the transcript says so."""
    shrunk: bool = False
    """Whether the host compressed the history in the last turn (Gemini writes tokens; others send an event)."""


def read_turn(transcript: Path) -> Turn:
    """The agent's tool calls and its model, from JSON lines of Claude Code, Codex, Gemini or Qwen.

    What cannot be read is skipped.
    """
    try:  # without waiting: what was a file a moment ago may be a pipe now
        descriptor = os.open(transcript, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):  # none there, or a name that no file can have
        return Turn()
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        return Turn()
    with os.fdopen(descriptor, "rb") as file:
        start = max(0, about.st_size - TRANSCRIPT_TAIL)
        file.seek(start)
        lines = file.read(TRANSCRIPT_TAIL).split(b"\n")
    calls: list[str] = []
    model = None
    size, shrunk = 0, False
    for line in lines[1 if start else 0 :]:
        if b'"model"' in line or b"tool_use" in line or b"_call" in line or b'"type":"user"' in line:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(entry, Mapping):
                continue
            calls += _calls(entry)
            model = _model(entry) or model
            if entry.get("type") == "user" and b"functionResponse" not in line:
                shrunk = False  # the turn begins
            now = _size(entry)
            if now is not None:
                size, shrunk = now, shrunk or now < SHRUNK * size
    return Turn(tuple(calls), model, shrunk)


def _model(entry: Mapping[str, Any]) -> str | None:
    """Claude Code has it in the message; Gemini and Qwen have it beside."""
    message = entry.get("message")
    said = message.get("model") if isinstance(message, Mapping) and message.get("role") == "assistant" else None
    if entry.get("type") in ("gemini", "assistant"):
        said = said or entry.get("model")
    return said if isinstance(said, str) and said and not said.startswith("<") else None


def _size(entry: Mapping[str, Any]) -> int | None:
    """Tokens of the request that this answer of Gemini's answers."""
    tokens = entry.get("tokens")
    size = tokens.get("input") if isinstance(tokens, Mapping) and entry.get("type") == "gemini" else None
    return size if isinstance(size, int) else None


def _calls(entry: Mapping[str, Any]) -> Iterator[str]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():  # Claude Code
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            yield json.dumps(block.get("input"), ensure_ascii=False)
    parts = message.get("parts") if isinstance(message, Mapping) else None
    for part in parts if isinstance(parts, list) else ():  # Qwen
        if isinstance(part, Mapping) and isinstance(part.get("functionCall"), Mapping):
            yield json.dumps(part["functionCall"].get("args"), ensure_ascii=False)
    listed = entry.get("toolCalls")
    for call in listed if isinstance(listed, list) else ():  # Gemini
        if isinstance(call, Mapping):
            yield json.dumps(call.get("args"), ensure_ascii=False)
    payload = entry.get("payload")  # Codex
    if isinstance(payload, Mapping) and str(payload.get("type", "")).endswith("_call"):
        yield json.dumps([payload.get(k) for k in ("arguments", "input", "action")], ensure_ascii=False)
