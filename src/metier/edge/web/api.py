"""The JSON endpoints as plain functions: (desk, what was asked) → (status, answer). They run in worker threads.

Names and shapes are stable; `openapi.py` describes them, `docs/http.md` explains them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from metier.edge import wire
from metier.edge.web.desk import Desk
from metier.edge.web.shelf import PAGE
from metier.edge.web.standing import standings
from metier.errors import InputError, MetierError
from metier.text import count_tokens
from metier.types import Arm, Origin, Route

LIMIT = 500
"""Most rows of one answer; longer lists are paged."""
ORIGINS = tuple(o for o in get_args(Origin) if o != "import")
"""Who may say so over HTTP; imports are files, read by `metier bank import`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's fields, from a JSON body or from the query, read with errors that name them."""

    fields: Mapping[str, Any]
    local: bool = True
    """Whether it came from this machine: then its binaries are the agent's (methods 4.4)."""

    def text(self, name: str, default: str | None = None) -> str:
        """A non-empty string; required where there is no default."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (not value.strip() and default is None):
            raise InputError(f"{name!r} is {_said(value)}; give a non-empty string")
        return _whole(value)

    def maybe(self, name: str) -> str | None:
        """A string, or None where it is absent or empty."""
        return None if self.fields.get(name) in (None, "") else self.text(name)

    def number(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """A whole number in [low, high]; query strings count as numbers when they look like one."""
        value = self.fields.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
            value = int(value[:12])
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{name!r} is {_said(value)}; give a whole number from {low} to {high}")
        return value

    def share(self, name: str) -> float | None:
        """A number in [0, 1], or None where it is absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise InputError(f"{name!r} is {_said(value)}; give a number from 0 to 1")
        return float(value)

    def names(self, name: str) -> list[str] | None:
        """A list of strings (or one string), or None where it is absent: unknown, not none."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return [_whole(value)]
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise InputError(f"{name!r} is {_said(value)}; give a list of strings")
        return [_whole(v) for v in value]

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.fields.get(name, default)
        if value not in allowed:
            raise InputError(f"{name!r} is {_said(value)}; use one of {', '.join(allowed)}")
        return str(value)


def _whole(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON may spell but neither UTF-8 nor the store can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _said(value: Any) -> str:
    return "missing" if value is None else repr(value)[:80]


Answer = tuple[int, Mapping[str, Any]]


def routed(desk: Desk, asked: Asked) -> Route:
    """The route for a request, from its fields."""
    router = desk.router(asked.names("only"))
    local = asked.local and asked.fields.get("local", True) is not False
    return router.route(
        asked.text("task"),
        tools=asked.names("tools"),
        stack=asked.maybe("stack"),
        family=asked.maybe("family"),
        session=asked.maybe("session"),
        local=local,
    )


def route(desk: Desk, asked: Asked) -> tuple[int, Mapping[str, Any], Route]:
    """`POST /v1/route`: the main job; the route itself comes along for the counters."""
    k = asked.number("k", desk.shop.config.k, 1, 1000)
    done = routed(desk, asked)
    return 200, wire.route(done, k=k), done


def skills(desk: Desk, asked: Asked) -> Answer:
    """`GET /v1/skills`: the library, searched and paged; with `id` one skill."""
    named = asked.maybe("id")
    library = desk.shop.library.skills
    if named is not None:
        found = desk.shop.skill(named)
        return 200, {
            "schema": "metier-skill-v1",
            **wire.skill(found),
            "resources": list(found.resources),
            "flags": sorted(found.flags),
            "excludes": list(found.excludes),
            "addresses": list(found.addresses),
            "requires": [
                {"kind": r.kind, "names": list(r.names), "declared": r.declared, "source": r.source}
                for r in found.requires
            ],
        }
    page = desk.shelf().page(
        asked.text("q", ""),
        scope=asked.text("scope", ""),
        offset=asked.number("offset", 0, 0, 10**9) or 0,
        limit=asked.number("limit", PAGE, 1, LIMIT) or PAGE,
    )
    return 200, {
        "schema": "metier-skills-v1",
        "total": page.total,
        "offset": page.offset,
        "skills": [wire.skill(library[row]) for row in page.rows],
    }


def load(desk: Desk, asked: Asked) -> Answer:
    """`POST /v1/load`: a body or a resource, fenced and labelled as third-party text."""
    name, resource, route_id = asked.text("skill"), asked.maybe("resource"), asked.maybe("route_id")
    text = desk.router().load(route_id, name, resource)
    tokens = count_tokens(text)
    budget = asked.number("budget", None, 0, 10_000_000)
    fits = budget is None or tokens <= budget
    return 200, {
        "schema": "metier-load-v1",
        "skill": name,
        "resource": resource,
        "tokens": tokens,
        "over_budget": not fits,
        "text": text if fits else None,
    }


def record(desk: Desk, asked: Asked) -> Answer:
    """`POST /v1/outcomes`: an outcome is on disk when this answers.

    Without `origin` it is taken for the agent's own report, which is kept and shown but never counts (methods 3.14).
    """
    names = asked.names("skill")
    if not names:
        raise InputError("'skill' is missing; give the skill's id, or a list of ids used together")
    origin: Any = asked.choice("origin", ORIGINS, "agent")
    arm: Any = asked.choice("arm", get_args(Arm), "use")
    outcome = desk.router().record(
        asked.text("route_id"),
        names[0] if len(names) == 1 else names,
        asked.share("success"),
        tokens=asked.number("tokens", None, 0, 10**9),
        arm=arm,
        origin=origin,
        repeat=asked.number("repeat", 0, 0, 10**6) or 0,
    )
    return 201, wire.recorded(outcome)


def bank(desk: Desk, asked: Asked) -> Answer:
    """`GET /v1/bank`: evidence per skill on one stack, or the list of stacks."""
    stack = asked.maybe("stack")
    stacks = desk.bank.stacks()
    shown = standings(desk, stack) if stack is not None else ()
    return 200, {
        "schema": "metier-bank-standing-v1",
        "stacks": stacks,
        "stack": stack,
        "skills": [
            {
                "skills": list(s.skills), "n": s.n, "mu0": s.mu0, "mu1": s.mu1, "tau": s.tau,
                "interval": None if s.interval is None else list(s.interval), "stale": s.stale,
                "helped": s.helped, "unchanged": s.unchanged, "harmed": s.harmed,
                "agent": s.tally.agent, "single": s.tally.single, "unjudged": s.tally.unjudged,
            }
            for s in shown
        ],
    }  # fmt: skip


def health(desk: Desk) -> Answer:
    """`GET /healthz`: alive. Says nothing about the library, so that it needs no key."""
    return 200, {"schema": "metier-health-v1", "status": "ok"}


def gauges(desk: Desk) -> Mapping[str, tuple[str, float]]:
    """What `/metrics` adds to the counters."""
    try:
        skills = len(desk.shop.library.skills)
    except MetierError:
        skills = 0
    return {
        "metier_skills": ("Skills in the current index.", float(skills)),
        "metier_index_complete": ("Whether the index has vectors.", float(desk.shop.complete())),
        "metier_waiting": ("Routes under way or waiting.", float(desk.routing.pending)),
    }
