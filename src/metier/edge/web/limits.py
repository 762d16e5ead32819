"""Connections that cannot be held open: a head, an answer and an idle wait each have their time (slow loris)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from metier.edge import wire

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 5.0
"""From the first byte (or from connecting) to the end of the request's head; a local client needs milliseconds."""
BODY_SECONDS = 10.0
"""From the head to the last byte of the body; `BODY_BYTES` over a loopback takes milliseconds."""
ANSWER_SECONDS = 30.0
"""A route or page that takes longer is answered 504; its work ends by itself."""
WHOLE_SECONDS = 60.0
"""From the head to the last byte of the answer, a slow reader included; then the connection is cut."""
IDLE_SECONDS = 20
"""A connection kept alive without a request; longer than hooks of one session usually lie apart costs nothing."""
HEAD_BYTES = 16_384
"""Request line and headers; browsers stay under 8 kB."""
BODY_BYTES = 4_000_000
"""A request's body. A megabyte of pasted log is fine, a disk image is a mistake (as in `metier route -`)."""
CONNECTIONS = 512
"""Open connections; more are answered 503 at once."""


def protocol() -> type[asyncio.Protocol]:
    """The HTTP/1.1 protocol of uvicorn with one deadline per connection, moved on as the exchange moves on."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    quiet = logging.getLogger("metier.http.wire")
    quiet.setLevel(logging.ERROR)  # what a stranger sends wrong is the stranger's to know

    class Bounded(H11Protocol):  # type: ignore[misc]  # uvicorn's class is untyped here
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            self.logger = quiet
            super().connection_made(transport)
            self._within(HEAD_SECONDS)

        def send_400_response(self, msg: str) -> None:
            """What is no HTTP is answered once, and the request that it broke off ends without an answer of its own."""
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                told = wire.error("no-http", "this is not HTTP/1.1; mend it")
                body = json.dumps(told, separators=(",", ":")).encode()
                head = [("content-type", "application/json"), ("content-length", str(len(body)))]
                head += [("connection", "close"), ("x-content-type-options", "nosniff"), ("cache-control", "no-store")]
                for event in (
                    h11.Response(status_code=400, headers=head, reason="Bad Request"),
                    h11.Data(data=body),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event))
            self.transport.close()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._within(WHOLE_SECONDS)

        def on_response_complete(self) -> None:
            before = self.cycle
            super().on_response_complete()  # may begin the next request of a pipeline
            self._within(IDLE_SECONDS + HEAD_SECONDS if self.cycle is before else WHOLE_SECONDS)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _within(self, seconds: float) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    return Bounded
