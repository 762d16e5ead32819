"""The max–min witness over many skills at once (SKALOS, methods 2.4–2.6).

    branch(P, r) = min(ρ of the path's nodes and edges, φ(r, v))
    W(q, s)      = max over implementations ι of  min over requirements r of  max over paths P of  branch(P, r)

A path ends in a node v; φ says how far v speaks of r. One implementation must cover every requirement. A wish of
weight w counts as 1 − w·(1 − branch), alternatives joined by "or" count as their best member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from metier.rerank.arrays import Stack
from metier.rerank.request import Need
from metier.rerank.terms import code

FLOOR = 0.05
"""Branch of a requirement that nothing covers: low, never a hard reject (methods 2.5)."""
OPPOSED = 0.4
"""What a term counts where the text affirms it and the requirement denies it, or the other way round [ours]."""
CONTEXT = 0.35
"""What a term counts that only the heading above the statement has [ours]."""
SOFT = 0.1
"""Temperature of the soft minimum that tells implementations apart whose weakest link is the same (methods 2.8)."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Witness:
    """What max–min found for each skill of a stack."""

    hard: NDArray[np.float64]
    """W in [0, 1], one a skill."""
    soft: NDArray[np.float64]
    """The soft W at temperature `SOFT`: the same but for a smooth minimum."""
    implementation: NDArray[np.int64]
    """Index (in the stack) of the best implementation of each skill; -1 for a skill without any."""
    branches: Matrix
    """(skills, requirements): the branch of each need in that implementation, before weights and groups."""
    paths: NDArray[np.int64]
    """(skills, requirements): the node in which that branch ends; -1 where nothing covers it."""


def matches(stack: Stack, needs: Sequence[Need]) -> tuple[Matrix, NDArray[np.float64]]:
    """φ(r, v) by words: (nodes, needs), the share of the need's terms that the statement has, rare terms counting more.

    Also the weights of the distinct terms. Terms of the statement's heading count `CONTEXT`, terms of the opposite
    denial `OPPOSED`.
    """
    keys = sorted({code(key) for need in needs for key, _, _ in need.terms})
    wanted = np.array(keys, dtype=np.uint32)
    rows, hits, denied = _hits(stack, wanted)
    agree = np.zeros((len(rows), len(keys)), dtype=np.float32)
    deny = np.zeros_like(agree)
    agree[hits[0][~denied], hits[1][~denied]] = 1.0
    deny[hits[0][denied], hits[1][denied]] = 1.0
    weights = _rarity(stack, rows, np.maximum(agree, deny))
    at = {k: i for i, k in enumerate(keys)}
    plus = np.zeros((len(keys), len(needs)), dtype=np.float32)
    minus = np.zeros_like(plus)
    for j, need in enumerate(needs):
        for key, is_denied, _ in need.terms:
            (minus if is_denied else plus)[at[code(key)], j] = weights[at[code(key)]]
    total = np.maximum((plus + minus).sum(axis=0), 1e-9)
    either = np.maximum(agree, deny)
    place = np.full(len(stack.parent) + 1, len(rows), dtype=np.int64)  # the last one stands for "no such row"
    place[rows] = np.arange(len(rows))
    padded = np.vstack([either, np.zeros((1, len(keys)), dtype=np.float32)])
    above = padded[place[stack.parent[rows]]] * (1.0 - either)
    own = agree @ plus + deny @ minus + OPPOSED * (agree @ minus + deny @ plus) + CONTEXT * (above @ (plus + minus))
    phi = np.zeros((len(stack.parent), len(needs)), dtype=np.float32)
    phi[rows] = own / total
    return phi, weights


