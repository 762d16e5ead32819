"""The hard tier's near-copies, and which rows a pool keeps."""

from __future__ import annotations

import numpy as np

from metier.evaluate.tiers import COPIES, kept_in_pool, library_rows, near_copies

BODY = """# Monthly report

1. Read the csv file with pandas and drop rows without an account.
2. Merge the two sheets on the account number, never on the name.
3. Round to 2 decimals and keep 30 days of history.
4. Write the result as xlsx with one sheet a month.
5. Compute the median of each account with pandas, not the mean.
"""
REQUESTS = [
    "Merge the two sheets on the account number with pandas, never on the name, and write the result as xlsx.",
    "Read the csv, keep 30 days of history, round to 2 decimals and compute the median of each account.",
]


def made(seed: int = 0, count: int = COPIES) -> list:
    return near_copies(
        "given:report", "report", "Monthly report from csv to xlsx.", BODY, REQUESTS, seed=seed, count=count
    )


def test_near_copies_differ_from_gold_and_from_each_other() -> None:
    copies = made()
    assert 5 <= len(copies) <= COPIES
    bodies = [c.body for c in copies]
    assert len(set(bodies)) == len(bodies) and BODY not in bodies


def test_near_copies_break_one_or_two_requirements_and_leave_the_rest() -> None:
    lines = BODY.splitlines()
    for copy in made():
        assert len(copy.operators) in (1, 2)
        gone = [line for line in lines if line not in copy.body.splitlines()]
        assert 1 <= len(gone) <= 4


def test_near_copies_are_the_same_for_the_same_seed() -> None:
    assert made() == made()
    assert len(made(count=3)) == 3


def test_a_copys_row_tells_nothing_about_its_original() -> None:
    rows = library_rows(made(count=2))
    assert [r["id"] for r in rows] == ["near-copy-00000", "near-copy-00001"]
    assert all(set(r) == {"id", "name", "description", "body"} for r in rows)


def test_of_nearly_equal_documents_one_stays_and_gold_always() -> None:
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((6, 8)).astype(np.float32)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    documents[3] = documents[1]  # two in the pool
    documents[5] = documents[2]  # a copy of gold, after it
    documents[0] = documents[4]  # a copy of gold, before it
    assert kept_in_pool(documents, gold=[2, 4]).tolist() == [1, 2, 4]
