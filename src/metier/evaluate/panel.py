"""A panel of paired outcomes from files: SkillDelta's JSON and NPZ, or JSONL rows whose texts are encoded.

Each row is one task: {id, family, y0, y1, tokens0?, tokens1?, text?, skill?, self_use?, router_tokens?, repeats0?,
repeats1?}. Success lies in [0, 1]; tokens may be null and then no token figure is made up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import BankError, InputError
from metier.gate import gain
from metier.gate.imports import read_npz, text_of
from metier.types import Encoder

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A panel with all that was recorded beside the outcomes."""

    panel: gain.Panel
    texts: tuple[str | None, ...]
    tokens0: Floats
    """NaN where unknown."""
    tokens1: Floats
    self_use: Floats
    """1 where a model asked whether to use the skill said yes, 0 where no, NaN where it was not asked."""
    router_tokens: Floats
    repeats: tuple[tuple[Floats, Floats] | None, ...]
    """Successes of the single runs without and with the skill, where recorded."""

    def __len__(self) -> int:
        return len(self.panel)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> Recorded:
        """Those rows, in that order."""
        at = np.asarray(rows, dtype=np.intp)
        return Recorded(
            self.panel.take(at), tuple(self.texts[i] for i in at), self.tokens0[at], self.tokens1[at],
            self.self_use[at], self.router_tokens[at], tuple(self.repeats[i] for i in at),
        )  # fmt: skip


def read_panel(path: Path, *, vectors: Path | None = None, encoder: Encoder | None = None) -> Recorded:
    """The panel of a file, with the vectors of an NPZ file or of its texts.

    Raises `InputError` for a file that is no panel, and `BankError`, naming the row, for one that cannot be right.
    """
    rows = panel_rows(path)
    ids = [str(row["id"]) for row in rows]
    if vectors is not None:
        matrix = _aligned(ids, *read_npz(vectors), where=vectors)
    elif encoder is not None:
        missing = [name for name, row in zip(ids, rows, strict=True) if not _text(row)]
        if missing:
            raise InputError(f"{path}: row {missing[0]!r} has no text to encode; give its text, or --vectors FILE.npz")
        matrix = np.asarray(encoder.encode([_text(row) or "" for row in rows], kind="query"), dtype=np.float64)
    else:
        raise InputError(f"{path}: no vectors; give --vectors FILE.npz, or rows with a text")
    return recorded(rows, matrix)


def panel_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a panel file: a JSON object with `rows`, a JSON list, or JSONL."""
    text = text_of(path)
    try:
        value = json.loads(text)
        rows = value.get("rows") if isinstance(value, Mapping) and "rows" in value else value
    except ValueError:
        try:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise InputError(f"{path}: neither JSON nor JSONL ({error})") from error
    if isinstance(rows, Mapping):
        rows = [rows]
    if not isinstance(rows, list) or not rows:
        raise InputError(f'{path}: no rows in it; give {{"rows": [{{"id", "family", "y0", "y1"}}]}}')
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.get("id", row.get("task_id")) in (None, ""):
            raise InputError(f"{path}: rows[{number}] has no id; every task needs one")
    return [_named(row) for row in rows]


def _named(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row under the panel's own names, where it uses those of paired lines."""
    other = {"id": "task_id", "text": "task", "y0": "success_without", "y1": "success_with",
             "tokens0": "tokens_without", "tokens1": "tokens_with"}  # fmt: skip
    return {**{ours: row[theirs] for ours, theirs in other.items() if theirs in row}, **row}


def recorded(rows: Sequence[Mapping[str, Any]], vectors: Floats) -> Recorded:
    """Checked rows and vectors as one panel. Raises `BankError` (methods 3.2)."""
    ids = [str(row["id"]) for row in rows]
    families = [str(row.get("family") or row.get("skill") or "all") for row in rows]
    skills = [_skill(row, family) for row, family in zip(rows, families, strict=True)]
    of = gain.tasks(ids, families, vectors, skills=skills)
    arms = [np.array([_success(row, name) for row in rows], dtype=np.float64) for name in ("y0", "y1")]
    tokens = [np.array([_tokens(row, name) for row in rows], dtype=np.float64) for name in ("tokens0", "tokens1")]
    return Recorded(
        gain.panel(of, *arms), tuple(_text(row) for row in rows), tokens[0], tokens[1],
        np.array([np.nan if row.get("self_use") is None else float(bool(row["self_use"])) for row in rows]),
        np.array([_tokens(row, "router_tokens") for row in rows], dtype=np.float64),
        tuple(_repeats(row) for row in rows),
    )  # fmt: skip


def _aligned(ids: Sequence[str], named: Sequence[str], matrix: Floats, *, where: Path) -> Floats:
    """The vectors in the panel's order."""
    place = {name: row for row, name in enumerate(named)}
    for name in ids:
        if name not in place:
            raise InputError(f"{where}: no vector for task {name!r}; encode the panel again")
    gain.tasks(list(named), ["all"] * len(named), matrix)  # one bad vector condemns the file, asked for or not
    return matrix[[place[name] for name in ids]]


def _text(row: Mapping[str, Any]) -> str | None:
    text = row.get("text") or row.get("question")
    return str(text) if text else None


def _skill(row: Mapping[str, Any], family: str) -> str:
    told = row.get("skill") or row.get("skill_ids") or family
    return told if isinstance(told, str) else "+".join(sorted(str(each) for each in told))


def _success(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if value is None:
        raise BankError(f"task {row['id']!r}: {name} is missing; a pair needs both arms (a missing run is no failure)")
    if not isinstance(value, (int, float)):
        raise BankError(f"task {row['id']!r}: {name} is {value!r}; success is a number between 0 and 1")
    return float(value)


def _tokens(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value) or value < 0:
        raise BankError(f"task {row['id']!r}: {name} is {value!r}; tokens are a number of at least 0, or null")
    return float(value)


def _repeats(row: Mapping[str, Any]) -> tuple[Floats, Floats] | None:
    told = row.get("repeats0"), row.get("repeats1")
    if not all(isinstance(each, list) and each for each in told):
        return None
    without, used = (np.asarray(each, dtype=np.float64) for each in told)
    return without, used
