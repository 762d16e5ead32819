"""Answers as JSON, where several of CLI, MCP, HTTP and dashboard give them: one schema's name, one shape.

`metier-route-v1` is the main one. What only one of them answers is made where it is answered, under a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metier.text import one_line, printable, visible
from metier.types import Candidate, Evidence, Outcome, Route, Skill, Verdict

ROUTE = "metier-route-v1"
ERROR = "metier-error-v1"
ERROR_WIDTH = 600
"""Characters of an error's message: what it quotes came from the asker and need not come back whole."""


def route(value: Route, *, k: int | None = None) -> dict[str, Any]:
    """The whole route; `k` limits how many candidates are listed, and `candidates_total` says how many there are."""
    slate = value.slate
    task = slate.task
    return {
        "schema": ROUTE,
        "route_id": value.id,
        "task": {
            "text": task.text,
            "tools": None if task.tools is None else sorted(task.tools),
            "stack": task.stack,
            "family": task.family,
        },
        "candidates": [candidate(c, rank) for rank, c in enumerate(slate.candidates[:k], start=1)],
        "candidates_total": len(slate.candidates),
        "cover": list(slate.cover),
        "note": slate.note,
        "warnings": list(value.warnings),
        "steps": [{"stage": s.stage, "ms": round(s.ms, 3), "error": s.error} for s in slate.steps],
        "text": value.text,
        "tokens": value.tokens,
    }


def recorded(value: Outcome) -> dict[str, Any]:
    """An outcome that was written back, and whether it counts toward a load."""
    return {
        "schema": "metier-record-v1",
        "route_id": value.route,
        "skills": list(value.skills),
        "digests": list(value.digests),
        "stack": value.stack,
        "arm": value.arm,
        "success": value.success,
        "tokens": value.tokens,
        "origin": value.origin,
        "counts": value.origin != "agent" and value.success is not None,
    }


def link(address: str) -> dict[str, Any]:
    """A one-time link to the dashboard."""
    return {"schema": "metier-link-v1", "link": address}


def error(code: str, message: str, choices: Sequence[str] = ()) -> dict[str, Any]:
    """What went wrong, with the remedy; `choices` where a name was nearly one."""
    told: dict[str, Any] = {"schema": ERROR, "error": code, "message": shortened(message)}
    return {**told, "choices": list(choices)} if choices else told


def shortened(message: str) -> str:
    """The message as it is, unless it quotes more than anybody reads."""
    return message if len(message) <= ERROR_WIDTH else one_line(message, ERROR_WIDTH)


def candidate(value: Candidate, rank: int) -> dict[str, Any]:
    """One row of a slate."""
    return {
        "rank": rank,
        **skill(value.skill),
        "score": round(value.score, 6),
        "relevance": relevance(value),
        "evidence": [evidence(e) for e in value.evidence],
        "verdict": verdict(value.verdict),
    }


def skill(value: Skill) -> dict[str, Any]:
    """A skill's card in data: what identifies it and where it came from."""
    return {
        "id": value.id,
        "name": printable(value.name),
        "description": printable(value.description),
        "source": visible(value.addresses[0] if value.addresses else value.root),
        "scope": value.scope,
        "digest": value.digest,
        "body_tokens": value.body_tokens,
    }


def evidence(value: Evidence) -> dict[str, Any]:
    """What one stage found."""
    shown: dict[str, Any] = {"stage": value.stage, "score": round(value.score, 6), "why": value.why}
    if value.detail:
        shown["detail"] = plain(value.detail)
    return shown


def verdict(value: Verdict) -> dict[str, Any]:
    """The gate's answer; `interval`, `propensity` and `missing` only where there are any."""
    shown: dict[str, Any] = {
        "level": value.level,
        "reason": value.reason,
        "tau": value.tau,
        "eta": value.eta,
        "support": value.support,
    }
    if value.interval is not None:
        shown["interval"] = list(value.interval)
    if value.propensity is not None:
        shown["propensity"] = value.propensity
    if value.missing:
        shown["missing"] = list(value.missing)
    return shown


def relevance(value: Candidate) -> float | None:
    """0..1 for people, where the first stage could say; None where it could not."""
    for found in value.evidence:
        if found.stage == "retrieve" and "relevance" in found.detail:
            return round(float(found.detail["relevance"]), 4)
    return None


def plain(value: Any) -> Any:
    """Any detail as JSON: mappings, sequences, numbers (numpy's too), text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, float):
        return round(value, 6)
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)
