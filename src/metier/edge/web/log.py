"""The route log as the dashboard reads it: pages of routes, one route in full, and what the log adds up to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metier.errors import InputError
from metier.store import Store, route_row
from metier.text import fingerprint

PAGE = 50
RECENT = 500
"""Routes that latencies and crash-free rates are computed from: enough for a 99th percentile, 8 MB to read."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Logged:
    """One route of the log."""

    id: str
    at: float
    text: str | None
    hash: str | None
    stack: str
    family: str | None
    session: str | None
    source: str
    tokens: int
    candidates: tuple[Mapping[str, Any], ...]
    cover: tuple[str, ...]
    note: str | None
    steps: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]

    @property
    def ms(self) -> float:
        """Milliseconds of all steps."""
        return float(sum(s["ms"] for s in self.steps))

    @property
    def errors(self) -> tuple[str, ...]:
        """What failed in it."""
        return tuple(f"{s['stage']}: {s['error']}" for s in self.steps if s.get("error"))

    @property
    def levels(self) -> Counter[str]:
        """Candidates by verdict."""
        return Counter(str(c["level"]) for c in self.candidates)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which routes; empty fields filter nothing."""

    q: str = ""
    """Words of the request, a skill's name, or the start of a route's id; for hashed requests, the whole request."""
    source: str = ""
    stack: str = ""
    level: str = ""
    before: str = ""
    """Cursor: `at:id` of the last route already seen."""

    def where(self) -> tuple[str, list[Any]]:
        """SQL condition and its values; nothing of the visitor's text becomes SQL."""
        parts, values = ["1"], list[Any]()
        if self.source:
            parts.append("source = ?")
            values.append(self.source)
        if self.stack:
            parts.append("stack = ?")
            values.append(self.stack)
        if self.level in ("load", "offer", "skip"):
            parts.append("slate LIKE ?")
            values.append(f'%"level":"{self.level}"%')
        elif self.level == "empty":
            parts.append("""slate LIKE '{"candidates":[],%'""")
        elif self.level == "failed":
            parts.append("""slate LIKE '%"error":"%'""")
        if self.q:
            like = "%" + _escaped(self.q) + "%"
            name = '%"name":"' + _escaped(json.dumps(self.q, ensure_ascii=False)[1:-1]) + "%"
            parts.append("(text LIKE ? ESCAPE '\\' OR id LIKE ? ESCAPE '\\' OR hash = ? OR slate LIKE ? ESCAPE '\\')")
            values += [like, _escaped(self.q) + "%", fingerprint(self.q), name]
        if self.before:
            at, _, last = self.before.partition(":")
            parts.append("(at, id) < (?, ?)")
            try:
                values += [float(at), last]
            except ValueError as error:
                raise InputError(f"before is {self.before[:40]!r}; follow the page's own links") from error
        return " AND ".join(parts), values


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def listed(store: Store, wanted: Filter, limit: int = PAGE) -> tuple[list[Logged], str]:
    """The newest routes that pass, and the cursor of the next page ('' at the end)."""
    where, values = wanted.where()
    rows = store.rows(f"SELECT * FROM routes WHERE {where} ORDER BY at DESC, id DESC LIMIT ?", [*values, limit + 1])
    shown = [_logged(row) for row in rows[:limit]]
    more = f"{shown[-1].at!r}:{shown[-1].id}" if len(rows) > limit else ""
    return shown, more


def one(store: Store, route_id: str) -> Logged | None:
    """The route of that id."""
    row = route_row(store, route_id)
    return None if row is None else _logged(row)


def _logged(row: Any) -> Logged:
    slate = json.loads(row["slate"])
    return Logged(
        row["id"], row["at"], row["text"], row["hash"], row["stack"], row["family"], row["session"], row["source"],
        row["tokens"], tuple(slate["candidates"]), tuple(slate["cover"]), slate["note"], tuple(slate["steps"]),
        tuple(slate["warnings"]),
    )  # fmt: skip


def happened(store: Store, route_id: str) -> list[Any]:
    """Events of a route, oldest first: (what, skill, at)."""
    return store.rows("SELECT what, skill, at FROM events WHERE route = ? ORDER BY n", (route_id,))


def judged(store: Store, route_id: str) -> list[Any]:
    """Outcomes recorded for a route, oldest first."""
    return store.rows(
        "SELECT skill, arm, success, tokens, origin, at FROM outcomes WHERE route = ? ORDER BY n", (route_id,)
    )


def sources(store: Store) -> tuple[list[str], list[str]]:
    """Every source and every stack in the log."""
    found = store.rows("SELECT DISTINCT source, stack FROM routes")
    return sorted({r["source"] for r in found}), sorted({r["stack"] for r in found})


@dataclass(frozen=True, slots=True)
class Pulse:
    """What the newest routes add up to."""

    routes: int
    failed: int
    empty: int
    loading: int
    tokens: tuple[int, ...]
    stages: Mapping[str, tuple[float, ...]]
    """Milliseconds of each stage, sorted."""
    totals: tuple[float, ...]


def pulse(store: Store, limit: int = RECENT) -> Pulse:
    """The newest `limit` routes, added up. Their slates are ten kilobytes each, so only the tail is parsed.

    Quotes inside a JSON string are escaped, so the first bare `"steps":[` is the key itself.
    """
    rows = store.rows(
        "SELECT tokens, substr(slate, instr(slate, '\"steps\":[')) AS tail, slate LIKE '{\"candidates\":[],%' AS bare,"
        ' instr(slate, \'"level":"load"\') > 0 AS loading FROM routes ORDER BY at DESC LIMIT ?',
        (limit,),
    )
    stages: dict[str, list[float]] = {}
    totals, failed = [], 0
    for row in rows:
        steps = json.loads("{" + row["tail"])["steps"]
        for step in steps:
            stages.setdefault(step["stage"], []).append(step["ms"])
        totals.append(sum(s["ms"] for s in steps))
        failed += any(s["error"] for s in steps)
    return Pulse(
        len(rows),
        failed,
        sum(bool(r["bare"]) for r in rows),
        sum(bool(r["loading"]) for r in rows),
        tuple(sorted(r["tokens"] for r in rows)),
        {name: tuple(sorted(values)) for name, values in stages.items()},
        tuple(sorted(totals)),
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` of the sorted values lie; 0 without any."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def daily(store: Store, now: float, days: int = 30) -> list[tuple[int, int]]:
    """(days ago, routes) for each of the last `days`, oldest first."""
    rows = store.rows(
        "SELECT CAST((? - at) / ? AS INTEGER) AS ago, count(*) AS n FROM routes WHERE at > ? GROUP BY ago",
        (now, _DAY, now - days * _DAY),
    )
    found = {row["ago"]: row["n"] for row in rows}
    return [(ago, found.get(ago, 0)) for ago in range(days - 1, -1, -1)]


def use_by_skill(store: Store) -> dict[str, dict[str, int]]:
    """Skill id → how often it was offered, loaded and used."""
    found: dict[str, dict[str, int]] = {}
    for row in store.rows(
        "SELECT skill, what, count(*) AS n FROM events WHERE what <> 'compacted' GROUP BY skill, what"
    ):
        found.setdefault(row["skill"], {})[row["what"]] = row["n"]
    return found
