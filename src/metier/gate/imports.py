"""Outcomes from files: our rows, SkillDelta's support, outcome and panel files, pairs, SR-Agents results (rule 3.6).

A bad row is refused with its place and the good ones go in. A row's key is what the file says (and how often the file
said it before), so importing a file twice changes nothing, not even after the skill has changed.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from metier.errors import BankError, InputError
from metier.gate.bank import Bank
from metier.gate.rows import Row, check, opaque
from metier.text import fingerprint
from metier.types import Arm, Outcome

SUPPORT = "skilldelta-support-v1"
OUTCOME = "skilldelta-outcome-v1"
ROWS = "metier-outcome-v1"
EVIDENCE = "metier-skill-evidence-v1"
WITHOUT_SKILL = frozenset({"none", "none_direct", "llm_direct", "direct", "no_skill", "noskill", "none_react"})
"""SR-Agents' names for runs without any skill (its `none` provider)."""
_AT_ONCE = 2000  # rows per transaction: an interrupted import keeps what it finished, and resumes by being run again


@dataclass(frozen=True, slots=True)
class Given:
    """What the person says about a file where the file itself is silent."""

    stack: str | None = None
    skill: str | None = None
    digest: str | None = None
    family: str | None = None
    arm: Arm | None = None
    encoder: str = "unknown"
    """The encoder that made the vectors of an NPZ file."""
    resolve: Callable[[str], tuple[str, str] | None] = lambda name: None
    """Skill name or id → (id, digest) in the library, or None."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    kind: str
    read: int
    """Outcomes in the file that could be rows."""
    new: int
    refused: tuple[tuple[str, str], ...] = ()
    """(place, why) of every row that could not."""
    unbound: int = 0
    """Outcomes of a skill whose digest nobody knows: kept and shown, they cannot load anything."""


def import_file(
    bank: Bank, path: Path, given: Given, *, vectors: Path | None = None, instances: Path | None = None
) -> Imported:
    """The good rows of the file are in the bank. Raises `InputError` when it is no file of outcomes at all."""
    whole, lines = _opened(path)
    if whole is not None and whole.get("schema") == EVIDENCE:
        return _summary(bank, whole, path)
    kind, found = ("lines", _lines(lines, given)) if whole is None else _whole(whole, path, given, instances)
    embedded = _vectors(vectors) if vectors is not None else {}
    refused: list[tuple[str, str]] = []
    counted: Counter[str] = Counter()
    rows: list[Row] = []
    new = unbound = read = 0
    for place, source, made in found:
        if isinstance(made, str):
            refused.append((place, made))
            continue
        try:
            for row in made:
                check(row)
        except BankError as error:
            refused.append((place, str(error)))
            continue
        for row in made:
            key = row.key or _key(source, row.outcome)
            counted[key] += 1
            vector = embedded.get(row.name or "")
            extra = {} if vector is None else {"vector": vector, "encoder": given.encoder}
            rows.append(replace(row, key=fingerprint(key, str(counted[key])) if counted[key] > 1 else key, **extra))
            unbound += "" in row.outcome.digests
            read += 1
        if len(rows) >= _AT_ONCE:
            new += bank.add(rows)
            rows.clear()
    new += bank.add(rows) if rows else 0
    return Imported(kind, read, new, tuple(refused), unbound)


def _key(source: Any, outcome: Outcome) -> str:
    return fingerprint(json.dumps(source, sort_keys=True), outcome.stack, outcome.arm, *outcome.skills)


_Made = tuple[str, Any, "list[Row] | str"]
"""Where in the file, what is there, and its rows or why there are none."""

MOST = 1 << 29
"""Bytes of a file, unpacked, that are read: a million rows have less, a device or a compressed bomb has no end."""


def text_of(path: Path) -> str:
    """The text of a plain, .gz or .xz file. Raises `InputError` when it cannot be read."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            data: bytes = file.read(MOST + 1)
        if len(data) > MOST:
            raise InputError(f"{path}: it has over {MOST:,} bytes; give the outcomes in several files")
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: it cannot be read as UTF-8 text ({error})") from error


