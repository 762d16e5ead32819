"""The paper's controls, and the easy and hard tiers: does each module help for the reason that is given for it?

    python benchmarks/controls.py --skills … --requests …        (as benchmarks/ablation.py)

Writes results/controls-<sha12>.json. `--sample` bounds what has to be encoded anew (padding, deletions, near-copies).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, arrays_of, benches_of, keep, requests_of
from metier.evaluate import controls, padding, tiers
from metier.evaluate.diagnose import sections
from metier.evaluate.grids import measured
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.sweep import Setting, Sweep, gold_rows
from metier.retrieve.bm25 import K1, B, query_weights, term_hash
from metier.retrieve.documents import document
from metier.retrieve.vectors import unit
from metier.text import words


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sample", type=int, default=250, help="requests a dataset where texts are encoded anew")
    parser.add_argument("--only", default="directions,expansion,shared,supplied,padding,tiers")
    given = parser.parse_args()
    began, benches, requests = time.perf_counter(), benches_of(given), requests_of(given)
    bench = benches.bench(("dense",))
    arrays = arrays_of(bench, requests)
    sweep = Sweep(arrays)
    dense = Setting(channels="dense", alpha=bench.encoder.profile.alpha)
    wanted, result = given.only.split(","), {"requests": len(requests), "skills": len(bench.skills)}
    if "directions" in wanted:
        result["directions"] = {
            "dense": controls.directions(sweep, dense),
            "fused": controls.directions(sweep, replace(dense, channels="fused")),
        }
        say("directions")
    if "expansion" in wanted and np.abs(arrays.drafts).any():
        only = Sweep(arrays.only(np.flatnonzero(np.abs(arrays.drafts).any(axis=1)).tolist()))
        result["query_expansion_by_background"] = controls.expansion_by_background(only, dense, 0.3)
        say("expansion")
    if "shared" in wanted:
        shift = [replace(dense, w_d=w) for w in (0.1, 0.2, 0.3, 0.4)]
        result["mean_request"] = (
            [{"w_d": s.w_d, **controls.against(sweep, dense, s)} for s in shift] if arrays.toward is not None else []
        )
        result["shared_component"] = controls.shared_component(arrays, dense, 0.2)
        say("shared")
    if "supplied" in wanted and np.abs(arrays.drafts).any():
        result["supplied_words"] = supplied(bench, requests, sweep, given.sample)
        say("supplied")
    if "padding" in wanted:
        result["padding"] = pad(bench, requests, sweep, given.sample)
        say("padding")
    if "tiers" in wanted:
        result["tiers"] = two_tiers(given, benches, requests)
        say("tiers")
    keep("controls", given, began, result)


def say(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def sampled(requests: Sequence[Any], most: int) -> list[int]:
    """At most so many requests of each dataset, the same ones in every run."""
    rng, rows = np.random.default_rng(0), []
    for name in dict.fromkeys(r.dataset for r in requests):
        mine = [n for n, r in enumerate(requests) if r.dataset == name]
        rows += sorted(rng.permutation(mine)[:most].tolist())
    return rows


def idf_of(bench: Any) -> Any:
    """Inverse document frequency over the index's own postings; unknown words are the rarest."""
    index = bench.index.lexical
    df = np.diff(index.starts)

    def idf(word: str) -> float:
        number = np.uint64(term_hash(word))
        at = int(np.searchsorted(index.hashes, number))
        count = int(df[at]) if at < len(index.hashes) and index.hashes[at] == number else 0
        return math.log1p((index.size - count + 0.5) / (count + 0.5))

    return idf


def supplied(bench: Any, requests: Sequence[Any], sweep: Sweep, most: int) -> dict[str, Any]:
    rows = [n for n in sampled(requests, most) if requests[n].hypothetical]
    mine = [requests[n] for n in rows]
    bodies = {row: bench.body(bench.skills[row]) for gold in sweep.arrays.gold for row in gold if row >= 0}
    gold = [[bodies[row] for row in sweep.arrays.gold[n] if row >= 0] for n in rows]
    first, second, count = controls.deletions(
        [r.hypothetical for r in mine], [r.text for r in mine], gold, idf_of(bench)
    )
    whole = Sweep(sweep.arrays.only(rows))
    setting = Setting(alpha=bench.encoder.profile.alpha, w_q=0.3, step="two")
    others = []
    for drafts in (first, second):
        changed = [replace(r, hypothetical=d) for r, d in zip(mine, drafts, strict=True)]
        bench.encoder.encode([text for r in changed for text in r.hypothetical], kind="document")
        others.append(Sweep(arrays_of(bench, changed)))
    return {
        "requests": len(rows),
        "words_deleted_a_draft": round(count, 2),
        "fused": controls.deletion_table(whole, *others, setting),
        "dense": controls.deletion_table(whole, *others, replace(setting, channels="dense")),
    }


