"""The judge and the floor: when no skill is the answer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.retrieve.world import BagEncoder

from metier.retrieve.abstain import (
    JUDGES,
    MARKS,
    TRAITS,
    Judge,
    floor_at,
    judge_of,
    marks,
    packed,
    reads,
    traits,
)
from metier.text import words

QUERY = np.array([0.6, 0.8], np.float32)


def judge(seed: int = 0, cuts: tuple[tuple[int, float], ...] = ()) -> Judge:
    dice = np.random.default_rng(seed)
    layer = dice.standard_normal((2 + 2 + TRAITS, 3)).astype(np.float32)
    offset, out = dice.standard_normal((2, 3)).astype(np.float32)
    return Judge(layer, offset, out, dice.standard_normal(MARKS).astype(np.float32), 0.5, cuts)


def odds(made: Judge, text: str, cosine: float = 0.4, size: int = 100) -> float:
    return made.needed(QUERY, cosine, text, words(text), size)


def test_the_judge_is_a_small_network_beside_a_table_of_words() -> None:
    made, text = judge(), "why is app.log empty?"
    inputs = [*QUERY.tolist(), 0.4, math.log(100), *traits(text, words(text))]
    wanted = made.bias
    for unit in range(3):
        total = sum(x * float(w) for x, w in zip(inputs, made.hidden[:, unit], strict=True))
        wanted += max(0.0, total + float(made.offset[unit])) * float(made.out[unit])
    said = marks(text, words(text))
    wanted += sum(float(made.table[bucket]) for bucket in said) / math.sqrt(len(said))
    assert odds(made, text) == pytest.approx(wanted, abs=1e-4)


def test_the_cut_stands_between_fitted_sizes() -> None:
    text = "clean this csv"
    plain, cut = odds(judge(), text), odds(judge(cuts=((10, 1.0), (1_000, 3.0))), text)
    assert plain - cut == pytest.approx(2.0)


def test_traits_tell_a_question_code_digits_and_persons_from_plain_words() -> None:
    def of(text: str) -> list[float]:
        return traits(text, words(text))[2:]

    assert of("clean this csv") == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert of("What does the folder hold?") == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert of("please look into src/main.py again") == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert of("you gave me 12") == [0.0, 0.0, 0.0, pytest.approx(2 / 14), 0.0, 1.0, 1.0]
    assert len(traits("", [])) == TRAITS
    long, longer = "word " * 40, "word " * 4_000
    assert traits(long, words(long))[:2] == traits(longer, words(longer))[:2]


def test_marks_are_words_pairs_beginning_and_end_and_never_none() -> None:
    here = set(marks("undo that", ["undo", "that"]))
    assert here & set(marks("undo it", ["undo", "it"]))
    assert here != set(marks("that undo", ["that", "undo"]))  # the same words in another order
    assert all(0 <= bucket < MARKS for bucket in here)
    assert marks("🎉", []) and marks("", []) and marks("\ud800", [])


def test_a_judge_is_found_by_the_encoder_it_was_fitted_for_and_by_no_other(tmp_path: Path) -> None:
    made, path = judge(1, ((15, -0.25), (500, 0.75))), tmp_path / "judges.json"
    path.write_text(json.dumps({"bag#1": packed(made)}), encoding="utf-8")
    found = judge_of("bag#1", path)
    assert found is not None
    for text in ("go on", "convert report.pdf to csv", "帮我写测试"):
        assert odds(found, text) == pytest.approx(odds(made, text), abs=0.15)  # a byte a weight
    assert found.cuts == made.cuts
    assert judge_of("bag#2", path) is None
    assert judge_of(None, path) is None
    assert judge_of("bag#1", tmp_path / "none.json") is None


def test_every_judge_of_the_package_can_be_read_and_fits_its_libraries() -> None:
    for encoder in json.loads(JUDGES.read_text(encoding="utf-8")):
        found = judge_of(encoder)
        assert found is not None
        assert np.isfinite(found.hidden).all() and np.isfinite(found.table).all()
        assert [size for size, _ in found.cuts] == sorted(size for size, _ in found.cuts)
        query = np.zeros(len(found.hidden) - 2 - TRAITS, np.float32)
        far, near = (found.needed(query, cosine, "pdf to csv", ["pdf", "to", "csv"], 500) for cosine in (0.1, 0.7))
        assert far < near


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
