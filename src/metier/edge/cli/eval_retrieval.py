"""`metier eval retrieval`: retrieval benchmarks over the product's own stages, module by module."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metier.edge.cli.benches import Benches, add_what_is_tested, limited
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.evaluate.ablate import SHOWN, ablation
from metier.evaluate.datasets import Request, read_requests
from metier.evaluate.grids import sweeps
from metier.evaluate.metrics import REPORTED
from metier.evaluate.run import FREE, MODULES, Run, judged, report, sra_results, trec
from metier.evaluate.sweep import Setting, Sweep, gather


def add_eval_retrieval(parser: argparse.ArgumentParser) -> None:
    add_what_is_tested(parser)
    parser.add_argument("--modules", metavar="LIST", help=f"what runs, of {','.join(MODULES)}")
    parser.add_argument("--ablate", action="store_true", help="module by module: alone, added last, all together")
    parser.add_argument("--sweep", action="store_true", help="α, k1, weights and fusion, chosen and reported by halves")
    parser.add_argument("--metrics", metavar="LIST", help="also these, such as ndcg@5,map@15,p@5")
    parser.add_argument("--run", type=Path, metavar="FILE", help="write the ranking in TREC run format")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write the result file of SRA-Bench's form")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write Markdown, JSON and plots")
    parser.add_argument("--no-plots", action="store_true", help="the report without its PNG files")


def run_eval_retrieval(args: argparse.Namespace, screen: Screen) -> int:
    requests = limited(read_requests(args.requests), args.limit)
    benches = Benches(args, screen)
    default = default_modules(benches, args, requests)
    modules = _named(args.modules) or default
    skills = benches.bench(modules).skills
    requests = judged(requests, skills)
    run = benches.run(modules, requests)
    shown = report(run, requests, len(skills), tuple(dict.fromkeys((*REPORTED, *_named(args.metrics)))))
    if args.ablate:
        shown |= ablation(_Once(benches, requests, run, screen), _available(benches, args, requests), default, requests)
    if args.sweep:
        shown["sweeps"] = _sweeps(benches, modules, requests)
    if args.run:
        _write(args.run, trec(run, tag=f"metier-{run.config}"))
    if args.results:
        about = {"skills": [p.name for p in args.skills], "requests": [p.name for p in args.requests]}
        _write(args.results, json.dumps(sra_results(run, requests, about), ensure_ascii=False) + "\n")
    if args.report:
        from metier.evaluate.report import retrieval_report

        for path in retrieval_report(shown, args.report, plots=not args.no_plots):
            screen.note(f"wrote {path}")
    if screen.json_wanted:
        screen.json(shown)
    else:
        _print(shown, screen)
    return 0


def _named(given: str | None) -> tuple[str, ...]:
    return tuple(m.strip() for m in given.split(",") if m.strip()) if given else ()


def default_modules(benches: Benches, args: argparse.Namespace, requests: Sequence[Request]) -> tuple[str, ...]:
    """What the product does by itself under this configuration: projection as the encoder's profile has it."""
    chosen = ["lexical", "dense"]
    if any(r.hypothetical for r in requests):
        chosen.append("query-expansion")
    if args.config.encoder == benches.tuned:
        chosen.append("tuned")
    if benches.bench(chosen).index.directions is not None:
        chosen.append("projection")
    return tuple(m for m in MODULES if m in chosen)


def _available(benches: Benches, args: argparse.Namespace, requests: Sequence[Request]) -> tuple[str, ...]:
    """The modules of the ablation: those named, else all that can run here."""
    if args.modules:
        return ("dense", *_named(args.modules))
    can = ["dense", *FREE]
    if not any(r.hypothetical for r in requests):
        can.remove("query-expansion")
    if benches.has_tuned():
        can.append("tuned")
    return tuple(can)


class _Once:
    """Runs a set of modules; the one that was run already is not run again."""

    def __init__(self, benches: Benches, requests: Sequence[Request], done: Run, screen: Screen) -> None:
        self.benches, self.requests, self.done, self.screen = benches, requests, done, screen

    def __call__(self, modules: tuple[str, ...]) -> Run:
        if modules == tuple(m for m in MODULES if m in self.done.modules):
            return self.done
        self.screen.note(f"running {', '.join(modules)}")
        return self.benches.run(modules, self.requests)


def _sweeps(benches: Benches, modules: Sequence[str], requests: Sequence[Request]) -> Mapping[str, Any]:
    bench = benches.bench(modules)
    drafts = any(r.hypothetical for r in requests)
    arrays = gather(bench, requests)
    profile = bench.encoder.profile if bench.encoder else None
    base = Setting(
        alpha=profile.alpha if profile else 1.0,
        w_q=0.3 if drafts and "query-expansion" in modules else 0.0,
        step="two" if "projection" in modules and bench.index.directions is not None else "none",
        first=int(bench.index.facts["projection"]["first"]) or 2,
        asked="shared" if arrays.own is None else "own",
    )
    return sweeps(Sweep(arrays), base, drafts=drafts)


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
        low, high = row["against_dense"]["ci95"]
        mark = "  ← default" if row.get("default") else ""
        screen.print(
            f"  {row['metrics']['mrr@10']:5.1f}  {row['against_dense']['delta']:+5.1f} [{low:+.1f}, {high:+.1f}]  "
            f"{' + '.join(row['modules'])}{mark}"
        )
    for choice in ("alpha", "k1", "weights"):
        for half in shown.get("sweeps", {}).get(f"{choice}_by_halves", {}).get("halves", ()):
            screen.print(
                f"  {choice} chosen on one half: {json.dumps(half['chosen'])}; "
                f"MRR@10 on the other {half['reported_on']:.1f} ({half['short_of_best']:.1f} short of its best)"
            )
