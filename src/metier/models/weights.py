"""The weights of an ONNX file, read in place.

A cold process has no time for onnxruntime (about 60 ms with its session, measured on two shared cores). So this reads
the few fields of the protobuf that hold weights, maps the file into memory and hands out arrays that point into it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8}
"""onnx.TensorProto.DataType of the tensors that a quantised encoder is made of."""
GRAPH, INITIALIZER = 7, 5
"""Field numbers in onnx.ModelProto and onnx.GraphProto."""
DIMS, DATA_TYPE, FLOAT_DATA, INT32_DATA, NAME, RAW_DATA = 1, 2, 4, 5, 8, 9
"""Field numbers in onnx.TensorProto."""


def tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every float32, uint8 and int8 initializer of the file by name, read-only and (if large) mapped, not copied.

    Raises ValueError when the file is not the protobuf it should be.
    """
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found: dict[str, NDArray[Any]] = {}
    try:
        for field, start, end in _fields(data, 0, len(data)):
            if field == GRAPH:
                for inner, first, last in _fields(data, start, end):
                    if inner == INITIALIZER:
                        _tensor(data, first, last, found)
    except (IndexError, KeyError) as error:
        raise ValueError(f"not an ONNX model ({error})") from error
    return found


def _tensor(data: mmap.mmap, start: int, end: int, found: dict[str, NDArray[Any]]) -> None:
    dims: list[int] = []
    name, kind, raw, packed = "", 0, (0, 0), (0, 0)
    small: list[int] = []
    for field, first, last in _fields(data, start, end):
        if field == DIMS:
            dims += [first] if last < 0 else _varints(data, first, last)
        elif field == DATA_TYPE:
            kind = first
        elif field == NAME:
            name = data[first:last].decode()
        elif field == RAW_DATA:
            raw = (first, last)
        elif field == FLOAT_DATA:
            packed = (first, last)
        elif field == INT32_DATA:
            small += [first] if last < 0 else _varints(data, first, last)
    dtype = DTYPES.get(kind)
    if dtype is None:
        return
    if small:
        array: NDArray[Any] = (np.array(small, np.uint64) & np.uint64(0xFF)).astype(np.uint8).view(dtype)
    else:
        first, last = raw if raw[1] else packed
        array = np.frombuffer(data, dtype, (last - first) // np.dtype(dtype).itemsize, first)
    found[name] = array.reshape(dims)


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(field, first byte, end) of length-delimited fields, (field, value, -1) of numbers."""
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _varint(data, at - 1)
        wire = key & 7
        if wire == 2:
            size = data[at]
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1)
            if at + size > end:
                raise IndexError(f"field ends at byte {at + size}, its message at {end}")
            yield key >> 3, at, at + size
            at += size
        elif wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value, -1
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield key >> 3, at, at + size
            at += size
        else:
            raise KeyError(f"wire type {wire} at byte {at}")


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _varints(data: mmap.mmap, at: int, end: int) -> list[int]:
    plain = data[at:end]
    if plain.isascii():  # every number has one byte, as in 20,000 zero points that are zero
        return list(plain)
    values = []
    while at < end:
        value, at = _varint(data, at)
        values.append(value)
    return values
