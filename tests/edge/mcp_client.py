"""The SDK's own client, as the MCP tests use it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client

from metier.assemble.workshop import Workshop
from metier.edge.cli.agents import for_mcp

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
