"""The tuned encoder against its untuned base, dense alone: intervals, halves, languages, and the loss of int8.

    python benchmarks/finetune.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl

`--pool N` takes N skills of the first --skills file, evenly spread, for a quick look; gold is always whole. Requests
of training/needed.jsonl (never trained on) tell languages apart. A skill's vector is the unit mean of its card and its
body, as the index makes it. Into results/finetune-<sha12>.json.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import HERE, arguments, keep, requests_of
from metier.evaluate.grids import halves
from metier.evaluate.metrics import measure, paired_bootstrap
from metier.models.dataset import Known
from metier.models.encoder import open_encoder
from metier.retrieve.documents import CHARS_PER_TOKEN
from metier.retrieve.vectors import VectorCache, unit

METRICS = ("mrr@10", "r@10", "hit@1")
DEPTH = 10
SPEED_TEXTS, SPEED_ROUNDS = 24, 5


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pool", type=int, default=0, metavar="N", help="skills of the first file; 0: all")
    given = parser.parse_args()
    began = time.perf_counter()
    documents = read(given.skills, given.pool)
    requests = requests_of(given)
    languages = [(r, d) for r, d in needed({d.id for d in documents})]
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


def needed(known: set[str]) -> list[tuple[dict[str, str], str]]:
    """(row, id of its skill) of the written requests whose skill is among the documents or the examples."""
    lines = (HERE.parent / "training" / "needed.jsonl").read_text(encoding="utf-8").splitlines()
    folders = {p.name for p in (HERE.parent / "examples" / "skills").iterdir() if p.is_dir()}
    rows = [json.loads(line) for line in lines if line]
    return [(row, row["skill"]) for row in rows if row["skill"] in known or row["skill"] in folders]


def by_language(names: Sequence[str], given: Any, documents: Sequence[Known], asked: Any) -> dict[str, Any]:
    """MRR@10 of requests in English and in other languages over the same documents and the example skills."""
    from metier.library.skillmd import parse

    examples = []
    for path in sorted((HERE.parent / "examples" / "skills").glob("*/SKILL.md")):
        one = parse(path.read_bytes(), path=str(path), folder=path.parent.name)
        examples.append(Known(path.parent.name, one.name, one.description, one.body))
    everything = [*documents, *examples]
    ids = [d.id for d in everything]
    groups = ["en" if row["lang"] == "en" else "other" for row, _ in asked]
    gold = {str(n): {skill: 1.0} for n, (_, skill) in enumerate(asked)}
    found: dict[str, Any] = {"requests": {g: groups.count(g) for g in dict.fromkeys(groups)}}
    values = {}
    for name in names:
        rows = ranked(name, given, everything, [row["text"] for row, _ in asked])
        values[name] = measure("mrr@10", {str(n): [ids[i] for i in row] for n, row in enumerate(rows)}, gold)
        found[name] = {g: percent(values[name], groups, g) for g in dict.fromkeys(groups)}
    before, after = (values[name] for name in names)
    labels = np.asarray(groups)
    found["change"] = {
        g: paired_bootstrap(before[labels == g], after[labels == g]).as_dict() for g in dict.fromkeys(groups)
    }
    return found


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
