"""Negative scope: what a description says a skill is not for is no match text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.library.negative import negative_scope, without


@pytest.mark.parametrize(
    ("description", "excludes", "rest"),
    [
        ("Builds LWC pages. NOT for Visualforce pages.", ("NOT for Visualforce pages.",), "Builds LWC pages."),
        ("Forms. Not for tables (use pdf-tables). Fast.", ("Not for tables (use pdf-tables).",), "Forms. Fast."),
        ("Forms. Do not use if big, e.g. a map. Fast.", ("Do not use if big, e.g. a map.",), "Forms. Fast."),
        ("Forms. Don't use for tables", ("Don't use for tables",), "Forms."),
        ("Forms. DO NOT USE FOR: tables, charts.", ("DO NOT USE FOR: tables, charts.",), "Forms."),
        ("Forms. Do NOT use this skill for tables.", ("Do NOT use this skill for tables.",), "Forms."),
        ("Forms (not for tables) and more.", ("not for tables",), "Forms and more."),
        ("Use for forms; not for tables.", ("not for tables.",), "Use for forms;"),
        ("Forms.\nNot for:\n- tables\n- charts\nUse often.", ("Not for:\n- tables\n- charts",), "Forms. Use often."),
        ("处理表单。不适用于表格。快速。", ("不适用于表格。",), "处理表单。 快速。"),
        ("Forms. Skip when there is a template.", ("Skip when there is a template.",), "Forms."),
        ("It is not for tables.", ("not for tables.",), "It is"),
    ],
)  # fmt: skip
def test_not_for_x_does_not_match_x(description: str, excludes: tuple[str, ...], rest: str) -> None:  # field report 8
    assert negative_scope(description) == excludes
    assert without(description, excludes) == rest


@pytest.mark.parametrize(
    "description",
    ["Use for forms, not tables.", "Do not panic.", "Whether or not formatted, it reads.", "Never lose a file again.",
     "Use CLI instead of the console.", "Knots for sailors.", "I don't know Python.", ""],
)  # fmt: skip
def test_other_negations_are_no_negative_scope(description: str) -> None:
    assert negative_scope(description) == ()


PIECES = ["not for ", "NOT for x", ". ", "(", ")", "do not use for ", "\n", "- a", "e.g. ", "use it", "。", "不用于"]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
@settings(max_examples=150, deadline=None)
def test_every_exclusion_is_a_verbatim_part_of_the_description(pieces: list[str]) -> None:
    description = "".join(pieces)
    excludes = negative_scope(description)
    assert all(passage in description and passage == passage.strip() for passage in excludes)
    at = 0
    for passage in excludes:  # in order, without overlap
        at = description.index(passage, at) + len(passage)
    assert len(without(description, excludes)) <= len(description)
