"""What a skill needs to run, as its front matter states it (methods 4.2, 4.3).

Declared: `metadata.openclaw|clawdbot.requires.*` and `.os`, `metadata.metier-requires-*`, and `compatibility` where it
names an operating system, a binary or the network. `allowed-tools` only warns: the standard calls it a list of tools
approved in advance, not a need. Variables are known by name; their values are never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from metier.types import Requirement

Kind = Literal["bin", "env", "config", "os", "tool", "network", "file"]
HOSTS = ("openclaw", "clawdbot", "moltbot")
"""Keys under `metadata` where OpenClaw and its earlier names look."""
_SYSTEMS = {  # the names of `sys.platform`, which are Node's too
    "macos": "darwin", "mac": "darwin", "osx": "darwin", "os x": "darwin", "darwin": "darwin",
    "linux": "linux", "ubuntu": "linux", "debian": "linux", "fedora": "linux",
    "windows": "win32", "win32": "win32", "win": "win32",
}  # fmt: skip
_SYSTEM = re.compile(r"\b(macos|os x|osx|darwin|linux|ubuntu|debian|fedora|windows)\b", re.IGNORECASE)
_BINARIES = {  # what people call it: the names under which it may be installed
    "python": ("python3", "python"), "node": ("node",), "node.js": ("node",), "nodejs": ("node",),
    "github cli": ("gh",), "azure cli": ("az",), "aws cli": ("aws",), "gcloud cli": ("gcloud",),
    "imagemagick": ("magick", "convert"), "docker": ("docker",), "git": ("git",), "gh": ("gh",), "npm": ("npm",),
    "npx": ("npx",), "pnpm": ("pnpm",), "yarn": ("yarn",), "bun": ("bun",), "deno": ("deno",), "uv": ("uv",),
    "pipx": ("pipx",), "pip": ("pip", "pip3"), "golang": ("go",), "cargo": ("cargo",), "java": ("java",),
    "maven": ("mvn",), "gradle": ("gradle",), "ruby": ("ruby",), "php": ("php",), "dotnet": ("dotnet",),
    ".net sdk": ("dotnet",), "jq": ("jq",), "curl": ("curl",), "wget": ("wget",), "ffmpeg": ("ffmpeg",),
    "pandoc": ("pandoc",), "tesseract": ("tesseract",), "terraform": ("terraform",), "kubectl": ("kubectl",),
    "helm": ("helm",), "gcloud": ("gcloud",), "psql": ("psql",), "sqlite3": ("sqlite3",), "make": ("make",),
    "cmake": ("cmake",), "tmux": ("tmux",), "bash": ("bash",), "libreoffice": ("soffice", "libreoffice"),
    "poppler": ("pdftotext",), "graphviz": ("dot",), "ripgrep": ("rg",), "rsync": ("rsync",), "ssh": ("ssh",),
}  # fmt: skip
_NAMED = re.compile(
    r"(?<![\w./@-])("
    + "|".join(re.escape(name) for name in sorted(_BINARIES, key=len, reverse=True))
    + r")(?![\w/@-])",
    re.IGNORECASE,
)
_TICKED = re.compile(r"`([a-z0-9][\w.+-]{0,30})`(?=[^`]{0,40}\b(?:path|installed|cli|binary|command)\b)", re.IGNORECASE)
_NEEDS = re.compile(r"\b(?:requires?|requiring|needs?|must have|depends on|required|only)\b", re.IGNORECASE)
_SOFT = re.compile(
    r"\b(?:optional(?:ly)?|recommended|works best|fallback|if available|tested|e\.g|for example|"
    r"examples?|cross-platform|any (?:os|platform)|compatible|not required|no longer)\b",
    re.I,
)
_ONLINE = re.compile(
    r"\b(?:network|internet)\b[^.;]{0,30}\b(?:access|connect\w+|required|needed)|"
    r"\boutbound https?\b|\b(?:requires?|needs?)\b[^.;,]{0,30}\b(?:network|internet)\b",
    re.I,
)
_OFFLINE = re.compile(
    r"\b(?:no|without|not|offline|never)\b[^.;]{0,40}\b(?:network|internet)\b|\boffline\b", re.IGNORECASE
)
LOOK = 2_000
"""Characters of `compatibility` that are read: the standard allows 500."""
MOST = 64
"""Requirements kept of one source: more are no list that a person wrote."""


def requirements(front: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Everything the front matter says the skill needs, without repeats, in the order it is stated."""
    found = [*_hosts(front), *_ours(front), *_compatibility(front), *_tools(front)]
    return tuple(dict.fromkeys(found))


