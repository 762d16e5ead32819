"""*Evidence*: the gain of each skill on one stack, with its interval, and whether predictions came true."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from metier.edge.web import figures, standing
from metier.edge.web.desk import Desk
from metier.edge.web.pages.render import Visit, page
from metier.types import UNKNOWN_STACK


def show(desk: Desk, visit: Visit) -> Response:
    """`GET /evidence`: standings, calibration, success against tokens."""
    stacks = desk.bank.stacks()
    stack = chosen(desk, visit, stacks)
    values: dict[str, Any] = {"stacks": stacks, "stack": stack, "unknown": UNKNOWN_STACK, "rows": (), "board": None}
    if stack:
        rows = standing.standings(desk, stack)
        found = board_of(desk, stack)
        values |= {
            "rows": [(s, gain_mark(s), tally_mark(s)) for s in rows],
            "board": found, "used": desk.used(),
            "eta": desk.shop.config.eta,
        }  # fmt: skip
        if found is not None:
            values |= {"calibration": calibration(found), "tradeoff": tradeoff(found)}
    return page(desk, "evidence.html", "/evidence", **values)


def chosen(desk: Desk, visit: Visit, stacks: list[str]) -> str:
    """The stack asked for, else the configured one, else the first that says what it is."""
    for name in (visit.get("stack"), desk.shop.config.stack):
        if name in stacks:
            return name
    return next((s for s in stacks if s != UNKNOWN_STACK), stacks[0] if stacks else "")


def board_of(desk: Desk, stack: str) -> standing.Board | None:
    """The board of a stack, computed again only when the bank has news."""
    newest = desk.shop.store.rows("SELECT coalesce(max(n), 0) AS n FROM outcomes")[0]["n"]
    key = (stack, newest, desk.shop.opened().folder, desk.shop.config.eta)
    made = desk.latest(f"board {stack}").of(key, lambda: (standing.board(desk, stack),))
    return made[0]  # type: ignore[no-any-return]


def gain_mark(s: standing.Standing) -> str:
    """The gain as a dot with its interval."""
    return "" if s.tau is None or s.interval is None else figures.interval(s.interval[0], s.tau, s.interval[1])


def tally_mark(s: standing.Standing) -> str:
    """Helped, no change, harmed as shares."""
    parts = [("helped", s.helped, "load"), ("no change", s.unchanged, "skip"), ("harmed", s.harmed, "harm")]
    return figures.shares(parts, width=110)


def calibration(board: standing.Board) -> str:
    """Predicted gain against what came of it; on the diagonal a prediction was right."""
    points = [figures.Point(b.predicted, b.observed, b.low, b.high, "", 3 + min(b.n, 40) ** 0.5) for b in board.bins]
    x = figures.axis([v for b in board.bins for v in (b.predicted,)], figures.signed, "predicted gain")
    y = figures.axis([v for b in board.bins for v in (b.low, b.high)], figures.signed, "observed gain")
    return figures.scatter(points, x, y, "Observed against predicted gain, by groups of tasks", diagonal=True)


def tradeoff(board: standing.Board) -> str:
    """Success against tokens of never, always, and the gate; empty where tokens are unknown."""
    known = [p for p in board.policies if p.tokens is not None]
    if len(known) < 2:
        return ""
    tones = {"the gate": "accent"}
    points = [
        figures.Point(p.tokens or 0.0, p.success, label=p.name, size=6, tone=tones.get(p.name, "plain")) for p in known
    ]
    x = figures.axis([p.x for p in points], figures.compact, "tokens a task")
    y = figures.axis([p.y for p in points], figures.percent, "success")
    return figures.scatter(points, x, y, "Success against tokens: " + ", ".join(p.name for p in known))
