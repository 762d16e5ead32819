"""A language model is used only where it was seen to help."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metier.retrieve import expand, qualify
from metier.retrieve.qualify import judge_requests, judge_skills, keep, qualified, reciprocal_ranks
from metier.store import Store

VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=2, max_size=30)


def test_reciprocal_ranks_agree_with_sorting_by_hand() -> None:
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(30, 4)).astype(np.float32)
    queries = rng.normal(size=(12, 4)).astype(np.float32)
    gold = rng.integers(0, 30, 12).tolist()
    found = reciprocal_ranks(queries, documents, gold)
    for value, query, own in zip(found, queries, gold, strict=True):
        order = sorted(range(30), key=lambda row: -float(documents[row] @ query))
        rank = order.index(own) + 1
        assert value == (1 / rank if rank <= 10 else 0.0)


def test_a_tie_counts_against_the_gold() -> None:
    documents = np.ones((3, 1), np.float32)
    assert reciprocal_ranks(np.ones((1, 1), np.float32), documents, [1])[0] == 1 / 3


def test_a_model_whose_requests_do_not_find_their_skill_fails() -> None:
    assert judge_requests(np.full(20, 0.9)).passed
    verdict = judge_requests(np.full(20, 0.2))
    assert not verdict.passed
    assert "MRR@10 0.20" in verdict.why
    assert not judge_requests(np.array([])).passed


@given(VALUES)
def test_a_model_that_changes_nothing_or_harms_fails(values: list[float]) -> None:
    before = np.array(values)
    assert not judge_skills(before, before).passed
    assert not judge_skills(before, before * 0.5).passed


def test_a_gain_must_exceed_its_standard_error() -> None:
    before = np.zeros(10)
    noisy = np.array([1.0] + [0.0] * 9)  # one lucky request: mean 0.1, standard error 0.1
    assert not judge_skills(before, noisy).passed
    steady = judge_skills(before, np.full(10, 0.1))
    assert steady.passed
    assert steady.why.startswith("hypothetical skills change MRR@10 by +10.0")


def test_a_verdict_holds_for_one_model_prompt_and_encoder(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    assert qualified(store, "m@u", "minilm-1", "skills") is None  # not tried: not used
    verdict = judge_skills(np.zeros(4), np.array([0.1, 0.2, 0.1, 0.2]))
    keep(store, "m@u", "minilm-1", verdict)
    assert qualified(store, "m@u", "minilm-1", "skills") == verdict
    assert qualified(store, "m@u", "other", "skills") is None
    assert qualified(store, "m@u", "minilm-1", "requests") is None
    keep(store, "m@u", "minilm-1", judge_skills(np.ones(4), np.zeros(4)))
    again = qualified(store, "m@u", "minilm-1", "skills")
    assert again is not None and not again.passed
    assert qualify.prompt_digest("skills") == expand.prompt_digest("skills") != expand.prompt_digest("requests")
