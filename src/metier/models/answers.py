"""From what a model said to the JSON object it meant, and whether that is what was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.S)


def parsed(text: str) -> Mapping[str, Any]:
    """The JSON object in `text`: alone, in a code fence, or between other words. Raises `ValueError`."""
    for part in (text.strip(), *(fence.strip() for fence in _FENCE.findall(text))):
        try:
            value = json.loads(part)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    decoder = json.JSONDecoder()
    for at in (m.start() for m in re.finditer(r"\{", text)):
        try:
            value, _ = decoder.raw_decode(text, at)
        except ValueError:
            continue
        if isinstance(value, dict) and value:
            return value
    raise ValueError("no object found" if text.strip() else "the answer is empty")


def valid(answer: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """None when `answer` is valid under `schema`, else what is wrong with it, in one line."""
    import jsonschema

    checker = jsonschema.Draft202012Validator(dict(schema))
    for error in checker.iter_errors(dict(answer)):
        where = "/".join(map(str, error.absolute_path)) or "the object"
        return f"{where}: {error.message[:160]}"
    return None
