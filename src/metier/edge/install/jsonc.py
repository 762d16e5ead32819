"""Small edits of JSON text (with comments and trailing commas, as hosts allow): everything else stays byte for byte.

A value is found with its place in the text; a member is put in or taken out by changing just those characters. A key
that is given twice on the way there is an error: hosts differ in which one they read, so there is no right one to edit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from metier.errors import InputError

Path = Sequence["str | int"]
DEEPEST = 200
"""Nesting of a configuration file; deeper ones are no configuration."""


@dataclass(slots=True)
class Node:
    """A value and its place: `text[start:end]`."""

    kind: str
    """`object`, `array` or `value`."""
    start: int
    end: int = 0
    value: Any = None
    members: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    """A member of an object or array: `start` is where its key (or, in an array, its value) begins."""

    key: str | int
    start: int
    node: Node


def read(text: str, where: str = "JSON") -> Any:
    """The text's value; an empty text is an empty object. Raises `InputError` with line and remedy."""
    return plain(_parse(text, where)) if text.strip().lstrip("\ufeff") else {}


def put(text: str, path: Path, value: Any, where: str = "JSON") -> str:
    """The text with `value` at `path`; objects on the way are made, an earlier value there is replaced."""
    text = text if text.strip().lstrip("\ufeff") else "{}\n"
    node, step = _parse(text, where), _step(text)
    for depth, key in enumerate(path):
        found = _member(node, key, text, where)
        if found is None:
            wrapped = value
            for outer in reversed(path[depth + 1 :]):
                wrapped = {outer: wrapped}
            return _insert(text, node, key, wrapped, step, depth, where)
        node = found.node
    return text[: node.start] + _pretty(value, step, _column(text, node.start)) + text[node.end :]


def add(text: str, path: Path, item: Any, where: str = "JSON") -> str:
    """The text with `item` at the end of the array at `path`, which is made where it is missing."""
    found = find(text, path, where)
    if found is None:
        return put(text, path, [item], where)
    if found.kind != "array":
        raise InputError(f"{where}: '{'.'.join(map(str, path))}' is no list; mend it, then run this again")
    return _insert(text, found, len(found.members), item, _step(text), len(path), where)


def take(text: str, path: Path, where: str = "JSON") -> str:
    """The text without the member at `path`; objects and arrays that are empty then go too."""
    if not text.strip().lstrip("\ufeff"):
        return text
    node = _parse(text, where)
    chain: list[tuple[Node, int]] = []
    for key in path:
        found = _member(node, key, text, where)
        if found is None:
            return text
        chain.append((node, node.members.index(found)))
        node = found.node
    while len(chain) > 1 and len(chain[-1][0].members) == 1:
        chain.pop()
    parent, index = chain[-1]
    member = parent.members[index]
    if index > 0:
        before = parent.members[index - 1].node.end
        return text[:before] + text[member.node.end :]
    if len(parent.members) > 1:
        return text[: member.start] + text[parent.members[1].start :]
    return text[: parent.start + 1] + text[parent.end - 1 :]


def find(text: str, path: Path, where: str = "JSON") -> Node | None:
    """The value at `path`, with its place."""
    if not text.strip().lstrip("\ufeff"):
        return None
    node: Node = _parse(text, where)
    for key in path:
        found = _member(node, key, text, where)
        if found is None:
            return None
        node = found.node
    return node


def plain(node: Node) -> Any:
    """The node as plain data."""
    if node.kind == "object":
        return {str(m.key): plain(m.node) for m in node.members}
    return [plain(m.node) for m in node.members] if node.kind == "array" else node.value


def _member(node: Node, key: str | int, text: str, where: str) -> Member | None:
    found = [m for m in node.members if m.key == key]
    if len(found) > 1:
        first = text.count("\n", 0, found[0].start) + 1
        raise _error(text, found[-1].start, f"'{key}' is given twice (first in line {first}); keep one", where)
    return found[0] if found else None


# ----------------------------------------------------------------------------------------------------- new text


