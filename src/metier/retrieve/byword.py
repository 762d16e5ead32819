"""BM25 over texts at hand, without an index: what the trainer's hard negatives and the qualification of an LLM need."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metier.retrieve.bm25 import Bm25
from metier.retrieve.fuse import best
from metier.retrieve.generation import Writer, open_arrays, read_manifest
from metier.retrieve.postings import Tally
from metier.text import words

TOP = 40
"""Rows ranked per request; negatives are taken from the first thirty."""


def by_words(documents: Sequence[str], requests: Sequence[str], top: int = TOP) -> list[list[int]]:
    """Per request the rows of its `top` documents by BM25 (rule 1.7), best first, ties to the lower row."""
    if not documents:
        return [[] for _ in requests]
    with tempfile.TemporaryDirectory(prefix="metier-bm25-") as folder:
        tally, writer = Tally(len(documents)), Writer(Path(folder))
        for row, text in enumerate(documents):
            tally.add(row, text)
        tally.write(writer)
        writer.finish({})
        held = {name: np.array(array) for name, array in open_arrays(Path(folder), read_manifest(Path(folder))).items()}
    index = Bm25(
        held["bm25-hashes"], held["bm25-starts"], held["bm25-docs"], held["bm25-impact"],
        held["bm25-plain"], held["bm25-plain-row"], len(documents),
    )  # fmt: skip
    ranked = []
    for request in requests:
        scores = index.scores({word: float(n) for word, n in Counter(words(request)).items()})
        rows = best(scores, top)
        ranked.append(rows[np.argsort(-scores[rows], kind="stable")].tolist())
    return ranked
