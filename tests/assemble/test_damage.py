"""What a damaged, half-built or fought-over index does: it is built anew from what is whole, and never gets worse."""

from pathlib import Path

import numpy as np
import pytest

from edge.material import workshop, write_skill
from metier.assemble import indexing
from metier.assemble.indexing import build_generation
from metier.assemble.workshop import Workshop
from metier.errors import IndexProblem


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def names(shop: Workshop) -> set[str]:
    return {s.name for s in shop.library.skills}


def test_a_damaged_record_of_the_catalogue_ends_no_later_index(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    flip(shop.opened().folder / "library" / "catalogue.bin", 900)
    write_skill(shop.cwd / ".claude" / "skills", "added", "A new one.", "New.")
    again = Workshop(shop.config, cwd=shop.cwd)
    built = again.refresh()
    assert built.skills == 5 and "added" in names(again)


@pytest.mark.parametrize("name", ["vectors", "bm25-starts", "bm25-docs", "bm25-tf", "row-keys"])
def test_damaged_bytes_of_an_index_are_not_carried_into_the_next(tmp_path: Path, name: str) -> None:
    shop = workshop(tmp_path)
    path = shop.opened().folder / "index" / f"{name}.bin"
    path.write_bytes(b"\xff" * path.stat().st_size)
    write_skill(shop.cwd / ".claude" / "skills", "added", "Added later.", "New.")
    again = Workshop(shop.config, cwd=shop.cwd)
    again.refresh()
    fresh = workshop(tmp_path / "other", built=False)
    write_skill(fresh.cwd / ".claude" / "skills", "added", "Added later.", "New.")
    fresh.refresh()
    for key, array in fresh.opened().index.arrays.items():
        assert np.array_equal(array, again.opened().index.arrays[key]), key


def test_words_alone_do_not_replace_the_whole_index_that_another_process_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = workshop(tmp_path, built=False), workshop(tmp_path, built=False)
    write = indexing.earlier_library

    def meanwhile(current: Path | None) -> object:
        monkeypatch.setattr(indexing, "earlier_library", write)
        quick.refresh()
        return write(current)

    monkeypatch.setattr(indexing, "earlier_library", meanwhile)
    slow.router()
    assert slow.opened().folder == quick.opened().folder and slow.opened().index.vectors is not None
    assert slow.complete() and list(slow.view.folder.glob("*.part")) == []


def test_a_generation_replaced_while_it_was_being_opened_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = workshop(tmp_path)
    late = Workshop(shop.config, cwd=shop.cwd)
    opened = indexing.open_generation

    def gone(folder: Path) -> object:
        monkeypatch.setattr("metier.assemble.workshop.open_generation", opened)
        for _ in range(3):
            shop.refresh(full=True)
        return opened(folder)

    monkeypatch.setattr("metier.assemble.workshop.open_generation", gone)
    assert late.opened().folder == shop.view.current() and late.warnings == []


def test_an_index_that_failed_leaves_nothing_on_the_disk_and_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = workshop(tmp_path)
    before = shop.view.current()

    def full(*_: object) -> None:
        raise IndexProblem("no space left")

    monkeypatch.setattr(indexing, "_write_families", full)
    with pytest.raises(IndexProblem):
        build_generation(shop._source(), shop.encoder, full=True)
    assert shop.view.current() == before and list(shop.view.folder.glob("*.part")) == []


@pytest.mark.parametrize("file", ["library/catalogue.bin", "index/bm25-docs.bin"])
def test_a_route_that_met_damage_says_so_and_the_next_refresh_builds_all_anew(tmp_path: Path, file: str) -> None:
    shop = workshop(tmp_path)
    path = shop.opened().folder / file
    if "catalogue" in file:
        path.write_bytes(path.read_bytes().replace(b"PostgreSQL", b"postgresql"))
    else:
        path.write_bytes(b"\xee" * path.stat().st_size)
    late = Workshop(shop.config, cwd=shop.cwd)
    route = late.router().route("why is this postgres query slow")
    assert "metier index" in (route.slate.note or "") and late.wants_refresh()
    late.refresh()
    again = Workshop(shop.config, cwd=shop.cwd).router().route("why is this postgres query slow")
    assert again.slate.candidates[0].skill.name == "sql-tuning" and not again.warnings
