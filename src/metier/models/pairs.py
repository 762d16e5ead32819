"""What an encoder is tuned on: requests with the skill that answers them, and the checks that keep the data honest.

Three sources (rule 1.8): requests written for the project or by `metier expand`; *weak* pairs, where the "use when …"
clauses and quoted trigger phrases of a description stand for requests; and concept notes with the problems they solve.
Templates are refused: texts that share long runs of words, or that copy the skill they are meant to find.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from metier.errors import InputError
from metier.text import one_line, words

if TYPE_CHECKING:
    from metier.types import Vectors

Source = Literal["written", "weak", "concept", "expand", "agentic"]

SAME_TEXT = 0.6  # SkillRouter: bodies whose word trigrams overlap more (Jaccard) are one skill
SAME_VECTOR = 0.92  # SkillRouter: so are bodies with a cosine above it
RUN = 6
"""Words in a run that two writers do not write by chance."""
REPEATED_SHARE = 0.02
"""At most this share of all 6-word runs may occur in requests for different skills: 0.04% of those of the 2,154 written
requests do, 80% where one template is filled in thirty times."""
COPIED_SHARE = 0.05
"""At most this share of a set's 6-word runs may stand in the description of the skill asked for."""
WEAK_WORDS = (3, 40)
"""A weak request has this many words: one or two name a topic, more are an essay about the skill."""

_QUOTED = re.compile(r"[\"“]([^\"“”\n]{8,160})[\"”]")
_WHEN = re.compile(
    r"\b(?:use (?:this )?(?:skill )?(?:when(?:ever)?|for|if|to)|triggers? (?:on|when))\b:?\s*(.+?)(?:\.(?:\s|$)|\n|$)",
    re.I,
)
_SAYS = r"wants?|needs?|asks?|is asking|says|mentions?|is"
_LEAD = re.compile(rf"^(?:the )?(?:user|you|someone) (?:{_SAYS})(?: (?:to|for|you to|about|how to))? ", re.I)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and the id of the skill (or concept) that answers it."""

    request: str
    skill: str
    source: Source
    lang: str = "en"
    also: tuple[str, ...] = ()
    """Ids of further skills that the same request needs: no negatives of it."""


def read_pairs(path: Path, source: Source = "written") -> list[Pair]:
    """The pairs of a JSONL file: `{skill, text, lang?}` or `{skills, text, lang?}` a line (one pair a skill), or
    `{concept, note, questions}`.

    Raises `InputError` with the line.
    """
    pairs: list[Pair] = []
    for number, row in rows(path):
        concept, questions, skill, skills, text = (
            row.get(key) for key in ("concept", "questions", "skill", "skills", "text")
        )
        lang = str(row.get("lang") or "en")
        if isinstance(concept, str) and isinstance(questions, list):
            pairs += [Pair(str(question), concept_id(concept), "concept", lang) for question in questions]
        elif isinstance(skill, str) and isinstance(text, str):
            pairs.append(Pair(text, skill, source, lang))
        elif isinstance(skills, list) and skills and isinstance(text, str):
            ids = [str(one) for one in skills]
            pairs += [Pair(text, one, source, lang, tuple(o for o in ids if o != one)) for one in ids]
        else:
            raise InputError(f"{path}:{number}: neither skill and text nor concept and questions; write one of the two")
    return pairs


def rows(path: Path) -> Iterable[tuple[int, dict[str, object]]]:
    """(line number, object) of a JSONL file. Raises `InputError` with the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a JSONL file in UTF-8") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON ({error}); write one object a line") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: a {type(row).__name__}; write one object a line")
        yield number, row


def concept_id(concept: str) -> str:
    """The id under which a concept note stands among the skills."""
    return f"concept:{'-'.join(words(concept))}"


def weak_requests(description: str, most: int = 3) -> list[str]:
    """Up to `most` texts of a description that a user could have said: quoted phrases, "use when" clauses, else its
    first sentence. What a skill is *not* for is not among them."""
    found: list[str] = []
    for sentence in _SENTENCE.split(description):
        if re.search(r"\b(?:not for|do not use|don't use|never use|instead use)\b", sentence, re.I):
            continue
        quoted = [q.strip() for q in _QUOTED.findall(sentence)]
        clauses = [_LEAD.sub("", _QUOTED.sub("", c)).strip(" ,;:-") for c in _WHEN.findall(sentence)]
        found += quoted or clauses
    found = [f for f in found if WEAK_WORDS[0] <= len(words(f)) <= WEAK_WORDS[1]]
    if not found:
        first = _SENTENCE.split(description.strip())[0]
        found = [first] if WEAK_WORDS[0] <= len(words(first)) <= WEAK_WORDS[1] else []
    return list(dict.fromkeys(found))[:most]


# ---------------------------------------------------------------------------------------------- what means the same


def trigrams(text: str) -> frozenset[tuple[str, ...]]:
    """The runs of three words of a text."""
    w = words(text)
    return frozenset(zip(w, w[1:], w[2:], strict=False))


