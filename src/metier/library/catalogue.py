"""A `Library` in one file that opens in a millisecond however many skills it holds.

    magic · length and checksum of the head · head (JSON) · sections: records, offsets, checks, names, keys, …

A skill is a JSON record, decoded when it is asked for and checked against its own checksum; offsets and tables are
memory-mapped. The file is replaced atomically; a cut or changed byte is an `IndexProblem` where it is met, at the
latest when the record is decoded. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from metier.errors import IndexProblem, LibraryError
from metier.hashing import blake2b
from metier.library.folder import row_of
from metier.types import Library, Problem, Requirement, Shadowed, Skill

FILE = "catalogue.bin"
_MAGIC = b"metier-catalogue-1\n"
_NAMES = np.dtype([("key", "<u8"), ("row", "<u4")])
T = TypeVar("T")


class Records(Sequence[T]):
    """A sequence of values that are decoded from their JSON records one by one, each time they are asked for."""

    def __init__(self, data: memoryview, offsets: NDArray[np.uint64], checks: NDArray[np.uint32],
                 decode: Callable[[Any], T], path: str) -> None:  # fmt: skip
        self._data, self._offsets, self._checks = data, offsets, checks
        self._decode, self._path = decode, path

    def __len__(self) -> int:
        return len(self._checks)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        raw = self._data[int(self._offsets[at]) : int(self._offsets[at + 1])]
        if zlib.crc32(raw) != self._checks[at]:
            raise _damaged(self._path, f"record {at} does not match its checksum")
        return self._decode(json.loads(bytes(raw)))

    def verify(self) -> None:
        """Every record is as it was written, or `IndexProblem`; none is decoded."""
        for at in range(len(self)):
            if zlib.crc32(self._data[int(self._offsets[at]) : int(self._offsets[at + 1])]) != self._checks[at]:
                raise _damaged(self._path, f"record {at} does not match its checksum")

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))  # noqa: B905

    __hash__ = None  # type: ignore[assignment]


class Skills(Records[Skill]):
    """The skills of an opened library: decoded when asked for, found by name without decoding any other."""

    names: NDArray[Any]
    keys: NDArray[np.uint64]

    def lookup(self, name: str) -> list[int]:
        """Positions of the skills of that name, or of that name within a plugin, in order; case does not matter."""
        key = _hash(name.lower())
        first, last = (int(np.searchsorted(self.names["key"], np.uint64(key), side=s)) for s in ("left", "right"))
        rows = sorted({int(row) for row in self.names["row"][first:last]})
        return [row for row in rows if name.lower() in labels(self[row].name)]


def verify(library: Library) -> None:
    """Every record of an opened library is as it was written. Raises IndexProblem where one is not."""
    for records in (library.skills, library.problems, library.shadowed):
        if isinstance(records, Records):
            records.verify()


def labels(name: str) -> tuple[str, ...]:
    """The lower-cased names a skill answers to: its own, and a plugin's skill also without the plugin."""
    lower = name.lower()
    return (lower, lower.split(":", 1)[1]) if ":" in lower.strip(":") else (lower,)


def lookup(skills: Sequence[Skill], name: str) -> list[int]:
    """Positions of the skills that answer to `name`, whether the library was scanned or opened."""
    if isinstance(skills, Skills):
        return skills.lookup(name)
    return [i for i, skill in enumerate(skills) if name.lower() in labels(skill.name)]


def write(library: Library, folder: Path) -> None:
    """The library stands in `folder`, whole or not at all. Raises LibraryError when it cannot be written."""
    sections: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for name, values in _values(library).items():
        counts[name] = len(values)
        records = [json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
                   for value in values]  # fmt: skip
        sections[name] = b"".join(records)
        ends = np.cumsum([0, *map(len, records)], dtype=np.uint64)
        sections[f"{name}.offsets"] = ends.astype("<u8").tobytes()
        sections[f"{name}.checks"] = np.array([zlib.crc32(each) for each in records], dtype="<u4").tobytes()
    pairs = sorted({(_hash(label), i) for i, skill in enumerate(library.skills) for label in labels(skill.name)})
    sections["names"] = np.array(pairs, dtype=_NAMES).tobytes()
    sections["keys"] = keys_of(library).astype("<u8").tobytes()
    head: dict[str, Any] = {"counts": counts, "roots": library.roots, "looked": library.looked, "at": library.at}
    place, at = {}, 0
    for name, data in sections.items():
        at += -at % 8  # numpy reads aligned tables without copying
        whole = "." in name or name in ("names", "keys")
        place[name] = [at, len(data), zlib.crc32(data) if whole else None]
        at += len(data)
    head |= {"sections": place, "size": at}
    _save(json.dumps(head, ensure_ascii=False).encode("utf-8", "surrogatepass"), sections, place, Path(folder) / FILE)


