"""`metier diagnose`: why requests are hard for this library and encoder, and which module would help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from metier.edge.cli.benches import Benches, add_what_is_tested, limited
from metier.edge.cli.screen import Screen
from metier.evaluate.datasets import read_requests
from metier.evaluate.diagnosis import Diagnosis, report
from metier.evaluate.sweep import Setting, Sweep, gather


def add_diagnose(parser: argparse.ArgumentParser) -> None:
    add_what_is_tested(parser)
    parser.add_argument(
        "--use-tuned", action="store_true", help="diagnose the tuned encoder instead of the untuned one"
    )
    parser.add_argument("--report", type=Path, metavar="DIR", help="write Markdown, JSON and plots")
    parser.add_argument("--no-plots", action="store_true", help="the report without its PNG files")


def run_diagnose(args: argparse.Namespace, screen: Screen) -> int:
    requests = limited(read_requests(args.requests), args.limit)
    benches = Benches(args, screen)
    bench = benches.bench(("dense", "tuned") if args.use_tuned else ("dense",))
    alpha = bench.encoder.profile.alpha if bench.encoder else 1.0
    shown = report(Diagnosis(bench, requests, Sweep(gather(bench, requests))), Setting(alpha=alpha))
    if args.report:
        from metier.evaluate.report import diagnosis_report

        for path in diagnosis_report(shown, args.report, plots=not args.no_plots):
            screen.note(f"wrote {path}")
    if screen.json_wanted:
        screen.json(shown)
    else:
        _print(shown, screen)
    return 0


def _print(shown: dict[str, Any], screen: Screen) -> None:
    screen.print(f"{shown['requests']} requests over {shown['skills']} skills, encoder {shown['encoder']}; all × 100")
    documents, asked = (shown["background"][name] for name in ("documents", "requests"))
    rows = [
        ["background gap, documents", *_cells(documents["gap"])],
        ["skills above gold by background alone, %", *_cells(documents["above_gold"])],
        ["background gap, requests", *_cells(asked["gap"])],
        ["words of gold that the request says, %", *_cells(shown["unsaid_vocabulary"]["lexical"])],
        ["… or says in other words, %", *_cells(shown["unsaid_vocabulary"]["semantic"])],
        ["words of the request that gold says, %", *_cells(shown["unsaid_vocabulary"]["request_in_gold"])],
        ["dilution", *_cells(shown["dilution"])],
    ]
    screen.table(rows, ["", "mean", "95% interval", "requests"])
    screen.print(f"projection: {'on' if shown['projection']['on'] else 'off'}, {shown['projection']['why']}")
    for row in shown["correlations"]["gains"]:
        if None not in (row["plain"]["rho"], row["partial"]["rho"]):
            low, high = row["partial"]["ci95"]
            screen.print(
                f"  gain of {row['module']} with {row['diagnostic']}: ρ {row['plain']['rho']:+.2f}, "
                f"others held {row['partial']['rho']:+.2f} [{low:+.2f}, {high:+.2f}]"
            )


def _cells(found: dict[str, Any]) -> tuple[str, str, str]:
    low, high = found["ci95"]
    return f"{found['value']:.2f}", f"[{low:.2f}, {high:.2f}]", str(found["n"])
