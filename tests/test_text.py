"""Words, fingerprints, token counts and safe text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.text import count_tokens, fingerprint, one_line, printable, words


def test_words_are_lower_cased_and_split_at_signs_and_underscores() -> None:
    assert words("Fill PDF-forms, snake_case v2.3") == ["fill", "pdf", "forms", "snake", "case", "v2", "3"]


def test_cjk_text_becomes_bigrams_so_that_a_part_of_a_sentence_is_found() -> None:
    """Field report 17: CJK text indexed as one token."""
    assert words("填写表格") == ["填写", "写表", "表格"]
    assert set(words("表格")) <= set(words("请填写这个表格。"))


def test_latin_words_inside_cjk_text_stay_whole() -> None:
    assert words("用pdf填表") == ["用", "pdf", "填表"]


def test_full_width_letters_are_the_same_words() -> None:
    assert words("ＰＤＦ") == ["pdf"]


@given(st.text())
def test_no_text_breaks_the_tokeniser(text: str) -> None:
    assert all(w and not re.search(r"\s", w) for w in words(text))
    assert count_tokens(text) >= 0


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_moving_a_boundary_changes_the_fingerprint(parts: list[str]) -> None:
    joined = "".join(parts)
    assert len(parts) == 1 or fingerprint(*parts) != fingerprint(joined)


def test_the_fingerprint_of_one_part_is_stable() -> None:
    assert fingerprint("a") == fingerprint("a") != fingerprint("b")


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x9b2J",
        "a\u202eb",
        "zero\u200bwidth",
        "tag\U000e0041",
        "bell\x07",
        "\x1b]8;;http://x\x1b\\y",
    ],
)
def test_terminal_escapes_and_hidden_characters_are_removed(hostile: str) -> None:
    shown = printable(hostile)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\U000e0000-\U000e007f]", shown)


@given(st.text())
def test_printable_text_stays_as_it_is_when_it_is_clean(text: str) -> None:
    once = printable(text)
    assert printable(once) == once


def test_one_line_cuts_at_a_word_and_says_so() -> None:
    assert one_line("alpha beta\ngamma delta", 12) == "alpha beta…"
    assert one_line("short", 12) == "short"


def test_tokens_grow_with_text_and_an_ideograph_counts_as_one() -> None:
    assert count_tokens("") == 0
    assert count_tokens("表格") == 2
    assert 150 <= count_tokens("the quick brown fox jumps over the lazy dog. " * 15) <= 220
