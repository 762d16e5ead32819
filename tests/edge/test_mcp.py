"""The MCP server through the SDK's own client: in memory, over a real pipe, and over HTTP on this machine."""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from edge.material import settled, workshop, write_skill
from golden import golden_json

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")
import mcp_types as types  # noqa: E402
from mcp import Client, MCPError, StdioServerParameters, stdio_client  # noqa: E402

from metier.assemble.workshop import Workshop  # noqa: E402
from metier.edge.cli.agents import for_mcp  # noqa: E402
from metier.edge.mcp.server import http_app, make  # noqa: E402
from metier.edge.mcp.tools import INSTRUCTIONS, TOOLS, Tools  # noqa: E402
from metier.errors import InputError  # noqa: E402

MODES = ("auto", "legacy")
"""The per-request era of 2026-07-28 and the handshake era before it."""


class AnyResult(types.Result):
    """A result of a method that the SDK has no type for."""

    model_config = {"extra": "allow"}


class Params(types.RequestParams):
    uri: str | None = None
    cursor: str | None = None


class Ask(types.Request[Params, str]):
    """A request by the name of its method."""

    method: str
    params: Params


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    found = await client.session.send_request(Ask(method=method, params=Params(**params)), AnyResult)  # type: ignore[arg-type]
    return found.model_dump(by_alias=True)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("HOME", str(tmp_path))
    return of_mcp(workshop(tmp_path, host="mcp"))


def of_mcp(shop: Workshop) -> Workshop:
    return Workshop(for_mcp(shop.config), cwd=shop.cwd)


def talk(server: Any, act: Callable[[Client], Awaitable[Any]], mode: Literal["auto", "legacy"] | str = "auto") -> Any:
    """What `act` gets from a session with the server."""

    async def session() -> Any:
        async with Client(server, mode=mode) as client:
            return await act(client)

    return anyio.run(session)


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


# ------------------------------------------------------------------------------------------------------ the surface


def test_names_schemas_and_descriptions_are_what_they_were_golden(shop: Workshop) -> None:
    async def act(client: Client) -> Any:
        tools = await client.list_tools()
        templates = await client.list_resource_templates()
        return {
            "instructions": client.instructions,
            "extensions": client.server_capabilities.extensions,
            "tools": [t.model_dump(by_alias=True, exclude_none=True) for t in tools.tools],
            "templates": [t.model_dump(by_alias=True, exclude_none=True) for t in templates.resource_templates],
        }

    golden_json("mcp-surface.json", talk(make(shop), act))


def test_descriptions_and_instructions_stay_under_2_kb_and_find_skills_is_always_loaded() -> None:
    assert len(INSTRUCTIONS.encode()) < 2048
    assert all(len(str(tool["description"]).encode()) < 2048 for tool in TOOLS)
    assert TOOLS[0]["name"] == "find_skills" and TOOLS[0]["_meta"] == {"anthropic/alwaysLoad": True}
    words = " ".join([INSTRUCTIONS, *(str(tool["description"]) for tool in TOOLS)])
    assert not any(order in words for order in ("MUST", "MANDATORY", "IMPORTANT", "ALWAYS"))


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_finds_loads_and_records(shop: Workshop, mode: str, tmp_path: Path) -> None:
    async def act(client: Client) -> list[types.CallToolResult]:
        found = await client.call_tool("find_skills", {"task": "why is this query slow", "tools": ["bash"], "limit": 2})
        route = found.structured_content["route_id"]
        loaded = await client.call_tool("load_skill", {"skill": "sql-tuning", "route_id": route})
        kept = await client.call_tool(
            "record_outcome", {"route_id": route, "skill": "sql-tuning", "success": 1, "tokens": 900}
        )
        return [found, loaded, kept]

    found, loaded, kept = talk(make(shop), act, mode)
    assert not (found.is_error or loaded.is_error or kept.is_error)
    assert (
        found.structured_content["skills"][0]["name"] == "sql-tuning" and len(found.structured_content["skills"]) == 2
    )
    assert found.structured_content["skills"][0]["verdict"]["level"] == "offer"
    assert "EXPLAIN ANALYZE" in text_of(loaded) and "third-party text" in text_of(loaded)
    rows = shop.store.rows("SELECT origin, success, tokens FROM outcomes")
    assert [tuple(r) for r in rows] == [("agent", 1.0, 900)]
    if mode == "auto":
        golden_json(
            "mcp-answers.json", json.loads(settled(json.dumps([text_of(r) for r in (found, loaded, kept)]), tmp_path))
        )


