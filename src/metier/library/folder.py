"""What identifies a skill's folder: its stamp (cheap, from `stat`) and its digest (from every byte).

    digest = sha256 over the sorted lines  kind path NUL sha256(bytes)      kind: file · exec · link · other

An equal stamp means that nothing was written since, so nothing need be read. An equal digest means the same skill,
wherever and under whatever umask it was unpacked: of the mode only "executable" counts, as in git. A symbolic link
counts as the text of its target and is never followed, so a digest never leaves its folder (methods 3.17).
"""

from __future__ import annotations

import os
import re
import stat as _stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from metier.hashing import blake2b, sha256
from metier.late import dataclass, pattern

SKIP = frozenset((".git", "node_modules", ".venv", "__pycache__"))
"""Folders that are never entered: they hold what tools made, not what authors wrote. Hidden folders are entered."""
LIMIT = 16 << 20
"""Bytes of a SKILL.md that are read; the largest of 12,610 public ones has 145 kB."""
DEPTH = 64
"""Levels below a root or a skill that are entered; the deepest of 12,610 lies 9 below its repository."""
RACY = 0.1
"""Seconds within which a later write may leave every time stamp as it was: kernels stamp files every 1-10 ms."""
MARK = "~"
"""Ends the stamp of a folder that was written at the moment it was stamped; such a stamp proves nothing."""
_CHUNK = 1 << 20

Stat = tuple[str, int, int, int, int]
"""(path relative to the skill, mode, size, mtime in ns, ctime in ns) of one file."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A skill's folder, read once: `data` are the bytes of its SKILL.md, `files` the other files, `unread` failures."""

    digest: str
    data: bytes
    files: tuple[str, ...]
    unread: tuple[str, ...]
    stamp: str


_ROW = pattern(r"(?P<file>.*?\.(?:jsonl|ndjson)(?:\.gz|\.xz)?)#(?P<row>.*)", re.DOTALL | re.IGNORECASE)


def row_of(address: str) -> tuple[str, str] | None:
    """(file, row id) of an address that is a row of a JSONL library; None for a folder."""
    found = _ROW.fullmatch(address) if "#" in address else None
    return (found["file"], found["row"]) if found else None


def is_marker(name: str) -> bool:
    """Whether a file name makes its folder a skill: SKILL.md, in any case."""
    return len(name) == 8 and name.lower() == "skill.md"


def marker(names: Iterable[str]) -> str | None:
    """The file among `names` that is read as SKILL.md: the exact spelling before any other."""
    found = sorted((name for name in names if is_marker(name)), key=lambda name: (name != "SKILL.md", name))
    return found[0] if found else None


def entry(relative: str, status: os.stat_result) -> Stat:
    """What the stamp needs of one file."""
    return relative, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamp(entries: list[Stat], now: float) -> str:
    """The cheap signature of a folder's files; `now` is when they were stat-ed, in seconds since the epoch."""
    entries.sort()
    newest = max((each[4] for each in entries), default=0)
    text = blake2b(repr(entries).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return text + MARK if newest >= (now - RACY) * 1e9 else text


def unchanged(before: str, now: str) -> bool:
    """Whether a folder with the stamp `before` is proved unwritten by the stamp `now`."""
    return before == now and not before.endswith(MARK)


def entries(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """(relative POSIX path, entry) of every file and link below a folder, in any order; an unreadable one is empty."""
    waiting = [("", 0)]
    while waiting:
        relative, depth = waiting.pop()
        try:
            with os.scandir(f"{folder}/{relative}" if relative else folder) as found:
                listed = list(found)
        except OSError:
            if not relative:
                raise
            continue
        for each in listed:
            path = f"{relative}/{each.name}" if relative else each.name
            if not each.is_dir(follow_symlinks=False):
                yield path, each
            elif each.name not in SKIP and depth < DEPTH:
                waiting.append((path, depth + 1))


def stamp_of(folder: str) -> str:
    """The stamp of a skill's folder as it is now. Raises OSError when it is gone."""
    now = time.time()
    found = [entry(path, _status(path, each)) for path, each in entries(folder)]
    if marker(path for path, *_ in found if "/" not in path) is None:
        raise FileNotFoundError(folder)
    return stamp(found, now)


def _status(path: str, each: os.DirEntry[str]) -> os.stat_result:
    """A link's own status; that of its target where it stands for the SKILL.md that is read."""
    try:
        return each.stat(follow_symlinks=is_marker(path))
    except OSError:
        return each.stat(follow_symlinks=False)


def contents(folder: str, limit: int) -> Contents:
    """Everything in a skill's folder, hashed; raises OSError when its SKILL.md cannot be read.

    `limit` bounds the bytes of SKILL.md: a larger one raises `ValueError` with its size.
    """
    now = time.time()
    found = dict(entries(folder))
    name = marker(path for path in found if "/" not in path)
    if name is None:
        raise FileNotFoundError(folder)
    data = _marker_bytes(Path(folder, name), limit)
    signed = stamp([entry(path, _status(path, each)) for path, each in found.items()], now)
    lines, unread = [], []
    for path, each in found.items():
        try:
            kind, digest = _hashed(each, data if path == name else None)
        except OSError:
            kind, digest = "unread", ""
            unread.append(path)
        lines.append(f"{kind} {path}\0{digest}\n")
    whole = sha256("".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()
    files = tuple(sorted(path for path in found if path != name))
    return Contents(whole, data, files, tuple(sorted(unread)), signed)


def _hashed(each: os.DirEntry[str], data: bytes | None) -> tuple[str, str]:
    if data is None and each.is_symlink():
        return "link", sha256(str(Path(each.path).readlink()).encode("utf-8", "surrogatepass")).hexdigest()
    status = each.stat(follow_symlinks=data is not None)
    kind = "exec" if status.st_mode & 0o111 else "file"
    if data is not None:
        return kind, sha256(data).hexdigest()
    if not _stat.S_ISREG(status.st_mode):
        return "other", ""
    total = sha256()
    with Path(each.path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return kind, total.hexdigest()


def _marker_bytes(path: Path, limit: int) -> bytes:
    """The bytes of a SKILL.md; a link must lead to a Markdown file, so that none can lead to a private key."""
    status = path.stat()
    if not _stat.S_ISREG(status.st_mode):
        raise OSError("it is no regular file")
    if path.is_symlink() and path.resolve().suffix.lower() not in (".md", ".markdown"):
        raise OSError(f"it is a link to '{path.readlink()}', which is no Markdown file")
    if status.st_size > limit:
        raise ValueError(f"it has {status.st_size:,} bytes, {limit:,} are read")
    with path.open("rb") as file:
        return file.read(limit + 1)[:limit]
