"""The stage: the right skill first, why, and nothing where nothing fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.retrieve.world import ZOO, BagEncoder, asked, built, opened, skill

from metier.errors import IndexProblem
from metier.retrieve.abstain import MARKS, TRAITS, Judge
from metier.retrieve.index import Retrieve, load
from metier.text import count_tokens
from metier.types import Profile, Skill, Slate, ranked

ENCODER = BagEncoder()


def stage(
    folder: Path, zoo: Sequence[tuple[Skill, str]] = ZOO, encoder: BagEncoder | None = ENCODER, **options: object
) -> Retrieve:
    return Retrieve(opened(folder, zoo, encoder), [made for made, _ in zoo], encoder, **options)  # type: ignore[arg-type]


def names(slate: Slate) -> list[str]:
    return [c.skill.name for c in slate.candidates]


def test_the_right_skill_comes_first_with_the_scores_of_both_channels(tmp_path: Path) -> None:
    found = stage(tmp_path)(asked("make this slow query fast"))
    assert names(found)[0] == "sql-tuning"
    evidence = found.candidates[0].evidence[0]
    assert evidence.stage == "retrieve"
    assert evidence.why.startswith(
        f"dense {evidence.detail['dense']:.2f} (z {evidence.detail['z_dense']:.1f}) · lexical "
    )
    assert evidence.score == found.candidates[0].score
    assert found.candidates == ranked(found.candidates)
    assert found.note is None


def test_fused_scores_are_the_weighted_z_of_both_channels(tmp_path: Path) -> None:
    for candidate in stage(tmp_path, alpha=0.3)(asked("turn the merged list into notes")).candidates:
        detail = candidate.evidence[0].detail
        assert candidate.score == pytest.approx(0.7 * detail["z_dense"] + 0.3 * detail["z_lexical"])


def test_words_weigh_more_the_longer_a_request_is_beside_what_the_encoder_reads(tmp_path: Path) -> None:
    reads, usual = ENCODER.profile.max_tokens, 0.2
    made = stage(tmp_path, encoder=BagEncoder(replace(ENCODER.profile, alpha=usual)), abstain=False)

    def alpha(tokens: int) -> float:
        best = made(asked("slow notes " + "slow " * (tokens - 3))).candidates[0]
        facts = best.evidence[0].detail
        return (best.score - facts["z_dense"]) / (facts["z_lexical"] - facts["z_dense"])

    assert count_tokens("slow notes " + "slow " * (reads - 3)) == reads
    lengths = [reads // 4, reads // 2, reads * 3 // 4, reads, reads * 2]
    assert [alpha(n) for n in lengths] == pytest.approx([usual, usual, (usual + 0.5) / 2, 0.5, 0.5], abs=0.01)


@pytest.mark.parametrize("channels", ["dense", "lexical", "ranks", "fused"])
def test_each_channel_can_answer_alone(tmp_path: Path, channels: str) -> None:
    assert names(stage(tmp_path, channels=channels)(asked("recover lost git commits")))[0] == "git-recovery"


def test_equal_skills_are_ordered_by_id_whatever_their_rows(tmp_path: Path) -> None:
    one, body = skill("same", "Same words", "Same body text here")
    zoo = [(replace(one, id=f"given:{name}", digest=name * 64), body) for name in ("b", "c", "a")]
    found = stage(tmp_path, zoo)(asked("same body text"))
    assert [c.skill.id for c in found.candidates] == ["given:a", "given:b", "given:c"]


def test_without_vectors_words_answer_and_the_note_says_so(tmp_path: Path) -> None:
    found = stage(tmp_path, encoder=None)(asked("recover lost commits"))
    assert names(found)[0] == "git-recovery"
    assert "words alone" in (found.note or "")
    assert "dense" not in found.candidates[0].evidence[0].why


def test_an_encoder_that_fails_leaves_the_words_to_answer(tmp_path: Path) -> None:
    working = stage(tmp_path)
    found = replace(working, encoder=BagEncoder(breaks_after=0))(asked("recover lost commits"))
    assert names(found)[0] == "git-recovery"
    assert "out of order" in (found.note or "")


@pytest.mark.parametrize("text", ["", "   \n\t "])
def test_an_empty_request_gets_an_empty_slate_that_says_why(tmp_path: Path, text: str) -> None:
    found = stage(tmp_path)(asked(text))
    assert found.candidates == ()
    assert "empty" in (found.note or "")


def test_an_empty_library_gets_an_empty_slate_that_says_why(tmp_path: Path) -> None:
    found = stage(tmp_path, [])(asked("anything"))
    assert found.candidates == ()
    assert "no skills found" in (found.note or "")


@pytest.mark.parametrize(
    "text", ["don't break", "fix: the query", '"unclosed', "AND OR NOT (", "a* b^2 ~c {d} [e", "\0\0x", "-sql"]
)
def test_query_syntax_in_a_request_is_only_text(tmp_path: Path, text: str) -> None:
    """Field report 13."""
    stage(tmp_path)(asked(text))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(text=st.text())
def test_any_request_gets_a_ranked_slate_or_a_note(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    route = _shared(tmp_path_factory)
    found = route(asked(text))
    assert found.candidates == ranked(found.candidates)
    assert found.candidates or found.note
    assert all(np.isfinite(c.score) for c in found.candidates)
    assert route(asked(text)) == found


_SHARED: list[Retrieve] = []


def _shared(factory: pytest.TempPathFactory) -> Retrieve:
    if not _SHARED:
        _SHARED.append(stage(factory.mktemp("shared")))
    return _SHARED[0]


def test_a_request_of_a_megabyte_is_read_at_head_and_tail(tmp_path: Path) -> None:
    text = "recover lost commits " + "zzz yyy " * 130_000 + " and make slow queries fast"
    found = names(stage(tmp_path, channels="lexical")(asked(text)))
    assert set(found[:2]) == {"git-recovery", "sql-tuning"}


def test_a_named_skill_comes_first_even_where_nothing_else_speaks_for_it(tmp_path: Path) -> None:
    """Field report 22: vector-only search misses the exact name typed."""
    found = stage(tmp_path)(asked("use pdf-tables to make slow sql queries fast, measure the plan and index again"))
    assert names(found)[0] == "pdf-tables"
    assert "named: pdf-tables" in found.candidates[0].evidence[0].why
    assert found.candidates[0].evidence[0].detail["named"] is True


def test_a_manual_only_skill_is_found_only_when_named(tmp_path: Path) -> None:
    """Field report 9."""
    zoo = [*ZOO, skill("wipe-disk", "Erase a disk for good", "Erase every block.", flags=("manual-only",))]
    route = stage(tmp_path, zoo)
    assert "wipe-disk" not in names(route(asked("erase a disk for good, every block")))
    assert names(route(asked("/wipe-disk")))[0] == "wipe-disk"


def test_a_skill_is_found_last_for_what_its_author_says_it_is_not_for(tmp_path: Path) -> None:
    """Field report 8."""
    scope = "Not for scanned invoices."
    zoo = [
        *ZOO,
        skill("forms", f"Fill in paper forms. {scope}", "Place the text in each field.", excludes=(scope,)),
        skill("papers", "Fill in paper forms.", "Place the text in each field."),
    ]
    route = stage(tmp_path, zoo)
    found = route(asked("read the scanned invoices"))
    assert names(found).index("papers") < names(found).index("forms")
    (forms,) = (c for c in found.candidates if c.skill.name == "forms")
    assert forms.evidence[0].detail["excluded"] > 0
    assert "not for this" in forms.evidence[0].why
    assert set(names(route(asked("fill in this paper form, each field")))[:2]) == {"papers", "forms"}


def test_the_same_folder_at_two_places_is_shown_once(tmp_path: Path) -> None:
    """Field report 15."""
    twin = replace(ZOO[3][0], id="given:again/git-recovery")
    found = stage(tmp_path, [*ZOO, (twin, ZOO[3][1])])(asked("recover lost git commits"))
    assert [c.skill.id for c in found.candidates if c.skill.name == "git-recovery"] == ["given:again/git-recovery"]


def test_a_skill_that_is_gone_is_left_out_and_a_changed_one_is_shown_as_it_is_now(tmp_path: Path) -> None:
    """Field report 18."""

    def now(made: Skill) -> Skill | None:
        if made.name == "sql-tuning":
            return None
        return replace(made, description="rewritten", digest="0" * 64) if made.name == "git-recovery" else made

    found = stage(tmp_path, refresh=now)(asked("recover lost git commits and tune sql"))
    assert "sql-tuning" not in names(found)
    assert len(found.candidates) == 5
    (changed,) = (c for c in found.candidates if c.skill.name == "git-recovery")
    assert changed.skill.description == "rewritten"
    assert "changed since" in changed.evidence[0].why


def test_only_the_slate_is_looked_up_and_it_stays_full(tmp_path: Path) -> None:
    looked: list[str] = []

    def now(made: Skill) -> Skill | None:
        looked.append(made.name)
        return None if len(looked) == 1 else made

    found = stage(tmp_path, refresh=now, slate=2)(asked("recover lost git commits"))
    assert len(found.candidates) == 2
    assert len(looked) == 3


def test_hypothetical_skills_speak_in_both_channels(tmp_path: Path) -> None:
    draft = "name: query-doctor. Make slow SQL queries fast: read the plan, add an index."
    text = "the dashboard takes a minute to open"
    plain, drafted = stage(tmp_path), stage(tmp_path, expand=lambda request: (draft,))
    assert names(drafted(asked(text)))[0] == "sql-tuning"
    before = next(c for c in plain(asked(text)).candidates if c.skill.name == "sql-tuning").evidence[0].detail
    after = drafted(asked(text)).candidates[0].evidence[0].detail
    assert after["dense"] > before["dense"]
    assert after["lexical"] > before["lexical"]
    assert after["cosine"] == pytest.approx(before["cosine"], abs=1e-6)  # the floor is about the request itself


def test_a_model_that_returns_no_draft_changes_nothing(tmp_path: Path) -> None:
    text = "recover lost commits"
    assert stage(tmp_path, expand=lambda request: ())(asked(text)) == stage(tmp_path)(asked(text))


FLOORED = BagEncoder(profile=Profile("bag", 64, 256, floor=((1, 0.3),)))


def test_below_the_floor_the_slate_is_empty_and_the_note_keeps_the_near_miss(tmp_path: Path) -> None:
    found = stage(tmp_path, encoder=FLOORED)(asked("good morning everyone how lovely"))
    assert found.candidates == ()
    assert "nothing relevant: nearest was" in (found.note or "")
    assert any(made.name in (found.note or "") for made, _ in ZOO)
    assert stage(tmp_path, encoder=FLOORED, abstain=False)(asked("good morning everyone how lovely")).candidates


def test_a_judge_decides_where_the_encoder_has_one(tmp_path: Path) -> None:
    small_talk = FLOORED.encode(["good morning everyone how lovely"], kind="query")[0]
    layer = np.zeros((len(small_talk) + 2 + TRAITS, 1), np.float32)
    layer[: len(small_talk), 0] = 8 * small_talk
    made = Judge(layer, np.zeros(1, np.float32), -np.ones(1, np.float32), np.zeros(MARKS, np.float32), 4.0)
    route = stage(tmp_path, encoder=FLOORED, judge=made)
    assert "needs no skill" in (route(asked("good morning everyone how lovely")).note or "")
    assert names(route(asked("unheard words only")))  # below the floor, which a judge replaces


def test_no_language_model_is_asked_about_small_talk(tmp_path: Path) -> None:
    route = stage(tmp_path, encoder=FLOORED, expand=pytest.fail)
    assert not route(asked("good morning everyone how lovely")).candidates


def test_a_named_skill_passes_the_floor(tmp_path: Path) -> None:
    assert (
        names(stage(tmp_path, encoder=FLOORED)(asked("/git-recovery, would you be so kind today")))[0] == "git-recovery"
    )


def test_where_the_encoder_cannot_read_the_words_decide(tmp_path: Path) -> None:
    zoo = [*ZOO, skill("表格", "把表格提取为文件", "打开报告,找到每个表格。")]
    route = stage(tmp_path, zoo, encoder=FLOORED)
    found = route(asked("请帮我提取这个报告里的表格"))
    assert names(found)[0] == "表格"
    assert "script" in (found.note or "")
    assert route(asked("今天天气怎么样")).candidates == ()


def test_equal_vectors_score_equal_wherever_their_rows_lie(tmp_path: Path) -> None:
    """A matrix product adds the last rows of a block in another order: ties must not depend on it."""
    made, body = skill("same", "Same words", "Same body text here")
    others = [skill(f"other-{n}", f"Words {n}", f"Body {n}") for n in range(30)]
    twins = [(replace(made, id=f"given:twin-{n:02}", digest=f"{n:064}"), body) for n in range(37)]
    zoo = [pair for two in zip(others, twins, strict=False) for pair in two] + twins[30:]
    encoder = BagEncoder(profile=Profile("bag", 64, 256, projection=((20, 2),)))
    found = stage(tmp_path, zoo, encoder)(asked("same body text"))
    twin = [c for c in found.candidates if c.skill.name == "same"]
    assert len({c.score for c in twin}) == 1
    assert [c.skill.id for c in twin] == sorted(c.skill.id for c in twin)


def test_an_index_for_other_skills_or_another_encoder_is_refused(tmp_path: Path) -> None:
    folder = built(tmp_path, ZOO, ENCODER).folder
    with pytest.raises(IndexProblem, match="6 rows for 0 skills"):
        Retrieve(load(folder), [], ENCODER)
    with pytest.raises(IndexProblem, match="made by encoder"):
        Retrieve(load(folder), [made for made, _ in ZOO], BagEncoder(profile=Profile("other", 64, 256)))


def test_numbers_that_are_none_are_reported_not_ranked(tmp_path: Path) -> None:
    route = stage(tmp_path)
    assert route.index.vectors is not None
    broken = replace(route.index, vectors=np.full_like(route.index.vectors, np.nan))
    with pytest.raises(IndexProblem, match="metier index --full"):
        replace(route, index=broken)(asked("anything at all"))


def test_the_stage_prints_as_the_configuration_of_an_experiment(tmp_path: Path) -> None:
    said = repr(stage(tmp_path, alpha=0.3))
    assert "alpha=0.3" in said
    assert str(tmp_path) not in said
