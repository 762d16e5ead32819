"""The API as OpenAPI 3.1: what `GET /openapi.json` answers. A test holds it against the table of paths."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from metier.edge import wire

Json = dict[str, Any]


def _installed() -> str:
    try:
        return version("metier")
    except PackageNotFoundError:
        return "0"


def _object(properties: Json, *required: str) -> Json:
    shape: Json = {"type": "object", "properties": properties}
    if required:
        shape["required"] = list(required)
    return shape


_TEXT: Json = {"type": "string"}
_NAMES: Json = {"type": "array", "items": _TEXT}
_WHOLE: Json = {"type": "integer", "minimum": 0}
_SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}


def _or_null(shape: Json) -> Json:
    return {"anyOf": [shape, {"type": "null"}]}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _says(description: str, shape: Json | None = None) -> Json:
    answer: Json = {"description": description}
    if shape is not None:
        answer["content"] = {"application/json": {"schema": shape}}
    return answer


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _error(description: str) -> Json:
    return _says(description, _ref("Error"))


_COMMON = {
    "400": _error("A field is missing or wrong; the message names it."),
    "401": _error("No token, or not this server's."),
    "503": _error("Busy, or no index yet; try again."),
    "504": _error("It took too long."),
}


def _post(summary: str, body: Json, answer: Json, more: Json | None = None, status: str = "200") -> Json:
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {status: answer, "413": _error("The body is too large."), **_COMMON, **(more or {})},
        }
    }


def _get(summary: str, answer: Json, *parameters: Json, open_to_all: bool = False) -> Json:
    operation: Json = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": {"200": answer} if open_to_all else {"200": answer, **_COMMON},
    }
    if open_to_all:
        operation["security"] = []
    return {"get": operation}


def _query(name: str, description: str, shape: Json = _TEXT) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": shape}


_ROUTE_BODY = _object(
    {
        "task": {**_TEXT, "description": "What someone wants done."},
        "tools": {**_NAMES, "description": "Tools the agent has; absent means unknown, [] means none."},
        "stack": {**_TEXT, "description": "Agent, model and settings, such as claude-code/opus-4.8."},
        "family": _TEXT,
        "session": {**_TEXT, "description": "What this session was already shown is not shown again."},
        "k": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Candidates listed."},
        "local": {"type": "boolean", "description": "false: the agent runs elsewhere, its binaries are unknown."},
        "only": {"type": "array", "items": {"enum": ["retrieve", "rerank", "gate"]}},
    },
    "task",
)
_OUTCOME_BODY = _object(
    {
        "route_id": _TEXT,
        "skill": {"anyOf": [_TEXT, _NAMES], "description": "An id, or the ids of skills used together."},
        "success": _or_null(_SHARE),
        "tokens": _WHOLE,
        "arm": {"enum": ["use", "skip"], "default": "use"},
        "origin": {
            "enum": ["check", "person", "ci", "agent"],
            "default": "agent",
            "description": "Who says so. Reports of agents are kept and shown, and never count toward a load.",
        },
        "repeat": _WHOLE,
    },
    "route_id",
    "skill",
)
_SCHEMAS: Json = {
    "Error": _object(
        {"schema": {"const": wire.ERROR}, "error": _TEXT, "message": _TEXT, "choices": _NAMES},
        "error",
        "message",
    ),
    "Skill": _object(
        {
            "id": _TEXT, "name": _TEXT, "description": _TEXT, "source": _TEXT, "scope": _TEXT, "digest": _TEXT,
            "body_tokens": _WHOLE,
        },
        "id",
        "name",
    ),
    "Candidate": {
        "allOf": [
            _ref("Skill"),
            _object(
                {
                    "rank": _WHOLE,
                    "score": {"type": "number"},
                    "relevance": _or_null(_SHARE),
                    "evidence": {
                        "type": "array",
                        "items": _object({"stage": _TEXT, "score": {"type": "number"}, "why": _TEXT, "detail": {}}),
                    },
                    "verdict": _object(
                        {
                            "level": {"enum": ["load", "offer", "skip"]}, "reason": _TEXT,
                            "tau": _or_null({"type": "number"}), "eta": {"type": "number"}, "support": _WHOLE,
                            "interval": {"type": "array", "items": {"type": "number"}}, "missing": _NAMES,
                        }
                    ),
                }
            ),
        ]
    },
    "Route": _object(
        {
            "schema": {"const": wire.ROUTE}, "route_id": _TEXT, "task": _object({"text": _TEXT}),
            "candidates": {"type": "array", "items": _ref("Candidate")}, "candidates_total": _WHOLE, "cover": _NAMES,
            "note": _or_null(_TEXT), "warnings": _NAMES,
            "steps": {
                "type": "array",
                "items": _object({"stage": _TEXT, "ms": {"type": "number"}, "error": _or_null(_TEXT)}),
            },
            "text": _TEXT, "tokens": _WHOLE,
        }
    ),
}  # fmt: skip

DESCRIPTION: Json = {
    "openapi": "3.1.0",
    "info": {
        "title": "metier",
        "version": _installed(),
        "summary": "Routes an agent's task to the right skill, and loads it only when it will help.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "security": [{"token": []}],
    "paths": {
        "/v1/route": _post(
            "The main job: a task → ranked candidates with evidence and verdicts, and the text for the agent.",
            _ROUTE_BODY,
            _says("The route.", _ref("Route")),
        ),
        "/v1/skills": _get(
            "The library, searched and paged; with `id` one skill in full.",
            _says("A page of skills, or one.", _object({"total": _WHOLE, "skills": _list(_ref("Skill"))})),
            _query("q", "Words that must occur in id, name or description."),
            _query("scope", "given, project, user or plugin."),
            _query("offset", "Skills to leave out first.", _WHOLE),
            _query("limit", "Skills a page, at most 500.", _WHOLE),
            _query("id", "A skill's id or name."),
        ),
        "/v1/load": _post(
            "A skill's body, or one file of its folder, fenced and labelled as third-party text.",
            _object(
                {"skill": _TEXT, "resource": _or_null(_TEXT), "route_id": _or_null(_TEXT), "budget": _or_null(_WHOLE)},
                "skill",
            ),
            _says("The text; null where it is over the budget.", _object({"text": _or_null(_TEXT), "tokens": _WHOLE})),
            {"403": _error("The path leaves the skill's folder."), "404": _error("No such skill or file.")},
        ),
        "/v1/outcomes": _post(
            "Write back an outcome of a route; it is on disk when this answers.",
            _OUTCOME_BODY,
            _says("What was recorded.", _object({"counts": {"type": "boolean"}, "origin": _TEXT})),
            {"404": _error("No such route or skill.")},
            "201",
        ),
        "/v1/bank": _get(
            "Evidence per skill on one stack, and the stacks there are.",
            _says("Pairs, means, gain, interval, stale rows.", _object({"stacks": _NAMES, "skills": _list({})})),
            _query("stack", "Agent, model and settings; without it only the stacks are listed."),
        ),
        "/v1/hook/{host}": {
            "parameters": [{"name": "host", "in": "path", "required": True, "schema": _TEXT}],
            **_post(
                "The hook of an agent host, warm. Always 200; `{}` when there is nothing to say or anything failed.",
                {"type": "object", "description": "The JSON that the host gives its hooks."},
                _says("What the host's hook protocol expects.", {"type": "object"}),
            ),
        },
        "/v1/link": {
            "post": {
                "summary": "A one-time link that opens the dashboard in a browser.",
                "responses": {"200": _says("The link.", _object({"link": _TEXT})), "401": _error("No token.")},
            }
        },
        "/healthz": _get(
            "Alive.", _says("It is.", _object({"status": {"const": "ok"}})), open_to_all=True
        ),
        "/metrics": {
            "get": {
                "summary": "Counters and latencies in Prometheus' text form.",
                "responses": {"200": {"description": "Text, exposition format 0.0.4.", "content": {"text/plain": {}}}},
            }
        },
        "/openapi.json": _get("This description.", _says("OpenAPI 3.1.", {"type": "object"}), open_to_all=True),
    },
    "components": {
        "schemas": _SCHEMAS,
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "METIER_TOKEN, or the home's `token` file."}
        },
    },
}  # fmt: skip
