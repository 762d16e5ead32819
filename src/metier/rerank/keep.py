"""Graphs by digest: from memory, from the store, or extracted on the spot (SKALOS, methods 2.2, 2.8).

A graph depends on nothing but the skill's digest and the extractor, so it never goes stale: it is computed once and
kept. Reliabilities from calibration or a person lie beside it and are put on when it is read. What requests need of the
rules' graphs stands ready in `shelf.py`.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from metier.errors import InputError, StoreError
from metier.late import dataclass
from metier.rerank.arrays import Arrays, arrays
from metier.rerank.extract import RULES, Extract, extract
from metier.rerank.graph import SkillGraph, as_dict, from_dict
from metier.rerank.rules import MAX_CHARS
from metier.rerank.shelf import fill, kept, missing, unpacked
from metier.store import Store
from metier.types import Skill

KEPT = 2048
"""Read graphs held in memory: about 80 MB at the median size, forty slates of different skills."""


class Read:
    """One skill's graph and its arrays; from the shelf, graph and statements come when they are asked for."""

    __slots__ = ("_graph", "_texts", "arrays")

    def __init__(
        self,
        graph: SkillGraph | Callable[[], SkillGraph],
        arrays: Arrays,
        texts: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self._graph, self.arrays = graph, arrays
        self._texts: tuple[str, ...] | Callable[[], tuple[str, ...]] | None = texts

    @property
    def graph(self) -> SkillGraph:
        """The graph whose nodes the arrays are about."""
        if not isinstance(self._graph, SkillGraph):
            self._graph = self._graph()
        return self._graph

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the graph's nodes, in order; from the graph itself where those on the shelf are damaged."""
        if not isinstance(self._texts, tuple):
            try:
                kept = self._texts() if self._texts is not None else None
            except ValueError:
                kept = None
            self._texts = tuple(n.text for n in self.graph.nodes) if kept is None else kept
        return self._texts


@dataclass(slots=True)
class Graphs:
    """Skill → `Read`. Safe to share between threads.

    `body` reads a skill's text; without a `store` everything is extracted by rules. With one, a graph that a language
    model made (`preferred`) wins over the rules' one, and reliabilities are applied.
    """

    body: Callable[[Skill], str]
    store: Store | None = None
    by_rules: Extract = extract
    preferred: str | None = None
    _lines: OrderedDict[str, frozenset[int]] = field(default_factory=OrderedDict, repr=False)
    _held: OrderedDict[str, Read] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, skill: Skill) -> Read:
        """The skill's graph. Raises what `body` raises when the text cannot be read."""
        key = skill.digest or skill.id
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                return held
        read = self._from_shelf(skill)
        if read is None:
            graph = self.stored(skill) or self.by_rules(skill, self.body(skill))
            graph = graph.reweighted(self._judged(skill.digest))
            read = Read(graph, arrays(graph, self._aliases(graph)))
        with self._lock:
            self._held[key] = read
            while len(self._held) > KEPT:
                self._held.popitem(last=False)
        return read

    def _from_shelf(self, skill: Skill) -> Read | None:
        """What `shelve` made of the rules' graph; None where there is none, or other rules are asked for."""
        if self.store is None or not skill.digest or self.by_rules is not extract:
            return None
        try:
            data = kept(self.store, skill.digest, RULES, self.preferred)
            found, texts = unpacked(data) if data is not None else (None, None)
        except (StoreError, ValueError):
            return None
        return None if found is None else Read(lambda: self.by_rules(skill, self.body(skill)), found, texts)

    def shelve(self, skills: Sequence[Skill], progress: Callable[[str, int], Callable[[int], None]]) -> int:
        """Every one of these skills stands on the shelf; returns how many were new. Raises `StoreError`."""
        if self.store is None:
            return 0
        todo = missing(self.store, skills, RULES)
        return fill(self.store, todo, self._by_rules, RULES, progress("reading skills", len(todo))) if todo else 0

    def _by_rules(self, skill: Skill) -> tuple[tuple[str, ...], Arrays]:
        graph = self.by_rules(skill, self.body(skill))
        return tuple(n.text for n in graph.nodes), arrays(graph)

    def outline(self, skill: Skill) -> frozenset[int]:
        """Hashes of the body's lines: a fiftieth of the cost of a graph, and enough to find near-copies."""
        key = skill.digest or skill.id
        with self._lock:
            held = self._lines.get(key)
        if held is None:
            held = frozenset(hash(line) for line in map(str.strip, self.body(skill)[:MAX_CHARS].splitlines()) if line)
            with self._lock:
                self._lines[key] = held
                while len(self._lines) > KEPT:
                    self._lines.popitem(last=False)
        return held

    def stored(self, skill: Skill) -> SkillGraph | None:
        """The graph in the store, the preferred extractor's first; None where there is none."""
        if self.store is None or not skill.digest:
            return None
        order = [e for e in (self.preferred, RULES) if e]
        try:
            rows = self.store.rows("SELECT extractor, graph FROM graphs WHERE digest = ?", (skill.digest,))
        except StoreError:
            return None  # the graph is a cache: an unreadable store costs time, not the witness
        found = {r["extractor"]: r["graph"] for r in rows}
        blob = next((found[e] for e in order if e in found), None)
        return _unpacked(blob) if blob is not None else None

    def _aliases(self, graph: SkillGraph) -> dict[str, tuple[str, ...]]:
        """Canonical id → its expressions, where there are several."""
        roots = sorted({int(n.canon[1:]) for n in graph.nodes if n.canon})
        if self.store is None or not roots:
            return {}
        marks = ",".join("?" * len(roots))
        try:
            rows = self.store.rows(
                f"SELECT m.into_ AS root, c.type AS type, c.n AS n, c.text AS text FROM canon_merges m JOIN canons c "
                f"ON c.n IN (m.canon, m.into_) WHERE m.into_ IN ({marks}) ORDER BY c.n",
                roots,
            )
        except StoreError:
            return {}
        found: dict[str, dict[int, str]] = {}
        for row in rows:
            found.setdefault(f"{row['type'][0]}{row['root']}", {})[int(row["n"])] = row["text"]
        return {canon: tuple(texts.values()) for canon, texts in found.items()}

    def _judged(self, digest: str) -> dict[str, float]:
        if self.store is None or not digest:
            return {}
        try:
            return reliabilities(self.store, digest)
        except StoreError:
            return {}

    def forget(self, digest: str) -> None:
        """The next read sees the store again."""
        with self._lock:
            self._held.pop(digest, None)


