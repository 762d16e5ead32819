"""The bank: append-only outcomes of tasks with and without a skill, and the paired view that the gain is computed from.

    (stack, skill, digest, task)  →  y1 = mean success over its `use` rows,  y0 over its `skip` rows,  D = y1 − y0

Rows never move between stacks, and a pair never mixes digests (SkillDelta, rule 3.3). A `skip` row without any skill
is a control: it pairs with every skill tried on that task and stack. The paired view of a skill is read once and kept
as arrays; a look at the largest row number tells which skills have news.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import BankError
from metier.gate.rows import COUNTED, Row, bundle, check, members, ordered, row_key, task_of
from metier.store import Store
from metier.types import Encoder, Outcome

Floats = NDArray[np.float64]

_VECTOR = np.dtype("<f4")
_CHUNK = 256  # texts encoded between two commits: a stop loses seconds of work, not minutes
_EMBEDDED = "bank-vectors"  # fact that counts the changes of bank_vectors, so that other processes see them


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Past tasks of one skill (or bundle) on one stack for which both arms are known, oldest first."""

    tasks: NDArray[np.int64]
    names: tuple[str, ...]
    texts: tuple[str | None, ...]
    families: tuple[str | None, ...]
    digests: tuple[str, ...]
    y0: Floats
    """Mean success without the skill; NaN where only the difference is known."""
    y1: Floats
    gains: Floats
    n0: NDArray[np.int64]
    """Runs behind y0."""
    n1: NDArray[np.int64]
    tokens0: Floats
    """Mean tokens without the skill; NaN where unknown."""
    tokens1: Floats
    at: Floats
    """Seconds since 1970 of the pair's newest run."""
    vectors: NDArray[np.float32]
    """(m, d) unit rows, all zeros where the task has no embedding by this encoder; d is 0 without any."""

    def __len__(self) -> int:
        return len(self.tasks)

    def where(self, mask: NDArray[np.bool_]) -> Pairs:
        """Those pairs alone, in the same order."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        arrays = {f: getattr(self, f)[rows] for f in _ARRAYS}
        lists = {f: tuple(getattr(self, f)[i] for i in rows) for f in _LISTS}
        return Pairs(**arrays, **lists)

    def of(self, digest: str) -> NDArray[np.bool_]:
        """Which pairs were made with the skill as it is now; the others are stale (rule 3.3)."""
        return np.array([d == digest for d in self.digests], dtype=bool)


_LISTS = ("names", "texts", "families", "digests")
_ARRAYS = ("tasks", "y0", "y1", "gains", "n0", "n1", "tokens0", "tokens1", "at", "vectors")


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows that are kept and shown but enter no pair."""

    agent: int = 0
    """Reported by an agent itself (rule 3.14)."""
    single: int = 0
    """Judged, but their other arm is missing (rule 3.13)."""
    unjudged: int = 0
    """Nobody said whether it succeeded."""


