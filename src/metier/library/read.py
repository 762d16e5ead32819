"""What is on the disk now: a skill's body, its other files, and whether it is still the skill that was indexed.

Checked when something is about to be shown: an edited SKILL.md is never served stale, and no path that a skill's text
names leads out of its folder (methods 5.5).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from metier.errors import ForbiddenPath, LibraryError, NotFound
from metier.late import replace
from metier.library.folder import LIMIT, SKIP, contents, entries, is_marker, marker, row_of, stamp_of, unchanged
from metier.library.walk import Root
from metier.types import Skill

RESOURCE = 8 << 20
"""Bytes of a resource that are handed out: more is no text for an agent."""


def body(skill: Skill, *, spool: Path | None = None) -> str:
    """The skill's body as it is on the disk (for a row of a JSONL library: as it was when it was spooled).

    Raises LibraryError when it is gone or can no longer be read.
    """
    for address in skill.addresses:
        row = row_of(address)
        found = _row_body(skill, row, spool) if row else _folder_body(address)
        if found is not None:
            return found
    raise LibraryError(f"{skill.addresses[0]}: the skill '{skill.name}' is gone; run: metier index")


def fresh(skill: Skill, *, spool: Path | None = None) -> Skill | None:
    """The skill as it is now: itself when nothing was written, read again when something was, None when it is gone.

    A row of a JSONL library stands for its copy in the spool and is always itself, as long as either exists.
    """
    stamps = skill.stamp.split(",")
    for i, address in enumerate(skill.addresses):
        row = row_of(address)
        if row:
            if Path(row[0]).exists() or (spool is not None and _spooled(spool, row[0], stamps[i])):
                return skill
            continue
        try:
            now = stamp_of(address)
            if i == 0 and unchanged(stamps[0], now):
                return skill
            from metier.library.scan import read_folder  # loads the YAML reader: only for what was written to

            read, _ = read_folder(address, _root(skill), skill.id)
        except OSError:
            continue  # gone from here; perhaps not from another address
        if read is not None:
            same = read.digest == skill.digest
            kept = skill.addresses[i:] if same else (address,)
            signed = ",".join([read.stamp, *stamps[i + 1 :]]) if same else read.stamp
            return replace(skill if same else read, addresses=kept, stamp=signed)
    return None


def tree(skill: Skill) -> tuple[str, ...]:
    """Relative POSIX paths of the folder's files as they are now, its SKILL.md included; empty for JSONL libraries."""
    for address in skill.addresses:
        if row_of(address) is None:
            try:
                return tuple(sorted(path for path, _ in entries(address)))
            except OSError:
                continue  # gone from here; perhaps not from another address
    return ()


def resource(skill: Skill, path: str) -> bytes:
    """The bytes of another file of the skill's folder.

    Raises ForbiddenPath when the path leaves the folder (`..`, absolute, a link that leads out) or is no plain file,
    NotFound when there is none, with those there are as its choices.
    """
    address = next((each for each in skill.addresses if row_of(each) is None and Path(each).is_dir()), None)
    if address is None:
        raise NotFound(f"'{path}': the files of '{skill.name}' are unknown; it comes from {skill.addresses[0]}")
    parts = PurePosixPath(path).parts
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:  # half an emoji names no file
        raise ForbiddenPath(f"{path[:200]!a} is no name of a file; give one such as 'reference.md'") from error
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path or ":" in parts[0]:
        raise ForbiddenPath(f"'{path[:200]}' is no path below the skill '{skill.name}'; write it like 'reference.md'")
    if SKIP.intersection(parts):
        raise ForbiddenPath(f"'{path[:200]}' lies in a folder that no skill's digest covers; give one of its own files")
    inside = os.path.realpath(address)
    real = os.path.realpath(Path(inside, *parts))
    if not real.startswith(inside + os.sep):
        raise ForbiddenPath(f"'{path[:200]}' leads out of the skill '{skill.name}', to '{real}'; it is not shown")
    try:
        return _plain(inside, list(Path(real).relative_to(inside).parts), path)
    except (FileNotFoundError, NotADirectoryError):
        files = tuple(file for file in tree(skill) if not is_marker(file))
        listed = ", ".join(files[:5]) or "none"
        raise NotFound(f"'{path[:200]}': the skill '{skill.name}' has no such file; it has {listed}", files) from None
    except OSError as error:
        raise ForbiddenPath(f"'{path[:200]}' cannot be read ({error.strerror}); it must be a plain file") from error


def _plain(inside: str, parts: list[str], shown: str, limit: int = RESOURCE) -> bytes:
    """The bytes of a file reached without following a link, so that none can be slipped in after the check."""
    if os.name != "posix":  # no openat there; creating links needs a privilege
        return Path(inside, *parts).read_bytes()[:limit]
    here = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ForbiddenPath(f"'{shown}' is no plain file; name a file")
        if status.st_size > limit:
            raise ForbiddenPath(f"'{shown}' has {status.st_size:,} bytes, {limit:,} are shown; open it by its path")
        return opened.read(limit)


def _folder_body(address: str) -> str | None:
    try:
        name = marker(each.name for each in Path(address).iterdir())
        if name is None:
            return None
        linked = Path(address, name).is_symlink()
        data = contents(address, LIMIT).data if linked else _plain(address, [name], name, LIMIT)
    except (OSError, ValueError, ForbiddenPath):
        return None  # gone or no longer readable here; perhaps not at another address
    from metier.library import fences
    from metier.library.decode import decode, is_binary

    return "" if is_binary(data) else fences.split(decode(data)[0])[0].body


def _spooled(spool: Path, path: str, stamp: str) -> bool:
    from metier.library import rows  # decompressors: only where there are such libraries

    return rows.spooled(spool, path, stamp)


def _row_body(skill: Skill, row: tuple[str, str], spool: Path | None) -> str | None:
    from metier.library import rows

    path, row_id = row
    stamp = skill.stamp.split(",")[skill.addresses.index(f"{path}#{row_id}")]
    found = rows.body(spool, path, stamp, row_id) if spool is not None else None
    if found is not None:
        return found
    try:  # no spool: the file is read up to the row
        return next((each.parsed.body for each in rows.rows(path, []) if each.id == row_id), None)
    except LibraryError:
        return None


def _root(skill: Skill) -> Root:
    plugin = skill.name.split(":", 1)[0] if skill.scope == "plugin" and ":" in skill.name else None
    return Root(Path(skill.root), skill.scope, plugin)
