"""One SQLite file (WAL) holds everything that must survive: routes, events, outcomes, graphs, caches.

Packages own their queries and run them through `Store`; tables are made only by `migrations/NNNN-part.sql`, one
numbered sequence for the whole program. Any number of threads and processes may read and write at once: every write is
one short `BEGIN IMMEDIATE` transaction, fsynced before it returns.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from metier.errors import StoreError
from metier.text import fingerprint
from metier.types import Event, Route

BUSY_SECONDS = 10.0
"""How long a writer waits for another before it gives up; appends take milliseconds."""
RETRY_SECONDS = 0.005
OWNER = "OWNER"
"""A file in a folder that is being written, locked by who writes it: the lock ends with the process."""
YOUNG_SECONDS = 60.0
"""A folder younger than this may not have got its owner's lock yet."""
ABANDONED_SECONDS = 3600.0
"""A half-written folder without an owner's file, or where locks cannot be asked, is left alone for this long."""
_MIGRATIONS = Path(__file__).parent / "migrations"


class Store:
    """The database at `path`, created with mode 0600 and migrated when first used; one connection per thread.

    Raises `StoreError`, naming the file and the remedy, whenever SQLite cannot do what was asked.
    """

    def __init__(self, path: str | Path, *, busy: float = BUSY_SECONDS) -> None:
        self.path = Path(path)
        self.busy = busy
        self._local = threading.local()
        self._generation = 0

    def _connection(self) -> sqlite3.Connection:
        held = getattr(self._local, "held", None)
        if held is not None and held[0] == (os.getpid(), self._generation):
            return held[1]  # type: ignore[no-any-return]
        connection = self._open()
        self._local.held = ((os.getpid(), self._generation), connection)
        return connection

    def _open(self) -> sqlite3.Connection:
        with self._named("opened"):
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self.path, timeout=self.busy, isolation_level=None)
            connection.row_factory = sqlite3.Row
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version < _latest():
                _log_ahead(connection, self.busy)
                _migrate(connection)
            elif version > _latest():
                raise StoreError(
                    f"{self.path}: written by a newer metier (schema {version}, this one knows {_latest()}); "
                    "upgrade metier, or set METIER_HOME to another folder"
                )
            connection.execute("PRAGMA synchronous = FULL")
            return connection

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError) as error:
            raise StoreError(f"{self.path}: the store could not be {what} ({error}); {_remedy(error)}") from error

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self._named("read"):
            return self._connection().execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements of the block are committed and fsynced together, or none is."""
        with self._named("written"):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            with _whole(connection):
                yield connection

    def write(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """One statement in a transaction of its own; the number of rows it touched."""
        with self.transaction() as connection:
            return connection.execute(sql, values).rowcount

    def write_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """One statement for many rows, in one transaction; the number of rows it touched."""
        with self.transaction() as connection:
            return connection.executemany(sql, rows).rowcount

    def close(self) -> None:
        """Close this thread's connection; others close with their threads."""
        held = getattr(self._local, "held", None)
        if held is not None and held[0][0] == os.getpid():
            held[1].close()
        self._generation += 1


@lru_cache(maxsize=1)
def _latest() -> int:
    return max(int(name[:4]) for name in os.listdir(_MIGRATIONS) if name.endswith(".sql"))  # noqa: PTH208


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """The file is in WAL mode. Who finds it locked tries again: SQLite lets nobody wait for this change by itself."""
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(RETRY_SECONDS)


