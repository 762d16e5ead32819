"""Libraries in one file: a skill a line of JSONL, plain or compressed, as the public benchmarks ship them.

A compressed file cannot be read at an offset, so the bodies are copied once, uncompressed, into a *spool*: a folder
named for the file and its stamp, with the bodies in one file and a sorted table of (hash of the row's id, offset,
length) beside it. A spool is complete or absent; one that exists is never written again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from metier.errors import LibraryError
from metier.library import skillmd
from metier.library.folder import row_of
from metier.store import OWNER, abandoned, claim
from metier.text import fingerprint
from metier.types import Problem, Skill

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.xz", ".ndjson.gz", ".ndjson.xz")
"""Names of files that are libraries."""
LINE = 64 << 20
"""Bytes of one line, at most; the longest of 12,610 public ones has 147 kB."""
_ID, _BODY = ("id", "skill_id", "name"), ("body", "content", "text")
_OF_FOLDERS = ("name-characters", "name-too-long")
"""Faults of a folder's name: a row has none, and its name is a title."""
UNFINISHED = ".spool-"
"""What the name of a spool begins with while it is written."""
_TABLE = np.dtype([("key", "<u8"), ("offset", "<u8"), ("length", "<u4")])


@dataclass(frozen=True, slots=True)
class Row:
    """One line: its id and what it says; `digest` is that of the line's skill, whatever file holds it."""

    id: str
    parsed: skillmd.Parsed
    digest: str


def is_library(path: str) -> bool:
    """Whether the name is that of a JSONL library."""
    return path.lower().endswith(SUFFIXES)


def stamp_of(path: str) -> str:
    """The cheap signature of the file. Raises OSError when it is gone."""
    status = Path(path).stat()
    text = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def rows(path: str, problems: list[Problem]) -> Iterator[Row]:
    """The skills of the file in order; lines that hold none are noted in `problems`. Raises LibraryError at once when
    the file cannot be opened."""
    seen: dict[str, int] = {}
    number = 0
    try:
        with _open(path) as file:
            while line := file.readline(LINE):
                number += 1
                if line.strip():
                    row = _row(line, path, number, seen, problems)
                    if row is not None:
                        yield row
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if number == 0:
            raise LibraryError(f"{path}: cannot be read ({_why(error)}); see that it is a whole JSONL file "
                               "(.jsonl, .jsonl.gz or .jsonl.xz) that you may read") from error  # fmt: skip
        problems.append(Problem(path, number + 1, "damaged-file", f"the file breaks off after {number} lines "
                                f"({_why(error)})", "fetch it again; the lines before are used"))  # fmt: skip


def _open(path: str) -> IO[bytes]:
    lower = path.lower()
    if lower.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return lzma.open(path, "rb") if lower.endswith(".xz") else Path(path).open("rb")


def _row(line: bytes, path: str, number: int, seen: dict[str, int], problems: list[Problem]) -> Row | None:
    def note(code: str, message: str, remedy: str) -> None:
        problems.append(Problem(path, number, code, message, remedy))

    try:
        data = _clean(json.loads(line))
    except (ValueError, RecursionError) as error:
        note("bad-row", f"the line is not JSON ({_why(error)})", "write one JSON object a line")
        return None
    if not isinstance(data, dict):
        note("bad-row", f"the line holds a {type(data).__name__}, not an object", "write one JSON object a line")
        return None
    parsed = _parsed(data, f"{path}:{number}")
    if not parsed.usable:
        note("bad-row", "the row has neither a description nor a body", "give it 'name', 'description' and 'body'")
        return None
    stated = next((data[key] for key in _ID if data.get(key) not in (None, "")), number)
    row_id = " ".join(str(stated).split())
    count = seen[row_id] = seen.get(row_id, 0) + 1
    if count > 1:
        note("duplicate-id", f"the id '{row_id}' is given again", "give every row its own id")
        row_id = f"{row_id}~{count}"
    problems += (
        Problem(path, number, p.code, p.message, p.remedy) for p in parsed.problems if p.code not in _OF_FOLDERS
    )
    front = json.dumps(parsed.front, sort_keys=True, ensure_ascii=False)
    return Row(row_id, parsed, fingerprint(parsed.name, parsed.description, front, parsed.body))


