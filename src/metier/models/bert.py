"""The exported int8 BERT in plain numpy: the same numbers as onnxruntime's, without the time to start it.

For a text with token rows x, each matrix product is that of the quantised graph, computed exactly in float32:

    scale = (max(x, 0) - min(x, 0)) / 255,   q = round(x / scale) (clipped as uint8 would)
    y = (q · W) · scale · scale_W + bias            W int8, one scale per column

(sums of int8 products stay below 2^24, so float32 holds them exactly). It is three to four times slower a token than
onnxruntime, so it serves the few short requests of a process that may end right after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.models.profiles import Network
from metier.models.weights import tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun 7.1.26: the error function within 1.5e-7."""
ERF_P = 0.3275911


class Bert:
    """Token ids in, unit vectors out; weights stay in the file."""

    def __init__(self, model: Path, network: Network) -> None:
        """Raises ValueError or KeyError when `model` is not what `export.py` writes."""
        self._all = tensors(model)
        self._network = network
        self._norm = self._plain("norm.weight"), self._plain("norm.bias")
        self._space: dict[tuple[int, ...], Matrix] = {}
        for layer in range(network.layers):
            for part in ("attend", "out", "up", "down"):
                for name in ("weight", "scale", "bias"):
                    self._all[f"{layer}.{part}.{name}"]
                if self._all[f"{layer}.{part}.zero"].any():
                    raise ValueError(f"{layer}.{part}.zero is not 0")
        self._end = f"{network.layers - 1}.down.norm"

    def vectors(self, texts: Sequence[Sequence[int]]) -> Matrix:
        """float32 (len(texts), d) unit rows; a text's vector does not depend on the others."""
        lengths = np.array([len(ids) for ids in texts])
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        x = self._look("word", np.concatenate([np.asarray(ids, np.int64) for ids in texts]))
        x += self._look("position", np.concatenate([np.arange(n) for n in lengths]))
        x += self._look("type", np.zeros(1, np.int64))
        x = self._normal(x, *self._norm)
        for layer in range(self._network.layers):
            mixed = self._attend(self._product(x, f"{layer}.attend", starts, lengths), starts, lengths)
            x = self._close(self._product(mixed, f"{layer}.out", starts, lengths), x, f"{layer}.out.norm")
            wide = _gelu(self._product(x, f"{layer}.up", starts, lengths))
            x = self._close(self._product(wide, f"{layer}.down", starts, lengths), x, f"{layer}.down.norm")
        mean: Matrix = np.add.reduceat(x, starts)
        mean /= np.sqrt(np.einsum("ij,ij->i", mean, mean))[:, None]
        return mean

    def _plain(self, name: str) -> Matrix:
        """A quantised parameter of the embedding, as float32."""
        return self._look(name, slice(None))

    def _look(self, name: str, rows: Any) -> Matrix:
        found: Matrix = self._all[f"embed.{name}"][rows].astype(np.float32)
        found -= np.float32(self._all[f"embed.{name}.zero"])
        found *= self._all[f"embed.{name}.scale"]
        return found

    def _normal(self, x: Matrix, weight: Matrix, bias: Matrix) -> Matrix:
        x = x - x.mean(1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1])
        x /= np.sqrt(variance + np.float32(self._network.epsilon))
        x *= weight
        x += bias
        return x

    def _close(self, new: Matrix, old: Matrix, norm: str) -> Matrix:
        new += old
        return self._normal(new, self._all[f"{norm}.weight"], self._all[f"{norm}.bias"])

    def _product(self, x: Matrix, name: str, starts: NDArray[Any], lengths: NDArray[Any]) -> Matrix:
        """x·W + bias with x quantised per text, as the graph does."""
        high = np.maximum(np.maximum.reduceat(x.max(1), starts), np.float32(0))
        low = np.minimum(np.minimum.reduceat(x.min(1), starts), np.float32(0))
        scale = (high - low) / np.float32(255)
        zero = np.rint(-low / scale)
        rows, zeros = np.repeat(scale, lengths)[:, None], np.repeat(zero, lengths)[:, None]
        q = x / rows
        np.rint(q, out=q)
        np.clip(q, -zeros, np.float32(255) - zeros, out=q)
        weight = self._all[f"{name}.weight"]
        space = self._space.get(weight.shape)
        if space is None:
            space = self._space[weight.shape] = np.empty(weight.shape, np.float32)
        np.copyto(space, weight)
        y: Matrix = q @ space
        y *= rows
        y *= self._all[f"{name}.scale"]
        y += self._all[f"{name}.bias"]
        return y

    def _attend(self, qkv: Matrix, starts: NDArray[Any], lengths: NDArray[Any]) -> Matrix:
        """Softmax attention inside each text; (rows, 3 d) → (rows, d)."""
        heads, width = self._network.heads, qkv.shape[1] // 3
        mixed = np.empty((len(qkv), width), np.float32)
        root = np.float32((width // heads) ** -0.5)
        for start, n in zip(starts, lengths, strict=True):
            q, k, v = qkv[start : start + n].reshape(n, 3, heads, width // heads).transpose(1, 2, 0, 3)
            weight = (q @ k.transpose(0, 2, 1)) * root
            weight -= weight.max(2, keepdims=True)
            np.exp(weight, out=weight)
            weight /= weight.sum(2, keepdims=True)
            mixed[start : start + n] = (weight @ v).transpose(1, 0, 2).reshape(n, width)
        return mixed


def _gelu(x: Matrix) -> Matrix:
    """x·Φ(x), in place, with Φ from the error function's rational approximation."""
    z = np.abs(x)
    z *= np.float32(2**-0.5)
    t = z * np.float32(ERF_P)
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(ERF[-1])
    for factor in reversed(ERF[:-1]):
        tail += np.float32(factor)
        tail *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail *= z
    tail *= np.float32(0.5)
    np.subtract(1, tail, out=tail, where=x > 0)
    x *= tail
    return x
