"""The bank: append-only outcomes of tasks with and without a skill, and the paired view that the gain is computed from.

    (stack, skill, digest, task)  →  y1 = mean success over its `use` rows,  y0 over its `skip` rows,  D = y1 − y0

Rows never move between stacks, and a pair never mixes digests (SkillDelta, rule 3.3). A `skip` row without any skill
is a control: it pairs with every skill tried on that task and stack. The paired view of a skill is read once and kept
as arrays; a look at the largest row number tells which skills have news.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metier.errors import BankError
from metier.gate.pairs import VECTOR, Pairs, Tally, nothing, read
from metier.gate.rows import Row, bundle, check, members, ordered, row_key, task_of
from metier.store import Store
from metier.types import Encoder, Outcome

_CHUNK = 256  # texts encoded between two commits: a stop loses seconds of work, not minutes
_EMBEDDED = "bank-vectors"  # fact that counts the changes of bank_vectors, so that other processes see them


class Bank:
    """The outcomes in a store. Any number of threads and processes may append and read at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._pairs: dict[tuple[str, str, str], tuple[Pairs, Tally]] = {}
        self._seen = (0, "")
        self._ids: dict[str, tuple[str, ...]] = {}
        self._tried: dict[str, frozenset[str]] = {}
        self._nothing: tuple[Pairs, Tally] | None = None

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
        self._tried.clear()
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
                    "INSERT INTO outcomes (key, task, skill, digest, stack, family, arm, success, gain, tokens, repeat,"
                    " at, origin, propensity, route) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (key) DO NOTHING",
                    (
                        row_key(row), known[key], bundle(o.skills), bundle(o.digests), o.stack, o.family,
                        o.arm if row.gain is None else "pair", o.success, row.gain, o.tokens, o.repeat,
                        o.at or time.time(), o.origin, o.propensity or _propensity(c, o), o.route,
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
                    # a text the encoder cannot read has no direction; an empty vector says that it was tried
                    readable = bool(np.any(vector))
                    _put_vector(c, encoder.profile.name, row["task"], vector if readable else vector[:0])
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
            self._ids.clear()
            self._tried.clear()
            self._seen = (now["n"], now["v"])

    @property
    def version(self) -> tuple[int, str]:
        """Changes whenever `refresh` saw news."""
        return self._seen

    def single_skills(self, stack: str) -> tuple[str, ...]:
        """Ids of the skills with rows of their own on that stack, as of the last `refresh`."""
        held = self._ids.get(stack)
        if held is None:
            each = sorted(members(name) for name in self._with_rows(stack) if name)
            held = tuple(one[0] for one in each if len(one) == 1)
            self._ids[stack] = held
        return held

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
                if skill not in self._with_rows(stack):
                    self._nothing = self._nothing or nothing(self.store)
                    return self._nothing
                held = self._pairs.get(key) or read(self.store, *key)
                self._pairs[key] = held
        return held

    def _with_rows(self, stack: str) -> frozenset[str]:
        """Stored names of what has a row on that stack: most candidates have none, and cost no look."""
        held = self._tried.get(stack)
        if held is None:
            rows = self.store.rows("SELECT DISTINCT skill FROM outcomes WHERE stack = ?", (stack,))
            held = self._tried[stack] = frozenset(row["skill"] for row in rows)
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


def _propensity(c: Any, o: Outcome) -> float | None:
    """The logged probability of the arm that a route took by exploration; None where nothing was drawn (rule 3.4a)."""
    if o.route is None or len(o.skills) != 1:
        return None
    row = c.execute("SELECT slate FROM routes WHERE id = ?", (o.route,)).fetchone()
    shown = json.loads(row["slate"])["candidates"] if row is not None else []
    for each in shown:
        drawn = "use" if each.get("level") == "load" else "skip" if each.get("reason") == "explore" else None
        if each.get("id") == o.skills[0] and each.get("propensity") is not None and drawn == o.arm:
            return float(each["propensity"])
    return None


def _keep_vector(c: Any, encoder: str, task: int, vector: Any, name: str) -> None:
    values = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(values)) if values.ndim == 1 else float("nan")
    if not np.isfinite(length) or length == 0:
        raise BankError(f"the vector of task {name!r} is all zeros or not finite; encode that task again")
    _put_vector(c, encoder, task, values / length)


def _put_vector(c: Any, encoder: str, task: int, vector: Any) -> None:
    c.execute(
        "INSERT OR REPLACE INTO bank_vectors (encoder, task, vector) VALUES (?, ?, ?)",
        (encoder, task, np.asarray(vector).astype(VECTOR).tobytes()),
    )


def _count_embedding(c: Any) -> None:
    c.execute(
        "INSERT INTO facts (key, value, at) VALUES (?, '1', ?) ON CONFLICT (key) DO UPDATE"
        " SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT), at = excluded.at",
        (_EMBEDDED, time.time()),
    )