def _opened(path: Path) -> tuple[Mapping[str, Any] | None, list[str]]:
    """The file as one JSON object that holds many outcomes, or as lines."""
    text = text_of(path)
    if not text.strip():
        raise InputError(f"{path}: the file is empty; give JSONL rows, a panel, a support file or results")
    try:
        value = json.loads(text)
    except ValueError:
        return None, text.splitlines()
    if isinstance(value, Mapping) and any(
        isinstance(value.get(k), list) for k in ("rows", "tasks", "details", "families")
    ):
        return value, []
    if isinstance(value, list):
        return {"rows": value}, []
    return None, text.splitlines()


def _lines(lines: list[str], given: Given) -> Iterator[_Made]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            yield place, None, f"not JSON ({error}); write one object per line"
            continue
        yield place, value, _made(value, given)


def _whole(value: Mapping[str, Any], path: Path, given: Given, instances: Path | None) -> tuple[str, Iterator[_Made]]:
    if isinstance(value.get("tasks"), list):
        if value.get("schema") not in (None, SUPPORT):
            raise InputError(f"{path}: schema is {value.get('schema')!r}; this reads {SUPPORT}")
        model = str(value.get("embedding_model") or given.encoder)
        return "support", ((f"tasks[{i}]", row, _support(row, given, model)) for i, row in enumerate(value["tasks"]))
    if isinstance(value.get("details"), list):
        return "sr-agents", _results(value, path, given, instances)
    if "rows" not in value:
        raise InputError(f"{path}: no outcomes in it; give JSONL rows, a panel, a support file or results")
    return "panel", ((f"rows[{i}]", row, _made(row, given)) for i, row in enumerate(value["rows"]))


def _made(value: Any, given: Given) -> list[Row] | str:
    """The rows of one object, or why it is none."""
    try:
        if not isinstance(value, Mapping):
            return f"{json.dumps(value)[:60]} is not an object"
        if "skill_enabled" in value:
            return [_outcome_v1(value, given)]
        if "y0" in value or "y1" in value:
            return _pair(value, given, ("y0", "y1"), ("tokens0", "tokens1"))
        if "success_with" in value or "success_without" in value:
            return _pair(value, given, ("success_without", "success_with"), ("tokens_without", "tokens_with"))
        if "arm" in value:
            return [_ours(value, given)]
        if "raw_output" in value:
            return "an SR-Agents inference record says nothing about success; import what `sragents evaluate` wrote"
        return "no outcome in it: give arm and success, y0 and y1, or skill_enabled"
    except (BankError, ValueError, TypeError, OverflowError) as error:
        return str(error)


def _ours(value: Mapping[str, Any], given: Given) -> Row:
    if value.get("schema") not in (None, ROWS):
        raise BankError(f"schema is {value.get('schema')!r}; this reads {ROWS}")
    skills, digests = _skills(value, given, needed=value["arm"] != "skip")
    outcome = Outcome(
        task=_task(value), skills=skills, digests=digests, stack=_stack(value, given), arm=value["arm"],
        success=_fraction(value.get("success")), tokens=_tokens(value.get("tokens")),
        family=_text(value.get("family")) or given.family, repeat=value.get("repeat", 0), at=value.get("at") or 0.0,
        origin=value.get("origin", "import"), propensity=value.get("propensity"), route=_text(value.get("route")),
    )  # fmt: skip
    gain = value.get("gain")
    return Row(outcome, _text(value.get("id")), None if gain is None else float(gain), _text(value.get("key")))


