"""Plots as inline SVG: numbers in, a string out, no script and no inline style (the page's CSP forbids both).

Colours come from classes in `style.css`, so that a plot follows light and dark. Every figure has a title for screen
readers; the tables beside the plots carry the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Point:
    """A mark at (x, y), with an interval on y where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""
    size: float = 4.0
    tone: str = "accent"


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale between two values, with the ticks to draw and how to write them."""

    low: float
    high: float
    ticks: tuple[float, ...]
    write: Callable[[float], str]
    title: str = ""

    def at(self, value: float, start: float, length: float) -> float:
        """Where `value` lies on a line that begins at `start`; values outside lie on its ends."""
        span = self.high - self.low
        part = 0.5 if span <= 0 else (min(max(value, self.low), self.high) - self.low) / span
        return start + part * length


def axis(values: Sequence[float], write: Callable[[float], str], title: str = "", *, zero: bool = False) -> Axis:
    """A scale that holds all finite values, with about five round ticks; `zero` makes it begin or end at 0."""
    real = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(real), max(real)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-12:
        low, high = low - (0.0 if zero and low == 0 else 0.5), high + 0.5
    step = _round_step((high - low) / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, write, title)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999)


def percent(value: float) -> str:
    """`0.314` → `31%`."""
    return f"{100 * value:.0f}%"


def signed(value: float) -> str:
    """`0.31` → `+0.31`, with a true minus sign."""
    return f"{value:+.2f}".replace("-", "−")


def compact(value: float) -> str:
    """`12345` → `12.3k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


# ----------------------------------------------------------------------------------------------------- small marks


def bar(part: float, tone: str = "accent", *, width: int = 96, label: str = "") -> str:
    """A thin bar filled to `part` (0..1)."""
    filled = round(min(max(part, 0.0), 1.0) * width, 1)
    return _svg(
        width,
        6,
        f'<rect class="track" width="{width}" height="6" rx="3"/>'
        f'<rect class="{tone}" width="{filled}" height="6" rx="3"/>',
        label or percent(part),
        kind="bar",
    )


def interval(low: float, middle: float, high: float, *, width: int = 150) -> str:
    """A dot with its interval on a fixed scale from −1 to +1, the zero line marked."""
    scale = Axis(-1.0, 1.0, (), signed)
    a, m, b = (round(scale.at(v, 4, width - 8), 1) for v in (low, middle, high))
    tone = "load" if low > 0 else "harm" if high < 0 else "plain"
    zero = width / 2
    return _svg(
        width,
        18,
        f'<line class="rule" x1="4" x2="{width - 4}" y1="9" y2="9"/><line class="zero" x1="{zero}" x2="{zero}" y1="1"'
        f' y2="17"/><line class="whisker {tone}" x1="{a}" x2="{b}" y1="9" y2="9"/>'
        f'<circle class="{tone}" cx="{m}" cy="9" r="4"/>',
        f"{signed(middle)}, between {signed(low)} and {signed(high)}",
        kind="interval",
    )


def shares(parts: Sequence[tuple[str, float, str]], *, width: int = 150, height: int = 10) -> str:
    """One bar cut into (label, amount, tone) shares; empty when nothing was counted."""
    total = sum(amount for _, amount, _ in parts)
    x, drawn = 0.0, []
    for _, amount, tone in parts:
        wide = width * amount / total if total else 0.0
        if wide > 0:
            drawn.append(f'<rect class="{tone}" x="{x:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{height}"/>')
        x += wide
    said = ", ".join(f"{label} {amount:g}" for label, amount, _ in parts)
    return _svg(width, height, "".join(drawn) or f'<rect class="track" width="{width}" height="{height}"/>', said)


# ------------------------------------------------------------------------------------------------------------ plots

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 40
"""Room around the plotting area for tick labels and axis titles."""


def scatter(
    points: Sequence[Point], x: Axis, y: Axis, title: str, *, diagonal: bool = False, size: tuple[int, int] = (420, 280)
) -> str:
    """Marks with whiskers and labels; `diagonal` draws the line on which x equals y."""
    width, height = size
    inner = (width - _LEFT - _RIGHT, height - _TOP - _BOTTOM)
    drawn = [_frame(x, y, size)]
    if diagonal:
        ends = [max(x.low, y.low), min(x.high, y.high)]
        a, b = (_place(v, v, x, y, inner) for v in ends)
        drawn.append(f'<line class="diagonal" x1="{a[0]}" y1="{a[1]}" x2="{b[0]}" y2="{b[1]}"/>')
    for p in points:
        px, py = _place(p.x, p.y, x, y, inner)
        if p.low is not None and p.high is not None:
            _, top = _place(p.x, p.high, x, y, inner)
            _, bottom = _place(p.x, p.low, x, y, inner)
            drawn.append(f'<line class="whisker {p.tone}" x1="{px}" x2="{px}" y1="{top}" y2="{bottom}"/>')
        drawn.append(f'<circle class="{p.tone}" cx="{px}" cy="{py}" r="{p.size:.1f}"/>')
        if p.label:
            end = px > width * 0.66
            drawn.append(
                f'<text class="mark" x="{px + (-9 if end else 9)}" y="{py - 7}"'
                f' text-anchor="{"end" if end else "start"}">{escape(p.label)}</text>'
            )
    return _svg(width, height, "".join(drawn), title, kind="plot")


def lines(
    series: Sequence[tuple[str, str, Sequence[Point]]],
    x: Axis,
    y: Axis,
    title: str,
    *,
    size: tuple[int, int] = (640, 220),
) -> str:
    """(name, tone, points) as lines, each with the band of its intervals behind it."""
    width, height = size
    inner = (width - _LEFT - _RIGHT, height - _TOP - _BOTTOM)
    drawn = [_frame(x, y, size)]
    for _, tone, points in series:
        banded = [p for p in points if p.low is not None and p.high is not None]
        if len(banded) > 1:
            there = [_place(p.x, p.high or 0.0, x, y, inner) for p in banded]
            back = [_place(p.x, p.low or 0.0, x, y, inner) for p in reversed(banded)]
            drawn.append(f'<polygon class="band {tone}" points="{_path([*there, *back])}"/>')
        at = [_place(p.x, p.y, x, y, inner) for p in points]
        drawn.append(f'<polyline class="line {tone}" points="{_path(at)}"/>')
        if at:
            drawn.append(f'<circle class="{tone}" cx="{at[-1][0]}" cy="{at[-1][1]}" r="3"/>')
    return _svg(width, height, "".join(drawn), title, kind="plot")


def bars(
    rows: Sequence[tuple[str, float, str, str]], title: str, *, reach: Sequence[float] = (), width: int = 460
) -> str:
    """Horizontal bars: (label, value, what is written at its end, tone), longest = full width.

    `reach` holds one larger value a row, drawn faintly behind its bar (a 95th percentile behind a median).
    """
    far = list(reach) or [value for _, value, _, _ in rows]
    top = max([*far, 1e-12])
    room, row = width - 230, 26
    drawn = []
    for n, ((label, value, said, tone), end) in enumerate(zip(rows, far, strict=True)):
        y = n * row
        long, behind = (max(round(room * max(v, 0.0) / top, 1), 1.0) for v in (value, end))
        drawn.append(
            f'<text class="mark" x="72" y="{y + 17}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="{tone} faint" x="80" y="{y + 6}" width="{behind}" height="14" rx="2"/>'
            f'<rect class="{tone}" x="80" y="{y + 6}" width="{long}" height="14" rx="2"/>'
            f'<text class="tick" x="{86 + max(long, behind)}" y="{y + 17}">{escape(said)}</text>'
        )
    return _svg(width, max(len(rows), 1) * row, "".join(drawn), title, kind="plot")


def slope(rows: Sequence[tuple[str, int, int, str]], before: str, after: str, *, width: int = 460) -> str:
    """(name, rank before, rank after, tone): a line for each from the left rank to the right one."""
    if not rows:
        return ""
    places = sorted({b for _, b, _, _ in rows} | {a for _, _, a, _ in rows})
    at = {rank: 34 + n * 22 for n, rank in enumerate(places)}
    height, left, right = 34 + len(places) * 22, 60, 170
    drawn = [
        f'<text class="tick" x="{left}" y="14" text-anchor="middle">{escape(before)}</text>'
        f'<text class="tick" x="{right}" y="14" text-anchor="middle">{escape(after)}</text>'
    ]
    for name, b, a, tone in rows:
        drawn.append(
            f'<line class="line {tone}" x1="{left + 8}" x2="{right - 8}" y1="{at[b] - 4}" y2="{at[a] - 4}"/>'
            f'<text class="tick" x="{left - 2}" y="{at[b]}" text-anchor="end">{b}</text>'
            f'<text class="mark" x="{right}" y="{at[a]}">{a}  {escape(_short(name, 36))}</text>'
        )
    return _svg(width, height, "".join(drawn), f"rank after {before} and after {after}", kind="plot")


def _frame(x: Axis, y: Axis, size: tuple[int, int]) -> str:
    """Grid lines, tick labels and axis titles."""
    width, height = size
    right, bottom = width - _RIGHT, height - _BOTTOM
    inner = (width - _LEFT - _RIGHT, height - _TOP - _BOTTOM)
    parts = []
    for tick in y.ticks:
        _, at = _place(x.low, tick, x, y, inner)
        tone = "zero" if tick == 0 and y.low < 0 else "grid"
        parts.append(
            f'<line class="{tone}" x1="{_LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
            f'<text class="tick" x="{_LEFT - 7}" y="{at + 3.5}" text-anchor="end">{escape(y.write(tick))}</text>'
        )
    for tick in x.ticks:
        at, _ = _place(tick, y.low, x, y, inner)
        parts.append(
            f'<text class="tick" x="{at}" y="{bottom + 15}" text-anchor="middle">{escape(x.write(tick))}</text>'
        )
    parts.append(
        f'<text class="tick" x="{(_LEFT + right) / 2}" y="{height - 6}" text-anchor="middle">{escape(x.title)}</text>'
        f'<text class="tick" transform="translate(12 {(_TOP + bottom) / 2}) rotate(-90)"'
        f' text-anchor="middle">{escape(y.title)}</text>'
    )
    return "".join(parts)


def _place(vx: float, vy: float, x: Axis, y: Axis, inner: tuple[int, int]) -> tuple[float, float]:
    wide, high = inner
    return round(x.at(vx, _LEFT, wide), 1), round(_TOP + high - y.at(vy, 0, high), 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{a},{b}" for a, b in points)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _svg(width: int, height: int, inside: str, title: str, *, kind: str = "mark") -> str:
    return (
        f'<svg class="figure {kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="{escape(title)}">{inside}</svg>'
    )
