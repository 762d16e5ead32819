"""Tools and skills on a wire: stdio, or streamable HTTP on this machine. The only file that knows the MCP SDK.

Every call runs in a thread of its own, so one client's slow call holds up no other; a client that goes away takes its
call with it and nothing else.
"""

from __future__ import annotations

import hmac
import io
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from metier.edge.mcp.skills import EXTENSION, TTL_MS, Shelf
from metier.edge.mcp.tools import INSTRUCTIONS, TOOLS, Tools
from metier.errors import InputError, MetierError, MissingExtra

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from metier.assemble.workshop import Workshop

T = TypeVar("T")
NAME = "metier"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STUCK_SECONDS = 10
"""After the client closed its end, an answer that nobody takes for this long is nobody's; a first answer out of a large
index takes less, and while one is being made the pipe is not full."""
INVALID_PARAMS = -32602
"""JSON-RPC: what SEP-2640 and the base protocol demand for a URI that names nothing."""


def make(shop: Workshop) -> Server[Any]:
    """The server over one workshop. Nothing is opened, built or downloaded before the first call needs it."""
    try:
        import mcp_types as types
        from mcp.server.lowlevel import Server
    except ImportError as error:
        raise MissingExtra("mcp", "mcp", "the MCP server") from error
    from importlib.metadata import version

    tools, shelf = Tools(shop), Shelf(shop)

    async def list_tools(ctx: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in TOOLS])

    async def call_tool(ctx: Any, params: Any) -> Any:
        answer = await _aside(partial(tools.call, params.name, params.arguments or {}))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=None if answer.data is None else dict(answer.data),
            is_error=answer.error,
        )

    async def list_resources(ctx: Any, params: Any) -> Any:
        entries, following = await _told(partial(shelf.page, list(tools.found), getattr(params, "cursor", None)))
        listed = [
            types.Resource(
                uri=e["uri"],
                name=e["frontmatter"]["name"],
                description=e["frontmatter"]["description"],
                mime_type="text/markdown",
            )
            for e in entries
        ]
        return types.ListResourcesResult(resources=listed, next_cursor=following, ttl_ms=TTL_MS)

    async def list_templates(ctx: Any, params: Any) -> Any:
        template = types.ResourceTemplate(
            uri_template="skill://{+path}",
            name="skill-file",
            description="A file of a skill's folder; the skill's own SKILL.md ends the path of every listed skill.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(ctx: Any, params: Any) -> Any:
        return types.ReadResourceResult.model_validate(
            {"contents": [await _told(partial(shelf.read, str(params.uri)))]}
        )

    async def list_skills(ctx: Any, params: Any) -> dict[str, Any]:
        entries, following = await _told(partial(shelf.page, list(tools.found), params.cursor))
        result: dict[str, Any] = {"resultType": "complete", "skills": entries, **_FRESH}
        return {**result, "nextCursor": following} if following else result

    async def get_skill(ctx: Any, params: Any) -> dict[str, Any]:
        return {"resultType": "complete", "skill": await _told(partial(shelf.get, params.uri)), **_FRESH}

    async def read_folder(ctx: Any, params: Any) -> dict[str, Any]:
        return {"resultType": "complete", "resources": await _told(partial(shelf.folder, params.uri))}

    class OneURI(types.RequestParams):
        """Params of a request about one URI."""

        uri: str
        cursor: str | None = None

    server: Server[Any] = Server(
        NAME,
        version=version("metier"),
        title="metier",
        description="Routes an agent's task to the right skill.",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
    server.extensions[EXTENSION] = {"directoryRead": True}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", OneURI, get_skill)
    server.add_request_handler("resources/directory/read", OneURI, read_folder)
    return server


_FRESH: Mapping[str, Any] = {"ttlMs": TTL_MS, "cacheScope": "private"}


async def _aside(work: Callable[[], T]) -> T:
    """The work's result, from a thread; a client that goes away does not have to wait for it."""
    import anyio

    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


async def _told(work: Callable[[], T]) -> T:
    """The same for requests whose errors the protocol wants as errors."""
    from mcp.shared.exceptions import MCPError

    try:
        return await _aside(work)
    except MetierError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error


class _Mended(io.TextIOWrapper):
    """Lines of JSON without halves of surrogate pairs.

    A host that cuts a text in the middle of an emoji sends one; the SDK's parser refuses the line, and as it cannot say
    whose request that was, nobody is answered.
    """

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        line = super().readline(size)
        return _ESCAPE.sub(_whole, line) if "\\ud" in line or "\\uD" in line else line


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)


def _whole(found: re.Match[str]) -> str:
    return r"\ufffd" if found["half"] else found[0]


def serve_stdio(shop: Workshop) -> None:
    """Serves one client on stdin and stdout until it goes away."""
    server = make(shop)
    import anyio
    from mcp.server.stdio import stdio_server

    wire = _Mended(os.fdopen(os.dup(sys.stdin.fileno()), "rb"), encoding="utf-8", errors="replace")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())  # a child process that reads gets nothing, and takes nothing from the wire
    os.close(nothing)

    with suppress(ValueError):  # not the main thread: nobody interrupts it
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # the thread that waits for a line waits on otherwise
    if hasattr(select, "poll"):
        ends = (wire.fileno(), os.dup(sys.stdout.fileno()))  # the SDK points standard output elsewhere
        threading.Thread(target=_end_alone, args=ends, daemon=True, name="metier-mcp-alone").start()

    async def serve() -> None:
        async with stdio_server(stdin=anyio.wrap_file(wire)) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def _end_alone(reading: int, writing: int, gone: Callable[[int], object] = os._exit) -> None:
    """Ends the process once nobody can read its answers: a thread that waits for a line, or for a full pipe, waits on
    otherwise. The end of the input alone ends nothing: what was asked before it is answered first."""
    over = select.POLLERR | select.POLLHUP | select.POLLNVAL
    asked, answered = select.poll(), select.poll()
    asked.register(reading, 0)  # errors and hang-ups are told unasked, so nothing wakes this before
    asked.register(writing, 0)
    while writing not in (ended := dict(asked.poll())) and reading not in ended:
        pass
    answered.register(writing, select.POLLOUT)
    stuck, second = 0, threading.Event()
    while stuck < STUCK_SECONDS:
        state = dict(answered.poll(0)).get(writing, 0)
        if state & over:
            break
        stuck = 0 if state else stuck + 1
        second.wait(1)
    gone(0)


def http_app(shop: Workshop, *, host: str, token: str | None = None) -> Any:
    """The ASGI app of streamable HTTP at /mcp. Raises `InputError` for a host beyond this machine without a token."""
    if host not in LOOPBACK and not token:
        raise InputError(
            f"--host {host}: others could reach the skills and the log; set METIER_MCP_TOKEN to a secret that clients "
            "send as 'Authorization: Bearer …', or leave the host at 127.0.0.1"
        )
    app = make(shop).streamable_http_app(host=host)
    return _guarded(app, token) if token else app


def _guarded(app: Any, token: str) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Only requests that carry the token reach the app; compared in constant time."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, wanted):
            head = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": head})
            await send({"type": "http.response.body", "body": b"metier mcp: this server wants its token\n"})
            return
        await app(scope, receive, send)

    return guarded


def serve_http(shop: Workshop, *, host: str, port: int, token: str | None = None) -> None:
    """Serves any number of clients over streamable HTTP until interrupted."""
    app = http_app(shop, host=host, token=token)
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)
