"""Fusion by scores, its pool, and what an inert channel does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metier.retrieve.fuse import best, fused, pool, reciprocal_rank, z

SCORES = arrays(np.float32, st.integers(1, 60), elements=st.integers(-5, 5).map(float))


@given(SCORES, st.integers(1, 70))
def test_the_best_are_those_of_a_plain_sort(scores: np.ndarray, count: int) -> None:
    wanted = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:count]
    assert best(scores, count).tolist() == sorted(wanted)


def test_the_pool_is_the_union_of_both_channels_best() -> None:
    dense = np.array([0.9, 0.1, 0.2, 0.3], np.float32)
    lexical = np.array([0.0, 7.0, 0.0, 0.0], np.float32)
    assert pool(dense, lexical, 1).tolist() == [0, 1]
    assert pool(None, lexical, 3).tolist() == [1]
    assert pool(dense, lexical, 9).tolist() == [0, 1, 2, 3]


@given(SCORES)
def test_z_has_mean_zero_and_deviation_one_or_is_inert(scores: np.ndarray) -> None:
    found = z(scores)
    assert found.mean() == pytest.approx(0, abs=1e-9)
    assert found.std() == pytest.approx(1) or not found.any()


def test_an_inert_channel_leaves_the_order_to_the_other() -> None:
    flat, other = np.full(5, 0.3, np.float32), np.array([1, 4, 2, 5, 3], np.float32)
    assert not z(flat).any()
    assert np.argsort(fused(z(flat), z(other), 0.3)).tolist() == np.argsort(other).tolist()


def test_alpha_sits_on_the_lexical_side() -> None:
    dense, lexical = z(np.array([1, 0], np.float32)), z(np.array([0, 1], np.float32))
    assert fused(dense, lexical, 0.3)[0] > fused(dense, lexical, 0.3)[1]
    assert fused(dense, lexical, 0.7)[0] < fused(dense, lexical, 0.7)[1]


def test_scores_keep_a_lead_that_ranks_forget() -> None:
    """Why fusion is by scores: a clear winner of one channel survives the other's small preference."""
    dense = np.array([10.0, 1.0, 1.1, 1.2], np.float32)
    lexical = np.array([1.0, 1.2, 1.1, 0.0], np.float32)
    assert np.argmax(fused(z(dense), z(lexical), 0.5)) == 0
    assert reciprocal_rank(dense, lexical)[0] - reciprocal_rank(dense, lexical)[1] < 0.01
