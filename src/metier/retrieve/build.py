"""From skills to the files of an index, doing again only what changed (SkillRep, offline steps 1–6).

A skill's row is reused whole while its key is the same: its body is not read, its words are not counted, its vectors
are not looked up. Background directions are kept too, so new skills are projected as the old ones were; they are found
anew by a full build, or when the library has grown or shrunk by a fifth since they were found (rule 1.4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import IndexProblem, InputError, MetierError
from metier.retrieve.background import (
    GENERIC_WORDS,
    STOP_WORDS,
    Background,
    coordinates,
    directions_for,
    generic_directions,
    top_directions,
)
from metier.retrieve.documents import VIEW, View, document, row_key
from metier.retrieve.generation import Writer, same_again, unwritable
from metier.retrieve.names import name_arrays
from metier.retrieve.opened import Index, load
from metier.retrieve.postings import Earlier, Tally
from metier.retrieve.vectors import VectorCache, identity, unit
from metier.text import fingerprint
from metier.types import Encoder, Skill

if TYPE_CHECKING:
    from metier.types import Vectors

CHUNK = 128
"""Skills read before their texts are encoded together."""
DRIFT = 0.2
"""A library that has grown or shrunk by this share since its background was found gets a new one."""
DOCUMENT_WEIGHT = 0.2  # SkillRep: w_d, the share of generated requests in a document (rule 1.2)
UNREAD = b"\0" * 32
"""Row key of a skill whose body could not be read: tried again by the next build."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did."""

    folder: Path
    skills: int
    fresh: int
    """Rows made from a body; the others were taken from the earlier index."""
    encoded: int
    """Texts that went through the encoder."""
    same: bool
    """Nothing had changed."""
    encoder: str | None
    directions: int
    """k1 of the projection; 0 where there is none."""
    seconds: float
    encode_seconds: float
    unread: tuple[str, ...] = ()
    """Ids of skills whose body could not be read; they are found by name and description."""


@dataclass(slots=True)
class _Rows:
    """What is known of the rows before any body is read."""

    keys: NDArray[np.uint8]
    number: NDArray[np.int32]
    """Old row → new row, or −1."""
    fresh: list[int]


def build(
    skills: Sequence[Skill],
    body: Callable[[Skill], str],
    encoder: Encoder | None,
    *,
    into: Path,
    vectors: Path,
    previous: Path | None = None,
    full: bool = False,
    progress: Callable[[int, int], None] | None = None,
    requests: Callable[[Skill], Sequence[str]] | None = None,
    view: View = VIEW,
) -> Built:
    """`into` holds the index of `skills`, row by row; `vectors` (per home) keeps every vector for the next build.

    Without an encoder only words are indexed. `previous`: the folder of an earlier index to take unchanged rows from;
    `full` ignores it (vectors are still not encoded twice). `requests`: what a language model says the skill could be
    asked (step 3). An interrupted build leaves no index in `into`, and its vectors in the cache.
    """
    if previous is not None and into.resolve() == previous.resolve():
        raise InputError(f"{into}: an index is never written over itself; give `into` a fresh folder")
    began = time.perf_counter()
    profile = encoder.profile if encoder else None
    made_by = identity(profile) if profile else None
    asked = [tuple(requests(skill)) if requests else () for skill in skills]
    old = None if full or previous is None else _earlier(previous)
    reuse = old if old is not None and (old.encoder, old.facts["view"]) == (made_by, view) else None
    keys = [row_key(skill, said) for skill, said in zip(skills, asked, strict=True)]
    catalogue = fingerprint(*(f"{skill.id}\0{'manual-only' in skill.flags}" for skill in skills))
    if reuse is not None and reuse.facts["catalogue"] == catalogue and _same(reuse, keys):
        same_again(reuse.folder, into, reuse.facts)
        return Built(into, len(skills), 0, 0, True, made_by, reuse.facts["projection"]["first"],
                     time.perf_counter() - began, 0.0)  # fmt: skip
    rows = _rows(keys, reuse)
    cache = VectorCache(vectors, profile) if profile else None
    writer, tally = Writer(into), Tally(len(skills))
    unread: list[str] = []
    try:
        dense = np.zeros((len(skills), profile.dim), np.float32) if profile else None
        if reuse is not None and reuse.vectors is not None and dense is not None:
            dense[rows.number[rows.number >= 0]] = reuse.vectors[rows.number >= 0]
        if progress is not None:
            progress(len(skills) - len(rows.fresh), len(skills))
        done = len(skills) - len(rows.fresh)
        for chunk in _chunks(rows.fresh):
            texts: list[tuple[int, tuple[str, ...]]] = []
            for row in chunk:
                content = _body(skills[row], body)
                if content is None:
                    unread.append(skills[row].id)
                    rows.keys[row] = 0
                made = document(skills[row], content or "", max_tokens=profile.max_tokens if profile else 1, view=view)
                tally.add(row, made.lexical)
                texts.append((row, made.dense))
            if dense is not None and cache is not None and encoder is not None:
                _encode(texts, asked, dense, cache, encoder)
            done += len(chunk)
            if progress is not None:
                progress(done, len(skills))
        earlier = None
        if reuse is not None:
            earlier = Earlier(reuse.lexical, reuse.arrays["bm25-tf"], reuse.arrays["bm25-lengths"], rows.number)
        tally.write(writer, earlier)
        facts = _dense(writer, dense, skills, tally, reuse, cache, encoder)
        for name, array in name_arrays([skill.name for skill in skills]).items():
            writer.append(name, array)
        writer.append("row-keys", rows.keys)
        writer.append("manual", np.array(["manual-only" in skill.flags for skill in skills], np.uint8))
        writer.append("rank", _rank([skill.id for skill in skills]))
        facts |= {"skills": len(skills), "encoder": made_by, "view": view, "catalogue": catalogue}
        writer.finish(facts)
    except OSError as error:
        raise unwritable(into, error) from error
    finally:
        writer.abandon()
        tally.close()
    if cache is not None:
        cache.tidy()
    return Built(into, len(skills), len(rows.fresh), cache.encoded if cache else 0, False, made_by,
                 facts["projection"]["first"], time.perf_counter() - began, cache.seconds if cache else 0.0,
                 tuple(unread))  # fmt: skip


