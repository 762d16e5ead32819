import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.rerank.request import MAX_NEEDS, WISH, needs


def test_clauses_become_needs_with_short_labels() -> None:
    found = needs("Parse the STL file, compute the mass, and write mass.json.")
    assert [n.label for n in found] == ["Parse the STL file", "compute the mass", "write mass.json"]


def test_a_number_or_a_denial_makes_a_constraint() -> None:
    assert [n.type for n in needs("the report has at most 5 MB")] == ["constraint"]
    assert needs("a build without Docker")[-1].type == "constraint"


def test_a_wish_weighs_less_than_a_demand() -> None:
    found = {n.label: n.weight for n in needs("Convert the slides to PDF, ideally with speaker notes.")}
    assert found == {"Convert the slides to PDF": 1.0, "ideally with speaker notes": WISH}


def test_alternatives_are_one_group() -> None:
    found = needs("Export the rows as CSV or Parquet. Keep the header row.")
    groups = [n.group for n in found]
    assert groups[0] == groups[1] and groups[2] != groups[0]
    assert {k for k, _, _ in found[0].terms} != {k for k, _, _ in found[1].terms}


def test_a_denied_alternative_denies_both() -> None:
    only = needs("no npm or pnpm")
    assert len(only) == 1 and all(denied for _, denied, _ in only[0].terms)


@pytest.mark.parametrize("text", ["", "   ", "and or the", "!!!", "???"])
def test_a_request_without_content_states_nothing(text: str) -> None:
    assert needs(text) == ()


def test_a_pasted_log_gives_a_bounded_number_of_needs() -> None:
    assert len(needs("\n".join(f"ERROR {i} connection reset by peer" for i in range(5000)))) == MAX_NEEDS


@given(st.text(max_size=300))
def test_any_request_can_be_read(text: str) -> None:
    for need in needs(text):
        assert need.terms and 0.0 < need.weight <= 1.0
