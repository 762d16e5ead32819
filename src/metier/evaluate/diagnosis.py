"""The three diagnostics over a benchmark, and what each module gains where they are high (SkillRep, rules 1.10–1.12).

What `metier diagnose --json` prints is made here; the mathematics is in `diagnose` and `relate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from metier.errors import InputError
from metier.evaluate.datasets import Request
from metier.evaluate.diagnose import (
    DIRECTIONS,
    BackgroundGap,
    background_gap,
    content_words,
    coverage,
    dilution,
    fifths,
    sections,
    wants_projection,
)
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.relate import between, with_gains
from metier.evaluate.run import Bench
from metier.evaluate.sweep import Arrays, Setting, Sweep, background
from metier.retrieve.background import coordinates, top_directions
from metier.retrieve.documents import document
from metier.types import Encoder

if TYPE_CHECKING:
    from metier.types import Vectors

Values = NDArray[np.float64]
WORD_BATCH = 2048
"""Words encoded at a time."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What the gold documents say, each read once: row → unique content words, body text, sections."""

    words: Mapping[int, Sequence[str]]
    body: Mapping[int, str]
    parts: Mapping[int, Sequence[str]]


@dataclass(slots=True)
class Diagnosis:
    """One benchmark under one encoder; every diagnostic is a column (M,) with NaN where it has no value."""

    bench: Bench
    requests: Sequence[Request]
    sweep: Sweep
    _texts: Texts | None = field(default=None)

    @property
    def arrays(self) -> Arrays:
        return self.sweep.arrays

    @property
    def encoder(self) -> Encoder:
        """The encoder under test."""
        if self.bench.encoder is None:
            raise InputError("diagnostics need an encoder; set one with --set encoder=NAME")
        return self.bench.encoder

    def texts(self) -> Texts:
        """The gold documents of all requests."""
        if self._texts is None:
            if self.bench.body is None:
                raise InputError("diagnostics read the bodies of gold skills; open the library with its files")
            rows = sorted({row for gold in self.arrays.gold for row in gold if row >= 0})
            bodies = {row: self.bench.body(self.bench.skills[row]) for row in rows}
            limit = self.encoder.profile.max_tokens
            self._texts = Texts(
                words={row: content_words(body) for row, body in bodies.items()},
                body={
                    row: document(self.bench.skills[row], body, max_tokens=limit, view="body").dense[0]
                    for row, body in bodies.items()
                },
                parts={row: sections(body) for row, body in bodies.items()},
            )
        return self._texts

    def gaps(self, setting: Setting, directions: Vectors) -> BackgroundGap:
        """Rule 1.10 under one configuration of documents and requests."""
        from metier.evaluate.sweep import asked, documents_of

        documents, queries = documents_of(self.arrays, setting), asked(self.arrays, setting)
        found = background(self.arrays, documents, setting)
        if found is not None:
            coords, scale, _ = coordinates(documents, found)
            documents = scale[:, None] * (documents - coords @ found.all)
        return background_gap(queries, documents, self.arrays.gold, directions)

    def unsaid(self) -> dict[str, Values]:
        """Rule 1.11: four columns, each the mean over the request's gold."""
        texts = self.texts()
        asked = [content_words(r.text) for r in self.requests]
        vectors = _word_vectors(self.encoder, [*texts.words.values(), *asked])
        columns = {
            name: np.full(len(self.requests), np.nan) for name in ("lexical", "semantic", "soft", "request_in_gold")
        }
        for n, (said, gold) in enumerate(zip(asked, self.arrays.gold, strict=True)):
            found = [
                coverage(texts.words[row], said, vectors(texts.words[row]), vectors(said)) for row in gold if row >= 0
            ]
            for name, column in columns.items():
                known = [v for v in (getattr(c, name) for c in found) if not np.isnan(v)]
                column[n] = np.mean(known) if known else np.nan
        return columns

    def dilution(self) -> Values:
        """Rule 1.12, the mean over the request's gold that has sections."""
        texts = self.texts()
        rows = list(texts.body)
        whole = dict(zip(rows, self.encoder.encode([texts.body[r] for r in rows], kind="document"), strict=True))
        flat = [part for row in rows for part in texts.parts[row]]
        encoded = self.encoder.encode(flat, kind="document")
        parts, at = {}, 0
        for row in rows:
            parts[row] = encoded[at : at + len(texts.parts[row])]
            at += len(texts.parts[row])
        column = np.full(len(self.requests), np.nan)
        for n, gold in enumerate(self.arrays.gold):
            values = [dilution(self.arrays.requests[n], whole[r], parts[r]) for r in gold if r >= 0 and len(parts[r])]
            column[n] = np.mean(values) if values else np.nan
        return column

    def gains(self, base: Setting) -> dict[str, Values]:
        """Reciprocal rank gained by each module on the dense channel alone, per request."""
        plain = replace(base, channels="dense", step="none", w_q=0.0, w_d=0.0)
        with_module = {
            "lexical": replace(plain, channels="fused"),
            "projection": replace(plain, step="two"),
        }
        if np.abs(self.arrays.drafts).any():
            with_module["query-expansion"] = replace(plain, w_q=base.w_q or 0.3)
        if self.arrays.toward is not None or self.arrays.own is not None:
            kind: Literal["shared", "own"] = "shared" if self.arrays.toward is not None else "own"
            with_module["document-expansion"] = replace(plain, w_d=base.w_d or 0.2, asked=kind)
        before = self.sweep.values(plain)
        return {name: self.sweep.values(setting) - before for name, setting in with_module.items()}


