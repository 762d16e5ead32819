"""Look-alikes told apart by what they do *not* share (SKALOS, methods 2.5a, and our answer to ties of max–min).

Near-copies share their weakest link, so their W is equal and max–min alone cannot order them. What all of a group say
cannot tell its members apart; so only the statements that some have and others lack are read:

    gain(s) = Σ over statements u of s that not all look-alikes have,  Σ over requirements r,  φ(r, u)

A statement that agrees with a requirement where its sibling says something else in its place makes the sibling a
*contradiction*: another number, unit, format, tool or method, or the denial turned round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from metier.rerank.maxmin import OPPOSED
from metier.rerank.request import Need
from metier.rerank.terms import DENY, code, listed, terms
from metier.text import words

ALIKE = 0.5
"""Share of the larger skill's statements that two look-alikes have in common [ours]: near-copies have over 0.8, skills
of one author's template under 0.4."""
MIN_STATEMENTS = 3
"""A text of fewer statements is too short to be called anyone's look-alike by what it shares."""
MAX_VARIANTS = 80
"""Statements of one member that are read for the contrast; look-alikes differ in few."""
SMALL = 0.35
"""Weight of a small word that distinguishes ("before", "first", "all") against a content word's [ours]."""
REPLACES = 0.5
"""Share of the shorter statement's words that two statements have in common when one stands in place of the other."""
DISTINGUISHING = listed(
    """before after first last all each every any only always same different new existing own more less least most at
    over under within between per above below until once both either top up down again early late later further few
    several single multiple one short long high low full half local global"""
)
WEAKENING = listed(
    """optional optionally unnecessary needless ignore ignores ignoring ignored freely allowed permitted skippable
    unrestricted unverified unchecked lax"""
)
"""Words that take an obligation back; together with the denials they turn a statement round."""

Reading = tuple[int, str]
"""CRC-32 of a statement, and its words."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Where a look-alike says something else than the request and a sibling agree on."""

    need: int
    said: str
    instead: str


@dataclass(frozen=True, slots=True)
class Contrast:
    """What tells the members of one group apart, in their order."""

    gain: NDArray[np.float64]
    clashes: tuple[Clash | None, ...]
    telling: tuple[str, ...]
    """Each member's statement that spoke most for it, or an empty text."""


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    terms: Mapping[int, int]
    """Term code → 1 affirmed, 2 denied, 3 both."""
    small: frozenset[str]
    words: frozenset[str]
    turned: bool
    """Whether its denials, all together, turn it round."""


@dataclass(slots=True)
class _Asked:
    """The needs, indexed by term."""

    needs: Sequence[Need]
    by_term: dict[int, list[tuple[int, bool, float]]] = field(default_factory=dict)
    total: list[float] = field(default_factory=list)
    small: list[frozenset[str]] = field(default_factory=list)
    turned: list[bool] = field(default_factory=list)


@lru_cache(maxsize=1 << 13)
def _statement(text: str) -> _Statement:
    held: dict[int, int] = {}
    for key, denied, _ in terms(text):
        held[code(key)] = held.get(code(key), 0) | (2 if denied else 1)
    all_words = _words(text)
    return _Statement(text, held, frozenset(all_words) & DISTINGUISHING, frozenset(all_words), _turned(all_words))


def _words(text: str) -> list[str]:
    return words(text.replace("n't", " not").replace("n’t", " not"))


def _turned(all_words: Sequence[str]) -> bool:
    return sum(w in DENY or w in WEAKENING for w in all_words) % 2 == 1


def _asked(needs: Sequence[Need], weights: Mapping[int, float]) -> _Asked:
    asked = _Asked(needs)
    for j, need in enumerate(needs):
        total = 0.0
        for key, denied in {(key, denied) for key, denied, _ in need.terms}:
            weight = weights.get(code(key), 1.0)
            asked.by_term.setdefault(code(key), []).append((j, denied, weight))
            total += weight
        own = _words(need.text)
        asked.total.append(max(total, 1e-9))
        asked.small.append(frozenset(own) & DISTINGUISHING)
        asked.turned.append(_turned(own))
    return asked


def agreement(one: _Statement, asked: _Asked) -> NDArray[np.float64]:
    """φ(r, u) for every need: the mean of a reading term by term and a reading of the statement as a whole."""
    straight = np.zeros(len(asked.needs))
    mass = np.zeros(len(asked.needs))
    for key, polarity in one.terms.items():
        for j, denied, weight in asked.by_term.get(key, ()):
            mass[j] += weight
            straight[j] += weight if polarity & (2 if denied else 1) else OPPOSED * weight
    for j in np.flatnonzero(mass).tolist():
        whole = mass[j] * (1.0 if asked.turned[j] == one.turned else OPPOSED)
        small = SMALL * len(asked.small[j] & one.small)
        straight[j] = ((straight[j] + whole) / 2.0 + small) / (asked.total[j] + SMALL * len(asked.small[j]))
    return straight


