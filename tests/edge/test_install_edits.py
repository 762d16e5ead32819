"""The text edits that installing rests on: what goes in comes out, and the rest stays byte for byte."""

import json
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from metier.edge.install import jsonc, tomls
from metier.errors import InputError

TOML = '# my codex\nmodel = "gpt-6"  # fast\n\n[mcp_servers.other]\ncommand = "x"\n\n[profiles.a]\nb = 1\n'

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)


@given(data=OBJECTS, indent=st.sampled_from([None, 1, 2, 4, "\t"]), key=st.text(min_size=6, max_size=8), value=VALUES)
def test_putting_in_and_taking_out_gives_back_the_very_text(data: Any, indent: Any, key: str, value: Any) -> None:
    text = json.dumps(data, indent=indent)
    with_it = jsonc.put(text, [key, "x"], value)
    assert json.loads(with_it) == {**data, key: {"x": value}}
    out = jsonc.take(with_it, [key, "x"])
    assert json.loads(out) == data and (out == text or not data)


@given(data=OBJECTS, indent=st.sampled_from([None, 2, "\t"]), items=st.lists(VALUES, max_size=3), item=VALUES)
def test_adding_to_a_list_keeps_what_was_there(data: Any, indent: Any, items: Any, item: Any) -> None:
    text = json.dumps({**data, "the list": items}, indent=indent)
    assert json.loads(jsonc.add(text, ["the list"], item)) == {**data, "the list": [*items, item]}
    assert json.loads(jsonc.add(text, ["new one"], item))["new one"] == [item]


@given(data=OBJECTS)
def test_the_reader_agrees_with_json_wherever_that_can_read(data: Any) -> None:
    assert jsonc.read(json.dumps(data, indent=2)) == data == jsonc.read(json.dumps(data, ensure_ascii=False))


def test_comments_and_trailing_commas_are_read_and_kept() -> None:
    text = '{\n  // one\n  "a": [1, 2,], /* two */\n}\n'
    assert jsonc.read(text) == {"a": [1, 2]}
    assert jsonc.put(text, ["b"], 1) == '{\n  // one\n  "a": [1, 2,],\n  "b": 1, /* two */\n}\n'
    assert jsonc.put("{\n  // only a comment\n}\n", ["b"], 1) == '{\n  // only a comment\n  "b": 1\n}\n'
    assert jsonc.take('{"a": {"b": 1}, "c": 2}', ["a", "b"]) == '{"c": 2}'
    assert jsonc.put("", ["a"], 1) == '{\n  "a": 1\n}\n' and jsonc.take('{"a": 1}', ["b"]) == '{"a": 1}'


def test_a_toml_table_goes_to_the_end_and_out_again() -> None:
    text = tomls.put(TOML, ["mcp_servers", "metier"], {"command": "x"}, "t")
    assert tomlkit.parse(text).unwrap()["mcp_servers"]["metier"] == {"command": "x"}
    assert tomls.take(text, ["mcp_servers", "metier"]) == TOML
    assert tomls.take(TOML, ["a", "b"]) == TOML
    with pytest.raises(InputError, match="not valid TOML"):
        tomls.read("a = = b", "x.toml")
