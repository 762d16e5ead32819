"""Training data: read with lines, weak requests from descriptions, twins found, templates refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InputError
from metier.models import pairs
from metier.models.pairs import Pair, groups, jaccard, trigrams, weak_requests


def test_pairs_and_concepts_are_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(
        '{"skill": "s", "text": "do it", "lang": "de"}\n\n'
        '{"concept": "Ohm & Co", "note": "U = RI", "questions": ["a?"]}\n',
        encoding="utf-8",
    )
    assert pairs.read_pairs(file) == [Pair("do it", "s", "written", "de"), Pair("a?", "concept:ohm-co", "concept")]
    file.write_text('{"skill": "s", "text": "t"}\n{"skill": 3}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.jsonl:2: neither skill and text"):
        pairs.read_pairs(file)
    file.write_text("{oops\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.jsonl:1: not JSON"):
        pairs.read_pairs(file)


def test_weak_requests_are_what_a_user_could_say() -> None:
    assert weak_requests(
        'Deadlock help. Trigger with phrases like "detect deadlocks now", "prevent my deadlocks".'
    ) == [
        "detect deadlocks now",
        "prevent my deadlocks",
    ]
    assert weak_requests("PDF tool. Use when the user wants to fill in a form. Not for scanned pages.") == [
        "fill in a form"
    ]
    assert weak_requests("Turns receipts into a table.") == ["Turns receipts into a table."]
    assert weak_requests("Kubernetes") == []


def test_what_a_skill_is_not_for_is_never_a_weak_request() -> None:
    found = weak_requests('Charts. Use when plotting sales data. Do not use when "editing a spreadsheet by hand".')
    assert found == ["plotting sales data"]


TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=12).map(" ".join)


@given(TEXT, TEXT)
def test_jaccard_agrees_with_sets(a: str, b: str) -> None:
    x, y = trigrams(a), trigrams(b)
    expected = len(x & y) / len(x | y) if x | y else 0.0
    assert jaccard(x, y) == jaccard(y, x) == pytest.approx(expected)


@given(st.lists(TEXT, min_size=1, max_size=8))
def test_groups_by_text_agree_with_comparing_every_pair(bodies: list[str]) -> None:
    found = groups([f"name {n}" for n in range(len(bodies))], bodies)
    parent = list(range(len(bodies)))

    def root(row: int) -> int:
        return row if parent[row] == row else root(parent[row])

    for a in range(len(bodies)):
        for b in range(a):
            if jaccard(trigrams(bodies[a]), trigrams(bodies[b])) > pairs.SAME_TEXT:
                parent[root(a)] = root(b)
    expected = [root(row) for row in range(len(bodies))]
    assert [[x == y for y in found] for x in found] == [[x == y for y in expected] for x in expected]


def test_skills_of_one_name_or_one_direction_are_one_group() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.99, 0.14], [0.6, 0.8]], np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert groups(["PDF forms", "git", "x", "pdf-forms"], ["", "", "", ""], vectors) == [0, 1, 0, 0]


def test_templates_are_refused_with_an_example() -> None:
    filled = [Pair(f"Please help me to write a function that does number{n}", f"s{n}", "written") for n in range(30)]
    with pytest.raises(InputError, match=r"look filled into templates.*help me to write a function"):
        pairs.refuse_templates(filled, {})


def test_requests_copied_from_the_skill_are_refused() -> None:
    text = "extracts every table from a scanned page and writes it as csv"
    with pytest.raises(InputError, match="copied from the skill asked for"):
        pairs.refuse_templates([Pair(f"It {text} please", "s", "written")], {"s": text})


def test_a_request_that_says_the_skills_name_is_found() -> None:
    asked = [Pair("use the pdf tables skill", "s", "written"), Pair("tables from my pdf", "s", "written")]
    assert pairs.naming(asked, {"s": "pdf-tables"}) == asked[:1]