def contrast(members: Sequence[Sequence[Reading]], needs: Sequence[Need], weights: Mapping[int, float]) -> Contrast:
    """What tells `members` apart for these needs. `weights` are the terms' rarities; terms not in it weigh 1."""
    asked = _asked(needs, weights)
    held = [dict(m) for m in members]
    everywhere = set(held[0]).intersection(*held[1:])
    own = [[_statement(t) for h, t in m.items() if h not in everywhere][:MAX_VARIANTS] for m in held]
    importance = np.array([n.weight for n in needs])
    values: dict[str, float] = {}
    for one in (s for member in own for s in member):
        if one.text not in values:
            values[one.text] = float((agreement(one, asked) * importance).sum())
    gain = np.array([sum(values[s.text] for s in member) for member in own])
    telling = tuple(max(((values[s.text], s.text) for s in m), default=(0.0, ""))[1] for m in own)
    return Contrast(gain, tuple(_clash(m, own, asked) for m in range(len(own))), telling)


def _clash(m: int, own: Sequence[Sequence[_Statement]], asked: _Asked) -> Clash | None:
    """The strongest contradiction of member `m` with what a sibling and the request say alike."""
    best: tuple[float, Clash] | None = None
    mine = {s.text for s in own[m]}
    for said in own[m]:
        for n, other in enumerate(own):
            if n == m:
                continue
            theirs = {s.text for s in other}
            for instead in other:
                if instead.text in mine or said.text in theirs or not _replaces(said, instead):
                    continue
                found = _opposed(said, instead, asked)
                if found and (best is None or found[0] > best[0]):
                    best = found[0], Clash(found[1], said.text, instead.text)
    return best[1] if best else None


def _replaces(one: _Statement, other: _Statement) -> bool:
    shared = len(one.words & other.words)
    return shared >= REPLACES * min(len(one.words), len(other.words)) and shared > 0


def _opposed(said: _Statement, instead: _Statement, asked: _Asked) -> tuple[float, int] | None:
    """(strength, need) where the request sides with `instead` and nothing in it sides with `said`."""
    common = said.terms.keys() & instead.terms.keys()
    theirs, mine = instead.terms.keys() - common, said.terms.keys() - common
    for_them = _mass(theirs, asked)
    for_me = _mass(mine, asked)
    best: tuple[float, int] | None = None
    if mine and not for_me.any():
        about = _mass(common, asked)
        strength = np.where(about + for_them >= 1.5 * for_them, for_them + about, for_them)
        j = int(strength.argmax())
        if for_them[j] > 0:
            j = int(np.where(for_them > 0, strength, -1.0).argmax())
            best = float(strength[j]), j
    if said.turned != instead.turned and not for_me.any():
        about = _mass(common, asked)
        sides = np.array([t == instead.turned for t in asked.turned])
        if about.any():
            j = int(about.argmax())
            against = about[~sides].max(initial=0.0)
            if sides[j] and about[j] > against and (best is None or about[j] > best[0]):
                best = float(about[j]), j
    return best


def _mass(keys: set[int] | Mapping[int, int], asked: _Asked) -> NDArray[np.float64]:
    found = np.zeros(len(asked.needs))
    for key in keys:
        for j, _, weight in asked.by_term.get(key, ()):
            found[j] += weight
    return found


def groups(shared: Sequence[Sequence[int]], extra: Sequence[tuple[int, int]] = ()) -> list[list[int]]:
    """Groups of two or more members that share at least `ALIKE` of their statements (CRC-32s), transitively.

    `extra` are pairs known to be look-alikes from elsewhere.
    """
    n = len(shared)
    sets = [frozenset(s) for s in shared]
    where: dict[int, list[int]] = {}
    for i, one in enumerate(sets):
        for h in one:
            where.setdefault(h, []).append(i)
    counts: dict[tuple[int, int], int] = {}
    for holders in where.values():
        for a in range(len(holders)):
            for b in range(a + 1, len(holders)):
                key = (holders[a], holders[b])
                counts[key] = counts.get(key, 0) + 1
    leader = list(range(n))

    def find(i: int) -> int:
        while leader[i] != i:
            i = leader[i]
        return i

    alike = [
        (i, j)
        for (i, j), c in counts.items()
        if c >= ALIKE * max(len(sets[i]), len(sets[j])) and min(len(sets[i]), len(sets[j])) >= MIN_STATEMENTS
    ]
    for i, j in (*alike, *extra):
        leader[find(i)] = find(j)
    found: dict[int, list[int]] = {}
    for i in range(n):
        found.setdefault(find(i), []).append(i)
    return [g for g in found.values() if len(g) > 1]
