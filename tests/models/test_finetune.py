"""Tuning: the plan of batches, the loss, and that a killed run ends as one that was not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InputError
from metier.models import checkpoints, finetune
from metier.models.finetune import batches, blend, rate_at, tune
from metier.models.learner import (
    Corpus,
    Example,
    Learner,
    Settings,
    _read,
    blocked,
    mean_reciprocal_rank,
    together,
)

WORDS = ["pdf", "git", "sql", "docker", "csv", "slides", "email", "invoice", "test", "log", "chart", "secret"]
CORPUS = Corpus(
    [((f"work on {w} files",), (f"{w}-help: helps with {w}", f"work on {w} files")) for w in WORDS],
    list(range(len(WORDS))),
)
EXAMPLES = [
    Example(f"my {w} is broken {n}", d, ((d + 1) % 12, (d + 5) % 12)) for d, w in enumerate(WORDS) for n in "ab"
]
HELD = [Example(f"the {w} again", d, ((d + 3) % 12,)) for d, w in enumerate(WORDS[:5])]
SMALL = Settings(
    epochs=2, batch=6, rate=3e-3, negatives=1, document_tokens=16, request_tokens=16, every=2, patience=0, threads=1,
    bf16=False,
)  # fmt: skip


@given(st.integers(0, 50), st.integers(2, 7), st.lists(st.integers(0, 9), min_size=2, max_size=40))
def test_each_pair_is_seen_once_an_epoch_and_no_batch_holds_two_of_a_group(
    seed: int, size: int, owners: list[int]
) -> None:
    examples = [Example("r", owner) for owner in owners]
    settings = Settings(epochs=2, batch=size, seed=seed)
    plan = batches(examples, list(range(10)), settings)
    assert plan == batches(examples, list(range(10)), settings)
    for members in plan:
        groups = [owners[row] for row in members]
        assert len(set(groups)) == len(groups)
        assert 2 <= len(members) <= size
    seen = [row for members in plan for row in members]
    for row in range(len(owners)):
        assert seen.count(row) <= 2
    if len(set(owners)) == len(owners) and len(owners) % size == 0:
        assert sorted(seen) == sorted([*range(len(owners))] * 2)


def test_the_rate_warms_up_and_falls_along_half_a_cosine() -> None:
    settings = Settings(rate=1.0 - 1e-9, warmup=0.05)
    rates = [rate_at(step, 200, settings) for step in range(200)]
    assert rates[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert max(rates) == pytest.approx(1.0) == pytest.approx(rates[10])
    assert rates[105] == pytest.approx(0.5 * (1 + math.cos(math.pi * 95 / 190)))
    assert rates[-1] < 1e-3


def test_a_column_that_means_the_same_is_left_out_but_never_the_answer() -> None:
    stop = blocked([0, 1], [0, 1, 2, 3], [5, 6, 5, 7])
    assert stop.tolist() == [[False, False, True, False], [False, False, False, False]]


def test_mrr_counts_ties_against_the_gold() -> None:
    scores = np.array([[0.9, 0.9, 0.1], [0.2, 0.5, 0.4]])
    assert mean_reciprocal_rank(scores, [0, 1]) == pytest.approx(100 * (1 / 2 + 1) / 2)


def test_settings_that_cannot_train_are_refused() -> None:
    for wrong in (Settings(batch=1), Settings(temperature=0.0), Settings(negatives=-1), Settings(hard=1.5)):
        with pytest.raises(InputError, match="train: "):
            wrong.checked()


Tiny = Callable[..., Path]


def test_the_loss_is_infonce_and_caching_gradients_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")
    learner = Learner(base, SMALL)
    torch = learner.torch
    requests, documents = (torch.nn.functional.normalize(torch.randn(n, 8), dim=-1) for n in (3, 5))
    stop = torch.from_numpy(blocked([0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 0, 4]))
    scores = (requests @ documents.T / 0.05).double().numpy()
    expected = []
    for i in range(3):
        columns = [j for j in range(5) if not stop[i, j]]
        expected.append(-scores[i, i] + math.log(sum(math.exp(scores[i, j]) for j in columns)))
    assert float(learner.loss(requests, documents, stop)) == pytest.approx(np.mean(expected), rel=1e-4)
    grads = []
    for micro in (0, 4):
        one = Learner(base, replace(SMALL, micro=micro))
        still = torch.optim.SGD(one.model.parameters(), lr=0.0)
        one.step(EXAMPLES[::2][:6], CORPUS, 0, still)
        grads.append({k: p.grad.clone() for k, p in one.model.named_parameters() if p.grad is not None})
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, atol=2e-5, rtol=1e-3)


def test_padding_never_reaches_a_vector(tiny: Tiny, tmp_path: Path) -> None:
    learner = Learner(tiny(tmp_path / "base"), SMALL)
    alone = learner.encode(["short text"], "query")
    beside = learner.encode(["short text", "a much longer text with many more words than the other one has"], "query")
    np.testing.assert_allclose(beside[0], alone[0], atol=1e-5)
    assert np.linalg.norm(beside, axis=1) == pytest.approx([1, 1], abs=1e-5)


def test_tuning_brings_requests_nearer_to_their_skills(tiny: Tiny, tmp_path: Path) -> None:
    heard: list[int] = []
    result = tune(
        tiny(tmp_path / "base"),
        CORPUS,
        EXAMPLES,
        HELD,
        SMALL,
        tmp_path / "out",
        report=lambda s, n, x, m: heard.append(s),
    )
    assert result.best_mrr > result.untuned_mrr + 3
    assert heard == [h["step"] for h in result.history] == [2, 4, 6, 8]
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert not (tmp_path / "out" / checkpoints.STATE).exists()
    kept = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert kept["best_mrr"] == result.best_mrr and kept["settings"]["seed"] == 0


class Killed(Exception):
    """What a test raises where a process would die."""


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(folder / "model.safetensors")
    return found


def test_a_killed_run_resumed_ends_as_one_that_was_not(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")
    whole = tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "whole")

    def die(step: int, steps: int, loss: float, mrr: float) -> None:
        if step == 6:  # the checkpoint of step 4 is the last one on disk
            raise Killed

    with pytest.raises(Killed):
        tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "cut", report=die)
    again = tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "cut")
    assert again.resumed_at == 4
    assert again.history == whole.history
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(bool((one[name] == two[name]).all()) for name in one)


def test_a_finished_run_is_not_run_again(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")
    first = tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "out")
    written = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns
    assert tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "out") == first
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == written


def test_a_joined_request_holds_others_and_their_skills_are_no_negatives_of_it() -> None:
    draw = np.random.default_rng(0)
    others = [Example("wash", 3), Example("iron", 4), Example("from a description", 5, body_only=True)]
    text, documents = together(Example("fold", 1), others, draw, 1.0)
    assert "fold" in text.split("\n\n")
    assert documents and set(documents) <= {3, 4}
    assert len(text.split("\n\n")) == 1 + len(documents)
    assert together(Example("fold", 1), others, draw, 0.0) == ("fold", [])
    stop = blocked([1, 2], [1, 2, 3, 4], [0, 1, 2, 3, 4], [{3, 4}, set()])
    assert stop.tolist() == [[False, False, True, True], [False, False, False, False]]


def test_a_document_vector_is_the_unit_mean_of_its_texts_and_a_weak_pair_reads_the_body(
    tiny: Tiny, tmp_path: Path
) -> None:
    learner = Learner(tiny(tmp_path / "base"), SMALL)
    texts = learner.torch.from_numpy(learner.encode(["work on pdf files", "pdf-help", "git"], "document"))
    pooled = learner.pooled(texts, [2, 1])
    expected = (texts[0] + texts[1]) / (texts[0] + texts[1]).norm()
    learner.torch.testing.assert_close(pooled, learner.torch.stack([expected, texts[2]]))
    draw = np.random.default_rng(0)
    assert _read(CORPUS.readings[0], draw, True) == CORPUS.readings[0][0]
    assert _read(CORPUS.readings[0], draw, False) == CORPUS.readings[0][1]


def test_a_long_request_is_read_from_its_beginning_or_from_anywhere(tiny: Tiny, tmp_path: Path) -> None:
    learner = Learner(tiny(tmp_path / "base"), replace(SMALL, anywhere=0.5))
    long, short = " ".join(WORDS * 4), "my pdf is broken"
    first = learner.tokens([long, short], "query")
    draw = np.random.default_rng(0)
    seen = [learner.asked([long, short], draw) for _ in range(20)]
    whole = Learner(tiny(tmp_path / "base"), replace(SMALL, request_tokens=500)).tokens([long], "query")[0]
    assert all(two == first[1] for _, two in seen)
    assert all(len(one) == 16 and one[0] == whole[0] and one[-1] == whole[-1] for one, _ in seen)
    assert sum(one == first[0] for one, _ in seen) in range(5, 16)
    inner = " ".join(map(str, whole))
    assert all(" ".join(map(str, one[1:-1])) in inner for one, _ in seen)


def test_another_seed_or_other_data_starts_anew(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")

    def die(step: int, steps: int, loss: float, mrr: float) -> None:
        if step == 4:
            raise Killed

    with pytest.raises(Killed):
        tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "out", report=die)
    assert tune(base, CORPUS, EXAMPLES[:-2], HELD, SMALL, tmp_path / "out").resumed_at == 0


def test_training_stops_early_and_keeps_the_best_weights(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")
    wild = replace(SMALL, epochs=8, rate=0.9, negatives=0, every=1, patience=3)
    result = tune(base, CORPUS, EXAMPLES, HELD, wild, tmp_path / "out")
    assert result.stopped_early
    assert len(result.history) < result.steps
    assert result.best_mrr == pytest.approx(max(result.untuned_mrr, *(h["mrr"] for h in result.history)), abs=0.001)
    learner = Learner(tmp_path / "out", wild)
    assert learner.held_out(CORPUS, HELD) == pytest.approx(result.best_mrr, abs=0.01)


def test_a_blend_lies_between_base_and_tuned(tiny: Tiny, tmp_path: Path) -> None:
    base = tiny(tmp_path / "base")
    tune(base, CORPUS, EXAMPLES, HELD, SMALL, tmp_path / "tuned")
    blend(base, tmp_path / "tuned", 0.25, tmp_path / "mixed")
    old, new, mixed = weights(base), weights(tmp_path / "tuned"), weights(tmp_path / "mixed")
    name = "encoder.layer.1.output.dense.weight"
    np.testing.assert_allclose(mixed[name], 0.75 * old[name] + 0.25 * new[name], atol=1e-6)
    with pytest.raises(InputError, match="from 0 to 1"):
        blend(base, tmp_path / "tuned", 1.5, tmp_path / "mixed")


def test_nothing_to_learn_from_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 pairs and 0 held out"):
        finetune.tune(tmp_path, CORPUS, [], [], SMALL, tmp_path / "out")
