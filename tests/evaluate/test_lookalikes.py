from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.test_corrupt import BODY, DESCRIPTION, REQUEST

from metier.errors import InputError
from metier.evaluate.datasets import Request
from metier.evaluate.lookalikes import (
    Near,
    Pair,
    Scored,
    below,
    expected_ndcg,
    fitted_lambda,
    pairs,
    report,
    text_scores,
    witness_scores,
)
from metier.evaluate.world import tasks
from metier.models.replay import HashEncoder
from metier.rerank.keep import Graphs
from metier.rerank.witness import Rerank
from metier.types import Evidence, Skill


def one_pair(seed: int = 0, per_request: int = 3) -> list:
    skill = Skill("given:mesh", "mesh", DESCRIPTION, "d", "", "given", ("mesh",))
    request = Request("q1", REQUEST, {"mesh": 1.0, "absent": 1.0}, "own")
    return pairs([request], {"mesh": skill}, lambda s: BODY, seed=seed, per_request=per_request)


def test_a_pair_is_one_valid_skill_and_near_copies_with_opaque_shuffled_ids() -> None:
    found = one_pair()
    assert len(found) == 1 and len(found[0].candidates) == 4
    assert [c.operator for c in found[0].candidates].count(None) == 1
    assert found[0].candidates[found[0].position].body == BODY
    ids = [c.skill.id for c in found[0].candidates]
    assert len(set(ids)) == 4 and not any("mesh" in i for i in ids)
    assert {one_pair(seed)[0].position for seed in range(20)} == {0, 1, 2, 3}
    assert one_pair(1) == one_pair(1)


def test_a_skill_that_cannot_be_broken_often_enough_is_left_out() -> None:
    assert one_pair(per_request=500) == []


def test_ties_count_by_expectation() -> None:
    assert expected_ndcg(np.array([2.0, 1.0, 0.0, 0.0]), 0) == 1.0
    assert expected_ndcg(np.array([1.0, 2.0, 0.0, 0.0]), 0) == pytest.approx(1 / np.log2(3))
    assert expected_ndcg(np.ones(4), 2) == pytest.approx(np.mean([1 / np.log2(r) for r in (2, 3, 4, 5)]))
    assert expected_ndcg(np.array([1.0, 1.0 + 1e-9]), 0) == expected_ndcg(np.array([1.0, 1.0]), 0)
    assert (below(np.array([1.0, 0.0]), 0, 1), below(np.array([1.0, 1.0]), 0, 1)) == (1.0, 0.5)


def test_the_witness_ranks_by_the_text_scores_own_candidates_and_the_report_adds_up(tmp_path: Path) -> None:
    made = [pair for _, pair in tasks(12, seed=3)] + one_pair()
    encoder = HashEncoder()
    text = text_scores(made, [], lambda s: "", encoder, tmp_path / "index", tmp_path / "vectors")
    bodies = {c.skill.id: c.body for p in made for c in p.candidates}
    ours, evidence = witness_scores(made, text, Rerank(Graphs(lambda s: bodies[s.id]), encoder))
    assert [len(s) for s in ours] == [len(p.candidates) for p in made] and all(e for row in evidence for e in row)
    found = report(Scored(made, text, ours, evidence))
    assert found["pairs"] == 13 and set(found["by_dataset"]) == {"world", "own"}
    assert found["ndcg@4"]["witness"] > found["ndcg@4"]["text"]
    assert found["ndcg@4"]["delta"] == pytest.approx(found["ndcg@4"]["witness"] - found["ndcg@4"]["text"], abs=0.02)
    assert sum(v["n"] for v in found["by_operator"].values()) == 13 * 3
    same = report(Scored(made, text, text))
    assert same["ndcg@4"]["delta"] == 0.0 and same["ndcg@4"]["ci95"] == [0.0, 0.0]


def test_nothing_to_break_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(InputError, match="give requests with details"):
        report(Scored([], [], []))


def test_lambda_is_fitted_on_pairs_that_nothing_contradicts() -> None:
    def told(score: float) -> Evidence:
        return Evidence("rerank", score, "")

    near = tuple(Near(replace_id(f"c{i}"), "b", None if i == 0 else "step-removed") for i in range(3))
    pair = Pair(Request("r", "t", {"c0": 1.0}, "x"), "c0", near)
    text = np.array([0.1, 0.2, 0.3])  # text prefers the copies, the witness the valid one
    helpful = Scored([pair], [text], [text], [[told(0.9), told(0.5), told(0.4)]])
    assert (fitted_lambda(helpful) or 0.0) > 1.0
    harmful = Scored([pair], [text[::-1].copy()], [text], [[told(0.4), told(0.5), told(0.9)]])
    assert fitted_lambda(harmful) == 0.0
    assert fitted_lambda(Scored([pair], [text], [text], [[told(0.9), told(0.0), told(0.0)]])) is None


def replace_id(name: str) -> Skill:
    return Skill(id=name, name=name, digest=name, root="", scope="given", description="", addresses=(name,))