def _parsed(data: Mapping[str, Any], path: str) -> skillmd.Parsed:
    """A row read as the SKILL.md that it stands for; its own name and description win over its front matter's."""
    whole = data.get("skill_md")
    body = next((data[key] for key in _BODY if isinstance(data.get(key), str)), None)
    if isinstance(whole, str) and body is None:
        return skillmd.parse(whole.encode("utf-8", "replace"), path=path, folder=str(data.get("name") or ""))
    stated = data.get("frontmatter")
    front: dict[str, Any] = {}
    if isinstance(stated, str) and stated.strip():
        text = f"---\n{stated.strip()}\n---\n"
        front = dict(skillmd.parse(text.encode("utf-8", "replace"), path=path, folder="").front)
    elif isinstance(stated, Mapping):
        front = dict(stated)
    for key in ("name", "description"):
        if isinstance(data.get(key), str) and data[key].strip():
            front[key] = data[key]
    if "name" not in front:
        front["name"] = str(next((data[key] for key in _ID if data.get(key)), "unnamed"))
    return skillmd.from_fields(front, body or "", path=path)


def _clean(value: Any) -> Any:
    """The value without halves of surrogate pairs, which JSON can spell and no file or database can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return {_clean(key): _clean(each) for key, each in value.items()} if isinstance(value, dict) else value


def _why(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:80]


# ---------------------------------------------------------------------------------------------------------- spool


def spool_name(path: str, stamp: str) -> str:
    """The name of the folder that holds the bodies of the file as it was under that stamp."""
    return fingerprint(path, stamp)[:24]


class Spool:
    """Bodies on their way into a spool; used as a context, complete after `done`, else gone."""

    def __init__(self, folder: Path, path: str, stamp: str) -> None:
        self.final = folder / spool_name(path, stamp)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.work = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        self.owner = claim(self.work)
        self.file = (self.work / "bodies").open("wb")
        self.table: list[tuple[int, int, int]] = []
        self.at = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what it still held does not fit a full disk, and is thrown away
            self.file.close()
        shutil.rmtree(self.work, ignore_errors=True)
        os.close(self.owner)

    def add(self, row_id: str, body: str) -> None:
        """The body can be found by the row's id."""
        data = body.encode("utf-8", "replace")
        self.file.write(data)
        self.table.append((_key(row_id), self.at, len(data)))
        self.at += len(data)

    def done(self) -> None:
        """The spool stands under its name, whole, on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        table = np.array(sorted(self.table), dtype=_TABLE)
        with (self.work / "table").open("wb") as file:
            file.write(table.tobytes())
            file.flush()
            os.fsync(file.fileno())
        (self.work / OWNER).unlink()
        try:
            self.work.rename(self.final)
        except OSError:
            if not self.final.is_dir():  # else another process made the same one meanwhile
                raise


def spooled(folder: Path, path: str, stamp: str) -> bool:
    """Whether the bodies of the file under that stamp are in the spool."""
    return (folder / spool_name(path, stamp) / "table").is_file()


def body(folder: Path, path: str, stamp: str, row_id: str) -> str | None:
    """The body of a row from the spool; None when it is not there."""
    place = folder / spool_name(path, stamp)
    try:
        table = np.memmap(place / "table", dtype=_TABLE, mode="r")
        at = int(np.searchsorted(table["key"], np.uint64(_key(row_id))))
        if at == len(table) or int(table["key"][at]) != _key(row_id):
            return None
        with (place / "bodies").open("rb") as file:
            file.seek(int(table["offset"][at]))
            return file.read(int(table["length"][at])).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None  # absent, empty or cut short: the caller reads the file itself


def sweep(folder: Path, keep: Iterable[tuple[str, str]]) -> None:
    """Only the spools of the (file, stamp) pairs in `keep` are left, and those that a living process is writing.

    What cannot be removed stays.
    """
    names = {spool_name(path, stamp) for path, stamp in keep}
    if folder.is_dir():
        for each in folder.iterdir():
            finished = not each.name.startswith(".")
            if each.name in names or not each.is_dir():
                continue
            if finished or (each.name.startswith(UNFINISHED) and abandoned(each)):
                shutil.rmtree(each, ignore_errors=True)


def spools(skills: Iterable[Skill]) -> set[tuple[str, str]]:
    """The (file, stamp) pairs whose spools hold the bodies of these skills."""
    found: set[tuple[str, str]] = set()
    for skill in skills:
        for address, stamp in zip(skill.addresses, skill.stamp.split(","), strict=False):
            row = row_of(address)
            if row is not None:
                found.add((row[0], stamp))
    return found


def _key(row_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(row_id.encode("utf-8", "replace"), digest_size=8).digest(), "little")
