"""Bytes → text, whatever wrote them: skills come from every editor, so no encoding may cost a person their skill.

The order matters: a byte-order mark is believed, then strict UTF-8; only bytes that are neither are guessed, and every
guess is a problem that names the encoding it settled on.
"""

from __future__ import annotations

import codecs
import re

from metier.late import pattern
from metier.types import Problem

_BOMS = (  # the four-byte marks first: UTF-32-LE begins with UTF-16-LE's mark
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HIGH_RUN = pattern(rb"[\x80-\xff]+")
_UTF8_SEQUENCE = pattern(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# In cp1250 these bytes are Polish, Czech or Hungarian letters; in cp1252 they are signs that no word contains.
_CP1250_LETTERS = pattern(rb"(?<=[A-Za-z])[\xb3\xb9\x9c\x9f\xbf\xbe\x9a\x9d](?=[a-z])")
_UNWANTED = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
SAMPLE = 65_536
"""Bytes looked at to guess an encoding; a file changes its encoding nowhere."""
UTF16_ZEROS = 0.3
"""Share of zero bytes above which unmarked text is UTF-16: Latin text in UTF-16 has one half."""
BINARY_CONTROLS = 0.05
"""Share of control characters above which a file is no text; the worst of 133 broken files has 0.7%."""


def decode(data: bytes) -> tuple[str, list[Problem]]:
    """The text of a file with `\\n` line ends and no control characters, and what had to be forgiven to read it."""
    problems: list[Problem] = []
    text = _guess(data, problems)
    if text.startswith("\ufeff"):
        text = text.lstrip("\ufeff")
    text = _newlines(text, problems)
    if _UNWANTED.search(text):
        line = text.count("\n", 0, _UNWANTED.search(text).start()) + 1  # type: ignore[union-attr]
        count = len(_UNWANTED.findall(text))
        problems.append(_problem(line, "control-characters", f"{count} control characters (NUL and the like) left out",
                                 "delete them; most programs refuse such a file"))  # fmt: skip
        text = _UNWANTED.sub("", text)
    return text, problems


def is_binary(data: bytes) -> bool:
    """Whether the bytes are no text in any encoding: many controls that UTF-16 and UTF-32 do not explain."""
    sample = data[:SAMPLE]
    if not sample or sample.startswith(tuple(mark for mark, _ in _BOMS)):
        return False
    controls = len(re.findall(rb"[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]", sample))
    zeros = sample.count(0)
    if zeros > UTF16_ZEROS * len(sample):
        text = sample[: len(sample) & ~1].decode(_utf16_order(sample), "replace")
        return len(_UNWANTED.findall(text)) + text.count("\ufffd") > BINARY_CONTROLS * len(text)
    return controls > BINARY_CONTROLS * len(sample)


def _guess(data: bytes, problems: list[Problem]) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            name = "UTF-8" if encoding == "utf-8" else encoding.upper()
            problems.append(_problem(1, "byte-order-mark", f"the file begins with a byte-order mark ({name})",
                                     "save it as UTF-8 without a mark"))  # fmt: skip
            return data[len(mark) :].decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        encoding, how = _likely(data)
        problems.append(_problem(line, "encoding", f"not UTF-8 (byte 0x{data[error.start]:02x}); read as {encoding}",
                                 "save the file as UTF-8"))  # fmt: skip
        return data.decode(encoding, how)


def _likely(data: bytes) -> tuple[str, str]:
    """(encoding, error handling) of bytes that are not UTF-8."""
    sample = data[:SAMPLE]
    if sample.count(0) > UTF16_ZEROS * len(sample):
        return _utf16_order(sample), "replace"
    runs = _HIGH_RUN.findall(data)
    good = sum(len(found) for found in _UTF8_SEQUENCE.findall(data))
    high = sum(map(len, runs))
    if good >= 0.75 * high:  # mostly UTF-8 with a few damaged characters: keep what is whole
        return "utf-8", "replace"
    even = sum(len(run) for run in runs if len(run) % 2 == 0)
    if even >= 0.7 * high and _decodes(data, "gb18030"):  # two bytes a character; Latin letters stand alone
        return "gb18030", "strict"
    if _CP1250_LETTERS.search(data) and _decodes(data, "cp1250"):
        return "cp1250", "strict"
    return ("cp1252", "strict") if _decodes(data, "cp1252") else ("latin-1", "strict")


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _utf16_order(sample: bytes) -> str:
    """Latin letters have their zero byte second in little-endian order."""
    return "utf-16-le" if sample[1::2].count(0) >= sample[0::2].count(0) else "utf-16-be"


def _newlines(text: str, problems: list[Problem]) -> str:
    if "\r" not in text:
        return text
    crlf, bare = text.count("\r\n"), text.count("\r") - text.count("\r\n")
    if bare:
        at = re.search(r"\r(?!\n)", text)
        line = text.count("\n", 0, at.start()) + 1 if at else 1
        problems.append(_problem(line, "bare-cr", f"{bare} line ends are a bare carriage return",
                                 "save the file with LF line ends"))  # fmt: skip
    if crlf:
        problems.append(_problem(1, "crlf", f"{crlf} lines end in CRLF", "save the file with LF line ends"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _problem(line: int, code: str, message: str, remedy: str) -> Problem:
    return Problem("", line, code, message, remedy)