def pad(bench: Any, requests: Sequence[Any], sweep: Sweep, most: int) -> dict[str, Any]:
    """Gold padded, every other skill as it is: one vector as the encoder reads it (cut at its limit), one vector of
    everything (the mean of all sections), the best section, and BM25."""
    rng = np.random.default_rng(0)
    a, encoder = sweep.arrays, bench.encoder
    rows = [n for n in sampled(requests, most) if len(a.gold[n]) == 1 and min(a.gold[n]) >= 0]
    some = rng.permutation(len(bench.skills))[:400].tolist()
    foreign = padding.foreign_sections([bench.body(bench.skills[n]) for n in some], rng, 400)
    vectors = encoder.encode(foreign, kind="document")
    limit = encoder.profile.max_tokens
    encoder_view = "body"
    whole = encoder.encode(
        [document(s, bench.body(s), max_tokens=limit, view=encoder_view).dense[0] for s in bench.skills],
        kind="document",
    )
    ways = ("one vector", "mean of sections", "best section", "bm25")
    scores: dict[str, dict[int, list[float]]] = {w: {n: [] for n in (0, *padding.LEVELS)} for w in ways}
    others: dict[str, list[Any]] = {w: [] for w in ways}
    lengths = np.asarray(bench.index.arrays["bm25-lengths"])
    idf, mean = idf_of(bench), float(lengths.mean())
    for at, n in enumerate(rows):
        row = next(iter(a.gold[n]))
        skill = bench.skills[row]
        body = bench.body(skill)
        q = a.requests[n]
        spare = np.delete(np.arange(len(whole)), row)
        cosines = (whole @ q).astype(np.float64)[spare]
        for way, value in (
            ("one vector", cosines),
            ("mean of sections", cosines),
            ("best section", cosines),
            ("bm25", a.lexical[n].astype(float)[spare]),
        ):
            others[way].append(value)
        draw = rng.permutation(len(foreign))[: padding.CANDIDATES].tolist()
        extra = padding.least_wanted(q, [foreign[d] for d in draw], vectors[draw], max(padding.LEVELS))
        own = encoder.encode(sections(body) or [body], kind="document")
        more = encoder.encode(extra, kind="document")
        for level in (0, *padding.LEVELS):
            text = padding.padded(body, extra[:level]) if level else body
            made = document(skill, text, max_tokens=limit, view=encoder_view)
            scores["one vector"][level].append(float(encoder.encode([made.dense[0]], kind="document")[0] @ q))
            parts = np.concatenate([own, more[:level]])
            scores["best section"][level].append(float((parts @ q).max()))
            scores["mean of sections"][level].append(float(unit(parts.mean(axis=0)) @ q))
            scores["bm25"][level].append(bm25(requests[n].text, made.lexical, mean, idf))
        if at % 50 == 0:
            say(f"padding {at} of {len(rows)}")
    found = {w: {level: np.array(v) for level, v in by.items()} for w, by in scores.items()}
    return {"requests": len(rows), "levels": padding.table(found, others, [requests[n].dataset for n in rows])}


def bm25(request: str, text: str, mean: float, idf: Any) -> float:
    """One document's score (rule 1.7), with the library's own statistics."""
    found = words(text)
    total = 0.0
    for word, weight in query_weights(words(request)).items():
        tf = found.count(word)
        total += weight * idf(word) * tf / (tf + K1 * (1 - B + B * len(found) / mean)) if tf else 0.0
    return total


def two_tiers(given: argparse.Namespace, benches: Any, requests: Sequence[Any]) -> dict[str, Any]:
    """Requests whose gold has near-copies, over the pool alone and over the pool with the copies."""
    bench = benches.bench(("dense",))
    asked: dict[int, list[str]] = {}
    for request, gold in zip(requests, gold_rows(bench, requests), strict=True):
        for row in gold:
            if row >= 0:
                asked.setdefault(row, []).append(request.text)
    copies: list[tiers.NearCopy] = []
    per_gold: dict[int, int] = {}
    for row, texts in asked.items():
        skill = bench.skills[row]
        found = tiers.near_copies(skill.id, skill.name, skill.description, bench.body(skill), texts)
        copies += found
        per_gold[row] = len(found)
    path = benches_cache(given) / "near-copies.jsonl"
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in tiers.library_rows(copies)), "utf-8")
    chosen = [n for n, gold in enumerate(gold_rows(bench, requests)) if any(per_gold.get(row, 0) for row in gold)]
    mine = [requests[n] for n in chosen]
    hard = benches_of(argparse.Namespace(**{**vars(given), "skills": [*given.skills, path]}))
    alpha = bench.encoder.profile.alpha
    settings = {
        "bm25": Setting(channels="lexical"), "dense": Setting(channels="dense"),
        "dense, projected": Setting(channels="dense", step="two"), "fused": Setting(alpha=alpha, step="two"),
    }  # fmt: skip
    easy_sweep, hard_sweep = (Sweep(arrays_of(b.bench(("dense",)), mine)) for b in (benches, hard))
    near_equal = tiers.kept_in_pool(np.asarray(bench.index.vectors), sorted(asked))
    rows = []
    for name, setting in settings.items():
        easy, tough = easy_sweep.values(setting), hard_sweep.values(setting)
        rows.append(
            {
                "ranked by": name,
                "easy": measured(easy_sweep, setting),
                "hard": measured(hard_sweep, setting),
                "hard_minus_easy": paired_bootstrap(easy, tough, easy_sweep.arrays.datasets).as_dict(),
            }
        )
    return {
        "requests": len(mine), "gold_with_copies": sum(1 for n in per_gold.values() if n), "copies": len(copies),
        "operators": dict(Counter(o for c in copies for o in c.operators)),
        "near_equal_in_pool": len(bench.skills) - len(near_equal), "rows": rows,
    }  # fmt: skip


def benches_cache(given: argparse.Namespace) -> Path:
    from metier.assemble import settings

    config, _ = settings.load(flags={"home": given.home})
    folder = Path(config.home) / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
