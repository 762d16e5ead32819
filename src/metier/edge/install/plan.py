"""From a wish to changed files: computed first, shown as a difference, written atomically, undone to the byte.

What was there before is kept in the home, with the digest of what we wrote. Uninstalling puts the old bytes back where
nobody has touched the file since; where somebody has, only what is ours is taken out.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from metier.edge.install import jsonc, tomls
from metier.edge.install.manifest import Commands, Host, Part, Where, hook_entries, mcp_entry, ours, server_of_ours
from metier.errors import InputError

CONTEXT = 1
"""Unchanged lines shown around a change: configuration files hold secrets that need not scroll by."""
PLUGIN = "metier@metier"
LIMIT = 64_000_000
"""Bytes of a configuration; Claude Code keeps its history in one, tens of megabytes of it."""
LOCK_SECONDS = 30.0
"""How long an installation waits for another; each takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it shall be; None is a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes | None
    original: bytes | None = None
    """The file without anything of ours: what uninstalling gives back."""

    @property
    def differs(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    def diff(self) -> str:
        """The difference, as a person reads it."""
        old, new = ((data or b"").decode("utf-8", "replace").splitlines() for data in (self.before, self.after))
        names = (str(self.path) if self.before is not None else "(no file)", str(self.path))
        ends = (names[0], "(removed)" if self.after is None else names[1])
        return "\n".join(difflib.unified_diff(old, new, *ends, n=CONTEXT, lineterm=""))


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be installed, and where."""

    host: Host
    where: Where
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    hooks: bool = True
    mcp: bool = True
    file: Path | None = None
    """Replaces the manifest's file, for hosts that keep theirs elsewhere."""

    def parts(self) -> list[tuple[str, Part, Path]]:
        """(kind, part, file) of everything wanted."""
        found = []
        for kind, part, wanted in (("hooks", self.host.hook_part, self.hooks), ("mcp", self.host.mcp, self.mcp)):
            if part is not None and wanted:
                place = self.file if self.file is not None else part.file(self.where, self.cwd, self.env)
                if self.where == "project" and self.file is None:
                    _check_inside(place, self.cwd)
                found.append((kind, part, place))
        return found


def install(wish: Wish, commands: Commands) -> list[Change]:
    """The changes that make the host call us. Files that are as they should be are left out."""
    known = {change.path: change for change in cleared(wish)}
    texts: dict[Path, str] = {}
    made: dict[Path, Change] = {}
    for kind, part, path in wish.parts():
        if path not in made:
            made[path] = known[path]
            before = known[path].before
            texts[path] = "" if before is None else _text(before, path)
        texts[path] = _with(texts[path], kind, part, path, wish.host, commands)
        made[path] = replace(made[path], after=encoded(texts[path], made[path].before))
    return [change for change in made.values() if change.differs]


def cleared(wish: Wish) -> list[Change]:
    """Every file of the wish, as it is and without anything of ours."""
    made: dict[Path, Change] = {}
    for _, part, path in wish.parts():
        before = _bytes(path)
        kept = None
        if before is not None:
            kept = encoded(without(_text(before, path), path, part.format, wish.host), before)
        made.setdefault(path, Change(path, before, kept, kept))
    return list(made.values())


def uninstall(wish: Wish, ledger: Ledger) -> list[Change]:
    """The changes that take us out again."""
    made: dict[Path, Change] = {}
    for _, part, path in wish.parts():
        before = _bytes(path)
        if path in made or before is None:
            continue
        if ledger.untouched(path, before):
            after = ledger.original(path)
        else:
            left = without(_text(before, path), path, part.format, wish.host)
            read = tomls.read if part.format == "toml" else jsonc.read
            ours_alone = ledger.made(path) and not read(left, str(path))
            after = None if ours_alone else encoded(left, before)
        made[path] = Change(path, before, after)
    return [change for change in made.values() if change.differs]


def _with(text: str, kind: str, part: Part, path: Path, host: Host, commands: Commands) -> str:
    where = str(path)
    if part.format == "toml":
        wanted = mcp_entry(host, commands)
        return text if _at(tomls.read(text, where), part.path) == wanted else tomls.put(text, part.path, wanted, where)
    data = jsonc.read(text, where)
    for key, value in part.also.items():
        if key not in data:
            text = jsonc.put(text, [key], value, where)
    if kind == "mcp":
        wanted = mcp_entry(host, commands)
        return text if _at(data, part.path) == wanted else jsonc.put(text, part.path, wanted, where)
    for event, group in hook_entries(host, commands):
        text = _with_hook(text, [*part.path, event], group, where)
    return text


def _with_hook(text: str, path: Sequence[str], group: Mapping[str, Any], where: str) -> str:
    """The text with exactly this group of ours at `path`; others' groups stay, whatever they hold."""
    groups = _at(jsonc.read(text, where), path) or []
    if not isinstance(groups, list):
        raise InputError(f"{where}: '{'.'.join(path)}' is no list; mend it (nothing was changed), then run this again")
    if [g for g in groups if _is_ours(g)] == [dict(group)]:
        return text
    return jsonc.add(_without_hooks(text, path, where), path, dict(group), where)


def without(text: str, path: Path, kind: str, host: Host) -> str:
    """The text without anything of ours, and nothing else changed."""
    where = str(path)
    if kind == "toml":
        mine = host.mcp is not None and server_of_ours(_at(tomls.read(text, where), host.mcp.path))
        return tomls.take(text, host.mcp.path, where) if host.mcp and mine else text
    data = jsonc.read(text, where)
    if host.hook_part is not None and isinstance(_at(data, host.hook_part.path), dict):
        for event in _at(data, host.hook_part.path):
            text = _without_hooks(text, [*host.hook_part.path, event], where)
    mcp = host.mcp if host.mcp is not None and host.mcp.format == "json" else None
    if mcp is not None and server_of_ours(_at(jsonc.read(text, where), mcp.path)):
        text = jsonc.take(text, mcp.path, where)
    for key in (["extraKnownMarketplaces", "metier"], ["enabledPlugins", PLUGIN]):
        text = jsonc.take(text, key, where) if host.name == "claude-code" else text
    return text


def _without_hooks(text: str, path: Sequence[str], where: str) -> str:
    while True:
        groups = _at(jsonc.read(text, where), path)
        if not isinstance(groups, list):
            return text
        for n, group in enumerate(groups):
            handlers = group.get("hooks") if isinstance(group, Mapping) else None
            mine = [m for m, h in enumerate(handlers or ()) if ours(h)] if isinstance(handlers, list) else []
            if mine:
                whole = len(mine) == len(handlers or ())
                text = jsonc.take(text, [*path, n] if whole else [*path, n, "hooks", mine[0]], where)
                break
        else:
            return text


def _is_ours(group: Any) -> bool:
    handlers = group.get("hooks") if isinstance(group, Mapping) else None
    return isinstance(handlers, list) and any(ours(h) for h in handlers)


def _at(data: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return None
        data = data[key]
    return data


# ---------------------------------------------------------------------------------------------- bytes and their text


def _check_inside(path: Path, project: Path) -> None:
    """Raises `InputError` for a project's file that is a link out of it: a clone may bring one to any file of yours."""
    real, root = os.path.realpath(path), os.path.realpath(project)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        raise InputError(f"{path}: leads out of the project, to {real}; remove that link, or name the file with --file")


def _bytes(path: Path) -> bytes | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: is no plain file; move it away, then run this again")
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise InputError(f"{path}: has over {LIMIT:,} bytes, so it is no configuration; move it away")
        return data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); mend its permissions") from error


def _text(data: bytes, path: Path) -> str:
    """The text with plain line ends; `encoded` gives it the file's own again."""
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from error


def encoded(text: str, before: bytes | None) -> bytes:
    """The text with the line ends of the file it belongs to; the very bytes where nothing changed."""
    if before is not None and b"\r\n" in before:
        text = text.replace("\n", "\r\n")
    out = text.encode("utf-8")
    return before if before is not None and out.replace(b"\r\n", b"\n") == before.replace(b"\r\n", b"\n") else out


# --------------------------------------------------------------------------------------------- writing and undoing


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was written where: `installs.json` and `backups/` in the home."""

    home: Path

    def untouched(self, path: Path, now: bytes) -> bool:
        """Whether the file is still just as we wrote it."""
        entry = self._entries().get(str(path))
        return entry is not None and entry.get("written") == _sha(now)

    def made(self, path: Path) -> bool:
        """Whether there was no such file before us."""
        entry = self._entries().get(str(path))
        return entry is not None and entry.get("original") is None

    def original(self, path: Path) -> bytes | None:
        """The file's bytes before us; None where there was no file. Raises `InputError` when the backup is gone."""
        name = self._entries()[str(path)].get("original")
        if name is None:
            return None
        try:
            return (self.home / "backups" / str(name)).read_bytes()
        except OSError as error:
            raise InputError(
                f"{self.home / 'backups' / str(name)}: the backup of {path} is gone ({error.strerror}); "
                "take metier's entries out of that file by hand"
            ) from error

    def apply(self, changes: Sequence[Change], *, undo: bool = False) -> list[Path]:
        """Every change is on disk, each file whole; returns the backups made of what was there before.

        Raises `InputError` where a file is no longer what the changes were made from; nothing is written then.
        """
        with self._alone():
            for change in changes:
                if _bytes(change.path) != change.before:
                    raise InputError(f"{change.path}: another program wrote to it just now; run this again")
            return self._apply(changes, undo)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other installation of this home writes meanwhile: its row of the ledger would be lost."""
        import filelock

        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = filelock.FileLock(self.home / "installs.lock", timeout=LOCK_SECONDS, mode=0o600)
            lock.acquire()
        except filelock.Timeout as error:
            raise InputError(f"{self.home}: another `metier install` is under way; run this again after it") from error
        except OSError as error:
            raise InputError(
                f"{self.home}: cannot be written ({error.strerror}); set METIER_HOME to a folder of yours"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _apply(self, changes: Sequence[Change], undo: bool) -> list[Path]:
        backups, emptied = [], list[str]()
        for change in changes:
            entries = self._entries()
            earlier = entries.get(str(change.path), {})
            if change.before is not None:
                backups.append(self._keep(change.path, change.before))
            folders = list(earlier.get("folders", ()))
            if change.after is None:
                change.path.unlink()
            else:
                folders += _write(change.path, change.after, like=change.before is not None)
            if undo:
                entries.pop(str(change.path), None)
                emptied += folders
            else:
                chained = change.before is not None and earlier.get("written") == _sha(change.before)
                original = earlier.get("original") if chained else self._original(change)
                entries[str(change.path)] = {
                    "written": _sha(change.after or b""), "original": original, "folders": folders,
                }  # fmt: skip
            self._save(entries)
        for folder in sorted(set(emptied), key=len, reverse=True):  # the deepest first, and only those empty again
            with suppress(OSError):
                Path(folder).rmdir()
        return backups

    def _original(self, change: Change) -> str | None:
        return None if change.original is None else self._keep(change.path, change.original).name

    def _keep(self, path: Path, data: bytes) -> Path:
        kept = self.home / "backups" / f"{path.name.lstrip('.')}-{_sha(data)[:16]}"
        if not kept.exists():
            _write(kept, data, like=False)
        return kept

    def _entries(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads((self.home / "installs.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InputError(f"{self.home / 'installs.json'}: cannot be read ({error}); move it away") from error
        return found if isinstance(found, dict) else {}

    def _save(self, entries: Mapping[str, Any]) -> None:
        data = json.dumps(entries, indent=1).encode("utf-8")
        _write(self.home / "installs.json", data, like=False)


def _write(path: Path, data: bytes, *, like: bool) -> list[str]:
    """The file holds `data`, at once and whole, with its old permissions; returns the folders made for it."""
    real = Path(os.path.realpath(path))  # a link to a dotfiles repository stays a link
    made = [str(p) for p in real.parents if not p.exists()]
    part = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = real.stat().st_mode & 0o777 if like and real.exists() else 0o600
        descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(mode)
        part.replace(real)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise InputError(f"{path}: cannot be written ({error.strerror}); nothing was changed there") from error
    return made


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
