"""What a collection has spent, on record before it is spent: caps on runs, tokens and money hold across kills.

A run that was started and never ended is counted with the largest spending seen, since nobody knows what it cost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from metier.store import Store

_AT_ONCE = 500  # keys per query: SQLite allows 999 values or more everywhere


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard caps; None: no cap."""

    runs: int | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run cost, as far as it is known."""

    tokens: int | None = None
    cost: float | None = None
    model: str | None = None


class Ledger:
    """The attempts at a plan's runs. `full` says which cap forbids another one."""

    def __init__(self, store: Store, keys: Sequence[str], limits: Limits) -> None:
        self.store, self.limits = store, limits
        self.full = ""
        self._lock = threading.Lock()
        self._running = 0
        self._runs = 0
        self._unknown = 0
        self._tokens = self._cost = 0.0
        self._largest = (0.0, 0.0)
        self._model: str | None = None
        for start in range(0, len(keys), _AT_ONCE):
            part = list(keys[start : start + _AT_ONCE])
            marks = ",".join("?" * len(part))
            for row in store.rows(f"SELECT * FROM collect_attempts WHERE unit IN ({marks}) ORDER BY n", part):
                self._runs += 1
                self._unknown += row["ended"] is None
                self._add(row["tokens"] or 0.0, row["cost"] or 0.0)
                self._model = self._model or (row["model"] if row["ended"] == "done" else None)

    def _add(self, tokens: float, cost: float) -> None:
        self._tokens += tokens
        self._cost += cost
        self._largest = max(self._largest[0], tokens), max(self._largest[1], cost)

    def start(self, unit: str) -> int | None:
        """The attempt's number, on disk; None when a cap forbids it."""
        with self._lock:
            self.full = self.full or self._over()
            if self.full:
                return None
            self._running += 1
            self._runs += 1
        with self.store.transaction() as c:
            return c.execute("INSERT INTO collect_attempts (unit, at) VALUES (?, ?)", (unit, time.time())).lastrowid

    def _over(self) -> str:
        """The cap that one more run, as large as the largest so far, could break."""
        held = self._running + self._unknown + 1
        if self.limits.runs is not None and self._runs + 1 > self.limits.runs:
            return f"--max-runs {self.limits.runs}"
        if self.limits.tokens is not None and self._tokens + held * self._largest[0] > self.limits.tokens:
            return f"--max-tokens {self.limits.tokens}"
        if self.limits.cost is not None and self._cost + held * self._largest[1] > self.limits.cost:
            return f"--max-cost {self.limits.cost:g}"
        return ""

    def end(self, number: int, ended: str, spent: Spent, note: str) -> None:
        """How the attempt ended and what it cost is on disk."""
        with self._lock:
            self._running = max(self._running - 1, 0)
            self._add(float(spent.tokens or 0), spent.cost or 0.0)
        self.store.write(
            "UPDATE collect_attempts SET ended = ?, tokens = ?, cost = ?, model = ?, note = ? WHERE n = ?",
            (ended, spent.tokens, spent.cost, spent.model, note, number),
        )

    def mismatch(self, model: str | None, wanted: str) -> str:
        """Why this model may not have answered; empty when it may."""
        if model is None:
            return ""
        with self._lock:
            if wanted and wanted not in model:
                return f"the agent answered with model {model!r}, asked for was {wanted!r}"
            if self._model is None:
                self._model = model
            if model != self._model:
                return f"the agent answered with model {model!r}, earlier runs of this plan with {self._model!r}"
        return ""

    @property
    def runs(self) -> int:
        """Attempts started so far, in this and earlier collections of the plan."""
        return self._runs

    @property
    def tokens(self) -> int:
        """Tokens known to be spent."""
        return round(self._tokens)

    @property
    def cost(self) -> float:
        """Money known to be spent."""
        return self._cost
