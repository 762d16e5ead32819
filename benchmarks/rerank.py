"""The reranker: the controlled look-alike test, whether it hurts, the executable world, errors and audit, and speed.

    python benchmarks/rerank.py --skills POOL --skills GOLD … --requests LOOKALIKES --requests DEV … --home HOME
        [--hand training/handmade.jsonl] [--paraphrases training/paraphrases.jsonl]
        [--only controlled,hand,harm,world,noise,paraphrase,speed] [--seeds 0,1,2]

`controlled` takes every request whose gold skill can be broken (of SRA-Bench at most 60 requests a subset, evenly
spaced); `hand` the corruptions made by hand, each part apart; `harm` ranks all requests but the look-alike ones over
the whole library with and without the stage; `noise` samples 40 pairs for the audits and 120 for the stage's own curve;
`speed` reads 1,000 skills and routes slates of fifty. CPU seconds of one thread are reported beside wall time, since
other work may run on the machine. Writes results/rerank-<sha12>.json.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, benches_of, digest, keep, requests_of
from metier.evaluate.datasets import Request
from metier.evaluate.handmade import PARTS, Edit, hand_pairs, read_edits
from metier.evaluate.lookalikes import (
    BACKGROUND,
    Pair,
    Scored,
    below,
    expected_ndcg,
    pairs,
    report,
    text_scores,
    witness_scores,
)
from metier.evaluate.metrics import macro, paired_bootstrap
from metier.evaluate.noise import corrupted, curve
from metier.evaluate.paraphrase import read_rewordings, reworded
from metier.evaluate.run import known_as, retrieve_all, values
from metier.evaluate.world import compared, tasks
from metier.rerank.arrays import arrays
from metier.rerank.calibrate import Judged
from metier.rerank.canon import Canons
from metier.rerank.extract import extract
from metier.rerank.keep import Graphs, save
from metier.rerank.witness import Rerank
from metier.store import Store
from metier.types import Candidate, Encoder, Skill, Slate, Task

LOOKALIKES = "lookalikes"
THEOREMS = ("theoremqa", "champ")
"""Concept documents: few requirements to break, and hundreds of requests; a sample of each is tested."""
SAMPLE = 60
SHARES = (0.1, 0.25, 0.5, 0.75)
MODULES = ("lexical", "dense", "projection")


def controlled(
    requests: Sequence[Request],
    skills: Sequence[Skill],
    body: Callable[[Skill], str],
    encoder: Encoder,
    home: Path,
    seed: int,
    looked: set[str],
) -> tuple[dict[str, Any], list[Pair], list[Any]]:
    """The test of `metier eval rerank`, over these requests; and over those that no rule was improved on alone."""
    named = {name: s for s in skills for name in known_as(s)}
    wanted = sorted({g for r in requests for g in r.gold if g in named})
    made = pairs(requests, {g: named[g] for g in wanted}, body, seed=seed)
    text = judged_text(made, skills, body, encoder, home)
    bodies = {c.skill.id: c.body for p in made for c in p.candidates}
    ours, _ = witness_scores(made, text, Rerank(Graphs(lambda s: bodies[s.id]), encoder))
    words, _ = witness_scores(made, text, Rerank(Graphs(lambda s: bodies[s.id])))
    found = report(Scored(made, text, ours), seed=seed)
    found["by_words_alone"] = report(Scored(made, text, words), seed=seed)["ndcg@4"]
    rest = [n for n, p in enumerate(made) if p.request.dataset != LOOKALIKES or p.request.id not in looked]
    some = Scored([made[n] for n in rest], [text[n] for n in rest], [ours[n] for n in rest])
    found["not_looked_at"] = {"pairs": len(rest), **report(some, seed=seed)["ndcg@4"]} if rest else None
    return found, made, text


def harm(bench: Any, requests: Sequence[Request]) -> dict[str, Any]:
    """MRR@10, Hit@1 and NDCG@10 of the pipeline with the stage against without it."""
    before, after = (retrieve_all(bench, requests, modules) for modules in (MODULES, (*MODULES, "rerank")))
    sets = [r.dataset for r in requests]
    found: dict[str, Any] = {}
    for metric in ("mrr@10", "hit@1", "ndcg@10"):
        a, b = values(before, requests, metric), values(after, requests, metric)
        found[metric] = {
            "without": round(100 * macro(a, sets), 2), "with": round(100 * macro(b, sets), 2),
            **paired_bootstrap(a, b, sets).as_dict(),
            "by_dataset": {
                name: paired_bootstrap(a[here], b[here]).as_dict()
                for name in dict.fromkeys(sets) for here in [np.array([s == name for s in sets])]
            },
        }  # fmt: skip
    changed = sum(before.rankings[k] != after.rankings[k] for k in before.rankings)
    return {"requests": len(requests), "slates_changed": changed, **found}


def world(encoder: Encoder, home: Path, n: int = 300) -> dict[str, Any]:
    """Success of the skill that text chooses against the one that the witness chooses."""
    made = tasks(n)
    found = [pair for _, pair in made]
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        text = text_scores(found, [], lambda s: "", encoder, Path(folder), home / "vectors")
    bodies = {c.skill.id: c.body for p in found for c in p.candidates}
    ours, _ = witness_scores(found, text, Rerank(Graphs(lambda s: bodies[s.id]), encoder))
    by_text, by_witness, difference = compared(made, text, ours)
    return {
        "tasks": n, "success": {"text": round(100 * by_text, 1), "witness": round(100 * by_witness, 1)},
        **difference.as_dict(), "ranking": report(Scored(found, text, ours)),
    }  # fmt: skip


def sampled(requests: Sequence[Request]) -> list[Request]:
    """All requests but those of concept sets, of which `SAMPLE` each, evenly spaced."""
    kept = [r for r in requests if r.dataset not in THEOREMS]
    for name in THEOREMS:
        rows = [r for r in requests if r.dataset == name]
        kept += rows[:: max(1, len(rows) // SAMPLE)][:SAMPLE]
    return kept


def judged_text(
    made: Sequence[Pair], skills: Sequence[Skill], body: Callable[[Skill], str], encoder: Encoder, home: Path
) -> list[Any]:
    """Text scores over an index of all candidates and `BACKGROUND` other skills."""
    taken = {p.valid for p in made}
    free = sorted((s for s in skills if not taken.intersection(known_as(s))), key=lambda s: s.id)
    others = random.Random(0).sample(free, min(BACKGROUND, len(free)))
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        return text_scores(made, others, body, encoder, Path(folder), home / "vectors")


def hand(
    edits: Sequence[Edit],
    requests: Sequence[Request],
    skills: Sequence[Skill],
    body: Callable[[Skill], str],
    encoder: Encoder,
    home: Path,
) -> dict[str, Any]:
    """NDCG@4 and the share of near-copies below the valid skill, by part and by kind of corruption."""
    named = {name: s for s in skills for name in known_as(s)}
    asked = {r.id: r for r in requests if r.dataset == LOOKALIKES}
    found: dict[str, Any] = {}
    for part in PARTS:
        rows = hand_pairs([e for e in edits if e.part == part], asked, named, body)
        made = [pair for pair, _ in rows]
        text = judged_text(made, skills, body, encoder, home)
        bodies = {c.skill.id: c.body for p in made for c in p.candidates}
        ours, _ = witness_scores(made, text, Rerank(Graphs(lambda s, b=bodies: b[s.id]), encoder))
        ndcg = [
            np.array([expected_ndcg(s, p.position) for s, p in zip(side, made, strict=True)]) for side in (text, ours)
        ]
        won: dict[str, list[tuple[float, float]]] = {}
        for n, (pair, each) in enumerate(rows):
            for place, edit in enumerate(each):
                if edit is not None:
                    won.setdefault(edit.kind, []).append(
                        (below(text[n], pair.position, place), below(ours[n], pair.position, place))
                    )
        every = np.array([w for kind in won.values() for w in kind])
        found[part] = {
            "requests": len(made), "copies": len(every),
            "ndcg@4": {"text": _mean(ndcg[0]), "witness": _mean(ndcg[1]), **paired_bootstrap(*ndcg).as_dict()},
            "below": {
                "text": _mean(every[:, 0]), "witness": _mean(every[:, 1]),
                **paired_bootstrap(every[:, 0], every[:, 1]).as_dict(),
            },
            "by_kind": {
                kind: {"n": len(rows_), "text": _mean(np.array(rows_)[:, 0]), "witness": _mean(np.array(rows_)[:, 1])}
                for kind, rows_ in sorted(won.items())
            },
        }  # fmt: skip
    return found


def _mean(values: np.ndarray[Any, Any]) -> float:
    return round(100.0 * float(values.mean()), 2)


def noise(
    made: Sequence[Pair], text: Sequence[Any], encoder: Encoder, audits: int = 40, most: int = 120
) -> dict[str, Any]:
    """Extraction errors at several shares: what they cost the stage, and what an audit of a fifth recovers."""
    judged = []
    for pair in made[:audits]:
        valid = pair.candidates[pair.position]
        good = extract(valid.skill, valid.body)
        judged += [
            Judged(pair.request.text, good, extract(c.skill, c.body)) for c in pair.candidates if c.operator is not None
        ]
    return {
        "judged_pairs": len(judged), "budget": 0.2, "curve": curve(judged, SHARES),
        "stage": [_degraded(made[:most], text[:most], encoder, share) for share in (0.0, *SHARES)],
    }  # fmt: skip


def _degraded(made: Sequence[Pair], text: Sequence[Any], encoder: Encoder, share: float) -> dict[str, Any]:
    """NDCG@4 of the stage when this share of every skill's statements was read as another statement of the skill."""
    bodies = {c.skill.id: c.body for p in made for c in p.candidates}

    def wrong(skill: Skill, given: str) -> Any:
        graph = extract(skill, given)
        texts = [n.text for n in graph.nodes]
        return corrupted(graph, texts, share, random.Random(f"{share}:{skill.digest}"))

    ours, _ = witness_scores(made, text, Rerank(Graphs(lambda s: bodies[s.id], by_rules=wrong), encoder))
    return {"errors": share, "ndcg@4": report(Scored(made, text, ours))["ndcg@4"]}


