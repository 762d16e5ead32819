"""The model card says where the weights come from; an export that lost too much is refused."""

from __future__ import annotations

from metier.models.card import Lineage, card, refused
from metier.models.finetune import Result
from metier.models.learner import Settings


def test_the_card_names_base_licence_data_and_figures() -> None:
    text = card(
        "small", Lineage("all-MiniLM", "53aa", "Apache-2.0", "Tuned."), Settings(seed=3),
        Result(steps=10, best_step=5, best_mrr=70.0, untuned_mrr=60.0), {"written": 7, "weak": 2},
        [("held out", 60, 70)],
    )  # fmt: skip
    for said in ("Apache-2.0", "53aa", "| written | 7 |", "| held out | 60.0 | 70.0 |", "seed 3", "step 5"):
        assert said in text


def test_int8_may_cost_half_a_point_and_no_more() -> None:
    assert refused(70.0, 69.5) is None
    assert refused(70.0, 71.0) is None
    assert "int8 lost 0.60 MRR@10" in str(refused(70.0, 69.4))
