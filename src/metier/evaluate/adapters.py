"""How each agent takes a task and a skill, and what its output says: data, one TOML file per agent.

An adapter's `argv` may hold only paths and the model's name; the texts of task and skill travel by stdin, file or
environment, so that no shell ever reads them as arguments. Every other command line is an adapter too: `{prompt}` on
its stdin, its stdout the answer.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import tomlkit
from tomlkit.exceptions import TOMLKitError

from metier.errors import InputError

FOLDER = Path(__file__).parent / "agents"
Deliver = Literal["prompt", "file", "folder", "env", "system"]
DELIVERIES: tuple[Deliver, ...] = ("prompt", "file", "folder", "env", "system")
BETWEEN = "\n\n---\n\n"
"""What separates the skill's text from the task in a prompt that holds both."""
IN_ARGUMENTS = frozenset({"workdir", "private", "task_file", "skill_file", "skill_dir", "model", "url"})
TRANSPORT_SIGNS = (
    "overloaded", "rate limit", "rate_limit", "too many requests", "connection refused", "connection reset",
    "econnreset", "econnrefused", "etimedout", "enotfound", "network error", "fetch failed", "service unavailable",
    "bad gateway", "gateway timeout", "internal server error", "api error: 5", "error 429", "error 529",
)  # fmt: skip
"""Words on stderr (or a failed answer) of an agent that ended badly which blame the way to the model, not the task."""
_SLOT = re.compile(r"\{(env:[A-Za-z_][A-Za-z0-9_]*|[a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Adapter:
    """One agent's way of being run."""

    name: str
    argv: tuple[str | tuple[str, ...], ...]
    """A nested group is left out whole when one of its slots is empty."""
    stdin: str = "{prompt}"
    deliver: Deliver = "prompt"
    skill_path: str = "SKILL.md"
    """Where in the working folder the skill goes, for `file` and `folder`; {name} is the skill's."""
    files: Mapping[str, Any] = field(default_factory=dict)
    """Private files: name → text, or a table written as JSON."""
    output: Mapping[str, Any] = field(default_factory=dict)
    transport_exits: tuple[int, ...] = ()
    url: str = ""
    model: str = ""

    def fill(self, template: str, slots: Mapping[str, str]) -> str:
        """The template with its slots filled; a line whose `{env:NAME}` is not set is left out."""
        lines = []
        for line in template.split("\n"):
            if all(slots.get(name) is not None for name in _SLOT.findall(line) if name.startswith("env:")):
                lines.append(_SLOT.sub(lambda found: slots.get(found[1], found[0]), line))
        return "\n".join(lines)

    def arguments(self, slots: Mapping[str, str]) -> list[str]:
        """The command as a list of arguments."""
        found: list[str] = []
        for part in self.argv:
            if isinstance(part, str):
                found.append(self.fill(part, slots))
            elif all(slots.get(name) for each in part for name in _SLOT.findall(each)):
                found += [self.fill(each, slots) for each in part]
        return found

    def private_files(self, slots: Mapping[str, str]) -> dict[str, str]:
        """Name → content of the files that the agent is pointed to."""
        return {
            name: self.fill(value, slots) if isinstance(value, str) else json.dumps(self._filled(value, slots))
            for name, value in self.files.items()
        }

    def _filled(self, value: Any, slots: Mapping[str, str]) -> Any:
        if isinstance(value, str):
            return self.fill(value, slots)
        if isinstance(value, Mapping):
            return {key: self._filled(each, slots) for key, each in value.items()}
        if isinstance(value, list):
            filled = [self._filled(each, slots) for each in value]
            return [each for each in filled if not (isinstance(each, Mapping) and "" in each.values())]
        return value

    def environment(self) -> frozenset[str]:
        """Names of the variables its templates read."""
        texts = [self.stdin, *(v for v in self.files.values() if isinstance(v, str))]
        return frozenset(name[4:] for text in texts for name in _SLOT.findall(text) if name.startswith("env:"))


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent's output says."""

    answer: str
    tokens: int | None = None
    cost: float | None = None
    model: str | None = None
    failed: bool = False
    """The agent itself says that it failed before it could answer."""


def open_adapter(spec: str, *, model: str = "", deliver: Deliver | None = None) -> Adapter:
    """The adapter of a name (claude-code, codex, chat:MODEL@URL), of a TOML file, or of any command line.

    Raises `InputError` for an empty command, an adapter that cannot be read, or a text among its arguments.
    """
    name, _, rest = spec.partition(":")
    known = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}
    if name == "chat" and rest:
        chosen, _, url = rest.rpartition("@")
        if not chosen or not url or any(sign in url + chosen for sign in '"\\\n'):
            raise InputError(f"--agent {spec!r}: write chat:MODEL@URL, such as chat:llama3@http://127.0.0.1:8080/v1")
        found = replace(_read(known["chat"]), url=url.rstrip("/"), model=chosen)
    elif spec in known:
        found = _read(known[spec])
    elif spec.endswith(".toml"):
        found = _read(Path(spec))
    else:
        try:
            words = shlex.split(spec)
        except ValueError as error:
            raise InputError(f"--agent {spec!r}: {error}; quote it as a command line") from error
        if not words:
            raise InputError("--agent is empty; give a command, claude-code, codex, or chat:MODEL@URL")
        found = Adapter(Path(words[0]).name, tuple(words))
    if deliver is not None:
        found = replace(found, deliver=deliver)
    found = replace(found, model=model or found.model)
    for part in found.argv:
        for each in (part,) if isinstance(part, str) else part:
            wrong = [slot for slot in _SLOT.findall(each) if slot not in IN_ARGUMENTS]
            if any(slot in ("task", "skill", "prompt") or slot.startswith("env:") for slot in wrong):
                raise InputError(
                    f"--agent: {each!r} would put a text among the arguments; "
                    "use {task_file}, {skill_file} or stdin"
                )
    return found


