"""Each text is encoded once per home: vectors kept by (encoder, sha256 of the text) in append-only files.

Every process appends to a segment of its own, so any number may encode at once and none waits or overwrites. A record
is key (32 bytes) + float16 vector + CRC-32; a record torn by a crash is not read. What an interrupted build had encoded
is found again by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.errors import EncoderError, IndexProblem
from metier.hashing import sha256
from metier.text import fingerprint
from metier.types import Encoder, Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors

BATCH = 256
"""Texts encoded before their vectors are on disk: a few seconds of work is all that a crash can lose."""
SEGMENTS = 64
"""More old segments than this are merged into one."""
SETTLED_SECONDS = 86_400.0
"""A segment untouched for a day has no writer any more."""


def identity(profile: Profile) -> str:
    """What makes vectors comparable: name, dimension, length limit and prefixes, as 12 hex digits after the name."""
    sign = fingerprint(
        profile.name, str(profile.dim), str(profile.max_tokens), profile.query_prefix, profile.document_prefix
    )
    return f"{profile.name}#{sign[:12]}"


def key(text: str, kind: Kind) -> bytes:
    """32 bytes: sha256 of the kind and the text."""
    return sha256(kind.encode("ascii") + b"\0" + text.encode("utf-8", "surrogatepass")).digest()


def unit(vector: Vectors) -> Vectors:
    """The vector at length 1; zeros stay zeros."""
    length = float(np.linalg.norm(vector))
    return (vector / length).astype(np.float32) if length > 0 else vector.astype(np.float32)


class VectorCache:
    """The vectors of one encoder below `folder`; `of` encodes what is not there yet."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        self.folder = folder / re.sub(r"[^A-Za-z0-9.#-]+", "-", identity(profile))
        self.dim = profile.dim
        self.encoded = 0
        """Texts that had to be encoded so far."""
        self.seconds = 0.0
        """Time the encoder took for them."""
        self._record = np.dtype([("key", "V32"), ("vector", "<f2", (profile.dim,)), ("crc", "<u4")])
        self._segments: list[np.ndarray[tuple[int], np.dtype[np.void]]] = []
        self._place: dict[bytes, tuple[int, int]] = {}
        self._own: Path | None = None
        self._read()

    def _read(self) -> None:
        for path in sorted(self.folder.glob("*.vec")):
            with contextlib.suppress(OSError):  # merged away by another process: its records are elsewhere
                whole = path.stat().st_size // self._record.itemsize
                if whole:
                    self._adopt(np.memmap(path, self._record, "r", shape=(whole,)))

    def _adopt(self, records: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
        number = len(self._segments)
        self._segments.append(records)
        names = records["key"].tobytes()
        for row in range(len(records)):
            self._place[names[32 * row : 32 * row + 32]] = (number, row)

    def _found(self, name: bytes) -> Vectors | None:
        place = self._place.get(name)
        if place is None:
            return None
        record = self._segments[place[0]][place[1]]
        vector = record["vector"]
        if zlib.crc32(name + vector.tobytes()) != record["crc"]:
            del self._place[name]
            return None
        return vector.astype(np.float32)  # type: ignore[no-any-return]

    def of(
        self,
        texts: Sequence[str],
        encoder: Encoder,
        *,
        kind: Kind = "document",
        done: Callable[[int], None] | None = None,
    ) -> Vectors:
        """float32 (len(texts), dim), rounded to float16 whether just encoded or found. `done` hears of progress."""
        names = [key(text, kind) for text in texts]
        out = np.zeros((len(texts), self.dim), np.float32)
        missing: dict[bytes, list[int]] = {}
        for row, name in enumerate(names):
            vector = self._found(name)
            if vector is None:
                missing.setdefault(name, []).append(row)
            else:
                out[row] = vector
        wanted = list(missing)
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            fresh = self._encode([texts[missing[name][0]] for name in batch], encoder, kind)
            self._append(batch, fresh)
            for name, vector in zip(batch, fresh.astype(np.float32), strict=True):
                out[missing[name]] = vector
            if done is not None:
                done(len(batch))
        return out

    def _encode(
        self, texts: Sequence[str], encoder: Encoder, kind: Kind
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        before = time.perf_counter()
        vectors = encoder.encode(texts, kind=kind)
        self.seconds += time.perf_counter() - before
        if vectors.shape != (len(texts), self.dim) or not np.isfinite(vectors).all():
            raise EncoderError(
                f"{encoder.profile.name}: returned {vectors.shape} for {len(texts)} texts of dimension {self.dim}, "
                "or some not finite; check the encoder's settings"
            )
        self.encoded += len(texts)
        return vectors.astype(np.float16)

    def _append(self, names: Sequence[bytes], vectors: np.ndarray[tuple[int, int], np.dtype[np.float16]]) -> None:
        records = np.zeros(len(names), self._record)
        records["key"] = np.frombuffer(b"".join(names), "V32")
        records["vector"] = vectors
        records["crc"] = [zlib.crc32(name + row.tobytes()) for name, row in zip(names, vectors, strict=True)]
        try:
            if self._own is None:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._own = self.folder / f"{time.strftime('%Y%m%d')}-{os.getpid()}-{os.urandom(4).hex()}.vec"
            with self._own.open("ab") as file:
                file.write(records.tobytes())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise IndexProblem(
                f"{self.folder}: vectors cannot be kept ({error.strerror}); free space, make it writable, "
                "or set METIER_HOME"
            ) from error
        self._adopt(records)

    def tidy(self, now: float | None = None) -> None:
        """Many old segments become one; segments that may still have a writer are left alone."""
        old = list(self._settled(time.time() if now is None else now))
        if len(old) <= SEGMENTS:
            return
        merged = self.folder / f"{time.strftime('%Y%m%d')}-{os.getpid()}-{os.urandom(4).hex()}.part"
        seen: set[bytes] = set()
        with merged.open("wb") as file:
            for path in old:
                data = path.read_bytes()
                for start in range(0, len(data) - self._record.itemsize + 1, self._record.itemsize):
                    name = data[start : start + 32]
                    if name not in seen:
                        seen.add(name)
                        file.write(data[start : start + self._record.itemsize])
            file.flush()
            os.fsync(file.fileno())
        merged.replace(merged.with_suffix(".vec"))
        for path in old:
            with contextlib.suppress(OSError):  # held open elsewhere: merged again another day
                path.unlink()

    def _settled(self, now: float) -> Iterator[Path]:
        for path in sorted(self.folder.glob("*.vec")):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > SETTLED_SECONDS:
                    yield path
