"""`metier demo`: the main job on the bundled example skills, explained step by step, in a home of its own."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from metier.assemble.workshop import Workshop
from metier.edge.cli.routing import explain
from metier.edge.cli.screen import Screen
from metier.errors import InputError
from metier.types import Arm, Outcome

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
    with tempfile.TemporaryDirectory(prefix="metier-demo-") as home:
        config = replace(args.config, home=home, stack=STACK, host="cli")
        shop = Workshop(config, paths=[skills])
        _heading(screen, 1, f"Index {skills}")
        built = shop.refresh(progress=screen.progress)
        screen.print(f"{built.skills} skills, {built.encoded} texts encoded on this machine in {built.seconds:.1f} s.")
        screen.print("Nothing was downloaded; a second run would encode nothing.")
        _heading(screen, 2, f'Route: "{args.task}"')
        route = shop.router().route(args.task)
        explain(route, screen, k=3)
        _heading(screen, 3, f'A request that needs no skill: "{CHATTER}"')
        explain(shop.router().route(CHATTER), screen, k=3)
        if args.task == REQUEST:
            _earn(shop, screen, route.slate.candidates[0].skill.id)
        screen.print("\nNext:  metier index ~/.claude/skills    then    metier route 'what you want done'")
        screen.print("       metier doctor    tells what is wrong with your skills")
    return 0


def _earn(shop: Workshop, screen: Screen, skill_id: str) -> None:
    """The same request after paired outcomes: a load is earned, not claimed."""
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
    explain(shop.router().route(REQUEST), screen, k=2)


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