def _read(path: Path) -> Adapter:
    try:
        told = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
        argv = tuple(part if isinstance(part, str) else tuple(str(p) for p in part) for part in told["argv"])
        deliver = told.get("deliver", "prompt")
        if deliver not in DELIVERIES or not argv:
            raise InputError(f"{path}: deliver is {deliver!r}; use one of {', '.join(DELIVERIES)}")
        return Adapter(
            str(told.get("name", path.stem)), argv, str(told.get("stdin", "{prompt}")), deliver,
            str(told.get("skill_path", "SKILL.md")), told.get("files", {}), told.get("output", {}),
            tuple(int(code) for code in told.get("transport_exits", ())),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such adapter file") from error
    except (TOMLKitError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path}: not an adapter ({error}); see the ones in metier/evaluate/agents") from error


def said(adapter: Adapter, stdout: str) -> Said:
    """Answer, tokens, cost and model of an agent's output; garbage is an answer without figures."""
    form = adapter.output.get("format", "text")
    events: list[Any] = []
    if form == "json":
        events = [_parsed(stdout)]
    elif form == "jsonl":
        events = [_parsed(line) for line in stdout.splitlines()]
    events = [event for event in events if isinstance(event, Mapping)]
    if not events:
        return Said(stdout)
    answers = [text for event in events if isinstance(text := at(event, adapter.output.get("answer", "")), str)]
    counts = [_number(at(event, path)) for event in events for path in adapter.output.get("tokens", ())]
    known = [count for count in counts if count is not None]
    costs = [c for event in events if (c := _number(at(event, adapter.output.get("cost", "")))) is not None]
    models = [m for event in events if (m := _model(adapter, event)) is not None]
    failed = any(at(event, adapter.output.get("failed", "")) is True for event in events)
    return Said(answers[-1] if answers else stdout, round(sum(known)) if known else None,
                sum(costs) if costs else None, models[-1] if models else None, failed)  # fmt: skip


def _model(adapter: Adapter, event: Any) -> str | None:
    value = at(event, adapter.output.get("model", ""))
    if isinstance(value, str):
        return value
    keys = at(event, adapter.output.get("model_keys", ""))
    return "+".join(sorted(keys)) if isinstance(keys, Mapping) and keys else None


def at(value: Any, path: str) -> Any:
    """The value at a dotted path of keys and positions, or None."""
    if not path:
        return None
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, Sequence) and not isinstance(value, str) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _number(value: Any) -> float | None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if ok else None
