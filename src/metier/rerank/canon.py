"""One meaning, one canonical node: expressions of several skills merged, incrementally and reversibly (methods 2.3).

Two expressions of one type are one meaning when their vectors agree (cosine ≥ 0.85: clusters at 0.6 would keep no such
pair apart) *and* they share words (Jaccard ≥ 0.3). Numbers, units, versions, sides of bounds and denials must agree
exactly. A pair without shared words can never merge, so the shared words find the few pairs whose vectors are compared
at all: a new skill joins in the time its own phrases take, whatever the size of the graph.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from metier.errors import NotFound
from metier.late import pattern
from metier.rerank.graph import Node, SkillGraph
from metier.rerank.terms import code, terms
from metier.store import Store
from metier.types import Encoder

MERGE = 0.85
"""Cosine from which two expressions of one type may be one (methods 2.3)."""
JACCARD = 0.3
"""Share of common words that they must have as well (methods 2.3)."""
COMPARED = 4
"""Expressions with most words in common whose vectors are compared [ours]."""
RAREST = 3
"""Words of an expression by which candidates are found, the rarest: what agrees at 0.85 shares one of them [ours]."""
HOLDERS = 400
"""Expressions looked at for one word, the oldest ones: a word that more of them hold tells nothing apart."""
LONGEST: dict[str, int] = {"capability": 120, "constraint": 120, "method": 60, "artifact": 60}
"""Characters of an expression that can be shared; a longer statement is one skill's own."""


_BOUND = pattern(
    r"(?P<most>\b(?:at most|no(?:t|) more than|up to|max(?:imum|\.)?|under|below|less than|fewer than|within)\b|≤|<=?)"
    r"|(?P<least>\b(?:at least|no(?:t|) less than|min(?:imum|\.)?|over|above|more than"
    r"|or (?:newer|later|more))\b|≥|>=?)",
    re.IGNORECASE,
)
"""Which side of a quantity is meant: "at most 5 MB" is not "at least 5 MB"."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One distinct expression."""

    n: int
    type: str
    text: str
    words: frozenset[int]
    exact: frozenset[str]


