"""The controlled test: one valid skill among near-copies that break what the request states (SKALOS, methods 2.10).

    NDCG@4 of the text score alone  against  the same candidates after the Rerank stage

Fair play: ids are opaque and shuffled, ties count by expectation, both sides are rounded alike, the graph does not
know the clean skill beforehand, and the text score is the product's own, over an index of everything in the test.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import InputError
from metier.evaluate.corrupt import OPERATORS, Corruption, chosen, corruptions
from metier.evaluate.datasets import Request
from metier.evaluate.metrics import Difference, paired_bootstrap
from metier.rerank.calibrate import fit_lambda
from metier.rerank.witness import z
from metier.text import fingerprint
from metier.types import Candidate, Encoder, Evidence, Skill, Slate, Stage, Task, ranked

BACKGROUND = 400
"""Other skills of the library in the test's index: enough that word frequencies and z-scores are those of a library."""
DECIMALS = 6
"""Both scores are rounded alike before they are compared, so that noise of float32 breaks no tie."""


@dataclass(frozen=True, slots=True)
class Near:
    """One candidate of a pair: the valid skill (`operator` None) or a near-copy of it."""

    skill: Skill
    body: str
    operator: str | None = None
    corruption: Corruption | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A request, its skill and the skill's near-copies, in shuffled order."""

    request: Request
    valid: str
    """Id of the original in the library."""
    candidates: tuple[Near, ...]

    @property
    def position(self) -> int:
        """Where the valid skill stands among the candidates."""
        return next(i for i, c in enumerate(self.candidates) if c.operator is None)


def pairs(
    requests: Sequence[Request],
    skills: Mapping[str, Skill],
    body: Callable[[Skill], str],
    *,
    seed: int = 0,
    per_request: int = 3,
    at_least: int | None = None,
) -> list[Pair]:
    """One pair per request and gold skill that can be broken `per_request` times. `skills` maps gold ids to skills.

    Where fewer corruptions exist the pair is left out, unless there are `at_least` so many.
    """
    least = per_request if at_least is None else at_least
    counts: Counter[str] = Counter()
    made = []
    for request in requests:
        for gold in sorted(request.gold):
            skill = skills.get(gold)
            if skill is None:
                continue
            text = body(skill)
            rng = random.Random(f"{seed}:{request.dataset}/{request.id}:{gold}")
            found = corruptions(request.text, text, skill.description, rng)
            broken = chosen(found, per_request, text, seen=counts)
            if broken and len(broken) >= least:
                made.append(_pair(request, gold, skill, text, broken, rng))
    return made


def _pair(
    request: Request, gold: str, skill: Skill, text: str, broken: Sequence[Corruption], rng: random.Random
) -> Pair:
    made = [(text, skill.description, None)] + [(c.apply(text), c.describe(skill.description), c) for c in broken]
    candidates = []
    for body, description, corruption in made:
        opaque = fingerprint(request.dataset, request.id, gold, str(rng.random()))
        near = replace(
            skill, id=f"given:{opaque[:16]}", digest=fingerprint(body, description, opaque), description=description,
            addresses=(f"{opaque[:16]}",), resources=(), requires=(), family=None,
        )  # fmt: skip
        candidates.append(Near(near, body, corruption.operator if corruption else None, corruption))
    rng.shuffle(candidates)
    return Pair(request, gold, tuple(candidates))


# -------------------------------------------------------------------------------------------------------- the scores


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of every candidate of every pair, by text alone and with the witness."""

    pairs: Sequence[Pair]
    text: Sequence[NDArray[np.float64]]
    witness: Sequence[NDArray[np.float64]]
    evidence: Sequence[Sequence[Evidence | None]] = field(default=())


def text_scores(
    made: Sequence[Pair],
    others: Sequence[Skill],
    body: Callable[[Skill], str],
    encoder: Encoder | None,
    folder: Path,
    vectors: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[NDArray[np.float64]]:
    """The product's text score of every candidate, over one index of all candidates and some `others`."""
    from metier.retrieve.index import Retrieve, build, load

    texts = {c.skill.id: c.body for p in made for c in p.candidates}
    skills = [c.skill for p in made for c in p.candidates] + list(others)

    def read(skill: Skill) -> str:
        return texts[skill.id] if skill.id in texts else body(skill)

    build(skills, read, encoder, into=folder, vectors=vectors, full=True, progress=progress)
    stage = Retrieve(
        load(folder), skills, encoder, slate=len(skills), abstain=False, names=False, collapse=False
    )  # fmt: skip
    found = []
    for pair in made:
        slate = stage(Slate(pair.valid, Task(pair.request.text)))
        at = {c.skill.id: c.score for c in slate.candidates}
        low = min(at.values(), default=0.0)
        found.append(np.array([at.get(c.skill.id, low) for c in pair.candidates]))
    return found