def _earlier(folder: Path) -> Index | None:
    """The earlier index, or None: one that cannot be read is simply not reused, nor one of which a byte has changed."""
    try:
        return load(folder, check=True)
    except IndexProblem:
        return None


def _same(old: Index, keys: Sequence[bytes]) -> bool:
    return old.size == len(keys) and old.arrays["row-keys"].tobytes() == b"".join(keys)


def _rows(keys: Sequence[bytes], old: Index | None) -> _Rows:
    """Each old row goes to the first new row of the same key that is still free."""
    table = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), 32).copy()
    number = np.full(old.size if old else 0, -1, np.int32)
    free: dict[bytes, list[int]] = {}
    if old is not None:
        stored = old.arrays["row-keys"].tobytes()
        for row in range(old.size - 1, -1, -1):
            free.setdefault(stored[32 * row : 32 * row + 32], []).append(row)
    fresh = []
    for row, name in enumerate(keys):
        places = free.get(name)
        if places and name != UNREAD:
            number[places.pop()] = row
        else:
            fresh.append(row)
    return _Rows(table, number, fresh)


def _chunks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def _body(skill: Skill, body: Callable[[Skill], str]) -> str | None:
    """The body, or None when it is gone or unreadable: one bad file never stops a build."""
    try:
        return body(skill)
    except (OSError, MetierError):
        return None


def _encode(
    texts: Sequence[tuple[int, tuple[str, ...]]],
    asked: Sequence[Sequence[str]],
    dense: Vectors,
    cache: VectorCache,
    encoder: Encoder,
) -> None:
    """Rows of `dense` are the unit means of their texts' vectors, moved toward generated requests (steps 1 and 3)."""
    flat = [text for _, parts in texts for text in parts]
    found = cache.of(flat, encoder)
    said = [request for row, _ in texts for request in asked[row]]
    moved = cache.of(said, encoder, kind="query") if said else None
    place = at = 0
    for row, parts in texts:
        vector = unit(found[place : place + len(parts)].mean(axis=0))
        place += len(parts)
        count = len(asked[row])
        if moved is not None and count:
            vector = unit((1 - DOCUMENT_WEIGHT) * vector + DOCUMENT_WEIGHT * moved[at : at + count].mean(axis=0))
            at += count
        dense[row] = vector


def _dense(
    writer: Writer,
    dense: Vectors | None,
    skills: Sequence[Skill],
    tally: Tally,
    old: Index | None,
    cache: VectorCache | None,
    encoder: Encoder | None,
) -> dict[str, Any]:
    """The arrays of the dense channel are written; the facts about its projection are returned."""
    none: dict[str, Any] = {"projection": {"first": 0, "second": 0, "documents": 0, "second_length": None, "words": []}}
    if dense is None or cache is None or encoder is None:
        return none
    writer.append("vectors", dense)
    negative = [(row, " ".join(skill.excludes)) for row, skill in enumerate(skills) if skill.excludes]
    if negative:
        writer.append("excluded-rows", np.array([row for row, _ in negative], np.int32))
        writer.append("excluded-vectors", cache.of([text for _, text in negative], encoder))
    k1 = directions_for(encoder.profile.projection, len(skills))
    if not k1:
        return none
    background, generic = _background(dense, k1, tally, old, cache, encoder)
    coords, scale, length = coordinates(dense, background)
    writer.append("directions", background.all)
    writer.append("coords", coords)
    writer.append("scale", scale)
    return {
        "projection": {
            "first": len(background.first), "second": len(background.second), "documents": background.documents,
            "second_length": round(length, 6), "words": generic,
        }
    }  # fmt: skip


def _background(
    dense: Vectors, k1: int, tally: Tally, old: Index | None, cache: VectorCache, encoder: Encoder
) -> tuple[Background, list[str]]:
    words: list[str] = []
    if old is not None and old.directions is not None:
        facts = old.facts["projection"]
        words = facts["words"]
        if facts["first"] == k1 and abs(len(dense) - facts["documents"]) <= DRIFT * facts["documents"]:
            first, second = np.split(old.directions, [k1])
            return Background(first, second, facts["documents"]), words
    first = top_directions(dense, k1)
    generic = tally.frequent(
        GENERIC_WORDS, lambda word: len(word) > 2 and word.isalpha() and word not in STOP_WORDS, known=words
    )
    second = generic_directions(cache.of(generic, encoder), first)
    return Background(first, second, len(dense)), generic


def _rank(ids: Sequence[str]) -> NDArray[np.int32]:
    rank = np.empty(len(ids), np.int32)
    rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return rank
