"""Extraction errors, put in on purpose: what they cost the witness, and what an audit of few elements gives back.

    recovery = 1 − Σ|m_repaired − m_clean| / Σ|m_corrupt − m_clean|        m: margins of judged pairs (methods 2.9)

An error gives a node the text of another node of some skill in the pair: support that was there is lost, and support
that was not there appears. An audited element is looked up by a person and gets its own text back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metier.rerank.calibrate import Element, Judged, attribute, recovery, worths
from metier.rerank.graph import SkillGraph

AUDITS = ("attribution", "unattributed", "random")
"""Orders in which elements are audited: by suspicion, by reliability alone, and by lot."""


@dataclass(frozen=True, slots=True)
class Noisy:
    """A judged pair before and after errors were put into both graphs."""

    clean: Judged
    corrupt: Judged


def corrupted(graph: SkillGraph, texts: Sequence[str], share: float, rng: random.Random) -> SkillGraph:
    """The graph with each node's text replaced with probability `share` by one of `texts`; ids stay."""
    nodes = tuple(replace(n, text=rng.choice(texts)) if rng.random() < share else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


def noisy(pairs: Sequence[Judged], share: float, *, seed: int = 0) -> list[Noisy]:
    """Every pair with errors in both graphs; one skill has the same errors in all of its pairs."""
    made: dict[str, SkillGraph] = {}
    found = []
    for pair in pairs:
        texts = [n.text for g in (pair.better, pair.worse) for n in g.nodes]
        for graph in (pair.better, pair.worse):
            if graph.digest not in made:
                made[graph.digest] = corrupted(graph, texts, share, random.Random(f"{seed}:{graph.digest}"))
        found.append(Noisy(pair, Judged(pair.request, made[pair.better.digest], made[pair.worse.digest])))
    return found


def audited(rows: Sequence[Noisy], how: str, budget: float, *, seed: int = 0) -> set[Element]:
    """The nodes that an audit of this kind looks at: `budget` of all of them."""
    graphs = {g.digest: g for r in rows for g in (r.corrupt.better, r.corrupt.worse)}
    every = sorted((g.digest, n.id) for g in graphs.values() for n in g.nodes)
    rng = random.Random(seed)
    lot = {x: rng.random() for x in every}
    order: Callable[[Element], Any]
    if how == "attribution":
        means = attribute([r.corrupt for r in rows]).means()
        order = lambda x: (-abs(means.get(x, 0.0)), lot[x])  # noqa: E731
    elif how == "unattributed":
        rho = {(g.digest, n.id): n.reliability for g in graphs.values() for n in g.nodes}
        order = lambda x: (rho[x], lot[x])  # noqa: E731
    else:
        order = lot.__getitem__
    return set(sorted(every, key=order)[: int(np.ceil(budget * len(every)))])


def repaired(rows: Sequence[Noisy], looked_at: set[Element]) -> list[Judged]:
    """The corrupt pairs with the true text in every audited node."""
    made: dict[str, SkillGraph] = {}
    for row in rows:
        for clean, corrupt in ((row.clean.better, row.corrupt.better), (row.clean.worse, row.corrupt.worse)):
            own = {n.id: n for n in clean.nodes}
            made[corrupt.digest] = replace(
                corrupt, nodes=tuple(own[n.id] if (corrupt.digest, n.id) in looked_at else n for n in corrupt.nodes)
            )
    return [Judged(r.clean.request, made[r.corrupt.better.digest], made[r.corrupt.worse.digest]) for r in rows]


def curve(
    pairs: Sequence[Judged], shares: Sequence[float], *, budget: float = 0.2, seed: int = 0
) -> list[dict[str, Any]]:
    """Per share of errors: mean margin, share of pairs ranked right, and the recovery of each kind of audit.

    Recovery of margins and of scores (the W of both skills), in percent.
    """
    clean_w = np.array([worths(p) for p in pairs])
    clean = clean_w[:, 0] - clean_w[:, 1]
    found = []
    for share in shares:
        rows = noisy(pairs, share, seed=seed)
        corrupt_w = np.array([worths(r.corrupt) for r in rows])
        corrupt = corrupt_w[:, 0] - corrupt_w[:, 1]
        row: dict[str, Any] = {
            "errors": share,
            "margin": {"clean": round(float(clean.mean()), 4), "corrupt": round(float(corrupt.mean()), 4)},
            "right": {"clean": _right(clean), "corrupt": _right(corrupt)},
            "recovery": {},
        }
        for how in AUDITS:
            after_w = np.array([worths(p) for p in repaired(rows, audited(rows, how, budget, seed=seed))])
            after = after_w[:, 0] - after_w[:, 1]
            row["recovery"][how] = {
                "margin": round(100 * recovery(clean, corrupt, after), 2),
                "score": round(100 * recovery(clean_w, corrupt_w, after_w), 2),
                "right": _right(after),
            }
        found.append(row)
    return found


def _right(margins: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Percent of pairs whose better skill has the higher W; a tie counts half."""
    return round(100 * float((margins > 1e-9).mean() + 0.5 * (np.abs(margins) <= 1e-9).mean()), 2)
