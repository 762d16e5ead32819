"""Building BM25's arrays in bounded memory, and from an earlier index where a skill has not changed.

A posting is (term hash, document, term frequency). Fresh ones are spilled to disk in buckets of the hash once there are
more than `SPILL` of them, so a library of 100,000 long skills (some 45 million postings) is built in a few hundred MB.
An earlier index holds the same triples for unchanged skills: they are renumbered, never counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.retrieve.bm25 import Bm25, Hashes, idf, impacts, term_hash
from metier.retrieve.generation import Array, Writer
from metier.text import words

SPILL = 4_000_000
"""Postings held in memory before they go to disk: 14 bytes each, and a few copies while they are sorted."""
BUCKETS = 64
"""Parts of the hash range, sorted one at a time."""
MEMO = 400_000
"""Words whose hash is remembered while building: every frequent word is met long before that many."""
PLAIN_SHARE = 4
"""A term in more than one document of this many also gets a plain row: it then costs at most twice its postings."""

_POSTING = np.dtype([("term", "<u8"), ("doc", "<i4"), ("tf", "<u2")])
_TF_MAX = 65_535  # BM25 saturates long before: 65,535 occurrences score as more would
Postings = NDArray[Any]


class Tally:
    """Counts words of documents; `write` turns what was counted into the arrays of a `Bm25`."""

    def __init__(self, documents: int) -> None:
        self.lengths = np.zeros(documents, np.int64)
        self._memo: dict[str, int] = {}
        self._held: list[Postings] = []
        self._count = 0
        self._spool: Any = None
        self._files: list[Any] = []
        self._terms: list[Hashes] = []
        self._df: list[NDArray[np.int64]] = []

    def add(self, doc: int, text: str) -> None:
        """Document number `doc` has the words of `text`."""
        found = words(text)
        counts = Counter(found)
        rows = np.empty(len(counts), _POSTING)
        rows["term"] = np.fromiter(map(self._hash, counts), np.uint64, len(counts))
        rows["doc"] = doc
        rows["tf"] = np.minimum(np.fromiter(counts.values(), np.int64, len(counts)), _TF_MAX)
        self.lengths[doc] = len(found)
        self._held.append(rows)
        self._count += len(rows)
        if self._count >= SPILL:
            self._spill()

    def _hash(self, word: str) -> int:
        known = self._memo.get(word)
        if known is None:
            known = term_hash(word)
            if len(self._memo) < MEMO:
                self._memo[word] = known
        return known

    def _spill(self) -> None:
        if self._spool is None:
            import tempfile

            self._spool = tempfile.TemporaryDirectory(prefix="metier-postings-")
            folder = Path(self._spool.name)
            self._files = [open(folder / str(n), "w+b") for n in range(BUCKETS)]  # noqa: SIM115, PTH123
        rows = np.concatenate(self._held) if self._held else np.empty(0, _POSTING)
        self._held, self._count = [], 0
        bucket = (rows["term"] >> np.uint64(58)).astype(np.int64)  # the 6 highest bits: 64 buckets
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
        for number, file in enumerate(self._files):
            file.write(rows[order[edges[number] : edges[number + 1]]].tobytes())

    def _parts(self, earlier: Earlier | None) -> Iterator[Postings]:
        """All postings in parts of ascending term, each part sorted by (term, document)."""
        if self._spool is None and (earlier is None or len(earlier.index.docs) < SPILL):
            fresh = np.concatenate(self._held) if self._held else np.empty(0, _POSTING)
            yield _sorted(fresh, earlier.between(0, None) if earlier else None)
            return
        self._spill()
        for number, file in enumerate(self._files):
            file.seek(0)
            fresh = np.frombuffer(file.read(), _POSTING)
            low, high = number << 58, (number + 1) << 58
            kept = earlier.between(low, high if number + 1 < BUCKETS else None) if earlier else None
            yield _sorted(fresh, kept)

    def write(self, writer: Writer, earlier: Earlier | None = None) -> None:
        """The arrays `bm25-*` of the index, exact for all documents, fresh and kept."""
        if earlier is not None:
            earlier.lengths_into(self.lengths)
        size, mean = len(self.lengths), float(self.lengths.mean()) if len(self.lengths) else 0.0
        start, plain_rows = 0, 0
        for part in self._parts(earlier):
            terms, first = np.unique(part["term"], return_index=True)
            df = np.diff(np.append(first, len(part)))
            self._terms.append(terms)
            self._df.append(df)
            of = np.repeat(idf(df, size), df)
            worth = impacts(part["tf"], self.lengths[part["doc"]], of, mean)
            common = np.flatnonzero(df * PLAIN_SHARE > size)
            place = np.full(len(terms), -1, np.int32)
            place[common] = np.arange(plain_rows, plain_rows + len(common), dtype=np.int32)
            for term in common:
                span = slice(first[term], first[term] + df[term])
                row = np.zeros((1, size), np.float32)
                row[0, part["doc"][span]] = worth[span]
                writer.append("bm25-plain", row)
            writer.append("bm25-hashes", terms)
            writer.append("bm25-starts", (first + start).astype(np.int64))
            writer.append("bm25-docs", part["doc"])
            writer.append("bm25-tf", part["tf"])
            writer.append("bm25-impact", worth)
            writer.append("bm25-plain-row", place)
            start += len(part)
            plain_rows += len(common)
        writer.append("bm25-starts", np.array([start], np.int64))
        writer.append("bm25-plain", np.zeros((0, size), np.float32))
        writer.append("bm25-lengths", self.lengths)
        self.close()

    def close(self) -> None:
        """What was spilled is gone."""
        for file in self._files:
            file.close()
        if self._spool is not None:
            self._spool.cleanup()
        self._files, self._spool = [], None

    def frequent(self, count: int, wanted: Callable[[str], bool], known: Iterable[str] = ()) -> list[str]:
        """The `count` wanted words in most documents, most first, of those met here or `known` from before."""
        meant = {number: word for word, number in self._memo.items()} | {term_hash(word): word for word in known}
        terms, df = np.concatenate(self._terms), np.concatenate(self._df)
        found: list[str] = []
        for number in terms[np.lexsort((terms, -df))].tolist():
            word = meant.get(number)
            if word is not None and wanted(word):
                found.append(word)
                if len(found) == count:
                    break
        return found


def _sorted(fresh: Postings, kept: Postings | None) -> Postings:
    rows = fresh if kept is None or not len(kept) else np.concatenate([fresh, kept])
    return rows[np.lexsort((rows["doc"], rows["term"]))]


class Earlier:
    """The postings of an earlier index, renumbered: `number[old row]` is the new row, or −1 where it is gone."""

    def __init__(self, index: Bm25, tf: Array, lengths: Array, number: NDArray[np.int32]) -> None:
        self.index, self.tf, self.lengths, self.number = index, tf, lengths, number

    def between(self, low: int, high: int | None) -> Postings:
        """Kept postings of terms in [low, high)."""
        hashes = self.index.hashes
        first = int(np.searchsorted(hashes, np.uint64(low)))
        last = len(hashes) if high is None else int(np.searchsorted(hashes, np.uint64(high)))
        starts = self.index.starts[first : last + 1]
        span = slice(int(starts[0]), int(starts[-1]))
        doc = self.number[self.index.docs[span]]
        alive = doc >= 0
        rows = np.empty(int(alive.sum()), _POSTING)
        rows["term"] = np.repeat(hashes[first:last], np.diff(starts))[alive]
        rows["doc"] = doc[alive]
        rows["tf"] = self.tf[span][alive]
        return rows

    def lengths_into(self, lengths: NDArray[np.int64]) -> None:
        """Lengths of the kept documents are at their new places."""
        alive = self.number >= 0
        lengths[self.number[alive]] = self.lengths[alive]
