"""One file, many writers, nothing acknowledged is lost."""

import multiprocessing as mp
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from metier.errors import StoreError
from metier.store import Store, compacted, fact, forget, log_events, log_route, route_row, set_fact, shown
from metier.types import Candidate, Event, Route, Skill, Slate, Task


def a_route(n: int = 0, session: str | None = None) -> Route:
    skill = Skill("given:pdf", "pdf", "reads PDFs", "d" * 64, "/s", "given", ("/s/pdf",))
    slate = Slate(f"r_{n}", Task(f"read page {n}", session=session), (Candidate(skill, 1.5),))
    return Route(f"r_{n}", slate, "text", 3)


def test_the_store_is_private_and_its_folder_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "home" / "store.db")
    set_fact(store, "a", 1)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("policy", "text", "hashed"), [("full", "read page 1", True), ("hash", None, True), ("off", None, False)]
)
def test_the_log_keeps_the_text_its_hash_or_nothing(
    tmp_path: Path, policy: str, text: str | None, hashed: bool
) -> None:
    store = Store(tmp_path / "store.db")
    log_route(store, a_route(1), text=policy, source="cli")  # type: ignore[arg-type]
    row = route_row(store, "r_1")
    assert row is not None and row["text"] == text and (row["hash"] is not None) == hashed


def test_forgetting_removes_the_text_from_the_file_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    log_route(store, a_route(77), text="full", source="cli")
    assert forget(store) == 1
    assert route_row(store, "r_77") is None
    store.close()
    everything = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"read page 77" not in everything


def test_forgetting_before_a_moment_keeps_what_came_later(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    log_route(store, a_route(1), text="full", source="cli", at=100.0)
    log_route(store, a_route(2), text="full", source="cli", at=200.0)
    assert forget(store, before=150.0) == 1
    assert route_row(store, "r_2") is not None


def test_a_session_remembers_what_it_was_shown_until_it_compacts(tmp_path: Path) -> None:
    """Field report 7: full bodies are injected again on every turn."""
    store = Store(tmp_path / "store.db")
    log_events(
        store, [Event("r", "given:pdf", "offered", 1.0, "s", "d"), Event("r", "given:pdf", "loaded", 2.0, "s", "d")]
    )
    assert shown(store, "s") == {("given:pdf", "d"): "loaded"}
    assert shown(store, "other") == {}
    compacted(store, "s")
    assert shown(store, "s") == {}


def _write(path: str, who: int) -> None:
    store = Store(path)
    for n in range(25):
        log_route(store, a_route(who * 1000 + n), text="full", source="cli")


def test_eight_processes_write_at_once_and_no_row_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    context = mp.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, who)) for who in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [w.exitcode for w in writers] == [0] * 8
    assert Store(path).rows("SELECT count(*) AS n FROM routes")[0]["n"] == 200


def test_who_meets_a_reader_on_a_new_file_waits_for_it(tmp_path: Path) -> None:
    """SQLite refuses to change the journal at once, busy time-out or not, while anybody reads."""
    reader = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    reader.execute("CREATE TABLE other (n)")
    reader.execute("BEGIN")
    assert reader.execute("SELECT * FROM other").fetchall() == []
    with pytest.raises(StoreError, match="locked"):
        Store(tmp_path / "store.db", busy=0).rows("SELECT 1")
    done = threading.Timer(0.05, reader.execute, ["COMMIT"])
    done.start()
    assert Store(tmp_path / "store.db", busy=30).rows("SELECT count(*) FROM routes")[0][0] == 0
    done.join()
    reader.close()


def test_threads_share_one_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    threads = [threading.Thread(target=set_fact, args=(store, str(n), n)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [fact(store, str(n)) for n in range(16)] == list(range(16))


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    code = (
        "import sys; from metier.store import Store, set_fact; s = Store(sys.argv[1])\n"
        "for n in range(100000):\n    set_fact(s, str(n), n); print(n, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s.db")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline()) for _ in range(60)]
    child.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in child.stdout.read().split()]
    child.wait()
    store = Store(tmp_path / "s.db")
    assert [fact(store, str(n)) for n in acknowledged] == acknowledged


def test_a_failed_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with pytest.raises(ZeroDivisionError), store.transaction() as connection:
        connection.execute("INSERT INTO facts VALUES ('a', '1', 0)")
        1 / 0  # noqa: B018
    assert fact(store, "a") is None


def test_a_store_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match=r"store\.db.*move the file away"):
        fact(Store(tmp_path / "store.db"), "a")


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match=r"METIER_HOME|parentheses"):
        set_fact(Store(tmp_path / "file" / "store.db"), "a", 1)


def test_a_store_of_a_newer_metier_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("PRAGMA user_version = 9999")
    with pytest.raises(StoreError, match=r"newer metier.*upgrade"):
        fact(Store(tmp_path / "store.db"), "a")


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.write("CREATE TABLE parents (n INTEGER PRIMARY KEY)")
    store.write("CREATE TABLE t (n INTEGER REFERENCES parents (n) DEFERRABLE INITIALLY DEFERRED)")
    store.rows("PRAGMA foreign_keys = ON")
    with pytest.raises(StoreError):
        store.write("INSERT INTO t VALUES (1)")  # refused only at the commit
    store.write("INSERT INTO parents VALUES (1)")
    assert [row["n"] for row in store.rows("SELECT n FROM t")] == []
