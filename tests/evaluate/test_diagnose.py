"""The three diagnostics against plain loops over small arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.evaluate import diagnose
from metier.evaluate.relate import correlation, partial, ranks, spearman, with_gains


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    drawn = rng.standard_normal(shape).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_background_gap_is_that_of_loops_over_competitors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents, requests = unit(rng, 12, 6), unit(rng, 4, 6)
    basis = np.linalg.qr(rng.standard_normal((6, 2)))[0].T.astype(np.float32)
    gold = [{0: 1.0}, {3: 1.0, 4: 1.0}, {-1: 1.0}, {11: 1.0, 2: 0.0}]
    found = diagnose.background_gap(requests, documents, gold, basis)
    for n, judged in enumerate(gold):
        mine = [r for r, v in judged.items() if v > 0 and r >= 0]
        if not mine:
            assert np.isnan(found.gap[n]) and np.isnan(found.above[n])
            continue
        score = [
            sum(float(requests[n] @ basis[k]) * float(documents[c] @ basis[k]) for k in range(2)) for c in range(12)
        ]
        others = [c for c in range(12) if c not in mine]
        gap = np.mean([score[c] for c in others]) - np.mean([score[g] for g in mine])
        above = np.mean([np.mean([score[c] > score[g] for c in others]) for g in mine])
        assert found.gap[n] == pytest.approx(gap, abs=1e-6)
        assert found.above[n] == pytest.approx(above, abs=1e-6)


def test_named_competitors_leave_gold_out() -> None:
    documents = np.eye(4, dtype=np.float32)
    request = np.array([[0.5, 0.4, 0.3, 0.2]], np.float32)
    found = diagnose.background_gap(
        request, documents, [{0: 1.0}], np.eye(4, dtype=np.float32), competitors=[np.array([0, 1])]
    )
    assert found.gap[0] == pytest.approx(-0.1, abs=1e-6) and found.above[0] == 0.0


def test_equal_background_counts_half() -> None:
    documents = np.tile(np.array([[1.0, 0.0]], np.float32), (5, 1))
    found = diagnose.background_gap(documents[:1], documents, [{2: 1.0}], np.eye(2, dtype=np.float32))
    assert found.gap[0] == 0.0 and found.above[0] == 0.5


def test_projection_is_wanted_when_background_puts_most_skills_above_gold() -> None:
    assert diagnose.wants_projection(np.array([0.9, 0.8, np.nan]), ["a", "b", "b"])
    assert not diagnose.wants_projection(np.array([0.9, 0.05]), ["a", "b"])
    assert not diagnose.wants_projection(np.array([np.nan]), ["a"])


def test_coverage_counts_same_words_near_words_and_mean_nearness() -> None:
    gold, request = ["merge", "pdf", "pages"], ["join", "pdf", "my"]
    vectors = {
        "merge": [1.0, 0.0, 0.0], "join": [0.9, np.sqrt(1 - 0.81), 0.0], "pdf": [0.0, 1.0, 0.0],
        "pages": [0.0, 0.6, 0.8], "my": [0.0, 0.0, 1.0],
    }  # fmt: skip
    rows = {w: np.array(v, np.float32) for w, v in vectors.items()}
    found = diagnose.coverage(gold, request, np.stack([rows[w] for w in gold]), np.stack([rows[w] for w in request]))
    assert found.lexical == pytest.approx(1 / 3)
    assert found.semantic == pytest.approx(3 / 3)
    assert found.soft == pytest.approx((0.9 + 1.0 + 0.8) / 3, abs=1e-6)
    assert found.request_in_gold == pytest.approx(1 / 3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_coverage_is_that_of_loops(seed: int, g: int, r: int) -> None:
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{n}" for n in range(8)]
    table = {w: unit(rng, 5) for w in vocabulary}
    gold = list(rng.permutation(vocabulary)[:g])
    request = list(rng.permutation(vocabulary)[:r])
    found = diagnose.coverage(gold, request, np.stack([table[w] for w in gold]), np.stack([table[w] for w in request]))
    best = [1.0 if w in request else max(float(table[w] @ table[v]) for v in request) for w in gold]
    assert found.lexical == pytest.approx(sum(w in request for w in gold) / g)
    assert found.semantic == pytest.approx(sum(b >= 0.8 for b in best) / g)
    assert found.soft == pytest.approx(sum(best) / g, abs=1e-5)
    assert found.lexical <= found.semantic


def test_coverage_of_nothing_has_no_value() -> None:
    none = np.zeros((0, 3), np.float32)
    assert np.isnan(diagnose.coverage([], ["a"], none, np.ones((1, 3), np.float32)).soft)
    assert np.isnan(diagnose.coverage(["a"], [], np.ones((1, 3), np.float32), none).lexical)


def test_content_words_are_unique_and_say_something() -> None:
    assert diagnose.content_words("The PDF and the pdf: merge it, merge 12 of them!") == ["pdf", "merge"]
    assert diagnose.content_words("表格") == ["表格"]


def test_sections_split_at_headings_carry_them_and_are_long_enough() -> None:
    long = " ".join(["word"] * 25)
    body = f"intro too short\n# One\n{long}\n```\n# not a heading\n```\n## Two\nshort\n### Three\n{long}\n"
    found = diagnose.sections(body)
    assert [part.splitlines()[0] for part in found] == ["# One", "### Three"]
    assert "# not a heading" in found[0]
    assert diagnose.sections("short") == []


def test_dilution_is_the_best_section_against_the_whole() -> None:
    rng = np.random.default_rng(1)
    request, whole, parts = unit(rng, 8), unit(rng, 8), unit(rng, 3, 8)
    expected = max(float(p @ request) for p in parts) - float(whole @ request)
    assert diagnose.dilution(request, whole, parts) == pytest.approx(expected, abs=1e-6)
    assert np.isnan(diagnose.dilution(request, whole, parts[:0]))


def test_fifths_are_equal_parts_in_order_and_leave_out_what_has_no_value() -> None:
    values = np.array([5.0, 1.0, np.nan, 3.0, 2.0, 4.0])
    found = diagnose.fifths(values, values / 10)
    assert [f["n"] for f in found] == [1] * 5
    assert [f["mean"] for f in found] == [10.0, 20.0, 30.0, 40.0, 50.0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_ranks_of_ties_are_their_mean(values: list[int]) -> None:
    found = ranks(np.array(values, float))
    for value, rank in zip(values, found, strict=True):
        below, same = sum(v < value for v in values), sum(v == value for v in values)
        assert rank == below + (same + 1) / 2


def test_spearman_is_one_for_any_rising_curve_and_nan_where_nothing_varies() -> None:
    x = np.linspace(0, 1, 20)
    assert spearman(x, np.exp(5 * x)) == pytest.approx(1.0)
    assert spearman(x, -(x**3)) == pytest.approx(-1.0)
    assert np.isnan(spearman(x, np.ones(20)))


def test_a_partial_correlation_is_that_of_the_textbook_formula() -> None:
    rng = np.random.default_rng(4)
    z = rng.standard_normal(200)
    x, y = z + rng.standard_normal(200), z + rng.standard_normal(200)
    xy, xz, yz = spearman(x, y), spearman(x, z), spearman(y, z)
    expected = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert partial(x, y, z[:, None]) == pytest.approx(expected, abs=1e-9)
    assert abs(partial(x, y, z[:, None])) < abs(spearman(x, y))


def test_too_few_requests_have_no_correlation() -> None:
    few = np.array([1.0, 2.0, np.nan, 3.0])
    assert correlation(few, few) == {"rho": None, "ci95": None, "n": 3}


def test_every_gain_is_held_against_every_diagnostic_with_the_others_still() -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(40) for name in ("gap", "coverage", "dilution")}
    found = with_gains(columns, {"projection": columns["gap"] + 0.1 * rng.standard_normal(40)})
    assert [(r["module"], r["diagnostic"]) for r in found] == [("projection", name) for name in columns]
    assert found[0]["partial"]["rho"] > 0.9 > abs(found[1]["partial"]["rho"])
    low, high = found[0]["partial"]["ci95"]
    assert low <= found[0]["partial"]["rho"] <= high
