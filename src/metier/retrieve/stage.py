"""The Retrieve stage: a task becomes a slate of skills with evidence (SkillRep, online steps 7–12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from metier.errors import EncoderError, IndexProblem
from metier.late import dataclass, replace
from metier.retrieve.abstain import CLEAR, Judge, floor_at, judge_of, reads
from metier.retrieve.bm25 import query_weights
from metier.retrieve.fuse import POOL, fused, pool, reciprocal_rank, union, z
from metier.retrieve.names import Named
from metier.retrieve.opened import Index
from metier.retrieve.vectors import identity, unit
from metier.text import count_tokens, one_line, words
from metier.types import Candidate, Encoder, Evidence, Skill, Slate, ranked

if TYPE_CHECKING:
    from metier.types import Vectors

SLATE = 50  # methods 5.3
QUERY_WEIGHT = 0.3  # SkillRep: w_q, the share of hypothetical skills in the request (rule 1.2)
NAMED_LEAD = 1.0
"""A skill asked for by name stands this many z above the best one that was not."""
LONG_ALPHA = 0.5
"""Least weight of words where a request is longer than the encoder reads: its vector tells of the beginning alone
(decision 0037)."""
LONG_FROM = 0.5
"""Share of what the encoder reads from which a request begins to be long: in between, the weight rises evenly."""
EXCLUDE_WEIGHT = 1.0
"""z taken per standard deviation by which a request is nearer to what a skill is *not* for than to the skill."""
SAID_PENALTY = 0.05
"""Less is not worth a word: it would read as 0.0."""
REQUEST_CHARS = 32_768
"""A request is read up to here: its head and, for what people write below a pasted text, its tail."""
REQUEST_TAIL = 8_192

EXACT_DIGITS = 9
"""Digits of a dense score: float64 sums agree far beyond them, in whatever order they were added."""
EXACT_ROWS = 128
"""Rows taken to float64 at once: 0.4 MB, which the processor's cache holds."""

Channels = Literal["fused", "dense", "lexical", "ranks"]
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Retrieve:
    """The stage. Deterministic: equal scores are ordered by id; nothing is approximate."""

    index: Index
    skills: Sequence[Skill] = field(repr=False)
    """Skill i is row i of the index."""
    encoder: Encoder | None = field(default=None, repr=False)
    """None: the lexical channel alone answers, and the note says so."""
    alpha: float | None = None
    """Weight of the lexical channel, as it is; None: the encoder profile's, which long requests raise (rule 1.6)."""
    slate: int = SLATE
    channels: Channels = "fused"
    """`dense` and `lexical` alone, or fusion by `ranks`, are for evaluation."""
    projection: bool = True
    abstain: bool = True
    """Whether the floor of rule 1.13 applies; evaluation ranks without it."""
    names: bool = True
    collapse: bool = True
    """Whether exact duplicates are one candidate; evaluation keeps them apart."""
    expand: Callable[[str], Sequence[str]] | None = field(default=None, repr=False)
    """Request → hypothetical skills, as far as a language model is there (rules 1.1 and 8)."""
    refresh: Callable[[Skill], Skill | None] | None = field(default=None, repr=False)
    """The skill as it is on disk now, or None when it is gone (field report 18)."""
    judge: Judge | None = field(default=None, repr=False)
    """What decides that a request needs no skill; None: the one fitted for this encoder, if there is one."""
    nothing: str = field(default="no skills found", repr=False)
    """What the note says of an empty library: where was looked."""
    name: str = "retrieve"

    def __post_init__(self) -> None:
        if len(self.skills) != self.index.size:
            raise IndexProblem(
                f"{self.index.folder}: the index has {self.index.size} rows for {len(self.skills)} skills; "
                "run: metier index"
            )
        if self.encoder is not None and self.index.encoder not in (None, identity(self.encoder.profile)):
            raise IndexProblem(
                f"{self.index.folder}: the index was made by encoder {self.index.encoder}, the configured one is "
                f"{identity(self.encoder.profile)}; run: metier index"
            )

    def __call__(self, slate: Slate) -> Slate:
        text = clipped(slate.task.text)
        if not text.strip():
            return replace(slate, candidates=(), note="the request is empty")
        if not self.index.size:
            return replace(slate, candidates=(), note=self.nothing)
        asked = _Asked(self, text)
        note = asked.abstention()
        if note is not None:
            return replace(slate, candidates=(), note=_joined(asked.notes, note))
        asked.expand()
        return asked.answer(slate)

    def channel_scores(self, text: str) -> tuple[Scores | None, Scores]:
        """float32 (N,) each: the dense channel (None where there is none) and BM25, of every row, before fusion."""
        asked = _Asked(self, clipped(text))
        asked.expand()
        return asked.dense, asked.lexical


def clipped(text: str) -> str:
    """The head and the tail of a very long request (field report 4: pasted texts)."""
    return text if len(text) <= REQUEST_CHARS else f"{text[: REQUEST_CHARS - REQUEST_TAIL]}\n{text[-REQUEST_TAIL:]}"