def speed(
    skills: Sequence[Skill], body: Callable[[Skill], str], encoder: Encoder, requests: Sequence[Request]
) -> dict[str, Any]:
    """Skills read a second, milliseconds of the stage over fifty candidates, one more skill in a graph of all."""
    rng = random.Random(0)
    some = rng.sample(list(skills), min(1000, len(skills)))
    texts = [body(s) for s in some]
    began, wall = time.process_time(), time.perf_counter()
    graphs = [extract(s, t) for s, t in zip(some, texts, strict=True)]
    read, read_wall = time.process_time() - began, time.perf_counter() - wall
    sizes = [arrays(g).nbytes for g in graphs]
    stage = Rerank(Graphs(body), None)
    warm, cold = [], []
    for request in requests:
        slate = Slate(
            "r", Task(request.text), tuple(Candidate(s, rng.random()) for s in rng.sample(some, min(50, len(some))))
        )
        for times in (cold, warm):
            began = time.process_time()
            stage(slate)
            times.append(1000 * (time.process_time() - began))
    phrases = [r.text[:60] for r in requests]
    wall = time.perf_counter()
    encoder.encode(phrases, kind="query")
    a_phrase = 1000 * (time.perf_counter() - wall) / max(1, len(phrases))
    return {
        "extract": {
            "skills": len(some),
            "cpu_per_second": round(len(some) / read),
            "wall_per_second": round(len(some) / read_wall),
        },
        "bytes_a_skill": {"p50": int(statistics.median(sizes)), "mean": int(statistics.mean(sizes))},
        "stage_50_cpu_ms": {
            "warm_p50": round(statistics.median(warm), 1),
            "warm_p95": round(float(np.percentile(warm, 95)), 1),
            "cold_p50": round(statistics.median(cold), 1),
        },
        "encoding_a_phrase_ms": round(a_phrase, 2),
        "join": _joining(skills, body, encoder),
    }


