"""Look-alikes told apart by what they do *not* share (SKALOS, methods 2.5a, and our answer to ties of max–min).

Near-copies share their weakest link, so their W is equal and max–min alone cannot order them. What all of a group say
cannot tell its members apart; so only the statements that some have and others lack are read:

    gain(s) = Σ over statements u of s that not all look-alikes have,  Σ over requirements r,  φ(r, u)

A statement that agrees with a requirement where its sibling says something else in its place makes the sibling a
*contradiction*: another number, unit, format, tool or method, or the denial turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from metier.late import dataclass
from metier.rerank.arrays import Stack
from metier.rerank.maxmin import OPPOSED
from metier.rerank.order import Order, compared, orders
from metier.rerank.request import Need
from metier.rerank.said import DISTINGUISHING, Said, alike, plain_words, reading
from metier.rerank.terms import code

ALIKE = 0.5
"""Share of the larger skill's statements that two look-alikes have in common [ours]: near-copies have over 0.8, skills
of one author's template under 0.4."""
MIN_STATEMENTS = 4
"""A text of fewer statements is too short to be called anyone's look-alike by what it shares."""
MIN_TERMS = 2
"""Terms of a statement that counts as shared: "Steps" and "Example" are headings of every other text."""
MAX_VARIANTS = 80
"""Statements of one member that are read for the contrast; look-alikes differ in few."""
ABOUT = 0.7
"""Share of the nearest requirement's match from which a statement is about another requirement as well [ours]."""
TOLD = 0.2
"""Share of a requirement's terms that the sibling must say in a statement's place before the statement contradicts it:
one word of ten in common is chance. Flat from 0.12 to 0.3 on 300 requests of training repositories [ours]."""
TURNED = 0.4
"""Share of a requirement's terms that a statement must have before its being turned round contradicts it [ours]."""
MAX_ENCODED = 64
"""Statements of one group that are encoded; where more differ, words decide alone and no request waits for long."""
MEANING = 0.1
"""Weight of a statement's best cosine with a requirement against the words they share; flat between 0.1 and 1 on
450 requests of training repositories (docs/decisions/0052)."""
DECIDED = 0.1
"""Lead in `gain` from which words have decided and nothing is encoded: as much as a statement's meaning can add."""
IN_ORDER = 0.5
"""What a statement gains that states an order which the request wants, and loses that states its opposite [ours]."""
SMALL = 0.35
"""Weight of a small word that distinguishes ("before", "first", "all") against a content word's [ours]."""
REPLACES = 0.5
"""Share of the shorter statement's words that two statements have in common when one stands in place of the other."""

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