def test_a_body_goes_out_by_load_skill_alone(shop: Workshop) -> None:
    found = Tools(shop).call("find_skills", {"task": "use the sql-tuning skill"})
    assert "EXPLAIN" not in found.text
    assert [r["what"] for r in shop.store.rows("SELECT DISTINCT what FROM events")] == ["offered"]


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("find_skills", {}, "'task' is missing"),
        ("find_skills", {"task": "  "}, "a text that is not empty"),
        ("find_skills", {"task": ["x"]}, "a text that is not empty"),
        ("find_skills", {"task": "x", "limit": 0}, "a whole number from 1 to 50"),
        ("find_skills", {"task": "x", "limit": True}, "a whole number from 1 to 50"),
        ("find_skills", {"task": "x", "tools": "bash"}, "a list of texts"),
        ("find_skills", {"text": "x"}, "there is no argument 'text'; it takes task, tools, limit"),
        ("load_skill", {"skill": "sql-tunning"}, "did you mean"),
        ("load_skill", {"skill": "pdf-forms", "resource": "missing.md"}, "reference.md"),
        ("record_outcome", {"route_id": "r_none", "skill": "pdf-forms", "success": 1}, "is not in the log"),
        ("record_outcome", {"route_id": "r", "skill": "pdf-forms", "success": 2}, "a number from 0 to 1"),
        ("search", {"q": "x"}, "there is no tool 'search'; these are: find_skills, load_skill, record_outcome"),
    ],
)
def test_an_error_is_a_result_that_says_what_to_do(shop: Workshop, name: str, given: dict[str, Any], said: str) -> None:
    answer = Tools(shop).call(name, given)
    assert answer.error and said in answer.text and "\n\n" not in answer.text


def test_errors_reach_the_client_as_tool_results_and_the_session_goes_on(shop: Workshop) -> None:
    async def act(client: Client) -> list[bool]:
        said = [await client.call_tool(n, a) for n, a in (("nothing", {}), ("load_skill", {"skill": "?"}))]
        good = await client.call_tool("find_skills", {"task": "why is this query slow"})
        return [*(r.is_error for r in said), good.is_error]

    assert talk(make(shop), act) == [True, True, False]


def test_a_failure_nobody_thought_of_is_an_answer_and_no_crash(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Workshop, *args: Any, **more: Any) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(Workshop, "router", broken)
    answer = Tools(shop).call("find_skills", {"task": "x"})
    assert answer.error and "RuntimeError: disk on fire" in answer.text and "go on without a skill" in answer.text


@pytest.mark.parametrize("path", ["../sql-tuning/SKILL.md", "/etc/passwd", "..\\x", "a/../../x", "C:\\x", "\x00", "."])
def test_a_resource_outside_its_skill_is_refused(shop: Workshop, path: str) -> None:
    answer = Tools(shop).call("load_skill", {"skill": "pdf-forms", "resource": path})
    assert answer.error and "root:" not in answer.text


def test_a_skill_that_the_user_excluded_is_not_loaded(tmp_path: Path) -> None:
    shop = of_mcp(workshop(tmp_path, host="mcp", exclude=["sql-tuning"]))
    assert Tools(shop).call("load_skill", {"skill": "sql-tuning"}).error


# ---------------------------------------------------------------------------------------- a library that changes


