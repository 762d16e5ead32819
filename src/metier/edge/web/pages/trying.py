"""*Try*: one request, its slate stage by stage, what the agent would get, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from metier.assemble.stages import STAGES
from metier.edge import wire
from metier.edge.web import api, figures, log
from metier.edge.web.desk import Desk
from metier.edge.web.pages.render import Visit, page, seen_other
from metier.types import Candidate, Route

FIRST = 10
"""Candidates shown at once; the rest of the slate opens on demand."""
KEPT = 64
"""Tried routes kept in full, so that going back shows them again; older ones are read from the log."""
COMPARED = 8
"""Lines of the chart of ranks: more cross into a tangle."""
TONES = {"load": "load", "offer": "offer", "skip": "skip"}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate as the page shows it."""

    rank: int
    before: int | None
    tie: bool
    candidate: Candidate
    relevance: float | None
    needs: Sequence[Mapping[str, Any]]
    """What the request asks for, how well this skill meets it (0..1), and by what."""
    requirements: Sequence[Mapping[str, Any]]
    """What the skill itself needs, and whether it is there."""


def show(desk: Desk, visit: Visit) -> Response:
    """`GET /`: the form, and the route that was tried, if one was."""
    wanted = visit.get("route")
    if not wanted:
        return _page(desk, None, {})
    kept = desk.tried.get(wanted)
    if kept is not None:
        return _page(desk, kept[0], kept[1])
    if log.one(desk.shop.store, wanted) is not None:
        return seen_other(f"/routes/{wanted}")
    return _page(desk, None, {}, f"route {wanted} is no longer kept; try the request again")


def send(desk: Desk, visit: Visit) -> Response:
    """`POST /try`: the request is routed; the page of its route comes next."""
    form = {name: visit.get(name) for name in ("task", "tools", "stack", "only")}
    if not form["task"].strip():
        return _page(desk, None, form, "write what you want done first")
    fields: dict[str, Any] = {"task": form["task"], "stack": form["stack"]}
    if form["tools"].strip():
        fields["tools"] = [t for t in form["tools"].replace(",", " ").split() if t]
    if form["only"]:
        fields["only"] = form["only"].split(",")
    route = api.routed(desk, api.Asked(fields, visit.local))
    desk.tried[route.id] = (route, form)
    while len(desk.tried) > KEPT:
        desk.tried.popitem(last=False)
    return seen_other("/", route=route.id)


def _page(desk: Desk, route: Route | None, form: dict[str, str], note: str = "") -> Response:
    chain = [",".join(STAGES[: n + 1]) for n in range(len(STAGES))]
    values: dict[str, Any] = {"form": form, "said": note, "route": route, "chain": chain}
    if route is not None:
        rows = explained(route)
        bodies = [r.candidate.skill.body_tokens for r in rows[:5]]
        values |= {
            "rows": rows, "first": FIRST, "levels": _levels(route),
            "slope": ranks(rows), "times": times(route), "total_ms": sum(s.ms for s in route.slate.steps),
            "all_bodies": sum(bodies), "five": len(bodies),
            "loaded": [r for r in rows if r.candidate.verdict.level == "load"],
            "names": {r.candidate.skill.id: r.candidate.skill.name for r in rows},
        }  # fmt: skip
    return page(desk, "try.html", "/", **values)


def explained(route: Route) -> list[Row]:
    """The slate's candidates with their rank after the first stage and after the last."""
    candidates = route.slate.candidates
    first = {}
    for c in candidates:
        found = next((e for e in c.evidence if e.stage == "retrieve"), None)
        if found is not None:
            first[c.skill.id] = found.score
    order = sorted(first, key=lambda i: (-first[i], i))
    before = {skill_id: n for n, skill_id in enumerate(order, start=1)}
    rows = []
    for n, c in enumerate(candidates, start=1):
        detail = {e.stage: e.detail for e in c.evidence}
        rows.append(
            Row(
                rank=n,
                before=before.get(c.skill.id),
                tie=n > 1 and candidates[n - 2].score == c.score,
                candidate=c,
                relevance=wire.relevance(c),
                needs=needs(detail.get("rerank", {})),
                requirements=[dict(r) for r in detail.get("gate", {}).get("requirements", ())],
            )
        )
    return rows


def needs(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the request asks for and how well the witness meets it, from the reranker's evidence; [] without any."""
    labels, branches, via = (detail.get(name, ()) for name in ("requirements", "branches", "via"))
    if not len(labels) == len(branches) == len(via):
        return []
    return [
        {"text": str(label), "via": str(by or ""), "met": float(met), "mark": figures.bar(float(met), width=60)}
        for label, met, by in zip(labels, branches, via, strict=True)
    ]


def _levels(route: Route) -> str:
    found: list[str] = [c.verdict.level for c in route.slate.candidates]
    return figures.shares([(level, found.count(level), TONES[level]) for level in TONES], width=240)


def ranks(rows: Sequence[Row]) -> str:
    """Where the first candidates stood before and after reranking; empty when nothing moved."""
    shown = [r for r in rows[:COMPARED] if r.before is not None]
    if all(r.before == r.rank for r in shown):
        return ""
    lines = [(r.candidate.skill.name, r.before or 0, r.rank, TONES[r.candidate.verdict.level]) for r in shown]
    return figures.slope(lines, "found", "final")


def times(route: Route) -> str:
    """Milliseconds per stage as bars."""
    steps = [(s.stage, s.ms, f"{s.ms:.1f} ms", "harm" if s.error else "accent") for s in route.slate.steps]
    return figures.bars(steps, "Milliseconds per stage: " + ", ".join(f"{n} {said}" for n, _, said, _ in steps))