class Bank:
    """The outcomes in a store. Any number of threads and processes may append and read at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._pairs: dict[tuple[str, str, str], tuple[Pairs, Tally]] = {}
        self._seen = (0, "")

    def __repr__(self) -> str:
        return f"Bank({str(self.store.path)!r})"

    # ------------------------------------------------------------------------------------------------ writing

    def append(self, outcomes: Sequence[Outcome]) -> int:
        """All outcomes are in the bank and on the disk, or none is; the number of new rows.

        Raises `BankError` for the first that cannot be a row (rule 3.2).
        """
        return self.add([Row(outcome) for outcome in outcomes])

    def add(self, rows: Sequence[Row]) -> int:
        """The same, for rows that know more than an outcome does; rows with a known key change nothing."""
        for row in rows:
            check(row)
        new = 0
        with self.store.transaction() as c:
            known: dict[str, int] = {}
            for row in rows:
                o = ordered(row.outcome)
                key, name, text = task_of(row)
                if key not in known:
                    clean = None if text is None else text.encode("utf-8", "replace").decode("utf-8")
                    c.execute(
                        "INSERT INTO bank_tasks (key, name, text) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
                        (key, name, clean),
                    )
                    known[key] = c.execute("SELECT task FROM bank_tasks WHERE key = ?", (key,)).fetchone()[0]
                new += c.execute(
                    "INSERT INTO outcomes (key, task, skill, digest, stack, family, arm, success, gain, tokens, repeat, at,"
                    " origin, propensity, route) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (key) DO NOTHING",
                    (
                        row_key(row), known[key], bundle(o.skills), bundle(o.digests), o.stack, o.family,
                        o.arm if row.gain is None else "pair", o.success, row.gain, o.tokens, o.repeat,
                        o.at or time.time(), o.origin, o.propensity, o.route,
                    ),
                ).rowcount  # fmt: skip
                if row.vector is not None and row.encoder:
                    _keep_vector(c, row.encoder, known[key], row.vector, name)
            if any(row.vector is not None for row in rows):
                _count_embedding(c)
        return new

    def embed(
        self, encoder: Encoder, tasks: Iterable[int] | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Every task with a text (or of those given) has a vector by this encoder; the number newly encoded.

        Vectors of other encoders stay: going back to one costs nothing.
        """
        missing = "SELECT t.task, t.text FROM bank_tasks t WHERE t.text IS NOT NULL AND NOT EXISTS "
        missing += "(SELECT 1 FROM bank_vectors v WHERE v.encoder = ? AND v.task = t.task)"
        rows = self.store.rows(missing + " ORDER BY t.task", (encoder.profile.name,))
        if tasks is not None:
            wanted = set(tasks)
            rows = [row for row in rows if row["task"] in wanted]
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            vectors = encoder.encode([row["text"] for row in part], kind="query")
            with self.store.transaction() as c:
                for row, vector in zip(part, vectors, strict=True):
                    if np.any(vector):  # a text the encoder cannot read has no direction
                        _keep_vector(c, encoder.profile.name, row["task"], vector, str(row["task"]))
                _count_embedding(c)
            if progress is not None:
                progress(start + len(part), len(rows))
        return len(rows)

    def keep_eta(self, stack: str, family: str, eta: float, how: str) -> None:
        """The fitted threshold of a family is in force on that stack (rule 3.4)."""
        self.store.write(
            "INSERT OR REPLACE INTO bank_etas (stack, family, eta, how, at) VALUES (?, ?, ?, ?, ?)",
            (stack, family, eta, how, time.time()),
        )

    # ------------------------------------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """What was kept in memory of skills with new rows, here or from another process, is read again."""
        with self._lock:
            now = self.store.rows(
                "SELECT coalesce((SELECT max(n) FROM outcomes), 0) AS n,"
                " coalesce((SELECT value FROM facts WHERE key = ?), '') AS v",
                (_EMBEDDED,),
            )[0]
            if (now["n"], now["v"]) == self._seen:
                return
            if now["v"] != self._seen[1]:
                self._pairs.clear()
            elif self._pairs:
                news = self.store.rows("SELECT DISTINCT stack, skill FROM outcomes WHERE n > ?", (self._seen[0],))
                touched = {(row["stack"], row["skill"]) for row in news}
                for key in list(self._pairs):  # a control ('') may pair with any skill of its stack
                    if (key[0], key[1]) in touched or (key[0], "") in touched:
                        del self._pairs[key]
            self._seen = (now["n"], now["v"])

    def pairs(self, stack: str, skills: str | Sequence[str], encoder: str = "") -> Pairs:
        """The paired view of a skill or bundle on one stack, all digests; empty when there is none."""
        return self._held(stack, skills, encoder)[0]

    def tally(self, stack: str, skills: str | Sequence[str], encoder: str = "") -> Tally:
        """The rows of that skill on that stack that count for nothing, and why."""
        return self._held(stack, skills, encoder)[1]

    def _held(self, stack: str, skills: str | Sequence[str], encoder: str) -> tuple[Pairs, Tally]:
        skill = skills if isinstance(skills, str) else bundle(sorted(skills))
        key = (stack, skill, encoder)
        held = self._pairs.get(key)
        if held is None:
            with self._lock:
                held = self._pairs.get(key) or _read(self.store, *key)
                self._pairs[key] = held
        return held

    def stacks(self) -> list[str]:
        """Every stack with a row, by name."""
        return [row["stack"] for row in self.store.rows("SELECT DISTINCT stack FROM outcomes ORDER BY stack")]

    def skills(self, stack: str) -> list[tuple[str, ...]]:
        """Every skill and bundle with a row on that stack, sorted."""
        rows = self.store.rows("SELECT DISTINCT skill FROM outcomes WHERE stack = ? AND skill <> ''", (stack,))
        return sorted(members(row["skill"]) for row in rows)

    def fitted(self, stack: str) -> Mapping[str, float]:
        """Family → fitted threshold on that stack."""
        rows = self.store.rows("SELECT family, eta FROM bank_etas WHERE stack = ?", (stack,))
        return {row["family"]: row["eta"] for row in rows}

    def outcomes(self, *, stack: str | None = None, skill: str | None = None) -> list[Row]:
        """Every row as it was appended, oldest first; `skill` is an id or a bundle's stored name."""
        rows = self.store.rows(
            "SELECT o.*, t.name, t.text FROM outcomes o JOIN bank_tasks t USING (task)"
            " WHERE (?1 IS NULL OR o.stack = ?1) AND (?2 IS NULL OR o.skill = ?2) ORDER BY o.n",
            (stack, skill),
        )
        return [_row(row) for row in rows]