def _migrate(connection: sqlite3.Connection) -> None:
    """Every migration above the file's own version has run, each in one transaction; processes may race."""
    for path in sorted(_MIGRATIONS.glob("[0-9]*.sql")):
        number = int(path.name[:4])
        connection.execute("BEGIN IMMEDIATE")  # another process may have migrated while this one waited
        with _whole(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] < number:
                for statement in _statements(path.read_text(encoding="utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")


@contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    """The open transaction is committed at the end; whatever stops that, a full disk included, takes it back."""
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _statements(script: str) -> Iterator[str]:
    """The complete statements of a script; `executescript` would commit the transaction around it."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _remedy(error: Exception) -> str:
    text = str(error).lower()
    if "full" in text or "no space" in text or "disk i/o" in text:
        return "free some disk space and repeat; what was acknowledged before is kept"
    if "readonly" in text or "read-only" in text or "permission" in text or "unable to open" in text:
        return "make the folder writable, or set METIER_HOME to one that is"
    if "locked" in text or "busy" in text:
        return "another process holds it; repeat when that one has finished"
    if any(said in text for said in ("malformed", "not a database", "already exists", "no such table", "no column")):
        return "move the file away (metier makes a new one) or restore it from a backup"
    if isinstance(error, OSError):
        return "set METIER_HOME to a folder that can be written"
    return "see the cause in parentheses"


# ---------------------------------------------------------------------------------------------- routes and events


def log_route(
    store: Store, route: Route, *, text: Literal["full", "hash", "off"], source: str, at: float | None = None
) -> None:
    """The route is in the log, with the text of its request, its hash or neither."""
    task, now = route.slate.task, time.time() if at is None else at
    kept = task.text if text == "full" else None
    digest = fingerprint(task.text) if text != "off" else None
    slate = json.dumps(_log_slate(route), separators=(",", ":"))  # ASCII: a file's name may hold what UTF-8 cannot
    with store.transaction() as c:
        c.execute(
            "INSERT INTO routes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (route.id, now, kept, digest, task.stack, task.family, task.session, source, route.tokens, slate),
        )


def _log_slate(route: Route) -> dict[str, Any]:
    slate = route.slate
    return {
        "candidates": [
            {
                "id": c.skill.id, "name": c.skill.name, "digest": c.skill.digest, "score": round(c.score, 6),
                "level": c.verdict.level, "reason": c.verdict.reason, "tau": c.verdict.tau,
                "eta": c.verdict.eta, "support": c.verdict.support, "propensity": c.verdict.propensity,
            }
            for c in slate.candidates
        ],
        "cover": list(slate.cover),
        "note": slate.note,
        "steps": [{"stage": s.stage, "ms": round(s.ms, 3), "error": s.error} for s in slate.steps],
        "warnings": list(route.warnings),
    }  # fmt: skip


def log_events(store: Store, events: Sequence[Event]) -> None:
    """Every event is in the log."""
    store.write_many(
        "INSERT INTO events (route, skill, digest, what, session, at) VALUES (?, ?, ?, ?, ?, ?)",
        [(e.route, e.skill, e.digest, e.what, e.session, e.at) for e in events],
    )


def shown(store: Store, session: str) -> dict[tuple[str, str], str]:
    """(skill id, digest) → `offered`, `loaded` or `used`, strongest since the session last compacted (methods 5.6)."""
    rows = store.rows(
        "SELECT skill, digest, what FROM events WHERE session = ? AND n > "
        "coalesce((SELECT max(n) FROM events WHERE session = ? AND what = 'compacted'), 0) ORDER BY n",
        (session, session),
    )
    order = {"offered": 0, "loaded": 1, "used": 2}
    best: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row["skill"], row["digest"])
        if key not in best or order[row["what"]] > order[best[key]]:
            best[key] = row["what"]
    return best


def compacted(store: Store, session: str) -> None:
    """The session's memory of what it was shown starts anew."""
    store.write(
        "INSERT INTO events (route, skill, what, session, at) VALUES ('', '', 'compacted', ?, ?)",
        (session, time.time()),
    )


def route_row(store: Store, route_id: str) -> sqlite3.Row | None:
    """The logged route of that id; its `slate` column is JSON."""
    found = store.rows("SELECT * FROM routes WHERE id = ?", (route_id,))
    return found[0] if found else None


def forget(store: Store, *, before: float | None = None) -> int:
    """Routes and events (all, or those before a moment) are gone from the file; the number of routes removed."""
    edge = float("inf") if before is None else before
    with store.transaction() as c:
        gone = c.execute("DELETE FROM routes WHERE at < ?", (edge,)).rowcount
        c.execute("DELETE FROM events WHERE at < ?", (edge,))
    if before is None:  # erased on request means erased from the file's free pages too
        with store._named("written"):
            store._connection().execute("VACUUM")
            store._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return gone


_SET = "INSERT INTO facts VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at"
_GET = "SELECT value FROM facts WHERE key = ?"


def set_fact(store: Store, key: str, value: Any) -> None:
    """A small JSON value is kept under `key`."""
    store.write(_SET, (key, json.dumps(value), time.time()))


def change_fact(store: Store, key: str, change: Callable[[Any], Any], default: Any = None) -> None:
    """The value under `key`, or `default`, is replaced by what `change` makes of it; nobody else writes in between."""
    with store.transaction() as c:
        found = c.execute(_GET, (key,)).fetchone()
        value = change(json.loads(found["value"]) if found else default)
        c.execute(_SET, (key, json.dumps(value), time.time()))


def fact(store: Store, key: str, default: Any = None) -> Any:
    """The value kept under `key`, or `default`."""
    found = store.rows(_GET, (key,))
    return json.loads(found[0]["value"]) if found else default


# ------------------------------------------------------------------------------------------- folders being written


def claim(folder: Path) -> int:
    """A descriptor; until it is closed, by us or by our death, `abandoned` says no of this folder."""
    held = os.open(folder / OWNER, os.O_CREAT | os.O_RDWR, 0o600)
    with suppress(ImportError, OSError):  # without locks, age decides
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return held


def abandoned(folder: Path) -> bool:
    """Whether who began to write the folder is gone."""
    try:
        age = time.time() - folder.stat().st_mtime
        if age < YOUNG_SECONDS:
            return False
        held = os.open(folder / OWNER, os.O_RDWR)
    except FileNotFoundError:
        return folder.is_dir() and age > ABANDONED_SECONDS
    except OSError:
        return False
    try:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return age > ABANDONED_SECONDS
    except OSError:  # somebody writes there
        return False
    finally:
        os.close(held)
    return True
