"""The bank: appended rows stay, pairs never mix what must not be mixed, and nothing acknowledged is lost."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.errors import BankError
from metier.gate.bank import Bank
from metier.gate.rows import Row, bundle, members, opaque
from metier.store import Store
from metier.types import Outcome

from .material import NOW, STACK, Written, bank, fill, outcome, pair, skill

A = skill("a")


def test_a_pair_is_the_mean_of_both_arms_over_their_repeats(tmp_path):
    b = bank(tmp_path)
    for repeat, (without, used) in enumerate([(0.0, 1.0), (1.0, 1.0), (0.0, 0.5)]):
        b.append(pair("t", A, without, used, repeat=repeat, tokens=100 * (repeat + 1), family="f"))
    found = b.pairs(STACK, A.id)
    assert len(found) == 1 and found.texts == ("t",) and found.families == ("f",)
    assert found.y0[0] == pytest.approx(1 / 3) and found.y1[0] == pytest.approx(2.5 / 3)
    assert found.gains[0] == pytest.approx(0.5)
    assert (found.n0[0], found.n1[0], found.tokens0[0], found.tokens1[0]) == (3, 3, 200, 200)


def test_a_missing_success_is_not_a_failure(tmp_path):
    b = bank(tmp_path)
    b.append([*pair("t", A, 0.0, 1.0), outcome("t", A, "use", None), outcome("t", A, "skip", None)])
    found = b.pairs(STACK, A.id)
    assert (found.y0[0], found.y1[0]) == (0.0, 1.0)
    assert b.tally(STACK, A.id).unjudged == 2


def test_pairs_never_mix_digests_stacks_or_skills(tmp_path):
    b = bank(tmp_path)
    b.append([outcome("t", A, "skip", 0.0), outcome("t", skill("a", digest="new"), "use", 1.0)])
    b.append([outcome("t", A, "use", 1.0, stack="other"), outcome("t", skill("b"), "use", 1.0)])
    for stack in (STACK, "other"):
        for who in ("given:a", "given:b"):
            assert len(b.pairs(stack, who)) == 0


def test_a_run_without_any_skill_is_a_control_for_every_skill_on_that_task_and_stack(tmp_path):
    b = bank(tmp_path)
    control = Outcome("t", (), (), STACK, "skip", 0.25, origin="check", at=NOW)
    b.append([outcome("t", A, "use", 1.0), outcome("t", skill("b"), "use", 0.0)])
    assert len(b.pairs(STACK, A.id)) == 0
    b.append([control])
    b.refresh()
    assert b.pairs(STACK, A.id).gains.tolist() == [0.75]
    assert b.pairs(STACK, "given:b").gains.tolist() == [-0.25]
    b.append([outcome("t", A, "skip", 1.0)])
    b.refresh()
    assert b.pairs(STACK, A.id).gains.tolist() == [0.0]  # its own runs come before a control


def test_rows_of_origin_agent_are_kept_and_counted_apart(tmp_path):
    b = bank(tmp_path)
    b.append(pair("t", A, 0.0, 1.0, origin="agent"))
    assert len(b.pairs(STACK, A.id)) == 0 and b.tally(STACK, A.id).agent == 2
    assert len(b.outcomes()) == 2


def test_stale_pairs_are_kept_and_told_apart_by_digest(tmp_path):
    b, new = bank(tmp_path), skill("a", digest="new")
    fill(b, A, [1, 1])
    fill(b, new, [-1])
    found = b.pairs(STACK, A.id)
    assert found.of(A.digest).tolist() == [True, True, False]
    assert found.where(found.of("new")).gains.tolist() == [-1.0]


def test_a_bundle_has_rows_of_its_own_whatever_the_order_of_its_skills(tmp_path):
    b, one, two = bank(tmp_path), skill("one"), skill("two")
    b.append(pair("t", [one, two], 0.0, 1.0) + pair("u", [two, one], 0.0, 0.0))
    assert len(b.pairs(STACK, [two.id, one.id])) == 2
    assert len(b.pairs(STACK, one.id)) == 0
    assert b.skills(STACK) == [("given:one", "given:two")]


@given(st.lists(st.text(min_size=1), max_size=4))
def test_a_bundles_stored_name_gives_its_members_back(ids):
    assert members(bundle(ids)) == tuple(ids)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"success": 1.5}, "success is 1.5"),
        ({"success": -0.1}, "success is -0.1"),
        ({"success": math.nan}, "success is nan"),
        ({"success": True}, "success is True"),
        ({"tokens": -1}, "tokens is -1"),
        ({"propensity": 0.0}, "propensity is 0"),
        ({"propensity": 1.1}, "propensity is 1.1"),
        ({"stack": " "}, "stack is empty"),
        ({"task": ""}, "task is empty"),
        ({"skills": (), "digests": ()}, "no skill is named"),
        ({"digests": ()}, "1 skills but 0 digests"),
        ({"skills": ("a", "a"), "digests": ("", "")}, "name each skill once"),
        ({"arm": "load"}, "arm is 'load'"),
        ({"origin": "me"}, "origin is 'me'"),
        ({"repeat": -1}, "repeat is -1"),
        ({"at": math.inf}, "at is inf"),
    ],
)
def test_an_outcome_that_cannot_be_a_row_is_refused_and_nothing_of_its_batch_is_kept(tmp_path, change, says):
    b = bank(tmp_path)
    good = outcome("t", A, "use", 1.0)
    with pytest.raises(BankError, match=says):
        b.append([good, dataclasses.replace(good, **change)])
    assert b.outcomes() == []


def test_the_same_row_of_a_route_is_recorded_once(tmp_path):
    b = bank(tmp_path)
    said = outcome("t", A, "use", 1.0, route="r_1")
    assert b.append([said]) == 1
    assert b.append([dataclasses.replace(said, at=NOW + 5)]) == 0
    assert b.append([dataclasses.replace(said, success=0.0)]) == 1
    assert b.append([dataclasses.replace(said, route=None)] * 2) == 2


def test_an_opaque_task_is_never_embedded(tmp_path):
    b, encoder = bank(tmp_path), Written()
    b.append(pair(opaque("sha256-abc"), A, 0.0, 1.0) + pair("a text", A, 0.0, 1.0))
    assert b.embed(encoder) == 1 and encoder.asked == ["a text"]
    found = b.pairs(STACK, A.id, "written")
    assert found.names[0] == "sha256-abc" and found.texts[0] is None
    assert found.vectors.any(axis=1).tolist() == [False, True] and found.blank.tolist() == [False, False]


def test_embeddings_are_kept_per_encoder_and_computed_once(tmp_path):
    b, one, two = bank(tmp_path), Written(name="one"), Written(name="two", dim=4)
    fill(b, A, [1, 0, -1])
    assert [b.embed(one), b.embed(one), b.embed(two), b.embed(one)] == [3, 0, 3, 0]
    assert np.linalg.norm(b.pairs(STACK, A.id, "one").vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert b.pairs(STACK, A.id, "two").vectors.shape == (3, 4)


def test_a_text_the_encoder_cannot_read_is_tried_once(tmp_path):
    b, encoder = bank(tmp_path), Written({"task 0": []})
    fill(b, A, [1, 1])
    assert b.embed(encoder) == 2 and b.embed(encoder) == 0
    found = b.pairs(STACK, A.id, "written")
    assert found.vectors.any(axis=1).tolist() == [False, True] and not found.blank.any()


def test_text_that_is_not_quite_unicode_is_kept_as_well_as_it_can_be(tmp_path):
    b = bank(tmp_path)
    b.append(pair("broken \ud800 text \x00", A, 0.0, 1.0))
    assert b.pairs(STACK, A.id).texts == ("broken ? text \x00",)


def test_news_are_seen_by_others_and_only_skills_with_news_are_read_again(tmp_path):
    reader, writer, other = bank(tmp_path), bank(tmp_path), skill("b")
    fill(writer, A, [1])
    fill(writer, other, [1])
    before, still = reader.pairs(STACK, A.id), reader.pairs(STACK, other.id)
    fill(writer, A, [1, 1], task="more {}")
    assert reader.pairs(STACK, A.id) is before
    reader.refresh()
    first = reader.pairs(STACK, A.id)
    assert len(first) == 3
    fill(writer, A, [1], task="yet {}")
    still = reader.pairs(STACK, other.id)
    reader.refresh()
    assert reader.pairs(STACK, other.id) is still and len(reader.pairs(STACK, A.id)) == 4


# ------------------------------------------------------------------------------------------- an independent oracle


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(["use", "skip"]),
            st.sampled_from([0.0, 0.5, 1.0, None]), st.sampled_from(["check", "agent", "import"]),
            st.sampled_from([STACK, "other"]),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_the_paired_view_is_what_plain_loops_over_the_rows_give(made):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        b = bank(Path(folder))
        rows = [outcome(f"t{t}", skill(s, digest=d), arm, y, origin=o, stack=k) for t, s, d, arm, y, o, k in made]
        if rows:
            b.append(rows)
        for stack in (STACK, "other"):
            for name in "ab":
                found = b.pairs(stack, f"given:{name}")
                expected = {}
                for t, s, d, arm, y, o, k in made:
                    if (s, k) == (name, stack) and y is not None and o != "agent":
                        expected.setdefault((f"t{t}", d), {}).setdefault(arm, []).append(y)
                expected = {
                    key: (np.mean(arms["skip"]), np.mean(arms["use"]))
                    for key, arms in expected.items()
                    if len(arms) == 2
                }
                told = {
                    (text, digest): (y0, y1)
                    for text, digest, y0, y1 in zip(found.texts, found.digests, found.y0, found.y1, strict=True)
                }
                assert told == {key: pytest.approx(value) for key, value in expected.items()}
        b.store.close()


# ---------------------------------------------------------------------------------------------- nothing is lost


def _write_many(path, writer, count):
    b = Bank(Store(path))
    for number in range(count):
        b.append([outcome(f"w{writer} t{number}", A, "use", 1.0)])


def test_eight_writers_at_once_lose_nothing(tmp_path):
    Store(tmp_path / "store.db").rows("SELECT 1")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path / "store.db", n, 10)) for n in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0] * 8
    tasks = {row.outcome.task for row in bank(tmp_path).outcomes()}
    assert tasks == {f"w{writer} t{number}" for writer in range(8) for number in range(10)}


_APPENDER = """
    import sys
    from metier.gate.bank import Bank
    from metier.store import Store
    from metier.types import Outcome
    bank = Bank(Store(sys.argv[1]))
    for number in range(200):
        bank.append([Outcome(f"t{number}", ("given:a",), ("d",), "s", "use", 1.0)])
        print(number, flush=True)
"""


def test_a_kill_in_the_middle_of_200_appends_loses_none_that_was_acknowledged(tmp_path):
    path = tmp_path / "store.db"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_APPENDER), str(path)], stdout=subprocess.PIPE, text=True
    )
    acknowledged = []
    for line in process.stdout:
        acknowledged.append(int(line))
        if len(acknowledged) == 60:
            os.kill(process.pid, signal.SIGKILL)
            break
    acknowledged += [int(line) for line in process.stdout if line.strip()]
    assert process.wait() == -signal.SIGKILL
    kept = {row.outcome.task for row in Bank(Store(path)).outcomes()}
    assert {f"t{number}" for number in acknowledged} <= kept
    assert len(kept) <= len(acknowledged) + 1
    Bank(Store(path)).append([outcome("after", A, "use", 1.0)])


def test_threads_share_one_bank(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    b = bank(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: b.add([Row(o) for o in pair(f"t{n}", A, 0.0, 1.0)]), range(40)))
        b.refresh()
        sizes = list(pool.map(lambda n: len(b.pairs(STACK, A.id)), range(16)))
    assert sizes == [40] * 16
