"""What tells two look-alikes apart, in their own words: the statements in which they differ (methods 2.10).

Pairs of a statement and what stands in its place come first, those that differ in a quantity, a tool or a denial
before those that differ in wording; then what only one of them says.
"""

from __future__ import annotations

from dataclasses import dataclass

from metier.rerank.canon import exact
from metier.rerank.contrast import ALIKE, REPLACES
from metier.rerank.graph import SkillGraph
from metier.rerank.said import likeness
from metier.text import one_line

MOST = 60
"""Statements of each side that are compared; look-alikes differ in few."""
WIDTH = 70
LEAD = 3
"""Words kept before the first that differs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One statement of a skill and what the other says in its place; an empty text where it says nothing."""

    one: str
    other: str
    hard: bool
    """Whether quantities, units, versions or denials differ, and not words alone."""


def differences(one: SkillGraph, other: SkillGraph) -> list[Difference]:
    """Everything in which two graphs differ, the most telling first."""
    theirs = {n.text for n in other.nodes}
    mine = {n.text for n in one.nodes}
    left = [n.text for n in one.nodes if n.text not in theirs][:MOST]
    right = [n.text for n in other.nodes if n.text not in mine][:MOST]
    found, used = [], set[str]()
    for text in left:
        free = [t for t in right if t not in used]
        best = max(free, key=lambda t: (likeness(text, t), t), default="")
        if best and likeness(text, best) >= REPLACES:
            used.add(best)
            found.append(Difference(text, best, exact(text) != exact(best)))
        else:
            found.append(Difference(text, "", bool(exact(text))))
    found += [Difference("", text, bool(exact(text))) for text in right if text not in used]
    return sorted(found, key=lambda d: (not (d.one and d.other), not d.hard, d.one, d.other))


def near_copies(one: SkillGraph, other: SkillGraph) -> bool:
    """Whether two skills say most things alike, so that the statements in which they differ can be counted off."""
    mine, theirs = ({n.text for n in g.nodes} for g in (one, other))
    return len(mine & theirs) >= ALIKE * max(len(mine), len(theirs))


def _from_where_they_part(one: str, other: str) -> tuple[str, str]:
    """Both texts, without a long beginning that is the same: what differs must be within what is shown."""
    mine, theirs = one.split(), other.split()
    same = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    if len(" ".join(mine[: same + 1])) <= WIDTH and len(" ".join(theirs[: same + 1])) <= WIDTH:
        return one, other
    cut = max(0, same - LEAD)
    return f"… {' '.join(mine[cut:])}", f"… {' '.join(theirs[cut:])}"


def difference(one: SkillGraph, other: SkillGraph, *, most: int = 2) -> str:
    """The most telling differences as a sentence; empty where there are none."""
    parts = []
    for d in differences(one, other)[:most]:
        if d.one and d.other:
            mine, theirs = _from_where_they_part(d.one, d.other)
            parts.append(f'"{one_line(mine, WIDTH)}" against "{one_line(theirs, WIDTH)}"')
        else:
            name, text = (one.name, d.one) if d.one else (other.name, d.other)
            parts.append(f'only {name} says "{one_line(text, WIDTH)}"')
    return "; ".join(parts)
