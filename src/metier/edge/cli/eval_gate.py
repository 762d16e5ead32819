"""`metier eval gate`: the gain rule on a panel of paired outcomes, with its baselines and a report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.evaluate import gain, gain_report
from metier.evaluate.panel import Recorded, read_panel
from metier.gate.gain import K, Rule, predict
from metier.gate.imports import text_of
from metier.gate.thresholds import eta_for_rate


def add_eval_gate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--panel", required=True, type=Path, metavar="FILE", help="JSON with rows, or JSONL")
    parser.add_argument("--vectors", type=Path, metavar="FILE.npz", help="ids and vectors (default: encode the texts)")
    parser.add_argument("--k", "-k", type=int, default=K, help=f"neighbours ({K})")
    parser.add_argument("--scope", choices=("family", "global", "skill"), default="family")
    parser.add_argument("--weighting", choices=("cosine", "uniform"), default="cosine")
    parser.add_argument("--score", choices=("signed", "positive-label"), default="signed")
    parser.add_argument("--threshold", type=_threshold, default="zero", metavar="zero|prevalence|NUMBER")
    parser.add_argument("--kappa", type=float, default=0.0, help="shrinkage, in neighbours of mean weight (0)")
    parser.add_argument("--toward", choices=("zero", "skill"), default="zero", help="what estimates shrink to (zero)")
    parser.add_argument("--use-rate", type=float, metavar="R", help="instead of a threshold: use at most this share")
    parser.add_argument("--holdout", type=int, metavar="SEED", help="half of each family is support, the rest judged")
    parser.add_argument("--skills", type=Path, metavar="FILE", help="JSONL with the skills' texts: lexical baseline")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write gate.md, gate.json and plots there")
    parser.add_argument("--no-plots", action="store_true", help="the report without its PNG files")


def _threshold(value: str) -> Any:
    if value in ("zero", "prevalence"):
        return value
    try:
        return float(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{value!r}: give zero, prevalence or a number") from error


def run_eval_gate(args: argparse.Namespace, screen: Screen) -> int:
    rule = Rule(args.k, args.scope, args.weighting, args.score, args.threshold, args.kappa, args.toward)
    recorded = read_panel(args.panel, vectors=args.vectors, encoder=None if args.vectors else _encoder(args))
    if args.use_rate is not None:
        rule = replace(rule, threshold=_from_rate(recorded, rule, args.use_rate, args.holdout))
    done = gain.evaluate(recorded, rule, holdout=args.holdout)
    skills = None if args.skills is None else skill_texts(args.skills)
    if args.report is not None:
        data = gain_report.everything(done, recorded, skills)
        for path in gain_report.write(data, args.report, title=args.panel.name, plots=not args.no_plots):
            screen.note(f"wrote {path}")
    if screen.json_wanted:
        screen.json(gain_report.finite(gain.report(done)))
        return 0
    told = gain.report(done)
    matched = told["matched_rate"]
    screen.print(f"{told['rows']} tasks, {told['protocol']}; " + ", ".join(f"{k} {v}" for k, v in told["rule"].items()))
    screen.print(
        f"advantage at matched rate {matched['advantage_pp']:+.2f} pp "
        f"[{matched['ci95'][0]:+.2f}, {matched['ci95'][1]:+.2f}]"
        + (
            ""
            if matched["between_pp"] is None
            else f" = {matched['between_pp']:+.2f} between {matched['within_pp']:+.2f} within families"
        )
    )
    screen.table([_row(line) for line in gain.baselines(done, skills)],
                 ("policy", "success", "use", "advantage pp", "AUROC", "tokens", "saving"))  # fmt: skip
    screen.print("Savings leave out what the bank cost to collect.")
    return 0


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    def shown(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    return (
        line["policy"], shown(line["success"], ".4f"), shown(line["use_rate"], ".3f"),
        shown(line["advantage_pp"], "+.2f"), shown(line["auroc"], ".3f"), shown(line["tokens"], ".0f"),
        shown(line["token_saving"], "+.1%"),
    )  # fmt: skip


def _from_rate(recorded: Recorded, rule: Rule, rate: float, holdout: int | None) -> float:
    """The threshold that the support alone would choose for that use rate."""
    support = recorded if holdout is None else gain.halves(recorded, holdout)[1]
    return eta_for_rate(predict(support.panel.tasks, support.panel, rule).tau, rate)


def _encoder(args: argparse.Namespace) -> Any:
    from metier.models.encoder import open_encoder

    return open_encoder(args.config.encoder)


def skill_texts(path: Path) -> dict[str, str]:
    """Skill id → name, description and body, from a JSONL library. Raises `InputError` naming the line."""
    texts = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
                texts[str(row["id"])] = " ".join(str(row.get(k) or "") for k in ("name", "description", "body"))
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}:{number}: not a skill with an id ({error})") from error
    return texts