def _row(row: Any) -> Row:
    outcome = Outcome(
        task=row["text"] if row["text"] is not None else f"id:{row['name']}",
        skills=members(row["skill"]), digests=members(row["digest"]) or ("",) * len(members(row["skill"])),
        stack=row["stack"], arm="use" if row["arm"] == "pair" else row["arm"], success=row["success"],
        tokens=None if row["tokens"] is None else round(row["tokens"]), family=row["family"], repeat=row["repeat"],
        at=row["at"], origin=row["origin"], propensity=row["propensity"], route=row["route"],
    )  # fmt: skip
    return Row(outcome, row["name"], row["gain"], row["key"])


def _keep_vector(c: Any, encoder: str, task: int, vector: Any, name: str) -> None:
    values = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(values)) if values.ndim == 1 else float("nan")
    if not np.isfinite(length) or length == 0:
        raise BankError(f"the vector of task {name!r} is all zeros or not finite; encode that task again")
    c.execute(
        "INSERT OR REPLACE INTO bank_vectors (encoder, task, vector) VALUES (?, ?, ?)",
        (encoder, task, (values / length).astype(_VECTOR).tobytes()),
    )


def _count_embedding(c: Any) -> None:
    c.execute(
        "INSERT INTO facts (key, value, at) VALUES (?, '1', ?) ON CONFLICT (key) DO UPDATE"
        " SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT), at = excluded.at",
        (_EMBEDDED, time.time()),
    )


# --------------------------------------------------------------------------------------------------- the paired view


@dataclass(slots=True)
class _Arm:
    success: float
    runs: int
    tokens: float
    first: int
    at: float
    family: str | None


def _read(store: Store, stack: str, skill: str, encoder: str) -> tuple[Pairs, Tally]:
    """The paired view of one skill, straight from the store."""
    judged = store.rows(
        "SELECT task, digest, arm, avg(coalesce(success, gain)) AS mean, count(*) AS runs, avg(tokens) AS tokens,"
        " min(n) AS first, max(at) AS at, max(family) AS family FROM outcomes"
        f" WHERE stack = ? AND skill = ? AND {COUNTED} AND coalesce(success, gain) IS NOT NULL"
        " GROUP BY task, digest, arm ORDER BY first",
        (stack, skill),
    )
    arms: dict[tuple[int, str], dict[str, _Arm]] = {}
    for task, digest, arm, mean, runs, tokens, first, at, family in judged:
        told = _Arm(mean, runs, float("nan") if tokens is None else tokens, first, at, family)
        arms.setdefault((task, digest), {})[arm] = told
    lonely = any("skip" not in found and "use" in found for found in arms.values())
    controls = _controls(store, stack, skill) if lonely else {}
    kept: list[tuple[int, str, _Arm | None, _Arm]] = []
    singles = 0
    for (task, digest), found in arms.items():
        without = found.get("skip") or controls.get(task)
        if "pair" in found:
            kept.append((task, digest, None, found["pair"]))
        if "use" in found and without is not None:
            kept.append((task, digest, without, found["use"]))
        else:
            singles += sum(told.runs for arm, told in found.items() if arm != "pair")
    loose = store.rows(
        f"SELECT sum(origin = 'agent') AS agent, sum({COUNTED} AND coalesce(success, gain) IS NULL) AS unjudged"
        " FROM outcomes WHERE stack = ? AND skill = ?",
        (stack, skill),
    )[0]
    tally = Tally(agent=loose["agent"] or 0, single=singles, unjudged=loose["unjudged"] or 0)
    return _arrays(store, sorted(kept, key=_age), stack, skill, encoder), tally


