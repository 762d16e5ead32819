"""The projection against a plain SVD, its guards and its control."""

from __future__ import annotations

import numpy as np
import pytest

from metier.retrieve.background import (
    Background,
    coordinates,
    directions_for,
    enough,
    generic_directions,
    projected_scores,
    random_directions,
    top_directions,
)


def unit_rows(count: int, dim: int, seed: int, shared: float = 1.0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((count, dim)) + shared * draw.standard_normal(dim)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def naive(documents: np.ndarray, words: np.ndarray, k1: int) -> np.ndarray:
    """The two levels as the paper writes them, by full SVDs in float64."""
    d = documents.astype(np.float64)
    u1 = np.linalg.svd(d, full_matrices=False)[2][:k1]
    d = d - d @ u1.T @ u1
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    w = words.astype(np.float64)
    w = w - w @ u1.T @ u1
    u2 = np.linalg.svd(w, full_matrices=False)[2][:2]
    return d - d @ u2.T @ u2


@pytest.mark.parametrize("k1", [1, 2, 3, 8])
def test_projected_scores_equal_those_of_a_naive_svd(k1: int) -> None:
    documents, words, query = unit_rows(200, 32, 0), unit_rows(80, 32, 1), unit_rows(1, 32, 2)[0]
    first = top_directions(documents, k1)
    found = Background(first, generic_directions(words, first), 200)
    coords, scale, length = coordinates(documents, found)
    scores = projected_scores(documents @ query, query, found.all, coords, scale)
    wanted = naive(documents, words, k1)
    np.testing.assert_allclose(scores, wanted @ query, atol=2e-6)
    u2 = found.second.astype(np.float64)
    d = documents.astype(np.float64)
    d = d - d @ first.T @ first
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    assert length == pytest.approx(np.square(d @ u2.T).sum(axis=1).mean(), abs=1e-6)


def test_both_levels_together_are_orthonormal() -> None:
    first = top_directions(unit_rows(300, 24, 3), 3)
    both = np.concatenate([first, generic_directions(unit_rows(60, 24, 4), first)])
    np.testing.assert_allclose(both @ both.T, np.eye(5), atol=1e-5)


def test_projecting_the_request_too_would_change_no_score() -> None:
    documents, query = unit_rows(100, 16, 5), unit_rows(1, 16, 6)[0]
    projected = naive(documents, unit_rows(50, 16, 7), 2)
    away = np.linalg.svd(documents.astype(np.float64), full_matrices=False)[2][:2]
    np.testing.assert_allclose(projected @ query, projected @ (query - query @ away.T @ away), atol=1e-6)


def test_a_vector_that_was_all_background_stays_zero() -> None:
    documents = np.tile(np.eye(8, dtype=np.float32)[0], (60, 1))
    documents[0] = np.eye(8, dtype=np.float32)[3]
    found = Background(np.eye(8, dtype=np.float32)[:1], np.eye(8, dtype=np.float32)[1:2], 60)
    coords, scale, _ = coordinates(documents, found)
    assert scale[1:].max() == 0
    query = unit_rows(1, 8, 8)[0]
    scores = projected_scores(documents @ query, query, found.all, coords, scale)
    assert not scores[1:].any()
    assert scores[0] == pytest.approx(float(query[3]), abs=1e-6)


def test_few_documents_carry_no_projection() -> None:
    assert not enough(39, 2)
    assert enough(40, 2)
    assert not enough(1000, 0)
    profile = ((30, 2), (5000, 12))
    assert [directions_for(profile, n) for n in (20, 39, 40, 4999, 5000)] == [0, 0, 2, 2, 12]
    assert directions_for((), 100_000) == 0


def test_projection_finds_what_the_background_hid_and_random_directions_do_not() -> None:
    """The control of rule 1.5: it is the background that matters, not that something is taken out."""
    draw = np.random.default_rng(9)
    content, shared = draw.standard_normal((400, 48)), draw.standard_normal(48)
    documents = content + draw.uniform(0, 4, (400, 1)) * shared
    requests = content[:60] + 2 * draw.standard_normal((60, 48)) + 3 * shared
    documents = (documents / np.linalg.norm(documents, axis=1, keepdims=True)).astype(np.float32)
    requests = (requests / np.linalg.norm(requests, axis=1, keepdims=True)).astype(np.float32)

    def mean_reciprocal_rank(first: np.ndarray | None) -> float:
        scores = documents @ requests.T
        if first is not None:
            found = Background(first, np.zeros((0, 48), np.float32), 400)
            coords, scale, _ = coordinates(documents, found)
            scores = np.stack(
                [projected_scores(scores[:, n], q, found.all, coords, scale) for n, q in enumerate(requests)], axis=1
            )
        gold = scores[np.arange(60), np.arange(60)]
        return float((1 / (1 + (scores > gold).sum(axis=0))).mean())

    plain = mean_reciprocal_rank(None)
    control = np.mean([mean_reciprocal_rank(random_directions(1, 48, seed=seed)) for seed in range(5)])
    assert mean_reciprocal_rank(top_directions(documents, 1)) > plain + 0.1
    assert abs(control - plain) < 0.05
