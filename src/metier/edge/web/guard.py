"""Who may ask, and how much: every request passes here before any other code sees it.

1. Host     must be a name of this server, else a page elsewhere could reach it by DNS rebinding
2. Origin   when a browser states one it must be ours, and a request that changes something and comes with a cookie
            must state it (CSRF)
3. Key      a bearer token, or the cookie that a one-time link was exchanged for; other users of this machine have none
4. Size     a body above the limit is refused before it is read, one that lies about its size while it is read

An answer that comes before the body was read is sent at once, and the rest of the body is read and thrown away, within
bounds: a connection closed with bytes unread is reset, and the client would see no answer at all.

All answers carry headers that keep a page from running foreign script, being framed, or being cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "metier"
COOKIE_SECONDS = 30 * 86_400
"""A browser stays known for a month; deleting the home's `token` file ends all at once."""
LINK_SECONDS = 600.0
"""A one-time link that nobody opened is void after ten minutes."""
LINKS = 32
"""One-time links open at once; a new one drops the oldest."""
OPEN = ("/healthz", "/openapi.json", "/enter")
"""Paths that say nothing about the library and need no key."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
DRAIN_BYTES = 64_000_000
"""Of a body that nobody wants, what is read and thrown away; a client that sends more is cut off [ours]."""
DRAIN_SECONDS = 5.0
"""And for how long; a loopback carries gigabytes in this time."""
PAUSE_SECONDS = 0.5
"""Who sends nothing for so long waits for the answer's end, or means harm [ours]."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class TooLarge(Exception):
    """A body went over its limit while it was read."""


