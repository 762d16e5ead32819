"""The fold and its failure policy: an agent is never worse off than without us."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from metier.disclose import Disclose
from metier.errors import BankError, NotFound, StoreError
from metier.router import Router
from metier.store import Store, log_events, log_route, route_row, shown
from metier.types import Candidate, Evidence, Outcome, Skill, Slate, Task, Verdict, ranked

PDF = Skill("given:pdf", "pdf", "reads PDFs", "d" * 64, "/s", "given", ("/s/pdf",))
CSV = Skill("given:csv", "csv", "reads CSVs", "e" * 64, "/s", "given", ("/s/csv",))


@dataclass(frozen=True)
class Finds:
    skills: tuple[Skill, ...] = (PDF, CSV)
    name: str = "retrieve"

    def __call__(self, slate: Slate) -> Slate:
        found = [Candidate(s, 2.0 - n, (Evidence("retrieve", 2.0 - n, "found"),)) for n, s in enumerate(self.skills)]
        return replace(slate, candidates=ranked(found))


@dataclass(frozen=True)
class Loads:
    name: str = "gate"

    def __call__(self, slate: Slate) -> Slate:
        return replace(slate, candidates=tuple(replace(c, verdict=Verdict("load", "gain")) for c in slate.candidates))


@dataclass(frozen=True)
class Breaks:
    name: str

    def __call__(self, slate: Slate) -> Slate:
        raise ZeroDivisionError("something broke")


def a_router(*stages: object, **others: object) -> Router:
    def resolve(name: str) -> Skill:
        for skill in (PDF, CSV):
            if name in (skill.id, skill.name):
                return skill
        raise NotFound(f"there is no skill '{name}'", ("pdf", "csv"))

    text: Callable[..., str] = lambda skill, resource, nonce: f"{skill.name}:{resource}:{nonce}"  # noqa: E731
    return Router(stages, Disclose(lambda s: "body"), resolve, text, **others)  # type: ignore[arg-type]


def test_the_slate_flows_through_every_stage_and_each_is_timed() -> None:
    route = a_router(Finds(), Loads()).route("read this PDF")
    assert [s.stage for s in route.slate.steps] == ["retrieve", "gate", "disclose"]
    assert "body" in route.text and route.tokens > 0 and route.id.startswith("r_")


def test_a_failing_retrieval_is_an_empty_slate_that_says_why() -> None:
    route = a_router(Breaks("retrieve"), Loads()).route("x")
    assert route.slate.candidates == () and "something broke" in (route.slate.note or "")
    assert route.text == "" and "retrieve failed" in route.warnings[0]


def test_a_failing_reranker_keeps_the_order() -> None:
    route = a_router(Finds(), Breaks("rerank"), Loads()).route("x")
    assert [c.skill.name for c in route.slate.candidates] == ["pdf", "csv"]
    assert route.slate.steps[1].error == "ZeroDivisionError: something broke"


def test_a_failing_gate_loads_nothing_but_offers_stay() -> None:
    route = a_router(Finds(), Loads(), Breaks("gate")).route("x")
    assert {(c.verdict.level, c.verdict.reason) for c in route.slate.candidates} == {("offer", "error")}
    assert "body" not in route.text and "- pdf:" in route.text


def test_a_failing_disclosure_is_no_text_and_a_warning() -> None:
    def broken(slate: Slate, seen: object) -> object:
        raise RuntimeError("no")

    route = replace(a_router(Finds()), disclose=broken).route("x")  # type: ignore[arg-type]
    assert route.text == "" and any("disclose failed" in w for w in route.warnings)


def test_a_log_that_cannot_be_written_is_a_warning_and_the_answer_goes_out() -> None:
    def full(route: object) -> None:
        raise StoreError("store.db: disk full")

    route = a_router(Finds(), log=full).route("x")
    assert "- pdf:" in route.text and "disk full" in route.warnings[-1]


def test_what_a_session_was_shown_is_remembered_across_requests(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    router = a_router(
        Finds(),
        Loads(),
        log=lambda route: log_route(store, route, text="full", source="api"),
        events=lambda events: log_events(store, events),
        seen=lambda session: shown(store, session),
    )
    first, second = (router.route("x", session="s1") for _ in range(2))
    assert "body" in first.text and second.text.count("body") <= 1
    assert router.route("x", session="s1").text == ""
    assert "body" in router.route("x", session="s2").text
    assert route_row(store, first.id) is not None


def test_loading_resolves_on_the_slate_first_and_is_an_event(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    router = a_router(Finds(), events=lambda events: log_events(store, events))
    route = router.route("x")
    assert router.load(route, "csv") == f"csv:None:{route.id}"
    assert store.rows("SELECT what FROM events WHERE skill = 'given:csv' ORDER BY n")[-1]["what"] == "loaded"
    with pytest.raises(NotFound):
        router.load(route, "nothing")


def test_an_outcome_names_task_stack_and_digest() -> None:
    kept: list[Outcome] = []
    router = a_router(Finds(), append=kept.append, stack="agent/1")
    route = router.route("read it", family="f")
    router.record(route, "pdf", 1.0, tokens=12, origin="check")
    (outcome,) = kept
    assert (outcome.task, outcome.skills, outcome.digests) == ("read it", ("given:pdf",), ("d" * 64,))
    assert (outcome.stack, outcome.family, outcome.tokens, outcome.origin) == ("agent/1", "f", 12, "check")


def test_several_skills_are_one_bundle() -> None:
    kept: list[Outcome] = []
    router = a_router(Finds(), append=kept.append)
    router.record(router.route("x"), ["pdf", "csv"], 0.5)
    assert kept[0].skills == ("given:pdf", "given:csv")


def test_an_outcome_of_an_unknown_route_is_refused_with_a_remedy() -> None:
    with pytest.raises(NotFound, match="route_id that `metier route --json`"):
        a_router(Finds(), append=print).record("r_none", "pdf", 1.0)


def test_what_the_bank_refuses_reaches_the_caller() -> None:
    def refuse(outcome: Outcome) -> None:
        raise BankError("success is 2.0; give a number from 0 to 1")

    router = a_router(Finds(), append=refuse)
    with pytest.raises(BankError, match="from 0 to 1"):
        router.record(router.route("x"), "pdf", 2.0)


def test_a_route_found_in_the_log_can_be_recorded_by_id() -> None:
    kept: list[Outcome] = []
    router = a_router(Finds(), append=kept.append, logged=lambda i: Task("from the log") if i == "r_old" else None)
    router.record("r_old", "pdf", 0.0)
    assert kept[0].task == "from the log" and kept[0].route == "r_old"