def _outcome_v1(value: Mapping[str, Any], given: Given) -> Row:
    """`skilldelta-outcome-v1`: {time, task_id, skill_enabled, success?, tokens?, route_id?}."""
    used = bool(value["skill_enabled"])
    skills, digests = _skills(value, given, needed=True)
    name = _text(value.get("task_id"))
    if not name:
        raise BankError("task_id is missing; name the task")
    at = value.get("time")
    outcome = Outcome(
        task=_task(value, name), skills=skills, digests=digests, stack=_stack(value, given),
        arm="use" if used else "skip", success=_fraction(value.get("success")), tokens=_tokens(value.get("tokens")),
        family=_text(value.get("family")) or given.family, origin="import",
        at=datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() if isinstance(at, str) else 0.0,
    )  # fmt: skip
    return Row(outcome, name)


def _pair(value: Mapping[str, Any], given: Given, success: tuple[str, str], tokens: tuple[str, str]) -> list[Row]:
    """A panel row: both arms of one task as means over their repeats."""
    skills, digests = _skills(value, given, needed=True)
    name = next((str(value[k]) for k in ("id", "task_id") if value.get(k) not in (None, "")), None)
    task = _task(value, name)
    arms: tuple[Arm, Arm] = ("skip", "use")
    rows = []
    for arm, told, spent in zip(arms, success, tokens, strict=True):
        if value.get(told) is None:
            raise BankError(f"task {task[:60]!r}: {told} is missing; a pair needs both arms")
        outcome = Outcome(
            task=task, skills=skills, digests=digests, stack=_stack(value, given), arm=arm,
            success=_fraction(value[told]), tokens=_tokens(value.get(spent)),
            family=_text(value.get("family")) or given.family, origin="import", repeat=0,
        )  # fmt: skip
        rows.append(Row(outcome, name))
    return rows


def _support(value: Any, given: Given, encoder: str) -> list[Row] | str:
    """`skilldelta-support-v1`: {id, embedding, d, text?, family?}; only the difference is known."""
    try:
        if not isinstance(value, Mapping) or not value.get("id"):
            return "no id; every support task needs one"
        vector, gain = value.get("embedding"), value.get("d")
        if not isinstance(vector, list) or not vector or not np.isfinite(np.linalg.norm(np.array(vector, float))):
            return f"task {value['id']!r}: no usable embedding"
        if not np.any(np.array(vector, float)):
            return f"task {value['id']!r}: the embedding is all zeros"
        if isinstance(gain, bool) or not isinstance(gain, (int, float)):
            return f"task {value['id']!r}: d is {gain!r}; it is the success with the skill minus the one without"
        skills, digests = _skills(value, given, needed=True)
        name = str(value["id"])
        outcome = Outcome(
            task=_task(value, name), skills=skills, digests=digests, stack=_stack(value, given), arm="use",
            success=None, family=_text(value.get("family")) or given.family, origin="import",
        )  # fmt: skip
        return [Row(outcome, name, float(gain), vector=vector, encoder=encoder)]
    except (BankError, ValueError, TypeError) as error:
        return str(error)


def _results(value: Mapping[str, Any], path: Path, given: Given, instances: Path | None) -> Iterator[_Made]:
    """An SR-Agents evaluation: {dataset, method, model, details: [{instance_id, correct, …}]}; one file is one arm."""
    method = str(value.get("method", ""))
    arm = given.arm or ("skip" if method.lower() in WITHOUT_SKILL else None)
    if arm is None:
        raise InputError(f"{path}: method {method!r} may be with or without a skill; say --arm use or --arm skip")
    texts = _instances(instances) if instances is not None else {}
    stack = given.stack or f"{value.get('model', '')}/SR-Agents"
    for number, detail in enumerate(value["details"]):
        yield (
            f"details[{number}]",
            {"method": method, "detail": detail},
            _result(detail, replace(given, stack=stack), arm, texts, str(value.get("dataset", ""))),
        )