@dataclass(slots=True)
class Keys:
    """What opens the door: tokens, and one-time links that become a cookie."""

    tokens: tuple[str, ...]
    """The home's token, and `METIER_TOKEN` where it is set; any of them will do."""
    _links: dict[str, float] = field(default_factory=dict)

    def bearer(self, value: str) -> bool:
        """Whether `value` is one of the tokens; takes the same time for any wrong one."""
        given = value.encode("utf-8", "surrogateescape")
        same = [hmac.compare_digest(given, token.encode("utf-8")) for token in self.tokens]
        return any(same)

    def link(self, now: float | None = None) -> str:
        """A fresh code for `/enter?code=…`, good once."""
        now = time.time() if now is None else now
        self._links = dict(list(self._links.items())[-(LINKS - 1) :])
        code = secrets.token_urlsafe(24)
        self._links[code] = now + LINK_SECONDS
        return code

    def redeem(self, code: str, now: float | None = None) -> str | None:
        """The cookie for a code, once; None for one that is unknown, used or too old."""
        until = self._links.pop(code, 0.0)
        now = time.time() if now is None else now
        return self.cookie(now) if until > now else None

    def cookie(self, now: float) -> str:
        """A cookie's value: when it ends, and a signature under the first token. It is not the token itself."""
        until = str(int(now + COOKIE_SECONDS))
        return f"{until}.{self._sign(until)}"

    def knows(self, cookie: str, now: float | None = None) -> bool:
        """Whether this server (or an earlier one of the same home) gave that cookie and it has not ended."""
        until, _, signature = cookie.partition(".")
        if not until.isascii() or not until.isdigit() or len(until) > 12:
            return False
        fresh = int(until) > (time.time() if now is None else now)
        return hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(until).encode()) and fresh

    def _sign(self, until: str) -> str:
        return hmac.new(self.tokens[0].encode("utf-8"), f"metier cookie {until}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Names:
    """The Host values that mean this server."""

    port: int
    hosts: frozenset[str]
    """Names it has by being here; they need its port."""
    given: frozenset[str] = frozenset()
    """Names that the user said a proxy or a network gives it; any port, since a proxy has its own."""
    literal: bool = False
    """Bound to every address: any literal IP is ours too, since rebinding needs a name."""

    @staticmethod
    def of(host: str, port: int, given: Iterable[str] = ()) -> Names:
        """The names of a server bound to `host`, and those it is `given`."""
        every = host in ("0.0.0.0", "::", "")
        bound = socket.gethostname() if every else _bracketed(host)
        return Names(port, frozenset((*_LOOPBACK, bound.lower())), frozenset(name.lower() for name in given), every)

    def own(self, value: str) -> bool:
        """Whether a Host header names this server."""
        name, port = _split(value.lower())
        if name in self.given:
            return True
        if (port or "80") != str(self.port):
            return False
        return name in self.hosts or (self.literal and _is_address(name))

    def same(self, origin: str, host: str) -> bool:
        """Whether an Origin header is the very site whose Host header this is: another port is another site."""
        scheme, _, rest = origin.lower().partition("://")
        return scheme in ("http", "https") and rest == host.lower() and self.own(rest)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _split(value: str) -> tuple[str, str | None]:
    """(name, port or None); a bracketed IPv6 address keeps its brackets."""
    end = value.rfind("]")
    name, colon, port = value[end + 1 :].partition(":")
    return (value[: end + 1] + name if end >= 0 else name), (port if colon else None)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Guard:
    """The application behind the four checks. `refuse` turns a refusal into an answer in the asker's format."""

    app: App
    keys: Keys
    names: Names
    body_bytes: int
    refuse: Callable[[Scope, Refusal], App]
    seen: Callable[[Scope, int, float], None]
    """Told of every answer: (scope, status, seconds)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request: checked, answered, counted."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), [0]

        headers = _headers(scope)
        body = _Body(receive, headers, self.body_bytes)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_fitting(scope)]}
            elif not message.get("more_body") and body.pending and status[0] != 408:
                await send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        refusal = self._check(scope, headers)
        try:
            if refusal is not None:
                await self.refuse(scope, refusal)(scope, receive, dressed)
                return
            await self.app(scope, body.measured, dressed)
        finally:
            self.seen(scope, status[0], time.perf_counter() - began)

    def _check(self, scope: Scope, headers: dict[str, list[str]]) -> Refusal | None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or not self.names.own(hosts[0]):
            said = hosts[0][:80] if hosts else ""
            return Refusal(
                421, "wrong-host", f"Host {said!r} is not this server; use 127.0.0.1, or start it with --allow-host"
            )
        if any(not self.names.same(value, hosts[0]) for value in origins) or len(origins) > 1:
            return Refusal(403, "wrong-origin", "this request comes from another site; open the dashboard itself")
        if "transfer-encoding" in headers and "content-length" in headers:
            return Refusal(400, "two-lengths", "the body's length is given twice; send one of the two headers")
        path = scope["path"]
        if path not in OPEN and not path.startswith("/static/"):
            refusal = self._key(scope, headers, bool(origins))
            if refusal is not None:
                return refusal
        length = headers.get("content-length", ["0"])[0]
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > self.body_bytes:
            return Refusal(413, "too-large", f"the body has over {self.body_bytes:,} bytes; send less")
        return None

    def _key(self, scope: Scope, headers: dict[str, list[str]], stated: bool) -> Refusal | None:
        scheme, _, token = headers.get("authorization", [""])[0].partition(" ")
        if scheme.lower() == "bearer":
            if self.keys.bearer(token.strip()):
                return None
            return Refusal(401, "wrong-token", "the bearer token is not this server's; it stands in the home's 'token'")
        if any(self.keys.knows(value) for value in _cookies(headers)):
            same = stated or headers.get("sec-fetch-site") == ["same-origin"]
            if scope["method"] in _SAFE or same:
                return None
            return Refusal(403, "no-origin", "a browser must say where this comes from; scripts use the bearer token")
        return Refusal(401, "locked", "a key is needed; `metier serve --link` prints a link that opens this page")


@dataclass(slots=True)
class _Body:
    """A request's body on its way in: counted, and emptied where the answer came first."""

    receive: Receive
    headers: dict[str, list[str]]
    limit: int
    got: int = 0
    pending: bool = field(init=False)
    """Whether more of it is under way. A client that asks before it sends (`Expect`) sends nothing once refused."""

    def __post_init__(self) -> None:
        stated = "transfer-encoding" in self.headers or self.headers.get("content-length", ["0"]) != ["0"]
        self.pending = stated and "expect" not in self.headers

    async def measured(self) -> Message:
        """The next piece. Raises `TooLarge` beyond the limit."""
        message = await self._next()
        if self.got > self.limit:
            raise TooLarge
        return message

    async def drain(self) -> None:
        """Nothing more is under way, or the bounds are reached."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._rest(self.got + DRAIN_BYTES), DRAIN_SECONDS)

    async def _rest(self, until: int) -> None:
        while self.pending and self.got < until:
            await asyncio.wait_for(self._next(), PAUSE_SECONDS)

    async def _next(self) -> Message:
        message = await self.receive()
        self.got += len(message.get("body", b""))
        self.pending = message["type"] == "http.request" and bool(message.get("more_body"))
        return message


def code_of(scope: Scope) -> str:
    """The one-time code in `/enter?code=…`."""
    found: str = parse_qs(scope["query_string"].decode("latin-1")).get("code", [""])[0]
    return found


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _cookies(headers: dict[str, list[str]]) -> Iterable[str]:
    for line in headers.get("cookie", []):
        for part in line.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                yield value


def _fitting(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    """Static files are the same for everyone and may be kept; everything else is somebody's own."""
    keep = b"public, max-age=31536000, immutable" if scope["path"].startswith("/static/") else b"no-store"
    return (*HEADERS, (b"cache-control", keep))
