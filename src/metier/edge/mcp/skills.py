"""Skills as MCP resources, the way the official extension says (SEP-2640, `io.modelcontextprotocol/skills`).

    skill://<scope>/<path below its root>/<name>/SKILL.md        and every other file of the folder beside it

An entry carries the front matter as its author wrote it and the sha256 of every file, so that a host can bind a
person's approval to content. Files go out as they are, byte for byte: only then do the digests hold. What does not
meet the standard (no name or description, a name outside its rules, over 512 files or 16 MiB) is left to the tools.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import yaml

from metier.errors import MetierError, NotFound
from metier.library.read import resource, tree
from metier.types import Skill

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop

EXTENSION = "io.modelcontextprotocol/skills"
SCHEME = "skill://"
MARKER = "SKILL.md"
FILES = 512
"""SEP-2640: files of a skill that every host must accept."""
BYTES = 16 * 1024 * 1024
"""SEP-2640: their total size."""
LISTED = 200
"""A library up to this size is listed whole; of a larger one, the skills that were found most recently."""
PAGE = 50
FRONT = 65_536
"""Characters of a front matter: the largest of 12,610 public ones has 4,301, and a million take the parser seconds."""
DEEPEST = 32
NODES = 10_000
"""Values in a front matter: far more than a person writes, far fewer than a crafted one unfolds to."""
LONGEST = 4096
"""Characters of an address: as many as the longest path has; every `/` in it costs a look at the library."""
TTL_MS = 30_000
"""How long a listing may be kept: the default time between two looks at the folders."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.S | re.M)


