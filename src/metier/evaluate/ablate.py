"""Module by module: what each adds alone, what it adds last, and whether they add up (SkillRep, rule 1.9).

    alone(m) = M(base + m) − M(base)    last(m) = M(base + all) − M(base + all without m)    Σ alone against all

for the untuned and the tuned encoder as base. Every difference is paired by request, with its bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metier.evaluate.datasets import Request
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.run import FREE, MODULES, Run, by_dataset, metrics, values

SHOWN = ("mrr@10", "r@10", "hit@1", "ndcg@10")
Modules = tuple[str, ...]
Runner = Callable[[Modules], Run]


def in_order(modules: Sequence[str]) -> Modules:
    """The modules in the order of `MODULES`, each once."""
    return tuple(m for m in MODULES if m in modules)


def bases(available: Sequence[str]) -> list[Modules]:
    """What modules are added to: the untuned encoder, and the tuned one where there is one."""
    return [("dense",), *([("dense", "tuned")] if "tuned" in available else [])]


def rows(available: Sequence[str], default: Sequence[str]) -> list[Modules]:
    """Module sets to run: words alone; on each base nothing, each free module, all but each, all; the default."""
    free = [m for m in FREE if m in available]
    found: list[Modules] = [("lexical",)] if "lexical" in available else []
    for base in bases(available):
        found += [base, *((*base, m) for m in free)]
        found += [(*base, *(m for m in free if m != left)) for left in free]
        found.append((*base, *free))
    if "rerank" in available:
        found.append((*bases(available)[-1], *free, "rerank"))
    return list(dict.fromkeys(map(in_order, [*found, tuple(default)])))


def ablation(
    run: Runner, available: Sequence[str], default: Sequence[str], requests: Sequence[Request], metric: str = "mrr@10"
) -> dict[str, Any]:
    """`{"ablation": rows, "modules_alone_and_last": per base}`: the rows of interfaces, and the paper's Table 5."""
    sets, wanted = [r.dataset for r in requests], rows(available, default)
    done = {row: run(row) for row in wanted}
    base = values(done["dense",], requests, metric)
    table = []
    for row in wanted:
        shown = metrics(done[row], requests, SHOWN)
        gain = paired_bootstrap(base, values(done[row], requests, metric), sets)
        mark = {"default": True} if row == in_order(default) else {}
        each = {name: found[metric] for name, found in by_dataset(done[row], requests, (metric,)).items()}
        table.append(
            {
                "modules": list(row),
                "metrics": shown,
                "by_dataset": each,
                "against_dense": gain.as_dict(),
                **mark,
            }
        )
    return {"ablation": table, "modules_alone_and_last": additivity(done, available, requests, metric)}


def additivity(
    done: Mapping[Modules, Run], available: Sequence[str], requests: Sequence[Request], metric: str = "mrr@10"
) -> list[dict[str, Any]]:
    """Per base: each module alone and last, their sum, and all together (rule 1.9); with `tuned`, its own two rows."""
    sets = [r.dataset for r in requests]
    free = [m for m in FREE if m in available]

    def gain(a: Sequence[str], b: Sequence[str]) -> dict[str, Any]:
        first, second = (values(done[in_order(modules)], requests, metric) for modules in (a, b))
        return paired_bootstrap(first, second, sets).as_dict()

    table = []
    for base in bases(available):
        whole = (*base, *free)
        alone = {m: gain(base, (*base, m)) for m in free}
        last = {m: gain([w for w in whole if w != m], whole) for m in free}
        table.append(
            {
                "base": list(base),
                "alone": alone,
                "last": last,
                "sum_alone": round(sum(float(g["delta"]) for g in alone.values()), 2),
                "together": gain(base, whole),
            }
        )
    if "tuned" in available:
        tuning = {
            "alone": gain(("dense",), ("dense", "tuned")),
            "last": gain(("dense", *free), ("dense", "tuned", *free)),
        }
        table.append({"base": ["tuned"], **tuning})
    return table