def _age(pair: tuple[int, str, _Arm | None, _Arm]) -> int:
    without, used = pair[2], pair[3]
    return used.first if without is None else min(without.first, used.first)


def _controls(store: Store, stack: str, skill: str) -> dict[int, _Arm]:
    """Task → its runs without any skill, for the tasks this skill was used on."""
    rows = store.rows(
        "SELECT task, avg(success) AS mean, count(*) AS runs, avg(tokens) AS tokens, min(n) AS first, max(at) AS at,"
        f" max(family) AS family FROM outcomes WHERE skill = '' AND arm = 'skip' AND stack = ? AND {COUNTED}"
        " AND success IS NOT NULL AND task IN (SELECT task FROM outcomes WHERE stack = ? AND skill = ?) GROUP BY task",
        (stack, stack, skill),
    )
    nan = float("nan")
    return {row[0]: _Arm(row[1], row[2], nan if row[3] is None else row[3], row[4], row[5], row[6]) for row in rows}


def _arrays(
    store: Store, kept: Sequence[tuple[int, str, _Arm | None, _Arm]], stack: str, skill: str, encoder: str
) -> Pairs:
    inside = "(SELECT task FROM outcomes WHERE stack = ? AND skill = ?)"
    told: dict[int, tuple[str, str | None]] = {}
    vectors: dict[int, NDArray[np.float32]] = {}
    if kept:
        for row in store.rows(f"SELECT task, name, text FROM bank_tasks WHERE task IN {inside}", (stack, skill)):
            told[row[0]] = (row[1], row[2])
        if encoder:
            found = store.rows(
                f"SELECT task, vector FROM bank_vectors WHERE encoder = ? AND task IN {inside}", (encoder, stack, skill)
            )
            vectors = {row[0]: np.frombuffer(row[1], dtype=_VECTOR) for row in found}
    dim = max((len(v) for v in vectors.values()), default=0)
    matrix = np.zeros((len(kept), dim), dtype=np.float32)
    for at, (task, *_) in enumerate(kept):
        if task in vectors and len(vectors[task]) == dim:
            matrix[at] = vectors[task]
    nan = float("nan")
    y0 = np.array([nan if w is None else w.success for _, _, w, _ in kept], dtype=np.float64)
    mean = np.array([u.success for *_, u in kept], dtype=np.float64)  # y1, or D itself where only that is known
    only = np.isnan(y0)
    return Pairs(
        tasks=np.array([task for task, *_ in kept], dtype=np.int64),
        names=tuple(told[task][0] for task, *_ in kept),
        texts=tuple(told[task][1] for task, *_ in kept),
        families=tuple(u.family if w is None else u.family or w.family for _, _, w, u in kept),
        digests=tuple(digest for _, digest, *_ in kept),
        y0=y0,
        y1=np.where(only, nan, mean),
        gains=np.where(only, mean, mean - y0),
        n0=np.array([0 if w is None else w.runs for _, _, w, _ in kept], dtype=np.int64),
        n1=np.array([u.runs for *_, u in kept], dtype=np.int64),
        tokens0=np.array([nan if w is None else w.tokens for _, _, w, _ in kept], dtype=np.float64),
        tokens1=np.array([u.tokens for *_, u in kept], dtype=np.float64),
        at=np.array([u.at if w is None else max(u.at, w.at) for _, _, w, u in kept], dtype=np.float64),
        vectors=matrix,
    )
