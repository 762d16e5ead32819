"""*Routes*: the log with its filters, one route in full, and an outcome recorded by a person."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from metier.edge.web import api, figures, log
from metier.edge.web.desk import Desk
from metier.edge.web.pages.render import Visit, page, seen_other
from metier.errors import InputError, NotFound

JUDGED = {"yes": 1.0, "partly": 0.5, "no": 0.0}
"""What a person can say about an outcome without arithmetic."""


def show_names(route: log.Logged) -> list[str]:
    """The first candidates' names, for one line of the log."""
    return [str(c["name"]) for c in route.candidates[:3]]


def log_page(desk: Desk, visit: Visit) -> Response:
    """`GET /routes`: newest first, filtered, paged by cursor."""
    wanted = log.Filter(
        q=visit.get("q").strip(),
        source=visit.get("source"),
        stack=visit.get("stack"),
        level=visit.get("level"),
        before=visit.get("before"),
    )
    store = desk.shop.store
    rows, more = log.listed(store, wanted)
    sources, stacks = log.sources(store)
    return page(
        desk, "routes.html", "/routes", wanted=wanted, rows=rows, more=more, sources=sources, stacks=stacks,
        names=show_names, days=desk.shop.config.log_days, kept=desk.shop.config.log_text,
    )  # fmt: skip


def one(desk: Desk, visit: Visit) -> Response:
    """`GET /routes/{id}`: everything the log knows about one route."""
    return _one(desk, visit.path["id"], visit.get("recorded"))


def _one(desk: Desk, route_id: str, recorded: str = "", said: str = "", status: int = 200) -> Response:
    store = desk.shop.store
    found = log.one(store, route_id)
    if found is None:
        raise NotFound(
            f"route {route_id[:60]!r} is not in the log; it may be older than {desk.shop.config.log_days} days"
        )
    names = {str(c["id"]): str(c["name"]) for c in found.candidates}
    steps = [
        (str(s["stage"]), float(s["ms"]), f"{s['ms']:.1f} ms", "harm" if s.get("error") else "accent")
        for s in found.steps
    ]
    return page(
        desk, "route.html", "/routes", status=status, route=found, names=names, recorded=recorded, said=said,
        times=figures.bars(steps, "Milliseconds per stage"), events=log.happened(store, route_id),
        outcomes=log.judged(store, route_id), judged=JUDGED,
    )  # fmt: skip


def record(desk: Desk, visit: Visit) -> Response:
    """`POST /routes/{id}/outcome`: a person's word on how it went is on disk, then the route is shown again."""
    route_id, success = visit.path["id"], visit.get("success")
    try:
        if success not in JUDGED:
            raise InputError("say whether the task succeeded: yes, partly or no")
        fields: dict[str, Any] = {
            "route_id": route_id, "skill": visit.get("skill"), "success": JUDGED[success],
            "arm": visit.get("arm", "use"), "origin": "person", "tokens": visit.get("tokens") or None,
        }  # fmt: skip
        api.record(desk, api.Asked(fields))
    except InputError as error:
        if isinstance(error, NotFound) and log.one(desk.shop.store, route_id) is None:
            raise
        return _one(desk, route_id, said=str(error), status=400)
    desk.meter.outcomes["person"] += 1
    return seen_other(f"/routes/{route_id}", recorded="1")