def metadata(front: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `metadata` mapping, which some write as JSON inside a string."""
    return _mapping(front.get("metadata"))


def listed(value: Any) -> tuple[str, ...]:
    """The strings of a list, or of one string separated by commas or blanks outside brackets."""
    if isinstance(value, str):
        text = value.strip().strip("[]")
        value = re.findall(r"(?:[^,()]|\([^()]{0,500}\))+", text)
        if len(value) < 2:
            value = re.findall(r"(?:[^\s,()]|\([^()]{0,500}\))+", text)
    if not isinstance(value, list | tuple):
        return ()
    texts = (str(each).strip().strip("\"'") for each in value if isinstance(each, str | int | float))
    return tuple(dict.fromkeys(text for text in texts if re.search(r"\w", text)))[:MOST]


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _hosts(front: Mapping[str, Any]) -> Iterator[Requirement]:
    data = metadata(front)
    for host in HOSTS:
        stated = _mapping(data.get(host))
        where, requires = f"metadata.{host}", _mapping(stated.get("requires"))
        for kind, key in (("bin", "bins"), ("env", "env"), ("config", "config")):
            for name in listed(requires.get(key)):
                yield _requirement(kind, (name,), f"{where}.requires.{key}")
        if names := listed(requires.get("anyBins")):
            yield _requirement("bin", names, f"{where}.requires.anyBins")
        if names := _systems(listed(stated.get("os") or requires.get("os"))):
            yield _requirement("os", names, f"{where}.os")


def _ours(front: Mapping[str, Any]) -> Iterator[Requirement]:
    data = metadata(front)
    for key, kind in (("bins", "bin"), ("env", "env"), ("config", "config"), ("tools", "tool")):
        field = f"metier-requires-{key}"
        for name in listed(data.get(field)):
            yield _requirement(kind, (name,), f"metadata.{field}")
    for key, kind in (("any-bins", "bin"), ("any-tools", "tool"), ("os", "os")):
        field = f"metier-requires-{key}"
        names = listed(data.get(field))
        if names := _systems(names) if kind == "os" else names:
            yield _requirement(kind, names, f"metadata.{field}")
    if truthy(data.get("metier-requires-network")):
        yield _requirement("network", ("internet",), "metadata.metier-requires-network")


def _compatibility(front: Mapping[str, Any]) -> Iterator[Requirement]:
    stated = front.get("compatibility")
    text = ", ".join(listed(stated)) if isinstance(stated, list) else stated
    if not isinstance(text, str):
        return
    for sentence in re.split(r"(?<=[.;])\s+|\n", text[:LOOK]):
        if _SOFT.search(sentence):
            continue
        needs = _NEEDS.search(sentence) is not None
        systems = _systems(tuple(_SYSTEM.findall(sentence)))
        bare = not re.sub(r"(?i)\b(?:and|or|only)\b|[\s,/&.;]", "", _SYSTEM.sub("", sentence))
        if systems and len(systems) < 3 and (needs or bare):
            yield _requirement("os", systems, "compatibility")
        yield from _binaries(sentence, needs=needs)
        if _ONLINE.search(sentence) and not _OFFLINE.search(sentence):
            yield _requirement("network", ("internet",), "compatibility")


def _binaries(sentence: str, *, needs: bool) -> Iterator[Requirement]:
    """Binaries that a sentence asks for: by "requires …" before them, or a version behind them; "or" joins."""
    for clause in re.split(r",(?!\s*or\b)|\band\b|\(|\)", sentence):
        names: tuple[str, ...] = ()
        for found in _NAMED.finditer(clause):
            versioned = re.match(r"\s?(?:>=?\s?)?v?\d", clause[found.end() :])
            if (needs or versioned) and not re.match(r"\s+(?:packages?|apps?|skills?|projects?|sdks?\b|script)",
                                                     clause[found.end() :], re.IGNORECASE):  # fmt: skip
                names += _BINARIES[found[1].lower()]
        if needs:
            names += tuple(name for name in _TICKED.findall(clause))
        alternatives = re.search(r"\bor\b|/", clause) is not None
        if names and alternatives:
            yield _requirement("bin", tuple(dict.fromkeys(names)), "compatibility")
        elif names:
            for name in dict.fromkeys(names):
                group = next((g for g in _BINARIES.values() if name in g), (name,))
                yield _requirement("bin", group, "compatibility")


def _tools(front: Mapping[str, Any]) -> Iterator[Requirement]:
    if names := listed(front.get("allowed-tools")):  # one of them suffices: only where none fits is it a hindrance
        yield Requirement("tool", names, False, "allowed-tools")


def _systems(names: tuple[str, ...]) -> tuple[str, ...]:
    known = (_SYSTEMS.get(name.lower(), name.lower()) for name in names)
    return tuple(dict.fromkeys(known))


def truthy(value: Any) -> bool:
    """Whether a front matter value says yes."""
    return isinstance(value, str) and value.strip().lower() in ("true", "yes", "on", "1", "required")


def _requirement(kind: str, names: tuple[str, ...], source: str) -> Requirement:
    return Requirement(kind, names, True, source)  # type: ignore[arg-type]
