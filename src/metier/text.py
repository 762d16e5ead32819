"""Words, fingerprints and token counts: the few things every part does to text, done once and alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from metier.hashing import sha256
from metier.late import pattern

_WORD = pattern(r"[^\W_]+")
# Scripts written without spaces: kana, CJK ideographs (with extension A and compatibility), Thai, Lao, Khmer, Burmese.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
_RUN = pattern(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED = pattern(f"[{_UNSPACED}]")
# Escape sequences (CSI, OSC, other two-byte forms), then every other control but tab and newline, then the
# invisible characters that reorder or hide text (bidirectional controls, zero width, tags), then halves of surrogates.
_ESCAPES = pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]|\x9b[0-?]*[ -/]*[@-~]")
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)
_CONTROLS = pattern(_HIDDEN)
_UNSEEN = pattern(f"{_HIDDEN}|[\t\n\u2028\u2029]")
_PIECE = pattern(r"[^\W_]+|[^\w\s]|_")
CHARS_PER_TOKEN = 4
"""Latin text averages about four characters a token in the tokenizers of current agents (OpenAI's rule of thumb)."""


def words(text: str) -> list[str]:
    """Lower-cased words in order; runs of scripts without spaces become overlapping bigrams (methods 1.7)."""
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()
    found: list[str] = _WORD.findall(plain)
    if plain.isascii() or not _HAS_UNSPACED.search(plain):
        return found
    return [piece for word in found for piece in _bigrams(word)]


def _bigrams(word: str) -> Iterator[str]:
    for run in _RUN.findall(word):
        if not _HAS_UNSPACED.match(run) or len(run) == 1:
            yield run
        else:
            yield from (run[i : i + 2] for i in range(len(run) - 1))


def fingerprint(*parts: str | bytes) -> str:
    """sha256 (hex) of the parts, each preceded by its length, so that moving a boundary changes it."""
    digest = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def count_tokens(text: str) -> int:
    """Estimated tokens of `text`: a word costs one per `CHARS_PER_TOKEN` characters begun, a sign or an ideograph one.

    An estimate on purpose: every agent counts with a tokenizer of its own, and none may be downloaded.
    """
    total = 0
    for piece in _PIECE.findall(text):
        unspaced = 0 if piece.isascii() or _is_sign(piece) else len(_HAS_UNSPACED.findall(piece))
        total += unspaced + -(-(len(piece) - unspaced) // CHARS_PER_TOKEN)
    return total


def _is_sign(piece: str) -> bool:
    """Whether it is one dash, quote, arrow, ellipsis …: told without a pattern that takes a millisecond to compile."""
    return len(piece) == 1 and "\u2000" <= piece < "\u3000"


def printable(text: str) -> str:
    """The text without terminal escapes, control and invisible reordering characters; tabs and newlines stay."""
    if text.isprintable():
        return text
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def visible(path: str) -> str:
    """The path (or id) on one line, whatever it is made of: what nobody could see or store is spelt as `%0A`.

    Nothing is left out, so that two paths that differ still do. Plain paths are returned as they are.
    """
    return path if path.isprintable() else _UNSEEN.sub(_spelt, path)


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    escaped = 0xDC80 <= code <= 0xDCFF  # how Python keeps a byte of a file name that is not UTF-8
    data = bytes([code - 0xDC00]) if escaped else found[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in data)


def one_line(text: str, width: int = 160) -> str:
    """The text on one printable line of at most `width` characters, cut at a word with an ellipsis."""
    flat = " ".join(printable(text).split())
    if len(flat) <= width:
        return flat
    cut = flat[: width - 1]
    at = cut.rfind(" ")
    return (cut[:at] if at > width // 2 else cut).rstrip(" ,;:.-") + "…"
