"""The MCP server over real wires, and many clients at once."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge.material import workshop

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters, stdio_client  # noqa: E402

from edge.mcp_client import MODES, ask, of_mcp, talk  # noqa: E402
from metier.assemble.workshop import Workshop  # noqa: E402
from metier.edge.mcp.server import http_app, make  # noqa: E402
from metier.edge.mcp.tools import Tools  # noqa: E402
from metier.errors import InputError  # noqa: E402


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return of_mcp(workshop(tmp_path, host="mcp"))


# ---------------------------------------------------------------------------------------- many clients, real wires


def test_sessions_at_the_same_time_get_their_own_answers(shop: Workshop) -> None:
    server, said = make(shop), {}
    asked = {
        "sql-tuning": "why is this query slow",
        "git-recovery": "get lost commits back",
        "pdf-forms": "fill in a form",
    }

    async def one(name: str, number: int) -> None:
        async with Client(server) as client:
            found = await client.call_tool("find_skills", {"task": asked[name]})
            said[name, number] = (found.structured_content["skills"][0]["name"], found.structured_content["route_id"])

    async def all_at_once() -> None:
        async with anyio.create_task_group() as group:
            for name in asked:
                for number in range(4):
                    group.start_soon(one, name, number)

    anyio.run(all_at_once)
    assert all(first == name for (name, _), (first, _) in said.items())
    assert len({route for _, route in said.values()}) == 12


def test_a_client_that_leaves_in_the_middle_of_a_call_takes_nothing_down(shop: Workshop, monkeypatch: Any) -> None:
    server, begun, go = make(shop), threading.Event(), threading.Event()
    inner = Tools.call

    def slow(self: Tools, name: str, arguments: Any) -> Any:
        if arguments.get("task") == "slow":
            begun.set()
            go.wait(20)
        return inner(self, name, arguments)

    monkeypatch.setattr(Tools, "call", slow)

    async def act() -> bool:
        async with anyio.create_task_group() as group:

            async def leaves() -> None:
                async with Client(server) as client:
                    await client.call_tool("find_skills", {"task": "slow"})

            group.start_soon(leaves)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        async with Client(server) as client:
            good = await client.call_tool("find_skills", {"task": "why is this query slow"})
            return bool(good.is_error)

    try:
        assert anyio.run(act) is False
    finally:
        go.set()


@pytest.mark.parametrize("mode", MODES)
def test_over_a_real_pipe_the_installed_command_serves_a_whole_session(tmp_path: Path, mode: str) -> None:
    shop = workshop(tmp_path, host="mcp")
    arguments = ["-I", "-m", "metier.edge.cli.main", "mcp", f"--home={tmp_path / 'home'}", "--set=encoder=hash"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=str(shop.cwd))

    async def act(client: Client) -> Any:
        found = await client.call_tool("find_skills", {"task": "why is this query slow"})
        loaded = await client.call_tool("load_skill", {"skill": "sql-tuning"})
        return (
            found.structured_content["skills"][0]["name"],
            loaded.is_error,
            (await ask(client, "skills/list"))["skills"],
        )

    name, error, skills = talk(stdio_client(server), act, mode)
    assert (name, error, len(skills)) == ("sql-tuning", False, 4)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The app on a free port of this machine."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    ready = threading.Event()
    startup = server.startup

    async def announced(sockets: Any = None) -> None:
        await startup(sockets=sockets)
        ready.set()

    server.startup = announced  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.mark.parametrize("mode", MODES)
def test_over_http_on_loopback_two_clients_are_served(shop: Workshop, mode: str) -> None:
    async def act(client: Client) -> Any:
        return (await client.call_tool("find_skills", {"task": "fill in a form"})).structured_content["skills"][0][
            "name"
        ]

    with listening(http_app(shop, host="127.0.0.1")) as url:
        assert [talk(url, act, mode) for _ in range(2)] == ["pdf-forms", "pdf-forms"]


def post(url: str, headers: dict[str, str], padding: int = 0) -> int:
    import http.client
    from urllib.parse import urlsplit

    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"x": "y" * padding}}})
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", place.path, body, {**accept, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


def test_http_refuses_a_rebound_name_a_foreign_page_and_a_missing_token(shop: Workshop) -> None:
    with listening(http_app(shop, host="127.0.0.1")) as url:
        assert post(url, {"Host": "evil.example"}) in (403, 421)
        assert post(url, {"Origin": "https://evil.example"}) == 403
        assert post(url, {}, padding=5_000_000) == 413
    with listening(http_app(shop, host="127.0.0.1", token="t0k")) as url:
        assert post(url, {}) == 401 and post(url, {"Authorization": "Bearer wrong"}) == 401
        assert post(url, {"Authorization": "Bearer t0k"}) != 401


def test_beyond_this_machine_http_needs_a_token(shop: Workshop) -> None:
    with pytest.raises(InputError, match="METIER_MCP_TOKEN"):
        http_app(shop, host="0.0.0.0")
