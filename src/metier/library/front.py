"""Front matter → plain data: YAML where it is YAML, and the best reading of each key where it is not.

Every scalar stays the text that was written (`no`, `2024-05-01` and `1.10` are themselves: no booleans, dates or
floats), so one odd value can neither raise nor change a name. The YAML is consumed as a stream of events, with bounds
on its depth and size, so that nested brackets and alias bombs cost nothing. Where a file does not parse, each
top-level key is read alone: a broken description does not take `metadata` with it.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

import yaml

from metier.types import Problem

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_KEY = re.compile(
    r"(?P<quote>[\"']?)(?P<key>[A-Za-z_][\w.-]{0,60})(?P=quote)[ \t]*(?P<sign>[:=](?:[ \t]+|\Z)|：[ \t]*)"
)
_BLOCK = re.compile(r"(?P<style>[|>])[-+0-9]{0,2}[ \t]*(?:#.*)?\Z")
DEPTH = 50
"""Levels of nesting followed; the deepest of 12,610 public front matters has 7."""
NODES = 20_000
"""Values read, an alias counting what it repeats; the largest of 12,610 public ones has 269."""
CHARACTERS = 131_072
"""Characters of front matter read; the largest of 12,610 public ones has 4,301."""


@dataclass(slots=True)
class Front:
    """What the front matter says: plain data (str, None, list, dict) by key, and the line each key stands on."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    """Keys whose value stands without quotes, so that other programs may read it as a number, a date or a truth."""
    problems: list[Problem] = field(default_factory=list)

    def note(self, line: int, code: str, message: str, remedy: str) -> None:
        """One more thing that had to be forgiven."""
        self.problems.append(Problem("", line, code, message, remedy))


class _TooMuch(yaml.YAMLError):
    """More nesting, values or documents than a front matter has."""


def load(text: str, line: int) -> Front:
    """The data of a front matter whose first line is line `line` of its file; never raises."""
    front = Front()
    if len(text) > CHARACTERS:
        front.note(line, "front-matter-too-long", f"{len(text):,} characters of front matter, {CHARACTERS:,} read",
                   "move the text into the body")  # fmt: skip
        text = text[:CHARACTERS]
    try:
        value = _compose(text, line, front)
    except yaml.YAMLError as error:
        _by_key(text, line, front, error)
        return front
    if isinstance(value, dict):
        front.data = value
    elif value is None:
        front.note(line, "empty-front-matter", "the front matter is empty; the name is the folder's and the "
                   "description the first paragraph", "add 'name: …' and 'description: …'")  # fmt: skip
    else:
        _by_key(text, line, front, None)
    return front


def _compose(text: str, line: int, front: Front | None) -> Any:
    """The plain data of the first YAML document; top-level keys and doubled keys are noted in `front` if given."""
    if _brackets(text) > DEPTH:  # the parser in Python takes quadratic time for these
        raise _TooMuch(f"more than {DEPTH} nested brackets")
    stack: list[Any] = []
    keys: list[Any] = []  # per open mapping: the key that waits for its value, or _NONE
    anchors: dict[str, tuple[Any, int]] = {}
    opened: list[tuple[str | None, int]] = []
    root: Any = None
    count = 0

    def add(value: Any, mark: Any) -> None:
        nonlocal root
        if not stack:
            root = value
        elif isinstance(stack[-1], list):
            stack[-1].append(value)
        elif keys[-1] is _NONE:
            keys[-1] = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:200], mark.line)
        else:
            (key, at), keys[-1] = keys[-1], _NONE
            if front is not None and len(stack) == 1:
                front.lines.setdefault(key, line + at)
            if key not in stack[-1]:
                stack[-1][key] = value
            elif front is not None:
                front.note(line + at, "duplicate-key", f"'{key}' is given twice; the first one counts",
                           "keep one of the two")  # fmt: skip

    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.ScalarEvent):
            plain = not event.style and event.implicit[0]
            a_key = bool(stack) and isinstance(stack[-1], dict) and keys[-1] is _NONE
            value: Any = None if plain and not a_key and event.value in _NULLS else event.value
            if front is not None and plain and len(stack) == 1 and not a_key:
                front.plain.add(keys[-1][0] if isinstance(stack[-1], dict) else "")
            count += 1
            if event.anchor:
                anchors[event.anchor] = (value, 1)
            add(value, event.start_mark)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            count += 1
            if len(stack) >= DEPTH:
                raise _TooMuch(f"nested more than {DEPTH} deep")
            opened.append((event.anchor, count))
            if isinstance(event, yaml.MappingStartEvent):
                stack.append({})
                keys.append(_NONE)
            else:
                stack.append([])
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            value = stack.pop()
            if isinstance(value, dict):
                keys.pop()
            anchor, before = opened.pop()
            if anchor:
                anchors[anchor] = (value, count - before + 1)
            add(value, event.start_mark)
        elif isinstance(event, yaml.AliasEvent):
            value, size = anchors.get(event.anchor or "", (f"*{event.anchor}", 1))
            count += size
            add(value, event.start_mark)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise _TooMuch("a line starts with '---'")
        if count > NODES:
            raise _TooMuch(f"more than {NODES:,} values")
    return root


_NONE = object()


def _brackets(text: str) -> int:
    """The deepest nesting of brackets, quotes disregarded."""
    deep = deepest = 0
    for sign in re.findall(r"[\[\]{}]", text):
        deep = deep + 1 if sign in "[{" else max(deep - 1, 0)
        deepest = max(deepest, deep)
    return deepest


def _by_key(text: str, line: int, front: Front, error: yaml.YAMLError | None) -> None:
    """Every top-level key read alone: as YAML where it can be, else as the text behind its colon."""
    front.data.clear()
    front.lines.clear()
    front.problems = [problem for problem in front.problems if problem.code == "front-matter-too-long"]
    before = len(front.problems)
    lines = text.expandtabs(2).split("\n")
    base = next((len(each) - len(each.lstrip()) for each in lines if _KEY.match(each.lstrip())), 0)
    if base:
        lines = [each[base:] if not each[:base].strip() else each for each in lines]
    for i, each in enumerate(lines):
        if each.startswith("---"):
            front.note(line + i, "stray-fence", f"a line of the front matter starts with '---': {each[:40]}",
                       "remove it")  # fmt: skip
            lines[i] = ""
    starts = [i for i, each in enumerate(lines) if _KEY.match(each)]
    stray = next((i for i, each in enumerate(lines[: starts[0] if starts else len(lines)])
                  if each.strip() and not each.startswith("#")), None)  # fmt: skip
    for start, stop in zip(starts, [*starts[1:], len(lines)][: len(starts)], strict=True):
        found = _KEY.match(lines[start])
        if found is None:
            continue
        key, at = found["key"], line + start
        if key in front.data:
            front.note(at, "duplicate-key", f"'{key}' is given twice; the first one counts", "keep one of the two")
            continue
        front.lines[key] = at
        front.data[key] = _chunk(lines[start:stop], found, key, at, front)
    if not starts:
        what = lines[stray].strip()[:60] if stray is not None else text.strip()[:60]
        front.note(line, "not-a-mapping", f"the front matter holds no 'key: value' lines: '{what}'",
                   "write 'name: …' and 'description: …' between the fences")  # fmt: skip
    elif len(front.problems) == before:  # every key can be read alone: the fault lies between them
        mark = getattr(error, "problem_mark", None)
        where = line + (mark.line if mark is not None else stray or 0)
        front.note(where, "yaml", f"not YAML ({_reason(error)}); each key was read alone",
                   "see that every line is 'key: value' or indented below one")  # fmt: skip


def _chunk(lines: list[str], found: re.Match[str], key: str, at: int, front: Front) -> Any:
    """The value of one top-level key."""
    try:
        value = _compose("\n".join(lines), at, None)
        if isinstance(value, dict) and key in value and len(value) == 1:
            return value[key]
        reason: yaml.YAMLError | None = None
    except yaml.YAMLError as error:
        reason = error
    rest = lines[0][found.end() :].strip()
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if block := _BLOCK.match(rest):
        _note(front, key, at, rest, reason, found["sign"])
        return _block(lines[1:], block["style"])
    raw = " ".join(" ".join(part.strip() for part in [rest, *lines[1:]] if part.strip()).split())
    if rest[:1] in "{[" or (not rest and raw[:1] in "{["):
        try:
            value = json.loads(raw, parse_constant=str, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            pass
        else:
            _note(front, key, at, raw, reason, found["sign"])
            return value
    _note(front, key, at, raw, reason, found["sign"])
    return _unquoted(raw) or None


def _block(lines: list[str], style: str) -> str:
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    if style == "|":
        return text
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n[ \t]*\n", text))


def _unquoted(raw: str) -> str:
    """The text without the quotes around it, or without the one that is never closed."""
    if raw[:1] in ("'", '"'):
        quote, inner = raw[0], raw[1:]
        inner = inner.removesuffix(quote)
        return inner.replace("''", "'") if quote == "'" else inner.replace('\\"', '"').replace("\\n", "\n")
    return raw


def _note(front: Front, key: str, at: int, raw: str, error: yaml.YAMLError | None, sign: str) -> None:
    """Why the value of `key` is not YAML, and how to write it."""
    sign = sign.strip()
    shown = raw if len(raw) <= 60 else raw[:57] + "…"
    reason = _reason(error)
    quoted = "put the value in double quotes, or below the key after '>-'"
    if sign != ":":
        code, message, remedy = "key-sign", f"'{key}' is followed by '{sign}'", f"write '{key}: …'"
    elif isinstance(error, _TooMuch):
        code, message, remedy = "front-matter-too-deep", f"the value of '{key}' is {reason}", "make it flat"
    elif "mapping values are not allowed" in reason:
        code, message, remedy = "unquoted-colon", f"the value of '{key}' has an unquoted ': ': {shown}", quoted
    elif raw[:1] in ('"', "'"):
        code, message, remedy = "quote", f"the quotes of '{key}' do not match ({reason}): {shown}", "close them"
    elif "\t" in reason or "'\\t'" in reason:
        code, message, remedy = "tab", f"a tab in the value of '{key}'", "indent with spaces"
    elif raw[:1] in tuple("@`%&*!|>]}#,?-") or "cannot start any token" in reason:
        code, message, remedy = "reserved-character", f"the value of '{key}' starts with '{raw[:1]}': {shown}", quoted
    else:
        code, message, remedy = "yaml", f"the value of '{key}' is not YAML ({reason}): {shown}", quoted
    front.note(at, code, message, remedy)


def _reason(error: yaml.YAMLError | None) -> str:
    text = str(getattr(error, "problem", None) or error or "not one value")
    return " ".join(text.split())[:100]
