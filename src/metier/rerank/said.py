"""How one statement is read when look-alikes are compared: its terms, what it denies, and how (SKALOS, methods 2.5a).

Polarity is read twice: term by term, as `terms` marks them, and by clause, where the denials of a clause together turn
it round. The two disagree on long sentences, and `contrast` takes their mean (docs/decisions/0053).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from metier.late import dataclass, pattern
from metier.rerank.terms import AFFIRM_AFTER, DENY, OPPOSITE, code, listed, terms
from metier.text import words

OPENING = 3
"""Words with which a statement opens: "Do not …", "Skip this: …", "You must never …"."""
DISTINGUISHING = listed(
    """before after first last all each every any only always same different new existing own more less least most at
    over under within between per above below until once both either top up down again early late later further few
    several single multiple one short long high low full half local global keep keeps include includes add adds create
    creates start starts end ends"""
)
WEAKENING = listed(
    """optional optionally unnecessary needless ignore ignores ignoring ignored freely allowed permitted skippable
    unrestricted unverified unchecked lax"""
)
"""Words that take an obligation back; together with the denials they turn a statement round."""

FORWARD = listed(
    "without instead rather no nor neither except excluding exclude avoid avoiding never ohne sans sin sem"
)
"""Denials that reach forward only: in "with a password and without a login" the password stays. Others deny what stands
before them as well: "manual edits are not allowed"."""

_NOT = pattern(r"n['’]t\b", re.IGNORECASE)
_CLAUSE = pattern(r"[.:;,!?()]\s|\s[-–—]+\s|—")


@dataclass(frozen=True, slots=True)
class Said:
    """One statement, read."""

    text: str
    terms: Mapping[int, int]
    """Term code → 1 affirmed, 2 denied, 3 both."""
    small: frozenset[str]
    words: frozenset[str]
    heads: frozenset[int]
    """The first term of each run of denied ones: in "never blend the scores" what is denied is the blending."""
    turned: frozenset[int]
    """Terms that stand in a clause which its denials, all together, turn round."""
    refuses: bool
    """Whether it opens with a denial ("Never …", "Skip this: …"), which then is what the statement as a whole does."""

    def denies(self, key: int) -> bool:
        """Whether the statement denies this term of it."""
        return bool(self.terms[key] & 2) or key in self.turned


@lru_cache(maxsize=1 << 13)
def reading(text: str) -> Said:
    """The statement as the contrast sees it; kept, since look-alikes say most things alike."""
    held: dict[int, int] = {}
    heads, before = set[int](), False
    for key, denied, _ in terms(text):
        held[code(key)] = held.get(code(key), 0) | (2 if denied else 1)
        if denied and not before:
            heads.add(code(key))
        before = denied
    turned: set[int] = set()
    opening: bool | None = None
    for clause in _CLAUSE.split(text.replace("left out", "excluded")):
        said = plain_words(clause)
        if opening is None:
            opening = _refusals(said[:OPENING]) % 2 == 1
        if _refusals(said) % 2:
            first = next((w for w in said if w in DENY), "")
            found = re.search(rf"(?<!\w){re.escape(first)}(?!\w)", clause.lower()) if first in FORWARD else None
            turned.update(code(key) for key, _, _ in terms(clause[found.start() if found else 0 :]))
    said = plain_words(text)
    all_words = frozenset(said)
    return Said(text, held, all_words & DISTINGUISHING, all_words, frozenset(heads), frozenset(turned), bool(opening))


def _refusals(said: Sequence[str]) -> int:
    """How many words of a clause deny; "must not exceed" and "not only" do not."""
    return sum(
        (w in DENY and (n + 1 == len(said) or said[n + 1] not in AFFIRM_AFTER)) or w in WEAKENING or w in OPPOSITE
        for n, w in enumerate(said)
    )


def plain_words(text: str) -> list[str]:
    """Its words in small letters, "n't" as a word of its own."""
    return words(_NOT.sub(" not", text))


def likeness(one: str, other: str) -> float:
    """Share of words that two statements have in common; from `REPLACES` one stands in the place of the other."""
    return alike(reading(one), reading(other))


def alike(one: Said, other: Said) -> float:
    """Share of words in common (Dice); 1 for the same words in any order."""
    return 2.0 * len(one.words & other.words) / max(len(one.words) + len(other.words), 1)
