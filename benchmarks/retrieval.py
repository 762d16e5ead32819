"""One run over the whole pool: each channel alone, projected, fused; text views, α and directions by halves; controls.

    python benchmarks/retrieval.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl \
        [--view two --view body --view full]

Each dataset is ranked over the pool and its own gold: the gold documents of the other datasets are left out. Every row
comes from the product's `Retrieve` stage (names and abstention off); differences are paired, intervals by bootstrap.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, keep, requests_of
from metier.assemble import settings
from metier.evaluate.metrics import measure, paired_bootstrap
from metier.evaluate.run import known_as
from metier.evaluate.variants import varied
from metier.library.read import body
from metier.library.scan import scan
from metier.models.encoder import memo, open_encoder
from metier.retrieve.background import STOP_WORDS, Background, coordinates, random_directions
from metier.retrieve.index import Index, Retrieve, build, load
from metier.text import words
from metier.types import Slate, Task

MEASURES = ("mrr@10", "r@10", "hit@1")
ALPHAS = (0.2, 0.3, 0.4, 0.5, 0.6)
FIRST = (1, 2, 6, 12, 24)
DEPTH = 10


class Pool:
    """The skills, and which of them each dataset must not see: the other datasets' gold."""

    def __init__(self, given: Any, requests: Sequence[Any], scratch: Path) -> None:
        self.requests, self.scratch, self.spool = requests, scratch, scratch / "spool"
        self.encoder = memo(open_encoder(given.encoder))
        config, _ = settings.load(flags={"home": given.home, "encoder": given.encoder})
        self.vectors = Path(config.home) / "vectors"
        self.skills = scan(given.skills, spool=self.spool).skills
        self.names = [known_as(skill)[0] for skill in self.skills]
        self.datasets = list(dict.fromkeys(r.dataset for r in requests))
        gold = {d: {g for r in requests if r.dataset == d for g in r.gold} for d in self.datasets}
        source = {skill.root for skill, name in zip(self.skills, self.names, strict=True)
                  if any(name in found for found in gold.values())}  # fmt: skip
        self.foreign: dict[str, frozenset[str]] = {}
        for dataset in self.datasets:
            own = {s.root for s, n in zip(self.skills, self.names, strict=True) if n in gold[dataset]}
            hidden = (n for s, n in zip(self.skills, self.names, strict=True) if s.root in source - own)
            self.foreign[dataset] = frozenset(hidden)
        self.qrels = {f"{r.dataset}/{r.id}": r.gold for r in requests}
        self.labels = [r.dataset for r in requests]

    def index(self, view: str) -> tuple[Index, float, float]:
        """The index of one text view, the seconds it took, and those of the encoder in it."""
        made = build(self.skills, lambda skill: body(skill, spool=self.spool), self.encoder, into=self.scratch / view,
                     vectors=self.vectors, view=view)  # type: ignore[arg-type] # fmt: skip
        return load(made.folder), made.seconds, made.encode_seconds

    def ranked(self, stage: Retrieve, drafts: bool = False) -> tuple[dict[str, list[str]], list[float]]:
        """Names in order per request, and milliseconds per request."""
        found, ms = {}, []
        for request in self.requests:
            expand: Callable[[str], Sequence[str]] | None = (lambda _, r=request: r.hypothetical) if drafts else None
            began = time.perf_counter()
            slate = replace(stage, expand=expand)(Slate("", Task(request.text)))
            ms.append(1000 * (time.perf_counter() - began))
            hidden = self.foreign[request.dataset]
            names = [known_as(c.skill)[0] for c in slate.candidates]
            found[f"{request.dataset}/{request.id}"] = [n for n in names if n not in hidden][:DEPTH]
        return found, ms


def summary(pool: Pool, values: Mapping[str, Any], rows: Any = slice(None)) -> dict[str, dict[str, float]]:
    """Dataset → measure → percent."""
    labels = np.array(pool.labels)[rows]
    return {d: {m: round(100 * float(values[m][rows][labels == d].mean()), 2) for m in MEASURES} for d in pool.datasets}


