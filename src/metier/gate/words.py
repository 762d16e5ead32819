"""What the gate says to people: one line that gives the estimate, the past tasks behind it, and what would earn a load.

Text of past tasks is other people's text: it is shown on one printable line and cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from metier.gate.gain import Estimate
from metier.gate.pairs import Pairs
from metier.gate.runnable import Finding
from metier.text import one_line
from metier.types import Slate

QUOTE = 60
"""Characters of a past task in a line: enough to recognise it."""
NAMED = 2
"""Past tasks named in a line; `detail` holds them all."""


@lru_cache(maxsize=1 << 14)
def quoted(text: str) -> str:
    """A past task on one printable line."""
    return one_line(text, QUOTE)


def neighbours(pairs: Pairs, found: Estimate, near: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """The past tasks behind an estimate, nearest first: what they were, how near, and what happened."""
    rows = found.neighbours
    columns = np.column_stack((near[rows], found.weights, pairs.gains[rows], pairs.y0[rows], pairs.y1[rows]))
    return [
        {
            "task": pairs.names[row] if pairs.texts[row] is None else pairs.texts[row],
            "cosine": cosine,
            "weight": weight,
            "without": without if without == without else None,  # NaN where only the difference was imported
            "with": used if used == used else None,
            "gain": gain,
            "digest": pairs.digests[row],
        }
        for row, (cosine, weight, gain, without, used) in zip(rows.tolist(), np.round(columns, 4).tolist(), strict=True)
    ]


def happened(told: Sequence[Mapping[str, Any]]) -> str:
    """The nearest past tasks and what happened on them, in words."""
    parts = []
    for each in told[:NAMED]:
        if each["without"] is None:
            outcome = f"gain {each['gain']:+.2f}"
        else:
            outcome = f"{each['without']:.2g} without → {each['with']:.2g} with"
        parts.append(f"“{quoted(str(each['task']))}” {outcome}")
    return "; ".join(parts)


def tasks(count: int) -> str:
    """That many past tasks, in words."""
    return f"{count} past task" if count == 1 else f"{count} past tasks"


def estimated(tau: float, interval: tuple[float, float], eta: float, used: int, support: int, scope: str) -> str:
    """The estimate in words."""
    low, high = interval
    whose = {"skill": "its own", "family": "its family's", "bundle": "the set's"}[scope]
    return f"gain {tau:+.2f} [{low:+.2f}, {high:+.2f}] against η {eta:+.2f}, from {used} of {whose} {tasks(support)}"


def requirements(findings: Sequence[Finding]) -> str:
    """What is missing or could not be found out."""
    missing = [f for f in findings if f.state == "missing"]
    files = [name for f in missing if f.requirement.kind == "file" for name in f.requirement.names[:1]]
    unknown = [f.label for f in findings if f.state == "unknown" and f.requirement.declared]
    parts = ["; ".join(f.reason for f in missing if f.requirement.kind != "file")]
    if len(files) == 1:
        parts.append(next(f.reason for f in missing if f.requirement.kind == "file"))
    elif files:
        parts.append(f"its text mentions {files[0]} and {len(files) - 1} more files that its folder lacks")
    if unknown:
        parts.append(f"could not check {', '.join(unknown)}")
    return " · ".join(part for part in parts if part)


def what_earns_it(slate: Slate) -> str | None:
    """One line on what would let the best candidate load; None when something loads or nothing is offered."""
    if any(c.verdict.level == "load" for c in slate.candidates):
        return None
    for candidate in slate.candidates:
        for found in candidate.evidence:
            if found.stage == "gate" and found.detail.get("earns"):
                return f"{one_line(candidate.skill.name, 64)}: {found.detail['earns']}"
    return None
