"""Registered paths: nobody's registration is lost, and whoever runs already sees what another process registers."""

import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edge.material import workshop, write_skill
from metier.assemble.registered import register, registered, unregister
from metier.assemble.workshop import Workshop
from metier.errors import InputError, NotFound
from metier.store import Store


def names(shop: Workshop) -> set[str]:
    return {s.name for s in shop.library.skills}


def test_registrations_at_once_are_all_kept(tmp_path: Path) -> None:
    folders = [tmp_path / str(n) for n in range(12)]
    for folder in folders:
        folder.mkdir()
    store = Store(tmp_path / "store.db")
    threads = [threading.Thread(target=register, args=(store, [folder])) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(registered(store)) == sorted(map(str, folders))
    unregister(store, folders[1:])
    assert registered(store) == [str(folders[0])]


def test_what_is_not_there_is_neither_registered_nor_forgotten(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with pytest.raises(InputError, match="no such folder or file"):
        register(store, [tmp_path / "nowhere"])
    with pytest.raises(NotFound, match="not registered"):
        unregister(store, [tmp_path])
    assert registered(store) == []


def test_a_running_workshop_sees_a_path_that_another_registers_and_forgets(tmp_path: Path) -> None:
    running, more = workshop(tmp_path), tmp_path / "more"
    before = names(running)
    write_skill(more, "added", "Added by another process.", "New.")
    other = Workshop(running.config, cwd=running.cwd)
    register(other.store, [more])
    other.refresh()
    running.router()
    assert names(running) == before | {"added"} and running.complete()
    unregister(other.store, [more])
    running.router()
    assert names(running) == before


def test_the_indexer_behind_indexes_the_very_view_also_where_a_flag_named_the_skills(tmp_path: Path) -> None:
    plain, more = workshop(tmp_path, built=False), tmp_path / "more"
    write_skill(more, "added", "Named by a flag.", "New.")
    shop = Workshop(replace(plain.config, skills=(str(more),)), cwd=plain.cwd)
    assert not shop.complete()
    subprocess.run(shop.indexer(), cwd=shop.cwd, check=True)
    assert shop.complete() and "added" in names(shop)
