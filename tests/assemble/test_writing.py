"""What a language model writes reaches index and route only where it was found to help."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.chat_server import serving

from metier.assemble.settings import load
from metier.assemble.workshop import Workshop
from metier.retrieve.expand import Kept, skill_text
from metier.retrieve.qualify import Kind, Verdict, keep
from metier.retrieve.vectors import identity

pytest.importorskip("openai", reason="the llm extra is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
DRAFT = {"skills": [{"name": "x", "description": "rebase reflog reset", "body": "git reflog finds lost commits"}]}


def shop(home: Path, url: str = "http://127.0.0.1:9/v1") -> Workshop:
    config, _ = load(flags={"home": str(home), "encoder": "hash", "llm.model": f"m@{url}", "llm.deadline": 20}, env={})
    return Workshop(config, paths=[EXAMPLES])


def helped(of: Workshop, kind: Kind, passed: bool = True) -> None:
    assert of.llm is not None
    verdict = Verdict(kind, passed, 30, 0.5, 0.6, 0.01, "tried")
    keep(of.store, of.llm.name, identity(of.encoder.profile), verdict)


def vectors(of: Workshop) -> Any:
    return np.array(of.opened().index.vectors)


def test_requests_of_a_qualified_model_move_their_skill_at_the_next_index(tmp_path: Path) -> None:
    first = shop(tmp_path)
    first.refresh()
    plain, skill = vectors(first), first.skill("git-recovery")
    row = [s.id for s in first.library.skills].index(skill.id)
    assert first.llm is not None
    Kept(first.store, first.llm.name).put("requests", skill_text(skill, first.body(skill)), ["two days of work gone"])
    first.refresh()
    assert np.array_equal(vectors(first), plain)  # nobody tried the model: its requests wait
    helped(first, "requests")
    first.refresh()
    moved = np.abs(vectors(first) - plain).max(axis=1)
    assert moved[row] > 0.01 and np.delete(moved, row).max() == 0
    again = first.refresh()
    assert again.unchanged == 15 and again.encoded == 0


def test_a_benchmark_is_built_without_what_a_model_wrote(tmp_path: Path) -> None:
    first = shop(tmp_path)
    skill = first.skill("git-recovery")
    assert first.llm is not None
    Kept(first.store, first.llm.name).put("requests", skill_text(skill, first.body(skill)), ["two days of work gone"])
    helped(first, "requests")
    first.refresh()
    bench = Workshop(first.config, paths=[EXAMPLES], evaluating=True)
    bench.refresh()
    assert not np.array_equal(vectors(bench), vectors(first))


def test_hypothetical_skills_of_a_qualified_model_speak_in_both_channels(tmp_path: Path) -> None:
    request = "my afternoon has vanished from the repository"
    with serving(lambda number, body: (200, {}, json.dumps(DRAFT))) as (chat, url):
        untried = shop(tmp_path, url)
        untried.refresh()
        before = untried.router(only=["retrieve"]).route(request)
        assert chat.asked == []
        helped(untried, "skills")
        after = shop(tmp_path, url).router(only=["retrieve"]).route(request)
        assert len(chat.asked) == 1

    def found(route: Any) -> dict[str, float]:
        return next(c.evidence[0].detail for c in route.slate.candidates if c.skill.name == "git-recovery")

    assert found(after)["lexical"] > found(before)["lexical"]
    assert found(after)["dense"] > found(before)["dense"]
    assert found(after)["cosine"] == found(before)["cosine"]  # abstention is about the request itself (rule 1.13)


def test_a_model_that_did_not_help_is_never_asked(tmp_path: Path) -> None:
    with serving(lambda number, body: (200, {}, json.dumps(DRAFT))) as (chat, url):
        tried = shop(tmp_path, url)
        tried.refresh()
        helped(tried, "skills", passed=False)
        assert tried.router().route("fill in a form").slate.candidates
        assert chat.asked == []


def test_a_model_that_does_not_answer_costs_the_route_nothing_but_its_deadline(tmp_path: Path) -> None:
    of = shop(tmp_path)  # nobody listens there
    of.refresh()
    helped(of, "skills")
    route = shop(tmp_path).router(source="hook").route("fill in a form")
    assert route.slate.candidates and not [s for s in route.slate.steps if s.error]


def test_a_setting_that_names_no_model_is_a_warning_not_a_failure(tmp_path: Path) -> None:
    config, _ = load(flags={"home": str(tmp_path), "encoder": "hash", "llm.model": "just-a-name"}, env={})
    route = Workshop(config, paths=[EXAMPLES]).router().route("fill in a form")
    assert route.slate.candidates
    assert any("MODEL@URL" in warning for warning in route.warnings)
