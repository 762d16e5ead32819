"""The bank's outcomes as files: our own rows, SkillDelta's formats, and what a skill's release should carry (rule 3.6).

Rows go out whole, with their keys, so that two banks can be merged. A summary says gain by family with n, interval,
stack and digest: enough for a reader to judge, and never counted by another bank.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from metier.errors import InputError
from metier.gate.bank import Bank
from metier.gate.gain import seen_interval
from metier.gate.imports import EVIDENCE, OUTCOME, ROWS, SUPPORT
from metier.gate.pairs import Pairs
from metier.gate.rows import Row, bundle


def rows(bank: Bank, path: Path, *, stack: str | None = None, skill: str | None = None) -> int:
    """Every outcome, one JSON object per line (`metier-outcome-v1`); the number written."""
    found = bank.outcomes(stack=stack, skill=skill)
    _write(path, "".join(json.dumps(_row(each), ensure_ascii=False) + "\n" for each in found))
    return len(found)


def _row(row: Row) -> dict[str, Any]:
    o = row.outcome
    told: dict[str, Any] = {"schema": ROWS, "key": row.key, "id": row.name, "task": o.task, "skills": list(o.skills)}
    told |= {"digests": list(o.digests), "stack": o.stack, "family": o.family, "arm": o.arm, "success": o.success}
    told |= {"tokens": o.tokens, "repeat": o.repeat, "at": o.at, "origin": o.origin, "propensity": o.propensity}
    return told | {"route": o.route} | ({"gain": row.gain} if row.gain is not None else {})


def support(bank: Bank, path: Path, *, stack: str, skill: str, encoder: str, digest: str | None = None) -> int:
    """`skilldelta-support-v1`: the paired tasks of one skill that have a vector by `encoder`; the number written."""
    pairs = _current(bank.pairs(stack, skill, encoder), digest)
    seen = pairs.vectors.any(axis=1) if pairs.vectors.shape[1] else np.zeros(len(pairs), bool)
    if not seen.any():
        raise InputError(f"{skill} has no paired tasks with vectors by {encoder} on {stack}; run: metier bank show")
    names = _unique(pairs)
    tasks = [
        {
            "id": names[i], "embedding": [float(x) for x in pairs.vectors[i]], "d": float(pairs.gains[i]),
            **({"text": pairs.texts[i]} if pairs.texts[i] is not None else {}),
            **({"family": pairs.families[i]} if pairs.families[i] else {}),
        }
        for i in np.flatnonzero(seen).tolist()
    ]  # fmt: skip
    _write_json(path, {"schema": SUPPORT, "embedding_model": encoder, "tasks": tasks})
    return len(tasks)


def outcomes_v1(bank: Bank, path: Path, *, stack: str, skill: str) -> int:
    """`skilldelta-outcome-v1` lines are appended to the file; the number of lines."""
    lines = []
    for row in bank.outcomes(stack=stack, skill=skill):
        o = row.outcome
        if row.gain is not None:
            continue  # the format knows single runs only
        told: dict[str, Any] = {"schema": OUTCOME, "time": datetime.fromtimestamp(o.at, timezone.utc).isoformat()}
        told |= {"task_id": row.name, "skill_enabled": o.arm == "use"}
        if o.success is not None:
            told["success"] = bool(o.success) if o.success in (0.0, 1.0) else o.success
        if o.tokens is not None:
            told["tokens"] = o.tokens
        if o.route:
            told["route_id"] = o.route
        lines.append(json.dumps(told, ensure_ascii=False) + "\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))
        file.flush()
        os.fsync(file.fileno())
    return len(lines)


def panel(bank: Bank, path: Path, *, stack: str, skills: Sequence[str] | None = None, encoder: str = "") -> int:
    """SkillDelta's panel of every paired task on a stack, and with an encoder the NPZ beside it; the number of rows."""
    told: list[dict[str, Any]] = []
    vectors: list[np.ndarray[Any, Any]] = []
    wanted = [bundle(ids) for ids in bank.skills(stack)] if skills is None else list(skills)
    taken: set[str] = set()
    for skill in wanted:
        pairs = bank.pairs(stack, skill, encoder)
        for i in range(len(pairs)):
            if math.isnan(pairs.y0[i]) or (encoder and not (pairs.vectors.shape[1] and pairs.vectors[i].any())):
                continue
            name = (
                pairs.names[i] if pairs.names[i] not in taken else f"{pairs.names[i]}#{skill}#{pairs.digests[i][:12]}"
            )
            taken.add(name)
            told.append(
                {
                    "id": name, "family": pairs.families[i] or skill, "skill": skill, "y0": float(pairs.y0[i]),
                    "y1": float(pairs.y1[i]), "tokens0": _known(pairs.tokens0[i]), "tokens1": _known(pairs.tokens1[i]),
                    **({"text": pairs.texts[i]} if pairs.texts[i] is not None else {}),
                }
            )  # fmt: skip
            if encoder:
                vectors.append(pairs.vectors[i])
    if not told:
        raise InputError(f"no paired tasks{' with vectors by ' + encoder if encoder else ''} on {stack}")
    _write_json(path, {"stack": stack, "rows": told})
    if encoder:
        with path.with_suffix(".npz").open("wb") as file:
            np.savez(file, ids=np.array([row["id"] for row in told]), vectors=np.stack(vectors))
    return len(told)


def evidence(bank: Bank, skill: str, name: str, digest: str) -> dict[str, Any]:
    """What the skill's release should carry: gain by family with n, interval, success and tokens, per stack."""
    found = []
    for stack in bank.stacks():
        pairs = _current(bank.pairs(stack, skill), digest)
        for family in sorted({f or name for f in pairs.families}):
            found.append({"stack": stack, **_told(pairs.where(_of(pairs, family, name)), family)})
    if not found:
        raise InputError(f"{name} has no paired tasks with its present digest {digest[:12]}; run: metier collect")
    return {"schema": EVIDENCE, "skill": name, "digest": digest, "at": time.time(), "families": found}


def summary(bank: Bank, path: Path, *, skill: str, name: str, digest: str) -> int:
    """The release's evidence is written to the file; the number of families in it."""
    told = evidence(bank, skill, name, digest)
    _write_json(path, told)
    return len(told["families"])


def _of(pairs: Pairs, family: str, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([(f or name) == family for f in pairs.families], dtype=bool)


def _told(pairs: Pairs, family: str) -> dict[str, Any]:
    low, high = seen_interval(pairs.gains)
    return {
        "family": family, "n": len(pairs), "tau": round(float(pairs.gains.mean()), 4),
        "interval": [round(low, 4), round(high, 4)], "success_without": _mean(pairs.y0),
        "success_with": _mean(pairs.y1), "tokens_without": _mean(pairs.tokens0), "tokens_with": _mean(pairs.tokens1),
    }  # fmt: skip


def _current(pairs: Pairs, digest: str | None) -> Pairs:
    return pairs if digest is None else pairs.where(pairs.of(digest))


def _unique(pairs: Pairs) -> list[str]:
    """The tasks' names, told apart by digest where one task was tried under several."""
    seen: set[str] = set()
    names = []
    for name, digest in zip(pairs.names, pairs.digests, strict=True):
        names.append(name if name not in seen else f"{name}#{digest[:12]}")
        seen.add(name)
    return names


def _mean(values: np.ndarray[Any, Any]) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if len(known) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    _write(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    """The file holds the text, whole or not at all; a pipe or a device gets it as it comes."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:  # replacing /dev/stdout would take it from everyone
            stream.write(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.resolve()  # a link stays a link
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".metier-", delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
