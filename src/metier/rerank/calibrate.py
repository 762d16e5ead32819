"""Which parts of a graph mislead the ranking: attribution, reliability, audit, and the weight λ (SKALOS, 2.7–2.9).

    a_x   = margin(G) − margin(G without x),   margin = W_soft(q, s⁺) − W_soft(q, s⁻)
    ρ_x  ← clip(ρ_x · exp(0.3 · tanh(ā_x / σ)), 0.05, 1)      where at least 3 judged pairs touched x
    λ     = argmin over λ ≥ 0 of Σ softplus(−(Δtext + λ·ΔW))

The soft W (temperature 0.1) is used, since the hard one does not move for anything off the bottleneck. A negative
attribution is suspicion: the element speaks for the wrong skill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metier.rerank.arrays import arrays, stack
from metier.rerank.graph import SKILL, SkillGraph, edges_out, far_end
from metier.rerank.maxmin import FLOOR, matches, witness
from metier.rerank.request import Need, needs
from metier.types import Outcome

STEP = 0.3
"""Largest logarithmic change of a reliability in one round (methods 2.8)."""
LOWEST = 0.05
"""A doubted element keeps the floor's say (methods 2.8)."""
TOUCHED = 3
"""Judged pairs that must have touched an element before its reliability moves (methods 2.8)."""
BUDGET = 0.2
"""Share of the elements that the audit shows a person (methods 2.9)."""
COUNTED = frozenset(("check", "person", "ci"))
"""Origins whose outcomes may teach: not an agent's own report, not a third party's summary (methods 3.14)."""

OPAQUE = ("id:", "sha256:", "route:")
"""Beginnings of a task whose text was not kept: there is no request to read."""

Element = tuple[str, str]
"""(digest of the skill, id of the node or edge)."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """For this request, the first skill is the better one."""

    request: str
    better: SkillGraph
    worse: SkillGraph


@dataclass(slots=True)
class Attribution:
    """Contributions to the margin of each element over the judged pairs that touched it."""

    values: dict[Element, list[float]] = field(default_factory=dict)

    def mean(self, element: Element) -> float:
        """ā_x: 0 for an element that no pair touched."""
        found = self.values.get(element)
        return sum(found) / len(found) if found else 0.0

    def means(self) -> dict[Element, float]:
        """ā_x of every touched element."""
        return {x: sum(v) / len(v) for x, v in self.values.items()}


def worth(graph: SkillGraph, wanted: Sequence[Need], weights: Mapping[str, float] | None = None) -> float:
    """W_soft of one skill for these needs."""
    if not wanted:
        return FLOOR
    stacked = stack([arrays(graph.reweighted(weights or {}))])
    phi, _ = matches(stacked, wanted)
    return float(witness(stacked, phi, wanted).soft[0])


def worths(pair: Judged) -> tuple[float, float]:
    """W_soft of the better skill and of the worse one, in one common stack, so that terms weigh alike."""
    wanted = needs(pair.request)
    if not wanted:
        return 0.0, 0.0
    better, worse = _soft([pair.better, pair.worse], wanted, [pair.better, pair.worse])
    return better, worse


def attribute(pairs: Iterable[Judged]) -> Attribution:
    """The contribution of each node and edge on a witness path to the margin of each pair."""
    found = Attribution()
    for pair in pairs:
        wanted = needs(pair.request)
        if not wanted:
            continue
        frame = [pair.better, pair.worse]
        full = _soft(frame, wanted, frame)
        for side, graph in enumerate(frame):
            sign = 1.0 if side == 0 else -1.0
            elements = touched(graph, wanted, frame)
            masked = _soft([graph.without(x) for x in elements], wanted, frame)
            for element, value in zip(elements, masked, strict=True):
                found.values.setdefault((graph.digest, element), []).append(sign * (full[side] - value))
    return found


def _soft(graphs: Sequence[SkillGraph], wanted: Sequence[Need], frame: Sequence[SkillGraph]) -> list[float]:
    """W_soft of `graphs`, with the terms' weights taken from `frame` in front of them."""
    if not graphs:
        return []
    stacked = stack([arrays(g) for g in (*frame, *graphs)])
    phi, _ = matches(stacked, wanted)  # equal statements count once, so masked copies do not change the weights
    return [float(v) for v in witness(stacked, phi, wanted).soft[len(frame) :]]


