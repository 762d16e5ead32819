"""BM25 against an independent implementation, and the arrays it stands on."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import bm25s
import numpy as np
import pytest

import metier.retrieve.postings as postings
from metier.errors import IndexProblem
from metier.retrieve.bm25 import K1, K3, B, Bm25, query_weights
from metier.retrieve.generation import Writer, open_arrays, read_manifest
from metier.retrieve.postings import Earlier, Tally
from metier.text import words

WORDS = [f"w{n}" for n in range(400)]


def corpus(count: int, seed: int = 0) -> list[str]:
    """Texts with a Zipf-like use of words, so that some terms are in most documents and some in one."""
    draw = random.Random(seed)
    weights = [1 / (n + 1) for n in range(len(WORDS))]
    return [" ".join(draw.choices(WORDS, weights, k=draw.randint(1, 120))) for _ in range(count)]


def written(folder: Path, texts: list[str], earlier: Earlier | None = None, fresh: list[int] | None = None) -> Bm25:
    tally, writer = Tally(len(texts)), Writer(folder)
    for row in range(len(texts)) if fresh is None else fresh:
        tally.add(row, texts[row])
    tally.write(writer, earlier)
    writer.finish({})
    return reopened(folder, len(texts))


def reopened(folder: Path, size: int) -> Bm25:
    a = open_arrays(folder, read_manifest(folder))
    parts = ("hashes", "starts", "docs", "impact", "plain", "plain-row")
    return Bm25(*(a[f"bm25-{part}"] for part in parts), size)


def oracle(texts: list[str], query: list[str]) -> np.ndarray:
    other = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
    other.index([words(text) for text in texts], show_progress=False)
    return other.get_scores(query)


@pytest.mark.parametrize("seed", range(4))
def test_scores_agree_with_bm25s_on_the_same_tokens(tmp_path: Path, seed: int) -> None:
    texts = corpus(300, seed)
    query = [*random.Random(seed + 100).choices(WORDS, k=60), "unheard", "of"]
    ours = written(tmp_path, texts).scores(Counter(query))
    np.testing.assert_allclose(ours, oracle(texts, [w for w in query if w in WORDS]), rtol=2e-5, atol=1e-5)


def test_common_terms_have_plain_rows_and_rare_ones_do_not(tmp_path: Path) -> None:
    index = written(tmp_path, corpus(200))
    df = np.diff(index.starts)
    assert ((index.plain_row >= 0) == (df * postings.PLAIN_SHARE > 200)).all()
    assert 0 < len(index.plain) < len(index.hashes)


def test_terms_of_a_hypothetical_skill_count_by_their_weight(tmp_path: Path) -> None:
    texts = corpus(50)
    index = written(tmp_path, texts)
    both = index.scores({"w3": 1.0, "w7": 0.5})
    np.testing.assert_allclose(both, oracle(texts, ["w3"]) + 0.5 * oracle(texts, ["w7"]), rtol=2e-5, atol=1e-5)


def test_postings_spilled_to_disk_give_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = corpus(150)
    written(tmp_path / "whole", texts)
    monkeypatch.setattr(postings, "SPILL", 500)
    written(tmp_path / "spilled", texts)
    for file in (tmp_path / "whole").glob("bm25-*.bin"):
        assert file.read_bytes() == (tmp_path / "spilled" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("spill", [300, 4_000_000])
def test_an_index_made_from_an_earlier_one_equals_one_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spill: int
) -> None:
    monkeypatch.setattr(postings, "SPILL", spill)
    before = corpus(120)
    old = written(tmp_path / "old", before)
    a = open_arrays(tmp_path / "old", read_manifest(tmp_path / "old"))
    after = [*before[30:90], *corpus(40, seed=9), *before[:10]]
    number = np.full(120, -1, np.int32)
    number[30:90] = np.arange(60)
    number[:10] = np.arange(100, 110)
    earlier = Earlier(old, a["bm25-tf"], a["bm25-lengths"], number)
    written(tmp_path / "again", after, earlier, fresh=list(range(60, 100)))
    written(tmp_path / "anew", after)
    for file in (tmp_path / "anew").glob("bm25-*.bin"):
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_words_of_a_request_saturate_and_function_words_are_left_out() -> None:
    weights = query_weights(words("the data, the data of a report"), [["report", "table"], ["report"]])
    assert set(weights) == {"data", "report", "table"}
    assert weights["report"] == weights["data"] == pytest.approx((K3 + 1) * 2 / (K3 + 2))
    assert weights["table"] == pytest.approx((K3 + 1) * 0.5 / (K3 + 0.5))
    assert query_weights(["word"]) == {"word": 1.0}
    assert query_weights(words("to be or not to be")).keys() == {"to", "be", "or", "not"}


def test_chinese_is_found_by_its_bigrams(tmp_path: Path) -> None:
    index = written(tmp_path, ["把 PDF 表格提取为 CSV 文件", "恢复丢失的 git 提交", "write release notes"])
    scores = index.scores(Counter(words("请帮我提取表格")))
    assert scores.argmax() == 0
    assert scores[0] > 0
    assert scores[2] == 0


def test_an_empty_library_and_an_empty_request_score_nothing(tmp_path: Path) -> None:
    assert written(tmp_path / "none", []).scores({"x": 1.0}).shape == (0,)
    assert not written(tmp_path / "one", ["a b"]).scores({}).any()
    assert not written(tmp_path / "blank", ["", "  "]).scores({"a": 1.0}).any()


def test_damaged_postings_are_a_problem_of_the_index_not_a_crash(tmp_path: Path) -> None:
    index = written(tmp_path, corpus(40))
    docs = index.docs.copy()
    docs[:] = 10_000
    broken = Bm25(index.hashes, index.starts, docs, index.impact, index.plain, index.plain_row, 40)
    with pytest.raises(IndexProblem, match="metier index --full"):
        broken.scores(dict.fromkeys(WORDS, 1.0))


def test_frequent_words_are_named_most_first(tmp_path: Path) -> None:
    tally, writer = Tally(3), Writer(tmp_path)
    for row, text in enumerate(["skill data the", "skill data", "skill the the"]):
        tally.add(row, text)
    tally.write(writer)
    writer.finish({})
    assert tally.frequent(2, lambda word: word != "the") == ["skill", "data"]
    assert tally.frequent(9, str.isalpha)[0] == "skill"
