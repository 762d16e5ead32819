"""Where an index lives: one folder per set of roots, in it generations, and `CURRENT` naming the good one.

A *view* is a set of roots; its id is a hash of them, so a project's view never leaks into another's. A generation is
written beside the current one and becomes current by one atomic rename: a crash at any moment leaves the last good one.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from metier.errors import IndexProblem, StoreError
from metier.late import dataclass
from metier.store import ABANDONED_SECONDS, OWNER, abandoned, claim
from metier.text import fingerprint

KEPT = 2
"""Generations kept: the current one, and the one that slower readers may still hold open."""
SWITCH_SECONDS = 10.0
"""How long a finished generation waits for another that is being put in place."""
WHOLE = "WHOLE"
"""A file in every generation that has vectors."""
NUMBERS = ("at", "seconds", "asked")
"""Facts that are numbers, or the file that holds them is none of ours."""
LOCK_SECONDS = 600.0
"""How long one indexer waits for another on the same view."""


_CLAIMS: dict[Path, int] = {}
"""Generations that this process is writing, and the locks that say so."""


@dataclass(frozen=True, slots=True)
class View:
    """The folder `views/<id>` of one set of roots."""

    folder: Path

    @staticmethod
    def of(home: Path, roots: Sequence[str], encoder: str) -> View:
        """The view of these roots (absolute, with scope) under one encoder; the order of the roots counts not."""
        return View(home / "views" / fingerprint(*sorted(set(roots)), encoder)[:16])

    def current(self) -> Path | None:
        """The good generation, or None when there is none yet."""
        with suppress(OSError, ValueError):  # a file of other bytes names none
            name = (self.folder / "CURRENT").read_text(encoding="utf-8").strip()
            if name and "/" not in name and (self.folder / name).is_dir():
                return self.folder / name
        return None

    @property
    def spool(self) -> Path:
        """Where bodies of compressed JSONL libraries are kept readable."""
        return self.folder / "spool"

    def facts(self) -> dict[str, Any]:
        """What the last look at the roots found out: `at`, `seconds`, … and `complete`: the current index has vectors.

        That stands in the generation itself: several processes may note and switch at once.
        """
        current = self.current()
        whole = {"complete": True} if current is not None and (current / WHOLE).exists() else {}
        with suppress(OSError, ValueError):
            found = json.loads((self.folder / "facts.json").read_text(encoding="utf-8"))
            if isinstance(found, dict) and all(isinstance(found.get(k, 0.0), int | float) for k in NUMBERS):
                return {**found, **whole}
        return whole

    def note(self, **facts: Any) -> None:
        """These facts are kept beside the earlier ones."""
        kept = {key: value for key, value in {**self.facts(), **facts}.items() if key != "complete"}
        with suppress(OSError):  # a read-only home only means that the next look comes earlier
            _replace(self.folder / "facts.json", json.dumps(kept))

    def distrust(self) -> None:
        """The current index is not taken for a good one: the next refresh builds it anew."""
        current = self.current()
        if current is not None:
            with suppress(OSError):
                (current / WHOLE).unlink(missing_ok=True)

    def begin(self) -> Path:
        """A fresh folder to write a generation into."""
        now = time.time_ns()  # names sort by age, also within one second: the oldest is what goes
        name = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9)) + f"{now % 10**9:09d}-" + os.urandom(2).hex()
        fresh = self.folder / f"{name}.part"
        try:
            fresh.mkdir(parents=True, mode=0o700)
            _CLAIMS[fresh] = claim(fresh)
        except OSError as error:
            raise IndexProblem(
                f"{fresh}: cannot be made ({error.strerror}); free space, make the folder writable, or set METIER_HOME"
            ) from error
        return fresh

    def drop(self, part: Path) -> None:
        """Nothing is left of a generation that was not finished."""
        import shutil

        _let_go(part)
        shutil.rmtree(part, ignore_errors=True)

    def switch(self, part: Path, *, whole: bool = True, after: Path | None = None) -> Path | None:
        """The finished generation is current; older ones but `KEPT` are removed.

        One of words alone (not `whole`) only follows `after`: where another process has put a generation in its place
        meanwhile, that one stays, this one is dropped, and the answer is None.
        """
        final = part.with_suffix("")
        try:
            if whole:
                (part / WHOLE).touch()
            with self._turn():
                if not whole and self.current() not in (None, after):
                    self.drop(part)
                    return None
                _let_go(part)
                part.rename(final)
                _replace(self.folder / "CURRENT", final.name)
        except OSError as error:
            raise IndexProblem(
                f"{self.folder}: the new index could not be put in place ({error}); the old one stays"
            ) from error
        self._tidy()
        return final

    def _tidy(self) -> None:
        current = self.current()
        done = sorted(p for p in self.folder.iterdir() if p.is_dir() and p.name[:1].isdigit() and p.suffix != ".part")
        old = [p for p in done if p != current][: max(0, len(done) - KEPT)]
        import shutil

        for path in old:
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob("*.part"):
            if abandoned(path):
                shutil.rmtree(path, ignore_errors=True)
        for path in (*self.folder.glob("CURRENT.*"), *self.folder.glob("facts.json.*")):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Nobody else switches meanwhile; held for milliseconds, and by a waiting process no longer than it takes."""
        import filelock

        with filelock.FileLock(self.folder / "SWITCH", timeout=SWITCH_SECONDS):
            yield

    @contextmanager
    def lock(self, *, wait: float = LOCK_SECONDS) -> Iterator[bool]:
        """True while this process alone may build the view; False when another holds it after `wait` seconds."""
        import filelock

        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = filelock.FileLock(self.folder / "LOCK", timeout=wait)
            lock.acquire()
        except filelock.Timeout:
            yield False
            return
        except OSError as error:
            raise StoreError(
                f"{self.folder}: cannot be written ({error.strerror}); make it writable, or set METIER_HOME elsewhere"
            ) from error
        try:
            yield True
        finally:
            lock.release()


def spare() -> Path:
    """A home for one machine and user where the real one cannot be written: the same one each time, nobody else's."""
    import tempfile

    if hasattr(os, "getuid"):
        mine = Path(tempfile.gettempdir(), f"metier-{os.getuid()}")
        with suppress(OSError):
            mine.mkdir(mode=0o700, exist_ok=True)
            found = mine.lstat()  # anyone may make a folder of that name there, or a link
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
                return mine
    return Path(tempfile.mkdtemp(prefix="metier-"))


def usable(place: Path) -> bool:
    """Whether skills can be looked for there: a folder that may be read, a JSONL library, or a SKILL.md."""
    try:
        if place.is_dir() or not place.is_file():
            return place.is_dir() and os.access(place, os.R_OK)
    except (OSError, ValueError):  # a name that no file can have
        return False
    from metier.library.folder import is_marker
    from metier.library.rows import is_library

    return is_library(place.name) or is_marker(place.name)


def writable(home: Path) -> bool:
    """Whether a file can be made in `home`, which is made if need be."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        import tempfile

        with tempfile.TemporaryFile(dir=home):
            return True
    except OSError:
        return False


def _let_go(part: Path) -> None:
    """The generation is finished or given up: it is nobody's."""
    held = _CLAIMS.pop(part, None)
    if held is not None:
        with suppress(OSError):
            (part / OWNER).unlink()
        os.close(held)


def _replace(path: Path, text: str) -> None:
    """The file holds `text`, at once and whole."""
    part = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
