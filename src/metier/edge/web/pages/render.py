"""Templates to HTML. Whatever a template prints is escaped and stripped of control and reordering characters."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from metier.edge.web import figures
from metier.edge.web.api import Asked
from metier.edge.web.desk import Desk
from metier.edge.web.guard import Refusal
from metier.errors import MetierError
from metier.text import one_line, printable

_PACKAGE = "metier.edge.web"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_HTML_HEADERS = {"vary": "Cookie"}
NAV = (
    ("/", "Try"),
    ("/library", "Library"),
    ("/evidence", "Evidence"),
    ("/routes", "Routes"),
    ("/operations", "Operations"),
)


@dataclass(frozen=True)
class Visit:
    """What a browser asked a page for."""

    query: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    local: bool = True

    def get(self, name: str, default: str = "") -> str:
        """A field of the query or form, without control characters (SQLite's LIKE would stop at a NUL)."""
        return printable(self.query.get(name, default))

    def number(self, name: str, default: int = 0) -> int:
        """A whole number of the query; the default for anything else."""
        value = self.query.get(name, "")
        return int(value[:9]) if value.isascii() and value.isdigit() else default

    @property
    def asked(self) -> Asked:
        """The same fields, read strictly."""
        return Asked(dict(self.query), self.local)


Reading = Callable[[Desk, Visit], Response]


def page(desk: Desk, template: str, at: str, *, status: int = 200, **values: Any) -> Response:
    """The template as HTML, inside the frame with navigation and the state of the index."""
    return _html(template, status, {}, at=at, state=_state(desk), **values)


def refused(refusal: Refusal, choices: tuple[str, ...] = (), headers: Mapping[str, str] | None = None) -> Response:
    """A refusal or an error for a person."""
    return _html(
        "refused.html", refusal.status, dict(headers or {}), at="", state=None, refusal=refusal, choices=choices
    )


def seen_other(path: str, **query: str) -> Response:
    """After a form: the page to look at next."""
    return RedirectResponse(path + ("?" + urlencode(query) if query else ""), status_code=303)


def _html(template: str, status: int, headers: dict[str, str], **values: Any) -> Response:
    body = _templates().get_template(template).render(nav=NAV, now=time.time(), **values)
    return HTMLResponse(body.encode("utf-8", "replace"), status_code=status, headers={**_HTML_HEADERS, **headers})


def _state(desk: Desk) -> dict[str, Any]:
    """What every page's frame shows."""
    try:
        return {
            "skills": len(desk.shop.library.skills), "complete": desk.shop.complete(), "problem": None,
            "encoder": desk.shop.config.encoder, "home": desk.shop.config.home,
        }  # fmt: skip
    except MetierError as error:
        return {"skills": 0, "complete": False, "problem": str(error), "encoder": "", "home": desk.shop.config.home}


@cache
def static(name: str) -> tuple[bytes, str] | None:
    """A file of `static/` and its media type; None for any other name."""
    known = {path.name: path for path in files(_PACKAGE).joinpath("static").iterdir() if path.is_file()}
    found, kind = known.get(name), _TYPES.get(name.rpartition(".")[2])
    return (found.read_bytes(), kind) if found is not None and kind is not None else None


@cache
def _address(name: str) -> str:
    """Where a static file is, with a mark that changes when it does: it may be kept for ever."""
    found = static(name)
    if found is None:
        raise KeyError(name)
    return f"/static/{name}?v={hashlib.sha256(found[0]).hexdigest()[:12]}"


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(static=_address, link=link, bar=figures.bar)
    made.filters.update(_FILTERS)
    return made


def _clean(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def link(path: str, **query: Any) -> str:
    """A path with those query fields that are not empty."""
    kept = {k: v for k, v in query.items() if v not in ("", None, 0)}
    return path + ("?" + urlencode(kept) if kept else "")


def when(at: float) -> str:
    """A moment in UTC, as people and `<time>` read it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def ago(at: float) -> str:
    """How long ago, in one unit."""
    seconds = max(0.0, time.time() - at)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


_FILTERS: dict[str, Callable[..., Any]] = {
    "percent": figures.percent,
    "signed": figures.signed,
    "compact": figures.compact,
    "extra": lambda value: f"{value:+,.0f}".replace("-", "−"),
    "thousands": lambda value: f"{value:,}",
    "ms": lambda value: f"{value:.1f}" if value < 100 else f"{value:.0f}",
    "line": one_line,
    "when": when,
    "ago": ago,
    "figure": Markup,  # for what `figures` drew, nothing else: it escaped its labels itself
}
