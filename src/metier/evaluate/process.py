"""One command under control: no shell, a time limit, bounded output, and no child left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from metier.errors import InputError

KEPT = 8 << 20
"""Bytes of stdout that are kept: the longest transcript of an agent is a few MB."""
FLOOD = 64 << 20
"""Bytes of stdout after which a command is stopped: nothing useful prints this much."""
TAIL = 8 << 10
"""Bytes kept of the end of stderr."""
_LOOK = 0.02  # seconds between looks at the clock and at a wish to stop
_GRACE = 2.0  # seconds a stopped command's pipes may stay open before they are abandoned
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST_SECRET = 6  # shorter values would blot out ordinary words


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    """Exit status; negative: the signal that ended it."""
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    flooded: bool = False
    stopped: bool = False
    """Ended because the whole collection was asked to stop."""

    @property
    def ours(self) -> bool:
        """Whether we ended it."""
        return self.timed_out or self.flooded or self.stopped


class Children:
    """The commands that are running now; `stop` ends them all, and no new one starts."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Every running command is killed with its own children."""
        self.stopping.set()
        with self._lock:
            for process in self._running:
                _kill(process)

    def run(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout: float) -> Ran:
        """The command has ended, by itself or by us. Raises `InputError` when it cannot be started."""
        began = time.monotonic()
        try:
            with self._lock:
                if self.stopping.is_set():
                    return Ran(-signal.SIGTERM, "", "", 0.0, stopped=True)
                process = subprocess.Popen(
                    list(argv), cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, start_new_session=True,
                )  # fmt: skip
                self._running.add(process)
        except (OSError, ValueError) as error:
            raise InputError(f"{argv[0]}: it cannot be started ({error}); check the command and the path") from error
        out, err = _Reader(process.stdout, keep=KEPT), _Reader(process.stderr, keep=TAIL, end=True)
        writer = threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True)
        writer.start()
        try:
            timed_out = self._wait(process, out, began + timeout)
        finally:
            with self._lock:  # before it is reaped: until then its number belongs to no other process
                _kill(process)
                self._running.discard(process)
            process.wait()
        for thread in (out, err, writer):
            thread.join(_GRACE)
        return Ran(
            process.returncode, out.text(), err.text(), time.monotonic() - began, timed_out=timed_out,
            flooded=out.seen > FLOOD, stopped=self.stopping.is_set(),
        )  # fmt: skip

    def _wait(self, process: subprocess.Popen[bytes], out: _Reader, until: float) -> bool:
        """True when the time was up."""
        while not _ended(process):
            if out.seen > FLOOD or self.stopping.wait(_LOOK):
                return False
            if time.monotonic() > until:
                return True
        return False


class _Reader(threading.Thread):
    """Reads a pipe to its end and keeps a bounded part of it."""

    def __init__(self, pipe: IO[bytes] | None, *, keep: int, end: bool = False) -> None:
        super().__init__(daemon=True)
        self._pipe, self._keep, self._end = pipe, keep, end
        self._held = bytearray()
        self.seen = 0
        self.start()

    def run(self) -> None:
        if self._pipe is None:
            return
        with suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self.seen += len(part)
                if self._end:
                    self._held += part
                    del self._held[: -self._keep]
                elif len(self._held) < self._keep:
                    self._held += part[: self._keep - len(self._held)]
            self._pipe.close()

    def text(self) -> str:
        return bytes(self._held).decode("utf-8", "replace")


def _write(pipe: IO[bytes] | None, text: str) -> None:
    if pipe is not None:
        with suppress(OSError, ValueError):  # a command may well not read its stdin
            pipe.write(text.encode("utf-8", "replace"))
        with suppress(OSError, ValueError):
            pipe.close()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command ended; it is not reaped where the system can tell without."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The command and whatever it started in its session are gone."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        with suppress(OSError):
            process.kill()


def redacted(text: str, env: Mapping[str, str]) -> str:
    """The text without the values of variables whose names speak of secrets."""
    secrets = {v for name, v in env.items() if _SECRET.search(name) and len(v) >= _SHORTEST_SECRET}
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    return text
