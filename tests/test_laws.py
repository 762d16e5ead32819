"""The laws every stage after the first obeys, over random slates (design: Laws).

It never adds or drops a candidate, never alters earlier evidence, does not depend on the order it is given, is
deterministic, and returns candidates by (−score, id). Disclosure keeps candidates, order and evidence too.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.disclose import Disclose
from metier.gate.bank import Bank
from metier.gate.decide import Gate
from metier.models.replay import HashEncoder
from metier.rerank.keep import Graphs
from metier.rerank.witness import Rerank
from metier.store import Store
from metier.types import Candidate, Evidence, Outcome, Requirement, Skill, Slate, Stage, Task, ranked

TEXTS = [
    "fill in a PDF form",
    "tune a slow postgres query without downtime",
    "write release notes",
    "清理 csv 文件",
    "x",
    "",
]
BODIES = [
    "# Steps\n1. Run `qpdf` on the .pdf\n2. Fill in every field of the PDF form.\n3. Keep the original.\n4. Check it.",
    "Use python to read at most 5 MB.",
    "",
    "# A\n\nMust be 3.8",
]


@st.composite
def slates(draw: st.DrawFn) -> Slate:
    numbers = draw(st.lists(st.integers(0, 30), min_size=0, max_size=12, unique=True))
    candidates = []
    for n in numbers:
        needs = draw(st.sampled_from([(), (Requirement("bin", ("no-such-binary-here",), True, "m"),)]))
        flags = draw(st.sampled_from([frozenset(), frozenset({"manual-only"})]))
        about = draw(st.sampled_from(TEXTS))
        digest = f"{n:064d}"
        skill = Skill(
            f"given:s{n}", f"s{n % 7}", about, digest, "/s", "given", (f"/s/s{n}",), requires=needs, flags=flags
        )  # type: ignore[arg-type]
        score = draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.5, -1.0]))
        candidates.append(Candidate(skill, score, (Evidence("retrieve", score, "why", {"cosine": 0.5}),)))
    task = Task(draw(st.sampled_from(TEXTS[:-1])), stack=draw(st.sampled_from(["agent/1", "default"])))
    return Slate("r_1", task, ranked(candidates))


@pytest.fixture(scope="module")
def make_stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stage]]:
    home: Path = tmp_path_factory.mktemp("home")
    bank = Bank(Store(home / "store.db"))
    rng = random.Random(0)
    bank.append(
        [
            Outcome(text, (f"given:s{n}",), (f"{n:064d}",), "agent/1", arm, rng.choice([0.0, 0.5, 1.0]), origin="check")
            for n in range(0, 31, 2)
            for text in TEXTS[:4]
            for arm in ("use", "skip")
        ]
    )
    yield {
        "rerank": Rerank(graph=Graphs(body_of), encoder=HashEncoder()),
        "rerank everywhere": Rerank(graph=Graphs(body_of), general=0.5),
        "gate": Gate(bank, HashEncoder()),
        "exploring gate": Gate(bank, HashEncoder(), explore=0.5, seed=3),
    }


STAGES = ["rerank", "rerank everywhere", "gate", "exploring gate"]


def body_of(skill: Skill) -> str:
    """Every fourth skill has the same body: look-alikes, told apart by nothing but their last line."""
    n = int(skill.digest)
    return f"{BODIES[n % len(BODIES)]}\n{'' if n % 3 else 'Never print.'}"


def stage_of(stages: dict[str, Stage], name: str) -> Callable[[Slate], Slate]:
    return stages[name]


@pytest.mark.parametrize("name", STAGES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slate=slates(), seed=st.integers(0, 10))
def test_a_stage_keeps_the_laws(name: str, slate: Slate, seed: int, make_stages: dict[str, Stage]) -> None:
    stage = stage_of(make_stages, name)
    after = stage(slate)
    before = {c.skill.id: c for c in slate.candidates}
    assert {c.skill.id for c in after.candidates} == set(before)
    for candidate in after.candidates:
        earlier = before[candidate.skill.id].evidence
        assert candidate.evidence[: len(earlier)] == earlier
    assert after.candidates == ranked(after.candidates)
    assert stage(slate) == after
    shuffled = list(slate.candidates)
    random.Random(seed).shuffle(shuffled)
    assert stage(replace(slate, candidates=tuple(shuffled))) == after


@settings(max_examples=60, deadline=None)
@given(slate=slates(), budget=st.integers(0, 600))
def test_disclosure_keeps_candidates_order_and_evidence(slate: Slate, budget: int) -> None:
    shown = Disclose(lambda s: BODIES[0], budget=budget)(slate).slate
    assert [c.skill.id for c in shown.candidates] == [c.skill.id for c in slate.candidates]
    for mine, given_one in zip(shown.candidates, slate.candidates, strict=True):
        assert mine.evidence[: len(given_one.evidence)] == given_one.evidence
