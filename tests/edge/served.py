"""A real server in a thread, and a client that can be as rude as a test needs."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from metier.assemble.workshop import Workshop
from metier.edge.web.server import Prepared, prepared

TOKEN = "a-token-for-tests-0123456789"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Client:
    """Requests to one server. `token=None` and `cookie=None` make a stranger of it."""

    made: Prepared
    shop: Workshop
    token: str | None = None
    cookie: str | None = None

    def stranger(self, token: str | None = None, cookie: str | None = None) -> Client:
        """Somebody else on this machine."""
        return Client(self.made, self.shop, token, cookie)

    @property
    def port(self) -> int:
        return self.made.told.port

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if self.cookie:
            sent["Cookie"] = f"metier={self.cookie}"
        if isinstance(body, (dict, list)):
            body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as wire:
            wire.request(method, path, body, sent)
            got = wire.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, {} if body is None else body, **headers)

    def send(self, path: str, form: Mapping[str, str], **headers: str) -> Answer:
        """A form as a browser sends it."""
        from urllib.parse import urlencode

        headers.setdefault("Origin", f"http://127.0.0.1:{self.port}")
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return self.ask("POST", path, urlencode(form).encode(), **headers)

    def raw(self, *pieces: bytes) -> bytes:
        """Everything the server says before it closes, after these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as wire:
            for piece in pieces:
                wire.sendall(piece)
            heard = b""
            try:
                while got := wire.recv(65536):
                    heard += got
            except ConnectionResetError:
                pass
            return heard

    def enter(self) -> str:
        """The cookie that a fresh one-time link is exchanged for."""
        link = self.post("/v1/link").json["link"]
        got = self.stranger().get(link[link.index("/enter") :])
        assert got.status == 303
        return got.headers["set-cookie"].split(";")[0].partition("=")[2]


@contextmanager
def served(shop: Workshop, **options: Any) -> Iterator[Client]:
    """The shop behind a server on a free port."""
    with prepared(shop, port=0, environment={"METIER_TOKEN": TOKEN}, **options) as made:
        thread = threading.Thread(target=made.run)
        thread.start()
        try:
            yield Client(made, shop, TOKEN)
        finally:
            made.server.should_exit = True
            thread.join(20)
