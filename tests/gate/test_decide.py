"""The Gate stage: who may load, and everything that must never let a skill load."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.gate.decide import MIN_PAIRS
from metier.gate.rows import Row
from metier.gate.runnable import Machine, Runnable
from metier.gate.words import what_earns_it
from metier.types import Candidate, Config, Evidence, Outcome, Requirement, Slate, Task

from .material import HERE, STACK, Written, bank, fill, gate, outcome, pair, skill, slate, verdicts


def test_with_an_empty_bank_nothing_is_loaded_and_cards_are_offered(tmp_path):
    judged = gate(bank(tmp_path))(slate([skill("a"), skill("b")]))
    assert verdicts(judged) == {"a": ("offer", "no-evidence"), "b": ("offer", "no-evidence")}
    assert (
        what_earns_it(judged) == "a: 3 more paired past tasks with a mean gain above 0 would load it (metier collect)"
    )


def test_a_skill_that_helped_on_past_tasks_is_loaded_and_the_tasks_are_named(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1, 1, 0, 1, 1, 1], task="fill in form {}")
    judged = gate(b)(slate([a, skill("b")]))
    verdict, why = judged.candidates[0].verdict, judged.candidates[0].evidence[-1].why
    assert (verdict.level, verdict.reason, verdict.support) == ("load", "gain", 6)
    assert verdict.interval[0] <= verdict.tau <= verdict.interval[1]
    assert "fill in form" in why and "without →" in why
    assert what_earns_it(judged) is None


def test_a_skill_with_negative_gain_is_skipped_with_the_tasks_that_show_it(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [-1, -1, 0, -1], task="convert file {}")
    judged = gate(b)(slate([a]))
    found = judged.candidates[0]
    assert (found.verdict.level, found.verdict.reason) == ("skip", "no-gain") and found.verdict.tau < 0
    assert "convert file" in found.evidence[-1].why and "1 without → 0 with" in found.evidence[-1].why
    assert len(found.evidence[-1].detail["neighbours"]) == 4
    named = Evidence("retrieve", 1.0, "named", {"named": True})
    assert verdicts(gate(b)(slate([a], evidence=[named]))) == {"a": ("offer", "no-gain")}


def test_near_tasks_decide_and_far_ones_do_not(tmp_path):
    b, a = bank(tmp_path), skill("a")
    near, far = {f"pdf {i}": [1.0, 0.05 * i] for i in range(6)}, {f"sql {i}": [0.05 * i, 1.0] for i in range(6)}
    encoder = Written({**near, **far, "a pdf": [1.0, 0.0], "a query": [0.0, 1.0]})
    for task in near:
        b.append(pair(task, a, 0.0, 1.0))
    for task in far:
        b.append(pair(task, a, 1.0, 0.0))
    stage = gate(b, encoder=encoder)
    assert verdicts(stage(slate([a], text="a pdf"))) == {"a": ("load", "gain")}
    assert verdicts(stage(slate([a], text="a query"))) == {"a": ("skip", "no-gain")}


def test_the_request_is_encoded_once_and_only_when_a_past_task_can_be_compared(tmp_path):
    b, encoder = bank(tmp_path), Written()
    stage = gate(b, encoder=encoder)
    stage(slate([skill("a"), skill("b")]))
    assert encoder.asked == []
    fill(b, skill("a"), [1, 1, 1])
    fill(b, skill("b"), [1, 1, 1])
    encoder.asked.clear()
    stage(slate([skill("a"), skill("b")]))
    assert encoder.asked.count("the request") == 1
    encoder.asked.clear()
    stage(slate([skill("a"), skill("b")]))
    assert encoder.asked == ["the request"]


def test_a_digest_change_turns_load_back_to_offer_and_says_why(tmp_path):
    b, old, new = bank(tmp_path), skill("a"), skill("a", digest="changed")
    fill(b, old, [1] * 6)
    judged = gate(b)(slate([new]))
    assert verdicts(judged) == {"a": ("offer", "stale")}
    assert "changed since its 6 past tasks" in judged.candidates[0].evidence[-1].why
    assert verdicts(gate(b, stale="discount")(slate([new]))) == {"a": ("load", "gain")}


def test_evidence_of_one_stack_never_moves_a_decision_of_another(tmp_path):
    b, a, harmful = bank(tmp_path), skill("a"), skill("b")
    fill(b, a, [1] * 9, stack="other/model")
    fill(b, harmful, [-1] * 9, stack="other/model")
    here = gate(b)(slate([a, harmful]))
    assert here == gate(bank(tmp_path / "empty"))(slate([a, harmful]))
    assert verdicts(gate(b)(slate([a, harmful], stack="other/model"))) == {
        "a": ("load", "gain"),
        "b": ("skip", "no-gain"),
    }


def test_an_unknown_stack_never_loads(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1] * 9, stack="default")
    judged = gate(b)(slate([a], stack="default"))
    assert verdicts(judged) == {"a": ("offer", "no-evidence")}
    assert "name the agent's stack" in str(what_earns_it(judged))


def test_two_pairs_are_too_few_to_load_or_to_skip(tmp_path):
    b, a, c = bank(tmp_path), skill("a"), skill("c")
    fill(b, a, [1] * (MIN_PAIRS - 1))
    fill(b, c, [-1] * (MIN_PAIRS - 1))
    judged = gate(b)(slate([a, c]))
    assert verdicts(judged) == {"a": ("offer", "low-support"), "c": ("offer", "low-support")}
    assert "1 more paired past task " in str(what_earns_it(judged))


def test_family_rows_can_offer_or_skip_but_never_load(tmp_path):
    b, mine, twin = bank(tmp_path), skill("mine"), skill("twin")
    families = {mine.id: "forms", twin.id: "forms"}
    fill(b, twin, [1] * 9)
    judged = gate(b, families=families)(slate([mine]))
    assert verdicts(judged) == {"mine": ("offer", "low-support")}
    assert judged.candidates[0].verdict.tau > 0 and "its family's" in judged.candidates[0].evidence[-1].why
    b = bank(tmp_path / "harm")
    fill(b, twin, [-1] * 9)
    assert verdicts(gate(b, families=families)(slate([mine]))) == {"mine": ("skip", "no-gain")}
    assert verdicts(gate(b, families={"mine": "forms", "twin": "forms"})(slate([mine]))) == {
        "mine": ("skip", "no-gain")
    }


def test_rows_that_an_agent_reported_itself_never_load(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1] * 9, origin="agent")
    judged = gate(b)(slate([a]))
    assert verdicts(judged) == {"a": ("offer", "untrusted")}
    assert "reported by the agent itself" in judged.candidates[0].evidence[-1].why


def test_self_selected_single_arms_never_load(tmp_path):
    b, a = bank(tmp_path), skill("a")
    b.append([outcome(f"task {n}", a, "use", 1.0) for n in range(20)])
    judged = gate(b)(slate([a]))
    assert verdicts(judged) == {"a": ("offer", "no-evidence")}
    assert b.tally(STACK, a.id, "written").single == 20


def test_a_skill_that_needs_a_missing_program_is_never_loaded_whatever_its_gain(tmp_path):
    b = bank(tmp_path)
    needy = skill("a", requires=(Requirement("bin", ("no-such-program",), True, "metadata.openclaw.requires.bins"),))
    fill(b, needy, [1] * 9)
    judged = gate(b)(slate([needy]))
    assert verdicts(judged) == {"a": ("skip", "missing-requirement")}
    assert judged.candidates[0].verdict.missing == ("bin no-such-program",)
    assert verdicts(gate(b, allow=frozenset({"a"}))(slate([needy]))) == {"a": ("load", "gain")}
    remote = Slate("r_1", Task("the request", stack=STACK, local=False), (Candidate(needy, 1.0),))
    judged = gate(b)(remote)
    assert verdicts(judged) == {"a": ("load", "gain")}
    assert "could not check bin no-such-program" in judged.candidates[0].evidence[-1].why


def test_what_is_missing_is_said_once_and_lacking_files_are_counted(tmp_path):
    files = [Requirement("file", (f"references/{n}.md",), False, "body") for n in range(3)]
    lacking = skill("a", requires=(Requirement("bin", ("no-such-program",), True, "compatibility"), *files))
    said = gate(bank(tmp_path))(slate([lacking])).candidates[0].evidence[-1].why
    assert said == (
        "cannot run here · no-such-program is not on the path · "
        "its text mentions references/0.md and 2 more files that its folder lacks"
    )


def test_a_costly_body_of_a_cold_family_is_skipped_unless_it_was_named(tmp_path):
    b, big = bank(tmp_path), skill("big", body_tokens=27_000)
    assert verdicts(gate(b)(slate([big]))) == {"big": ("skip", "cost")}
    named = Evidence("retrieve", 1.0, "named", {"named": True})
    assert verdicts(gate(b)(slate([big], evidence=[named]))) == {"big": ("offer", "no-evidence")}
    assert verdicts(gate(b, cold_tokens=27_000)(slate([big]))) == {"big": ("offer", "no-evidence")}
    assert "name it in the request" in str(what_earns_it(gate(b)(slate([big]))))


def test_a_manual_only_skill_is_skipped_unless_named_and_never_loaded(tmp_path):
    b, manual = bank(tmp_path), skill("m", flags=frozenset({"manual-only"}))
    fill(b, manual, [1] * 9)
    assert verdicts(gate(b)(slate([manual]))) == {"m": ("skip", "manual-only")}
    named = Evidence("retrieve", 1.0, "named", {"named": True})
    assert verdicts(gate(b)(slate([manual], evidence=[named]))) == {"m": ("offer", "manual-only")}


def test_disabled_and_excluded_skills_are_skipped(tmp_path):
    off, out = skill("off", flags=frozenset({"disabled"})), skill("out")
    judged = gate(bank(tmp_path), exclude=frozenset({"out"}))(slate([off, out]))
    assert verdicts(judged) == {"off": ("skip", "disabled"), "out": ("skip", "disabled")}


def test_safety_critical_is_the_users_word_and_never_the_skills_own(tmp_path):
    b = bank(tmp_path)
    claims, other = skill("claims", flags=frozenset({"safety-critical"})), skill("other")
    fill(b, claims, [-1] * 6)
    assert verdicts(gate(b)(slate([claims])))["claims"] == ("skip", "no-gain")
    marked = gate(b, safety_critical=frozenset({"claims"}), explore=1.0)
    assert verdicts(marked(slate([claims, other])))["claims"] == ("load", "safety-critical")
    assert verdicts(marked(slate([other, claims])))["claims"] == ("offer", "safety-critical")
    assert verdicts(marked(slate([claims, other], stack="default")))["claims"] == ("load", "safety-critical")


@pytest.mark.parametrize(
    ("settings_", "eta"),
    [
        ({"eta": 0.1}, 0.1),
        ({"eta": 0.1, "etas": {"forms": 0.2}}, 0.2),
        ({"eta": 0.1, "etas": {"forms": 0.2, "a": 0.3}}, 0.3),
        ({"eta": 0.1, "etas": {"forms": 0.2, "a": 0.3, "given:a": 0.4}}, 0.4),
    ],
)
def test_eta_comes_from_the_skill_then_its_family_then_the_default(tmp_path, settings_, eta):
    b, a = bank(tmp_path), skill("a")
    b.keep_eta(STACK, "forms", 0.15, "test")
    judged = gate(b, families={a.id: "forms"}, **settings_)(slate([a]))
    assert judged.candidates[0].verdict.eta == (0.15 if "etas" not in settings_ else eta)
    assert gate(b, **settings_)(slate([skill("z")])).candidates[0].verdict.eta == settings_["eta"]


def test_eta_grows_with_what_the_body_costs(tmp_path):
    b, small, big = bank(tmp_path), skill("a", body_tokens=500), skill("b", body_tokens=5000)
    for each in (small, big):
        fill(b, each, [1, 0, 0, 0, 0, 0, 0, 0])
    encoder = Written({"the request": [1.0], **{f"task {n}": [1.0] for n in range(8)}})
    stage = gate(b, encoder=encoder, exchange=4.0)  # 4 success points per 1,000 tokens
    judged = stage(slate([small, big]))
    assert [round(c.verdict.eta, 6) for c in judged.candidates] == [0.02, 0.2]
    assert verdicts(judged) == {"a": ("load", "gain"), "b": ("skip", "no-gain")}


def test_exploration_withholds_about_its_share_of_loads_and_logs_the_propensity(tmp_path):
    b, a, bad = bank(tmp_path), skill("a"), skill("bad")
    fill(b, a, [1] * 6)
    fill(b, bad, [-1] * 6)
    stage, plain = gate(b, explore=0.2, seed=3), gate(b)
    levels = []
    for number in range(400):
        judged = stage(slate([a, bad], slate_id=f"r_{number}"))
        verdict = judged.candidates[0].verdict
        levels.append(verdict.level)
        assert verdict.propensity == (0.8 if verdict.level == "load" else 0.2)
        assert judged.candidates[1] == plain(slate([a, bad], slate_id=f"r_{number}")).candidates[1]
        assert stage(slate([a, bad], slate_id=f"r_{number}")) == judged
    assert set(levels) == {"load", "skip"} and 50 <= levels.count("skip") <= 110
    assert levels != [gate(b, explore=0.2, seed=4)(slate([a], slate_id=f"r_{n}")).candidates[0].verdict.level
                      for n in range(400)]  # fmt: skip


def test_skills_used_together_are_judged_by_their_own_rows_as_a_set(tmp_path):
    b, one, two = bank(tmp_path), skill("one"), skill("two")
    fill(b, [two, one], [1] * 6)
    alone = slate([one, two])
    assert verdicts(gate(b)(alone)) == {"one": ("offer", "no-evidence"), "two": ("offer", "no-evidence")}
    together = slate([one, two], cover=[one.id, two.id])
    assert verdicts(gate(b)(together)) == {"one": ("load", "gain"), "two": ("load", "gain")}
    changed = slate([one, skill("two", digest="new")], cover=[one.id, two.id])
    assert "load" not in [level for level, _ in verdicts(gate(b)(changed)).values()]


def test_a_change_of_encoder_embeds_the_past_tasks_again(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1] * 6)
    first, second = Written(name="one"), Written(name="two", dim=8)
    before = gate(b, encoder=first)(slate([a])).candidates[0].evidence[-1].detail["neighbours"]
    after = gate(b, encoder=second)(slate([a])).candidates[0].evidence[-1].detail["neighbours"]
    assert set(second.asked) == {"the request", *(f"task {n}" for n in range(6))}
    assert [each["cosine"] for each in before] != [each["cosine"] for each in after]
    assert all(each["cosine"] != 0 for each in after)


def test_without_an_encoder_past_tasks_count_alike(tmp_path):
    b, a = bank(tmp_path), skill("a")
    fill(b, a, [1, -1, 1, 1])
    judged = gate(b, encoder=None)(slate([a]))
    assert judged.candidates[0].verdict.tau == pytest.approx(2 / 6)


def test_the_gate_is_what_its_configuration_says(tmp_path):
    config = Config(home=str(tmp_path), eta=0.1, families={"a": "mine"}, explore=0.5, seed=9, allow=("x",),
                    safety_critical=("y",), exclude=("z",), exchange=2.0, stale="discount", cold_tokens=5)  # fmt: skip
    from metier.gate.decide import Gate

    stage = Gate.of(config, bank(tmp_path), None, Runnable(machine=HERE), {"given:a": "cluster", "given:b": "cluster"})
    assert stage.family(skill("b")) == "cluster" and stage.family(skill("c")) == "given:c"
    assert (stage.eta, stage.explore, stage.seed, stage.exchange, stage.stale, stage.cold_tokens) == (
        0.1, 0.5, 9, 2.0, "discount", 5)  # fmt: skip
    assert (stage.allow, stage.safety_critical, stage.exclude) == ({"x"}, {"y"}, {"z"})
    assert "explore=0.5" in repr(stage)


def test_the_users_family_wins_over_the_cluster_of_look_alikes(tmp_path):
    from metier.gate.decide import Gate

    config = Config(home=str(tmp_path), families={"given:a": "mine"})
    stage = Gate.of(config, bank(tmp_path), None, Runnable(), {"given:a": "cluster"})
    assert stage.family(skill("a")) == "mine"


# ------------------------------------------------------------------------------------------------------ properties


def rows(draw, names, *, origins=("check", "person", "ci", "import"), stacks=(STACK,)):
    made = []
    for _ in range(draw(st.integers(0, 24))):
        who = skill(draw(st.sampled_from(names)), digest=draw(st.sampled_from([None, None, "older"])))
        made.append(
            outcome(f"t{draw(st.integers(0, 5))}", who, draw(st.sampled_from(["use", "skip"])),
                    draw(st.sampled_from([0.0, 0.5, 1.0, None])), stack=draw(st.sampled_from(stacks)),
                    origin=draw(st.sampled_from(origins)))
        )  # fmt: skip
    return made


NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("bank")


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_gate_obeys_the_laws_of_every_stage(folders, data):
    b = bank(folders())
    made = rows(data.draw, NAMES)
    if made:
        b.append(made)
    stage = gate(b, families={"given:a": "f", "given:b": "f"}, explore=data.draw(st.sampled_from([0.0, 0.5])))
    given_ = slate([skill(n, body_tokens=data.draw(st.sampled_from([10, 9000]))) for n in NAMES],
                   evidence=[Evidence("retrieve", 1.0, "x")])  # fmt: skip
    judged = stage(given_)
    shuffled = list(given_.candidates)
    random.Random(data.draw(st.integers(0, 99))).shuffle(shuffled)
    assert stage(dataclasses.replace(given_, candidates=tuple(shuffled))) == judged
    assert stage(given_) == judged
    assert [c.skill for c in judged.candidates] == [c.skill for c in given_.candidates]
    for before, after in zip(given_.candidates, judged.candidates, strict=True):
        assert after.evidence[:-1] == before.evidence and after.score == before.score
        assert after.evidence[-1].stage == "gate" and after.evidence[-1].why


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_what_must_not_count_never_turns_a_verdict_into_load(folders, data):
    honest = rows(data.draw, NAMES)
    b = bank(folders())
    if honest:
        b.append(honest)
    families = {"given:a": "f", "given:b": "f"}
    given_ = slate([skill(n) for n in NAMES])
    before = gate(b, families=families)(given_)
    loud = [outcome(f"t{n}", skill(name), arm, float(arm == "use"), origin="agent")
            for n in range(6) for name in NAMES for arm in ("use", "skip")]  # fmt: skip
    elsewhere = [row for name in NAMES for n in range(6) for row in pair(f"t{n}", skill(name), 0.0, 1.0, stack="other")]
    single = [outcome(f"new {n}", skill(name), "use", 1.0) for n in range(6) for name in NAMES]
    b.append(loud + elsewhere + single)
    after = gate(b, families=families)(given_)
    loaded = {c.skill.id for c in before.candidates if c.verdict.level == "load"}
    assert {c.skill.id for c in after.candidates if c.verdict.level == "load"} == loaded
    explored = gate(b, families=families, explore=data.draw(st.floats(0.01, 1)), seed=data.draw(st.integers(0, 9)))(
        given_
    )
    for plain, drawn in zip(after.candidates, explored.candidates, strict=True):
        if plain.verdict.level != "load":
            assert drawn == plain


def test_rows_of_another_skill_of_the_family_alone_never_load_for_any_gain(tmp_path):
    b = bank(tmp_path)
    for number in range(5):
        fill(b, skill(f"kin{number}"), [1] * 6, task=f"kin {number} {{}}")
    families = {f"given:kin{n}": "f" for n in range(5)} | {"given:me": "f"}
    assert verdicts(gate(b, families=families)(slate([skill("me")])))["me"][0] == "offer"


def test_an_imported_difference_counts_as_a_pair_of_the_digest_it_was_bound_to(tmp_path):
    b, a = bank(tmp_path), skill("a")
    b.add([
        Row(Outcome(f"id:{n}", (a.id,), (a.digest,), STACK, "use", None, origin="import"), gain=1.0) for n in range(4)
    ])  # fmt: skip
    judged = gate(b)(slate([a]))
    assert verdicts(judged) == {"a": ("load", "gain")}
    assert "gain +1.00" in judged.candidates[0].evidence[-1].why


def test_two_gates_on_one_bank_see_each_others_rows(tmp_path):
    a = skill("a")
    reader, writer = bank(tmp_path), bank(tmp_path)
    stage = gate(reader)
    assert verdicts(stage(slate([a]))) == {"a": ("offer", "no-evidence")}
    fill(writer, a, [1] * 6)
    assert verdicts(stage(slate([a]))) == {"a": ("load", "gain")}


def test_what_the_machine_has_is_looked_up_anew_for_every_slate(tmp_path):
    program = tmp_path / "bin" / "tool-x"
    program.parent.mkdir()
    needy = skill("a", requires=(Requirement("bin", ("tool-x",), True, "compatibility"),))
    stage = gate(bank(tmp_path), runnable=Runnable(machine=Machine("linux", str(program.parent), frozenset())))
    assert verdicts(stage(slate([needy])))["a"] == ("skip", "missing-requirement")
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert verdicts(stage(slate([needy])))["a"] == ("offer", "no-evidence")