class _Loader(yaml.SafeLoader):
    """YAML in which a date stays the text that its author wrote, as JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Shelf:
    """The skills of one workshop as resources. Raises `NotFound` for a URI that names nothing."""

    shop: Workshop

    def entry(self, skill: Skill) -> dict[str, Any] | None:
        """The skill's entry; None where the standard does not let it be served."""
        if skill.id in self.shop.config.exclude or skill.name in self.shop.config.exclude:
            return None
        try:
            files = tree(skill)
            if MARKER not in files or len(files) > FILES:
                return None
            front = frontmatter(resource(skill, MARKER))
            if front is None:
                return None
            base, listed, total = uri_of(skill, str(front["name"])), [], 0
            for path in files:
                data = resource(skill, path)
                total += len(data)
                if total > BYTES:
                    return None
                digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
                listed.append({"uri": f"{base}/{quote(path)}", "digest": digest, "size": len(data)})
        except (MetierError, OSError, UnicodeEncodeError):
            return None  # a file that may not be read, or named in no encoding: the manifest would not be complete
        return {"uri": f"{base}/{MARKER}", "frontmatter": front, "resources": listed}

    def page(self, found: Sequence[str], cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Entries from `cursor` on, and the cursor of the next page. `found`: ids found lately, for large libraries."""
        start = int(cursor) if cursor and cursor.isdecimal() and len(cursor) < 10 else 0
        ids = self._ids(found)
        entries = [e for skill in ids[start : start + PAGE] if (e := self.entry(skill)) is not None]
        return entries, str(start + PAGE) if start + PAGE < len(ids) else None

    def _ids(self, found: Sequence[str]) -> list[Skill]:
        skills = self.shop.library.skills
        if len(skills) <= LISTED:
            return list(skills)
        return [skill for name in found if (skill := self._by_id(name)) is not None]

    def _by_id(self, name: str) -> Skill | None:
        try:
            skill = self.shop.skill(name)
        except NotFound:
            return None
        return skill if skill.id == name else None

    def get(self, uri: str) -> dict[str, Any]:
        """The entry of the skill whose SKILL.md that is."""
        skill, path = self._at(uri)
        entry = self.entry(skill) if path == MARKER else None
        if entry is None or entry["uri"] != uri:
            raise NotFound(f"no skill is served at {uri}; skills/list or find_skills name those that are")
        return entry

    def read(self, uri: str) -> dict[str, Any]:
        """The contents of one file, byte for byte: text where it is UTF-8, else base64."""
        skill, path = self._at(uri)
        data = resource(skill, path)
        kind = "text/markdown" if path.lower().endswith(".md") else mimetypes.guess_type(path)[0]
        meta = {"io.modelcontextprotocol.skills/origin": skill.id}
        shown: dict[str, Any] = {"uri": uri, "mimeType": kind or "application/octet-stream", "_meta": meta}
        try:
            return {**shown, "text": data.decode("utf-8")}
        except UnicodeDecodeError:
            return {**shown, "blob": base64.b64encode(data).decode("ascii")}

    def folder(self, uri: str) -> list[dict[str, Any]]:
        """The direct children of a folder of a skill."""
        skill, path = self._at(uri.rstrip("/") + "/" + MARKER)
        inside = "" if path == MARKER else path[: -len(MARKER)]
        files = [p for p in tree(skill) if p.startswith(inside) and p == p.encode("utf-8", "replace").decode("utf-8")]
        if not files:
            raise NotFound(f"{uri} is not a directory resource")
        children: dict[str, str] = {}
        for file in files:
            name, slash, _ = file[len(inside) :].partition("/")
            kind = "inode/directory" if slash else mimetypes.guess_type(name)[0] or "text/markdown"
            children[name] = kind
        base = uri.rstrip("/")
        return [{"uri": f"{base}/{quote(n)}", "name": n, "mimeType": k} for n, k in sorted(children.items())]

    def _at(self, uri: str) -> tuple[Skill, str]:
        """(skill, path below its folder): the longest prefix that is a skill owns the file."""
        if len(uri) > LONGEST:
            raise NotFound(f"{uri[:60]}…: no skill is served at an address of {len(uri):,} characters")
        if not uri.startswith(SCHEME):
            raise NotFound(f"{uri}: only {SCHEME}… resources are served here")
        scope, _, rest = uri[len(SCHEME) :].partition("/")
        parts = [unquote(part) for part in rest.split("/")]
        for cut in range(len(parts) - 1, 0, -1):
            for skill in self._owners(unquote(scope), parts[:cut]):
                return skill, str(PurePosixPath(*parts[cut:]))
        raise NotFound(f"no skill is served at {uri}; skills/list or find_skills name those that are")

    def _owners(self, scope: str, folder: Sequence[str]) -> Iterator[Skill]:
        """The skill whose folder that is: by its path, or, where its folder has another name, by path and name."""
        exact = self._by_id(f"{scope}:{'/'.join(folder)}")
        if exact is not None and exact.name.rpartition(":")[2] == folder[-1]:
            yield exact
        renamed = self._by_id(f"{scope}:{'/'.join(folder[:-1])}") if len(folder) > 1 else None
        if renamed is not None and renamed.name.rpartition(":")[2] == folder[-1]:
            yield renamed


def uri_of(skill: Skill, name: str) -> str:
    """The URI of the skill's folder; its last segment is its name, as the standard demands."""
    scope, _, path = skill.id.partition(":")
    parts = [part for part in path.split("/") if part]
    if not parts or parts[-1] != name:
        parts.append(name)
    return SCHEME + "/".join(quote(part, safe="") for part in (scope, *parts))


def frontmatter(data: bytes) -> dict[str, Any] | None:
    """The front matter as its author wrote it, as JSON; None where it is not what the standard demands."""
    try:
        found = _FRONT.match(data.decode("utf-8"))
        if found is None or len(found.group(1)) > FRONT:
            return None
        front = yaml.load(found.group(1), Loader=_Loader)
        plain = _json(front, [0])
    except (ValueError, yaml.YAMLError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    name, about = plain.get("name"), plain.get("description")
    if not isinstance(name, str) or not isinstance(about, str) or not about or len(name) > 64 or not _NAME.match(name):
        return None
    return plain


def _json(value: Any, seen: list[int], depth: int = 0) -> Any:
    """The value as JSON. Aliases can make a small file nest or multiply without end; both are refused."""
    seen[0] += 1
    if depth > DEEPEST or seen[0] > NODES:
        raise ValueError("front matter without end")
    if isinstance(value, Mapping):
        return {str(key): _json(item, seen, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_json(item, seen, depth + 1) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
