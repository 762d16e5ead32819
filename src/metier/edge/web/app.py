"""The table of paths: what each one reads from a request, and which function answers it in which threads."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from metier.edge import wire
from metier.edge.web import api, meter, openapi, pages
from metier.edge.web.answers import HANDLERS, dumped, json_response, refused
from metier.edge.web.desk import Desk
from metier.edge.web.guard import COOKIE, COOKIE_SECONDS, Guard, Names, Refusal, TooLarge, code_of
from metier.edge.web.limits import ANSWER_SECONDS, BODY_BYTES, BODY_SECONDS
from metier.errors import InputError

LOOK_SECONDS = 1.0
"""Shortest time between two looks at whether the index fell behind, whatever `rescan` says."""
_LOG = logging.getLogger("metier.http")


def build(desk: Desk, names: Names) -> Guard:
    """The whole application: paths behind the guard."""
    table = [
        Route("/v1/route", _routing(desk), methods=["POST"]),
        Route("/v1/skills", _query(desk, api.skills), methods=["GET"]),
        Route("/v1/load", _post(desk, api.load), methods=["POST"]),
        Route("/v1/outcomes", _outcomes(desk), methods=["POST"]),
        Route("/v1/bank", _query(desk, api.bank), methods=["GET"]),
        Route("/v1/link", _link(desk), methods=["POST"]),
        Route("/v1/hook/{host}", _hook(desk), methods=["POST"]),
        Route("/healthz", _query(desk, lambda d, _: api.health(d)), methods=["GET"]),
        Route("/metrics", _metrics(desk), methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
        Route("/enter", _enter(desk), methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
        *(Route(path, _page(desk, act), methods=["GET"]) for path, act in pages.READING.items()),
        *(Route(path, _form(desk, act), methods=["POST"]) for path, act in pages.WRITING.items()),
    ]
    known = {r.path for r in table}
    app = Starlette(
        routes=table,
        lifespan=partial(_life, desk),
        exception_handlers=HANDLERS,
    )
    return Guard(
        app=app,
        keys=desk.keys,
        names=names,
        body_bytes=BODY_BYTES,
        refuse=refused,
        seen=lambda scope, status, seconds: desk.meter.answered(
            template(scope["path"], known), scope["method"], status, seconds
        ),
    )


def template(path: str, known: set[str]) -> str:
    """The table's path for a request's path, so that counters stay few whatever is asked for."""
    if path in known:
        return path
    for start in ("/v1/hook/", "/routes/", "/static/"):
        if path.startswith(start):
            return next((k for k in sorted(known) if k.startswith(start)), "other")
    return "other"


@asynccontextmanager
async def _life(desk: Desk, app: Starlette) -> AsyncIterator[None]:
    """Warm at the start, looking at the index while it runs, quiet at the end."""
    keeper = asyncio.create_task(_keep(desk))
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        desk.close()


async def _keep(desk: Desk) -> None:
    act = desk.warm
    while True:
        try:
            await desk.reading.do(act, seconds=600.0)
        except Exception as error:  # a server that cannot refresh its index still answers from the old one
            _LOG.warning("%s: %s", type(error).__name__, error)
        act = desk.look if act == desk.warm else act
        await asyncio.sleep(0 if act == desk.warm else max(desk.shop.config.rescan, LOOK_SECONDS))


# -------------------------------------------------------------------------------------------------------- endpoints

Endpoint = Callable[[Request], Any]


def _routing(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        asked = await _asked(request)

        def work() -> tuple[bytes, Any]:
            _, value, done = api.route(desk, asked)
            return dumped(value), done

        body, done = await desk.routing.do(work, seconds=ANSWER_SECONDS)
        slate = done.slate
        desk.meter.routed(((s.stage, s.ms, s.error) for s in slate.steps), (c.verdict.level for c in slate.candidates))
        return Response(body, media_type="application/json")

    return answer


def _post(desk: Desk, act: Callable[[Desk, api.Asked], api.Answer]) -> Endpoint:
    async def answer(request: Request) -> Response:
        asked = await _asked(request)
        status, value = await desk.routing.do(lambda: act(desk, asked), seconds=ANSWER_SECONDS)
        return json_response(status, value)

    return answer


def _outcomes(desk: Desk) -> Endpoint:
    inner = _post(desk, api.record)

    async def answer(request: Request) -> Response:
        response: Response = await inner(request)
        desk.meter.outcomes[str(json.loads(bytes(response.body))["origin"])] += 1
        return response

    return answer


def _query(desk: Desk, act: Callable[[Desk, api.Asked], api.Answer]) -> Endpoint:
    async def answer(request: Request) -> Response:
        asked = api.Asked(dict(request.query_params), _is_local(request))
        status, value = await desk.reading.do(lambda: act(desk, asked), seconds=ANSWER_SECONDS)
        return json_response(status, value)

    return answer


def _hook(desk: Desk) -> Endpoint:
    """The warm hook. Whatever goes wrong, the host gets `{}` with 200: an agent is never worse off than without us."""

    async def answer(request: Request) -> Response:
        told: Mapping[str, Any] = {}
        try:
            payload = json.loads(await _body(request))
            if desk.hook is not None and isinstance(payload, dict):
                hook, host = desk.hook, request.path_params["host"]
                deadline = desk.shop.config.hook_deadline
                told = await desk.routing.do(lambda: hook(payload, host), seconds=deadline)
            return json_response(200, told)
        except TooLarge:
            raise
        except Exception as error:
            _LOG.warning("hook: %s: %s", type(error).__name__, error)
            return json_response(200, {})

    return answer


def _link(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        await _body(request)
        link = f"{desk.address}/enter?code={desk.keys.link()}"
        return json_response(200, wire.link(link))

    return answer


def _metrics(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        now = await desk.reading.do(lambda: api.gauges(desk), seconds=ANSWER_SECONDS)
        return Response(desk.meter.text(now), headers={"content-type": meter.CONTENT_TYPE})

    return answer


async def _openapi(request: Request) -> Response:
    return json_response(200, openapi.DESCRIPTION)


def _enter(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        cookie = desk.keys.redeem(code_of(request.scope))
        if cookie is None:
            refusal = Refusal(
                403,
                "used-link",
                "this link was used or is older than ten minutes; `metier serve --link` prints another",
            )
            return pages.refused(refusal)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(COOKIE, cookie, max_age=COOKIE_SECONDS, path="/", httponly=True, samesite="strict")
        return response

    return answer


async def _static(request: Request) -> Response:
    found = pages.static(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, kind = found
    return Response(content, media_type=kind)


def _page(desk: Desk, act: pages.Reading) -> Endpoint:
    async def answer(request: Request) -> Response:
        asked = pages.Visit(dict(request.query_params), dict(request.path_params), _is_local(request))
        return await desk.reading.do(lambda: act(desk, asked), seconds=ANSWER_SECONDS)

    return answer


def _form(desk: Desk, act: pages.Reading) -> Endpoint:
    async def answer(request: Request) -> Response:
        pairs = parse_qsl((await _body(request)).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200)
        asked = pages.Visit(dict(pairs), dict(request.path_params), _is_local(request))
        return await desk.routing.do(lambda: act(desk, asked), seconds=ANSWER_SECONDS)

    return answer


# ----------------------------------------------------------------------------------------------------- what came in


async def _body(request: Request) -> bytes:
    """The whole body. Raises `TimeoutError` when it does not come in time."""
    return await asyncio.wait_for(request.body(), BODY_SECONDS)


async def _asked(request: Request) -> api.Asked:
    """The fields of a JSON body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"content-type is {kind[:60]!r}; send application/json")
    try:
        value = json.loads(await _body(request))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON ({str(error)[:120]}); send one JSON object") from error
    if not isinstance(value, dict):
        raise InputError(f"the body is a JSON {type(value).__name__}; send one JSON object")
    return api.Asked(value, _is_local(request))


def _is_local(request: Request) -> bool:
    """Whether the client is on this machine."""
    host = request.client.host if request.client else ""
    return host == "::1" or host.startswith(("127.", "::ffff:127."))
