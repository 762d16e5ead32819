"""The fold: a task through the stages, timed, and never worse for the agent than without us.

The failure policy, stated once. The first stage fails → an empty slate whose note says why. A later one fails → the
slate as it was before it; where that stage is the gate, nothing is *loaded*: what would have been loaded is offered.
Disclosure fails → no text. A log that cannot be written, or a body that cannot be read, is a warning: the answer goes
out.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from metier.errors import MetierError, NotFound
from metier.late import dataclass, replace
from metier.types import (
    UNKNOWN_STACK,
    Arm,
    Candidate,
    Event,
    Origin,
    Outcome,
    Route,
    Skill,
    Slate,
    Stage,
    Step,
    Task,
    Verdict,
)

T = TypeVar("T")

REMEMBERED = 256
"""Routes a process keeps at hand, so that an outcome can name its request even where the log holds only a hash."""


class Shown(Protocol):
    """What disclosure returns; see `disclose.Disclosed`."""

    @property
    def slate(self) -> Slate: ...
    @property
    def text(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def loaded(self) -> tuple[Skill, ...]: ...
    @property
    def offered(self) -> tuple[Skill, ...]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Router:
    """Stages, disclosure and the log, put together by `assemble`; a router itself decides nothing."""

    stages: tuple[Stage, ...]
    disclose: Callable[[Slate, Any], Shown]
    skill: Callable[[str], Skill]
    """Name or id → the skill; `NotFound` with the choices otherwise. The one resolver (field report 16)."""
    text: Callable[[Skill, str | None, str], str]
    """(skill, resource or None, nonce) → fenced text of the body or the resource."""
    log: Callable[[Route], None] | None = None
    events: Callable[[Sequence[Event]], None] | None = None
    seen: Callable[[str], Any] | None = None
    """Session → what it was shown since it last compacted."""
    append: Callable[[Outcome], None] | None = None
    """Adds an outcome to the bank, fsynced."""
    logged: Callable[[str], Task | None] | None = None
    """Route id → its task, when the log still has it."""
    stack: str = UNKNOWN_STACK
    warnings: tuple[str, ...] = ()
    """What was amiss when the router was put together; every route repeats it."""
    close: Callable[[], None] = lambda: None
    _recent: OrderedDict[str, Route] = field(default_factory=OrderedDict, repr=False, compare=False)

    def route(
        self,
        text: str,
        *,
        tools: Iterable[str] | None = None,
        stack: str | None = None,
        family: str | None = None,
        session: str | None = None,
        local: bool = True,
    ) -> Route:
        """The ranked, judged slate for a request, and the text for the agent. Never raises for a request's text."""
        task = Task(
            text=text.encode("utf-8", "replace").decode("utf-8"),  # half a surrogate pair can be stored nowhere
            tools=None if tools is None else frozenset(tools),
            stack=stack or self.stack,
            family=family,
            session=session,
            local=local,
        )
        slate = run(self.stages, Slate(id="r_" + os.urandom(8).hex(), task=task))
        route = self._disclosed(slate)
        self._recent[route.id] = route
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return route

    def _disclosed(self, slate: Slate) -> Route:
        warnings = list(self.warnings)
        warnings += [f"{s.stage} failed: {s.error}" for s in slate.steps if s.error]
        seen = None
        if slate.task.session and self.seen:
            try:
                seen = self.seen(slate.task.session)
            except MetierError as error:
                warnings.append(f"the session's memory could not be read: {error}")
        shown, step = attempt("disclose", lambda: self.disclose(slate, seen))
        if shown is None:
            route = Route(
                slate.id,
                replace(slate, steps=(*slate.steps, step)),
                "",
                0,
                (*warnings, f"disclose failed: {step.error}"),
            )
            return self._written(route, (), ())
        done = replace(shown.slate, steps=(*shown.slate.steps, step))
        route = Route(slate.id, done, shown.text, shown.tokens, (*warnings, *shown.warnings))
        return self._written(route, shown.loaded, shown.offered)

    def _written(self, route: Route, loaded: Sequence[Skill], offered: Sequence[Skill]) -> Route:
        session, at = route.slate.task.session, time.time()
        happened = [Event(route.id, s.id, "loaded", at, session, s.digest) for s in loaded]
        happened += [Event(route.id, s.id, "offered", at, session, s.digest) for s in offered]
        try:
            if self.log:
                self.log(route)
            if self.events and happened:
                self.events(happened)
        except MetierError as error:
            return replace(route, warnings=(*route.warnings, f"the route could not be logged: {error}"))
        return route

    def load(self, route: Route | str | None, skill: str, resource: str | None = None) -> str:
        """The body, or one resource, of a skill: fenced text. What was loaded is an event of the route.

        Raises `NotFound` (no such skill or resource) and `ForbiddenPath` (a path that leaves the skill's folder).
        """
        known = self.recall(route) if isinstance(route, str) else route
        found = _on(known, skill) or self.skill(skill)
        text = self.text(found, resource, known.id if known else os.urandom(8).hex())
        if self.events and known:
            event = Event(known.id, found.id, "loaded", time.time(), known.slate.task.session, found.digest)
            try:
                self.events([event])
            except MetierError:
                return text  # the log is not worth the agent's answer
        return text

    def record(
        self,
        route: Route | str,
        skill: str | Sequence[str],
        success: float | None,
        *,
        tokens: int | None = None,
        arm: Arm = "use",
        origin: Origin = "person",
        repeat: int = 0,
    ) -> Outcome:
        """An outcome of the route is a row of the bank, on disk when this returns. Several skills are one bundle.

        Raises `NotFound` for an unknown route or skill and `BankError` for a value outside its range.
        """
        if self.append is None:
            raise MetierError("this router was opened without a bank; open it with a writable home to record outcomes")
        route_id = route if isinstance(route, str) else route.id
        known = self.recall(route) if isinstance(route, str) else route
        task = known.slate.task if known else self.logged(route_id) if self.logged else None
        if task is None:
            raise NotFound(f"route {route_id!r} is not in the log; use the route_id that `metier route --json` printed")
        names = [skill] if isinstance(skill, str) else list(skill)
        used = [_on(known, name) or self.skill(name) for name in names]
        outcome = Outcome(
            task=task.text,
            skills=tuple(s.id for s in used),
            digests=tuple(s.digest for s in used),
            stack=task.stack,
            arm=arm,
            success=success,
            tokens=tokens,
            family=task.family,
            repeat=repeat,
            at=time.time(),
            origin=origin,
            route=route_id,
        )
        self.append(outcome)
        return outcome

    def recall(self, route_id: str) -> Route | None:
        """A recent route of this process."""
        return self._recent.get(route_id)