def test_an_edited_skill_is_served_as_it_is_now_and_marked_as_changed(shop: Workshop) -> None:
    tools = Tools(shop)
    route = tools.call("find_skills", {"task": "why is this query slow"}).data
    assert route is not None
    given = {"skill": "sql-tuning", "route_id": route["route_id"]}
    assert "has changed" not in tools.call("load_skill", given).text
    write_skill(shop.cwd / ".claude" / "skills", "sql-tuning", "Find out why a PostgreSQL query is slow.", "Ask a DBA.")
    text = tools.call("load_skill", {"skill": "sql-tuning"}).text
    assert "Ask a DBA." in text and "has changed since it was last loaded here" in text


def test_a_skill_that_is_deleted_between_finding_and_loading_is_an_answer(shop: Workshop) -> None:
    tools = Tools(shop)
    route = tools.call("find_skills", {"task": "why is this query slow"}).data
    assert route is not None
    folder = shop.cwd / ".claude" / "skills" / "sql-tuning"
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    answer = tools.call("load_skill", {"skill": "sql-tuning", "route_id": route["route_id"]})
    assert answer.error and "gone" in answer.text


def test_a_skill_added_while_the_server_runs_is_found_after_the_next_index(shop: Workshop) -> None:
    tools = Tools(shop)
    tools.call("find_skills", {"task": "bake sourdough bread"})
    write_skill(shop.cwd / ".claude" / "skills", "sourdough", "Bake sourdough bread.", "Feed the starter.")
    Workshop(shop.config, cwd=shop.cwd).refresh()
    data = tools.call("find_skills", {"task": "bake sourdough bread"}).data
    assert data is not None and data["skills"][0]["name"] == "sourdough"


# ---------------------------------------------------------------------------------------- the skills extension


@pytest.mark.parametrize("mode", MODES)
def test_listed_skills_carry_their_front_matter_and_digests_that_hold(shop: Workshop, mode: str) -> None:
    async def act(client: Client) -> tuple[Any, Any, dict[str, bytes]]:
        listed = await ask(client, "skills/list")
        one = await ask(client, "skills/get", uri="skill://project/pdf-forms/SKILL.md")
        files = {}
        for entry in listed["skills"]:
            for file in entry["resources"]:
                content = (await client.read_resource(file["uri"])).contents[0]
                assert isinstance(content, types.TextResourceContents)
                files[file["uri"]] = content.text.encode()
        return listed, one, files

    listed, one, files = talk(make(shop), act, mode)
    assert listed["resultType"] == one["resultType"] == "complete" and listed["cacheScope"] == "private"
    assert [e["uri"] for e in listed["skills"]] == [
        f"skill://project/{n}/SKILL.md" for n in ("git-recovery", "pdf-forms", "release-notes", "sql-tuning")
    ]
    for entry in listed["skills"]:
        for file in entry["resources"]:
            data = files[file["uri"]]
            assert file["digest"] == "sha256:" + hashlib.sha256(data).hexdigest() and file["size"] == len(data)
    assert one["skill"] in listed["skills"]
    assert [f["uri"].rpartition("/")[2] for f in one["skill"]["resources"]] == ["SKILL.md", "reference.md"]
    assert one["skill"]["frontmatter"] == {
        "name": "pdf-forms",
        "description": "Fill in PDF forms from a list of answers.",
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://project/none/SKILL.md"),
        ("skills/get", "skill://project/pdf-forms/reference.md"),
        ("skills/get", "file:///etc/passwd"),
        ("resources/read", "skill://project/pdf-forms/../sql-tuning/SKILL.md"),
        ("resources/read", "skill://project/pdf-forms/%2e%2e/sql-tuning/SKILL.md"),
        ("resources/read", "skill://project/pdf-forms/none.md"),
        ("resources/read", "skill://"),
        ("resources/directory/read", "skill://project/pdf-forms/SKILL.md"),
        ("resources/directory/read", "skill://project/none"),
    ],
)
def test_what_is_not_served_is_the_error_that_the_protocol_wants(
    shop: Workshop, mode: str, method: str, uri: str
) -> None:
    async def act(client: Client) -> int:
        with pytest.raises(MCPError) as caught:
            await (client.read_resource(uri) if method == "resources/read" else ask(client, method, uri=uri))
        return caught.value.code

    assert talk(make(shop), act, mode) == -32602


