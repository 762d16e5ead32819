"""What an agent's own listing shows and cuts (field reports 1 to 3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.disclose import CARD_WIDTH, Disclose
from metier.library.budget import CARD_LINE, CARDS, HOSTS, listing
from metier.types import Skill

CLAUDE, CODEX, OPENCLAW = HOSTS["claude-code"], HOSTS["codex"], HOSTS["openclaw"]


def skills(lengths: list[int], *, manual: int = 0) -> list[Skill]:
    found = [Skill(f"given:s{i:03}", f"s{i:03}", "d" * n, "", "/r", "given", ()) for i, n in enumerate(lengths)]
    return found + [
        Skill(f"given:m{i}", f"m{i}", "d", "", "/r", "given", (), flags=frozenset({"manual-only"}))
        for i in range(manual)
    ]


def test_a_small_library_is_shown_in_full() -> None:
    shown = listing(skills([100] * 10, manual=2), CLAUDE)
    assert len(shown.full) == 10 and not (shown.cut or shown.bare or shown.dropped)
    assert shown.budget == 8_000 and shown.characters == shown.wanted == 10 * (4 + 5 + 100)
    assert shown.unlisted == ("given:m0", "given:m1")


def test_claude_code_strips_descriptions_and_says_nothing() -> None:  # field report 1
    shown = listing(skills([400] * 30), CLAUDE, usage={"given:s029": 3, "given:s007": 1})
    assert len(shown.full) == (8_000 - 30 * 9) // 400 == 19
    assert {"given:s029", "given:s007", "given:s000"} <= set(shown.full)
    assert len(shown.bare) == 11 and not shown.dropped
    assert "given:s028" in shown.bare


def test_claude_code_cuts_a_description_at_1536_characters() -> None:
    shown = listing(skills([1_536, 1_537]), CLAUDE)
    assert shown.full == ("given:s000",) and shown.cut == ("given:s001",)


def test_the_variable_or_the_window_sets_claude_codes_budget() -> None:
    assert listing(skills([10]), CLAUDE, window=1_000_000).budget == 40_000
    assert listing(skills([10]), CLAUDE, characters=500).budget == 500


def test_codex_shortens_all_alike_then_drops_from_the_end() -> None:  # field report 2
    shown = listing(skills([30, 1_000, 1_000, 1_000]), CODEX, characters=1_300)
    room = 1_300 - 4 * 64 - 30
    assert shown.full == ("given:s000",) and len(shown.cut) == 3
    assert shown.characters == 4 * 64 + 30 + 3 * (room // 3)
    many = listing(skills([100] * 200), CODEX)
    assert many.budget == 8_000 and len(many.bare) == 8_000 // 64 and len(many.dropped) == 200 - 125
    assert listing(skills([10]), CODEX, window=200_000).budget == 16_000


def test_openclaw_lists_150_skills_and_no_more() -> None:
    shown = listing(skills([5] * 160), OPENCLAW)
    assert shown.dropped[-10:] == tuple(f"given:s{i:03}" for i in range(150, 160))
    assert len(shown.full) == 150
    assert len(listing(skills([500] * 160), OPENCLAW).bare) == 150


def test_routing_saves_what_the_listing_costs() -> None:  # field report 3
    shown = listing(skills([300] * 1_500), CLAUDE, characters=10**9)
    assert shown.saved == shown.tokens - shown.routed > 100_000
    assert listing([], CLAUDE).saved == 0


@given(
    lengths=st.lists(st.integers(0, 3_000), max_size=40),
    host=st.sampled_from(list(HOSTS.values())),
    characters=st.integers(0, 20_000),
    usage=st.dictionaries(st.integers(0, 40).map(lambda i: f"given:s{i:03}"), st.integers(0, 9), max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_every_skill_is_in_exactly_one_group_and_the_budget_is_kept(
    lengths: list[int], host: object, characters: int, usage: dict[str, int]
) -> None:
    asked = skills(lengths)
    shown = listing(asked, host, usage=usage, characters=characters)  # type: ignore[arg-type]
    groups = [*shown.full, *shown.cut, *shown.bare, *shown.dropped]
    assert sorted(groups) == sorted(skill.id for skill in asked)
    names = sum(len(skill.name) + HOSTS[shown.host].frame for skill in asked)
    floor = names if shown.host == "claude-code" else 0  # it keeps every name, whatever the budget
    assert shown.characters <= max(characters, floor)
    assert shown.as_dict()["saved"] == shown.saved >= 0


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_host_is_found_under_its_name(host: str) -> None:
    assert HOSTS[host].name == host


def test_a_card_of_the_estimate_is_as_wide_as_a_card_that_is_shown() -> None:
    assert (CARD_WIDTH, Disclose(lambda skill: "").cards) == (CARD_LINE, CARDS)