def _joining(skills: Sequence[Skill], body: Callable[[Skill], str], encoder: Encoder) -> dict[str, Any]:
    """All skills but twenty in the shared layer (by words), then twenty more, one by one, with their vectors."""
    late = set(range(0, len(skills), max(1, len(skills) // 20)))
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        store = Store(Path(folder) / "s.db")
        canons = Canons.open(store)
        began = time.perf_counter()
        for n, skill in enumerate(skills):
            if n not in late:
                canons.join(extract(skill, body(skill)))
        built = time.perf_counter() - began
        canons = Canons.open(store, encoder)
        ms = []
        for n in sorted(late):
            text = body(skills[n])
            began = time.process_time()
            graph = canons.join(extract(replace(skills[n], digest=skills[n].digest or str(n)), text))
            save(store, [graph])
            ms.append(1000 * (time.process_time() - began))
        expressions = store.rows("SELECT count(*) AS n FROM canons")[0]["n"]
        size = store.path.stat().st_size
        store.close()
    return {
        "skills": len(skills),
        "expressions": expressions,
        "merged": canons.merged,
        "built_seconds": round(built, 1),
        "one_more_cpu_ms": {"p50": round(statistics.median(ms), 1), "max": round(max(ms), 1)},
        "store_bytes_a_skill": size // len(skills),
    }


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", default="controlled,hand,harm,world,noise,paraphrase,speed")
    parser.add_argument("--hand", type=Path, help="corruptions made by hand: JSONL, see training/README.md")
    parser.add_argument("--paraphrases", type=Path, help="statements reworded: JSONL of {id, one, other, same}")
    parser.add_argument("--seeds", default="0")
    given = parser.parse_args()
    began, only = time.perf_counter(), given.only.split(",")
    requests, benches = requests_of(given), benches_of(given)
    bench = benches.bench(MODULES)
    body = bench.body
    home = Path(given.home or benches.config.home)
    result: dict[str, Any] = {"data_by_hand": {p.name: digest(p) for p in (given.hand, given.paraphrases) if p}}
    made: list[Pair] = []
    text: list[Any] = []
    edits = read_edits(given.hand) if given.hand else []
    looked = {e.request for e in edits if e.part == PARTS[0]}
    for seed in map(int, given.seeds.split(",")):
        if "controlled" in only or "noise" in only:
            found, made, text = controlled(sampled(requests), bench.skills, body, bench.encoder, home, seed, looked)
            result.setdefault("controlled", {})[str(seed)] = found
    if "hand" in only and edits:
        result["hand"] = hand(edits, requests, bench.skills, body, bench.encoder, home)
    if "harm" in only:
        result["harm"] = harm(bench, [r for r in requests if r.dataset != LOOKALIKES])
    if "world" in only:
        result["world"] = world(bench.encoder, home)
    if "noise" in only:
        result["noise"] = noise(made, text, bench.encoder)
    if "paraphrase" in only and given.paraphrases:
        with tempfile.TemporaryDirectory(prefix="metier-") as folder:
            result["paraphrase"] = reworded(read_rewordings(given.paraphrases), bench.encoder, Path(folder))
    if "speed" in only:
        result["speed"] = speed(
            bench.skills, body, bench.encoder, [r for r in requests if r.dataset == LOOKALIKES][:60]
        )
    keep("rerank", given, began, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
