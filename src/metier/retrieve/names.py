"""A skill asked for by its name is found, whatever the vectors say (SkillRep's retriever, rule 1.14a; field report 22).

Asked for: `/name`, `$name`, the quoted name, "the X skill", a name of several parts joined as names are (`pdf-tables`)
or of three and more plain words, or the whole request. One or two plain words that happen to be a name (436 of 12,610
public skills are called `code`, `review`, `run` …) are only a bonus. Words are compared whole, never inside others
(field report 4), and the request is never parsed as a query language (field report 13).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metier.retrieve.bm25 import Hashes, term_hashes
from metier.text import words

PARTS = 8
"""Names of more words than this are found by the whole request, quotes or `/` only."""
PLAIN_PARTS = 3
"""So many plain words in a row are no accident."""
PREFIX_CHARS = 4
"""A marked beginning of at least this many characters stands for the names that begin so …"""
PREFIX_NAMES = 5
"""… if there are at most this many."""
QUOTED_CHARS = 80
WHOLE_WORDS = 12

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that the order of words changes the sum (Knuth's multiplier)
_MARKED = re.compile(r"(?<![\w/.~$\\-])[/$]([^\W\d_][\w:-]*)(?![\w/\\]|\.\w)")
_QUOTED = re.compile(
    r'"([^"\n]{1,80})"|`([^`\n]{1,80})`|“([^”\n]{1,80})”|«([^»\n]{1,80})»|「([^」\n]{1,80})」|(?<!\w)\'([^\'\n]{1,80})\'(?!\w)'
)
_JOINED = re.compile(r"(?<![\w/.$@\\-])[^\W_]+(?:[-_:][^\W_]+)+(?![\w/\\(=-]|\.\w)")
_SKILL = frozenset({"skill", "skills", "技能"})


def name_hashes(hashes: Hashes, length: int) -> Hashes:
    """uint64 per run of `length` words, in order: one number for a sequence of words."""
    count = len(hashes) - length + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    mixed = np.full(count, length, np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(length):
            mixed = mixed * _MIX + hashes[offset : offset + count]
    return mixed


def name_hash(parts: Sequence[str]) -> int:
    """The number of one name."""
    return int(name_hashes(term_hashes(parts), len(parts))[0]) if parts else 0


@dataclass(frozen=True, slots=True)
class Named:
    """Rows that a request names, each with how people would say so."""

    asked: Mapping[int, str] = field(default_factory=dict)
    """On purpose: these pass always."""
    touched: Mapping[int, str] = field(default_factory=dict)
    """By plain words: a bonus."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a library: by hash of their words for look-ups, in order of their text for prefixes."""

    hashes: Hashes
    """(N,) sorted."""
    rows: NDArray[np.int32]
    """(N,) the skill of each hash."""
    text: NDArray[np.uint8]
    """Normalised names one after the other, sorted."""
    ends: NDArray[np.int64]
    """(N,) where each ends in `text`."""
    sorted_rows: NDArray[np.int32]
    """(N,) the skill of each name in `text`."""

    def exactly(self, parts: Sequence[str]) -> list[int]:
        """Rows whose name consists of just these words."""
        if not parts:
            return []
        wanted = np.uint64(name_hash(parts))
        first, last = np.searchsorted(self.hashes, wanted), np.searchsorted(self.hashes, wanted, "right")
        return sorted(self.rows[first:last].tolist())

    def beginning(self, parts: Sequence[str]) -> list[int]:
        """Rows whose name begins with these words (the last one may be cut), if they are few."""
        start = " ".join(parts).encode("utf-8", "surrogatepass")
        if len(start) < PREFIX_CHARS:
            return []
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high) // 2
            if self._name(middle) < start:
                low = middle + 1
            else:
                high = middle
        found: list[int] = []
        while low < len(self.ends) and len(found) <= PREFIX_NAMES and self._name(low).startswith(start):
            found.append(int(self.sorted_rows[low]))
            low += 1
        return sorted(found) if len(found) <= PREFIX_NAMES else []

    def _name(self, place: int) -> bytes:
        return self.text[self.ends[place - 1] if place else 0 : self.ends[place]].tobytes()

    def find(self, text: str) -> Named:
        """Which skills the request names, on purpose or by the way."""
        asked: dict[int, str] = {}
        for parts, how, marked in _mentions(text):
            rows = self.exactly(parts) or (self.beginning(parts) if marked else [])
            for row in rows:
                asked.setdefault(row, how)
        touched: dict[int, str] = {}
        found = words(text)
        hashes = term_hashes(found)
        for length in range(1, min(PARTS, len(found)) + 1):
            mixed = name_hashes(hashes, length)
            at = np.minimum(np.searchsorted(self.hashes, mixed), max(len(self.hashes) - 1, 0))
            for place in np.flatnonzero(self.hashes[at] == mixed) if len(self.hashes) else ():
                parts = found[place : place + length]
                by_skill = found[place + length : place + length + 1]
                said = (by_skill and by_skill[0] in _SKILL) or (place and found[place - 1] in _SKILL)
                for row in self.exactly(parts):
                    if said or length >= PLAIN_PARTS:
                        asked.setdefault(row, f"named: {' '.join(parts)}")
                    else:
                        touched.setdefault(row, f"shares its name with “{' '.join(parts)}”")
        return Named(asked, {row: how for row, how in touched.items() if row not in asked})


def _mentions(text: str) -> Iterator[tuple[list[str], str, bool]]:
    """(words of a name, how it was said, whether a beginning of it will do), for every way of marking a name."""
    plain = unicodedata.normalize("NFKC", text)
    whole = words(plain)
    if 0 < len(whole) <= WHOLE_WORDS:
        yield whole, "the whole request is its name", len(plain.split()) == 1
    for found in _MARKED.finditer(plain):
        said = found.group(1)
        if said == said.lower() or said != said.upper():  # $HOME is a variable
            yield words(said), f"named: {found.group(0)}", True
            if ":" in said:
                yield words(said.rpartition(":")[2]), f"named: {found.group(0)}", True
    for found in _QUOTED.finditer(plain):
        yield words(next(part for part in found.groups() if part)), f"named: {found.group(0)}", False
    for found in _JOINED.finditer(plain):
        yield words(found.group(0)), f"named: {found.group(0)}", False


def name_arrays(names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """The arrays of a `Names` over these names, row by row."""
    split = [words(name) for name in names]
    hashes = np.fromiter((name_hash(parts) for parts in split), np.uint64, len(split))
    order = np.lexsort((np.arange(len(split)), hashes))
    plain = [" ".join(parts).encode("utf-8", "surrogatepass") for parts in split]
    by_text = sorted(range(len(plain)), key=lambda row: (plain[row], row))
    ends = np.cumsum([len(plain[row]) for row in by_text], dtype=np.int64)
    return {
        "name-hashes": hashes[order],
        "name-rows": order.astype(np.int32),
        "name-text": np.frombuffer(b"".join(plain[row] for row in by_text), np.uint8),
        "name-ends": ends,
        "name-sorted-rows": np.array(by_text, np.int32),
    }
