"""The paper's controls on small worlds where the answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metier.evaluate import controls, padding
from metier.evaluate.sweep import Arrays, Setting, Sweep

DENSE = Setting(channels="dense")


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def shared_background(m: int = 40, n: int = 120, d: int = 24, *, strength: float = 6.0, seed: int = 0) -> Arrays:
    """Every document and request leans on one common direction, each as much as chance wills: projection must help."""
    rng = np.random.default_rng(seed)
    common = unit(rng.standard_normal(d))
    content = rng.standard_normal((n, d)) / np.sqrt(d)
    lean = rng.uniform(0.2, strength, (n, 1)) * common
    documents, requests = (
        unit(content + lean),
        unit(content[:m] + 1.2 * rng.standard_normal((m, d)) / np.sqrt(d) + common),
    )
    lexical = np.zeros((m, n), np.float32)
    return Arrays(
        documents=documents, requests=requests, drafts=unit(content[:m] + common), lexical=lexical,
        lexical_drafts=lexical, generic=np.zeros((0, d), np.float32), rank=np.arange(n, dtype=np.int32),
        gold=tuple({i: 1.0} for i in range(m)), datasets=("d",) * m, toward=common * np.float32(0.5),
    )  # fmt: skip


def test_the_documents_own_directions_help_where_random_ones_do_not() -> None:
    rows = {r["projection"]: r for r in controls.directions(Sweep(shared_background()), DENSE, first=1)}
    assert rows["one level, 1"]["against_base"]["ci95"][0] > 0
    low, high = rows["random, 1 + 2"]["against_base"]["ci95"]
    assert high < rows["one level, 1"]["against_base"]["delta"]
    assert rows["none"]["against_base"]["delta"] == 0
    assert [r for r in rows if r.startswith("one level")] == [f"one level, {k}" for k in range(1, 9)]
    assert len(rows["random, 1 + 2"]["draws"]) == len(controls.RANDOM_SEEDS)
    assert low <= high


def test_expansion_is_measured_with_each_background_taken_out() -> None:
    rows = controls.expansion_by_background(Sweep(shared_background()), replace(DENSE, first=1), 0.3)
    assert [r["background"] for r in rows] == ["none", "one", "both"]
    sweep = Sweep(shared_background())
    for row in rows:
        plain = replace(DENSE, first=1, step=row["background"])
        gain = sweep.values(replace(plain, w_q=0.3)).mean() - sweep.values(plain).mean()
        assert row["against_base"]["delta"] == pytest.approx(100 * gain, abs=0.01)


def test_the_shared_component_and_what_is_left_of_it_are_told_apart() -> None:
    arrays = shared_background()
    assert controls.shared_component(arrays, DENSE, 0.2) == []
    own = np.tile(arrays.requests.mean(axis=0), (len(arrays.documents), 1)).astype(np.float32)
    rows = {r["toward"]: r for r in controls.shared_component(replace(arrays, own=own), DENSE, 0.2)}
    assert rows["own requests"]["mrr@10"] == rows["shared component alone"]["mrr@10"]
    assert rows["without the shared component"]["against_base"]["delta"] == 0.0


def test_supplied_words_are_those_of_gold_that_the_request_lacks() -> None:
    gold = ["Use the reflog to find the commit."]
    assert controls.supplied_words("reflog: find a lost commit, then rebase", "find my work", gold) == [
        "reflog",
        "commit",
    ]


def test_matched_words_are_as_rare_and_not_in_gold() -> None:
    idf = {"reflog": 5.0, "commit": 2.0, "rebase": 4.8, "then": 0.1, "thing": 2.1, "odd": 9.0}
    found = controls.matched_words(
        "reflog commit rebase thing odd", "find", ["reflog commit"], ["reflog", "commit"], lambda w: idf.get(w, 0.0)
    )
    assert found == ["rebase", "thing"]


def test_both_versions_lose_the_same_number_of_words() -> None:
    drafts = [("reflog commit branch and rebase",), ("nothing here",)]
    first, second, count = controls.deletions(
        drafts, ["lost work", "x"], [["reflog commit branch"], ["other"]], lambda w: float(len(w))
    )
    assert len(first[0][0].split()) == len(second[0][0].split()) == 4
    assert "rebase" in first[0][0] and "rebase" not in second[0][0]
    assert first[1] == second[1] == ("nothing here",)
    assert count == 0.5


def test_deleting_leaves_the_rest_of_the_text_alone() -> None:
    assert controls.without_words("Git-Reflog, reflogs and REFLOG.", ["reflog"]) == "Git-, reflogs and ."


def test_a_deletion_table_compares_with_the_whole_drafts() -> None:
    arrays = shared_background()
    worse = replace(arrays, drafts=-arrays.drafts)
    rows = controls.deletion_table(Sweep(arrays), Sweep(worse), Sweep(arrays), replace(DENSE, w_q=0.4))
    assert [r["against_whole"]["delta"] for r in rows][::2] == [0.0, 0.0]
    assert rows[1]["against_whole"]["delta"] < 0


def test_padding_puts_foreign_sections_first_and_between() -> None:
    long = " ".join(["own"] * 25)
    found = padding.padded(f"# A\n{long}\n# B\n{long}", ["foreign one", "foreign two"])
    assert found.split("\n\n") == ["foreign one", f"# A\n{long}", "foreign two", f"# B\n{long}"]
    assert padding.padded("short", ["x", "y"]) == "x\n\nshort\n\ny"


def test_foreign_sections_are_short_and_the_least_wanted_go_first() -> None:
    rng = np.random.default_rng(0)
    found = padding.foreign_sections(["# H\n" + " ".join(["w"] * 200)] * 5, rng, 3)
    assert len(found) == 3 and all(len(t.split()) == padding.OWN_WORDS for t in found)
    vectors = np.array([[1.0, 0], [0, 1.0], [-1.0, 0]], np.float32)
    assert padding.least_wanted(np.array([1.0, 0], np.float32), ["a", "b", "c"], vectors, 2) == ["c", "b"]


def test_padding_costs_what_the_ranks_say() -> None:
    others = [np.array([0.5, 0.4]), np.array([0.5, 0.5])]
    scores = {
        "one vector": {0: np.array([0.9, 0.9]), 1: np.array([0.45, 0.5])},
        "bm25": {0: np.array([0.9, 0.9]), 1: np.array([0.9, 0.9])},
    }
    rows = padding.table(scores, {"one vector": others, "bm25": others}, ["d", "d"])
    assert rows[0]["one vector"]["mrr@10"] == 100.0
    assert rows[1]["one vector"]["mrr@10"] == pytest.approx(50.0)  # ranks 2 and, by ties at their mean, 2
    assert rows[1]["bm25"]["against_unpadded"]["delta"] == 0.0
