"""BM25 over texts at hand ranks as the oracle does."""

from __future__ import annotations

import numpy as np
import pytest

from metier.retrieve.byword import by_words
from metier.text import words

DOCUMENTS = [
    "extract tables from a pdf file", "release notes from git history", "pdf forms filled in", "git after reset",
    "spreadsheet report with charts", "sql tuning with explain", "tables in a spreadsheet", "notes of an incident",
]  # fmt: skip


def test_ranking_agrees_with_bm25s() -> None:
    bm25s = pytest.importorskip("bm25s", reason="the oracle is not installed")
    oracle = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    oracle.index([words(d) for d in DOCUMENTS], show_progress=False)
    requests = ["tables of a pdf", "git notes", "spreadsheet charts report"]
    for request, rows in zip(requests, by_words(DOCUMENTS, requests, top=3), strict=True):
        scores = oracle.get_scores(words(request))
        expected = np.argsort(-scores, kind="stable")[:3]
        np.testing.assert_allclose(scores[rows], scores[expected], rtol=1e-5)


def test_no_documents_rank_nothing() -> None:
    assert by_words([], ["a"]) == [[]]
