"""`metier expand` and `metier train`: what is learnt from the library itself, by a language model or by an encoder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import ConfigError, InputError
from metier.models.llm import AT_ONCE, Ask, ChatLLM, open_llm
from metier.models.spending import Budget
from metier.retrieve import expand
from metier.types import Skill

if TYPE_CHECKING:
    from metier.retrieve.qualify import Verdict

BUDGET = 2_000_000
"""Tokens a run may use unless told otherwise: about 1,000 skills."""
ANSWER_TOKENS = 300
"""Of an answer with two requests."""


# ------------------------------------------------------------------------------------------------------------ expand


def add_expand(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="these skills instead")
    parser.add_argument("--qualify", action="store_true", help="try the model on this library and keep the verdict")
    parser.add_argument("--requests", type=Path, metavar="FILE", help="with --qualify: labelled requests to try it on")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N skills, chosen evenly")
    parser.add_argument("--dry-run", action="store_true", help="say what it will cost, and send nothing")
    parser.add_argument("--budget", type=int, default=BUDGET, metavar="TOKENS", help="tokens at most (0: no limit)")
    parser.add_argument("--calls", type=int, metavar="N", help="calls at most")
    parser.add_argument("--money", type=float, metavar="X", help="money at most; needs --price")
    parser.add_argument("--price", metavar="SENT,RECEIVED", help="money per million tokens sent and received")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="calls under way together")
    parser.add_argument("--per-minute", type=int, default=0, metavar="N", help="calls begun per minute at most")


def run_expand(args: argparse.Namespace, screen: Screen) -> int:
    if not args.config.llm:
        raise ConfigError(
            "llm.model is not set: expansion needs a language model; "
            "add --set llm.model=MODEL@URL, such as qwen3:4b@http://localhost:11434/v1"
        )
    shop = Workshop(args.config, paths=args.skills)
    llm = open_llm(
        args.config.llm, shop.store, budget=_budget(args), at_once=args.at_once, per_minute=args.per_minute,
        received=ANSWER_TOKENS if not args.qualify else ANSWER_TOKENS * 2,
    )  # fmt: skip
    if args.qualify:
        from metier.edge.cli.qualifying import qualify

        return _shown_verdicts(qualify(shop, llm, args, screen), llm, screen)
    kept = expand.Kept(shop.store, llm.name)
    todo = [s for s in _sampled(shop.library.skills, args.sample) if kept.get("requests", _text(shop, s)) is None]
    asks = [Ask(expand.requests_prompt(skill, shop.body(skill)), expand.REQUESTS_SCHEMA) for skill in todo]
    estimate = llm.estimate(asks)
    have = len(shop.library.skills) - len(todo)
    if args.dry_run:
        return _shown_plan(screen, llm, len(todo), have, str(estimate))
    screen.note(f"{len(todo)} skills to do, {have} done or left out: {estimate}")
    failed: list[str] = []
    done = 0
    for place, answer in llm.each(asks, progress=screen.progress("expand", len(asks))):
        if isinstance(answer, Exception):
            failed.append(f"{todo[place].id}: {answer}")
            continue
        requests = expand.read_requests(answer)
        kept.put("requests", _text(shop, todo[place]), requests, subject=todo[place].id)
        done += 1
    for line in failed[:5]:
        screen.note(f"no requests for {line}")
    found = {"expanded": done, "failed": len(failed), "skipped": have, **_cost(llm)}
    if screen.json_wanted:
        screen.json({"schema": "metier-expand-v1", **found})
    else:
        screen.print(f"{done} skills have requests now ({len(failed)} failed, {have} had them or were left out)")
        screen.print(f"{llm.ledger.calls} calls, {llm.ledger.sent:,} tokens sent, {llm.ledger.received:,} received")
        screen.print("They are used where the model is qualified: metier expand --qualify, then metier index")
    return 0


def _text(shop: Workshop, skill: Skill) -> str:
    return expand.skill_text(skill, shop.body(skill))


def _sampled(skills: Sequence[Skill], count: int) -> list[Skill]:
    """`count` skills spread evenly over the library (all for 0); those that are switched off are left out."""
    usable = [s for s in skills if "disabled" not in s.flags]
    if not 0 < count < len(usable):
        return usable
    return [usable[i * len(usable) // count] for i in range(count)]


def _budget(args: argparse.Namespace) -> Budget:
    sent = received = 0.0
    if args.price:
        try:
            sent, received = (float(part) for part in args.price.split(","))
        except ValueError as error:
            raise InputError(f"--price: {args.price!r}; write two numbers, such as 0.15,0.60") from error
    return Budget(args.calls, args.budget or None, args.money, sent, received)


def _cost(llm: ChatLLM) -> dict[str, Any]:
    ledger = llm.ledger
    return {"calls": ledger.calls, "sent": ledger.sent, "received": ledger.received, "money": round(ledger.money, 6)}


def _shown_plan(screen: Screen, llm: ChatLLM, todo: int, have: int, estimate: str) -> int:
    if screen.json_wanted:
        screen.json({"schema": "metier-expand-plan-v1", "model": llm.name, "skills": todo, "estimate": estimate})
    else:
        screen.print(f"{todo} skills would be shown to {llm.name} ({have} have requests or are left out)")
        screen.print(f"cost: {estimate}")
        screen.print("nothing was sent; leave --dry-run out to begin")
    return 0


def _shown_verdicts(verdicts: Sequence[Verdict], llm: ChatLLM, screen: Screen) -> int:
    if screen.json_wanted:
        from dataclasses import asdict

        rows = [asdict(verdict) for verdict in verdicts]
        screen.json({"schema": "metier-qualify-v1", "model": llm.name, "verdicts": rows, **_cost(llm)})
        return 0
    names = {"requests": "document expansion", "skills": "query expansion"}
    for verdict in verdicts:
        screen.print(f"{names[verdict.kind]}: {'on' if verdict.passed else 'off'}; {verdict.why} (n = {verdict.n})")
    screen.print(f"{llm.ledger.calls} calls; the verdict holds for {llm.name} and this encoder until a prompt changes")
    return 0


# ------------------------------------------------------------------------------------------------------------- train


def add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", nargs="*", type=Path, metavar="FILE", help="JSONL with skill (id or name) and text")
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="these skills instead")
    parser.add_argument("--base", type=Path, required=True, metavar="DIR", help="a local encoder (safetensors)")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the tuned encoder goes")
    parser.add_argument("--expanded", action="store_true", help="also the requests that `metier expand` wrote")
    parser.add_argument("--weak", type=int, default=0, metavar="N", help="also N pairs from descriptions")
    parser.add_argument(
        "--avoid",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="test gold (JSONL): its like is left out",
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--tokens", type=int, default=256, help="of a document and of a request")
    parser.add_argument("--negatives", type=int, default=3, help="hard negatives a pair")
    parser.add_argument("--micro", type=int, default=0, metavar="N", help="texts per pass where memory is short")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the tuned weights against the base, 0 to 1")


def run_train(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.cli.training import train

    return train(args, screen)
