"""The paths that `metier index PATH` registered: part of every view of their home, whichever process asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from metier.assemble.settings import placed
from metier.errors import InputError, NotFound
from metier.store import Store, change_fact, fact

ROOTS = "roots"
"""The key under which the store keeps them."""


def registered(store: Store) -> list[str]:
    """The paths, in the order in which they came. Raises `StoreError`."""
    return list(fact(store, ROOTS, []))


def register(store: Store, paths: Sequence[Path]) -> None:
    """These paths are registered from now on. Raises `InputError` for one that does not exist, and `StoreError`."""
    wanted = [str(placed(p)) for p in paths]
    for path in wanted:
        if not Path(path).exists():
            raise InputError(
                f"{path}: no such folder or file; give a folder of skills or a JSONL library, or no path at all to "
                "look in the usual places"
            )
    change_fact(store, ROOTS, lambda have: list(dict.fromkeys([*have, *wanted])), [])


def unregister(store: Store, paths: Sequence[Path]) -> None:
    """These paths are no longer registered. Raises `NotFound` with those that are, and `StoreError`."""
    gone = {str(placed(p)) for p in paths}

    def without(have: list[str]) -> list[str]:
        unknown = gone - set(have)
        if unknown:
            raise NotFound(f"{sorted(unknown)[0]}: not registered; these are", tuple(have))
        return [p for p in have if p not in gone]

    change_fact(store, ROOTS, without, [])
