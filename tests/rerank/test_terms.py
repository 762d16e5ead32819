import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.rerank.terms import MAX_TERMS, code, codes, number, quantity, stem, terms


def keys(text: str) -> list[str]:
    return [key for key, _, _ in terms(text)]


def denied(text: str) -> set[str]:
    return {key for key, is_denied, _ in terms(text) if is_denied}


def test_a_quantity_is_one_term_whatever_unit_it_is_written_in() -> None:
    assert "#5e+06|byte" in keys("at most 5 MB") and "#5e+06|byte" in keys("5000 kilobytes")
    assert "#0.2|second" in keys("under 200ms") and "#0.2|second" in keys("0.2 seconds")
    assert quantity("3", "furlong") is None


def test_versions_numbers_and_ratios_keep_their_digits() -> None:
    assert "#3.8" in keys("Python 3.8") and "#3.11" in keys("Python 3.11")
    assert "#4.5:1" in keys("contrast 4.5:1")
    assert number("12,000") == "12000" and number("2.50") == "2.50" and number("007") == "7"


def test_number_words_are_numbers() -> None:
    assert "#3" in keys("three attempts") and "#12" in keys("twelve pages")


@pytest.mark.parametrize(
    ("one", "other"),
    [("a Word file", "a .docx file"), ("k8s", "Kubernetes"), ("repos", "repository"), ("YAML", ".yml")],
)
def test_two_names_of_one_thing_are_one_term(one: str, other: str) -> None:
    assert set(keys(one)) & set(keys(other))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("without Docker", {"dock"}),
        (".docx, not .pdf", {"pdf"}),
        ("never edit the .svg by hand", {"chang", "svg", "hand"}),
        ("leave the original untouched", {"chang"}),
        ("the original must not be overwritten", {"origin", "chang"}),
        ("secrets must never be committed", {"secret", "commit"}),
        ("don't use npm or pnpm", {"npm", "pnpm"}),
        ("JSON instead of XML", {"xml"}),
        ("no more than 5 MB", set()),
        ("not only tests but docs", set()),
        ("don't forget the tests", set()),
        ("run as non-root users", {"root"}),
        ("the folder is read-only", {"chang"}),
    ],
)
def test_what_is_denied_is_marked(text: str, wanted: set[str]) -> None:
    assert denied(text) == wanted


def test_two_denials_cancel_and_a_clause_ends_one() -> None:
    assert denied("never skip the tests") == set()
    assert denied("no Docker; Kubernetes is fine") == {"dock"}


def test_ways_to_say_the_same_share_a_term() -> None:
    assert terms("ask me")[0][0] == terms("with my approval")[0][0] == terms("confirm")[0][0]
    assert terms("end-to-end")[0][0] == terms("E2E")[0][0]


def test_the_lowest_bit_of_a_code_says_denied() -> None:
    affirmed, refused = codes(terms("Docker")), codes(terms("no Docker"))
    assert [c | 1 for c in affirmed] == refused and code("dock") in affirmed


def test_inflections_share_a_stem() -> None:
    assert stem("merging") == stem("merged") == stem("merges") == stem("merge")
    assert stem("queries") == stem("query")


@given(st.text(max_size=400))
def test_any_text_can_be_read_and_gives_bounded_terms(text: str) -> None:
    found = terms(text)
    assert len(found) <= MAX_TERMS + 2
    assert all(isinstance(d, bool) and k for k, d, _ in found)


def test_hostile_repetition_costs_no_more_than_its_length() -> None:
    def cost(n: int) -> float:
        began = time.process_time()
        for bait in ("not " * n, "1." * n, "a'" * n, "#" * n, "5 m " * n):
            terms(bait, limit=10**9)
        return time.process_time() - began

    cost(1000)
    assert cost(40_000) < 40 * max(cost(4_000), 1e-3)
