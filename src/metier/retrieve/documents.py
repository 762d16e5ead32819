"""What a skill is indexed by: which of its words are match text, and which texts are encoded.

The paper encodes the body and gives BM25 name + description + body (SkillRep, section 1 of the method). What is
encoded here was measured (docs/decisions/0031-two-vectors-a-skill.md). What an author says a skill is *not* for is
never match text: "Not for PDF files" must not make it match PDF files (field report 8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metier.text import fingerprint
from metier.types import Skill

View = Literal["body", "described", "full", "two"]
"""`body` (the paper), `described` (description + body), `full` (name + description + body), `two` (card; body)."""

VIEW: View = "two"
"""Measured best of the four with the embedded encoder (decision 0031)."""

CHARS_PER_TOKEN = 16
"""A text is cut at this many characters per token of the encoder before it is keyed: far beyond what any tokenizer
reads (Latin averages four), so the vector is the same, and a change that the encoder cannot see encodes nothing."""

LEXICAL_CHARS = 1_000_000
"""A body beyond this is a dump, not instructions; BM25 reads its first million characters."""


@dataclass(frozen=True, slots=True)
class Document:
    """The match text of one skill."""

    lexical: str
    """Name + description + body, for BM25."""
    dense: tuple[str, ...]
    """Texts whose unit mean is the skill's vector."""


def document(skill: Skill, body: str, *, max_tokens: int, view: View = VIEW) -> Document:
    """What `skill` is found by. An empty body, or one shorter than the description, is replaced by it (section 1)."""
    name = skill.name.strip()
    description = without(skill.description, skill.excludes).strip()
    text = without(body, skill.excludes).strip()
    lexical = f"{name}\n{description}\n{text}"[:LEXICAL_CHARS]
    card = f"{name}: {description}" if description else name
    content = text if len(text) > len(description) else description
    limit = max_tokens * CHARS_PER_TOKEN
    views: dict[View, tuple[str, ...]] = {
        "body": (content or name,),
        "described": (f"{description}\n\n{text}".strip() or name,),
        "full": (f"{card}\n\n{text}".strip(),),
        "two": (card, content) if text else (card,),
    }
    return Document(lexical, tuple(dict.fromkeys(part[:limit] for part in views[view])))


def without(text: str, sentences: Sequence[str]) -> str:
    """`text` with every one of `sentences` left out, however its white space is laid out."""
    for sentence in sentences:
        pieces = sentence.split()
        if pieces:
            text = re.sub(r"\s+".join(map(re.escape, pieces)), " ", text)
    return text


def row_key(skill: Skill, requests: Sequence[str] = ()) -> bytes:
    """32 bytes that change whenever anything changes that the skill's row of an index is made from."""
    return bytes.fromhex(fingerprint(skill.digest, skill.name, skill.description, *skill.excludes, "\0", *requests))