def test_a_folder_of_a_skill_can_be_read_one_level_at_a_time(shop: Workshop) -> None:
    sub = shop.cwd / ".claude" / "skills" / "pdf-forms" / "templates" / "eu"
    sub.mkdir(parents=True)
    (sub / "tax.md").write_text("x", encoding="utf-8")

    async def act(client: Client) -> list[Any]:
        base = "skill://project/pdf-forms"
        return [
            (await ask(client, "resources/directory/read", uri=u))["resources"] for u in (base, base + "/templates")
        ]

    top, below = talk(make(shop), act)
    assert [(r["name"], r["mimeType"]) for r in top] == [
        ("SKILL.md", "text/markdown"), ("reference.md", "text/markdown"), ("templates", "inode/directory")
    ]  # fmt: skip
    assert [r["uri"] for r in below] == ["skill://project/pdf-forms/templates/eu"]


def test_skills_that_the_standard_does_not_let_be_served_are_left_to_the_tools(shop: Workshop) -> None:
    skills = shop.cwd / ".claude" / "skills"
    for folder, text in {
        "no-front": "just text", "bad": "---\nname: Bad Name\ndescription: x\n---\nb",
        "none": "---\nname: none\n---\nb",
        "bomb": "---\nname: bomb\ndescription: x\na: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)) + "---\nb",
    }.items():  # fmt: skip
        (skills / folder).mkdir()
        (skills / folder / "SKILL.md").write_text(text, encoding="utf-8")
    write_skill(skills, "dated", "x", "b", "metadata:\n  reviewed: 2026-01-02\n")
    Workshop(shop.config, cwd=shop.cwd).refresh()

    async def act(client: Client) -> list[Any]:
        return list((await ask(client, "skills/list"))["skills"])

    served = {e["frontmatter"]["name"]: e for e in talk(make(shop), act)}
    assert {"no-front", "bad", "none", "bomb"}.isdisjoint(served)
    assert served["dated"]["frontmatter"]["metadata"] == {"reviewed": "2026-01-02"}
    assert Tools(shop).call("load_skill", {"skill": "none"}).error is False


def test_of_a_large_library_the_skills_found_lately_are_listed_page_by_page(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.edge.mcp.skills.LISTED", 2)
    monkeypatch.setattr("metier.edge.mcp.skills.PAGE", 2)

    async def act(client: Client) -> list[Any]:
        before = await ask(client, "skills/list")
        await client.call_tool("find_skills", {"task": "why is this query slow", "limit": 3})
        first = await ask(client, "skills/list")
        second = await ask(client, "skills/list", cursor=first["nextCursor"])
        return [before, first, second]

    before, first, second = talk(make(shop), act)
    assert before["skills"] == [] and "nextCursor" not in before
    assert first["skills"][0]["frontmatter"]["name"] == "sql-tuning"
    assert len(first["skills"]) == 2 and len(second["skills"]) == 1 and "nextCursor" not in second


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


def post(url: str, headers: dict[str, str]) -> int:
    import http.client
    from urllib.parse import urlsplit

    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", place.path, body, {**accept, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


def test_http_refuses_a_rebound_name_a_foreign_page_and_a_missing_token(shop: Workshop) -> None:
    with listening(http_app(shop, host="127.0.0.1")) as url:
        assert post(url, {"Host": "evil.example"}) in (403, 421)
        assert post(url, {"Origin": "https://evil.example"}) == 403
    with listening(http_app(shop, host="127.0.0.1", token="t0k")) as url:
        assert post(url, {}) == 401 and post(url, {"Authorization": "Bearer wrong"}) == 401
        assert post(url, {"Authorization": "Bearer t0k"}) != 401


def test_beyond_this_machine_http_needs_a_token(shop: Workshop) -> None:
    with pytest.raises(InputError, match="METIER_MCP_TOKEN"):
        http_app(shop, host="0.0.0.0")