@dataclass(slots=True)
class _Asked:
    """The needs, indexed by term."""

    needs: Sequence[Need]
    by_term: dict[int, list[tuple[int, bool, float]]] = field(default_factory=dict)
    total: list[float] = field(default_factory=list)
    small: list[frozenset[str]] = field(default_factory=list)
    orders: tuple[Order, ...] = ()
    """What the request wants before what."""
    denied: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Weight of what each need denies."""


def _asked(needs: Sequence[Need], weights: Mapping[int, float]) -> _Asked:
    asked = _Asked(needs, denied=np.zeros(len(needs)), orders=orders(", ".join(n.text for n in needs)))
    for j, need in enumerate(needs):
        total = 0.0
        for key, denied in {(key, denied) for key, denied, _ in need.terms}:
            weight = weights.get(code(key), 1.0)
            asked.by_term.setdefault(code(key), []).append((j, denied, weight))
            total += weight
            asked.denied[j] += weight * denied
        own = plain_words(need.text)
        asked.total.append(max(total, 1e-9))
        asked.small.append(frozenset(own) & DISTINGUISHING)
    return asked


def agreement(one: Said, asked: _Asked) -> NDArray[np.float64]:
    """φ(r, u) for every need: the mean of a reading term by term and a reading of the statement as a whole."""
    straight, mass, refused, turned = (np.zeros(len(asked.needs)) for _ in range(4))
    for key, polarity in one.terms.items():
        for j, denied, weight in asked.by_term.get(key, ()):
            mass[j] += weight
            refused[j] += weight * denied
            turned[j] += weight * (one.refuses or key in one.turned)
            straight[j] += weight if polarity & (2 if denied else 1) else OPPOSED * weight
    share = mass / np.array(asked.total)
    nearest = ABOUT * share.max(initial=0.0)
    sides = _sides(one, asked)
    for j in np.flatnonzero(mass).tolist():
        small = SMALL * len(asked.small[j] & one.small)
        if sides is not None:
            straight[j] = mass[j] * (1.0 if sides else OPPOSED)
        elif share[j] >= nearest:
            whole = mass[j] * (1.0 if (2.0 * refused[j] > mass[j]) == (2.0 * turned[j] > mass[j]) else OPPOSED)
            straight[j] = (straight[j] + whole) / 2.0
        else:  # another requirement is what the statement is about: whether it denies says nothing about this one
            straight[j] = mass[j]
        straight[j] = (straight[j] + small) / (asked.total[j] + SMALL * len(asked.small[j]))
    return straight


def _sides(one: Said, asked: _Asked) -> bool | None:
    """Whether a statement denies what the request denies; None where it has no term that the request denies.

    What a request denies it says once and means; the things it is about it affirms in passing ("get me that cup … it
    must not be covered"). So "do not cover the cup" agrees as a whole, although the cup itself is wanted.
    """
    for_it, against = np.zeros(len(asked.needs)), np.zeros(len(asked.needs))
    for key, polarity in one.terms.items():
        for j, denied, weight in asked.by_term.get(key, ()):
            if denied:
                (for_it if polarity & 2 or key in one.turned else against)[j] += weight
    enough = (asked.denied > 0) & (for_it + against >= TURNED * asked.denied)
    side = float((for_it - against)[enough].sum())
    return None if side == 0.0 else side > 0.0


def contrast(
    members: Sequence[Sequence[Reading]],
    needs: Sequence[Need],
    weights: Mapping[int, float],
    cosines: Callable[[Sequence[str]], NDArray[np.float64]] | None = None,
) -> Contrast:
    """What tells `members` apart for these needs. `weights` are the terms' rarities; terms not in it weigh 1.

    `cosines` maps statements to their cosines with each need, (statements, needs); without it words alone decide.
    """
    asked = _asked(needs, weights)
    held = [dict(m) for m in members]
    everywhere = set(held[0]).intersection(*held[1:])
    own = [[reading(t) for h, t in m.items() if h not in everywhere][:MAX_VARIANTS] for m in held]
    importance = np.array([n.weight for n in needs])
    distinct = {s.text: s for member in own for s in member}
    values = {text: float((agreement(one, asked) * importance).sum()) for text, one in distinct.items()}
    if asked.orders:
        for text in values:
            values[text] += IN_ORDER * compared(asked.orders, orders(text))
    gain = np.array([sum(values[s.text] for s in member) for member in own])
    if cosines is not None and 0 < len(distinct) <= MAX_ENCODED and _lead(gain) < DECIDED:
        order = sorted(distinct)
        near = np.asarray(cosines(order), dtype=np.float64).max(axis=1)
        for text, value in zip(order, near.tolist(), strict=True):
            values[text] += MEANING * max(value, 0.0)
        gain = np.array([sum(values[s.text] for s in member) for member in own])
    telling = tuple(max(((values[s.text], s.text) for s in m), default=(0.0, ""))[1] for m in own)
    return Contrast(gain, tuple(_clash(m, own, asked) for m in range(len(own))), telling)


def _lead(gain: NDArray[np.float64]) -> float:
    """How far the best member is ahead of the next one."""
    first = np.sort(gain)[::-1]
    return float(first[0] - first[1]) if len(first) > 1 else np.inf


def _clash(m: int, own: Sequence[Sequence[Said]], asked: _Asked) -> Clash | None:
    """The strongest contradiction of member `m` with what a sibling and the request say alike."""
    best: tuple[float, Clash] | None = None
    mine = {s.text for s in own[m]}
    for n, others in enumerate(own):
        if n == m:
            continue
        theirs = {s.text for s in others}
        free = [s for s in others if s.text not in mine and not asked.by_term.keys().isdisjoint(s.terms)]
        for said in own[m]:
            if said.text in theirs:
                continue
            instead = max(free, key=lambda s: (alike(said, s), s.text), default=None)
            if instead is None or alike(said, instead) < REPLACES:
                continue
            found = _opposed(said, instead, asked)
            if found and (best is None or found[0] > best[0]):
                best = found[0], Clash(found[1], said.text, instead.text)
    return best[1] if best else None


def _opposed(said: Said, instead: Said, asked: _Asked) -> tuple[float, int] | None:
    """(strength, need) where the request sides with `instead` and nothing in it sides with `said`."""
    common = said.terms.keys() & instead.terms.keys()
    theirs = _mass({k: v for k, v in instead.terms.items() if k not in common}, asked)
    mine = _mass({k: v for k, v in said.terms.items() if k not in common}, asked)
    if (mine.agrees + mine.clashes + theirs.clashes).any():
        return None
    about = _mass(dict.fromkeys(common, 1), asked)
    best: tuple[float, int] | None = None
    for_them = theirs.agrees
    told = for_them >= TOLD * np.array(asked.total)
    if len(said.terms) > len(common) and told.any():
        strength = np.where(for_them > 0, for_them + about.agrees + about.clashes, -1.0)
        best = float(strength.max()), int(strength.argmax())
    turned = [k for k in common if said.denies(k) != instead.denies(k)]
    at_stake = _mass(dict.fromkeys(turned, 1), asked)
    denies = bool(at_stake.clashes.any())  # as in `_sides`: one denial outweighs affirmed mentions
    whole = about.agrees + about.clashes
    if denies:
        enough = (at_stake.clashes > 0) & (at_stake.clashes >= TURNED * asked.denied)
    else:  # where a need denies something of its own, what it merely mentions may be turned round either way
        enough = (at_stake.agrees > 0) & (whole >= TURNED * np.array(asked.total)) & (asked.denied <= 0)
    if not denies:  # the request must speak of what is denied, and not only of its object
        heads = said.heads | instead.heads
        enough &= not heads or not heads.isdisjoint(asked.by_term)
    if enough.any() and any(instead.denies(k) == denies for k in turned):
        weight = np.where(enough, whole, -1.0)
        if best is None or weight.max() > best[0]:
            best = float(weight.max()), int(weight.argmax())
    return best


@dataclass(frozen=True, slots=True)
class _Mass:
    """Weight of some terms in each need: where the need wants them or denies them too, and where it denies them.

    A term that the need wants counts even where the statement denies it: "never assume cluster 7 is stable" still
    speaks of the cluster 7 that was asked about.
    """

    agrees: NDArray[np.float64]
    clashes: NDArray[np.float64]


def _mass(polarities: Mapping[int, int], asked: _Asked) -> _Mass:
    found = _Mass(np.zeros(len(asked.needs)), np.zeros(len(asked.needs)))
    for key, polarity in polarities.items():
        for j, denied, weight in asked.by_term.get(key, ()):
            (found.clashes if denied and not polarity & 2 else found.agrees)[j] += weight
    return found


def groups(stack: Stack, families: Sequence[str | None] = ()) -> list[list[int]]:
    """Groups of two or more skills that share at least `ALIKE` of their statements, transitively.

    Texts of fewer than `MIN_STATEMENTS` count only where both are of one family, as the index knows it.
    """
    n = len(stack.nodes) - 1
    counts, sizes = _overlaps(stack)
    larger = np.maximum(sizes[:, None], sizes[None, :])
    enough = np.minimum(sizes[:, None], sizes[None, :]) >= MIN_STATEMENTS
    for i, one in enumerate(families):
        for j in range(i + 1, n):
            enough[i, j] |= one is not None and one == families[j]
    close = (counts >= ALIKE * larger) & (counts > 0) & enough
    return joined(n, [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(close, 1)), strict=True)])


def joined(n: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Groups of two or more of `n` members that pairs connect, directly or through others."""
    leader = list(range(n))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for i, j in pairs:
        leader[find(i)] = find(j)
    found: dict[int, list[int]] = {}
    for i in range(n):
        found.setdefault(find(i), []).append(i)
    return [g for g in found.values() if len(g) > 1]


def sharing(outlines: Sequence[frozenset[int]]) -> frozenset[int]:
    """Members that share at least `ALIKE` of the larger one's lines with another: near-copies."""
    where: dict[int, list[int]] = {}
    for i, lines in enumerate(outlines):
        for line in lines:
            where.setdefault(line, []).append(i)
    counts: dict[tuple[int, int], int] = {}
    for holders in where.values():
        for a, i in enumerate(holders):
            for j in holders[a + 1 :]:
                counts[i, j] = counts.get((i, j), 0) + 1
    close = [(i, j) for (i, j), c in counts.items() if c >= ALIKE * max(len(outlines[i]), len(outlines[j]))]
    return frozenset(i for pair in close for i in pair)


def _overlaps(stack: Stack) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(statements that skills i < j share, statements of each skill); a statement counts once a skill."""
    n = len(stack.nodes) - 1
    each, _, place = stack.distinct
    says = np.diff(stack.starts) >= MIN_TERMS
    holds = np.zeros((n, len(each)), dtype=bool)
    holds[np.repeat(np.arange(n), np.diff(stack.nodes))[says], place[says]] = True
    shared = holds[:, holds.sum(axis=0) > 1]  # what one skill alone says cannot be shared
    # As integers, not as a matrix product: BLAS threads wait for each other on busy cores, bits do not.
    bits = [int.from_bytes(row.tobytes(), "big") for row in np.packbits(shared, axis=1)]
    counts = np.zeros((n, n), dtype=np.int64)
    for i, one in enumerate(bits):
        if one:
            counts[i, i + 1 :] = [(one & other).bit_count() for other in bits[i + 1 :]]
    return counts, holds.sum(axis=1)
