"""The files of an index: mapped, checked, and named when they are not what they should be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from metier.errors import IndexProblem
from metier.retrieve.generation import MANIFEST, Writer, open_arrays, read_manifest, same_again, verify


def written(folder: Path) -> Path:
    writer = Writer(folder)
    writer.append("numbers", np.arange(6, dtype=np.int32))
    writer.append("numbers", np.arange(3, dtype=np.int32))
    writer.append("table", np.ones((2, 3), np.float32))
    writer.append("nothing", np.zeros((0, 4), np.float32))
    writer.finish({"skills": 2})
    return folder


def test_arrays_come_back_as_they_were_appended_and_are_read_only(tmp_path: Path) -> None:
    folder = written(tmp_path)
    arrays = open_arrays(folder, read_manifest(folder))
    assert arrays["numbers"].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert arrays["table"].shape == (2, 3)
    assert arrays["nothing"].shape == (0, 4)
    assert not arrays["numbers"].flags.writeable
    verify(folder)


def test_without_its_manifest_a_folder_is_no_index(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.append("numbers", np.arange(6))
    writer.abandon()
    with pytest.raises(IndexProblem, match="run: metier index"):
        read_manifest(tmp_path)


def test_writing_into_the_folder_of_an_old_index_unmakes_it_first(tmp_path: Path) -> None:
    Writer(written(tmp_path)).abandon()
    with pytest.raises(IndexProblem):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["numbers.bin", "table.bin"])
def test_a_cut_file_is_named_when_the_index_is_opened(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path)
    os.truncate(folder / name, 5)
    with pytest.raises(IndexProblem, match=name):
        open_arrays(folder, read_manifest(folder))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "table.bin").unlink()
    with pytest.raises(IndexProblem, match=r"table\.bin"):
        open_arrays(folder, read_manifest(folder))
    with pytest.raises(IndexProblem, match=r"table\.bin"):
        verify(folder)


def test_one_wrong_byte_is_found_by_verify(tmp_path: Path) -> None:
    folder = written(tmp_path)
    data = bytearray((folder / "table.bin").read_bytes())
    data[7] ^= 1
    (folder / "table.bin").write_bytes(data)
    with pytest.raises(IndexProblem, match="checksum"):
        verify(folder)


def test_another_format_is_told_from_damage(tmp_path: Path) -> None:
    folder = written(tmp_path)
    facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    (folder / MANIFEST).write_text(json.dumps({**facts, "format": 99}), encoding="utf-8")
    with pytest.raises(IndexProblem, match="format 99"):
        read_manifest(folder)
    (folder / MANIFEST).write_text(json.dumps({**facts, "skills": 3}), encoding="utf-8")
    with pytest.raises(IndexProblem, match="damaged"):
        read_manifest(folder)
    (folder / MANIFEST).write_text("{not json", encoding="utf-8")
    with pytest.raises(IndexProblem, match="cannot be read"):
        read_manifest(folder)
    (folder / MANIFEST).write_text("[]", encoding="utf-8")
    with pytest.raises(IndexProblem, match="format None"):
        read_manifest(folder)


def test_an_unchanged_index_is_linked_not_written_and_outlives_the_old_one(tmp_path: Path) -> None:
    old = written(tmp_path / "old")
    same_again(old, tmp_path / "new", read_manifest(old))
    assert (old / "table.bin").samefile(tmp_path / "new" / "table.bin")
    for file in old.iterdir():
        file.unlink()
    verify(tmp_path / "new")
    arrays = open_arrays(tmp_path / "new", read_manifest(tmp_path / "new"))
    assert arrays["table"].sum() == 6