def _insert(text: str, node: Node, key: str | int, value: Any, step: str, depth: int, where: str) -> str:
    if node.kind == "value" or (node.kind == "array") != isinstance(key, int):
        raise InputError(f"{where}: the value before '{key}' is no {'list' if isinstance(key, int) else 'object'}")
    label = "" if isinstance(key, int) else json.dumps(key, ensure_ascii=False) + ": "
    base = _column(text, node.start)
    inside = text[node.start : node.end]
    if not node.members:
        kept = inside[1:-1].rstrip()  # comments of an otherwise empty object stay
        body = f"{kept}\n{base}{step}{label}{_pretty(value, step, base + step)}\n{base}"
        return text[: node.start + 1] + body + text[node.end - 1 :]
    last = node.members[-1].node.end
    after = _skip(text, last, where)
    comma = text[after] == ","
    if "\n" not in inside:
        piece = f", {label}{json.dumps(value, ensure_ascii=False)}"
        return text[:last] + piece + text[last:]
    start = node.members[-1].start
    own = _column(text, start)
    piece = f"\n{own}{label}{_pretty(value, step, own)}"
    if comma:  # a trailing comma: the new member goes behind it, and keeps the habit
        return text[: after + 1] + piece + "," + text[after + 1 :]
    return text[:last] + "," + piece + text[last:]


def _pretty(value: Any, step: str, base: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=step).replace("\n", "\n" + base)


def _column(text: str, at: int) -> str:
    """The white space that begins the line of this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t\ufeff"))].lstrip("\ufeff")


def _step(text: str) -> str:
    """One level of indentation, as this file has it."""
    for line in text.splitlines()[1:]:
        bare = line.lstrip(" \t")
        if bare and bare[0] == '"' and len(bare) < len(line):
            return line[: len(line) - len(bare)]
    return "  "


# -------------------------------------------------------------------------------------------------------- reading


def _parse(text: str, where: str) -> Node:
    start = _skip(text, 1 if text.startswith("\ufeff") else 0, where)
    node, at = _value(text, start, where, 0)
    end = _skip(text, at, where)
    if end < len(text):
        raise _error(text, end, "something follows the end", where)
    if node.kind != "object":
        raise _error(text, start, "the file is no JSON object", where)
    return node


def _value(text: str, at: int, where: str, depth: int) -> tuple[Node, int]:
    if depth > DEEPEST:
        raise _error(text, at, "nested too deeply", where)
    if at >= len(text):
        raise _error(text, at, "a value is missing", where)
    if text[at] in "{[":
        return _container(text, at, where, depth)
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except ValueError as error:
        raise _error(text, at, "no JSON value", where) from error
    return Node("value", at, end, value), end


def _container(text: str, start: int, where: str, depth: int) -> tuple[Node, int]:
    is_object = text[start] == "{"
    node = Node("object" if is_object else "array", start)
    closing = "}" if is_object else "]"
    at = _skip(text, start + 1, where)
    while at < len(text) and text[at] != closing:
        begun = at
        key: str | int = len(node.members)
        if is_object:
            key_node, at = _value(text, at, where, depth + 1)
            at = _skip(text, at, where)
            if not isinstance(key_node.value, str) or at >= len(text) or text[at] != ":":
                raise _error(text, begun, "a key in quotes and a colon belong here", where)
            key, at = key_node.value, _skip(text, at + 1, where)
        value, at = _value(text, at, where, depth + 1)
        node.members.append(Member(key, begun, value))
        at = _skip(text, at, where)
        if at < len(text) and text[at] == ",":
            at = _skip(text, at + 1, where)
        elif at < len(text) and text[at] != closing:
            raise _error(text, at, f"a comma or {closing} belongs here", where)
    if at >= len(text):
        raise _error(text, start, f"its {closing} is missing", where)
    node.end = at + 1
    return node, node.end


def _skip(text: str, at: int, where: str) -> int:
    """The next place that is neither white space nor comment."""
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at)
            if end < 0:
                raise _error(text, at, "the comment has no end", where)
            at = end + 2
        else:
            break
    return at


def _error(text: str, at: int, what: str, where: str) -> InputError:
    line = text.count("\n", 0, at) + 1
    return InputError(f"{where}:{line}: {what}; mend that line (nothing was changed), then run this again")
