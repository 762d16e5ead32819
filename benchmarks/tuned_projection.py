"""The tuned encoder with directions taken out of its documents, dense alone, against its untuned base as it is.

    python benchmarks/tuned_projection.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl

The first level of rule 1.4 alone: d ← unit(d − U U'd), U the k strongest directions. Every k is shown over the two
sets, by dataset and on the written requests that train nothing; k is also chosen on each stratified half (over the two
sets) and reported on the other. Into results/tuned-projection-<sha12>.json.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, keep, requests_of
from finetune import DEPTH, read, untrained, vectors_of
from metier.evaluate.grids import halves
from metier.evaluate.metrics import macro, paired_bootstrap
from metier.models.encoder import open_encoder
from metier.retrieve.background import top_directions
from metier.retrieve.vectors import VectorCache

GRID = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)


def main() -> None:
    given = arguments(__doc__).parse_args()
    began = time.perf_counter()
    documents = read(given.skills, 0)
    ids = {d.id: n for n, d in enumerate(documents)}
    rows = [(r.text, {ids[g] for g in r.gold if g in ids}, r.dataset) for r in requests_of(given)]
    count = len(rows)
    rows += [(one.text, {ids[one.skill]}, one.group) for one in untrained(set(ids)) if one.skill in ids]
    groups = np.array([group for _, _, group in rows])
    two = ["sra" if g in ("theoremqa", "champ") else g for g in groups[:count].tolist()]
    before = scores(given.encoder, 0, given, documents, rows)
    after = {k: scores(given.tuned, k, given, documents, rows) for k in GRID}
    table = {
        k: {
            "two sets": paired_bootstrap(before[:count], v[:count], two).as_dict(),
            **{
                g: paired_bootstrap(before[groups == g], v[groups == g]).as_dict()
                for g in dict.fromkeys(groups.tolist())
            },
        }
        for k, v in after.items()
    }
    split = halves(groups[:count].tolist())
    chosen = []
    for on, other in ((split.first, split.second), (split.second, split.first)):
        best = max(GRID, key=lambda k: macro(after[k][list(on)], [two[i] for i in on]))
        pick = list(other)
        change = paired_bootstrap(before[pick], after[best][pick], [two[i] for i in pick]).as_dict()
        chosen.append({"k": best, "two sets, other half": change})
    keep("tuned-projection", given, began, {"skills": len(documents), "by k": table, "chosen by halves": chosen})


def scores(name: str, k: int, given: Any, documents: Any, rows: Any) -> Any:
    """Reciprocal ranks within ten of every request."""
    encoder = open_encoder(name)
    cache = VectorCache(Path(given.home or ".") / "vectors", encoder.profile)
    vectors = vectors_of(name, given, documents)
    if k:
        first = top_directions(vectors, k)
        vectors = vectors - vectors @ first.T @ first
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = cache.of([text for text, _, _ in rows], encoder, kind="query")
    best = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :DEPTH].tolist()
    found = [
        next((1 / rank for rank, row in enumerate(near, 1) if row in gold), 0.0)
        for near, (_, gold, _) in zip(best, rows, strict=True)
    ]
    return np.array(found)


if __name__ == "__main__":
    main()
