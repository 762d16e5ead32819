"""A real HTTP server that speaks /v1/chat/completions and says what a test scripted; the client under test is real."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], str]
"""Status, headers, and the text of the answer (or of the error)."""


class Chat:
    """What the server was asked, and how many calls it had under way at most."""

    def __init__(self, script: Callable[[int, dict[str, Any]], Reply]) -> None:
        self.script = script
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.most = self._now = 0
        self.gate: threading.Barrier | None = None
        self._lock = threading.Lock()

    def answer(self, body: dict[str, Any], key: str) -> Reply:
        with self._lock:
            number = len(self.asked)
            self.asked.append(body)
            self.keys.append(key)
            self._now += 1
            self.most = max(self.most, self._now)
        if self.gate is not None:
            self.gate.wait(timeout=20)
        reply = self.script(number, body)
        with self._lock:
            self._now -= 1
        return reply


@contextmanager
def serving(script: Callable[[int, dict[str, Any]], Reply]) -> Iterator[tuple[Chat, str]]:
    """(chat, base URL) of a server on a free port."""
    chat = Chat(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, headers, text = chat.answer(body, self.headers.get("authorization", ""))
            value: dict[str, Any] = {"error": {"message": text}}
            if status == 200:
                said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                value = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [said]}
                value["usage"] = usage
            data = json.dumps(value).encode()
            self.send_response(status)
            for name, content in {"content-type": "application/json", **headers}.items():
                self.send_header(name, content)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing goes to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield chat, f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def always(text: str) -> Callable[[int, dict[str, Any]], Reply]:
    """Says the same each time."""
    return lambda number, body: (200, {}, text)


def in_turn(*replies: Reply) -> Callable[[int, dict[str, Any]], Reply]:
    """Says these one after the other, then the last one again."""
    return lambda number, body: replies[min(number, len(replies) - 1)]
