"""`metier collect`: paired runs of a real agent with and without a skill; a plan unless `--go`."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen, clean
from metier.errors import InputError
from metier.evaluate.adapters import DELIVERIES, Adapter, open_adapter
from metier.evaluate.collect import Outcomes, Plan, Protocol, collect, make_plan
from metier.evaluate.ledger import Ledger, Limits
from metier.evaluate.tasks import Material, read_tasks
from metier.types import UNKNOWN_STACK, Skill

NOTES_SHOWN = 10
"""Runs without a judgement that are printed one by one."""


def add_collect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", type=Path, metavar="TASKS", help="JSONL: {id, task, skill, family?, files?, check?}")
    about = "claude-code, codex, chat:MODEL@URL, an adapter's TOML file, or a command line"
    parser.add_argument("--agent", required=True, metavar="CMD", help=about)
    parser.add_argument(
        "--check", metavar="CMD", help="decides success: status 0 or 1, or a number in [0, 1] printed last"
    )
    parser.add_argument("--skill", action="append", default=[], metavar="SKILL", help="for tasks that name none")
    parser.add_argument("--repeats", type=int, default=1, metavar="R", help="runs of each arm of each task (1)")
    parser.add_argument("--stack", help="agent, model and settings that the outcomes belong to")
    parser.add_argument("--model", default="", help="the model to ask for; another one answering stops everything")
    parser.add_argument("--deliver", choices=DELIVERIES, help="how the skill reaches the agent (the adapter's way)")
    parser.add_argument("--max-runs", type=int, metavar="N", help="never start more runs than this")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="never spend more tokens than this")
    parser.add_argument("--max-cost", type=float, metavar="X", help="nor more money, where the agent reports it")
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="pairs at once (1)")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds for one run (600)")
    parser.add_argument("--seed", type=int, default=0, help="decides which arm of a pair runs first (0)")
    parser.add_argument("--go", action="store_true", help="run it; without this only the plan is printed")


def run_collect(args: argparse.Namespace, screen: Screen) -> int:
    for name in ("repeats", "parallel", "timeout"):
        if getattr(args, name) <= 0:
            raise InputError(f"--{name} is {getattr(args, name)}; give a number above 0")
    shop = Workshop(args.config)
    adapter = open_adapter(args.agent, model=args.model, deliver=args.deliver)
    jobs, skills = read_tasks(args.tasks, shop.skill, skill=args.skill, check=args.check is not None)
    if isinstance(adapter.argv[0], str):
        adapter = replace(adapter, argv=(_program(adapter.argv[0], screen), *adapter.argv[1:]))
    check = _check(args.check, screen)
    protocol = Protocol(adapter, check, _stack(args, adapter), args.repeats, args.seed, args.timeout)
    plan = make_plan(shop.bank, jobs, protocol)
    limits = Limits(args.max_runs, args.max_tokens, args.max_cost)
    if not args.go:
        return _print_plan(plan, shop, limits, screen)
    bar = screen.progress("runs", plan.left)
    done = collect(shop.bank, plan, Material(skills, shop.body, _copy), limits, parallel=args.parallel, progress=bar)
    return _print_done(done, plan, shop, limits, screen)


def _check(command: str | None, screen: Screen) -> tuple[str, ...]:
    """The check's words. Raises `InputError` where they are not a command line."""
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise InputError(f"--check {command!r}: {error}; quote it as a shell would want it") from error
    return (_program(words[0], screen), *words[1:]) if words else ()


def _program(name: str, screen: Screen) -> str:
    """The program by a path that holds in the runs' own working folders, where it is one of this folder."""
    found = shutil.which(name)
    if found is not None:
        return str(Path(found).absolute()) if os.sep in name else name
    if os.sep not in name:
        screen.note(f"warning: {name} is not on the PATH here")
    elif "{" not in name:
        screen.note(
            f"warning: there is no program {name} here (chmod +x?); each task's own files would have to hold it"
        )
    return name


