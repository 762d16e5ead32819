"""Why a request is hard: what all skills share, what it leaves unsaid, how much its skill talks about other things.

    gap(q)      = mean_c q·B Bᵀd_c − q·B Bᵀd_gold      B: top-2 singular directions of the documents, or of the requests
    coverage(q) = share of the gold body's content words that the request says: the same word, a word of cosine ≥ 0.8,
                  or softly the mean best cosine
    dilution(q) = max over the gold's sections of cos(q, section) − cos(q, whole body)

SkillRep, rules 1.10, 1.11 and 1.12. Numpy in, numpy out; printed × 100. Several golds of a request are averaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metier.retrieve.background import STOP_WORDS
from metier.text import words

if TYPE_CHECKING:
    from metier.types import Vectors

DIRECTIONS = 2  # SkillRep: the background is two directions
SEMANTIC = 0.8  # SkillRep: two words mean the same from this cosine on
SECTION_WORDS = 20  # SkillRep: shorter sections say too little to be a vector of their own
HALF = 0.5  # methods 1.5: projection is worth it when background alone puts this share above gold
_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^#{1,6}\s+\S")
BLOCK = 64

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BackgroundGap:
    """Per request (M,): the gap, and the share of the other documents ranked above gold by background alone."""

    gap: Values
    above: Values


def background_gap(
    requests: Vectors,
    documents: Vectors,
    gold: Sequence[Mapping[int, float]],
    directions: Vectors,
    *,
    competitors: Sequence[NDArray[np.int64]] | None = None,
) -> BackgroundGap:
    """Rule 1.10 for requests (M, d), documents (N, d) and orthonormal `directions` (k, d).

    Competitors are all documents but gold, or, per request, those rows. Ties count half. NaN where gold is not there.
    """
    shared_q, shared_d = requests @ directions.T, documents @ directions.T
    gap, above = np.full(len(requests), np.nan), np.full(len(requests), np.nan)
    for n, judged in enumerate(gold):
        mine = [row for row, value in judged.items() if value > 0 and row >= 0]
        if not mine or len(mine) >= len(documents):
            continue
        scores = (shared_d @ shared_q[n]).astype(np.float64)
        others = np.delete(np.arange(len(documents)), mine)
        if competitors is not None:
            others = np.setdiff1d(competitors[n], mine)
        if not len(others):
            continue
        gap[n] = scores[others].mean() - scores[mine].mean()
        above[n] = np.mean([(scores[others] > s).mean() + 0.5 * (scores[others] == s).mean() for s in scores[mine]])
    return BackgroundGap(gap, above)


def wants_projection(above: Values, datasets: Sequence[str]) -> bool:
    """The switch of rule 1.5: whether background alone puts more than half of the documents above gold."""
    from metier.evaluate.metrics import macro

    known = ~np.isnan(above)
    return bool(known.any()) and macro(above[known], [d for d, k in zip(datasets, known, strict=True) if k]) > HALF


def content_words(text: str) -> list[str]:
    """The unique content words of a text, in order of appearance: no stop words, nothing shorter than three letters."""
    return list(dict.fromkeys(w for w in words(text) if w not in STOP_WORDS and (len(w) > 2 or not w.isascii())))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of one gold body's vocabulary one request covers (rule 1.11), and how much of the request is in gold."""

    lexical: float
    semantic: float
    soft: float
    request_in_gold: float


def coverage(gold: Sequence[str], request: Sequence[str], gold_rows: Vectors, request_rows: Vectors) -> Coverage:
    """Rule 1.11 for two lists of unique words and their unit vectors (G, d) and (R, d). NaN where either is empty."""
    if not gold or not request:
        return Coverage(float("nan"), float("nan"), float("nan"), float("nan"))
    said, held = set(request), set(gold)
    best = np.clip((gold_rows @ request_rows.T).max(axis=1).astype(np.float64), -1.0, 1.0)
    same = np.array([word in said for word in gold])
    best[same] = 1.0
    return Coverage(
        lexical=float(same.mean()),
        semantic=float((best >= SEMANTIC).mean()),
        soft=float(best.mean()),
        request_in_gold=sum(word in held for word in request) / len(request),
    )


def sections(body: str, least: int = SECTION_WORDS) -> list[str]:
    """The body split at its Markdown headings (not inside code), each with its heading, those of ≥ `least` words."""
    parts: list[list[str]] = [[]]
    fenced = False
    for line in body.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and _HEADING.match(line):
            parts.append([])
        parts[-1].append(line)
    texts = ["\n".join(part).strip() for part in parts]
    return [text for text in texts if len(text.split()) >= least]


def dilution(request: Vectors, whole: Vectors, parts: Vectors) -> float:
    """Rule 1.12 for one request (d,), its gold's body (d,) and sections (S, d). NaN where there is no section."""
    if not len(parts):
        return float("nan")
    return float((parts @ request).astype(np.float64).max() - float(whole @ request))


def fifths(values: Values, measure: Values, parts: int = 5) -> list[dict[str, float]]:
    """`measure` (a metric per request) by equal parts of `values`, lowest first; requests without a value left out."""
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    return [
        {
            "n": len(part),
            "from": round(float(values[part].min()), 4),
            "to": round(float(values[part].max()), 4),
            "mean": round(100 * float(measure[part].mean()), 2),
        }
        for part in np.array_split(order, parts)
        if len(part)
    ]
