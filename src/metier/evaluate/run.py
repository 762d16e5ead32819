"""A retrieval run: every request through the product's own stages, ranked without abstention, timed one by one.

What is measured is what people get: the same index, the same `Retrieve` stage, with modules left out by its own
switches. Evaluation never shadows or collapses skills, and a request whose gold is not in the library still counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.errors import InputError
from metier.evaluate.datasets import IN_POOL, Request
from metier.evaluate.datasets import known_as as known_as
from metier.evaluate.metrics import REPORTED, macro, measure
from metier.retrieve.build import DOCUMENT_WEIGHT
from metier.router import run as run_stages
from metier.text import fingerprint
from metier.types import Encoder, Skill, Slate, Stage, Task

if TYPE_CHECKING:
    from metier.retrieve.opened import Index
    from metier.types import Vectors

MODULES = ("lexical", "dense", "projection", "query-expansion", "document-expansion", "tuned", "rerank")
FREE = ("lexical", "projection", "query-expansion", "document-expansion")
"""The modules that need no training; `tuned` is another encoder, `rerank` another paper."""
PROJECTED = 2  # methods 1.4: k1 where the encoder's profile projects nothing and the module is asked for
DEPTH = 50
"""Candidates ranked per request: deep enough for R@50."""


@dataclass(frozen=True, slots=True)
class Bench:
    """An index over the skills under test, and what may be put on top of it."""

    index: Index
    skills: Sequence[Skill]
    encoder: Encoder | None
    rerank: Callable[[], Stage] | None = None
    """Makes the Rerank stage; None where it is not asked for."""
    index_seconds: float = 0.0
    body: Callable[[Skill], str] | None = None
    toward: Callable[[], Vectors] | None = None
    """What document expansion moves to: the mean request (d,), or each skill's own (N, d) (rules 1.1 and 1.2)."""
    generic: Callable[[], Vectors] | None = None
    """(W, d) generic words of the library, for a background found anew (rule 1.4)."""
    _variants: dict[frozenset[str], Index] = field(default_factory=dict, repr=False, compare=False)

    def index_for(self, modules: Sequence[str]) -> Index:
        """The index as these modules would have built it; each variant is made once."""
        index, wanted = self.index, frozenset({"projection", "document-expansion"} & set(modules))
        if index.vectors is None or "dense" not in modules:
            return index
        if (wanted == {"projection"} and index.directions is not None) or not wanted:
            return index
        if wanted not in self._variants:
            self._variants[wanted] = self._variant(wanted)
        return self._variants[wanted]

    def _variant(self, wanted: frozenset[str]) -> Index:
        from metier.evaluate.variants import varied
        from metier.retrieve.expand import moved

        index = self.index
        documents = np.asarray(index.vectors)
        if "document-expansion" in wanted:
            if self.toward is None:
                raise InputError(
                    "document-expansion: there are no requests to move documents toward; give --asked FILE"
                )
            documents = moved(documents, self.toward(), DOCUMENT_WEIGHT)
        first = int(index.facts["projection"]["first"]) or PROJECTED
        generic = self.generic() if self.generic else np.zeros((0, documents.shape[1]), np.float32)
        return varied(index, documents, first if "projection" in wanted else 0, generic)


@dataclass(frozen=True, slots=True)
class Run:
    """Rankings per request key, with times and the configuration that made them."""

    rankings: Mapping[str, Sequence[str]]
    scores: Mapping[str, Sequence[float]]
    ms: Sequence[float]
    modules: tuple[str, ...]
    config: str
    index_seconds: float = 0.0
    unknown_gold: tuple[str, ...] = ()
    """Gold ids that no skill of the library has."""
    extra: Mapping[str, Any] = field(default_factory=dict)


def key_of(request: Request) -> str:
    """Requests of different datasets may share an id."""
    return f"{request.dataset}/{request.id}"


def stages_for(
    bench: Bench, modules: Sequence[str], expand: Callable[[str], Sequence[str]] | None = None
) -> list[Stage]:
    """The stages that `modules` switch on, over one index. Raises `InputError` for an unknown or empty choice."""
    from metier.retrieve.index import Retrieve

    wrong = [m for m in modules if m not in MODULES]
    if wrong:
        raise InputError(f"--modules: there is no module '{wrong[0]}'; choose from {', '.join(MODULES)}")
    lexical, dense = "lexical" in modules, "dense" in modules
    if not (lexical or dense):
        raise InputError("--modules: name at least one channel, lexical or dense")
    stages: list[Stage] = [
        Retrieve(
            index=bench.index_for(modules),
            skills=bench.skills,
            encoder=bench.encoder if dense else None,
            slate=DEPTH,
            channels="fused" if lexical and dense else "dense" if dense else "lexical",
            projection="projection" in modules,
            abstain=False,
            names=False,
            expand=expand if "query-expansion" in modules else None,
            collapse=False,
        )
    ]
    if "rerank" in modules and bench.rerank is not None:
        stages.append(bench.rerank())
    return stages


