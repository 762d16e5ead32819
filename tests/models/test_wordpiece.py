"""The tokenizer of cold requests, against `tokenizers` as its oracle."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from metier.models.encoder import MINILM
from metier.models.wordpiece import WordPiece

ORACLE = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
PIECES = WordPiece(MINILM / "pieces.tsv")


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Fill in this PDF form", "don't re-run `git rebase -i HEAD~3`!", "naïve café ÅNGSTRÖM ﬁnd",
        "请帮我填写这个PDF表格", "Прочитай файл", "これはペンです", "ΣΊΣΥΦΟΣ", "İstanbul ıs", "a\u200bb\ufeffc\u00add",
        "tab\tnew\nline\r\x0b\x0c\x1c\x85x", "x" * 100 + " " + "y" * 101, "[MASK] the [UNK] [sep][SEP]x[PAD]",
        "🎉 emoji 👩‍👩‍👧", "½ ² Ⅷ ℃ № ﷺ", "\ufffd\0\x7f", "price: $3.50 (≈ €3)", "aGVsbG8gd29ybGQgYmFzZTY0IGJsb2I=" * 3,
    ],
)  # fmt: skip
def test_texts_of_every_kind_get_the_same_ids(text: str) -> None:
    assert PIECES.ids(text, 512) == ORACLE.encode(text).ids


def test_every_piece_of_the_vocabulary_is_found_and_others_are_not() -> None:
    assert all(PIECES._id(piece) == number for piece, number in ORACLE.get_vocab().items())
    assert [PIECES._id(piece) for piece in ("", "\x00", "zzzzzz", "\U0010ffff", "##")] == [-1] * 5


def settled(char: str) -> bool:
    """Whether every version of Unicode since 3.2 says the same of it: either side may have an old or a new one."""
    return unicodedata.category(char) == unicodedata.ucd_3_2_0.category(char) not in ("Cn", "Co", "Cs")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8").filter(settled), max_size=60))
def test_any_text_of_settled_characters_gets_the_same_ids(text: str) -> None:
    assert PIECES.ids(text, 512) == ORACLE.encode(text).ids


@given(st.integers(2, 40))
def test_what_exceeds_the_limit_is_cut_off_the_end(limit: int) -> None:
    text = "Summarise the quarterly report into three bullet points for the board, please"
    whole = ORACLE.encode(text).ids
    expected = whole if len(whole) <= limit else [*whole[: limit - 1], whole[-1]]
    assert PIECES.ids(text, limit) == expected
