"""The judge and the floor: when no skill is the answer."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.retrieve.world import BagEncoder

from metier.retrieve.abstain import JUDGES, WORDS_COUNTED, Judge, floor_at, judge_of, reads


def judge(**known: float) -> Judge:
    weights = {"cosine": 2.0, "words": 1.0, "size": -0.5, "bias": -1.0} | known
    return Judge(np.array([1.0, -1.0], np.float32), **weights)


def test_the_judge_adds_topic_cosine_words_and_size() -> None:
    query = np.array([0.6, 0.8], np.float32)
    wanted = 0.6 - 0.8 + 2 * 0.4 + math.log1p(5) - 0.5 * math.log(100) - 1
    assert judge().needed(query, 0.4, 5, 100) == pytest.approx(wanted, abs=1e-6)


def test_a_long_story_is_no_more_a_request_than_a_sentence() -> None:
    query = np.array([0.6, 0.8], np.float32)
    assert judge().needed(query, 0.4, 400, 100) == judge().needed(query, 0.4, WORDS_COUNTED, 100)
    assert judge().needed(query, 0.4, 2, 100) < judge().needed(query, 0.4, 5, 100)


def test_a_judge_is_found_by_the_encoder_it_was_fitted_for_and_by_no_other(tmp_path: Path) -> None:
    topic = np.array([0.5, -2.0], "<f2")
    path = tmp_path / "judges.json"
    entry = {"topic": base64.b64encode(topic.tobytes()).decode(), "cosine": 1, "words": 2, "size": 3, "bias": 4}
    path.write_text(json.dumps({"bag#1": entry}), encoding="utf-8")
    found = judge_of("bag#1", path)
    assert found is not None
    assert found.topic.tolist() == [0.5, -2.0]
    assert (found.cosine, found.words, found.size, found.bias) == (1, 2, 3, 4)
    assert judge_of("bag#2", path) is None
    assert judge_of(None, path) is None
    assert judge_of("bag#1", tmp_path / "none.json") is None


def test_every_judge_of_the_package_can_be_read() -> None:
    for encoder in json.loads(JUDGES.read_text(encoding="utf-8")):
        found = judge_of(encoder)
        assert found is not None
        assert np.isfinite(found.topic).all()
        assert found.cosine > 0


def test_the_floor_grows_between_fitted_sizes_with_the_logarithm() -> None:
    fitted = ((100, 0.2), (10_000, 0.4))
    assert floor_at(fitted, 1_000) == pytest.approx(0.3)
    assert [floor_at(fitted, n) for n in (1, 100, 10_000, 99_999)] == [0.2, 0.2, 0.4, 0.4]
    assert floor_at((), 50) is None


def test_an_encoder_says_itself_what_it_can_read() -> None:
    class Mute:
        profile = BagEncoder().profile

        def encode(self, texts, *, kind):  # type: ignore[no-untyped-def]
            return BagEncoder().encode(texts, kind=kind)

    assert reads(BagEncoder(), "fill in the form")
    assert not reads(BagEncoder(), "帮我填表格")
    assert reads(Mute(), "帮我填表格")
    assert reads(None, "帮我填表格")