@dataclass(slots=True)
class Canons:
    """The shared layer, opened from a store; about 300 bytes an expression in memory."""

    store: Store
    encoder: Encoder | None = None
    _said: dict[int, _Said] = field(default_factory=dict, repr=False)
    _by_text: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)
    _by_word: dict[tuple[str, int], list[int]] = field(default_factory=dict, repr=False)
    _into: dict[int, int] = field(default_factory=dict, repr=False)
    _users: dict[int, set[str]] = field(default_factory=dict, repr=False)
    _vectors: dict[int, NDArray[np.float16]] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, store: Store, encoder: Encoder | None = None) -> Canons:
        """Everything that the store holds of the shared layer."""
        made = cls(store, encoder)
        name = encoder.profile.name if encoder else None
        for row in store.rows("SELECT n, type, text, vector, encoder FROM canons"):
            made._remember(int(row["n"]), row["type"], row["text"])
            if row["vector"] is not None and row["encoder"] == name:
                made._vectors[int(row["n"])] = np.frombuffer(row["vector"], dtype=np.float16)
        made._into = {int(r["canon"]): int(r["into_"]) for r in store.rows("SELECT canon, into_ FROM canon_merges")}
        for row in store.rows("SELECT canon, digest FROM canon_uses"):
            made._users.setdefault(made.root(int(row["canon"])), set()).add(row["digest"])
        return made

    @property
    def merged(self) -> int:
        """Expressions that another one stands for."""
        return len(self._into)

    def root(self, n: int) -> int:
        """The expression that stands for expression `n`."""
        while n in self._into:
            n = self._into[n]
        return n

    def join(self, graph: SkillGraph) -> SkillGraph:
        """The graph with canonical ids and layers; what is new in it has become part of the shared layer."""
        fit = [i for i, node in enumerate(graph.nodes) if len(node.text) <= LONGEST[node.type]]
        wanted = list(dict.fromkeys((graph.nodes[i].type, graph.nodes[i].text) for i in fit))
        new = [(kind, text) for kind, text in wanted if (kind, text) not in self._by_text]
        if new:
            self._add(new)
        found = [self._by_text[key] for key in wanted]
        known = [n for n in found if graph.digest not in self._users.get(self.root(n), ())]
        for n in found:
            self._users.setdefault(self.root(n), set()).add(graph.digest)
        if known:
            self.store.write_many("INSERT OR IGNORE INTO canon_uses VALUES (?, ?)", [(n, graph.digest) for n in known])
        return self.named(graph)

    def named(self, graph: SkillGraph) -> SkillGraph:
        """The graph with the canonical ids and layers of now; expressions that are unknown keep none."""
        return replace(graph, nodes=tuple(self._named(n) for n in graph.nodes))

    def _named(self, node: Node) -> Node:
        n = self._by_text.get((node.type, node.text))
        if n is None:
            return replace(node, canon="", layer="local")
        root = self.root(n)
        shared = len(self._users.get(root, ())) > 1
        return replace(node, canon=f"{node.type[0]}{root}", layer="shared" if shared else "local")

    def _remember(self, n: int, kind: str, text: str) -> _Said:
        read = terms(text)
        said = _Said(n, kind, text, frozenset(code(k) for k, _, _ in read), exact(text))
        self._said[n] = said
        self._by_text[kind, text] = n
        for word in said.words:
            self._by_word.setdefault((kind, word), []).append(n)
        return said

    def _add(self, new: Sequence[tuple[str, str]]) -> None:
        with self.store.transaction() as c:
            c.executemany("INSERT OR IGNORE INTO canons (type, text) VALUES (?, ?)", new)
            numbers = [
                int(c.execute("SELECT n FROM canons WHERE type = ? AND text = ?", key).fetchone()["n"]) for key in new
            ]
        pairs = []
        for n, (kind, text) in zip(numbers, new, strict=True):
            said = _Said(n, kind, text, frozenset(code(k) for k, _, _ in terms(text)), exact(text))
            pairs += [(said, other) for other in self._alike(said)]
            self._remember(n, kind, text)
        self._merge(pairs)

    def _alike(self, said: _Said) -> list[_Said]:
        """Expressions of the same type and exact parts that share enough words, most shared first.

        `near` is found by the rarest words, whose lists are short: a word that nobody has yet has the empty list.
        """
        lists = sorted((self._by_word.get((said.type, w), []) for w in said.words), key=len)
        near = {n for holders in lists[:RAREST] for n in holders[:HOLDERS]}
        size, fit = len(said.words), list[tuple[float, int]]()
        for n in near:
            other = self._said[n]
            if JACCARD * size <= len(other.words) <= size / JACCARD and other.exact == said.exact:
                shared = len(said.words & other.words)
                jaccard = shared / (size + len(other.words) - shared)
                if jaccard >= JACCARD:
                    fit.append((-jaccard, n))
        return [self._said[n] for _, n in sorted(fit)[:COMPARED]]

    def _merge(self, pairs: Sequence[tuple[_Said, _Said]]) -> None:
        """Of each expression's pairs the nearest one that passes both thresholds is a merge."""
        if not pairs:
            return
        vectors = self._encoded({s.n for pair in pairs for s in pair})
        best: dict[int, tuple[float, int]] = {}
        for one, other in pairs:
            near = 1.0 if one.words == other.words and one.exact == other.exact else 0.0
            if vectors:
                near = max(near, float(np.dot(vectors[one.n].astype(np.float32), vectors[other.n].astype(np.float32))))
            if near >= MERGE and near > best.get(one.n, (0.0, 0))[0]:
                best[one.n] = near, other.n
        now, rows = time.time(), []
        for n, (near, nearest) in best.items():
            root = self.root(nearest)
            if root != n and self.root(n) == n:
                self._into[n] = root
                self._users.setdefault(root, set()).update(self._users.pop(n, set()))
                rows.append((n, root, near, now))
        self.store.write_many("INSERT OR REPLACE INTO canon_merges VALUES (?, ?, ?, ?)", rows)

    def _encoded(self, numbers: Iterable[int]) -> Mapping[int, NDArray[np.float16]]:
        """Unit vectors of these expressions, made where they are missing; empty without an encoder."""
        if self.encoder is None:
            return {}
        texts = {n: row["text"] for n in numbers if n not in self._vectors
                 for row in self.store.rows("SELECT text FROM canons WHERE n = ?", (n,))}  # fmt: skip
        if texts:
            made = self.encoder.encode(list(texts.values()), kind="document").astype(np.float16)
            self._vectors |= dict(zip(texts, made, strict=True))
            name = self.encoder.profile.name
            self.store.write_many(
                "UPDATE canons SET vector = ?, encoder = ? WHERE n = ?",
                [(row.tobytes(), name, n) for n, row in zip(texts, made, strict=True)],
            )
        return self._vectors

    # ------------------------------------------------------------------------------------------ reading and undoing

    def aliases(self, canon: str) -> tuple[str, ...]:
        """All expressions of a canonical id, as they were first said."""
        root = self.root(_number(canon))
        members = [n for n in (root, *self._into) if self.root(n) == root]
        return tuple(self._said[n].text for n in sorted(set(members)) if n in self._said)

    def text(self, canon: str) -> str:
        """The canonical text: the medoid of the expressions, the first one where there are no vectors."""
        root = self.root(_number(canon))
        if root not in self._said:
            raise NotFound(f"{canon!r}: there is no such canonical node; see: metier graph export")
        members = sorted({n for n in (root, *self._into) if self.root(n) == root})
        if len(members) < 3 or not all(n in self._vectors for n in members):
            return self._said[root].text
        rows = np.array([self._vectors[n] for n in members], dtype=np.float32)
        return self._said[members[int((rows @ rows.T).sum(axis=1).argmax())]].text

    def undo(self, kind: str, text: str) -> bool:
        """The expression stands for itself again; whether it had been merged."""
        n = self._by_text.get((kind, text))
        if n is None or n not in self._into:
            return False
        root = self.root(n)
        del self._into[n]
        with self.store.transaction() as c:
            c.execute("DELETE FROM canon_merges WHERE canon = ?", (n,))
            c.execute("INSERT OR IGNORE INTO canon_uses SELECT ?, digest FROM canon_uses WHERE canon = ?", (n, n))
        self._users[n] = {r["digest"] for r in self.store.rows("SELECT digest FROM canon_uses WHERE canon = ?", (n,))}
        self._users[root] = {
            r["digest"]
            for m in (root, *[k for k in self._into if self.root(k) == root])
            for r in self.store.rows("SELECT digest FROM canon_uses WHERE canon = ?", (m,))
        }
        return True


def exact(text: str) -> frozenset[str]:
    """What must agree exactly: quantities with unit, version and side of their bound, and which words are denied."""
    found = {f"{'!' if denied else ''}{key}" for key, denied, _ in terms(text) if denied or key.startswith("#")}
    if any("#" in key for key in found):
        found |= {str(bound.lastgroup) for bound in _BOUND.finditer(text)}
    return frozenset(found)


def _number(canon: str) -> int:
    digits = canon[1:]
    if not digits.isdigit():
        raise NotFound(f"{canon!r} is no canonical id; it is a letter and a number, such as c12")
    return int(digits)
