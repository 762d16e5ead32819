"""`metier demo`: the main job on the bundled example skills, explained step by step, in a home of its own."""

from __future__ import annotations

import argparse
import io
import tempfile
from dataclasses import replace
from pathlib import Path

from metier.assemble.workshop import Workshop
from metier.edge import wire
from metier.edge.cli.explain import explain
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.types import Arm, Outcome, Route

REQUEST = "pull the quarterly revenue tables out of this 80-page annual report into a spreadsheet"
CHATTER = "thanks, that was quick!"
STACK = "demo-agent/1"
PAST = (
    ("get the price list out of the supplier's PDF as CSV", 0.0, 1.0),
    ("extract the balance sheet from annual-report.pdf", 0.0, 1.0),
    ("copy the table on page 12 of the PDF into Excel", 1.0, 1.0),
    ("turn the bank statement PDFs into one table", 0.0, 1.0),
)
"""Paired past tasks of an imagined agent: success without the skill, success with it."""


def add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", default=REQUEST, metavar="TASK", help="another request than the demo's own")


def run_demo(args: argparse.Namespace, screen: Screen) -> int:
    skills = examples()
    quiet = replace(screen, out=io.StringIO()) if screen.json_wanted else screen
    with tempfile.TemporaryDirectory(prefix="metier-demo-") as home:
        config = replace(args.config, home=home, stack=STACK, host="cli")
        shop = Workshop(config, paths=[skills])
        _heading(quiet, 1, f"Index {skills}")
        built = shop.refresh(progress=screen.progress)
        quiet.print(f"{built.skills} skills, {built.encoded} texts encoded on this machine in {built.seconds:.1f} s.")
        quiet.print("Nothing was downloaded; a second run would encode nothing.")
        _heading(quiet, 2, f'Route: "{args.task}"')
        routes = [_routed(shop, args.task, quiet, k=3)]
        _heading(quiet, 3, f'A request that needs no skill: "{CHATTER}"')
        routes.append(_routed(shop, CHATTER, quiet, k=3))
        if args.task == REQUEST and routes[0].slate.candidates:
            _earn(shop, quiet, routes[0].slate.candidates[0].skill.id)
            routes.append(_routed(shop, REQUEST, quiet, k=2))
        quiet.print("\nNext:  metier index ~/.claude/skills    then    metier route 'what you want done'")
        quiet.print("       metier doctor    tells what is wrong with your skills")
    if screen.json_wanted:
        shown = [wire.route(route, k=args.config.k) for route in routes]
        screen.json({"schema": "metier-demo-v1", "skills": built.skills, "encoded": built.encoded, "routes": shown})
    return 0


def _routed(shop: Workshop, task: str, screen: Screen, *, k: int) -> Route:
    route = shop.router().route(task)
    explain(route, screen, k=k)
    return route


def _earn(shop: Workshop, screen: Screen, skill_id: str) -> None:
    """Paired outcomes are in the bank: a load is earned, not claimed."""
    skill = shop.skill(skill_id)
    rows = [
        Outcome(
            task=task,
            skills=(skill.id,),
            digests=(skill.digest,),
            stack=STACK,
            arm=arm,
            success=success,
            origin="check",
        )
        for task, without, with_it in PAST
        for arm, success in _arms(without, with_it)
    ]
    shop.bank.append(rows)
    _heading(screen, 4, f"The same request once {len(PAST)} past tasks were run with and without {skill.name}")


def _arms(without: float, with_it: float) -> tuple[tuple[Arm, float], tuple[Arm, float]]:
    return ("skip", without), ("use", with_it)


def _heading(screen: Screen, number: int, text: str) -> None:
    screen.print(screen.style(f"\n── {number}. {text}", "bold"))


def examples() -> Path:
    """The example skills: beside the package in a wheel, in the checkout otherwise."""
    here = Path(__file__).resolve()
    for folder in (here.parents[2] / "examples" / "skills", here.parents[4] / "examples" / "skills"):
        if folder.is_dir():
            return folder
    raise InputError("the example skills are not installed; reinstall metier, or run this in a checkout")
