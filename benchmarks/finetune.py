"""The tuned encoder against its untuned base, dense alone: intervals, halves, languages, speed.

    python benchmarks/finetune.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl

`--pool N` takes N skills of the first --skills file, evenly spread, for a quick look; gold is always whole. The written
requests that train no encoder (training/needed*.jsonl, short*.jsonl) are told apart by language. A skill's vector is
the unit mean of its card and its body, as the index makes it. Into results/finetune-<sha12>.json.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import HERE, arguments, keep, requests_of
from metier.evaluate.grids import halves
from metier.evaluate.metrics import measure, paired_bootstrap
from metier.models.dataset import Known
from metier.models.encoder import open_encoder
from metier.retrieve.bm25 import Bm25, query_weights
from metier.retrieve.documents import CHARS_PER_TOKEN
from metier.retrieve.fuse import fused, pool, z
from metier.retrieve.generation import Writer, open_arrays, read_manifest
from metier.retrieve.postings import Tally
from metier.retrieve.vectors import VectorCache, unit
from metier.text import words

METRICS = ("mrr@10", "r@10", "hit@1")
DEPTH = 10
ALPHA = 0.3  # the untuned encoder's profile
TRAINING = HERE.parent / "training"
SPEED_TEXTS, SPEED_ROUNDS = 24, 5


@dataclass(frozen=True, slots=True)
class Asked:
    """A written request that trains no encoder."""

    text: str
    skill: str
    group: str
    taught: bool
    """Whether training requests ask for the same skill."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pool", type=int, default=0, metavar="N", help="skills of the first file; 0: all")
    given = parser.parse_args()
    began = time.perf_counter()
    documents = read(given.skills, given.pool)
    requests = requests_of(given)
    languages = untrained({d.id for d in documents})
    names = (given.encoder, given.tuned)
    found = {name: ranked(name, given, documents, [r.text for r in requests]) for name in names}
    ids = [d.id for d in documents]
    gold = {str(n): dict.fromkeys(r.gold, 1.0) for n, r in enumerate(requests)}
    values = {
        name: {
            m: measure(m, {str(n): [ids[i] for i in row] for n, row in enumerate(found[name])}, gold) for m in METRICS
        }
        for name in names
    }
    sets = [r.dataset for r in requests]
    two = ["sra" if s in ("theoremqa", "champ") else s for s in sets]
    split = halves(sets)
    result: dict[str, Any] = {
        "requests": len(requests), "skills": len(documents), "encoders": list(names),
        "percent": {
            name: {m: {s: percent(values[name][m], sets, s) for s in dict.fromkeys(sets)} for m in METRICS}
            for name in names
        },
        "change": {m: changes(values[names[0]][m], values[names[1]][m], sets, two) for m in METRICS},
        "second half, mrr@10": half(values, names, split.second, sets, two),
        "languages": by_language(names, given, documents, languages),
        "fused": fused_ranking(names, given, documents, requests, languages),
        "speed": speed(names, [d.views[-1] for d in documents[: SPEED_TEXTS * 40 : 40]]),
    }  # fmt: skip
    keep("finetune", given, began, result)


