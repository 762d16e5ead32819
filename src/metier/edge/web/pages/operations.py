"""*Operations*: what an owner looks at once a week: is it worth it, is it quick, does it break, who pays their rent."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from metier.edge.web import figures, log, meter, standing
from metier.edge.web.desk import Desk
from metier.edge.web.pages import evidence
from metier.edge.web.pages.render import Visit, page

DAYS = 30
RENT = 20
"""Skills listed as candidates for retirement."""
OFTEN = 20
"""Offers after which a skill that was never loaded is worth a look."""


def show(desk: Desk, visit: Visit) -> Response:
    """`GET /operations`."""
    store, now = desk.shop.store, time.time()
    pulse, days = desk.counted("pulse", lambda: log.pulse(store)), log.daily(store, now, DAYS)
    stacks = desk.bank.stacks()
    stack = evidence.chosen(desk, visit, stacks)
    rows = standing.standings(desk, stack) if stack else ()
    used = log.use_by_skill(store)
    stages = [
        (name, log.quantile(ms, 0.5), log.quantile(ms, 0.95), log.quantile(ms, 0.99))
        for name, ms in pulse.stages.items()
    ]
    return page(
        desk, "operations.html", "/operations",
        pulse=pulse, days=DAYS, volume=volume(days), total=sum(n for _, n in days),
        stack=stack, stacks=stacks, board=evidence.board_of(desk, stack) if stack else None,
        stages=stages, latency=latency(stages),
        p50=log.quantile(pulse.totals, 0.5), p95=log.quantile(pulse.totals, 0.95), p99=log.quantile(pulse.totals, 0.99),
        tokens50=log.quantile(pulse.tokens, 0.5), crash_free=1 - pulse.failed / pulse.routes if pulse.routes else None,
        funnel=funnel(used), retire=retire(desk, rows, used), began=desk.meter.began, memory=meter.resident() / 1e6,
    )  # fmt: skip


def volume(days: list[tuple[int, int]]) -> str:
    """Routes a day."""
    points = [figures.Point(-ago, n) for ago, n in days]
    x = figures.Axis(-DAYS + 1, 0, (-28, -21, -14, -7, 0), lambda v: "today" if v == 0 else f"{-v:.0f} d ago")
    y = figures.axis([p.y for p in points], figures.compact, "routes a day", zero=True)
    return figures.lines([("routes", "accent", points)], x, y, f"Routes a day over the last {DAYS} days")


def latency(stages: list[tuple[str, float, float, float]]) -> str:
    """Median and 95th percentile of each stage."""
    rows = [(name, p50, f"{p50:.1f}, p95 {p95:.1f} ms", "accent") for name, p50, p95, _ in stages]
    title = "Median and 95th percentile of each stage in milliseconds"
    return figures.bars(rows, title, reach=[p95 for _, _, p95, _ in stages])


def funnel(used: dict[str, dict[str, int]]) -> str:
    """How often skills were offered, loaded, used."""
    total = {what: sum(counts.get(what, 0) for counts in used.values()) for what in ("offered", "loaded", "used")}
    tones = {"offered": "offer", "loaded": "load", "used": "accent"}
    return figures.bars([(w, n, f"{n:,}", tones[w]) for w, n in total.items()], "Skills offered, loaded and used")


def retire(desk: Desk, rows: tuple[standing.Standing, ...], used: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    """Skills that do not pay their rent: measured harm first, then many offers that nobody took (field report 26)."""
    found = []
    for s in rows:
        if s.interval is not None and s.interval[1] < 0:
            found.append(
                {"id": s.skills[0], "name": s.name, "why": f"harms: {figures.signed(s.tau or 0.0)} on {s.n} tasks"}
            )
        elif s.interval is not None and s.n >= 10 and s.interval[1] < 0.05:
            found.append({"id": s.skills[0], "name": s.name, "why": f"no gain to be seen on {s.n} tasks"})
    listed = {f["id"] for f in found}
    ignored = [
        (counts["offered"], skill)
        for skill, counts in used.items()
        if counts.get("offered", 0) >= OFTEN
        and not counts.get("loaded")
        and not counts.get("used")
        and skill not in listed
    ]
    for offers, skill in sorted(ignored, key=lambda pair: (-pair[0], pair[1])):
        known = standing.find(desk, skill)
        found.append(
            {"id": skill, "name": known.name if known else skill, "why": f"offered {offers} times, never loaded"}
        )
    return found[:RENT]
