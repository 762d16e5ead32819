"""A seeded household in which a controller does literally what the chosen skill says (SKALOS, methods 2.11).

    success(choice) = share of tasks whose goal holds after the chosen skill was followed step by step

Each task has one valid skill and three near-copies, each with one step or condition broken. Requests and skills are
worded apart ("something cold" is "cooled in the fridge"), so that choosing by text is possible and choosing well needs
the requirement that differs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from metier.evaluate.datasets import Request
from metier.evaluate.lookalikes import Near, Pair
from metier.evaluate.metrics import Difference, paired_bootstrap
from metier.text import fingerprint
from metier.types import Skill

OBJECTS = ("mug", "apple", "plate", "potato", "tomato", "bowl", "egg", "pan", "cup", "knife", "lettuce", "bread")
PLACES = (
    "countertop",
    "shelf",
    "drawer",
    "cabinet",
    "side table",
    "dining table",
    "coffee table",
    "desk",
    "tray",
    "safe",
)
CHANGES = {
    "cooled": ("fridge", "freezer", "ice box"),
    "heated": ("microwave", "oven", "stove"),
    "cleaned": ("sink", "dishwasher", "basin"),
}
"""What can be done to an object, and where; only the place that the request names counts."""
SAID = {"cooled": ("Chill", "Cool down"), "heated": ("Warm up", "Heat"), "cleaned": ("Rinse", "Wash")}
ASKED = {"cooled": "chilled", "heated": "warmed", "cleaned": "washed"}
MINUTES = (2, 3, 4, 5, 8, 10, 12, 15)


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold at the end: an object in a place, treated in one appliance for so many minutes, lid as asked."""

    thing: str
    source: str
    target: str
    change: str
    appliance: str
    minutes: int
    covered: bool


@dataclass(slots=True)
class House:
    """The state that steps change."""

    where: dict[str, str]
    done: set[tuple[str, str, str, int]] = field(default_factory=set)
    held: str | None = None
    covered: set[str] = field(default_factory=set)

    def holds(self, goal: Goal) -> bool:
        """Whether the goal is reached."""
        treated = (goal.thing, goal.change, goal.appliance, goal.minutes) in self.done
        return self.where.get(goal.thing) == goal.target and treated and (goal.thing in self.covered) == goal.covered


_TAKE = re.compile(r"(?:Take|Fetch) the (.+?) from the (.+?)\.")
_TREAT = re.compile(r"(Chill|Cool down|Warm up|Heat|Rinse|Wash) the (.+?) in the (.+?) for (\d+) minutes\.")
_PUT = re.compile(r"(?:Put|Place) the (.+?) (?:on|in) the (.+?)\.")
_COVER = re.compile(r"(Never cover|Do not cover|Always cover|Cover) the (.+?)\.")
_VERBS = {verb: change for change, verbs in SAID.items() for verb in verbs}


def follow(body: str, house: House) -> House:
    """The house after every step of the text, taken literally. Steps that cannot be done are left out."""
    for line in body.splitlines():
        if found := _COVER.search(line):
            (house.covered.add if found[1] in ("Cover", "Always cover") else house.covered.discard)(found[2])
        elif found := _TAKE.search(line):
            if house.held is None and house.where.get(found[1]) == found[2]:
                house.held = found[1]
        elif found := _TREAT.search(line):
            if house.held == found[2] and found[3] in CHANGES[_VERBS[found[1]]]:
                house.done.add((found[2], _VERBS[found[1]], found[3], int(found[4])))
        elif (found := _PUT.search(line)) and house.held == found[1]:
            house.where[found[1]] = found[2]
            house.held = None
    return house


# ------------------------------------------------------------------------------------------------------------- tasks


def tasks(n: int, *, seed: int = 0) -> list[tuple[Goal, Pair]]:
    """`n` goals, each with a request, its valid skill and three near-copies, in shuffled order with opaque ids."""
    rng = random.Random(seed)
    return [_task(number, rng) for number in range(n)]