def witness_scores(
    made: Sequence[Pair], text: Sequence[NDArray[np.float64]], stage: Stage
) -> tuple[list[NDArray[np.float64]], list[list[Evidence | None]]]:
    """Scores and evidence after `stage`, given exactly the candidates and text scores of each pair."""
    scores, evidence = [], []
    for pair, values in zip(made, text, strict=True):
        given = ranked([Candidate(c.skill, float(v)) for c, v in zip(pair.candidates, values, strict=True)])
        after = {c.skill.id: c for c in stage(Slate(pair.valid, Task(pair.request.text), given)).candidates}
        scores.append(np.array([after[c.skill.id].score for c in pair.candidates]))
        evidence.append([next(iter(after[c.skill.id].evidence[-1:]), None) for c in pair.candidates])
    return scores, evidence


# ------------------------------------------------------------------------------------------------------- the measure


def expected_ndcg(scores: NDArray[np.float64], position: int, k: int = 4) -> float:
    """NDCG@k with one relevant candidate: the mean over the ranks that its ties leave it (ties by expectation)."""
    rounded = np.round(scores, DECIMALS)
    above = int((rounded > rounded[position]).sum())
    tied = int((rounded == rounded[position]).sum())
    return float(np.mean([1.0 / np.log2(2 + rank) if rank < k else 0.0 for rank in range(above, above + tied)]))


def below(scores: NDArray[np.float64], position: int, other: int) -> float:
    """1 when the valid candidate stands above the other, ½ for a tie, 0 otherwise."""
    valid, copy = np.round(scores[[position, other]], DECIMALS)
    return float(valid > copy) + 0.5 * float(valid == copy)


def report(scored: Scored, *, seed: int = 0, k: int = 4) -> dict[str, Any]:
    """The test's figures in percent: NDCG@k, and per operator the share of near-copies ranked below the valid skill."""
    if not scored.pairs:
        raise InputError(
            "no request states anything of its gold skill that could be broken; give requests with details"
        )
    places = [p.position for p in scored.pairs]
    text = np.array([expected_ndcg(s, i, k) for s, i in zip(scored.text, places, strict=True)])
    ours = np.array([expected_ndcg(s, i, k) for s, i in zip(scored.witness, places, strict=True)])
    by_operator = {}
    for operator in OPERATORS:
        rows = [
            (n, j) for n, p in enumerate(scored.pairs) for j, c in enumerate(p.candidates) if c.operator == operator
        ]
        if rows:
            before = np.array([below(scored.text[n], places[n], j) for n, j in rows])
            after = np.array([below(scored.witness[n], places[n], j) for n, j in rows])
            by_operator[operator] = {
                "n": len(rows),
                **_compared(before, after, paired_bootstrap(before, after, seed=seed)),
            }
    sets = np.array([p.request.dataset for p in scored.pairs])
    by_dataset = {}
    for name in dict.fromkeys(sets.tolist()):
        here = sets == name
        difference = paired_bootstrap(text[here], ours[here], seed=seed)
        by_dataset[name] = {"pairs": int(here.sum()), **_compared(text[here], ours[here], difference)}
    return {
        "pairs": len(scored.pairs),
        f"ndcg@{k}": _compared(text, ours, paired_bootstrap(text, ours, seed=seed)),
        "by_operator": by_operator,
        "by_dataset": by_dataset,
    }


def fitted_lambda(scored: Scored) -> float | None:
    """λ of the pairwise loss (methods 2.7) over these pairs, for a library of one's own; None without evidence.

    Contradicted near-copies say nothing about it: they stand last whatever λ is.
    """
    text, worth = [], []
    for pair, given, evidence in zip(scored.pairs, scored.text, scored.evidence, strict=True):
        live = [i for i, e in enumerate(evidence) if e is not None and e.score > 0.0]
        if pair.position not in live or len(live) < 2:
            continue
        scores = np.log([e.score for e in evidence if e is not None and e.score > 0.0])
        near, far = z(given[live]), z(scores)
        valid = live.index(pair.position)
        for i in range(len(live)):
            if i != valid:
                text.append(near[valid] - near[i])
                worth.append(far[valid] - far[i])
    return round(fit_lambda(np.array(text), np.array(worth)), 3) if text else None


def _compared(text: NDArray[np.float64], ours: NDArray[np.float64], found: Difference) -> dict[str, Any]:
    shown = found.as_dict()
    return {
        "text": round(100 * float(text.mean()), 2),
        "witness": round(100 * float(ours.mean()), 2),
        "delta": shown["delta"],
        "ci95": shown["ci95"],
    }
