"""SKILL.md ⇄ `Parsed`: bytes of any kind in, a name and a description out, and every problem of the file at once.

Nothing here raises on what a file says. What the Agent Skills standard forbids is read all the same and reported with
its line, its value and its remedy; the codes are explained in docs/errors.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from metier.library import decode as _decode
from metier.library import fences, needs, negative
from metier.library import front as _front
from metier.text import one_line
from metier.types import Flag, Problem, Requirement

NAME_LENGTH = 64
"""Agent Skills standard: characters of a name."""
NAME_KEPT = 200
"""Characters of a name that are kept; the longest of 133 broken ones has 96."""
DESCRIPTION_LENGTH = 1024
"""Agent Skills standard: characters of a description."""
COMPATIBILITY_LENGTH = 500
"""Agent Skills standard: characters of `compatibility`."""
PARAGRAPH = 1024
"""Characters of a first paragraph that stand in for a missing description."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_NOT_TEXT = re.compile(
    r"(?:true|false|yes|no|on|off|null|~|[-+]?[\d_]+(?:\.\d*)?(?:e[-+]?\d+)?|\d{4}-\d\d?-\d\d?.*)\Z", re.I
)
_FIELDS = ("name", "description", "when_to_use", "allowed-tools", "compatibility", "metadata",
           "disable-model-invocation", "license")  # fmt: skip
_ALIASES = {"when-to-use": "when_to_use", "whentouse": "when_to_use", "allowed_tools": "allowed-tools",
            "allowedtools": "allowed-tools", "disable_model_invocation": "disable-model-invocation"}  # fmt: skip
_AGAINST = ("skip_when", "not_for", "not-for", "when_not_to_use", "when-not-to-use", "do_not_use_when", "exclusions")
"""Keys under which some authors list negative scope."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One SKILL.md as read. `front` is plain data (str, None, list, dict); `body` is what follows the front matter."""

    name: str
    description: str
    body: str
    front: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    requires: tuple[Requirement, ...] = ()
    flags: frozenset[Flag] = frozenset()
    excludes: tuple[str, ...] = ()
    family: str | None = None
    when_to_use: str = ""
    body_line: int = 1
    """Line of the file on which the body begins."""
    usable: bool = True
    """Whether there is anything to route on; `problems` says why not."""

    @property
    def text_for_listing(self) -> str:
        """What an agent's own listing shows: the description, then `when_to_use`."""
        return f"{self.description} {self.when_to_use}".strip() if self.when_to_use else self.description


def parse(data: bytes, *, path: str, folder: str) -> Parsed:
    """Whatever the bytes hold: `path` names the file in its problems, `folder` names a skill that has no name."""
    if _decode.is_binary(data):
        return _unusable(path, folder, "binary", "this is no text file", "replace it with a SKILL.md in UTF-8")
    text, notes = _decode.decode(data)
    if not text.strip():
        return _unusable(path, folder, "empty-file", "the file is empty", "write a name, a description and a body")
    parts, more = fences.split(text)
    notes += more
    if parts.front is None:
        front = _front.Front()
        told = True  # its problem already says where the name and the description come from
    else:
        front = _front.load(parts.front, parts.front_line)
        told = not front.data
        notes += front.problems
    parsed = _fields(front, parts.body, folder, notes, told=told)
    if not parsed.description and not parts.body.strip():
        notes.append(Problem("", 1, "nothing-to-route", "there is neither a description nor a body",
                             "write what the skill does and how"))  # fmt: skip
        parsed = replace(parsed, usable=False)
    elif not parts.body.strip():
        notes.append(Problem("", parts.body_line, "empty-body", "nothing follows the front matter",
                             "write the instructions below it"))  # fmt: skip
    ordered = sorted(dict.fromkeys(notes), key=lambda p: p.line)
    return replace(parsed, body_line=parts.body_line, problems=tuple(replace(p, path=path) for p in ordered))


def from_fields(front: Mapping[str, Any], body: str, *, path: str, folder: str = "") -> Parsed:
    """A skill whose front matter is already data, such as a row of a JSONL library."""
    notes: list[Problem] = []
    parsed = _fields(_front.Front(dict(front)), body, folder, notes, told=False)
    usable = bool(parsed.description or body.strip())
    return replace(parsed, problems=tuple(replace(p, path=path) for p in notes), usable=usable)


