"""Who may ask the server, and how much: the attacks that were tried, each with what it gets."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs metier[serve]")

from metier.edge.web import guard, limits
from metier.edge.web.guard import COOKIE_SECONDS, LINK_SECONDS, Keys, Names

from .seeded import bare, seeded
from .served import TOKEN, Client, served


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    shop = seeded(tmp_path_factory.mktemp("guard") / "home", routes=2)
    with served(shop) as made:
        yield made


PRIVATE = ("/", "/library", "/evidence", "/routes", "/operations", "/v1/skills", "/v1/bank", "/metrics")


@pytest.mark.parametrize("path", PRIVATE)
def test_another_user_of_this_machine_without_the_token_sees_nothing(client: Client, path: str) -> None:
    stranger = client.stranger()
    got = stranger.get(path)
    assert got.status == 401 and got.headers["www-authenticate"] == "Bearer"
    assert "pdf-tables" not in got.text
    assert client.stranger(token="wrong").get(path).status == 401
    assert client.stranger(cookie="99999999999.forged").get(path).status == 401


def test_only_health_and_the_description_are_open_and_say_nothing_of_the_library(client: Client) -> None:
    stranger = client.stranger()
    assert stranger.get("/healthz").json == {"schema": "metier-health-v1", "status": "ok"}
    assert stranger.get("/openapi.json").json["openapi"].startswith("3.1")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "", "x@127.0.0.1"]
)
def test_a_name_that_was_rebound_to_this_address_is_refused(client: Client, host: str) -> None:
    got = client.get("/v1/skills", Host=host.format(port=client.port))
    assert got.status in (400, 421)
    assert "pdf-tables" not in got.text


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_every_loopback_name_of_this_server_is_its_own(client: Client, host: str) -> None:
    assert client.get("/v1/skills", Host=host.format(port=client.port)).status == 200


def test_two_host_headers_are_refused(client: Client) -> None:
    own = f"127.0.0.1:{client.port}"
    head = f"GET /v1/skills HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode()
    assert client.raw(head).split(b" ")[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"]
)
def test_a_request_from_another_site_is_refused_even_with_the_key(client: Client, origin: str) -> None:
    assert client.post("/v1/route", {"task": "x"}, Origin=origin).status == 403


def test_a_link_opens_the_dashboard_once(client: Client) -> None:
    link = client.post("/v1/link").json["link"]
    path = link[link.index("/enter") :]
    first = client.stranger().get(path)
    assert first.status == 303 and first.headers["location"] == "/"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and "Path=/" in cookie
    assert TOKEN not in cookie
    assert client.stranger().get(path).status == 403
    known = client.stranger(cookie=cookie.split(";")[0].partition("=")[2])
    assert known.get("/library").status == 200


def test_a_cookie_alone_changes_nothing_unless_the_browser_says_it_comes_from_here(client: Client) -> None:
    known = client.stranger(cookie=client.enter())
    own = f"http://127.0.0.1:{client.port}"
    assert known.post("/v1/route", {"task": "x"}).status == 403
    assert known.post("/v1/route", {"task": "x"}, Origin="http://127.0.0.1:1").status == 403
    assert known.post("/v1/route", {"task": "x"}, Origin=own).status == 200
    assert known.post("/v1/route", {"task": "x"}, Sec_Fetch_Site="same-origin").status == 200
    assert known.post("/v1/route", {"task": "x"}, Sec_Fetch_Site="cross-site").status == 403


def test_links_and_cookies_end() -> None:
    keys = Keys(("one", "two"))
    code = keys.link(now=1000.0)
    assert keys.redeem(code, now=1000.0 + LINK_SECONDS) is None
    cookie = keys.redeem(keys.link(now=1000.0), now=1001.0)
    assert cookie is not None
    assert keys.knows(cookie, now=1002.0) and not keys.knows(cookie, now=1001.0 + COOKIE_SECONDS)
    assert not Keys(("other",)).knows(cookie, now=1002.0)
    until, _, signature = cookie.partition(".")
    assert not keys.knows(f"{int(until) + 1}.{signature}", now=1002.0)
    assert not keys.knows("é" + cookie, now=1002.0) and not keys.knows("", now=1.0)


def test_a_server_bound_to_every_address_takes_literal_addresses_and_given_names_alone() -> None:
    names = Names.of("0.0.0.0", 7717, ["skills.lan"])
    assert names.own("192.168.1.5:7717") and names.own("[fe80::1]:7717") and names.own("Skills.LAN:443")
    assert not names.own("evil.example:7717") and not names.own("192.168.1.5:8080")
    assert not Names.of("127.0.0.1", 7717).own("192.168.1.5:7717")
    assert Names.of("::1", 1).own("[::1]:1") and not Names.of("127.0.0.1", 7717).own("localhost")


def test_another_port_of_the_same_host_is_another_site() -> None:
    names = Names.of("127.0.0.1", 7717, ["skills.lan"])
    assert names.same("http://localhost:7717", "localhost:7717") and names.same("https://Skills.lan", "skills.lan")
    for origin in ("http://localhost", "http://localhost:7718", "http://127.0.0.1:7717", "file://", "null", "https://"):
        assert not names.same(origin, "localhost:7717"), origin


def test_every_answer_forbids_foreign_script_framing_and_caching(client: Client) -> None:
    for path in (*PRIVATE, "/healthz", "/no-such-page", "/library/skill?id=none"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


# ------------------------------------------------------------------------------------------------------ how much


def test_a_body_that_is_too_large_is_refused_before_it_is_read_and_while_it_is_read(client: Client) -> None:
    got = client.raw(head(client, f"Content-Length: {limits.BODY_BYTES + 1}"))
    assert got.startswith(b"HTTP/1.1 413") and b'"too-large"' in got
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    got = client.raw(head(client, "Transfer-Encoding: chunked"), *[chunk] * 5)
    assert got.startswith(b"HTTP/1.1 413")


BIG = b'{"task":"' + b"x" * 20_000_000 + b'"}'


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_client_that_sends_all_before_it_listens_is_told_why_its_body_was_refused(client: Client, token: str) -> None:
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{client.port}/v1/route", BIG, sent)
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(asked, timeout=30)
    said = json.load(told.value)
    assert (told.value.code, said["error"]) == ((413, "too-large") if token == TOKEN else (401, "wrong-token"))
    assert client.get("/healthz").status == 200


def test_a_refused_body_that_does_not_come_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PAUSE_SECONDS", 0.1)
    got = client.raw(head(client, f"Content-Length: {limits.BODY_BYTES + 1}"), b"{")
    assert got.startswith(b"HTTP/1.1 413") and got.endswith(b'"}')


def test_of_a_refused_body_a_bounded_part_is_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "DRAIN_BYTES", 100_000)
    asked = urllib.request.Request(f"http://127.0.0.1:{client.port}/v1/route", BIG, {"Authorization": "Bearer wrong"})
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(asked, timeout=30)
    assert client.get("/healthz").status == 200


@pytest.mark.parametrize(
    "sent",
    [b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n", b"f" * 40 + b"\r\n", b"2\r\n{}\r\nxx\r\n", b"5\r\n{}\r\n0\r\n\r\nxxxx"],
)
@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_broken_chunk_is_a_quiet_400(
    client: Client, sent: bytes, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = head(client, "Transfer-Encoding: chunked").replace(TOKEN.encode(), token.encode())
    got = client.raw(asked + sent)
    assert got.startswith(b"HTTP/1.1 400") and b'"error":"no-http"' in got
    asked = head(client, "Transfer-Encoding: chunked", "Content-Length: 2")
    assert b'"two-lengths"' in client.raw(asked, b"0\r\n\r\n")
    assert client.get("/healthz").status == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    "lines",
    [("Transfer-Encoding: gzip",), ("Content-Length: 2", "Content-Length: 3"), ("Content-Length: -2",),
     ("Content-Length: +2",), ("X: a\0b",), ("X y: 1",), (": 1",), ("X: \x7f\x01",)],
)  # fmt: skip
def test_a_head_that_is_no_http_is_refused_quietly(
    client: Client, lines: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    got = client.raw(head(client, *lines))
    assert got.startswith(b"HTTP/1.1 400") and b"metier-error-v1" in got
    assert caplog.records == []


def head(client: Client, *lines: str) -> bytes:
    known = (f"Host: 127.0.0.1:{client.port}", f"Authorization: Bearer {TOKEN}", "Content-Type: application/json")
    return "\r\n".join(["POST /v1/route HTTP/1.1", *known, *lines, "", ""]).encode()


def test_headers_without_end_are_cut_off(client: Client) -> None:
    got = client.raw(b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"a" * 100_000)
    assert got.startswith(b"HTTP/1.1 4") or got == b""


def test_a_client_that_sends_its_request_too_slowly_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    with served(bare(tmp_path / "home")) as client:
        assert client.raw(b"GET /healthz HTTP/1.1\r\nHost: ") == b""
        assert client.get("/healthz").status == 200


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.edge.web.app.BODY_SECONDS", 0.2)
    with served(bare(tmp_path / "home")) as client:
        assert client.raw(head(client, "Content-Length: 100"), b'{"task": ').startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"task": "x"}', "text/plain", 415),
        (b"task=x", "application/x-www-form-urlencoded", 415),
    ],
)
def test_what_is_not_one_json_object_is_refused_in_words(client: Client, body: bytes, kind: str, status: int) -> None:
    got = client.ask("POST", "/v1/route", body, Content_Type=kind)
    assert got.status == status
    assert got.json["schema"] == "metier-error-v1" and got.json["message"]


def test_unknown_paths_and_methods_are_named(client: Client) -> None:
    assert client.get("/v1/nothing").json["error"] == "no-such-path"
    assert client.get("/v1/route").json["error"] == "wrong-method"
    assert "<html" in client.get("/nothing").text
