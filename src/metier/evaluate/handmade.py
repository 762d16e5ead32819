"""Near-copies broken by hand: edits of prose that no operator of `corrupt.py` makes, to judge the reranker by.

A row names a request (by id) and edits of its gold skill's body: `{"id", "request", "kind", "part", "edits": [[before,
after], …]}`. Rows of one request are the near-copies that stand beside the valid skill.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from metier.errors import InputError
from metier.evaluate.datasets import Request, lines
from metier.evaluate.lookalikes import Near, Pair
from metier.text import fingerprint
from metier.types import Skill

PARTS = ("looked", "held")
"""Edits whose failures the rules were improved on, and edits of which nobody saw more than totals."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One hand-made corruption."""

    id: str
    request: str
    kind: str
    part: str
    edits: tuple[tuple[str, str], ...]

    def apply(self, body: str) -> str:
        """The corrupted body. Raises `InputError` where the body does not say what is edited."""
        for before, after in self.edits:
            if before not in body:
                raise InputError(f'{self.id}: the skill does not say "{before[:60]}"; give the library it was made for')
            body = body.replace(before, after)
        return body


def read_edits(path: Path) -> list[Edit]:
    """The rows of a JSONL file. Raises `InputError` with the line of one that is not an edit."""
    found = []
    for number, row in lines(path):
        try:
            edits = tuple((str(before), str(after)) for before, after in row["edits"])
            one = Edit(str(row["id"]), str(row["request"]), str(row["kind"]), str(row["part"]), edits)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}:{number}: not a hand-made edit ({error}); see training/README.md") from error
        if one.part not in PARTS or not edits:
            raise InputError(f"{path}:{number}: part {one.part!r} with {len(edits)} edits; write one of {PARTS}")
        found.append(one)
    return found


def hand_pairs(
    edits: Sequence[Edit],
    requests: Mapping[str, Request],
    skills: Mapping[str, Skill],
    body: Callable[[Skill], str],
    *,
    seed: int = 0,
) -> list[tuple[Pair, tuple[Edit | None, ...]]]:
    """One pair per request with the edit behind each of its candidates, None for the valid one; opaque ids, shuffled.

    `requests` by id, `skills` by gold id. Requests and skills that are not given are left out.
    """
    groups: dict[str, list[Edit]] = {}
    for one in edits:
        groups.setdefault(one.request, []).append(one)
    made = []
    for name, group in groups.items():
        request = requests.get(name)
        gold = min(request.gold) if request is not None else ""
        if request is None or gold not in skills:
            continue
        skill, rng = skills[gold], random.Random(f"{seed}:hand:{name}")
        text = body(skill)
        rows: list[tuple[Edit | None, str]] = [(None, text), *((e, e.apply(text)) for e in group)]
        rng.shuffle(rows)
        made.append((Pair(request, gold, tuple(_near(skill, t, e, rng) for e, t in rows)), tuple(e for e, _ in rows)))
    return made


def _near(skill: Skill, text: str, edit: Edit | None, rng: random.Random) -> Near:
    opaque = fingerprint(skill.id, str(rng.random()))
    made = replace(
        skill, id=f"given:{opaque[:16]}", digest=fingerprint(text, opaque), addresses=(opaque[:16],),
        resources=(), requires=(), family=None,
    )  # fmt: skip
    return Near(made, text, edit.kind if edit else None)
