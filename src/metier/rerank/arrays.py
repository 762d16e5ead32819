"""A skill's graph as arrays: what the hot path reads (SKALOS, methods 2.4).

An implementation is a (capability, method) pair; `entries` lists, implementation by implementation, every node it
reaches with the reliability of the best path there, which is that path's weakest node or relation:

    rho(ι, v) = max over paths ι → v of min(ρ of nodes and edges on the path)
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from metier.late import dataclass
from metier.rerank.graph import SKILL, SkillGraph, edges_out, far_end
from metier.rerank.terms import codes, terms

Codes = NDArray[np.uint32]
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Arrays:
    """One skill, ready to be scored. About 9 kB for the median public skill."""

    codes: Codes
    """Terms of all nodes; node i owns `codes[starts[i]:starts[i + 1]]`. The lowest bit says denied."""
    starts: Ints
    parent: Ints
    """The node above (its heading), which lends a statement its subject; -1 at the top."""
    same: Codes
    """CRC-32 of each node's text (its canonical node's first text): what skills say alike counts once."""
    entries: Ints
    rho: Floats
    implementations: Ints
    """Implementation j owns `entries[implementations[j]:implementations[j + 1]]`; the first entry is its capability."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in self.__slots__)


def arrays(graph: SkillGraph, aliases: Mapping[str, Sequence[str]] | None = None) -> Arrays:
    """The arrays of a graph; node i is `graph.nodes[i]`.

    `aliases` maps canonical ids to all their expressions: a node then has the terms of every one of them, so that a
    reworded node scores like the one it means the same as (methods 2.12).
    """
    at = {n.id: i for i, n in enumerate(graph.nodes)}
    known = aliases or {}
    said = [known.get(n.canon) or (n.text,) for n in graph.nodes]
    owned = [codes([t for text in texts for t in terms(text)]) for texts in said]
    parent = np.full(len(graph.nodes), -1, dtype=np.int32)
    out = edges_out(graph)
    for source, edges in out.items():
        for edge in edges:
            end = far_end(edge)
            if source in at and end in at and parent[at[end]] < 0 and source != end:
                parent[at[end]] = at[source]
    reached = [_reach(graph, capability, method, at, out) for capability, method in implementations(graph)]
    return Arrays(
        codes=np.array([c for each in owned for c in each], dtype=np.uint32),
        starts=np.cumsum([0, *map(len, owned)], dtype=np.int32),
        parent=parent,
        same=np.array([zlib.crc32(t[0].encode("utf-8", "surrogatepass")) for t in said], dtype=np.uint32),
        entries=np.array([i for each in reached for i in each], dtype=np.int32),
        rho=np.array([r for each in reached for r in each.values()], dtype=np.float32),
        implementations=np.cumsum([0, *map(len, reached)], dtype=np.int32),
    )


def implementations(graph: SkillGraph) -> list[tuple[str, str | None]]:
    """(capability, method) pairs in order; a provided capability without a method is one implementation itself."""
    out = edges_out(graph)
    found: list[tuple[str, str | None]] = []
    for provided in out.get(SKILL, ()):
        capability = far_end(provided)
        methods: list[str | None] = [far_end(e) for e in out.get(capability, ()) if e.relation == "implemented_by"]
        found += [(capability, method) for method in (methods or [None])]
    return found


def _reach(
    graph: SkillGraph,
    capability: str,
    method: str | None,
    at: dict[str, int],
    out: dict[str, list],  # type: ignore[type-arg]
) -> dict[int, float]:
    """Node index → reliability of the best path from the skill through this implementation."""
    rho = {n.id: n.reliability for n in graph.nodes}
    first = max((e.reliability for e in out.get(SKILL, ()) if far_end(e) == capability), default=1.0)
    best = {capability: min(first, rho.get(capability, 0.0))}
    queue = deque([capability])
    while queue:
        here = queue.popleft()
        for edge in out.get(here, ()):
            end = far_end(edge)
            if end not in at or (edge.relation == "implemented_by" and here == capability and end != method):
                continue
            value = min(best[here], edge.reliability, rho[end])
            if value > best.get(end, -1.0):
                best[end] = value
                queue.append(end)
    return {at[name]: value for name, value in best.items() if name in at}


# ------------------------------------------------------------------------------------------------------ many at once


@dataclass(frozen=True)
class Stack:
    """Several skills' arrays end to end, with the skill of each implementation."""

    codes: Codes
    starts: NDArray[np.int64]
    parent: NDArray[np.int64]
    same: Codes
    entries: NDArray[np.int64]
    rho: Floats
    implementations: NDArray[np.int64]
    """Starts of implementations in `entries`, one more than there are."""
    skills: NDArray[np.int64]
    """Starts of skills in implementations, one more than there are."""
    nodes: NDArray[np.int64]
    """Starts of skills in nodes, one more than there are."""

    @cached_property
    def distinct(self) -> tuple[Codes, NDArray[np.int64], NDArray[np.int64]]:
        """(distinct statements, the first node of each, each node's place among them)."""
        each, first, place = np.unique(self.same, return_index=True, return_inverse=True)
        return each, first, place


def stack(parts: Sequence[Arrays]) -> Stack:
    """The skills end to end, in this order."""
    nodes = _starts([len(p.parent) for p in parts])
    terms_before = _starts([len(p.codes) for p in parts])
    entries_before = _starts([len(p.entries) for p in parts])
    return Stack(
        codes=_joined([p.codes for p in parts], np.uint32),
        starts=np.append(_joined([p.starts[:-1] + t for p, t in zip(parts, terms_before, strict=False)], np.int64),
                         terms_before[-1]),
        parent=_joined(
            [np.where(p.parent < 0, -1, p.parent + n) for p, n in zip(parts, nodes, strict=False)], np.int64),
        same=_joined([p.same for p in parts], np.uint32),
        entries=_joined([p.entries + n for p, n in zip(parts, nodes, strict=False)], np.int64),
        rho=_joined([p.rho for p in parts], np.float32),
        implementations=np.append(
            _joined([p.implementations[:-1] + e for p, e in zip(parts, entries_before, strict=False)], np.int64),
            entries_before[-1]),
        skills=_starts([len(p.implementations) - 1 for p in parts]),
        nodes=nodes,
    )  # fmt: skip


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _joined(parts: Sequence[NDArray], dtype: type) -> NDArray:  # type: ignore[type-arg]
    return np.concatenate([np.asarray(p, dtype=dtype) for p in parts]) if parts else np.zeros(0, dtype=dtype)