def retrieve_all(bench: Bench, requests: Sequence[Request], modules: Sequence[str]) -> Run:
    """Every request ranked by these modules; the time of each includes its encoding."""
    given = {r.text: r.hypothetical for r in requests}
    stages = stages_for(bench, modules, expand=lambda text: given.get(text, ()))
    names: dict[str, str] = {}
    wanted = {g for r in requests for g in r.gold}
    for skill in bench.skills:
        for name in known_as(skill):
            if name in wanted:
                names.setdefault(skill.id, name)
    rankings, scores, ms = {}, {}, []
    for request in requests:
        began = time.perf_counter()
        slate = run_stages(stages, Slate(id=key_of(request), task=Task(request.text)))
        ms.append((time.perf_counter() - began) * 1000.0)
        failed = [s.error for s in slate.steps if s.error]
        if failed:
            raise InputError(f"request {request.id!r} could not be ranked: {failed[0]}")
        rankings[key_of(request)] = [names.get(c.skill.id, c.skill.id) for c in slate.candidates]
        scores[key_of(request)] = [c.score for c in slate.candidates]
    return Run(
        rankings=rankings,
        scores=scores,
        ms=ms,
        modules=tuple(modules),
        config=fingerprint(repr(stages), *modules)[:12],
        index_seconds=bench.index_seconds,
        unknown_gold=tuple(sorted(wanted - set(names.values()))),
    )


def judged(requests: Sequence[Request], skills: Sequence[Skill]) -> list[Request]:
    """The requests as their benchmark judges them: where it says so, gold outside the pool does not count (6.2).

    Such a request with no gold left is dropped, as its protocol drops it. All others are kept as they are.
    """
    if not any(r.extra.get(IN_POOL) for r in requests):
        return list(requests)
    wanted = {g for r in requests for g in r.gold}
    held = {name for skill in skills for name in known_as(skill) if name in wanted}
    kept = [
        replace(r, gold={g: v for g, v in r.gold.items() if g in held}) if r.extra.get(IN_POOL) else r for r in requests
    ]
    return [r for r in kept if r.gold or not r.extra.get(IN_POOL)]


def values(run: Run, requests: Sequence[Request], metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One value per request, in their order."""
    return measure(metric, run.rankings, {key_of(r): r.gold for r in requests})


def metrics(run: Run, requests: Sequence[Request], names: Sequence[str] = REPORTED) -> dict[str, float]:
    """Percent, macro over datasets."""
    sets = [r.dataset for r in requests]
    return {name: round(100 * macro(values(run, requests, name), sets), 2) for name in names}


def by_dataset(run: Run, requests: Sequence[Request], names: Sequence[str] = REPORTED) -> dict[str, dict[str, float]]:
    """Percent, for each dataset alone, with the number of its requests."""
    out: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(r.dataset for r in requests):
        mine = [r for r in requests if r.dataset == name]
        out[name] = {"requests": len(mine), **metrics(run, mine, names)}
    return out


def report(run: Run, requests: Sequence[Request], skills: int, names: Sequence[str] = REPORTED) -> dict[str, Any]:
    """The object that `metier eval retrieval --json` prints."""
    quantiles = np.percentile(run.ms, [50, 95]) if run.ms else (0.0, 0.0)
    return {
        "schema": "metier-eval-retrieval-v1",
        "requests": len(requests),
        "skills": skills,
        "metrics": metrics(run, requests, names),
        "by_dataset": by_dataset(run, requests, names),
        "modules": list(run.modules),
        "config": run.config,
        "index_seconds": round(run.index_seconds, 3),
        "ms_per_request": {"p50": round(float(quantiles[0]), 3), "p95": round(float(quantiles[1]), 3)},
        "gold_not_in_library": list(run.unknown_gold[:20]),
    }


def trec(run: Run, tag: str) -> str:
    """The ranking in TREC run format: `query Q0 document rank score tag`."""
    lines = []
    for query, docs in run.rankings.items():
        for rank, (doc, score) in enumerate(zip(docs, run.scores[query], strict=True), start=1):
            lines.append(f"{_word(query)} Q0 {_word(doc)} {rank} {score:.6f} {tag}")
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    """TREC fields end at white space."""
    return "_".join(text.split())


def sra_results(run: Run, requests: Sequence[Request], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The result file of SRA-Bench's own evaluation (methods 6.1): {metadata, metrics, results}."""
    return {
        "metadata": {**metadata, "modules": list(run.modules), "config": run.config, "query": "bare question"},
        "metrics": {"macro": metrics(run, requests), **by_dataset(run, requests)},
        "results": [
            {
                "instance_id": request.id,
                "gold_skill_ids": list(request.gold),
                "retrieved": [
                    {"skill_id": doc, "score": round(score, 6)}
                    for doc, score in zip(run.rankings[key], run.scores[key], strict=True)
                ],
            }
            for request in requests
            if (key := key_of(request)) in run.rankings
        ],
    }
