"""A home with a history, made from a seed: routes over a month, outcomes of both arms, and what must not count.

The numbers are invented (`demo-agent` does not exist); the pages' tests and the screenshots stand on them.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

from metier.assemble.settings import load
from metier.assemble.workshop import Workshop
from metier.store import log_events, log_route
from metier.types import Event, Outcome, Route

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
STACK = "demo-agent/model-1"
DAY = 86_400.0
REQUESTS = (
    "pull the tables out of these quarterly PDFs into one spreadsheet",
    "fill in this scanned tax form with my details",
    "the nightly report query became slow after the release",
    "write release notes from the commits since the last tag",
    "I committed to the wrong branch and then reset, get my work back",
    "write up yesterday's outage for the team",
    "make this docker image smaller",
    "clean the duplicate rows out of customers.csv",
    "turn this meeting transcript into minutes with owners",
    "add a NOT NULL column to a table with 40 million rows",
    "which errors in this log are new since Monday?",
    "retry the payment API without charging twice",
    "check this page for accessibility problems",
    "hello, how are you?",
    "what is 17 times 23?",
)
GAINS = {"pdf-tables": 0.45, "sql-tuning": 0.25, "release-notes": 0.05, "git-recovery": 0.35, "meeting-minutes": -0.3}
"""Skill → by how much it raises (or lowers) the chance of success."""


def bare(home: Path, **settings: object) -> Workshop:
    """A workshop over the examples without any history."""
    return Workshop(load(flags={"home": str(home), "encoder": "hash", **settings}, env={})[0], paths=[EXAMPLES])


def seeded(home: Path, *skills: Path, encoder: str = "hash", now: float | None = None, routes: int = 60) -> Workshop:
    """A workshop over `skills` (by default the examples) whose store holds a month of routes and outcomes."""
    roots = skills or (EXAMPLES,)
    flags = {"home": str(home), "encoder": encoder, "stack": STACK, "rescan": 86_400, "log.text": "full"}
    shop = Workshop(load(flags=flags, env={}, cwd=home.parent)[0], paths=roots, cwd=home.parent)
    shop.refresh()
    dice, at = random.Random(7), time.time() if now is None else now
    _judge(shop, dice, at)
    _route(shop, dice, at, routes)
    return shop


def _judge(shop: Workshop, dice: random.Random, now: float) -> None:
    """Both arms of tasks for some skills; beside them rows that are stale, the agent's own, or one-armed."""
    rows = []
    for name, gain in GAINS.items():
        skill = shop.skill(name)
        for n in range(24):
            task = f"{dice.choice(REQUESTS)} (case {name} {n})"
            luck = dice.random()
            for arm, chance, tokens in (("skip", 0.45, 6200), ("use", 0.45 + gain, 7100 - round(4000 * gain))):
                rows.append(
                    Outcome(
                        task=task,
                        skills=(skill.id,),
                        digests=(skill.digest if n < 20 else "0" * 64,),
                        stack=STACK,
                        arm=arm,
                        success=float(luck < chance),
                        tokens=tokens + dice.randrange(-600, 600),
                        at=now - n * DAY,
                        origin="check",
                    )
                )
        rows.append(replace(rows[-1], task=f"reported {name}", origin="agent", digests=(skill.digest,), success=1.0))
        rows.append(replace(rows[-1], task=f"alone {name}", origin="person"))
    shop.bank.append(rows)
    shop.bank.embed(shop.encoder)


def _route(shop: Workshop, dice: random.Random, now: float, count: int) -> None:
    router = replace(shop.router(), log=None, events=None)
    for n in range(count):
        at = now - dice.random() ** 2 * 29 * DAY
        route = router.route(REQUESTS[n % len(REQUESTS)], stack=STACK, session=f"s{n % 7}")
        log_route(shop.store, route, text="full", source=dice.choice(("hook", "hook", "mcp", "cli", "http")), at=at)
        log_events(shop.store, _events(route, dice, at))


def _events(route: Route, dice: random.Random, at: float) -> list[Event]:
    found = []
    for c in route.slate.candidates[:5]:
        if c.verdict.level == "skip":
            continue
        what = "loaded" if c.verdict.level == "load" else "offered"
        found.append(Event(route.id, c.skill.id, what, at, route.slate.task.session, c.skill.digest))
        if dice.random() < (0.7 if what == "loaded" else 0.15):
            found.append(Event(route.id, c.skill.id, "used", at + 5, route.slate.task.session, c.skill.digest))
    return found
