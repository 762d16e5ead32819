"""Every configuration of the retriever over one benchmark, from arrays that are made once.

    q = unit((1 − w_q)·request + w_q·mean hypothetical)        d = unit((1 − w_d)·document + w_d·mean asked)
    score = (1 − α)·z(q · P d) + α·z(BM25)                      over the union of both channels' best

The functions are those of the `Retrieve` stage (SkillRep, rules 1.1–1.6); only the loop over requests is another, so
that a grid of a hundred settings costs minutes. A test holds that the stage's own setting gives the stage's ranking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from metier.errors import InputError
from metier.evaluate.datasets import known_as
from metier.evaluate.metrics import measure
from metier.evaluate.run import Bench
from metier.retrieve.background import (
    GENERIC_WORDS,
    STOP_WORDS,
    VANISHED,
    Background,
    coordinates,
    enough,
    generic_directions,
    random_directions,
    top_directions,
)
from metier.retrieve.bm25 import term_hashes
from metier.retrieve.expand import moved
from metier.retrieve.fuse import POOL, best, fused, pool, reciprocal_rank, z
from metier.retrieve.stage import EXCLUDE_WEIGHT, Retrieve
from metier.text import words

if TYPE_CHECKING:
    from metier.evaluate.datasets import Request
    from metier.retrieve.opened import Index
    from metier.types import Vectors

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Step = Literal["none", "two", "one", "random", "both"]

BLOCK = 128
"""Requests scored by one matrix product: 128 × 100,000 skills in float32 are 50 MB."""
BODIES_FOR_WORDS = 400
"""Bodies, evenly spaced, whose words are candidates for generic ones: a word in most documents is in one of these."""
REQUEST_DIRECTIONS = 2  # SkillRep: the background of requests, like that of documents, is measured on two directions


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration; its repr is its identity."""

    channels: Literal["fused", "dense", "lexical", "ranks"] = "fused"
    alpha: float = 0.5
    w_q: float = 0.0
    w_d: float = 0.0
    step: Step = "none"
    """`two` levels (rule 1.4) · `one`: the first alone · `random` directions of the same number · `both`: the
    documents' and the requests' backgrounds."""
    first: int = 2
    asked: Literal["shared", "own"] = "shared"
    """What documents move toward: the mean request, or the mean of each one's own generated requests."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Arrays:
    """M requests against N documents. Row i is skill i of the index."""

    documents: Vectors = field(repr=False)
    """(N, d) before expansion and projection."""
    requests: Vectors = field(repr=False)
    """(M, d) as encoded."""
    drafts: Vectors = field(repr=False)
    """(M, d) mean of the hypothetical skills' vectors; zero rows where there are none."""
    lexical: Scores = field(repr=False)
    """(M, N) BM25 of the request."""
    lexical_drafts: Scores = field(repr=False)
    """(M, N) BM25 of the request with its hypothetical skills."""
    generic: Vectors = field(repr=False)
    """(W, d) generic words, encoded alone."""
    rank: NDArray[np.int32] = field(repr=False)
    """(N,) the order of ties."""
    gold: tuple[Mapping[int, float], ...] = field(repr=False)
    """Per request: row → relevance; gold that no skill has is a row of its own, negative and never found."""
    datasets: tuple[str, ...] = field(repr=False)
    toward: Vectors | None = field(default=None, repr=False)
    """(d,) the mean request of rule 1.1, made of other requests than those under test; not of length 1."""
    own: Vectors | None = field(default=None, repr=False)
    """(N, d) mean of each document's generated requests; zero rows where there are none."""
    hidden: Rows = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    excluded: tuple[NDArray[np.int32], Vectors] | None = field(default=None, repr=False)

    def only(self, rows: Sequence[int]) -> Arrays:
        """The same documents, these requests."""
        pick = np.asarray(rows, np.int64)
        return Arrays(
            documents=self.documents, requests=self.requests[pick], drafts=self.drafts[pick],
            lexical=self.lexical[pick], lexical_drafts=self.lexical_drafts[pick], generic=self.generic,
            rank=self.rank, gold=tuple(self.gold[i] for i in rows), datasets=tuple(self.datasets[i] for i in rows),
            toward=self.toward, own=self.own, hidden=self.hidden, excluded=self.excluded,
        )  # fmt: skip