def read(paths: Sequence[Path], pool: int) -> list[Known]:
    """All documents, the first file thinned out to `pool`."""
    rows: list[Known] = []
    for number, path in enumerate(paths):
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
            mine = [json.loads(line) for line in file]
        if number == 0 and 0 < pool < len(mine):
            mine = [mine[i * len(mine) // pool] for i in range(pool)]
        rows += [Known(str(r.get("id") or r.get("gt")), r["name"], r["description"], r["body"]) for r in mine]
    return rows


def vectors_of(name: str, given: argparse.Namespace, documents: Sequence[Known]) -> Any:
    """(N, d) as the index makes them."""
    encoder = open_encoder(name)
    cache = VectorCache(Path(given.home or ".") / "vectors", encoder.profile)
    cards, bodies = parts_of(documents, encoder.profile.max_tokens)
    return np.array([unit(row) for row in cache.of(cards, encoder) + cache.of(bodies, encoder)])


def parts_of(documents: Sequence[Known], max_tokens: int) -> tuple[list[str], list[str]]:
    """Card and body of each as the index encodes them: a body shorter than the description is replaced by it."""
    limit = max_tokens * CHARS_PER_TOKEN
    cards = [f"{d.name}: {d.description}" if d.description else d.name for d in documents]
    bodies = [d.body if len(d.body) > len(d.description) else d.description or d.name for d in documents]
    return [c.strip()[:limit] for c in cards], [b.strip()[:limit] for b in bodies]


def ranked(name: str, given: argparse.Namespace, documents: Sequence[Known], texts: Sequence[str]) -> Any:
    """Per request the rows of the best ten."""
    encoder = open_encoder(name)
    cache = VectorCache(Path(given.home or ".") / "vectors", encoder.profile)
    scores = cache.of(list(texts), encoder, kind="query") @ vectors_of(name, given, documents).T
    return np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]


def percent(values: Any, sets: Sequence[str], name: str) -> float:
    return round(100 * float(values[np.asarray(sets) == name].mean()), 2)


def changes(before: Any, after: Any, sets: Sequence[str], two: Sequence[str]) -> dict[str, Any]:
    """The paired difference in each dataset, over the two sets, and over all datasets."""
    labels = np.asarray(sets)
    return {
        **{s: paired_bootstrap(before[labels == s], after[labels == s]).as_dict() for s in dict.fromkeys(sets)},
        "two sets": paired_bootstrap(before, after, two).as_dict(),
        "all datasets": paired_bootstrap(before, after, sets).as_dict(),
    }


def half(values: Any, names: Sequence[str], rows: Sequence[int], sets: Sequence[str], two: Sequence[str]) -> Any:
    """Settings were looked at on the first half; this one is reported."""
    pick = list(rows)
    before, after = (values[name]["mrr@10"][pick] for name in names)
    return changes(before, after, [sets[i] for i in pick], [two[i] for i in pick])


def untrained(known: set[str]) -> list[Asked]:
    """The written requests that train no encoder and whose skill is among the documents or the examples."""
    folders = {p.name for p in (HERE.parent / "examples" / "skills").iterdir() if p.is_dir()}
    used = [json.loads(line) for line in (TRAINING / "skills-used.jsonl").read_text(encoding="utf-8").splitlines()]
    taught = {row["skill"] for row in used if row["pairs"]}
    found = []
    for path in [*sorted(TRAINING.glob("needed*.jsonl")), *sorted(TRAINING.glob("short*.jsonl"))]:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("skill") in known or row.get("skill") in folders:
                kind = "short" if path.name.startswith("short") else "requests"
                tongue = "English" if row["lang"] == "en" else "other languages"
                found.append(Asked(row["text"], row["skill"], f"{kind}, {tongue}", row["skill"] in taught))
    return found


def by_language(
    names: Sequence[str], given: Any, documents: Sequence[Known], asked: Sequence[Asked]
) -> dict[str, dict[str, Any]]:
    """By kind and language of request, all and those for skills that no training request asked for: number, MRR@10 of
    both encoders, and the paired difference, over the same documents and the example skills."""
    from metier.library.skillmd import parse

    examples = []
    for path in sorted((HERE.parent / "examples" / "skills").glob("*/SKILL.md")):
        one = parse(path.read_bytes(), path=str(path), folder=path.parent.name)
        examples.append(Known(path.parent.name, one.name, one.description, one.body))
    everything = [*documents, *examples]
    ids = [d.id for d in everything]
    gold = {str(n): {one.skill: 1.0} for n, one in enumerate(asked)}
    values = []
    for name in names:
        rows = ranked(name, given, everything, [one.text for one in asked])
        values.append(measure("mrr@10", {str(n): [ids[i] for i in row] for n, row in enumerate(rows)}, gold))
    found = {}
    for group in dict.fromkeys(one.group for one in asked):
        for label, fair in (("", (True, False)), (", skills not taught", (False,))):
            pick = [n for n, one in enumerate(asked) if one.group == group and one.taught in fair]
            before, after = (v[pick] for v in values)
            found[group + label] = {
                names[0]: round(100 * float(before.mean()), 2),
                names[1]: round(100 * float(after.mean()), 2),
                **paired_bootstrap(before, after).as_dict(),
            }
    return found


def fused_ranking(
    names: Sequence[str], given: Any, documents: Sequence[Known], requests: Sequence[Any], asked: Sequence[Asked]
) -> dict[str, Any]:
    """MRR@10 of words and vectors at α = 0.3, the untuned encoder's: the development sets, and the untrained requests
    whose skill is in the pool. The stage's rules for names and for long requests are left out."""
    ids = {d.id: n for n, d in enumerate(documents)}
    rows = [(r.text, {ids[g] for g in r.gold if g in ids}, r.dataset) for r in requests]
    rows += [(one.text, {ids[one.skill]}, one.group) for one in asked if one.skill in ids]
    words_of = lexical(["\n".join((d.name, d.description, d.body)) for d in documents])
    by_words = [words_of.scores(query_weights(words(text))) for text, _, _ in rows]
    values = []
    for name in names:
        encoder, found = open_encoder(name), []
        cache = VectorCache(Path(given.home or ".") / "vectors", encoder.profile)
        vectors = vectors_of(name, given, documents)
        for query, lex, (_, gold, _) in zip(
            cache.of([text for text, _, _ in rows], encoder, kind="query"), by_words, rows, strict=True
        ):
            dense = vectors @ query
            near = pool(dense, lex)
            scores = fused(z(dense[near]), z(lex[near]), ALPHA)
            best = near[np.lexsort((near, -scores))[:DEPTH]].tolist()
            found.append(next((1 / rank for rank, row in enumerate(best, 1) if row in gold), 0.0))
        values.append(np.array(found))
    groups = np.array([group for _, _, group in rows])
    return {
        group: {
            **{name: round(100 * float(v[groups == group].mean()), 2) for name, v in zip(names, values, strict=True)},
            **paired_bootstrap(values[0][groups == group], values[1][groups == group]).as_dict(),
        }
        for group in dict.fromkeys(groups.tolist())
    }


def lexical(texts: Sequence[str]) -> Bm25:
    """The words' channel over texts at hand."""
    with tempfile.TemporaryDirectory(prefix="metier-bm25-") as folder:
        tally, writer = Tally(len(texts)), Writer(Path(folder))
        for row, text in enumerate(texts):
            tally.add(row, text)
        tally.write(writer)
        writer.finish({})
        held = {k: np.array(a) for k, a in open_arrays(Path(folder), read_manifest(Path(folder))).items()}
    parts = ("hashes", "starts", "docs", "impact", "plain", "plain-row")
    return Bm25(*(held[f"bm25-{part}"] for part in parts), len(texts))


def speed(names: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Skills a second of both in turn, best of some rounds: they share the machine and the moment."""
    encoders = {name: open_encoder(name) for name in names}
    best = dict.fromkeys(names, 0.0)
    for _ in range(SPEED_ROUNDS):
        for name, encoder in encoders.items():
            start = time.perf_counter()
            encoder.encode(list(texts), kind="document")
            best[name] = max(best[name], len(texts) / (time.perf_counter() - start))
    return {
        **{name: round(value, 1) for name, value in best.items()},
        "ratio": round(best[names[1]] / best[names[0]], 3),
    }


if __name__ == "__main__":
    main()