def render(parsed: Parsed) -> str:
    """The text of a SKILL.md that reads as `parsed`: its front matter as YAML, then its body untouched."""
    front = {"name": parsed.name, "description": parsed.description, **parsed.front}
    text = yaml.dump(front, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=10**9, default_flow_style=False)
    return f"---\n{text}---\n{parsed.body}"


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _unusable(path: str, folder: str, code: str, message: str, remedy: str) -> Parsed:
    return Parsed(folder, "", "", problems=(Problem(path, 1, code, message, remedy),), usable=False)


def _fields(front: _front.Front, body: str, folder: str, notes: list[Problem], *, told: bool) -> Parsed:
    data = _known_keys(front, notes)

    def line(key: str) -> int:
        return front.lines.get(key, 1)

    unreadable = {problem.line for problem in front.problems}

    def note(key: str, code: str, message: str, remedy: str) -> None:
        if not (code.endswith("-type") and line(key) in unreadable):  # one fault, one problem
            notes.append(Problem("", line(key), code, message, remedy))

    name = _name(data, folder, note, told=told, plain="name" in front.plain)
    description = _description(data, body, note, told=told)
    when = _text(data.get("when_to_use"))
    _check_rest(data, note)
    listing = f"{description} {when}".strip() if when else description
    against = tuple(one_line(text, 500) for key in _AGAINST for text in _texts(data.get(key)))
    flags: set[Flag] = {"manual-only"} if needs.truthy(data.get("disable-model-invocation")) else set()
    family = needs.metadata(data).get("metier-family")
    return Parsed(
        name=name,
        description=description,
        body=body,
        front=data,
        requires=needs.requirements(data),
        flags=frozenset(flags),
        excludes=tuple(dict.fromkeys((*negative.negative_scope(listing), *against))),
        family=family.strip() or None if isinstance(family, str) else None,
        when_to_use=when,
    )


def _known_keys(front: _front.Front, notes: list[Problem]) -> dict[str, Any]:
    """The data with the standard's keys spelt its way."""
    data: dict[str, Any] = {}
    for key, value in front.data.items():
        lower = key.strip().lower()
        known = lower if lower in _FIELDS else _ALIASES.get(lower, key)
        if known != key and known in front.data:
            known = key
        if known != key:
            at = front.lines.get(key, 1)
            front.lines.setdefault(known, at)
            notes.append(Problem("", at, "key-spelling", f"'{key}' stands for '{known}'", f"write it as '{known}'"))
        data.setdefault(known, value)
    return data


def _name(data: Mapping[str, Any], folder: str, note: Any, *, told: bool, plain: bool) -> str:
    stated = data.get("name")
    shown = _shown(stated)
    if isinstance(stated, str) and stated.strip():
        name = whole = " ".join(stated.split())
        name = name[:NAME_KEPT]
        if plain and _NOT_TEXT.match(name):
            note("name", "name-type", f"'name: {name}' is no text in YAML", f"write name: '{name}'")
        if len(whole) > NAME_LENGTH:
            note("name", "name-too-long", f"the name has {len(whole)} characters, {NAME_LENGTH} are allowed: {shown}",
                 "shorten it")  # fmt: skip
        if not _NAME.match(name):
            note("name", "name-characters", f"the name {shown} is not lower-case letters, digits and single hyphens",
                 f"write 'name: {_slug(name) or _slug(folder) or 'my-skill'}'")  # fmt: skip
        elif folder and name != folder:
            note("name", "name-differs-from-folder", f"the name {shown} differs from its folder '{folder}'",
                 "rename one of the two")  # fmt: skip
        return name
    fallback = folder or "unnamed"
    if stated is not None and not isinstance(stated, str):
        note("name", "name-type", f"the name is a {_kind(stated)}: {shown}", f"write 'name: {fallback}'")
    elif not told:
        note("name", "missing-name", f"'name' is missing; the folder's, '{fallback}', is used",
             f"add 'name: {_slug(fallback) or 'my-skill'}' to the front matter")  # fmt: skip
    return fallback


