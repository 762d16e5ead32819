"""The committed training data keeps its promises; nothing here needs the outside data."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from metier.evaluate.handmade import read_edits
from metier.models import pairs
from metier.models.pairs import Pair
from metier.text import words

TRAINING = Path(__file__).parents[2] / "training"
NOTES = ("concepts.jsonl", "concepts-2.jsonl")
MIRRORS = ("K-Dense-AI--claude-scientific-skills", "callstackincubator--agent-skills")


def written() -> list[Pair]:
    return [pair for n in range(3) for pair in pairs.read_pairs(TRAINING / f"requests-{n}.jsonl")]


def concepts() -> list[Pair]:
    return [pair for name in NOTES for pair in pairs.read_pairs(TRAINING / name)]


def notes() -> list[dict[str, object]]:
    return [row for name in NOTES for _, row in pairs.rows(TRAINING / name)]


def agentic() -> list[Pair]:
    """One pair for each skill that a long request needs."""
    return [pair for n in range(2) for pair in pairs.read_pairs(TRAINING / f"agentic-{n}.jsonl", "agentic")]


def test_there_are_two_thousand_requests_over_a_thousand_skills_a_tenth_not_english() -> None:
    asked = written()
    assert len(asked) >= 2000
    assert len({p.skill for p in asked}) >= 1000
    share = sum(p.lang != "en" for p in asked) / len(asked)
    assert 0.07 <= share <= 0.13
    assert len({p.lang for p in asked}) >= 5


def test_no_request_names_its_skill_or_repeats_another() -> None:
    asked = written()
    names = {p.skill: p.skill.split("/")[-2] if "/" in p.skill else p.skill for p in asked}
    # Three say React Native or SITE.md: what the user has before them happens to be the skill's name, too.
    assert len(pairs.naming(asked, names)) <= 3
    pairs.refuse_templates(asked, {})
    pairs.refuse_templates(concepts(), {})
    assert max(Counter(" ".join(words(p.request)) for p in asked).values()) == 1


def test_long_requests_are_jobs_with_files_and_checks_that_do_not_name_their_skills() -> None:
    asked = agentic()
    texts = {p.request for p in asked}
    assert len(texts) >= 150
    assert len({p.skill for p in asked}) >= 250
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[len(lengths) // 10] >= 90
    names = {p.skill: p.skill.split("/")[-2] if "/" in p.skill else p.skill for p in asked}
    assert pairs.naming(asked, names) == []
    one_each = list({p.request: p for p in asked}.values())
    pairs.refuse_templates(one_each, {})
    assert pairs.repeated_share(one_each) < 0.001


def test_concept_notes_are_notes_with_problems_that_do_not_name_them() -> None:
    rows = notes()
    assert len({str(row["concept"]).lower() for row in rows}) == len(rows) >= 500
    asked = concepts()
    assert max(Counter(p.request for p in asked).values()) == 1
    named = pairs.naming(asked, {pairs.concept_id(str(r["concept"])): str(r["concept"]) for r in rows})
    assert len(named) <= len(asked) // 100


def digest(name: str) -> str:
    """Of a name as the near-duplicate check compares it."""
    return hashlib.sha256(" ".join(words(name)).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def forbidden() -> set[str]:
    """Digests of the names of all development gold: the names themselves are not ours to publish."""
    return set((TRAINING / "development-names.sha256").read_text(encoding="utf-8").split())


def test_no_development_gold_is_in_training_by_name(forbidden: set[str]) -> None:
    assert len(forbidden) >= 400
    used = [row for _, row in pairs.rows(TRAINING / "skills-used.jsonl")]
    assert [row["skill"] for row in used if digest(str(row["name"])) in forbidden] == []
    rows = notes()
    assert [row["concept"] for row in rows if digest(str(row["concept"])) in forbidden] == []


def test_every_skill_learnt_from_is_listed_with_repository_and_free_licence() -> None:
    used = {str(row["skill"]): row for _, row in pairs.rows(TRAINING / "skills-used.jsonl")}
    tested = {str(row["skill"]).split(":")[0] for _, row in pairs.rows(TRAINING / "lookalikes.jsonl")}
    for skill, row in used.items():
        assert row["licence"] in ("MIT", "Apache-2.0", "MIT-0")
        assert row["repository"] not in tested
        assert not any(mirror in skill for mirror in MIRRORS)
    fair = [p for p in written() + agentic() if p.skill.split(":")[0] not in tested]  # two jobs ask for a tested one
    taught = {p.skill for p in fair if not any(mirror in p.skill for mirror in MIRRORS)}
    assert taught <= set(used)


def test_look_alike_requests_are_many_varied_and_name_no_skill() -> None:
    asked = pairs.read_pairs(TRAINING / "lookalikes.jsonl")
    assert len(asked) >= 400 and len({p.skill for p in asked}) >= 200
    assert pairs.naming(asked, {p.skill: p.skill.split("/")[-2] for p in asked if "/" in p.skill}) == []
    pairs.refuse_templates(asked, {})
    assert max(Counter(" ".join(words(p.request)) for p in asked).values()) == 1


def test_hand_made_edits_change_something_and_what_is_held_has_requests_of_its_own() -> None:
    known = {str(row["id"]) for _, row in pairs.rows(TRAINING / "lookalikes.jsonl")}
    found = read_edits(TRAINING / "handmade.jsonl")
    assert len(found) >= 200 and len({e.kind for e in found}) >= 9
    assert all(before != after for e in found for before, after in e.edits)
    parts = {part: {e.request for e in found if e.part == part} for part in ("looked", "held")}
    assert not parts["looked"] & parts["held"] and min(map(len, parts.values())) >= 70
    assert parts["looked"] | parts["held"] <= known


def test_what_tests_or_thresholds_stand_on_is_not_trained_on() -> None:
    asked = {" ".join(words(p.request)) for p in written() + concepts() + agentic()}
    for name in ("lookalikes", "needed", "needless"):
        kept = [str(row["text"]) for _, row in pairs.rows(TRAINING / f"{name}.jsonl")]
        assert not asked & {" ".join(words(text)) for text in kept}
