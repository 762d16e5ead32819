"""`metier eval rerank`: the controlled look-alike test over any library and any requests."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.evaluate.datasets import as_library, known_as, read_requests
from metier.evaluate.lookalikes import (
    BACKGROUND,
    Scored,
    fitted_lambda,
    pairs,
    report,
    text_scores,
    witness_scores,
)
from metier.types import Skill


def add_eval_rerank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--skills", action="append", type=Path, required=True, metavar="FILE|DIR", help="may repeat")
    parser.add_argument("--requests", action="append", type=Path, required=True, metavar="FILE", help="may repeat")
    parser.add_argument("--seed", type=int, default=0, help="draws corruptions, order and ids (0)")
    parser.add_argument("--per-request", type=int, default=3, metavar="N", help="near-copies a skill (3)")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="write every pair with its corruptions and scores")


def run_eval_rerank(args: argparse.Namespace, screen: Screen) -> int:
    from metier.library.read import body
    from metier.library.scan import Root, scan
    from metier.rerank.keep import Graphs
    from metier.rerank.witness import LAMBDA, Rerank

    if args.per_request < 1:
        raise InputError(f"--per-request {args.per_request}: give at least 1 near-copy a skill")
    requests = read_requests(args.requests)
    config, cache = args.config, Path(args.config.home) / "benchmarks"
    roots = [Root(as_library(p, cache).expanduser().absolute(), "given") for p in args.skills]
    library = scan(roots, spool=cache / "spool", collapse=False)
    named = {name: s for s in library.skills for name in known_as(s)}

    def read(skill: Skill) -> str:
        return body(skill, spool=cache / "spool")

    wanted = {g for r in requests for g in r.gold}
    made = pairs(
        requests,
        {g: named[g] for g in sorted(wanted) if g in named},
        read,
        seed=args.seed,
        per_request=args.per_request,
    )
    others = _others(library.skills, {named[p.valid].id for p in made}, args.seed)
    encoder = Workshop(config).encoder
    n = len(others) + sum(len(p.candidates) for p in made)
    show = screen.progress("indexing near-copies", n)
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        text = text_scores(
            made, others, read, encoder, Path(folder), Path(config.home) / "vectors", lambda done, total: show(done)
        )
    texts = {c.skill.id: c.body for p in made for c in p.candidates}
    stage = Rerank(
        graph=Graphs(lambda s: texts[s.id]), encoder=encoder, lam=LAMBDA if config.lam is None else config.lam
    )
    ours, evidence = witness_scores(made, text, stage)
    found = report(Scored(made, text, ours, evidence), seed=args.seed)
    asked = sum(g in named for r in requests for g in r.gold)
    shown = {
        "schema": "metier-eval-rerank-v1",
        **found,
        "lambda_fitted": fitted_lambda(Scored(made, text, ours, evidence)),
        "left_out": asked - len(made),
        "gold_not_in_library": len(wanted - set(named)),
        "seed": args.seed,
        "per_request": args.per_request,
        "config": repr(stage),
    }
    if args.cases:
        _write_cases(args.cases, Scored(made, text, ours, evidence))
    if screen.json_wanted:
        screen.json(shown)
    else:
        _print(shown, screen)
    return 0


def _others(skills: Sequence[Skill], taken: set[str], seed: int) -> list[Skill]:
    free = sorted((s for s in skills if s.id not in taken), key=lambda s: s.id)
    return random.Random(seed).sample(free, min(BACKGROUND, len(free)))


def _write_cases(path: Path, scored: Scored) -> None:
    import json

    lines = []
    for pair, text, ours, evidence in zip(scored.pairs, scored.text, scored.witness, scored.evidence, strict=True):
        rows = [
            {
                "operator": c.operator,
                "stated": c.corruption.stated if c.corruption else None,
                "changes": {str(n): after for n, after in c.corruption.changes.items()} if c.corruption else {},
                "text": round(float(t), 6),
                "witness": round(float(w), 6),
                "why": e.why if e else "",
            }
            for c, t, w, e in zip(pair.candidates, text, ours, evidence, strict=True)
        ]
        lines.append(
            json.dumps(
                {"request": pair.request.id, "text": pair.request.text, "skill": pair.valid, "candidates": rows},
                ensure_ascii=False,
            )
        )
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from error


def _print(shown: dict[str, Any], screen: Screen) -> None:
    screen.print(f"{shown['pairs']} pairs of a request and a skill with {shown['per_request']} near-copies each")
    rows = [["NDCG@4", str(shown["pairs"]), *_cells(shown["ndcg@4"])]]
    rows += [[name, str(v["n"]), *_cells(v)] for name, v in shown["by_operator"].items()]
    screen.table(rows, ["", "n", "text", "witness", "delta", "95% interval"])
    screen.print("Per operator: near-copies ranked below the valid skill, in percent; a tie counts half.")
    if shown["lambda_fitted"] is not None:
        screen.print(f"The pairwise loss over these pairs chooses λ = {shown['lambda_fitted']:g}.")


def _cells(found: dict[str, Any]) -> list[str]:
    low, high = found["ci95"]
    return [f"{found['text']:.1f}", f"{found['witness']:.1f}", f"{found['delta']:+.2f}", f"[{low:+.2f}, {high:+.2f}]"]
