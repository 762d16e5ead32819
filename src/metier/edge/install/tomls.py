"""Small edits of TOML text; comments, order and spacing of everything else stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from metier.errors import InputError


def read(text: str, where: str = "TOML") -> dict[str, Any]:
    """The text's value. Raises `InputError` with the line and the remedy."""
    return dict(_document(text, where).unwrap())


def put(text: str, path: Sequence[str], value: Mapping[str, Any], where: str = "TOML") -> str:
    """The text with the table `value` at `path`, at the end of the file where it is new."""
    document: Any = _document(text, where)
    table = document
    for key in path[:-1]:
        if key not in table:
            table[key] = tomlkit.table(is_super_table=True)
        table = table[key]
    fresh = tomlkit.table()
    for key, item in value.items():
        fresh[key] = item
    table[path[-1]] = fresh
    out = tomlkit.dumps(document)
    if text.strip() and out.startswith(text.rstrip("\n")) and not out[len(text.rstrip("\n")) :].startswith("\n\n"):
        out = text.rstrip("\n") + "\n\n" + out[len(text.rstrip("\n")) :].lstrip("\n")
    _document(out, where)
    return out


def take(text: str, path: Sequence[str], where: str = "TOML") -> str:
    """The text without the table at `path`; tables that are empty then go too."""
    document: Any = _document(text, where)
    chain = [document]
    for key in path:
        if key not in chain[-1]:
            return text
        chain.append(chain[-1][key])
    for table, key in reversed(list(zip(chain, path, strict=False))):
        del table[key]
        if len(table):
            break
    return tomlkit.dumps(document)


def _document(text: str, where: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise InputError(f"{where}: not valid TOML ({error}); mend it (nothing was changed)") from error