def _task(number: int, rng: random.Random) -> tuple[Goal, Pair]:
    change = rng.choice(sorted(CHANGES))
    source, target, elsewhere = rng.sample(PLACES, 3)
    goal = Goal(
        rng.choice(OBJECTS),
        source,
        target,
        change,
        rng.choice(CHANGES[change]),
        rng.choice(MINUTES),
        rng.random() < 0.5,
    )
    wording = rng.randrange(1 << 16)
    broken = {
        "step-removed": _body(goal, wording, leave_out=rng.choice(("treat", "cover" if goal.covered else "treat"))),
        "tool-changed": _body(_but(goal, appliance=_other(CHANGES[change], goal.appliance, rng)), wording),
        "number-changed": _body(_but(goal, minutes=_other(MINUTES, goal.minutes, rng)), wording),
        "negation-flipped": _body(_but(goal, covered=not goal.covered), wording),
        "method-changed": _body(_but(goal, target=elsewhere), wording),
    }
    operators = rng.sample(sorted(broken), 3)
    texts = [(None, _body(goal, wording)), *((name, broken[name]) for name in operators)]
    candidates = [_near(number, body, operator, rng) for operator, body in texts]
    rng.shuffle(candidates)
    request = Request(f"w{number}", _request(goal, rng), {"valid": 1.0}, "world")
    return goal, Pair(request, f"world:{number}", tuple(candidates))


def _but(goal: Goal, **changed: object) -> Goal:
    values: dict[str, object] = {name: getattr(goal, name) for name in Goal.__slots__}
    return Goal(**{**values, **changed})  # type: ignore[arg-type]


def _other(options: Sequence[object], taken: object, rng: random.Random) -> object:
    return rng.choice([o for o in options if o != taken])


def _near(number: int, body: str, operator: str | None, rng: random.Random) -> Near:
    opaque = fingerprint(str(number), str(rng.random()))
    skill = Skill(
        id=f"given:{opaque[:16]}", name="household-errand", digest=fingerprint(body, opaque), root="", scope="given",
        description="Prepares one object in a kitchen and puts it where it is wanted.", addresses=(opaque[:16],),
    )  # fmt: skip
    return Near(skill, body, operator)


def _body(goal: Goal, wording: int, *, leave_out: str = "") -> str:
    rng = random.Random(wording)
    take, put = rng.choice(("Take", "Fetch")), rng.choice(("Put", "Place"))
    verb = rng.choice(SAID[goal.change])
    if goal.covered:
        cover = rng.choice(("Cover", "Always cover"))
    else:
        cover = rng.choice(("Never cover", "Do not cover"))
    steps = [
        ("walk", f"Walk to the {goal.source} and look what is there."),
        ("take", f"{take} the {goal.thing} from the {goal.source}."),
        ("treat", f"{verb} the {goal.thing} in the {goal.appliance} for {goal.minutes} minutes."),
        ("cover", f"{cover} the {goal.thing}."),
        ("put", f"{put} the {goal.thing} on the {goal.target}."),
        ("close", "Close every door that was opened."),
    ]
    lines = [f"{n}. {text}" for n, (_, text) in enumerate((s for s in steps if s[0] != leave_out), start=1)]
    return "\n".join(["# Errand", "", "One object at a time.", "", "## Steps", "", *lines, "", "Report what was done."])


def _request(goal: Goal, rng: random.Random) -> str:
    lid = "with a cover on it" if goal.covered else "and it must not be covered"
    forms = (
        "The {thing} from the {source} should end up on the {target}: "
        "{asked} {minutes} minutes in the {appliance}, {lid}.",
        "I'd like the {thing} {asked} in the {appliance} ({minutes} minutes), then left on the {target}, {lid}. "
        "It's on the {source} now.",
        "Get me that {thing} on the {source}; {minutes} minutes in the {appliance} so that it's {asked}, "
        "then onto the {target}, {lid}.",
    )
    return rng.choice(forms).format(
        thing=goal.thing, source=goal.source, target=goal.target, asked=ASKED[goal.change], minutes=goal.minutes,
        appliance=goal.appliance, lid=lid,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- success


def success(goal: Goal, pair: Pair, scores: Sequence[float]) -> float:
    """The chance that the goal holds when the best-scored skill is followed; ties are drawn evenly."""
    best = max(round(s, 6) for s in scores)
    chosen = [c for c, s in zip(pair.candidates, scores, strict=True) if round(s, 6) == best]
    return sum(follow(c.body, House({goal.thing: goal.source})).holds(goal) for c in chosen) / len(chosen)


def compared(
    made: Sequence[tuple[Goal, Pair]],
    text: Sequence[Sequence[float]],
    ours: Sequence[Sequence[float]],
    *,
    seed: int = 0,
) -> tuple[float, float, Difference]:
    """(success by text choice, by witness choice, their difference with its interval), as fractions."""
    before = np.array([success(goal, pair, s) for (goal, pair), s in zip(made, text, strict=True)])
    after = np.array([success(goal, pair, s) for (goal, pair), s in zip(made, ours, strict=True)])
    return float(before.mean()), float(after.mean()), paired_bootstrap(before, after, seed=seed)
