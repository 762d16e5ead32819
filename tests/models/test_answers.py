"""What a model said becomes the object it meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.models.answers import parsed, valid

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(min_size=1, max_size=5), JSON, min_size=1, max_size=3)


@given(OBJECTS)
def test_an_object_is_read_alone_or_in_a_fence(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert parsed(text) == value
    if "```" not in text:
        assert parsed(f"Here you are:\n```json\n{text}\n```\nAnything else?") == value


@given(OBJECTS)
def test_an_object_is_read_between_other_words(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    if "```" not in text:
        assert parsed(f"Sure. {text} Done {{not json}}.") == value


@pytest.mark.parametrize("text", ["", "no braces", "[1, 2]", '{"a": '])
def test_what_holds_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no object found|empty"):
        parsed(text)


def test_what_is_wrong_with_an_answer_is_said_with_its_place() -> None:
    pytest.importorskip("jsonschema", reason="the llm extra is not installed")
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
    assert valid({"a": ["x"]}, schema) is None
    assert valid({"a": ["x", 1]}, schema) == "a/1: 1 is not of type 'string'"