def gather(bench: Bench, requests: Sequence[Request]) -> Arrays:
    """The arrays of these requests over this index. Memory: 8 · M · N bytes for the two lexical matrices."""
    index, encoder = bench.index, bench.encoder
    if encoder is None or index.vectors is None:
        raise InputError(f"{index.folder}: sweeps need vectors; index the skills with an encoder first")
    given = {r.text: r.hypothetical for r in requests}
    plain = Retrieve(index, bench.skills, encoder, channels="lexical", names=False, abstain=False)
    expanded = Retrieve(
        index, bench.skills, encoder, channels="lexical", names=False, abstain=False, expand=lambda t: given.get(t, ())
    )
    lexical = np.stack([plain.channel_scores(r.text)[1] for r in requests])
    drafted = lexical.copy()
    drafts = np.zeros((len(requests), encoder.profile.dim), np.float32)
    for n, request in enumerate(requests):
        if request.hypothetical:
            drafted[n] = expanded.channel_scores(request.text)[1]
            drafts[n] = encoder.encode(list(request.hypothetical), kind="document").mean(axis=0)
    generic = generic_words(bench)
    toward = bench.toward() if bench.toward is not None else None
    shared = toward is None or toward.ndim == 1
    return Arrays(
        documents=np.asarray(index.vectors),
        requests=np.concatenate([encoder.encode([r.text], kind="query") for r in requests]),
        drafts=drafts,
        lexical=lexical,
        lexical_drafts=drafted,
        generic=encoder.encode(generic, kind="document") if generic else np.zeros((0, encoder.profile.dim), np.float32),
        rank=index.rank,
        gold=gold_rows(bench, requests),
        datasets=tuple(r.dataset for r in requests),
        toward=toward if shared else None,
        own=None if shared else toward,
        hidden=np.flatnonzero(index.manual),
        excluded=index.excluded,
    )


def gold_rows(bench: Bench, requests: Sequence[Request]) -> tuple[Mapping[int, float], ...]:
    """Per request, row → relevance. Gold that no skill has keeps a negative number: it counts and is never found."""
    row: dict[str, int] = {}
    wanted = {g for r in requests for g in r.gold}
    for n, skill in enumerate(bench.skills):
        for name in known_as(skill):
            if name in wanted:
                row.setdefault(name, n)
    for n, name in enumerate(sorted(wanted - set(row)), start=1):
        row[name] = -n
    return tuple({row[g]: value for g, value in r.gold.items()} for r in requests)


def generic_words(bench: Bench) -> list[str]:
    """The content words in most documents (rule 1.4): the index's own list, else one made here."""
    index: Index = bench.index
    known = list(index.facts["projection"]["words"])
    if known or bench.body is None or not len(bench.skills):
        return known
    step = max(1, len(bench.skills) // BODIES_FOR_WORDS)
    seen = {w for n in range(0, len(bench.skills), step) for w in words(bench.body(bench.skills[n]))}
    met = sorted(w for w in seen if len(w) > 2 and w.isalpha() and w not in STOP_WORDS)
    terms = index.lexical.hashes
    if not met or not len(terms):
        return []
    hashes = term_hashes(met)
    at = np.minimum(np.searchsorted(terms, hashes), len(terms) - 1)
    df = np.where(terms[at] == hashes, np.diff(index.lexical.starts)[at], 0)
    best = np.lexsort((np.arange(len(met)), -df))[:GENERIC_WORDS]
    return [met[n] for n in best.tolist() if df[n] > 0]


def documents_of(arrays: Arrays, setting: Setting) -> Vectors:
    """(N, d) documents after expansion (rules 1.1 and 1.2); rows with nothing to move toward stay."""
    if setting.w_d == 0:
        return arrays.documents
    toward = arrays.toward if setting.asked == "shared" else arrays.own
    if toward is None:
        need = "requests that are not under test" if setting.asked == "shared" else "generated requests of each skill"
        raise InputError(f"document expansion needs {need}; give them, or sweep without w_d")
    return moved(arrays.documents, toward, setting.w_d)


def asked(arrays: Arrays, setting: Setting) -> Vectors:
    """(M, d) requests after expansion by their hypothetical skills; unit rows."""
    if setting.w_q == 0:
        return arrays.requests
    mixed = (1 - setting.w_q) * arrays.requests + setting.w_q * arrays.drafts
    has = np.abs(arrays.drafts).sum(axis=1, keepdims=True) > 0
    length = np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), VANISHED)
    return np.where(has, mixed / length, arrays.requests).astype(np.float32)


def background(arrays: Arrays, documents: Vectors, setting: Setting) -> Background | None:
    """The directions that the setting takes out, or None."""
    none = np.zeros((0, documents.shape[1]), np.float32)
    if setting.step == "none" or not enough(len(documents), setting.first):
        return None
    if setting.step == "random":
        count = setting.first + (2 if len(arrays.generic) else 0)
        return Background(random_directions(count, documents.shape[1], seed=setting.seed), none, len(documents))
    first = top_directions(documents, setting.first)
    if setting.step == "one":
        return Background(first, none, len(documents))
    if setting.step == "both":
        rest = arrays.requests - (arrays.requests @ first.T) @ first
        second = top_directions(rest, REQUEST_DIRECTIONS)
        return Background(np.linalg.qr(np.concatenate([first, second]).T)[0].T.astype(np.float32), none, len(documents))
    second = generic_directions(arrays.generic, first) if len(arrays.generic) else none
    return Background(first, second, len(documents))