def open(folder: Path) -> Library:
    """The library that `write` left in `folder`; its skills, problems and shadowed are sequences decoded on access.

    Raises IndexProblem when the file is missing, of another format, cut short or damaged in its tables.
    """
    path = Path(folder) / FILE
    try:
        data = memoryview(np.memmap(path, dtype=np.uint8, mode="r"))  # type: ignore[arg-type]
    except (OSError, ValueError) as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise IndexProblem(f"{path}: the catalogue {why}; run: metier index --full") from error
    text = str(path)
    start = len(_MAGIC) + 8
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise IndexProblem(f"{path}: the catalogue is of another format; run: metier index --full")
    if len(data) < start:
        raise _damaged(text, "it ends before its head")
    length, check = (int.from_bytes(data[start - 8 + i : start - 4 + i], "little") for i in (0, 4))
    raw = bytes(data[start : start + length])
    if len(raw) != length or zlib.crc32(raw) != check:
        raise _damaged(text, "its head does not match its checksum")
    head = json.loads(raw)
    base = start + length + -(start + length) % 8
    if len(data) != base + head["size"]:
        raise _damaged(text, f"it has {len(data):,} bytes, {base + head['size']:,} were written")

    def section(name: str) -> memoryview:
        at, size, expected = head["sections"][name]
        found = data[base + at : base + at + size]
        if expected is not None and zlib.crc32(found) != expected:
            raise _damaged(text, f"its table '{name}' does not match its checksum")
        return found

    def records(kind: type[Records[T]], name: str, decode: Callable[[Any], T]) -> Records[T]:
        offsets = np.frombuffer(section(f"{name}.offsets"), dtype="<u8")
        return kind(section(name), offsets, np.frombuffer(section(f"{name}.checks"), dtype="<u4"), decode, text)

    roots = head["roots"]
    skills = cast(Skills, records(Skills, "skills", lambda value: skill_from(value, roots)))
    skills.names = np.frombuffer(section("names"), dtype=_NAMES)
    skills.keys = np.frombuffer(section("keys"), dtype="<u8")
    problems = records(Records, "problems", lambda value: Problem(*value))
    shadowed = records(Records, "shadowed", lambda value: Shadowed(skill_from(value[0], roots), value[1]))
    return Library(
        skills=skills,
        problems=cast("tuple[Problem, ...]", problems),  # a sequence, but decoded only when someone looks
        shadowed=cast("tuple[Shadowed, ...]", shadowed),
        roots=tuple(roots),
        at=head["at"],
        looked=tuple(head["looked"]),
    )


def _values(library: Library) -> Mapping[str, list[Any]]:
    roots = {root: i for i, root in enumerate(library.roots)}
    return {
        "skills": [skill_to(skill, roots) for skill in library.skills],
        "problems": [[p.path, p.line, p.code, p.message, p.remedy] for p in library.problems],
        "shadowed": [[skill_to(each.skill, roots), each.by] for each in library.shadowed],
    }


def skill_to(skill: Skill, roots: Mapping[str, int]) -> list[Any]:
    """A skill as JSON: its fields in order, a known root as its number."""
    return [
        skill.id, skill.name, skill.description, skill.digest, roots.get(skill.root, skill.root), skill.scope,
        skill.addresses, skill.family, [[r.kind, r.names, r.declared, r.source] for r in skill.requires],
        sorted(skill.flags), skill.excludes, skill.body_tokens, skill.resources, skill.stamp,
    ]  # fmt: skip


def skill_from(value: Sequence[Any], roots: Sequence[str]) -> Skill:
    """The skill that `skill_to` wrote."""
    (id_, name, description, digest, root, scope, addresses, family, requires, flags, excludes, tokens, resources,
     stamp) = value  # fmt: skip
    return Skill(
        id_, name, description, digest, roots[root] if isinstance(root, int) else root, scope, tuple(addresses), family,
        tuple(Requirement(kind, tuple(names), declared, source) for kind, names, declared, source in requires),
        frozenset(flags), tuple(excludes), tokens, tuple(resources), stamp,
    )  # fmt: skip


def keys_of(library: Library) -> NDArray[np.uint64]:
    """Sorted, without repeats: a hash for each address with its root, scope and stamp; equal keys, nothing changed."""
    if isinstance(library.skills, Skills):
        return library.skills.keys
    found = (key for skill in (*library.skills, *(each.skill for each in library.shadowed)) for key in _keys(skill))
    return sorted_keys(found)


def sorted_keys(found: Iterable[int]) -> NDArray[np.uint64]:
    """The keys as one sorted table without repeats."""
    return np.unique(np.fromiter(found, dtype=np.uint64))


def key(scope: str, address: str, stamp: str) -> int:
    """What stands for an unwritten folder at an address; all rows of a JSONL file stand for the file."""
    return _hash(f"{scope}\0{address}\0{stamp}")


def _keys(skill: Skill) -> Iterator[int]:
    for address, stamp in zip(skill.addresses, skill.stamp.split(","), strict=False):
        row = row_of(address)
        yield key(skill.scope, row[0] if row else address, stamp)


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _save(head: bytes, sections: Mapping[str, bytes], place: Mapping[str, Sequence[Any]], path: Path) -> None:
    import tempfile

    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(prefix=".catalogue-", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + len(head).to_bytes(4, "little") + zlib.crc32(head).to_bytes(4, "little") + head)
            base = file.tell() + -file.tell() % 8
            for name, data in sections.items():
                file.write(b"\0" * (base + place[name][0] - file.tell()))
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise LibraryError(f"{path}: the catalogue cannot be written ({error.strerror}); make room and see that the "
                           "folder is writable, or set METIER_HOME to another") from error  # fmt: skip


def _damaged(path: str, what: str) -> IndexProblem:
    return IndexProblem(f"{path}: the catalogue is damaged ({what}); run: metier index --full")
