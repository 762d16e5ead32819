"""The numpy encoder and the reader of ONNX weights, against onnxruntime and onnx as their oracles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metier.models.bert import Bert, _gelu
from metier.models.encoder import MINILM
from metier.models.onnx import OnnxEncoder
from metier.models.profiles import Network, read_profile
from metier.models.weights import tensors

NETWORK = read_profile(MINILM)[1] or Network(0, 0, 0)
REQUESTS = [
    "fill in this PDF form", "my query is slow", "recover a deleted git branch", "write release notes", "hello",
    "summarise the incident in five lines and list the action items with their owners", "csv to xlsx",
]  # fmt: skip


def test_vectors_agree_with_onnxruntime_up_to_roundings_of_the_quantisation() -> None:
    encoder = OnnxEncoder(MINILM)
    expected = encoder.encode(REQUESTS, kind="document")
    vectors = Bert(MINILM / "model.onnx", NETWORK).vectors([encoder._ids(text) for text in REQUESTS])
    cosine = np.einsum("ij,ij->i", vectors, expected)
    # Both compute the same integers until a value falls on the border of two int8 steps; then they part by a step.
    assert cosine.min() > 0.99 and np.median(cosine) > 0.999


def test_a_vector_does_not_depend_on_the_texts_beside_it() -> None:
    bert, encoder = Bert(MINILM / "model.onnx", NETWORK), OnnxEncoder(MINILM)
    encoder.warm()
    ids = [encoder._ids(text) for text in REQUESTS]
    alone = np.concatenate([bert.vectors([row]) for row in ids])
    assert np.einsum("ij,ij->i", alone, bert.vectors(ids)).min() > 0.99


def test_gelu_is_exact_to_seven_digits() -> None:
    from math import erf

    x = np.linspace(-6, 6, 2001, dtype=np.float32)
    expected = [value * 0.5 * (1 + erf(value / 2**0.5)) for value in x.astype(float)]
    np.testing.assert_allclose(_gelu(x.copy()), expected, atol=1e-6)


def test_a_network_that_the_file_does_not_hold_is_refused() -> None:
    with pytest.raises(KeyError):
        Bert(MINILM / "model.onnx", Network(7, 12, 1e-12))


def test_all_weights_are_read_as_onnx_reads_them() -> None:
    onnx = pytest.importorskip("onnx", reason="the oracle, onnx, is not installed")
    found = tensors(MINILM / "model.onnx")
    for tensor in onnx.load(str(MINILM / "model.onnx")).graph.initializer:
        if tensor.data_type in (1, 2, 3):
            expected = onnx.numpy_helper.to_array(tensor)
            assert found[tensor.name].dtype == expected.dtype and np.array_equal(found[tensor.name], expected)


@pytest.mark.parametrize("data", [b"no protobuf", b"\xff" * 40, b"\x3a\xff\xff\xff\x7f"])
def test_a_file_that_is_no_model_is_a_value_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(ValueError):
        Bert(tmp_path / "model.onnx", NETWORK)