def _description(data: Mapping[str, Any], body: str, note: Any, *, told: bool) -> str:
    stated = data.get("description")
    text = _text(stated)
    if text and not text.startswith("```"):
        if not isinstance(stated, str):
            note("description", "description-type", f"the description is a {_kind(stated)}: {_shown(stated)}",
                 "write it as text in double quotes")  # fmt: skip
        if len(text) > DESCRIPTION_LENGTH:
            note("description", "description-too-long",
                 f"the description has {len(text):,} characters, {DESCRIPTION_LENGTH:,} are allowed",
                 "shorten it; agents cut what is longer")  # fmt: skip
        return text
    found = first_paragraph(body)
    if not told and (found or body.strip()):
        what = f"the first paragraph is used: '{one_line(found, 60)}'" if found else "and the body has no paragraph"
        note("description", "missing-description", f"'description' is missing; {what}",
             "add 'description: …', saying what it does and when to use it")  # fmt: skip
    return found


def _check_rest(data: Mapping[str, Any], note: Any) -> None:
    compatibility = data.get("compatibility")
    if isinstance(compatibility, str) and len(compatibility) > COMPATIBILITY_LENGTH:
        size = f"'compatibility' has {len(compatibility)} characters, {COMPATIBILITY_LENGTH} are allowed"
        note("compatibility", "compatibility-too-long", size, "shorten it")
    elif compatibility is not None and not isinstance(compatibility, str):
        note("compatibility", "compatibility-type", f"'compatibility' is a {_kind(compatibility)}: "
             f"{_shown(compatibility)}", "write it as one text")  # fmt: skip
    tools = data.get("allowed-tools")
    if tools is not None and not isinstance(tools, str):
        note("allowed-tools", "allowed-tools-type", f"'allowed-tools' is a {_kind(tools)}: {_shown(tools)}",
             f"write 'allowed-tools: {' '.join(needs.listed(tools))[:80]}'")  # fmt: skip
    meta = data.get("metadata")
    if meta is not None and not isinstance(meta, Mapping):
        note("metadata", "metadata-type", f"'metadata' is a {_kind(meta)}: {_shown(meta)}",
             "write 'key: value' lines below it")  # fmt: skip


def first_paragraph(body: str) -> str:
    """The first prose of a body on one line: no heading, table, rule, image or code; else its first heading."""
    text = re.sub(r"<!--.*?(?:-->|\Z)", " ", body[:65_536], flags=re.DOTALL)
    heading, fence = "", ""
    taken: list[str] = []
    for line in text.split("\n"):
        plain = line.strip()
        if fence:
            fence = "" if plain.startswith(fence) else fence
        elif plain.startswith(("```", "~~~")):
            if taken:
                break
            fence = plain[:3]
        elif plain.startswith("#"):
            if taken:
                break
            heading = heading or plain.strip("# ")
        elif not plain or re.match(r"(?:[-*_=]{3,}\Z|\||!\[|<[^>]{0,200}>\Z|\[!\[)", plain):
            if taken:
                break
        else:
            taken.append(re.sub(r"^(?:>|[-*+]|\d{1,3}[.)])\s+", "", plain))
            if sum(map(len, taken)) > PARAGRAPH:
                break
    return one_line(" ".join(taken) or heading, PARAGRAPH)


def _text(value: Any) -> str:
    """Any value as one text, its outer blanks and those at line ends removed."""
    if isinstance(value, str):
        return "\n".join(line.rstrip() for line in value.strip().split("\n"))
    return ", ".join(_texts(value))


def _texts(value: Any) -> list[str]:
    """The texts inside a value, at most a hundred, without recursion into what only an attack would nest."""
    found: list[str] = []
    waiting = [value]
    for _ in range(1_000):
        if not waiting or len(found) >= 100:
            break
        each = waiting.pop()
        if isinstance(each, str):
            found += [each.strip()] if each.strip() else []
        elif isinstance(each, list):
            waiting += reversed(each[:100])
        elif isinstance(each, Mapping):
            for key, inner in reversed(list(each.items())[:100]):
                waiting.append(f"{key}: {inner}" if isinstance(inner, str) else key if inner is None else inner)
    return found


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "mapping" if isinstance(value, Mapping) else "text"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else ", ".join(_texts(value))
    return f"'{one_line(text, 60)}'"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:NAME_LENGTH].strip("-")
