"""Generations are switched atomically, and a view belongs to its roots alone."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metier.assemble.views import View
from metier.assemble.workshop import Workshop
from metier.errors import StoreError
from metier.library.rows import sweep
from metier.types import Config


def test_other_roots_or_another_encoder_are_another_view(tmp_path: Path) -> None:
    one = View.of(tmp_path, ["given:/a", "given:/b"], "minilm")
    assert one == View.of(tmp_path, ["given:/b", "given:/a"], "minilm")
    assert one != View.of(tmp_path, ["given:/a"], "minilm") != View.of(tmp_path, ["given:/a"], "hash")


def test_a_generation_counts_only_once_it_was_switched_to(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    part = view.begin()
    (part / "file").write_text("1", encoding="utf-8")
    assert view.current() is None
    final = view.switch(part)
    assert view.current() == final and (final / "file").read_text(encoding="utf-8") == "1"


def test_old_generations_go_and_the_one_before_stays_for_slow_readers(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    made = [view.switch(view.begin()) for _ in range(4)]
    assert view.current() == made[-1]
    assert sum(p.exists() for p in made) == 2


WRITING = """
import sys, time
from pathlib import Path
from metier.assemble.views import View
from metier.library.rows import Spool

view = View(Path(sys.argv[1]))
part = view.begin()
spool = Spool(view.spool, "library.jsonl", "stamp")
print(part, spool.work, flush=True)
time.sleep(600)
"""


def aged(path: Path, seconds: float = 7200) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_what_a_killed_indexer_left_behind_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    both = [
        subprocess.Popen([sys.executable, "-c", WRITING, str(view.folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        (dead, dead_spool), (alive, living_spool) = (
            map(Path, str(p.stdout and p.stdout.readline()).split()) for p in both
        )
        both[0].kill()
        both[0].wait()
        for path in (dead, dead_spool, alive, living_spool):
            aged(path)
        for name in ("CURRENT.0a1b2c3d", "facts.json.0a1b2c3d"):
            (view.folder / name).write_text("", encoding="utf-8")
            aged(view.folder / name)
        view.switch(view.begin())
        sweep(view.spool, [])
        assert not dead.exists() and not dead_spool.exists()
        assert alive.exists() and living_spool.exists(), "however long it takes"
        assert [p.name for p in view.folder.glob("*.0a1b2c3d")] == []
    finally:
        for process in both:
            process.kill()
            process.communicate()


def test_a_generation_that_has_just_begun_is_left_alone_and_one_without_an_owner_for_an_hour(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    view.folder.mkdir()
    young, unowned, old = (view.folder / f"2026-{n}.part" for n in range(3))
    for path, age in ((young, 10.0), (unowned, 600.0), (old, 7200.0)):
        path.mkdir()
        aged(path, age)
    view.switch(view.begin())
    assert young.exists() and unowned.exists() and not old.exists()


def test_a_finished_generation_says_nothing_of_who_wrote_it(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    final = view.switch(view.begin())
    assert final is not None and [p.name for p in final.iterdir()] == ["WHOLE"]


def test_indexing_a_changed_library_file_keeps_two_spools(tmp_path: Path) -> None:
    file = tmp_path / "library.jsonl"
    config = Config(home=str(tmp_path / "home"), encoder="hash")
    for n in range(4):
        rows = [{"id": f"s{i}", "name": f"s{i}", "description": "d", "body": f"body {n}"} for i in range(2)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        shop = Workshop(config, paths=[file], cwd=tmp_path)
        shop.refresh()
        assert shop.body(shop.skill("s1")).strip() == f"body {n}"
        assert len(list(shop.view.spool.iterdir())) == min(n + 1, 2)


def test_a_current_that_points_nowhere_is_no_generation(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    view.switch(view.begin())
    for hostile in (b"../../etc", b"gone", b"", b"2026\xcc\xff", b"a\0b", b"\xff" * 9):
        (view.folder / "CURRENT").write_bytes(hostile)
        assert view.current() is None


def test_only_one_indexer_holds_a_view(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    with view.lock() as first, View(tmp_path / "v").lock(wait=0) as second:
        assert first and not second
    with view.lock(wait=0) as again:
        assert again


def test_facts_are_kept_together_and_a_broken_file_is_no_fact(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    view.begin()
    view.note(at=1.0)
    view.note(seconds=2.0)
    assert view.facts() == {"at": 1.0, "seconds": 2.0}
    for broken in ("{", "[]", "\0", '{"at": null}', '{"at": "now", "seconds": 1}'):
        (view.folder / "facts.json").write_text(broken, encoding="utf-8")
        assert view.facts() == {}


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="METIER_HOME"), View(tmp_path / "file" / "v").lock():
        pass


def test_whether_the_index_has_vectors_stands_in_the_generation_whoever_notes_what(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    whole = view.switch(view.begin())
    late = View(tmp_path / "v")
    assert late.switch(late.begin(), whole=False, after=None) is None, "it began before there was any"
    late.note(at=1.0)
    assert view.facts()["complete"] and view.current() == whole
    assert list(view.folder.glob("*.part")) == []
    words = view.switch(view.begin(), whole=False, after=whole)
    assert view.current() == words and "complete" not in view.facts()
    view.switch(view.begin())
    view.distrust()
    assert "complete" not in view.facts()
