"""How an answer or an error becomes HTTP: JSON for programs, a page for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from metier.edge import wire
from metier.edge.web import pages
from metier.edge.web.crew import Busy, TooSlow
from metier.edge.web.guard import Refusal, TooLarge
from metier.edge.web.limits import ANSWER_SECONDS, BODY_BYTES, BODY_SECONDS
from metier.errors import BankError, ForbiddenPath, IndexProblem, InputError, MetierError, NotFound, StoreError

_MACHINE = ("/v1/", "/metrics", "/healthz", "/openapi.json")
_STATUS: tuple[tuple[type[MetierError], int, str], ...] = (
    (NotFound, 404, "not-found"),
    (ForbiddenPath, 403, "forbidden-path"),
    (InputError, 400, "bad-request"),
    (BankError, 400, "bad-outcome"),
    (IndexProblem, 503, "no-index"),
    (StoreError, 503, "no-store"),
)
"""What an error of ours means to a client; any other of ours is a 500 that says what it says."""


def json_response(status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """One JSON object."""
    return Response(dumped(value), status_code=status, media_type="application/json", headers=headers)


def dumped(value: Mapping[str, Any]) -> bytes:
    """One JSON object as UTF-8; half a surrogate pair in a skill's text becomes '?'."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def refused(
    scope: Mapping[str, Any],
    refusal: Refusal,
    choices: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A refusal in the form that the asker of this path reads."""
    more = {**(headers or {}), **({"www-authenticate": "Bearer"} if refusal.status == 401 else {})}
    if refusal.status in (400, 408, 413):
        more["connection"] = "close"  # what is still coming is not worth reading
    if not str(scope["path"]).startswith(_MACHINE):
        return pages.refused(refusal, choices, more)
    return json_response(refusal.status, wire.error(refusal.code, refusal.message, choices), more)


async def _http(request: Request, error: Exception) -> Response:
    """What starlette itself refuses: unknown paths and methods, and our own `HTTPException`s."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = {
        404: ("no-such-path", f"there is nothing at {request.url.path[:120]!r}"),
        405: ("wrong-method", f"{request.method} does not work here"),
    }.get(status, ("refused", str(getattr(error, "detail", ""))))
    return refused(request.scope, Refusal(status, *said), headers=getattr(error, "headers", None))


async def _ours(request: Request, error: Exception) -> Response:
    status, code = next(((s, c) for kind, s, c in _STATUS if isinstance(error, kind)), (500, "failed"))
    return refused(request.scope, Refusal(status, code, str(error)), getattr(error, "choices", ()))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the number is for the counters


def _always(
    status: int, code: str, message: str, **headers: str
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        return refused(request.scope, Refusal(status, code, message), headers=headers)

    return answer


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _http,
    MetierError: _ours,
    Busy: _always(503, "busy", "too many requests are waiting; try again in a second", **{"retry-after": "1"}),
    TooSlow: _always(504, "too-slow", f"no answer within {ANSWER_SECONDS:g} s; ask for less, or try again"),
    TooLarge: _always(413, "too-large", f"the body has over {BODY_BYTES:,} bytes; send less"),
    # before Python 3.11 not the built-in TimeoutError
    asyncio.TimeoutError: _always(408, "slow-body", f"the body did not arrive within {BODY_SECONDS:g} s"),
    ClientDisconnect: _gone,
    Exception: _always(500, "broken", "this is a fault of metier; the server's log has the details"),
}
