"""The files that a skill's body tells its reader to open or run.

A third of public bodies name a file of their own folder. Which of them the folder lacks is a warning (methods 4.3)
and a line of `metier doctor`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

FOLDERS = ("scripts", "script", "references", "reference", "assets", "templates", "resources", "examples", "lib", "bin")
"""The standard's own folders (scripts, references, assets) and the further ones public skills keep files in."""
LOOK = 400_000
"""Characters of a body that are searched; the longest of 12,610 public ones has 144,118."""
MOST = 50
"""Files reported for one skill, at most."""
_LINK = re.compile(r"\]\(<?(?P<path>[^\s()<>#?:]{1,200})(?:[#? >][^()\n]{0,100})?\)")
_PATH = re.compile(
    r"(?<![\w./~$}>@-])(?:\./|\{baseDir\}/|\$\{?(?:CLAUDE_SKILL_DIR|SKILL_DIR|SKILL_ROOT)\}?/)?"
    r"(?P<path>(?:" + "|".join(FOLDERS) + r")/[\w][\w./-]{0,150}\.[A-Za-z0-9]{1,8})(?![\w/*{<$-])"
)
_FENCED = re.compile(r"^[ \t]{0,3}(```|~~~)[^\n]*\n.*?(?:^[ \t]{0,3}\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_MADE_UP = re.compile(r"(?:^|[/_.-])(?:path|to|your|my|foo|bar|baz|example|xxx|name)(?:$|[/_.-])|\.\.\.|^\.\.|//", re.I)
_PAGE = re.compile(r"\.(?:md|py|sh|js|mjs|ts|json|ya?ml|txt|csv|html|pdf|sql|r|rb|go|toml|xml|j2|tmpl|png|svg)\Z", re.I)


def mentioned(body: str) -> tuple[str, ...]:
    """Relative POSIX paths inside the skill's folder that its body names, in order, without repeats."""
    return tuple(dict.fromkeys(_found(body[:LOOK])))


def missing(body: str, files: Collection[str]) -> tuple[str, ...]:
    """Those of the mentioned files that the folder (its `files`, relative POSIX paths) does not hold."""
    folders = {parent.as_posix() for file in files for parent in PurePosixPath(file).parents}
    return tuple(path for path in mentioned(body) if path not in files and path not in folders)[:MOST]


def _found(body: str) -> Iterator[str]:
    prose = _FENCED.sub("\n", body)  # a link in a code block is an example of a link
    links = (m["path"] for m in _LINK.finditer(prose) if _PAGE.search(m["path"]))
    paths = (m["path"] for m in _PATH.finditer(body))
    for stated in (*links, *paths):
        if path := _inside(stated):
            yield path


def _inside(path: str) -> str:
    """The path without its `./`, or nothing where it leaves the folder, is absolute or is made up."""
    path = path.removeprefix("./")
    if path.startswith(("/", "~", "..")) or "/../" in path or _MADE_UP.search(path):
        return ""
    return path if re.fullmatch(r"[\w./@+ -]+", path) else ""
