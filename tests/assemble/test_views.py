"""Generations are switched atomically, and a view belongs to its roots alone."""

import os
import time
from pathlib import Path

import pytest

from metier.assemble.views import View
from metier.errors import StoreError


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


def test_what_a_dead_indexer_left_behind_is_removed_after_an_hour(tmp_path: Path) -> None:
    view = View(tmp_path / "v")
    dead, alive = view.begin(), view.begin()
    old = time.time() - 7200
    os.utime(dead, (old, old))
    for name in ("CURRENT.0a1b2c3d", "facts.json.0a1b2c3d"):
        (view.folder / name).write_text("", encoding="utf-8")
        os.utime(view.folder / name, (old, old))
    view.switch(view.begin())
    assert not dead.exists() and alive.exists()
    assert [p.name for p in view.folder.glob("*.0a1b2c3d")] == []


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