def _result(detail: Any, given: Given, arm: Arm, texts: Mapping[str, str], family: str) -> list[Row] | str:
    try:
        name, correct = str(detail["instance_id"]), detail["correct"]
        told = {"skills": detail.get("skill_ids_used") or detail.get("skill_annotations") or []}
        skills, digests = _skills(told, given, needed=True) if arm == "use" else ((), ())
        outcome = Outcome(
            task=texts.get(name) or opaque(name), skills=skills, digests=digests, stack=given.stack or "", arm=arm,
            success=_fraction(correct), family=given.family or family or None, origin="import",
        )  # fmt: skip
        return [Row(outcome, name)]
    except (KeyError, TypeError, BankError, ValueError) as error:
        return (
            f"no result in it ({error!r}); give instance_id and correct" if isinstance(error, KeyError) else str(error)
        )


def _instances(path: Path) -> dict[str, str]:
    value = json.loads(text_of(path))
    return {str(row["instance_id"]): str(row["question"]) for row in value if isinstance(row, Mapping)}


def _summary(bank: Bank, value: Mapping[str, Any], path: Path) -> Imported:
    """What a skill's release says about itself is kept apart: shown, never counted (rule 3.14)."""
    try:
        rows = [
            (
                fingerprint(str(value["digest"]), str(each["stack"]), str(each["family"]), str(value["at"])),
                str(value["skill"]), str(value["digest"]), str(each["stack"]), str(each["family"]), int(each["n"]),
                float(each["tau"]), float(each["interval"][0]), float(each["interval"][1]), float(value["at"]),
            )
            for each in value["families"]
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{path}: not a whole {EVIDENCE} file ({error!r})") from error
    sql = "INSERT INTO bank_summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING"
    return Imported("summary", len(rows), bank.store.write_many(sql, rows))


def _vectors(path: Path) -> dict[str, Any]:
    ids, matrix = read_npz(path)
    return dict(zip(ids, matrix, strict=True))


def read_npz(path: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    """`ids` and `vectors` of an NPZ file, read without pickle."""
    try:
        with np.load(path, allow_pickle=False) as data:
            ids, matrix = [str(each) for each in data["ids"].tolist()], np.asarray(data["vectors"], dtype=np.float64)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not an NPZ file with arrays `ids` and `vectors` ({error})") from error
    if matrix.ndim != 2 or len(ids) != len(matrix):
        raise InputError(f"{path}: {len(ids)} ids but vectors of shape {matrix.shape}; give one row for each id")
    if len(set(ids)) != len(ids):
        raise InputError(f"{path}: an id appears twice; every task needs an id of its own")
    return ids, matrix


# -------------------------------------------------------------------------------------------------- fields of a row


def _skills(value: Mapping[str, Any], given: Given, *, needed: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(ids, digests): the file's own, else the library's, else the flags'; a digest nobody knows is ''."""
    told = next((value[k] for k in ("skills", "skill_ids", "skill") if value.get(k)), given.skill)
    names = [told] if isinstance(told, str) else list(told or [])
    if not all(isinstance(name, str) for name in names):
        raise BankError(f"skills are {told!r}; name them by text")
    if not names and needed:
        raise BankError("no skill is named; give a skill in the row, or --skill")
    if isinstance(value.get("digests"), list):
        return tuple(names), tuple(str(d) for d in value["digests"])
    found = [given.resolve(name) or (name, value.get("digest") or given.digest or "") for name in names]
    return tuple(f[0] for f in found), tuple(str(f[1]) for f in found)


def _task(value: Mapping[str, Any], name: str | None = None) -> str:
    text = next((value[k] for k in ("task", "text", "question") if isinstance(value.get(k), str) and value[k]), None)
    if text is not None:
        return str(text)
    if name is None:
        raise BankError("no task in it; give its text, or an id")
    return opaque(name)


def _stack(value: Mapping[str, Any], given: Given) -> str:
    stack = _text(value.get("stack")) or given.stack
    if not stack:
        raise BankError("no stack is named; outcomes belong to one agent, model and version: pass --stack")
    return stack


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _fraction(value: Any) -> float | None:
    return float(value) if isinstance(value, (bool, int, float)) else value


def _tokens(value: Any) -> int | None:
    if isinstance(value, float) and math.isfinite(value):
        return round(value)
    return None if value is None or (isinstance(value, float) and math.isnan(value)) else value