def run(stages: Sequence[Stage], slate: Slate) -> Slate:
    """The slate after every stage, with a `Step` for each; a failing stage follows the policy above."""
    for position, stage in enumerate(stages):
        after, step = attempt(stage.name, lambda stage=stage, slate=slate: stage(slate))  # type: ignore[misc]
        if after is None:
            after = _without(stage.name, slate, first=position == 0, error=step.error or "")
        slate = replace(after, steps=(*after.steps, step))
    return slate


def attempt(name: str, act: Callable[[], T]) -> tuple[T | None, Step]:
    """What `act` returned, or None, and how long it took, with the error if it failed."""
    began = time.perf_counter()
    try:
        done, error = act(), None
    except Exception as failure:  # the one broad `except` outside edge/: whatever breaks, the agent gets an answer
        done, error = None, _said(failure)
    return done, Step(name, (time.perf_counter() - began) * 1000.0, error)


def _without(name: str, slate: Slate, *, first: bool, error: str) -> Slate:
    if first:
        return replace(slate, candidates=(), note=f"no skill could be looked up: {error}")
    if name != "gate":
        return slate
    return replace(slate, candidates=tuple(_held(c) for c in slate.candidates))


def _held(candidate: Candidate) -> Candidate:
    level = "offer" if candidate.verdict.level == "load" else candidate.verdict.level
    return replace(candidate, verdict=Verdict(level, "error"))


def _said(failure: Exception) -> str:
    text = str(failure) or type(failure).__name__
    return text if isinstance(failure, MetierError) else f"{type(failure).__name__}: {text}"


def _on(route: Route | None, skill: str) -> Skill | None:
    """The slate's skill of that id, or the only one of that name."""
    if route is None:
        return None
    skills = [c.skill for c in route.slate.candidates]
    exact = [s for s in skills if s.id == skill] or [s for s in skills if s.name == skill]
    return exact[0] if len(exact) == 1 else None