def touched(graph: SkillGraph, wanted: Sequence[Need], frame: Sequence[SkillGraph]) -> list[str]:
    """Nodes and edges on the witness paths of the graph's best implementation, sorted."""
    stacked = stack([arrays(g) for g in (*frame, graph)])
    phi, _ = matches(stacked, wanted)
    offset = int(stacked.nodes[len(frame)])
    ends = {int(p) - offset for p in witness(stacked, phi, wanted).paths[len(frame)] if p >= 0}
    before: dict[str, tuple[str, str]] = {}
    reached, queue = {SKILL}, [SKILL]
    out = edges_out(graph)
    for here in queue:
        for edge in out.get(here, ()):
            if far_end(edge) not in reached:
                reached.add(far_end(edge))
                before[far_end(edge)] = here, edge.id
                queue.append(far_end(edge))
    found: set[str] = set()
    for end in ends:
        at = graph.nodes[end].id
        while at in before:
            found |= {at, before[at][1]}
            at = before[at][0]
    return sorted(found)


def calibrated(graph: SkillGraph, found: Attribution, *, spread: float | None = None) -> dict[str, float]:
    """New reliabilities of the graph's elements that enough pairs touched; the others are left out."""
    sigma = spread if spread is not None else _spread(found)
    now = {n.id: n.reliability for n in graph.nodes} | {e.id: e.reliability for e in graph.edges}
    new = {}
    for element, rho in now.items():
        seen = found.values.get((graph.digest, element), [])
        if len(seen) >= TOUCHED and sigma > 0:
            step = STEP * float(np.tanh(found.mean((graph.digest, element)) / sigma))
            new[element] = float(np.clip(rho * np.exp(step), LOWEST, 1.0))
    return new


def _spread(found: Attribution) -> float:
    means = list(found.means().values())
    return float(np.std(means)) if means else 0.0


def audit(found: Attribution, *, budget: float = BUDGET) -> list[tuple[Element, float]]:
    """The most suspicious share of the touched elements with their suspicion −ā, worst first, ties by name."""
    order = sorted(((x, -a) for x, a in found.means().items()), key=lambda row: (-row[1], row[0]))
    return order[: int(np.ceil(budget * len(order)))]


def recovery(clean: Floats, corrupt: Floats, repaired: Floats) -> float:
    """1 − Σ|m_cal − m_clean| / Σ|m_corrupt − m_clean| (methods 2.9); 0 when nothing was lost."""
    lost = float(np.abs(corrupt - clean).sum())
    return 1.0 - float(np.abs(repaired - clean).sum()) / lost if lost > 0 else 0.0


def pairs_of(outcomes: Sequence[Outcome], graph: Callable[[str, str], SkillGraph | None]) -> list[Judged]:
    """Judged pairs from recorded outcomes: of two skills used alone for one task by one stack, the more successful.

    Only origins that may teach count. `graph` maps (skill id, digest) to a graph, or None where it is gone.
    """
    by_task: dict[tuple[str, str], dict[tuple[str, str], list[float]]] = {}
    for o in outcomes:
        alone = o.arm == "use" and len(o.skills) == 1
        if alone and o.success is not None and o.origin in COUNTED and not o.task.startswith(OPAQUE):
            by_task.setdefault((o.stack, o.task), {}).setdefault((o.skills[0], o.digests[0]), []).append(o.success)
    found = []
    for (_, task), used in by_task.items():
        means = sorted(((sum(v) / len(v), key) for key, v in used.items()), reverse=True)
        for i, (high, better) in enumerate(means):
            for low, worse in means[i + 1 :]:
                one, other = graph(*better), graph(*worse)
                if high > low and one is not None and other is not None:
                    found.append(Judged(task, one, other))
    return found


def fit_lambda(text: Floats, worths: Floats, *, most: float = 16.0) -> float:
    """λ ≥ 0 that minimises Σ softplus(−(Δtext + λ·ΔW)) over judged pairs (methods 2.7); at most `most`.

    `text` and `worths` are differences, better less worse, in the units that the stage combines (standard scores).
    """
    if not len(text):
        return 0.0

    def slope(lam: float) -> float:  # the loss is convex, so its derivative has one root
        chance = 0.5 * (1.0 - np.tanh((text + lam * worths) / 2.0))
        return float(-(worths * chance).sum())

    if slope(0.0) >= 0.0:
        return 0.0
    if slope(most) <= 0.0:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return (low + high) / 2.0
