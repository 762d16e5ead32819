"""Expansion on both sides: what given hypothetical skills add, what the shift toward the mean request adds, by halves.

    python benchmarks/expansion.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/sra-dev.requests.jsonl

Paired intervals for each way of ranking; the pair (w_q, w_d) chosen on one stratified half is reported on the other
(SkillRep, rules 1.1, 1.2 and 1.16). Documents move toward the mean request of `--asked`, else of our own list.
Into results/expansion-<sha12>.json.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from common import arguments, arrays_of, benches_of, keep, requests_of
from metier.evaluate.grids import W_D, W_Q, by_dataset, halved, measured, weights
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.sweep import Setting, Sweep

QUERY, DOCUMENT = 0.3, 0.2  # SkillRep: the pair (w_q, w_d)


def main() -> None:
    given = arguments(__doc__).parse_args()
    began, benches, requests = time.perf_counter(), benches_of(given), requests_of(given)
    bench = benches.bench(("dense",))
    sweep = Sweep(arrays_of(bench, requests))
    plain = Setting(channels="dense", alpha=bench.encoder.profile.alpha)
    ways = {
        "dense": plain,
        "dense, projected": replace(plain, step="two"),
        "fused": replace(plain, channels="fused"),
        "fused, projected": replace(plain, channels="fused", step="two"),
    }
    keep("expansion", given, began, {
        "requests": len(requests),
        "skills": len(bench.skills),
        "encoder": given.encoder,
        "gains": {name: gains(sweep, base) for name, base in ways.items()},
        "by_halves": {
            "dense": halved(sweep, weights(plain, W_Q, W_D), plain),
            "fused": halved(sweep, weights(ways["fused"], W_Q, W_D), ways["fused"]),
        },
    })  # fmt: skip


def gains(sweep: Sweep, base: Setting) -> dict[str, Any]:
    """MRR@10 of one way of ranking, and what each side of expansion changes in it."""
    sets = sweep.arrays.datasets
    found: dict[str, Any] = {"without": {**measured(sweep, base), "by_dataset": by_dataset(sweep, base)}}
    for name, setting in (
        ("query expansion", replace(base, w_q=QUERY)),
        ("shift toward the mean request", replace(base, w_d=DOCUMENT)),
        ("both", replace(base, w_q=QUERY, w_d=DOCUMENT)),
    ):
        change = paired_bootstrap(sweep.values(base), sweep.values(setting), sets)
        found[name] = {
            "metrics": measured(sweep, setting), "by_dataset": by_dataset(sweep, setting), "mrr@10": change.as_dict()
        }  # fmt: skip
    return found


if __name__ == "__main__":
    main()
