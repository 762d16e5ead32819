"""Skills asked for by name, and the words that only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.retrieve.names import PARTS_BONUS, PREFIX_NAMES, Names, name_arrays
from metier.text import words

NAMES = ["pdf-tables", "pdf-forms", "code", "review", "spring security 6", "git", "Café_Notes", "写作助手", "search",
         "plugin:deploy-app", "release-notes", "deploy-app"]  # fmt: skip


def names(of: list[str]) -> Names:
    a = name_arrays(of)
    return Names(a["name-hashes"], a["name-rows"], a["name-text"], a["name-ends"], a["name-sorted-rows"])  # type: ignore[arg-type]


ALL = names(NAMES)


def asked(text: str) -> set[str]:
    return {NAMES[row] for row in ALL.find(text).asked}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/pdf-tables on report.pdf", "pdf-tables"),
        ("now run /pdf-tables, please", "pdf-tables"),
        ("/review", "review"),
        ("/review the last commit", "review"),
        ("$review my branch", "review"),
        ("please do $pdf-forms with this", "pdf-forms"),
        ('do it with "pdf forms" again', "pdf-forms"),
        ("open `pdf-tables` for me", "pdf-tables"),
        ("run `review` now", "review"),
        ("take the review skill", "review"),
        ("Use the PDF Tables skill on these", "pdf-tables"),
        ("the skill called review does it", "review"),
        ("use pdf-tables for page 3", "pdf-tables"),
        ("pdf_tables", "pdf-tables"),
        ("PDF-Tables!", "pdf-tables"),
        ("review", "review"),
        ("/plugin:deploy-app", "plugin:deploy-app"),
        ("/other:deploy-app", "deploy-app"),
        ("用「写作助手」写一封信", "写作助手"),
        ("café notes", "Café_Notes"),
    ],
)
def test_a_skill_named_on_purpose_is_asked_for(text: str, name: str) -> None:
    assert name in asked(text)


@pytest.mark.parametrize(
    "text",
    [
        "is this a legitimate request, digitally signed?",
        "GET /search?q=x answers slowly since the release",
        "the /search endpoint returns 500",
        "look into /review/2024 and C:/code for logs",
        "https://example.com/pdf-tables shows nothing at all today",
        "$review = $this->find($id); if ($review) { return; } else { throw new Exception('none found'); }",
        '{"code": 500, "message": "the whole batch failed because of one row, what shall we do about it now"}',
        "please write some code that sums two columns, and then have someone review what came out of it",
        "open pdf-tables.py and fix the loop",
        "see src/pdf-tables/main for the loop",
    ],
)
def test_words_that_only_look_like_a_name_ask_for_nothing(text: str) -> None:
    assert not asked(text)


def test_a_name_of_several_parts_in_running_text_is_always_on_the_slate() -> None:
    found = ALL.find("after upgrading, spring security 6 rejects every login; pdf-tables worked before")
    assert {NAMES[row] for row in found.parts} == {"spring security 6", "pdf-tables"}
    assert found.bonus(NAMES.index("pdf-tables"))[0] == PARTS_BONUS
    assert set(found.always) == set(found.parts)


def test_a_plain_word_is_a_bonus_that_shrinks_with_the_request() -> None:
    short, long = ALL.find("please review it"), ALL.find("please review it " + "and then some more of that " * 20)
    row = NAMES.index("review")
    assert not short.asked
    assert 0 < long.plain[row] < 0.02 < 0.2 < short.plain[row] < 1


def test_a_marked_beginning_stands_for_the_names_that_begin_so() -> None:
    assert asked("/pdf-tab") == {"pdf-tables"}
    assert asked("/pdf-") == set()
    many = names([f"pdf-{n}" for n in range(PREFIX_NAMES + 1)])
    assert not many.find("/pdf-").asked
    assert not asked("please look at /pdf-tab/x")


def test_skills_that_share_a_name_are_all_asked_for() -> None:
    twice = names(["pdf-tables", "other", "PDF tables"])
    assert set(twice.find("use pdf-tables").asked) == {0, 2}


def test_a_library_without_skills_names_none() -> None:
    assert not names([]).find("use pdf-tables").always


@given(st.text())
def test_any_text_is_only_text(text: str) -> None:
    found = ALL.find(text)
    assert all(0 <= row < len(NAMES) for row in [*found.always, *found.plain])


@given(st.sampled_from(NAMES))
def test_every_name_alone_finds_its_skill(name: str) -> None:
    assert name in asked(name)
    assert name in asked(f'"{name}"') or len(words(name)) == 0


@pytest.mark.parametrize("text", ["a" * 32_000, "a-" * 16_000, "skill " * 5_000, "`" * 9_000, "/a:" * 9_000])
def test_hostile_requests_name_nothing_and_come_to_an_end(text: str) -> None:
    """A pattern that backtracks would still be at it: quadratic time over 32,000 characters is minutes."""
    assert not ALL.find(text).always