def _hits(
    stack: Stack, wanted: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]:
    """(nodes that have a wanted term or stand under one that has, (row, term) of each hit, whether it is denied)."""
    if not len(wanted) or not len(stack.codes):
        none = np.zeros(0, dtype=np.int64)
        return none, (none, none), np.zeros(0, dtype=bool)
    base = stack.codes & np.uint32(0xFFFFFFFE)
    column = np.minimum(np.searchsorted(wanted, base), len(wanted) - 1)
    hit = np.flatnonzero(wanted[column] == base)
    node = np.searchsorted(stack.starts, hit, side="right") - 1
    marked = np.zeros(len(stack.parent) + 1, dtype=bool)
    marked[node] = True
    marked[:-1] |= marked[stack.parent]  # parent -1 reads the last one, which is never marked
    rows = np.flatnonzero(marked[:-1])
    return rows, (np.searchsorted(rows, node), column[hit]), (stack.codes[hit] & np.uint32(1)).astype(bool)


def _rarity(stack: Stack, rows: NDArray[np.int64], has: Matrix) -> NDArray[np.float64]:
    """log((n + 1) / (df + ½)) over the distinct statements of the stack, so that copies do not make a term common."""
    _, first = np.unique(stack.same[rows], return_index=True)
    frequency = has[first].sum(axis=0, dtype=np.float64)
    distinct = len(np.unique(stack.same))
    rarity: NDArray[np.float64] = np.maximum(np.log((distinct + 1.0) / (frequency + 0.5)), 0.1)
    return rarity


def witness(stack: Stack, phi: Matrix, needs: Sequence[Need]) -> Witness:
    """Exact max–min for every skill of the stack. `phi` is (nodes, needs) in [0, 1]. Needs must not be empty."""
    n_skills, n_needs = len(stack.skills) - 1, len(needs)
    reached = np.minimum(phi[stack.entries], stack.rho[:, None])
    inside = np.diff(stack.implementations)
    live = np.flatnonzero(inside > 0)
    branch = np.zeros((len(inside), n_needs), dtype=np.float32)
    if len(live):
        branch[live] = np.maximum.reduceat(reached, stack.implementations[live], axis=0)
    value = required(branch, needs)
    soft = soft_minimum(value)
    hard = value.min(axis=1)
    best = np.full(n_skills, -1, dtype=np.int64)
    bounds = stack.skills.tolist()
    for s, (a, b) in enumerate(pairwise(bounds)):
        if b > a:
            best[s] = a + np.lexsort((-soft[a:b], -hard[a:b]))[0]
    some = best >= 0
    branches = np.where(some[:, None], branch[best], 0.0).astype(np.float32)
    paths = np.full((n_skills, n_needs), -1, dtype=np.int64)
    starts = stack.implementations.tolist()
    for s in np.flatnonzero(some).tolist():
        a, b = starts[best[s]], starts[best[s] + 1]
        if b > a:
            paths[s] = stack.entries[a + reached[a:b].argmax(axis=0)]
    paths[branches <= 0.0] = -1
    most = np.full(n_skills, FLOOR)
    smooth = np.full(n_skills, FLOOR)
    for s in np.flatnonzero(some).tolist():
        a, b = bounds[s], bounds[s + 1]
        most[s], smooth[s] = hard[a:b].max(), soft[a:b].max()
    return Witness(most, smooth, best, branches, paths)


def required(branch: NDArray[np.floating], needs: Sequence[Need]) -> NDArray[np.float64]:
    """(…, groups): what each requirement is worth after floor, weight and alternatives."""
    weights = np.array([n.weight for n in needs])
    value = 1.0 - weights * (1.0 - np.maximum(branch.astype(np.float64), FLOOR))
    groups = np.array([n.group for n in needs])
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    return np.maximum.reduceat(value, starts, axis=-1)


def soft_minimum(value: NDArray[np.float64], temperature: float = SOFT) -> NDArray[np.float64]:
    """−T·log mean exp(−x/T) over the last axis: near the minimum, yet moved by every element (methods 2.8)."""
    low = value.min(axis=-1, keepdims=True)
    mean = np.exp(-(value - low) / temperature).mean(axis=-1)
    smooth: NDArray[np.float64] = low[..., 0] - temperature * np.log(mean)
    return smooth