def _stack(args: argparse.Namespace, adapter: Adapter) -> str:
    stack = args.stack or (args.config.stack if args.config.stack != UNKNOWN_STACK else "")
    if not stack and adapter.model:
        stack = f"{adapter.name}/{adapter.model}"
    if not stack:
        raise InputError(
            "outcomes belong to one agent, model and settings: name it with --stack, or the model with --model"
        )
    return str(stack)


def _copy(skill: Skill, place: Path) -> None:
    """The skill's folder is at `place`; links are not followed, so that nothing from outside comes along."""
    source = skill.addresses[0]
    if "#" in source or not Path(source).is_dir():
        raise InputError(f"{skill.name}: it has no folder to hand over; use --deliver prompt or file")
    shutil.copytree(source, place, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns(".git"))


def _figures(plan: Plan, shop: Workshop, limits: Limits) -> dict[str, Any]:
    ledger = Ledger(shop.store, [unit.key for pair in plan.pairs for unit in pair], limits)
    total = 2 * len(plan.pairs)
    known = shop.store.rows(
        "SELECT avg(tokens) AS t, avg(cost) AS c FROM collect_attempts WHERE ended = 'done' AND unit IN "
        "(SELECT key FROM outcomes WHERE stack = ?)",
        (plan.protocol.stack,),
    )[0]
    return {
        "schema": "metier-collect-v1", "stack": plan.protocol.stack, "agent": plan.protocol.adapter.name,
        "tasks": len({pair[0].job.id for pair in plan.pairs}), "repeats": plan.protocol.repeats, "runs": total,
        "done": total - plan.left, "left": plan.left, "started": ledger.runs, "tokens_spent": ledger.tokens,
        "cost_spent": ledger.cost,
        "tokens_expected": None if known["t"] is None else round(known["t"] * plan.left),
        "cost_expected": None if known["c"] is None else round(known["c"] * plan.left, 4),
        "limits": {"runs": limits.runs, "tokens": limits.tokens, "cost": limits.cost},
    }  # fmt: skip


def _print_plan(plan: Plan, shop: Workshop, limits: Limits, screen: Screen) -> int:
    told = _figures(plan, shop, limits)
    if screen.json_wanted:
        screen.json({**told, "go": False})
        return 0
    screen.print(
        f"{told['tasks']} tasks × 2 arms × {told['repeats']} (--repeats) = {told['runs']} runs on {told['stack']}"
    )
    screen.print(f"{told['done']} done, {told['left']} to go")
    expected = (
        "unknown before the first run" if told["tokens_expected"] is None else f"about {told['tokens_expected']:,}"
    )
    screen.print(f"tokens: {expected}; spent so far {told['tokens_spent']:,}")
    caps = [f"{name} {value:g}" for name, value in told["limits"].items() if value is not None]
    screen.print(f"caps: {', '.join(caps) or 'none (--max-runs, --max-tokens, --max-cost)'}")
    screen.print("Nothing was run. Add --go to run it; it can be interrupted, and goes on where it was.")
    return 0


def _print_done(done: Outcomes, plan: Plan, shop: Workshop, limits: Limits, screen: Screen) -> int:
    told = _figures(make_plan(shop.bank, _jobs(plan), plan.protocol), shop, limits)
    told |= {"go": True, "recorded": done.recorded, "open": done.open, "capped": done.capped or None,
             "notes": list(done.notes)}  # fmt: skip
    if screen.json_wanted:
        screen.json(told)
        return 0
    screen.print(f"{done.recorded} runs recorded, {done.open} still open; {told['tokens_spent']:,} tokens spent in all")
    if done.capped:
        screen.print(f"stopped by {done.capped}")
    for note in done.notes[:NOTES_SHOWN]:
        screen.print(clean(f"  not counted: {note}"))
    if len(done.notes) > NOTES_SHOWN:
        screen.print(f"  … and {len(done.notes) - NOTES_SHOWN} more: --json lists all")
    screen.note("what it says about the skills: metier bank show")
    return 0


def _jobs(plan: Plan) -> list[Any]:
    return list({pair[0].job.id: pair[0].job for pair in plan.pairs}.values())
