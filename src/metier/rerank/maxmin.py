"""The max–min witness over many skills at once (SKALOS, methods 2.4–2.6).

    branch(P, r) = min(ρ of the path's nodes and edges, φ(r, v))
    W(q, s)      = max over implementations ι of  min over requirements r of  max over paths P of  branch(P, r)

A path ends in a node v; φ says how far v speaks of r. One implementation must cover every requirement. A wish of
weight w counts as 1 − w·(1 − branch), alternatives joined by "or" count as their best member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from metier.late import dataclass
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


def matches(stack: Stack, needs: Sequence[Need]) -> tuple[Matrix, Mapping[int, float]]:
    """φ(r, v) by words: (nodes, needs), the share of the need's terms that the statement has, rare terms counting more.

    Terms of the opposite denial count `OPPOSED`; what only the heading above covers counts `CONTEXT`. Also the rarity
    of each distinct term, log((n + 1) / (df + ½)) over distinct statements: copies do not make a term common.
    """
    keys = sorted({code(key) for need in needs for key, _, _ in need.terms})
    n_nodes, n_needs = len(stack.parent), len(needs)
    node, term, denied = _hits(stack, np.array(keys, dtype=np.uint32))
    first = stack.distinct[1]
    is_first = np.zeros(n_nodes, dtype=bool)
    is_first[first] = True
    frequency = np.bincount(term[is_first[node]], minlength=len(keys))
    rarity = np.maximum(np.log((len(first) + 1.0) / (frequency + 0.5)), 0.1)
    at = {k: i for i, k in enumerate(keys)}
    wanted = [(at[code(key)], j, is_denied) for j, need in enumerate(needs) for key, is_denied, _ in need.terms]
    wanted = sorted(set(wanted))
    owner = np.array([w[0] for w in wanted], dtype=np.int64)
    column = np.array([w[1] for w in wanted], dtype=np.int64)
    refused = np.array([w[2] for w in wanted], dtype=bool)
    weight = rarity[owner] if len(keys) else np.zeros(0)
    total = np.maximum(np.bincount(column, weights=weight, minlength=n_needs), 1e-9)
    # Each hit counts for every need that wants its term: hits are repeated, then summed by (node, need).
    starts = np.searchsorted(owner, np.arange(len(keys) + 1))
    times = (starts[1:] - starts[:-1])[term]
    hit = np.repeat(np.arange(len(term)), times)
    place = np.arange(len(hit)) - np.repeat(np.cumsum(times) - times, times) + starts[:-1][term[hit]]
    cell = node[hit] * n_needs + column[place]
    agrees = refused[place] == denied[hit]
    size = n_nodes * n_needs
    same = np.bincount(cell[agrees], weights=weight[place[agrees]], minlength=size).reshape(n_nodes, n_needs) / total
    other = np.bincount(cell[~agrees], weights=weight[place[~agrees]], minlength=size).reshape(n_nodes, n_needs) / total
    either = np.vstack([same + other, np.zeros((1, n_needs))])  # parent -1 reads the row of zeros
    above = np.maximum(either[stack.parent] - either[:-1], 0.0)
    phi = np.minimum(same + OPPOSED * other + CONTEXT * above, 1.0).astype(np.float32)
    return phi, dict(zip(keys, rarity.tolist(), strict=True))


def _hits(stack: Stack, wanted: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """(node, index of the term, whether it is denied there) of every wanted term in the stack."""
    if not len(wanted) or not len(stack.codes):
        none = np.zeros(0, dtype=np.int64)
        return none, none, np.zeros(0, dtype=bool)
    base = stack.codes & np.uint32(0xFFFFFFFE)
    column = np.minimum(np.searchsorted(wanted, base), len(wanted) - 1)
    hit = np.flatnonzero(wanted[column] == base)
    node = np.searchsorted(stack.starts, hit, side="right") - 1
    return node, column[hit], (stack.codes[hit] & np.uint32(1)).astype(bool)


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
