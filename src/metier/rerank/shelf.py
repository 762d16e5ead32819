"""Readings kept by digest: a skill's statements and arrays as one row of bytes, so that a request extracts nothing.

    counts (4 × int32) · codes · same · starts · parent · entries · rho · implementations · statements (zlib of JSON)

Everything has four bytes, so numpy reads it in place; statements are unpacked when somebody quotes one. About 10 kB a
skill, a fifth of a millisecond instead of four (12,610 public skills: 128 MB, made once, after the index is in place).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from metier.errors import MetierError, StoreError
from metier.rerank.arrays import Arrays
from metier.store import Store
from metier.types import Skill

FORMAT = 1
"""Raised whenever an older reader would misread the bytes, or `arrays` gives other numbers for the same graph."""
BATCH = 256
"""Readings made between two commits: a second of work is all that a stop can lose."""
_WHOLE = ("codes", "same", "starts", "parent", "entries", "rho", "implementations")
_TYPES = {"codes": "<u4", "same": "<u4", "rho": "<f4"}
_HEAD = 4


def packed(texts: Sequence[str], arrays: Arrays) -> bytes:
    """The reading as bytes."""
    counts = [len(arrays.codes), len(arrays.same), len(arrays.entries), len(arrays.implementations)]
    parts = [np.array(counts, "<i4").tobytes()]
    parts += [getattr(arrays, name).astype(_TYPES.get(name, "<i4")).tobytes() for name in _WHOLE]
    said = json.dumps(list(texts), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"".join((*parts, zlib.compress(said, 6)))


def unpacked(data: bytes) -> tuple[Arrays, Callable[[], tuple[str, ...]]]:
    """The arrays, read in place, and what unpacks the statements. Both raise ValueError for bytes that are not ours."""
    codes, nodes, entries, implementations = np.frombuffer(data, "<i4", _HEAD).tolist()
    lengths = {"codes": codes, "same": nodes, "starts": nodes + 1, "parent": nodes, "entries": entries, "rho": entries,
               "implementations": implementations}  # fmt: skip
    found, at = {}, 4 * _HEAD
    for name in _WHOLE:
        found[name] = np.frombuffer(data, _TYPES.get(name, "<i4"), lengths[name], at)
        at += 4 * lengths[name]

    def statements() -> tuple[str, ...]:
        try:
            said = zlib.decompress(data[at:])
        except zlib.error as error:
            raise ValueError(f"the statements are damaged ({error})") from error
        return tuple(json.loads(said.decode("utf-8", "surrogatepass")))

    return Arrays(**found), statements


def version(extractor: str) -> str:
    """What a row's extractor is called: another version of either part makes it anew."""
    return f"{extractor}/{FORMAT}"


def kept(store: Store, digest: str, extractor: str, preferred: str | None = None) -> bytes | None:
    """The reading of that digest; None where there is none by this version, or where it would not be the last word.

    That is where a preferred extractor has a graph, somebody judged its elements, or expressions have been merged.
    """
    rows = store.rows(
        "SELECT reading FROM readings WHERE digest = ?1 AND extractor = ?2"
        " AND NOT EXISTS (SELECT 1 FROM graphs WHERE digest = ?1 AND extractor = ?3)"
        " AND NOT EXISTS (SELECT 1 FROM reliabilities WHERE digest = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM canon_merges)",
        (digest, version(extractor), preferred or ""),
    )
    return rows[0]["reading"] if rows else None


def missing(store: Store, skills: Iterable[Skill], extractor: str) -> list[Skill]:
    """Skills without a reading by this version, each digest once."""
    have = {r["digest"] for r in store.rows("SELECT digest FROM readings WHERE extractor = ?", (version(extractor),))}
    return list({s.digest: s for s in skills if s.digest and s.digest not in have}.values())


def fill(
    store: Store,
    skills: Sequence[Skill],
    read: Callable[[Skill], tuple[Sequence[str], Arrays]],
    extractor: str,
    done: Callable[[int], None] = lambda n: None,
) -> int:
    """Every skill whose text can be read has a reading; returns how many were made."""
    made = 0
    for start in range(0, len(skills), BATCH):
        rows = []
        for skill in skills[start : start + BATCH]:
            try:
                rows.append((skill.digest, version(extractor), packed(*read(skill))))
            except StoreError:
                raise
            except (MetierError, OSError):  # a text that is gone: whoever asks for it is told so
                continue
        made += store.write_many("INSERT OR REPLACE INTO readings VALUES (?, ?, ?)", rows)
        done(min(start + BATCH, len(skills)))
    return made
