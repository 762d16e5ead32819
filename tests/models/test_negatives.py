"""Hard negatives look right and are not the answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metier.models.negatives import EACH, SKIP, mine


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 1000), st.lists(st.integers(0, 6), min_size=12, max_size=40))
def test_no_negative_means_the_same_as_the_answer(seed: int, groups: list[int]) -> None:
    rng = np.random.default_rng(seed)
    documents, requests = unit(rng.normal(size=(len(groups), 6))), unit(rng.normal(size=(5, 6)))
    gold = rng.integers(0, len(groups), 5).tolist()
    found = mine(gold, groups, requests, documents, lambda i: rng.permutation(len(groups)).tolist(), seed=seed)
    for own, rows in zip(gold, found, strict=True):
        assert all(groups[row] != groups[own] for row in rows)
        assert len(set(rows)) == len(rows) <= 3 * EACH


def test_a_third_is_near_in_meaning_a_third_in_words_and_a_third_anything() -> None:
    rng = np.random.default_rng(1)
    documents = unit(rng.normal(size=(500, 16)))
    words = list(range(400, 440))
    (rows,) = mine([7], list(range(500)), documents[7:8], documents, lambda i: words)
    near = set(np.argsort(-(documents @ documents[7]))[:31].tolist())
    assert len(near & set(rows)) >= EACH
    assert len(set(words[SKIP:]) & set(rows)) >= EACH
    assert not {400, 401} & (set(rows) & set(words))  # the first two may be an unlabelled answer
    assert len(rows) == 3 * EACH
    assert mine([7], list(range(500)), documents[7:8], documents, lambda i: words) == [rows]


def test_a_library_of_twins_has_no_negatives() -> None:
    vectors = unit(np.ones((4, 3)))
    assert mine([0], [0, 0, 0, 0], vectors[:1], vectors, None) == [()]
