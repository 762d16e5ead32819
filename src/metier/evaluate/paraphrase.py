"""The paraphrase test: a statement reworded gets the same canonical id and the same W, another one neither (2.12).

Rows are `{"id", "one", "other", "same"}`: two statements, and whether they mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metier.errors import InputError
from metier.evaluate.datasets import lines
from metier.rerank.arrays import stack
from metier.rerank.canon import Canons
from metier.rerank.graph import SKILL, Edge, Node, SkillGraph
from metier.rerank.keep import Graphs, save
from metier.rerank.maxmin import matches, witness
from metier.rerank.request import needs
from metier.store import Store
from metier.types import Encoder, Skill


@dataclass(frozen=True, slots=True)
class Rewording:
    """Two statements, and whether they mean the same."""

    id: str
    one: str
    other: str
    same: bool


def read_rewordings(path: Path) -> list[Rewording]:
    """The rows of a JSONL file. Raises `InputError` with the line of one that is none."""
    found = []
    for number, row in lines(path):
        one, other, same = row.get("one"), row.get("other"), row.get("same")
        if not isinstance(one, str) or not isinstance(other, str) or not isinstance(same, bool):
            raise InputError(f'{path}:{number}: no rewording; write {{"id", "one", "other", "same": true or false}}')
        found.append(Rewording(str(row.get("id", number)), one, other, same))
    return found


def reworded(rows: Sequence[Rewording], encoder: Encoder, folder: Path) -> dict[str, Any]:
    """Shares, in percent: one id and one W of what means the same, other ids of what does not; and what went wrong."""
    ids = {row.id: _compared(row, encoder, folder / f"{row.id}.db") for row in rows}
    same, other = ([r for r in rows if r.same is kind] for kind in (True, False))
    return {
        "reworded": len(same),
        "one_id": _percent([ids[r.id][0] for r in same]),
        "one_w": _percent([ids[r.id][1] for r in same]),
        "others": len(other),
        "told_apart": _percent([not ids[r.id][0] for r in other]),
        "missed": [r.id for r in rows if ids[r.id][0] is not r.same],
    }


def _percent(hits: Sequence[bool]) -> float:
    return round(100.0 * sum(hits) / len(hits), 1) if hits else 0.0


def _compared(row: Rewording, encoder: Encoder, path: Path) -> tuple[bool, bool]:
    """(one canonical id, the same W for a request that says the first) in a shared layer of these two alone."""
    with closing(Store(path)) as store:
        canons = Canons.open(store, encoder)
        made = [canons.join(_said(digest, text)) for digest, text in (("one", row.one), ("other", row.other))]
        made[0] = canons.named(made[0])
        save(store, made)
        graphs = Graphs(lambda s: "", store)
        read = [
            graphs(Skill(id=d, name=d, digest=d, root="", scope="given", description="", addresses=(d,)))
            for d in ("one", "other")
        ]
    wanted = needs(row.one)
    stacked = stack([r.arrays for r in read])
    found = witness(stacked, matches(stacked, wanted)[0], wanted)
    return made[0].nodes[0].canon == made[1].nodes[0].canon, bool(found.soft[0] == found.soft[1])


def _said(digest: str, text: str) -> SkillGraph:
    return SkillGraph(digest, digest, (Node("n0", "capability", text),), (Edge(SKILL, "provides", "n0"),))