def _joined(notes: Sequence[str], last: str | None = None) -> str | None:
    parts = [*notes, last] if last else list(notes)
    return "; ".join(parts) if parts else None


class _Asked:
    """One request against the index: both channels' scores, and what they mean."""

    def __init__(self, stage: Retrieve, text: str) -> None:
        self.stage, self.index = stage, stage.index
        self.notes: list[str] = []
        self.named = self.index.names.find(text) if stage.names else Named()
        self.readable = reads(stage.encoder, text)
        self.text, self.words = text, words(text)
        self.lexical: Scores = self.index.lexical.scores(query_weights(self.words))
        self.raw: Vectors | None = None
        """The request's vector as encoded, and …"""
        self.cosines: Scores | None = None
        """… q · d before projection: what abstention is about, whatever a language model makes of the request."""
        self.query: Vectors | None = None
        """The vector that ranks."""
        self.sure = 1.0
        """How likely it is that the request needs a skill at all; with the share of the best score: relevance."""
        self.dense: Scores | None = None
        if stage.channels != "lexical":
            self._encode(text)
        hidden = self.index.manual.astype(bool)
        hidden[self.named.always] = False
        self.hidden: NDArray[np.bool_] = hidden

    def _encode(self, text: str) -> None:
        if self.index.vectors is None or self.stage.encoder is None:
            self.notes.append("found by words alone: the skills have no vectors yet")
            return
        try:
            self.raw = self.query = self.stage.encoder.encode([text], kind="query")[0]
        except EncoderError as error:
            self.notes.append(f"found by words alone: {error}")
            return
        self.cosines = self.index.cosines(self.raw)
        self.dense = self._projected(self.cosines, self.raw)

    def _projected(self, cosines: Scores, query: Vectors) -> Scores:
        return self.index.projected(cosines, query) if self.stage.projection else cosines

    def expand(self) -> None:
        """Hypothetical skills speak in both channels, where a language model wrote some (steps 8, 9 and 11)."""
        drafts = tuple(self.stage.expand(self.text)) if self.stage.expand else ()
        if not drafts:
            why = getattr(self.stage.expand, "why", "")
            if why:
                self.notes.append(f"found without the drafts of a language model: {one_line(why, 200)}")
            return
        self.lexical = self.index.lexical.scores(query_weights(self.words, map(words, drafts)))
        if self.raw is None or self.stage.encoder is None:
            return
        try:
            written = self.stage.encoder.encode(list(drafts), kind="document")
        except EncoderError as error:
            self.notes.append(f"found without the drafts of a language model: {error}")
            return
        self.query = unit((1 - QUERY_WEIGHT) * self.raw + QUERY_WEIGHT * written.mean(axis=0))
        self.dense = self._projected(self.index.cosines(self.query), self.query)

    def abstention(self) -> str | None:
        """Why no skill is relevant, or None (rule 1.13)."""
        if self.named.always or not self.stage.abstain:
            return None
        if self.cosines is None or self.raw is None or self.stage.encoder is None or not self.readable:
            return None if self.lexical.any() else "nothing relevant: no skill shares a word with the request"
        visible = self.cosines.copy()
        visible[self.hidden] = -1.0
        nearest, cosine = int(visible.argmax()), float(visible.max())
        judge = self.stage.judge or judge_of(self.index.encoder)
        if judge is not None:
            odds = judge.needed(self.raw, cosine, self.text, self.words, self.index.size)
            self.sure = 1.0 / (1.0 + math.exp(-odds))
            if odds >= 0 or cosine >= CLEAR:
                return None
            why = f"cosine {cosine:.2f}, and it reads like a message that needs no skill"
        else:
            floor = floor_at(self.stage.encoder.profile.floor, self.index.size)
            if floor is None or cosine >= floor:
                return None
            why = f"cosine {cosine:.2f}, needed {floor:.2f}"
        return f"nothing relevant: nearest was {one_line(self.stage.skills[nearest].name, 60)} ({why})"

    def answer(self, slate: Slate) -> Slate:
        """The slate's best skills with their evidence."""
        rows, score, detail = self._scored()
        if not len(rows):
            return replace(
                slate, candidates=(), note=_joined(self.notes, "nothing relevant: no skill shares a word with it")
            )
        order = np.lexsort((self.index.rank[rows], -score))
        best = float(score[order[0]])
        found: list[Candidate] = []
        seen: set[str] = set()
        for place in order.tolist():
            if len(found) == self.stage.slate:
                break
            row = int(rows[place])
            skill: Skill | None = self.stage.skills[row]
            if skill is None or (self.stage.collapse and skill.digest in seen):
                continue
            seen.add(skill.digest)
            changed = ""
            if self.stage.refresh is not None:
                now = self.stage.refresh(skill)
                if now is None:
                    continue
                changed = " · changed since it was indexed" if now.digest != skill.digest else ""
                skill = now
            facts, why = detail(place)
            facts["relevance"] = self.sure * (min(1.0, max(0.0, float(score[place]) / best)) if best > 0 else 1.0)
            evidence = Evidence("retrieve", float(score[place]), why + changed, facts)
            found.append(Candidate(skill, float(score[place]), (evidence,)))
        if not self.readable and self.cosines is not None:
            self.notes.append("the encoder hardly reads this script: words decided")
        return replace(slate, candidates=ranked(found), note=_joined(self.notes))

    def _scored(self) -> tuple[NDArray[np.int64], NDArray[np.float64], Callable[[int], tuple[dict[str, object], str]]]:
        """Pool rows, their scores, and what to say about the one at a place."""
        dense = None if self.dense is None else self.dense.copy()
        lexical = self.lexical.copy()
        lexical[self.hidden] = 0.0
        if dense is not None:
            dense[self.hidden] = -np.inf
        rows = pool(dense, lexical, max(POOL, self.stage.slate))
        rows = union(rows, np.array(self.named.always, np.int64), self.index.size)
        rows = rows[~self.hidden[rows]]
        lexical_here = self.lexical[rows]
        dense_here = self._exact(rows)
        if not (np.isfinite(dense_here).all() and np.isfinite(lexical_here).all()):
            raise IndexProblem(f"{self.index.folder}: the index holds numbers that are none; run: metier index --full")
        z_dense, z_lexical = z(dense_here), z(lexical_here)
        score = self._combined(dense_here, lexical_here, z_dense, z_lexical)
        penalty = self._penalty(rows, dense_here)
        score = score - penalty
        lead = float(score.max() - score.min()) + NAMED_LEAD if len(score) else 0.0
        for row in {**self.named.asked, **self.named.parts, **self.named.plain}:
            place = int(np.searchsorted(rows, row))
            if place < len(rows) and rows[place] == row:
                score[place] += lead if row in self.named.asked else self.named.bonus(row)[0]

        def say(place: int) -> tuple[dict[str, object], str]:
            row = int(rows[place])
            parts = []
            facts: dict[str, object] = {"lexical": float(lexical_here[place]), "z_lexical": float(z_lexical[place])}
            if self.cosines is not None:
                facts |= {"dense": float(dense_here[place]), "z_dense": float(z_dense[place]),
                          "cosine": float(self.cosines[row])}  # fmt: skip
                parts.append(f"dense {dense_here[place]:.2f} (z {z_dense[place]:.1f})")
            parts.append(f"lexical {lexical_here[place]:.1f} (z {z_lexical[place]:.1f})")
            how = self.named.asked.get(row) or self.named.bonus(row)[1]
            if how:
                facts["named"] = row in self.named.asked or row in self.named.parts
                parts.append(how)
            if penalty[place] >= SAID_PENALTY:
                facts["excluded"] = float(penalty[place])
                parts.append(f"its author says it is not for this ({-penalty[place]:.1f})")
            return facts, " · ".join(parts)

        return rows, score, say

    def _exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The dense channel of a few rows in float64, so that equal vectors score equal wherever they lie."""
        if self.dense is None or self.query is None or self.index.vectors is None:
            return np.zeros(len(rows))
        query, here = self.query.astype(np.float64), np.empty(len(rows))
        for start in range(0, len(rows), EXACT_ROWS):
            some = rows[start : start + EXACT_ROWS]
            here[start : start + EXACT_ROWS] = self.index.vectors[some].astype(np.float64) @ query
        if self.stage.projection:
            here = self.index.projected_rows(rows, here, self.query)
        return np.round(here, EXACT_DIGITS)

    def _combined(
        self, dense: NDArray[np.float64], lexical: Scores, z_dense: NDArray[np.float64], z_lexical: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.dense is None:
            return z_lexical
        if self.stage.channels == "dense":
            return z_dense
        alpha = self._alpha()
        if self.stage.channels == "ranks":
            return reciprocal_rank(dense, lexical, alpha)
        return fused(z_dense, z_lexical, alpha)

    def _alpha(self) -> float:
        """The stage's α, else the profile's, which rises with the request's length to `LONG_ALPHA` (rule 1.6)."""
        if self.stage.alpha is not None:
            return self.stage.alpha
        if self.stage.encoder is None:
            return 1.0
        profile = self.stage.encoder.profile
        begins = LONG_FROM * profile.max_tokens
        length = min(1.0, max(0.0, (count_tokens(self.text) - begins) / (profile.max_tokens - begins)))
        return profile.alpha + length * max(0.0, LONG_ALPHA - profile.alpha)

    def _penalty(self, rows: NDArray[np.int64], dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much nearer the request is to what a skill is not for, in standard deviations (field report 8)."""
        penalty = np.zeros(len(rows))
        if self.index.excluded is None or self.query is None or self.cosines is None:
            return penalty
        which, vectors = self.index.excluded
        place = np.full(self.index.size, -1)
        place[which] = np.arange(len(which))
        here = np.flatnonzero(place[rows] >= 0)
        there = place[rows[here]]
        spread = float(dense.std())
        if len(here) and spread > 0:
            nearer = vectors[there] @ self.query - self.cosines[rows[here]]
            penalty[here] = EXCLUDE_WEIGHT * np.maximum(nearer, 0.0) / spread
        return penalty
