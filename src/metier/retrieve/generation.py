"""The files of one index: raw arrays beside a manifest that says what they are, written once and never changed.

Nothing is decoded when an index is opened: every array is mapped from its file. Sizes are checked against the manifest
each time, the manifest against its own checksum, and every byte by `verify`. Arrays are plain numbers (no pickle).
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import IndexProblem
from metier.hashing import sha256

FORMAT = 1
"""Raised whenever an older reader would misread the files."""
MANIFEST = "index.json"
REBUILD = "run: metier index --full"

Array = NDArray[Any]


def unwritable(folder: Path, error: OSError) -> IndexProblem:
    """What to raise when an index cannot be written."""
    return IndexProblem(
        f"{folder}: the index cannot be written ({error.strerror or error}); free some space, make it writable, or "
        "set METIER_HOME elsewhere"
    )


class Writer:
    """Arrays written piece by piece into `folder`, and the manifest last: without it the folder is no index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, tuple[Any, Any, str, tuple[int, ...]]] = {}
        self._rows: dict[str, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / MANIFEST).unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error

    def append(self, name: str, array: Array) -> None:
        """`array` follows what was appended under `name` (same type, same shape but for the first axis)."""
        if name not in self._files:
            path = self.folder / f"{name}.bin"
            path.unlink(missing_ok=True)  # it may be a hard link into an older generation
            self._files[name] = (path.open("wb"), sha256(), array.dtype.str, array.shape[1:])
            self._rows[name] = 0
        handle, digest, _, _ = self._files[name]
        data = np.ascontiguousarray(array).data.cast("B") if array.size else b""
        handle.write(data)
        digest.update(data)
        self._rows[name] += len(array)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """All files are on disk (fsynced), and the manifest names them with their sizes and sha256."""
        table = {}
        for name, (handle, digest, dtype, rest) in self._files.items():
            handle.flush()
            os.fsync(handle.fileno())
            table[name] = {
                "dtype": dtype, "shape": [self._rows[name], *rest], "bytes": handle.tell(), "sha256": digest.hexdigest()
            }  # fmt: skip
            handle.close()
        write_manifest(self.folder, {**facts, "format": FORMAT, "files": table})

    def abandon(self) -> None:
        """Open files are closed; the folder has no manifest and will never be read."""
        for handle, *_ in self._files.values():
            handle.close()


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> None:
    """The manifest appears whole or not at all; it carries a checksum of itself."""
    text = json.dumps({"checksum": _checksum(facts), **facts}, ensure_ascii=False, indent=1)
    temporary = folder / f"{MANIFEST}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(folder / MANIFEST)


def _checksum(facts: Mapping[str, Any]) -> str:
    return sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode("utf-8")).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the index in `folder`. Raises IndexProblem when it is missing, damaged or of another format."""
    path = folder / MANIFEST
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise IndexProblem(f"{path}: there is no index here; run: metier index") from error
    except (OSError, ValueError) as error:
        raise IndexProblem(f"{path}: the index cannot be read ({error}); {REBUILD}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise IndexProblem(f"{path}: the index has format {found}, this metier reads {FORMAT}; {REBUILD}")
    stated = facts.pop("checksum", None)
    if stated != _checksum(facts):
        raise IndexProblem(f"{path}: the index is damaged (its manifest's checksum does not match); {REBUILD}")
    return facts


def open_arrays(folder: Path, facts: Mapping[str, Any]) -> dict[str, Array]:
    """Every array of the manifest, read-only and mapped. Raises IndexProblem where a file is missing or cut."""
    return {name: _mapped(folder / f"{name}.bin", entry) for name, entry in facts["files"].items()}


def _mapped(path: Path, entry: Mapping[str, Any]) -> Array:
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    try:
        with path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            if size != entry["bytes"]:
                raise IndexProblem(f"{path}: {size} bytes where the index has {entry['bytes']}; {REBUILD}")
            if not size:
                return np.empty(shape, dtype)
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise IndexProblem(f"{path}: the index cannot be read ({error}); {REBUILD}") from error
    return np.frombuffer(mapped, dtype).reshape(shape)


def verify(folder: Path) -> None:
    """Every byte of the index is as it was written. Raises IndexProblem naming the first file that is not."""
    for name, entry in read_manifest(folder)["files"].items():
        path = folder / f"{name}.bin"
        digest = sha256()
        try:
            with path.open("rb") as handle:
                while block := handle.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise IndexProblem(f"{path}: the index cannot be read ({error}); {REBUILD}") from error
        if digest.hexdigest() != entry["sha256"]:
            raise IndexProblem(f"{path}: the file is damaged (its checksum does not match); {REBUILD}")


def same_again(previous: Path, folder: Path, facts: Mapping[str, Any]) -> None:
    """`folder` holds the index of `previous`: hard links where the file system has them, copies where not."""
    import shutil

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in facts["files"]:
        source, target = previous / f"{name}.bin", folder / f"{name}.bin"
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    write_manifest(folder, facts)
