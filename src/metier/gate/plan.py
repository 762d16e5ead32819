"""What evidence would cost, and what it would be worth, before anyone pays for it (SkillDelta, rules 3.5, 3.16).

    pairs(h)      the fewest pairs whose 95% interval is at most ±h about the gain seen so far
    break-even    tokens to rerun a family's pairs / (|τ̂| in tokens + tokens a skip saves) per task of that family

A new stack starts empty: its families are listed by frequency × |τ̂|, the ones that matter most first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from metier.errors import InputError
from metier.gate.bank import Bank
from metier.gate.gain import gain_interval, seen_interval
from metier.gate.pairs import Pairs
from metier.gate.rows import bundle
from metier.gate.thresholds import PER_TOKENS, POINT
from metier.store import Store

WIDTH = 0.2
"""Half-width wanted by default: tells a gain of a fifth from none."""
MOST_PAIRS = 1 << 20


@dataclass(frozen=True, slots=True)
class Need:
    """What one skill has on a stack, and what it lacks for the wanted interval."""

    skill: str
    pairs: int
    gain: float | None
    half_width: float | None
    wanted: int
    """Pairs in all."""
    runs: int
    """Runs still to pay for: two for each missing pair."""
    tokens: float | None


@dataclass(frozen=True, slots=True)
class Rerun:
    """What one family would cost on a new stack, and when it pays."""

    family: str
    skills: tuple[str, ...]
    frequency: float
    """Share of routed tasks that meet this family."""
    gain: float
    """Mean gain on the old stack."""
    priority: float
    runs: int
    tokens: float | None
    """Of all runs; None where the bank has no token counts."""
    breaks_even: int | None
    """Tasks (of any family) after which the rerun has paid; None where it cannot be told, or never."""


def pairs_needed(gain: float, half_width: float) -> int:
    """The fewest pairs whose interval about a mean gain is at most ±`half_width`."""
    if not 0.0 < half_width < 1.0:
        raise InputError(f"the wanted half-width is {half_width}; give a number between 0 and 1, such as {WIDTH}")
    low, high = 1, MOST_PAIRS
    while low < high:
        middle = (low + high) // 2
        a, b = gain_interval(gain * middle, middle)
        low, high = (low, middle) if (b - a) / 2.0 <= half_width else (middle + 1, high)
    return low


def needs(bank: Bank, stack: str, digests: Mapping[str, str], half_width: float = WIDTH) -> list[Need]:
    """Every skill with rows on the stack, the one with most pairs missing first. `digests`: skill id → present one."""
    out = []
    for ids in bank.skills(stack):
        skill = bundle(ids)
        pairs = _present(bank.pairs(stack, skill), bundle([digests.get(each, "") for each in ids]))
        gain = float(pairs.gains.mean()) if len(pairs) else None
        wanted = pairs_needed(gain or 0.0, half_width)
        low, high = seen_interval(pairs.gains)
        runs = 2 * max(wanted - len(pairs), 0)
        each = _tokens_a_run(bank.pairs(stack, skill))
        out.append(
            Need(skill, len(pairs), gain, (high - low) / 2.0 if len(pairs) else None, wanted, runs,
                 None if each is None else each * runs)
        )  # fmt: skip
    return sorted(out, key=lambda need: (-need.runs, need.skill))


def reruns(
    bank: Bank, old: str, new: str, families: Mapping[str, str], *, exchange: float | None = None
) -> list[Rerun]:
    """The families of the old stack that the new one has no pairs for, by frequency × |τ̂|."""
    seen = _frequencies(bank.store)
    grouped: dict[str, list[tuple[str, Pairs]]] = {}
    for ids in bank.skills(old):
        skill = bundle(ids)
        pairs = bank.pairs(old, skill)
        if len(pairs) and not len(bank.pairs(new, skill)):
            grouped.setdefault(families.get(skill, skill), []).append((skill, pairs))
    total = sum(len(pairs) for members in grouped.values() for _, pairs in members)
    out = []
    for family, members in grouped.items():
        gains = np.concatenate([pairs.gains for _, pairs in members])
        share = sum(seen.get(skill, 0.0) for skill, _ in members) if seen else len(gains) / total
        runs = int(sum(int(pairs.n0.sum() + pairs.n1.sum()) or 2 * len(pairs) for _, pairs in members))
        each = _mean([_tokens_a_run(pairs) for _, pairs in members])
        extra = _mean([_extra_tokens(pairs) for _, pairs in members])
        gain, cost = float(gains.mean()), None if each is None else each * runs
        out.append(
            Rerun(family, tuple(skill for skill, _ in members), share, gain, share * abs(gain), runs, cost,
                  _breaks_even(cost, share, gain, extra, exchange))
        )  # fmt: skip
    return sorted(out, key=lambda each: (-each.priority, each.family))


def _breaks_even(
    cost: float | None, share: float, gain: float, extra: float | None, exchange: float | None
) -> int | None:
    """Tasks of any family until the tokens spent are won back."""
    if cost is None or share <= 0:
        return None
    worth = abs(gain) / POINT / exchange * PER_TOKENS if exchange else 0.0
    if gain <= 0 and extra is not None:
        worth += max(extra, 0.0)  # knowing that it does not help saves what it would have cost
    elif gain > 0 and extra is not None:
        worth -= extra  # loading it costs its tokens (or saves some)
    return math.ceil(cost / (worth * share)) if worth > 0 else None


def _frequencies(store: Store) -> dict[str, float]:
    """Skill id → share of logged routes that showed it."""
    total = store.rows("SELECT count(DISTINCT route) AS n FROM events WHERE route <> ''")[0]["n"]
    rows = store.rows("SELECT skill, count(DISTINCT route) AS n FROM events WHERE route <> '' GROUP BY skill")
    return {row["skill"]: row["n"] / total for row in rows} if total else {}


def _present(pairs: Pairs, digest: str) -> Pairs:
    """The pairs made with the present digest; all, where it is not known."""
    return pairs.where(pairs.of(digest)) if digest.strip('[]",') else pairs


def _tokens_a_run(pairs: Pairs) -> float | None:
    return _mean([*pairs.tokens0.tolist(), *pairs.tokens1.tolist()])


def _extra_tokens(pairs: Pairs) -> float | None:
    return _mean((pairs.tokens1 - pairs.tokens0).tolist())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return sum(known) / len(known) if known else None
