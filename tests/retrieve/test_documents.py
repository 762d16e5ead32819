"""What a skill is found by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.retrieve.world import skill

from metier.retrieve.documents import document, row_key, without

LONG = "# Steps\n" + "Open the report and find each table. " * 20


def test_an_exclusion_is_no_match_text_in_either_channel() -> None:
    """Field report 8: "Not for X" makes the skill match X."""
    scope = "Not for spreadsheets or charts."
    description = "Fill forms. Not for  spreadsheets or\ncharts. Fast."
    made, body = skill("pdf", description, LONG + scope, excludes=(scope,))
    found = document(made, body, max_tokens=256, view="full")
    for text in (found.lexical, *found.dense):
        assert "spreadsheets" not in text
        assert "Fast." in text or "Open the report" in text


def test_the_paper_encodes_the_body_and_gives_bm25_all_three() -> None:
    made, body = skill("pdf", "Fill forms", LONG)
    found = document(made, body, max_tokens=256, view="body")
    assert found.dense == (LONG.strip(),)
    assert found.lexical == f"pdf\nFill forms\n{LONG.strip()}"


def test_a_body_that_is_empty_or_shorter_than_the_description_gives_way_to_it() -> None:
    made, _ = skill("pdf", "Fill forms of all kinds")
    assert document(made, "", max_tokens=256, view="body").dense == ("Fill forms of all kinds",)
    assert document(made, "See above", max_tokens=256, view="body").dense == ("Fill forms of all kinds",)
    bare, _ = skill("pdf")
    assert document(bare, " ", max_tokens=256, view="body").dense == ("pdf",)


def test_a_skill_without_a_body_is_encoded_once() -> None:
    made, _ = skill("pdf", "Fill forms")
    assert document(made, "", max_tokens=256, view="two").dense == ("pdf: Fill forms",)


def test_a_change_beyond_what_the_encoder_reads_leaves_the_encoded_text_alone() -> None:
    made, _ = skill("pdf", "Fill forms")
    one, other = (document(made, "word " * 5_000 + end, max_tokens=256) for end in ("this", "that"))
    assert one.dense == other.dense
    assert one.lexical != other.lexical


def test_anything_a_row_is_made_from_changes_its_key() -> None:
    base, _ = skill("pdf", "Fill forms", "b")
    keys = {
        row_key(base),
        row_key(skill("pdg", "Fill forms", "b")[0]),
        row_key(skill("pdf", "Fill", "b")[0]),
        row_key(skill("pdf", "Fill forms", "c")[0]),
        row_key(skill("pdf", "Fill forms", "b", excludes=("x",))[0]),
        row_key(base, ("what fills a form?",)),
    }
    assert len(keys) == 6


@given(st.text(), st.lists(st.text(), max_size=3))
def test_leaving_sentences_out_never_fails(text: str, sentences: list[str]) -> None:
    assert len(without(text, sentences)) <= len(text) + len(text)
