"""A skill asked for by its name is found, whatever the vectors say (rule 1.14a; field report 22).

Asked for: `/name`, `$name`, the quoted name, "the X skill", "use X", or the whole request. A name of several parts in
running text (`pdf-tables`) is always on the slate, well ahead of skills as good but not named; one or two plain words
that happen to be a name (436 of 12,610 public skills are called `code`, `review`, `run` …) are a small bonus. Words are
compared whole, never inside others (field report 4), and a request is never parsed as a query language (report 13).

The guards below were each put in for requests that mean no skill: routes (`GET /search`), PHP's `$rate = …`, JSON's
`"code":`, hyphenated English (`client-side`). Decision 0034 counts them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from metier.late import dataclass, pattern
from metier.retrieve.bm25 import Hashes, term_hashes
from metier.text import words

PARTS = 8
"""Names of more words than this are found by the whole request or in quotes only."""
PLAIN_PARTS = 3
"""So many plain words in a row count as a name of several parts."""
PREFIX_CHARS = 4
"""A marked beginning of at least this many characters stands for the names that begin so …"""
PREFIX_NAMES = 5
"""… if there are at most this many."""
SHORT_WORDS = 12
"""In a request of at most this many words a quoted plain word is meant, and the whole of it may be a name."""
PARTS_BONUS = 3.0
"""z for a name of several parts in running text: more than a fused channel spreads between rank 1 and 10."""
PLAIN_BONUS = 1.0
"""z for plain words, times their share of the request: half a z in "please review", nothing in a page of text."""

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that the order of words changes the sum (Knuth's multiplier)
_WORDS = r"[^\W_]+(?:[-_:][^\W_]+)*"
_MARKED = pattern(rf"(?:(?<=\s)|\A)[/$](?P<name>{_WORDS})(?=[\s.,;!?)'\"]|\Z)(?!\s*(?:=|->|\[))(?!\.\w)")
_QUOTED = pattern(
    r"\"([^\"\n]{1,80})\"(?!\s*:)|`([^`\n]{1,80})`|“([^”\n]{1,80})”|«([^»\n]{1,80})»|「([^」\n]{1,80})」"
    r"|(?<!\w)'([^'\n]{1,80})'(?!\w)"
)
_JOINED = pattern(r"(?<![\w/.$@:\\-])[^\W_]+(?:[-_][^\W_]+)+(?![\w/\\(=:-]|\.\w)")
_USED = pattern(rf"\b(?:use|using|run|invoke|apply|load|via|try|follow)[ ]+(?P<name>{_WORDS})(?![\w/\\(=-]|\.\w)", re.I)
_SKILL = pattern(
    r"(?<!\S)(?P<before>(?:[^\s/\\.]+[ ]){1,8})skills?\b(?![/\\.-])|技能[ ]*[:：「“]?(?P<after>[\w-]+)", re.I
)
_CALLED = pattern(r"\bskills?[ ]+(?:named|called)[ ]+[\"'`“]?(?P<name>[\w:-]+(?:[ ][\w-]+){0,3})", re.I)


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
    """On purpose: these come first."""
    parts: Mapping[int, str] = field(default_factory=dict)
    """By a name of several parts in running text: always on the slate."""
    plain: Mapping[int, float] = field(default_factory=dict)
    """By plain words: the bonus in z."""

    @property
    def always(self) -> list[int]:
        """Rows that pass the floor and are shown even if they hide."""
        return [*self.asked, *self.parts]

    def bonus(self, row: int) -> tuple[float, str | None]:
        """z to add for a row, and why."""
        if row in self.parts:
            return PARTS_BONUS, self.parts[row]
        if row in self.plain:
            return self.plain[row], "a word of the request is its name"
        return 0.0, None


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
        plain = unicodedata.normalize("NFKC", text)
        found = words(plain)
        asked: dict[int, str] = {}
        for said, how, prefix in _mentions(plain, len(found)):
            rows = self.exactly(words(said)) or (self.beginning(words(said)) if prefix else [])
            for row in rows:
                asked.setdefault(row, how)
        parts: dict[int, str] = {}
        for joined in _JOINED.finditer(plain) if "-" in plain or "_" in plain else ():
            for row in self.exactly(words(joined.group(0))):
                parts.setdefault(row, f"named: {joined.group(0)}")
        touched: dict[int, float] = {}
        for length, place in self._runs(found):
            run = found[place : place + length]
            for row in self.exactly(run):
                if length >= PLAIN_PARTS:
                    parts.setdefault(row, f"named: {' '.join(run)}")
                else:
                    touched[row] = PLAIN_BONUS * length / len(found)
        return Named(
            asked,
            {row: how for row, how in parts.items() if row not in asked},
            {row: z for row, z in touched.items() if row not in asked and row not in parts},
        )

    def _runs(self, found: Sequence[str]) -> Iterator[tuple[int, int]]:
        """(length, place) of every run of words that is some skill's name."""
        if not len(self.hashes):
            return
        hashes = term_hashes(found)
        for length in range(1, min(PARTS, len(found)) + 1):
            mixed = name_hashes(hashes, length)
            at = np.minimum(np.searchsorted(self.hashes, mixed), len(self.hashes) - 1)
            for place in np.flatnonzero(self.hashes[at] == mixed).tolist():
                yield length, place


def _mentions(text: str, count: int) -> Iterator[tuple[str, str, bool]]:
    """(what may be a name, how it was said, whether the beginning of a name will do), for names said on purpose."""
    if 0 < count <= SHORT_WORDS:
        yield text, "the whole request is its name", _several(text) and not text.strip().count(" ")
    plain = text.isascii()  # then a few looks tell which patterns cannot match; compiling one costs a cold route 0.3 ms
    for found in _MARKED.finditer(text) if "/" in text or "$" in text else ():
        said, opens = found["name"], not text[: found.start()].strip()
        if _several(said) or opens:  # a plain word after a slash is a route or a folder, unless it opens the request
            yield said, f"named: {found.group(0)}", _several(said) or count <= 2
            if ":" in said:
                yield said.rpartition(":")[2], f"named: {found.group(0)}", False
    for found in _QUOTED.finditer(text) if not plain or any(mark in text for mark in "\"`'") else ():
        said = next(part for part in found.groups() if part)
        if _several(said) or count <= SHORT_WORDS:
            yield said, f"named: {found.group(0)}", False
    for found in _USED.finditer(text) if not plain or any(mark in text for mark in "-_:") else ():
        if _several(found["name"]):
            yield found["name"], f"named: {found['name']}", False
    skill = not plain or "skill" in text.lower()
    for found in _CALLED.finditer(text) if skill else ():
        pieces = found["name"].split()
        yield from ((" ".join(pieces[:n]), f"named: {found.group(0)}", False) for n in range(len(pieces), 0, -1))
    for found in _SKILL.finditer(text) if skill else ():
        if found["after"]:
            yield found["after"], f"named: {found['after']}", False
            continue
        pieces = found["before"].split()
        yield from ((" ".join(pieces[n:]), f"named: {' '.join(pieces[n:])} skill", False) for n in range(len(pieces)))


def _several(said: str) -> bool:
    return len(words(said)) > 1


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
