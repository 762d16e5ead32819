"""A route in words a person understands: who is first and why, what the agent would get, what is amiss."""

from __future__ import annotations

from collections.abc import Sequence

from metier.edge import wire
from metier.edge.cli.screen import Screen, clean
from metier.text import one_line
from metier.types import Candidate, Reason, Route, Slate

EXPLAINED = 3
"""Candidates shown with the reasons of every stage; the others take two lines each, so that ten fit a screen."""
LINES_SHOWN = 16
"""Lines of the agent's text that a person is shown; `--text-only` prints it whole."""
REASONS: dict[Reason, str] = {
    "gain": "it helped on tasks like this",
    "no-gain": "it did not help on tasks like this",
    "no-evidence": "no evidence yet",
    "low-support": "too little evidence",
    "stale": "measured before its text changed",
    "missing-requirement": "cannot run here",
    "cost": "too long without evidence",
    "manual-only": "only when asked for by name",
    "untrusted": "from a source that is not trusted",
    "disabled": "switched off",
    "explore": "withheld, to see what happens without it",
    "error": "the gate failed",
    "safety-critical": "you marked it safety-critical",
}


def explain(route: Route, screen: Screen, *, k: int, reasons: int = EXPLAINED) -> None:
    """The first `k` candidates, `reasons` of them with all their evidence, and the text for the agent."""
    slate = route.slate
    for warning in route.warnings:
        screen.note(f"warning: {warning}")
    if slate.note:
        screen.print(screen.style(clean(slate.note), "yellow"))
    said = _said_of_all(slate)
    twice = _repeated([c.skill.name for c in slate.candidates[:k]])
    previous: float | None = None
    for rank, candidate in enumerate(slate.candidates[:k], start=1):
        tie = previous is not None and candidate.score == previous
        _headline(candidate, " =" if tie else f"{rank:2d}", screen, full_id=candidate.skill.name in twice)
        if rank <= reasons:
            _reasons(candidate, screen, said)
        else:
            _witness(candidate, screen)
        previous = candidate.score
    if len(slate.candidates) > k:
        screen.print(screen.style(f"   … {len(slate.candidates) - k} more on the slate (-k shows more)", "dim"))
    if len(slate.cover) > 1:
        names = {c.skill.id: c.skill.name for c in slate.candidates}
        screen.print(f"Together these cover the request: {', '.join(clean(names[i]) for i in slate.cover)}")
    _what_loads(slate, screen)
    _for_the_agent(route, screen)


def _said_of_all(slate: Slate) -> str | None:
    """What the gate says of every candidate alike: once, at the end, is enough."""
    said = {e.why.split(" · ")[0] for c in slate.candidates for e in c.evidence if e.stage == "gate"}
    return said.pop() if len(said) == 1 and len(slate.candidates) > 1 else None


def _repeated(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def _headline(candidate: Candidate, place: str, screen: Screen, *, full_id: bool) -> None:
    relevance = wire.relevance(candidate)
    percent = "    " if relevance is None else f"{100 * relevance:3.0f}%"
    verdict = candidate.verdict
    level = screen.style(verdict.level, {"load": "green", "offer": "cyan", "skip": "dim"}[verdict.level])
    gain = "" if verdict.tau is None else f", gain {verdict.tau:+.2f} from {verdict.support}"
    name = screen.style(one_line(candidate.skill.name, 48), "bold")
    which = f"  {clean(candidate.skill.id)}" if full_id else ""
    screen.print(f"{place}. {percent}  {name}  [{level}: {REASONS[verdict.reason]}{gain}]{which}")
    screen.print(f"            {one_line(candidate.skill.description, max(40, screen.width - 14))}")


def _reasons(candidate: Candidate, screen: Screen, said: str | None) -> None:
    for evidence in candidate.evidence:
        why = evidence.why
        if said is not None and evidence.stage == "gate":
            why = why.removeprefix(said).removeprefix(" · ")
        if why:
            screen.print(screen.style(f"            {evidence.stage}: {one_line(why, 240)}", "dim"))


def _witness(candidate: Candidate, screen: Screen) -> None:
    """What the reranker says of a candidate further down, where it read it."""
    for evidence in candidate.evidence:
        if evidence.stage == "rerank" and "via" in evidence.detail:
            screen.print(screen.style(f"            {one_line(evidence.why, max(40, screen.width - 14))}", "dim"))


def _what_loads(slate: Slate, screen: Screen) -> None:
    if not slate.candidates or any(c.verdict.level == "load" for c in slate.candidates):
        return
    from metier.gate.words import what_earns_it

    earns = what_earns_it(slate) or "a skill earns being loaded by paired outcomes: metier record, metier collect"
    screen.print(f"Nothing is loaded by itself yet. {earns}")


def _for_the_agent(route: Route, screen: Screen) -> None:
    if route.text:
        took = sum(s.ms for s in route.slate.steps)
        screen.print(f"\nWhat the agent gets ({route.tokens} tokens, route {route.id}, {took:.1f} ms):")
        lines = clean(route.text).splitlines()
        for each in lines[:LINES_SHOWN]:
            screen.print(f"  | {one_line(each, max(60, screen.width - 4))}" if each.strip() else "  |")
        if len(lines) > LINES_SHOWN:
            screen.print(f"  | … {len(lines) - LINES_SHOWN} more lines: metier route --text-only")
    elif route.slate.candidates:
        screen.print(f"\nThe agent gets nothing (route {route.id}).")
