"""The hash encoder: deterministic, and similar for similar texts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from metier.models.replay import HashEncoder

ENCODER = HashEncoder()


def test_rows_are_unit_and_texts_without_words_are_zeros() -> None:
    vectors = ENCODER.encode(["fill a form", "", "?!", "x"], kind="query")
    assert vectors.shape == (4, 256) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 0, 1], atol=1e-6)


def test_shared_words_and_inflections_bring_texts_close() -> None:
    request, same, inflected, other = ENCODER.encode(
        ["fill in the pdf form", "Filling PDF forms", "form filler for pdfs", "recover lost git commits"], kind="query"
    )
    assert request @ same > 0.4 and request @ inflected > 0.3 and abs(request @ other) < 0.2


def test_the_kind_and_the_neighbours_change_nothing() -> None:
    texts = ["sql tuning", "release notes", "spreadsheet report"]
    documents = ENCODER.encode(texts, kind="document")
    assert np.array_equal(documents, ENCODER.encode(texts, kind="query"))
    assert np.array_equal(documents[1], ENCODER.encode(texts[1:2], kind="query")[0])


def test_another_process_gives_the_same_vectors() -> None:
    code = (
        "from metier.models.replay import HashEncoder as H\n"
        "print(H().encode(['fill in the pdf form 表格'], kind='query').tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ENCODER.encode(["fill in the pdf form 表格"], kind="query").tobytes().hex()
