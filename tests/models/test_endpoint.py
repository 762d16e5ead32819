"""The embeddings endpoint, against a real HTTP server on the loopback interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from metier.errors import EncoderError
from metier.models.encoder import open_encoder
from metier.models.recipes import SKILL_INSTRUCTION
from metier.models.replay import HashEncoder

pytest.importorskip("openai", reason="the openai client is not installed")


class Server(ThreadingHTTPServer):
    """Answers /v1/embeddings with hashed vectors of length 3, last text first; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.reply: Any = None
        self.dim = 64

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **asked})
        self.server.keys.append(self.headers.get("Authorization"))
        vectors = 3 * HashEncoder(self.server.dim).encode(asked["input"], kind="query")
        data = [{"object": "embedding", "index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)][::-1]
        reply = {
            "object": "list",
            "model": asked["model"],
            "data": data,
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
        text = self.server.reply if self.server.reply is not None else reply
        body = (text if isinstance(text, str) else json.dumps(text)).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METIER_EMBEDDINGS_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_sent_before_the_first_use_and_the_dimension_is_found_then(server: Server) -> None:
    encoder = open_encoder(f"openai:some-model@{server.url}")
    assert server.asked == []
    assert encoder.profile.dim == encoder.profile.dim == 64
    assert len(server.asked) == 1 and server.asked[0]["path"] == "/v1/embeddings"


def test_rows_come_back_in_order_as_unit_vectors_and_blank_texts_are_not_sent(server: Server) -> None:
    encoder = open_encoder(f"openai:some-model@{server.url}")
    texts = ["fill the form", "", "sql tuning", "lone \ud800 surrogate"]
    vectors = encoder.encode(texts, kind="query")
    expected = HashEncoder(64).encode(["fill the form", "", "sql tuning", "lone ? surrogate"], kind="query")
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert vectors.dtype == np.float32
    assert server.asked[-1]["input"] == ["fill the form", "sql tuning", "lone ? surrogate"]
    assert server.asked[-1]["model"] == "some-model"


def test_many_texts_go_in_batches_and_long_ones_are_cut(server: Server) -> None:
    encoder = open_encoder(f"openai:some-model@{server.url}")
    assert encoder.encode([f"text {i}" for i in range(130)] + ["long " * 9000], kind="document").shape == (131, 64)
    sizes = [len(asked["input"]) for asked in server.asked[1:]]
    assert sizes == [64, 64, 3]
    assert len(server.asked[-1]["input"][-1]) <= 3 * encoder.profile.max_tokens


def test_a_known_family_gets_its_prefixes_behind_an_endpoint_too(server: Server) -> None:
    encoder = open_encoder(f"openai:Qwen3-Embedding-0.6B@{server.url}")
    encoder.encode(["fill the form"], kind="query")
    encoder.encode(["a skill"], kind="document")
    assert [asked["input"] for asked in server.asked[1:]] == [[SKILL_INSTRUCTION + "fill the form"], ["a skill"]]


def test_the_key_comes_from_the_environment_ours_first(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"openai:some-model@{server.url}"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    open_encoder(spec).encode(["x"], kind="query")
    monkeypatch.setenv("METIER_EMBEDDINGS_KEY", "sk-ours")
    encoder = open_encoder(spec)
    encoder.encode(["x"], kind="query")
    assert server.keys == ["Bearer sk-theirs"] * 2 + ["Bearer sk-ours"] * 2
    assert "sk-" not in repr(encoder) + encoder.profile.name


def test_openais_own_endpoint_needs_a_key() -> None:
    with pytest.raises(EncoderError, match="no key; set METIER_EMBEDDINGS_KEY"):
        open_encoder("openai:text-embedding-3-small")


def test_another_model_url_or_prefix_is_another_encoder(server: Server) -> None:
    specs = ["a@http://127.0.0.1:1/v1", "b@http://127.0.0.1:1/v1", "a@http://127.0.0.1:2/v1"]
    names = {open_encoder(f"openai:{spec}")._profile.name for spec in specs}  # type: ignore[attr-defined]
    assert len(names) == 3 and all("/" not in name and ":" not in name for name in names)


@pytest.mark.parametrize(
    ("status", "reply", "said"),
    [
        (401, {"error": {"message": "bad key"}}, "the key was refused; set METIER_EMBEDDINGS_KEY"),
        (404, {"error": {"message": "no model some-model"}}, "answered 404"),
        (400, {"error": {"message": "too\nlong"}}, "too long"),
        (200, {"data": []}, "is this an /v1/embeddings endpoint"),
        (200, {"hello": "world"}, "is this an /v1/embeddings endpoint"),
        (200, "<html>", "check the URL|is this an /v1/embeddings endpoint"),
        (200, {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}, "answered a vector of length 0"),
    ],
)
def test_a_refusal_says_who_what_and_the_remedy(server: Server, status: int, reply: Any, said: str) -> None:
    server.status, server.reply = status, reply
    with pytest.raises(EncoderError, match=said) as caught:
        open_encoder(f"openai:some-model@{server.url}").encode(["x"], kind="query")
    assert server.url in str(caught.value) and "\n" not in str(caught.value)


def test_a_server_that_changes_its_dimension_is_noticed(server: Server) -> None:
    encoder = open_encoder(f"openai:some-model@{server.url}")
    encoder.encode(["x"], kind="query")
    server.dim = 32
    with pytest.raises(EncoderError, match="answered 32 dimensions instead of 64"):
        encoder.encode(["x"], kind="query")


def test_a_server_that_is_not_there_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.models.endpoint.RETRIES", 0)
    with pytest.raises(EncoderError, match=r"openai:m@http://127.0.0.1:1/v1.*cannot be reached"):
        open_encoder("openai:m@http://127.0.0.1:1/v1").encode(["x"], kind="query")