def jaccard(a: Collection[tuple[str, ...]], b: Collection[tuple[str, ...]]) -> float:
    """|a ∩ b| / |a ∪ b|; 0 where both are empty."""
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    shared = sum(1 for item in small if item in large)
    total = len(a) + len(b) - shared
    return shared / total if total else 0.0


def groups(names: Sequence[str], bodies: Sequence[str], vectors: Vectors | None = None) -> list[int]:
    """A group per row: rows of one group have the same name, bodies with trigram Jaccard > 0.6, or cosine > 0.92
    (the false-negative filter of rule 1.8, closed under "same as the same")."""
    parent = list(range(len(names)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    def join(a: int, b: int) -> None:
        low, high = sorted((root(a), root(b)))
        parent[high] = low

    first: dict[str, int] = {}
    for row, name in enumerate(names):
        label = " ".join(words(name))
        if label:
            join(row, first.setdefault(label, row))
    for a, b in _overlapping([trigrams(body) for body in bodies]):
        join(a, b)
    if vectors is not None:
        for start in range(0, len(vectors), 2048):
            for a, b in np.argwhere(vectors[start : start + 2048] @ vectors.T > SAME_VECTOR).tolist():
                if start + a < b:
                    join(start + a, b)
    return [root(row) for row in range(len(names))]


def _overlapping(grams: Sequence[frozenset[tuple[str, ...]]]) -> Iterable[tuple[int, int]]:
    """Pairs of rows with Jaccard > 0.6. Such sets share one of the rarest two fifths of each other's trigrams, so only
    rows that share one of those are compared (prefix filtering, exact)."""
    counts = Counter(gram for one in grams for gram in one)
    holders: dict[tuple[str, ...], list[int]] = {}
    for row, one in enumerate(grams):
        if not one:
            continue
        order = sorted(one, key=lambda gram: (counts[gram], gram))
        prefix = order[: len(one) - int(np.ceil(SAME_TEXT * len(one))) + 1]
        rivals: set[int] = set()
        for gram in prefix:
            rivals.update(holders.get(gram, ()))
            holders.setdefault(gram, []).append(row)
        for other in sorted(rivals):
            if len(grams[other]) >= SAME_TEXT * len(one) and jaccard(one, grams[other]) > SAME_TEXT:
                yield other, row


# ---------------------------------------------------------------------------------------------- no templates


def runs(text: str, n: int = RUN) -> set[tuple[str, ...]]:
    """The runs of `n` words of a text."""
    w = words(text)
    return {tuple(w[i : i + n]) for i in range(len(w) - n + 1)}


def repeated_share(pairs: Sequence[Pair]) -> float:
    """Share of all 6-word runs that also occur in a request for another skill."""
    holders: dict[tuple[str, ...], set[str]] = {}
    for pair in pairs:
        for run in runs(pair.request):
            holders.setdefault(run, set()).add(pair.skill)
    uses = [(run, pair.skill) for pair in pairs for run in runs(pair.request)]
    return sum(len(holders[run]) > 1 for run, _ in uses) / len(uses) if uses else 0.0


def copied_share(pairs: Sequence[Pair], text_of: dict[str, str]) -> float:
    """Share of the requests' 6-word runs that stand in the text (by skill id) of the skill they ask for."""
    total = copied = 0
    known = {skill: runs(text) for skill, text in text_of.items()}
    for pair in pairs:
        own = runs(pair.request)
        total += len(own)
        copied += len(own & known.get(pair.skill, set()))
    return copied / total if total else 0.0


def naming(pairs: Sequence[Pair], name_of: dict[str, str]) -> list[Pair]:
    """The pairs whose request says the skill's name (of two words or more) as it is written."""
    found = []
    for pair in pairs:
        label = words(name_of.get(pair.skill, ""))
        said = words(pair.request)
        if len(label) > 1 and any(said[i : i + len(label)] == label for i in range(len(said))):
            found.append(pair)
    return found


def refuse_templates(pairs: Sequence[Pair], text_of: dict[str, str]) -> None:
    """Nothing is returned; raises `InputError` where requests repeat each other or copy what they should find."""
    repeated, copied = repeated_share(pairs), copied_share(pairs, text_of)
    if repeated > REPEATED_SHARE:
        raise InputError(
            f"train: {100 * repeated:.1f}% of the requests' 6-word runs occur for several skills (at most "
            f"{100 * REPEATED_SHARE:g}%); they look filled into templates, such as {_example(pairs)!r}; reword them"
        )
    if copied > COPIED_SHARE:
        raise InputError(
            f"train: {100 * copied:.1f}% of the requests' 6-word runs are copied from the skill asked for (at most "
            f"{100 * COPIED_SHARE:g}%); write what a user who does not know the skill would say"
        )


def _example(pairs: Sequence[Pair]) -> str:
    """The commonest run of words, ties by the alphabet."""
    counts = Counter(run for pair in pairs for run in runs(pair.request))
    most = max(counts.values())
    return one_line(" ".join(min(run for run, count in counts.items() if count == most)), 80)
