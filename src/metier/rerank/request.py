"""Request → requirements: what one implementation has to cover, all of it (SKALOS, methods 2.1, 2.6).

Clauses become requirements with a type, a weight (a wish weighs less than a must) and a group (alternatives joined by
"or": the best member counts). Quantities, versions, formats and denials are read as such by `terms`.
"""

from __future__ import annotations

import re

from metier.late import dataclass, pattern
from metier.rerank.extract import LIMIT
from metier.rerank.graph import NodeType
from metier.rerank.terms import Term, terms

MAX_NEEDS = 24
"""Requirements read from one request; a pasted log has thousands of lines and few wishes."""
MAX_CHARS = 6_000
LABEL = 60
"""Characters of a requirement as people are shown it."""
WISH = 0.5
"""Weight of "ideally …": failing it caps the witness at 1 − 0.5 [ours]."""

_SENTENCE = pattern(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？]))|\n+|[;；]\s*")
_CUT = pattern(
    r"\s*[,:，、：]\s+|\s+[-–—]\s+|\s*[()]\s*|[，、：]|"
    r"\s+(?:and then|and also|as well as|but|then|while|plus|and|und|et|y|e)\s+|"
    r"\s+(?=(?:without|except|instead of|rather than|ideally|preferably)\s)"
)
_WISH = pattern(
    r"\b(?:ideally|preferably|prefer(?:red|ence)?|if possible|nice to have|would be nice|bonus|optional(?:ly)?|"
    r"if you can|best if|rather|idealerweise|am liebsten|de préférence|idéalement|preferiblemente)\b",
    re.IGNORECASE,
)
_EITHER = pattern(r"\s+(?:or|oder|ou|o)\s+", re.IGNORECASE)
_FILLER = pattern(
    r"^(?:(?:and|then|also|but|please|so|plus|with|it|to|i'?d|i|we|you|want|need|like|have|should|must)\s+)+", re.I
)


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement of a request."""

    text: str
    type: NodeType
    terms: tuple[Term, ...]
    weight: float = 1.0
    """1 for what is demanded, less for what is wished."""
    group: int = 0
    """Needs of one group are alternatives."""

    @property
    def label(self) -> str:
        """Its own words, cut where they get long, for people."""
        said = _FILLER.sub("", self.text.strip(" \t.,;:!?\"'")) or self.text
        return said if len(said) <= LABEL else f"{said[:LABEL].rsplit(None, 1)[0].rstrip(' ,;:')} …"


def needs(text: str) -> tuple[Need, ...]:
    """The requirements of a request in order, at most `MAX_NEEDS`; empty when it states none."""
    found: list[Need] = []
    group = 0
    for sentence in _SENTENCE.split(text[:MAX_CHARS]):
        wished = bool(_WISH.search(sentence))
        for clause in _clauses(sentence):
            weight = WISH if _WISH.search(clause) or (wished and sentence.index(clause) > _at(sentence)) else 1.0
            for option in _options(clause):
                read = tuple(dict.fromkeys(terms(option)))
                if read:
                    found.append(Need(option, _type(option, read), read, weight, group))
            group += 1
            if len(found) >= MAX_NEEDS:
                return tuple(found[:MAX_NEEDS])
    return tuple(found)


def _at(sentence: str) -> int:
    match = _WISH.search(sentence)
    return match.start() if match else 0


def _clauses(sentence: str) -> list[str]:
    """Pieces of a sentence that say something each; a piece with fewer than two terms stays with the one before it."""
    pieces, start = [], 0
    for cut in _CUT.finditer(sentence):
        pieces.append((start, cut.start()))
        start = cut.end()
    pieces.append((start, len(sentence)))
    joined: list[tuple[int, int]] = []
    for begin, end in pieces:
        if joined and (len(terms(sentence[begin:end])) < 2 or len(terms(sentence[joined[-1][0] : joined[-1][1]])) < 2):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return [sentence[b:e].strip() for b, e in joined if sentence[b:e].strip()]


def _options(clause: str) -> list[str]:
    """The clause once per alternative that "or" joins: "as CSV or Parquet" → "as CSV", "as Parquet"."""
    parts = _EITHER.split(clause)
    if len(parts) != 2 or not terms(parts[0]) or not terms(parts[1]):
        return [clause]
    if any(denied for _, denied, _ in terms(clause)):  # "no npm or pnpm" denies both
        return [clause]
    left, right = parts[0].split(), parts[1].split()
    if len(right) > 4 or not left:
        return [clause]
    return [parts[0], " ".join([*left[:-1], *right])]


def _type(text: str, read: tuple[Term, ...]) -> NodeType:
    if any(denied or key.startswith("#") for key, denied, _ in read) or LIMIT.search(text):
        return "constraint"
    return "artifact" if len(read) == 1 else "capability"
