"""Module by module on real requests: alone, last, together; weights, α, k1, scores against ranks, by halves.

    python benchmarks/ablation.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl

Rows come from the product's own stages, sweeps from the same functions over arrays; into results/ablation-<sha12>.json.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from common import arguments, arrays_of, benches_of, keep, requests_of
from metier.evaluate.ablate import ablation, in_order
from metier.evaluate.grids import sweeps
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.run import FREE, values
from metier.evaluate.sweep import Setting, Sweep


def whole(run: Any, default: tuple[str, ...], requests: Sequence[Any]) -> dict[str, Any]:
    """The default configuration with the untuned and with the tuned encoder, against the untuned encoder alone and each
    other: over the three datasets, over the two sets (TheoremQA and CHAMP are one), and by dataset."""
    labels = [r.dataset for r in requests]
    two = ["sra" if label in ("theoremqa", "champ") else label for label in labels]
    names = {"untuned": in_order(default), "tuned": in_order((*default, "tuned"))}
    scores = {name: values(run(modules), requests, "mrr@10") for name, modules in names.items()}
    scores["dense"] = values(run(("dense",)), requests, "mrr@10")

    def change(before: str, after: str) -> dict[str, Any]:
        a, b = scores[before], scores[after]
        rows = {name: [i for i, label in enumerate(labels) if label == name] for name in dict.fromkeys(labels)}
        return {
            "all datasets": paired_bootstrap(a, b, labels).as_dict(),
            "two sets": paired_bootstrap(a, b, two).as_dict(),
            **{name: paired_bootstrap(a[at], b[at]).as_dict() for name, at in rows.items()},
        }

    return {
        "modules": {name: list(modules) for name, modules in names.items()},
        "untuned, over dense": change("dense", "untuned"),
        "tuned, over dense": change("dense", "tuned"),
        "tuned, over untuned": change("untuned", "tuned"),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--no-rows", action="store_true", help="the sweeps alone")
    parser.add_argument("--no-sweeps", action="store_true", help="the rows alone, into ablation-rows-<sha12>.json")
    given = parser.parse_args()
    began, benches, requests = time.perf_counter(), benches_of(given), requests_of(given)
    drafts = any(r.hypothetical for r in requests)
    free = [m for m in FREE if drafts or m != "query-expansion"]
    tuned = benches.has_tuned()
    result: dict[str, Any] = {
        "requests": len(requests),
        "encoder": given.encoder,
        "tuned": given.tuned if tuned else None,
    }
    if not given.no_rows:
        projects = benches.bench(("dense",)).index.directions is not None
        default = (
            "lexical",
            "dense",
            *(("projection",) if projects else ()),
            *(("query-expansion",) if drafts else ()),
        )
        available = ("dense", *free, *(("tuned",) if tuned else ()))
        runs: dict[tuple[str, ...], Any] = {}

        def run(modules: tuple[str, ...]) -> Any:
            if modules not in runs:
                runs[modules] = benches.run(modules, requests)
            return runs[modules]

        result |= ablation(run, available, default, requests)
        if tuned:
            result["whole against untuned dense"] = whole(run, default, requests)
    if given.no_sweeps:
        keep("ablation-rows", given, began, result)
        return
    result["sweeps"] = {}
    for modules in (("dense",), *((("dense", "tuned"),) if tuned else ())):
        bench = benches.bench(modules)
        result["skills"] = len(bench.skills)
        sweep = Sweep(arrays_of(bench, requests))
        base = Setting(alpha=bench.encoder.profile.alpha, step="two", first=2, w_q=0.3 if drafts else 0.0)
        result["sweeps"][modules[-1]] = {
            "whole": sweeps(sweep, base, drafts=drafts),
            "without hypothetical skills": sweeps(sweep, Setting(alpha=base.alpha, step="two"), drafts=False),
            "without projection": sweeps(sweep, Setting(alpha=base.alpha), drafts=False),
        }
    keep("ablation", given, began, result)


if __name__ == "__main__":
    main()
