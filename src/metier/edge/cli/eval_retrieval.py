"""`metier eval retrieval`: retrieval benchmarks over the product's own stages, module by module."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.evaluate.datasets import Request, as_library, read_requests
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.run import MODULES, Bench, Run, ablation_rows, report, retrieve_all, trec, values

UNTUNED, TUNED = "minilm", "metier-small"
SHOWN = ("mrr@10", "r@10", "hit@1", "ndcg@10")


def add_eval_retrieval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--skills", action="append", type=Path, required=True, metavar="FILE|DIR", help="may repeat")
    parser.add_argument("--requests", action="append", type=Path, required=True, metavar="FILE", help="may repeat")
    parser.add_argument("--modules", metavar="LIST", help=f"what runs, of {','.join(MODULES)}")
    parser.add_argument("--ablate", action="store_true", help="module by module: alone, added last, all together")
    parser.add_argument("--run", type=Path, metavar="FILE", help="write the ranking in TREC run format")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write Markdown, JSON and plots")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N requests of each dataset")


def run_eval_retrieval(args: argparse.Namespace, screen: Screen) -> int:
    requests = _limited(read_requests(args.requests), args.limit)
    benches = _Benches(args, screen)
    modules = _modules(args, requests)
    run = benches.run(modules, requests)
    shown = report(run, requests, len(benches.bench(modules).skills))
    if args.ablate:
        shown["ablation"] = _ablation(benches, modules, requests, run)
    if args.run:
        _write(args.run, trec(run, tag=f"metier-{run.config}"))
    if args.report:
        from metier.evaluate.report import retrieval_report

        for path in retrieval_report(shown, args.report):
            screen.note(f"wrote {path}")
    if screen.json_wanted:
        screen.json(shown)
    else:
        _print(shown, screen)
    return 0


class _Benches:
    """One index per encoder over the same skills, made when first needed and kept in the home."""

    def __init__(self, args: argparse.Namespace, screen: Screen) -> None:
        self.config, self.screen = args.config, screen
        cache = Path(args.config.home) / "benchmarks"
        self.paths = [as_library(p, cache) for p in args.skills]
        self._made: dict[str, Bench] = {}

    def encoder_for(self, modules: Sequence[str]) -> str:
        if "encoder" in self.config.sources:
            return str(self.config.encoder)
        return TUNED if "tuned" in modules else UNTUNED

    def bench(self, modules: Sequence[str]) -> Bench:
        name = self.encoder_for(modules)
        if name not in self._made:
            shop = Workshop(replace(self.config, encoder=name), paths=self.paths, evaluating=True)
            built = shop.refresh(progress=self.screen.progress)
            opened = shop.opened()
            self._made[name] = Bench(
                index=opened.index,
                skills=opened.library.skills,
                encoder=shop.encoder,
                rerank=lambda: shop.stage("rerank"),
                index_seconds=built.seconds,
            )
        return self._made[name]

    def run(self, modules: Sequence[str], requests: Sequence[Request]) -> Run:
        return retrieve_all(self.bench(modules), requests, modules)


def _modules(args: argparse.Namespace, requests: Sequence[Request]) -> tuple[str, ...]:
    if args.modules:
        return tuple(m.strip() for m in args.modules.split(",") if m.strip())
    chosen = ["lexical", "dense", "projection"]
    if any(r.hypothetical for r in requests):
        chosen.append("query-expansion")
    if args.config.encoder == TUNED:
        chosen.append("tuned")
    return tuple(m for m in MODULES if m in chosen)


def _ablation(
    benches: _Benches, default: Sequence[str], requests: Sequence[Request], done: Run
) -> list[dict[str, Any]]:
    datasets = [r.dataset for r in requests]
    rows, base = [], benches.run(("dense",), requests)
    for row in ablation_rows(default):
        run = done if row == tuple(default) else base if row == ("dense",) else benches.run(row, requests)
        metrics = report(run, requests, 0)["metrics"]
        gain = paired_bootstrap(values(base, requests, "mrr@10"), values(run, requests, "mrr@10"), datasets)
        rows.append(
            {
                "modules": list(row),
                "metrics": {name: metrics[name] for name in SHOWN},
                "against_dense": gain.as_dict(),
                **({"default": True} if row == tuple(default) else {}),
            }
        )
    return rows


def _limited(requests: Sequence[Request], limit: int | None) -> list[Request]:
    if limit is None:
        return list(requests)
    taken: dict[str, int] = {}
    kept = []
    for request in requests:
        taken[request.dataset] = taken.get(request.dataset, 0) + 1
        if taken[request.dataset] <= limit:
            kept.append(request)
    return kept


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from error


def _print(shown: dict[str, Any], screen: Screen) -> None:
    screen.print(f"{shown['requests']} requests over {shown['skills']} skills, modules {', '.join(shown['modules'])}")
    rows = [[name, *(f"{group[m]:.1f}" for m in SHOWN)] for name, group in shown["by_dataset"].items()]
    rows.append(["macro", *(f"{shown['metrics'][m]:.1f}" for m in SHOWN)])
    screen.table(rows, ["dataset", *SHOWN])
    times = shown["ms_per_request"]
    screen.print(f"index {shown['index_seconds']:.1f} s · a request {times['p50']:.1f} ms (p95 {times['p95']:.1f})")
    if shown["gold_not_in_library"]:
        screen.note(f"warning: gold that no skill has: {', '.join(shown['gold_not_in_library'])}")
    for row in shown.get("ablation", ()):
        mark = "  ← default" if row.get("default") else ""
        screen.print(f"  {row['metrics']['mrr@10']:5.1f}  {json.dumps(row['modules'])[1:-1]}{mark}")