def _word_vectors(encoder: Encoder, lists: Sequence[Sequence[str]]) -> Callable[[Sequence[str]], Vectors]:
    """The unit vectors of words, each encoded alone and once."""
    vocabulary = sorted({word for each in lists for word in each})
    parts = [
        encoder.encode(vocabulary[start : start + WORD_BATCH], kind="document")
        for start in range(0, len(vocabulary), WORD_BATCH)
    ]
    table = np.concatenate(parts) if parts else np.zeros((0, encoder.profile.dim), np.float32)
    place = {word: n for n, word in enumerate(vocabulary)}
    return lambda found: table[[place[word] for word in found]]


def summary(column: Values, datasets: Sequence[str]) -> dict[str, Any]:
    """The macro mean × 100 with its interval, over the requests that have a value."""
    known = ~np.isnan(column)
    sets = [name for name, k in zip(datasets, known, strict=True) if k]
    found = paired_bootstrap(np.zeros(int(known.sum())), column[known], sets)
    return {"value": round(100 * found.delta, 2), "ci95": found.as_dict()["ci95"], "n": found.n}


def report(found: Diagnosis, base: Setting) -> dict[str, Any]:
    """The object that `metier diagnose --json` prints."""
    arrays, sets = found.arrays, found.arrays.datasets
    plain = replace(base, step="none", w_q=0.0, w_d=0.0)
    own = top_directions(arrays.documents, DIRECTIONS)
    theirs = top_directions(arrays.requests, DIRECTIONS)
    first, second = found.gaps(plain, own), found.gaps(plain, theirs)
    columns = {
        "gap_documents": first.gap, "above_gold_documents": first.above,
        "gap_requests": second.gap, "above_gold_requests": second.above,
    }  # fmt: skip
    changed = {
        "projection": replace(plain, step="two"),
        **({"query-expansion": replace(plain, w_q=0.3)} if np.abs(arrays.drafts).any() else {}),
        **({"document-expansion": replace(plain, w_d=0.2)} if arrays.toward is not None else {}),
    }
    after = {name: (found.gaps(s, own).gap, found.gaps(s, theirs).gap) for name, s in changed.items()}
    unsaid, diluted = found.unsaid(), found.dilution()
    columns |= {f"coverage_{name}": values for name, values in unsaid.items()} | {"dilution": diluted}
    three = {"gap": first.gap, "coverage": unsaid["lexical"], "dilution": diluted}
    dense = found.sweep.values(replace(plain, channels="dense"))
    on = wants_projection(first.above, sets)
    return {
        "schema": "metier-diagnose-v1",
        "requests": len(found.requests),
        "skills": len(arrays.documents),
        "encoder": found.encoder.profile.name,
        "background": {
            "documents": {"gap": summary(first.gap, sets), "above_gold": summary(first.above, sets)},
            "requests": {"gap": summary(second.gap, sets), "above_gold": summary(second.above, sets)},
            "gap_after": {
                name: {"documents": summary(a, sets), "requests": summary(b, sets)} for name, (a, b) in after.items()
            },
        },
        "unsaid_vocabulary": {name: summary(values, sets) for name, values in unsaid.items()},
        "dilution": summary(diluted, sets),
        "by_dataset": {
            name: {
                column: summary(values[rows], [name] * len(rows))
                for column, values in columns.items()
                if (~np.isnan(values[rows])).any()
            }
            for name in dict.fromkeys(sets)
            if len(rows := np.flatnonzero(np.asarray(sets) == name))
        },
        "projection": {"on": on, "why": "background alone puts more than half of the skills above gold (rule 1.5)"
                       if on else "background alone puts at most half of the skills above gold (rule 1.5)"},
        "reciprocal_rank_by_fifths": {name: fifths(values, dense) for name, values in three.items()},
        "correlations": {"between": between(three), "gains": with_gains(three, found.gains(base))},
    }  # fmt: skip