def against(pool: Pool, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Dataset → paired differences in MRR@10, `other` − `one`."""
    labels, found = np.array(pool.labels), {}
    for dataset in pool.datasets:
        k = labels == dataset
        found[dataset] = paired_bootstrap(one["mrr@10"][k], other["mrr@10"][k]).as_dict()
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--view", action="append", help="text views to compare; the first is the product's")
    given = parser.parse_args()
    began, requests = time.perf_counter(), requests_of(given)
    with tempfile.TemporaryDirectory() as scratch:
        pool = Pool(given, requests, Path(scratch))
        keep("retrieval", given, began, measured(pool, given.view or ["two"]))


def measured(pool: Pool, views: Sequence[str]) -> dict[str, Any]:
    """Everything, as one object."""
    index, seconds, encoding = pool.index(views[0])
    alpha = pool.encoder.profile.alpha
    base = Retrieve(index, pool.skills, pool.encoder, names=False, abstain=False, slate=60, collapse=False)
    flat = replace(index, directions=None, coords=None, scale=None)
    generic = _generic(pool)
    two = varied(index, np.array(index.vectors), 2, generic)
    values: dict[str, dict[str, Any]] = {}
    times: dict[str, Any] = {}

    def row(name: str, stage: Retrieve, drafts: bool = False) -> None:
        rankings, ms = pool.ranked(stage, drafts)
        values[name] = {m: measure(m, rankings, pool.qrels) for m in MEASURES}
        times[name] = {"p50": round(float(np.percentile(ms, 50)), 2), "p95": round(float(np.percentile(ms, 95)), 2)}
        sys.stdout.write(f"{name}: {summary(pool, values[name])} {times[name]}\n")

    row("bm25", replace(base, channels="lexical"))
    row("dense", replace(base, channels="dense", index=flat))
    row("dense + projection 2+2", replace(base, channels="dense", index=two))
    row("dense + 4 random directions", replace(base, channels="dense", index=_random(index, 4)))
    row("fused", replace(base, index=flat))
    row("fused + projection 2+2", replace(base, index=two))
    row("fused by ranks", replace(base, index=flat, channels="ranks"))
    row("default", base)
    if any(r.hypothetical for r in pool.requests):
        row("fused + given hypothetical skills", replace(base, index=flat), drafts=True)
        row("fused + projection 2+2 + given hypothetical skills", replace(base, index=two), drafts=True)
    for k1 in FIRST:
        row(
            f"dense + projection {k1}+2",
            replace(base, channels="dense", index=varied(index, np.array(index.vectors), k1, generic)),
        )
    for a in ALPHAS:
        row(f"fused α {a}", replace(base, index=flat, alpha=a))
    for view in views[1:]:
        other = pool.index(view)[0]
        other = replace(other, directions=None, coords=None, scale=None)
        row(f"dense, view {view}", replace(base, channels="dense", index=other))
        row(f"fused, view {view}", replace(base, index=other))
    pairs = [("bm25", "fused"), ("dense", "fused"), ("dense", "dense + projection 2+2"),
             ("dense", "dense + 4 random directions"), ("fused", "fused + projection 2+2"), ("fused by ranks", "fused"),
             *((f"{c}, view {v}", c) for v in views[1:] for c in ("dense", "fused"))]  # fmt: skip
    return {
        "encoder": index.encoder, "skills": index.size, "requests": len(pool.requests), "alpha": alpha,
        "projection": {k: v for k, v in index.facts["projection"].items() if k != "words"},
        "index": {"seconds": round(seconds, 1), "encoder_seconds": round(encoding, 1)},
        "rows": {name: summary(pool, found) for name, found in values.items()},
        "differences": {f"{b} − {a}": against(pool, values[a], values[b]) for a, b in pairs},
        "halves": _halves(pool, values), "ms": times,
    }  # fmt: skip


def _generic(pool: Pool) -> Any:
    """(1000, d): the content words of most bodies, encoded alone (rule 1.4)."""
    seen: dict[str, int] = {}
    for skill in pool.skills:
        for word in set(words(body(skill, spool=pool.spool))):
            seen[word] = seen.get(word, 0) + 1
    wanted = (w for w in seen if len(w) > 2 and w.isalpha() and w not in STOP_WORDS)
    return pool.encoder.encode(sorted(wanted, key=lambda w: (-seen[w], w))[:1000], kind="document")


def _random(index: Index, count: int) -> Index:
    vectors = np.array(index.vectors)
    none = np.zeros((0, vectors.shape[1]), np.float32)
    found = Background(random_directions(count, vectors.shape[1], seed=0), none, len(vectors))
    coords, scale, _ = coordinates(vectors, found)
    return replace(index, directions=found.all, coords=coords, scale=scale)


def _halves(pool: Pool, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """α and the number of directions that do best on one half of each dataset, reported on the other."""
    labels = np.array(pool.labels)
    half = np.zeros(len(labels), bool)
    for dataset in pool.datasets:
        half[np.flatnonzero(labels == dataset)[::2]] = True

    def macro(name: str, rows: Any) -> float:
        return float(np.mean([values[name]["mrr@10"][rows & (labels == d)].mean() for d in pool.datasets]))

    found: dict[str, Any] = {}
    for what, names in (("alpha", [f"fused α {a}" for a in ALPHAS]),
                        ("directions", ["dense", *(f"dense + projection {k}+2" for k in FIRST)])):  # fmt: skip
        best = max(names, key=lambda name: macro(name, half))
        found[what] = {"chosen": best, "chosen_half": round(100 * macro(best, half), 2),
                       "other_half": {n: round(100 * macro(n, ~half), 2) for n in names},
                       "other_half_by_dataset": summary(pool, values[best], ~half)}  # fmt: skip
    return found


if __name__ == "__main__":
    main()