def _unpacked(blob: bytes) -> SkillGraph | None:
    try:
        return from_dict(json.loads(zlib.decompress(blob)))
    except (InputError, ValueError, zlib.error):
        return None  # written by another version or damaged: it is a cache, so it is made anew


def save(store: Store, graphs: Iterable[SkillGraph]) -> int:
    """The graphs are in the store, replacing those of the same digest and extractor; returns how many."""
    now = time.time()
    return store.write_many(
        "INSERT INTO graphs VALUES (?, ?, ?, ?) ON CONFLICT (digest, extractor) "
        "DO UPDATE SET graph = excluded.graph, at = excluded.at",
        [(g.digest, g.extractor, _packed(g), now) for g in graphs],
    )


def _packed(graph: SkillGraph) -> bytes:
    return zlib.compress(json.dumps(as_dict(graph), ensure_ascii=False).encode("utf-8", "surrogatepass"), 6)


def known(store: Store, extractor: str) -> frozenset[str]:
    """Digests that have a graph by this extractor."""
    return frozenset(r["digest"] for r in store.rows("SELECT digest FROM graphs WHERE extractor = ?", (extractor,)))


def reliabilities(store: Store, digest: str) -> dict[str, float]:
    """Element → reliability, where anyone judged it."""
    rows = store.rows("SELECT element, value FROM reliabilities WHERE digest = ?", (digest,))
    return {r["element"]: float(r["value"]) for r in rows}


def judge(store: Store, rows: Sequence[tuple[str, str, float, str]], *, origin: str) -> int:
    """(digest, element, value, why) are kept; calibration never overwrites a person's word."""
    now = time.time()
    guard = "" if origin == "person" else " WHERE reliabilities.origin <> 'person'"
    return store.write_many(
        "INSERT INTO reliabilities VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest, element) DO UPDATE SET "
        f"value = excluded.value, origin = excluded.origin, why = excluded.why, at = excluded.at{guard}",
        [(digest, element, value, origin, why, now) for digest, element, value, why in rows],
    )