@dataclass(slots=True)
class Sweep:
    """Rankings of many settings; what two settings share is computed once."""

    arrays: Arrays
    depth: int = 10
    """Documents ranked per request: enough for every metric of a sweep."""
    _made: dict[Any, tuple[Vectors, Background | None, Any]] = field(default_factory=dict)
    _ranked: dict[Setting, list[Rows]] = field(default_factory=dict)
    _words: dict[bool, list[Rows]] = field(default_factory=dict)
    _last: tuple[Any, list[Scores]] | None = None

    def rank(self, setting: Setting) -> list[Rows]:
        """Per request the rows of its best documents, best first."""
        if setting not in self._ranked:
            self._ranked[setting] = self._rank(setting)
        return self._ranked[setting]

    def values(self, setting: Setting, metric: str = "mrr@10") -> NDArray[np.float64]:
        """(M,) one value per request, as a fraction."""
        rankings = {str(n): [str(r) for r in rows.tolist()] for n, rows in enumerate(self.rank(setting))}
        gold = {str(n): {str(r): v for r, v in g.items()} for n, g in enumerate(self.arrays.gold)}
        return measure(metric, rankings, gold)

    def dense(self, setting: Setting) -> Scores:
        """(M, N) q · P d of every document: for small benchmarks and for tests."""
        return np.concatenate(list(self._scores(setting)))

    def _documents(self, setting: Setting) -> tuple[Vectors, Background | None, Any]:
        what = (setting.w_d, setting.asked, setting.step, setting.first, setting.seed)
        if what not in self._made:
            documents = documents_of(self.arrays, setting)
            found = background(self.arrays, documents, setting)
            self._made[what] = (documents, found, None if found is None else coordinates(documents, found)[:2])
        return self._made[what]

    def _blocks(self, setting: Setting) -> Iterator[Scores]:
        documents, found, place = self._documents(setting)
        queries = asked(self.arrays, setting)
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            scores = block @ documents.T
            if found is not None:
                coords, scale = place
                scores -= (block @ found.all.T) @ coords.T
                scores *= scale
            yield scores

    def _rank(self, setting: Setting) -> list[Rows]:
        a, drafted = self.arrays, setting.w_q > 0
        lexical = a.lexical_drafts if drafted else a.lexical
        matched = self._matched(drafted)
        if setting.channels == "lexical":
            return [self._best(setting, n, None, lexical[n], matched[n]) for n in range(len(a.requests))]
        ranked, n = [], 0
        queries = asked(a, setting)
        for block in self._scores(setting):
            for dense in block:
                ranked.append(self._best(setting, n, dense, lexical[n], matched[n], queries[n]))
                n += 1
        return ranked

    def _matched(self, drafted: bool) -> list[Rows]:
        """Per request the rows that words alone would have shown, as `fuse.pool` takes them; whatever dense says."""
        if drafted not in self._words:
            a = self.arrays
            found = []
            for scores in a.lexical_drafts if drafted else a.lexical:
                visible = self._without_hidden(scores, 0.0)
                found.append(pool(None, visible, max(POOL, self.depth)))
            self._words[drafted] = found
        return self._words[drafted]

    def _without_hidden(self, scores: Scores, value: float) -> Scores:
        if not len(self.arrays.hidden):
            return scores
        out: Scores = scores.copy()
        out[self.arrays.hidden] = value
        return out

    def _scores(self, setting: Setting) -> Iterator[Scores]:
        """Blocks of dense scores; those of the last configuration are kept, so that α costs no matrix product."""
        what = (setting.w_q, setting.w_d, setting.asked, setting.step, setting.first, setting.seed)
        if self._last is None or self._last[0] != what:
            self._last = (what, list(self._blocks(setting)))
        yield from self._last[1]

    def _best(
        self,
        setting: Setting,
        n: int,
        dense: Scores | None,
        lexical: Scores,
        matched: Rows,
        query: Vectors | None = None,
    ) -> Rows:
        """One request's best rows, by the stage's own steps."""
        a = self.arrays
        if dense is None:
            rows, score = matched, z(lexical[matched])
        else:
            near = best(self._without_hidden(dense, -np.inf), max(POOL, self.depth))
            rows = np.union1d(near, matched)
            if len(a.hidden):
                rows = np.setdiff1d(rows, a.hidden, assume_unique=True)
            here, words_here = dense[rows], lexical[rows]
            score = {
                "dense": lambda: z(here),
                "ranks": lambda: reciprocal_rank(here, words_here, setting.alpha),
                "fused": lambda: fused(z(here), z(words_here), setting.alpha),
            }[setting.channels]()
            score = score - self._penalty(n, rows, here, query)
        order = np.lexsort((a.rank[rows], -score))[: self.depth]
        ranked: Rows = rows[order]
        return ranked

    def _penalty(self, n: int, rows: Rows, dense: Scores, query: Vectors | None) -> NDArray[np.float64]:
        penalty, a = np.zeros(len(rows)), self.arrays
        spread = float(dense.std())
        if a.excluded is None or query is None or spread <= 0:
            return penalty
        which, vectors = a.excluded
        _, here, there = np.intersect1d(rows, which, assume_unique=True, return_indices=True)
        if len(here):
            nearer = vectors[there] @ query - a.documents[rows[here]] @ a.requests[n]
            penalty[here] = EXCLUDE_WEIGHT * np.maximum(nearer, 0.0) / spread
        return penalty
