"""BERT's uncased tokenizer, without a library: what a cold process cuts one short request with.

It gives the same ids as `tokenizers` does for the same `tokenizer.json` (its oracle in the tests), but starts in
0.1 ms instead of 20: the vocabulary stays a sorted file, `pieces.tsv`, that is searched in place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from metier.errors import EncoderError
from metier.late import pattern
from metier.models.profiles import mark

LONGEST_WORD = 100
"""Longer words are one unknown piece (BERT)."""
LONGEST_PIECE = 32
"""No piece has more characters; vocabularies with longer ones get no `pieces.tsv` (all-MiniLM-L6-v2: 18)."""

REMEMBERED = 20_000
"""Words whose pieces are kept: requests repeat most of theirs, and cutting one takes 30 looks at the file."""

_SPECIAL = pattern(r"(\[PAD\]|\[UNK\]|\[CLS\]|\[SEP\]|\[MASK\])")
_ASCII = pattern(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
"""Characters that are words of their own; the ranges are those of `tokenizers`, its slip at 2B920 included."""


class WordPiece:
    """Texts to piece ids by greedy longest match over a sorted vocabulary file."""

    def __init__(self, path: Path, marked: str = "") -> None:
        """Opens `pieces.tsv`: lines `piece TAB id`, sorted by the piece's UTF-8 bytes.

        Raises `EncoderError` where `marked`, what the profile says of the file, is not the mark of what is there.
        """
        self._table = path.read_bytes()
        if marked and (found := mark(self._table)) != marked:
            raise EncoderError(
                f"{path}: its size and checksum are {found}, the profile says {marked}; copy the file again from where "
                "the encoder came from, or remove it (tokenizer.json is read instead, 60 ms slower)"
            )
        self._known: dict[str, int] = {}
        self._cuts: dict[str, list[str] | tuple[None]] = {}
        self.cls, self.sep, self.unk = (self._id(name) for name in ("[CLS]", "[SEP]", "[UNK]"))

    def ids(self, text: str, limit: int) -> list[int]:
        """[CLS] … [SEP], at most `limit` ids; what does not fit is cut off the end."""
        found = [self.cls]
        for piece in self.pieces(text):
            if len(found) == limit - 1:
                break
            found.append(self.unk if piece is None else self._id(piece))
        found.append(self.sep)
        return found

    def pieces(self, text: str) -> Iterator[str | None]:
        """The pieces of the text in order; None is a word that has no pieces. Inner pieces begin with `##`."""
        for part in _SPECIAL.split(text) if "[" in text else (text,):
            if _SPECIAL.fullmatch(part):
                yield part
            else:
                for word in words(part):
                    cut = self._cuts.get(word)
                    if cut is None:
                        if len(self._cuts) >= REMEMBERED:
                            self._cuts.clear()
                        cut = self._cuts[word] = self._cut(word)
                    yield from cut

    def _cut(self, word: str) -> list[str] | tuple[None]:
        if len(word) > LONGEST_WORD:
            return (None,)
        pieces: list[str] = []
        start = 0
        while start < len(word):
            for end in range(min(len(word), start + LONGEST_PIECE), start, -1):
                piece = f"##{word[start:end]}" if start else word[:end]
                if self._id(piece) >= 0:
                    break
            else:
                return (None,)
            pieces.append(piece)
            start = end
        return pieces

    def _id(self, piece: str) -> int:
        """The piece's number, or -1."""
        known = self._known.get(piece)
        if known is None:
            known = self._known[piece] = _search(self._table, piece.encode())
        return known


def _search(table: bytes, piece: bytes) -> int:
    """Binary search among sorted lines: 17 looks at 30,000 lines."""
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) >> 1
        start = table.rfind(b"\n", low, middle) + 1 or low
        tab = table.find(b"\t", start)
        here = table[start:tab]
        if here == piece:
            return int(table[tab + 1 : table.find(b"\n", tab)])
        if here < piece:
            low = table.find(b"\n", tab) + 1
        else:
            high = start
    return -1


def words(text: str) -> list[str]:
    """Lower-cased words and single signs, without accents and control characters (BERT's basic tokenizer)."""
    if text.isascii():
        return _ASCII.findall(text.translate(_ASCII_CONTROLS).lower())
    kept = []
    for char in text:
        if char in "\t\n\r":
            kept.append(" ")
        elif unicodedata.category(char)[0] != "C" and char != "\ufffd":
            kept.append(f" {char} " if _ideograph(char) else char)
    plain = unicodedata.normalize("NFD", "".join(kept))
    found: list[str] = []
    word = ""
    for char in plain:
        category = unicodedata.category(char)
        if category == "Mn":
            continue
        sign = category[0] == "P" or (char.isascii() and not char.isalnum() and not char.isspace())
        if not sign and not char.isspace():
            word += char.lower()
            continue
        if word:
            found.append(word)
            word = ""
        if sign:
            found.append(char)
    return [*found, word] if word else found


def _ideograph(char: str) -> bool:
    code = ord(char)
    return code >= 0x3400 and any(first <= code <= last for first, last in _IDEOGRAPHS)
