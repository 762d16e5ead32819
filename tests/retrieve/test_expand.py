"""Expansion: what is asked, what is kept, how vectors move, and that a route never waits longer than it may."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from metier.errors import LLMError
from metier.models.recorded import RecordedLLM
from metier.models.replay import HashEncoder
from metier.retrieve import expand
from metier.retrieve.expand import Hypothetical, Kept, kept_requests, moved, plain
from metier.store import Store
from metier.types import Skill

SKILL = Skill("given:pdf", "pdf-tables", "Extract tables from PDF files", "d", "/x", "given", ("/x",))
SKILLS = {"skills": [{"name": "a", "description": "b", "body": "use pdfplumber page by page"}]}


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


UNITS = arrays(np.float64, (3, 5), elements=st.floats(-1, 1)).filter(lambda a: (np.linalg.norm(a, axis=1) > 0.1).all())


@given(UNITS, UNITS, st.floats(0.0, 0.45))
def test_a_moved_vector_is_the_unit_convex_mean(v: Any, t: Any, weight: float) -> None:
    v, t = unit(v), unit(t)
    out = moved(v, t, weight)
    for row in range(3):  # a plain loop in double precision
        mixed = [(1 - weight) * float(a) + weight * float(b) for a, b in zip(v[row], t[row], strict=True)]
        length = sum(x * x for x in mixed) ** 0.5
        np.testing.assert_allclose(out[row], [x / length for x in mixed], atol=2e-5)
    assert out.dtype == np.float32


def test_nothing_to_move_toward_leaves_a_vector_as_it_is() -> None:
    v = unit(np.array([[1.0, 2.0], [3.0, -1.0]]))
    toward = np.array([[0.0, 0.0], [0.0, 1.0]], np.float32)
    out = moved(v, toward, 0.3)
    np.testing.assert_allclose(out[0], v[0], atol=1e-7)
    assert out[1] @ toward[1] > v[1] @ toward[1]


def test_documents_shift_toward_the_mean_of_ordinary_requests() -> None:
    encoder = HashEncoder()
    documents = encoder.encode(["tables in pdf files", "release notes from git"], kind="document")
    requests = encoder.encode(["please make a table", "write the notes", "fix the build"], kind="query")
    mean = requests.mean(axis=0)
    out = moved(documents, np.broadcast_to(mean, documents.shape), 0.2)
    for row in range(2):
        np.testing.assert_allclose(out[row], unit(0.8 * documents[row] + 0.2 * mean), atol=1e-6)


def test_front_matter_and_code_fences_are_not_encoded() -> None:
    text = "---\nname: x\n---\n# Title\n\n```python\nprint(1)\n```\n\nProse --- stays.\n\n~~~\nx\n~~~\nEnd"
    assert plain(text) == "# Title\n\nProse --- stays.\n\nEnd"
    assert plain("```sh\nls\n```") == "```sh\nls\n```"  # nothing else is in it


def test_the_model_reads_the_skill_and_its_answer_is_at_most_two_requests() -> None:
    llm = RecordedLLM(lambda prompt, sample: {"requests": ["  one\nrequest ", "two of them", "two of them", "three"]})
    assert expand.write_requests(llm, SKILL, "---\na: b\n---\nFind {tables}.") == ("one request", "two of them")
    prompt = llm.asked[0][0]
    assert "pdf-tables: Extract tables from PDF files\n\nFind {tables}." in prompt
    assert "Never write its name" in prompt


def test_the_model_reads_the_request_whatever_braces_are_in_it() -> None:
    llm = RecordedLLM(lambda prompt, sample: SKILLS)
    assert expand.write_skills(llm, 'fix {"a": {b}}') == ("a: b\n\nuse pdfplumber page by page",)
    assert 'fix {"a": {b}}' in llm.asked[0][0]


def test_given_hypothetical_skills_are_used_as_they_are_but_for_fences() -> None:
    given_texts = ["name: Lah\n```\n\n1. Count.\n```skill\nx\n```\n", "", "b", "c"]
    assert expand.given_skills(given_texts) == ("name: Lah\n\nx\n```", "b")


def test_what_a_model_wrote_is_kept_until_text_prompt_or_model_change(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    kept = Kept(store, "m@u")
    kept.put("requests", expand.skill_text(SKILL, "body"), ["a request"], subject=SKILL.id)
    assert kept_requests(store, "m@u", lambda skill: "body")(SKILL) == ("a request",)
    assert kept_requests(store, "m@u", lambda skill: "changed body")(SKILL) == ()
    assert kept_requests(store, "other@u", lambda skill: "body")(SKILL) == ()
    assert kept.get("skills", expand.skill_text(SKILL, "body")) is None


class Slow:
    """A model that answers when it is let."""

    name = "slow"

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked = 0

    def complete(self, prompt: str, *, schema: Mapping[str, Any], sample: int = 0) -> Mapping[str, Any]:
        self.asked += 1
        assert self.let.wait(20)
        return SKILLS


def test_a_route_goes_on_without_a_model_that_is_late_and_has_its_answer_next_time(tmp_path: Path) -> None:
    slow = Slow()
    expansion = Hypothetical(slow, deadline=0.01, kept=Kept(Store(tmp_path / "s.db"), "slow"))
    assert expansion("tables") == ()
    assert expansion.why == "the language model did not answer within 0.01 s"
    assert expansion("tables") == ()
    assert slow.asked == 1  # the first question is still under way
    worker = next(t for t in threading.enumerate() if t.name == "metier-expand")
    slow.let.set()
    worker.join(20)
    assert expansion("tables") == ("a: b\n\nuse pdfplumber page by page",)
    fresh = Hypothetical(Slow(), deadline=0.01, kept=Kept(Store(tmp_path / "s.db"), "slow"))
    assert fresh("tables") == ("a: b\n\nuse pdfplumber page by page",)  # from the store


def test_a_model_that_fails_leaves_the_request_alone() -> None:
    def fail(prompt: str, sample: int) -> Mapping[str, Any]:
        raise LLMError("m@u: no answer after 5 tries; is the server running?")

    expansion = Hypothetical(RecordedLLM(fail), deadline=20.0)
    assert expansion("tables") == ()
    assert expansion("tables") == ()
    assert expansion.why == "m@u: no answer after 5 tries; is the server running?"


@pytest.mark.parametrize("name", ["requests", "skills"])
def test_prompts_say_what_the_paper_asks_and_carry_an_example(name: str) -> None:
    text = expand.prompt(name)
    assert "{count}" in text
    assert "Example." in text
    assert "JSON object" in text
