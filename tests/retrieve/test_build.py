"""Building: only what changed is done again, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.retrieve.world import ZOO, BagEncoder, bodies, skill

from metier.errors import EncoderError, IndexProblem, InputError
from metier.retrieve.build import build
from metier.retrieve.index import Built, load
from metier.retrieve.opened import Index
from metier.types import Profile, Skill

PROJECTED = Profile("bag", 64, 256, projection=((20, 2),))
TOPICS = ("pdf", "sql", "git", "chart", "notes", "mail", "cloud", "test")


def many(count: int) -> list[tuple[Skill, str]]:
    return [
        skill(f"{TOPICS[n % 8]}-{n:03}", f"About {TOPICS[n % 8]} case {n}", f"Use data step {n}. Then check. " * 3)
        for n in range(count)
    ]


def make(folder: Path, zoo: list[tuple[Skill, str]], encoder: BagEncoder | None, **options: object) -> Built:
    place = folder / f"g{len(list(folder.glob('g*')))}"
    return build([made for made, _ in zoo], bodies(zoo), encoder, into=place, vectors=folder / "v", **options)  # type: ignore[arg-type]


def same(one: Index, other: Index, *, but: tuple[str, ...] = ()) -> None:
    assert set(one.arrays) == set(other.arrays)
    for name in set(one.arrays) - set(but):
        np.testing.assert_array_equal(one.arrays[name], other.arrays[name], err_msg=name)


def test_only_new_and_changed_skills_are_read_and_encoded(tmp_path: Path) -> None:
    encoder, zoo = BagEncoder(), list(ZOO)
    first = make(tmp_path, zoo, encoder)
    assert (first.fresh, first.encoded) == (6, 12)
    read: list[str] = []

    def reading(made: Skill) -> str:
        read.append(made.name)
        return bodies(after)(made)

    after = [
        *zoo[1:3],
        skill("sql-tuning-2", "Tune", "Another body"),
        *zoo[4:],
        skill("git-recovery", "New", "Changed"),
    ]
    second = build([made for made, _ in after], reading, encoder, into=tmp_path / "g1", vectors=tmp_path / "v",
                   previous=first.folder)  # fmt: skip
    assert read == ["sql-tuning-2", "git-recovery"]
    assert (second.fresh, second.encoded) == (2, 4)
    same(load(second.folder), load(make(tmp_path, after, BagEncoder()).folder))


def test_an_unchanged_library_is_neither_read_nor_written(tmp_path: Path) -> None:
    encoder = BagEncoder()
    first = make(tmp_path, list(ZOO), encoder)
    calls = len(encoder.calls)
    again = build([made for made, _ in ZOO], lambda made: pytest.fail(made.id), encoder, into=tmp_path / "again",
                  vectors=tmp_path / "v", previous=first.folder)  # fmt: skip
    assert again.same
    assert len(encoder.calls) == calls
    same(load(again.folder, check=True), load(first.folder))


def test_a_change_of_flags_or_order_alone_is_noticed(tmp_path: Path) -> None:
    first = make(tmp_path, list(ZOO), BagEncoder())
    flagged = [(replace(ZOO[0][0], flags=frozenset({"manual-only"})), ZOO[0][1]), *ZOO[1:]]
    second = make(tmp_path, flagged, BagEncoder(), previous=first.folder)
    assert not second.same
    assert load(second.folder).manual.tolist() == [1, 0, 0, 0, 0, 0]
    turned = list(reversed(ZOO))
    third = make(tmp_path, turned, BagEncoder(), previous=first.folder)
    assert (third.same, third.fresh) == (False, 0)
    same(load(third.folder), load(make(tmp_path, turned, BagEncoder()).folder))


def test_a_full_build_reads_everything_and_still_encodes_nothing_twice(tmp_path: Path) -> None:
    encoder = BagEncoder()
    first = make(tmp_path, list(ZOO), encoder)
    full = make(tmp_path, list(ZOO), encoder, previous=first.folder, full=True)
    assert (full.fresh, full.encoded) == (6, 0)
    same(load(full.folder), load(first.folder))


def test_an_interrupted_build_leaves_no_index_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.retrieve.build.CHUNK", 2)
    with pytest.raises(EncoderError):
        make(tmp_path, list(ZOO), BagEncoder(breaks_after=9))
    with pytest.raises(IndexProblem):
        load(tmp_path / "g0")
    healthy = BagEncoder()
    assert make(tmp_path, list(ZOO), healthy).encoded == 4


def test_skills_that_are_exactly_alike_each_keep_a_row(tmp_path: Path) -> None:
    twin = replace(ZOO[0][0], id="given:twin")
    zoo = [*ZOO, (twin, ZOO[0][1])]
    first = make(tmp_path, zoo, BagEncoder())
    second = make(tmp_path, [*zoo, skill("one-more", "x", "y")], BagEncoder(), previous=first.folder)
    assert second.fresh == 1
    index = load(second.folder)
    assert index.vectors is not None
    np.testing.assert_array_equal(index.vectors[0], index.vectors[6])


def test_a_body_that_cannot_be_read_stops_nothing_and_is_tried_again(tmp_path: Path) -> None:
    def broken(made: Skill) -> str:
        if made.name == "sql-tuning":
            raise PermissionError(13, "no", made.id)
        return bodies(ZOO)(made)

    skills, encoder = [made for made, _ in ZOO], BagEncoder()
    first = build(skills, broken, encoder, into=tmp_path / "a", vectors=tmp_path / "v")
    assert first.unread == ("given:sql-tuning",)
    index = load(first.folder)
    assert index.lexical.scores({"slow": 1.0}).argmax() == 2
    second = build(skills, bodies(ZOO), encoder, into=tmp_path / "b", vectors=tmp_path / "v", previous=first.folder)
    assert (second.same, second.fresh, second.unread) == (False, 1, ())


def test_without_an_encoder_words_are_indexed_and_vectors_come_later(tmp_path: Path) -> None:
    first = make(tmp_path, list(ZOO), None)
    assert load(first.folder).vectors is None
    assert load(first.folder).encoder is None
    second = make(tmp_path, list(ZOO), BagEncoder(), previous=first.folder)
    assert second.fresh == 6
    assert load(second.folder).vectors is not None


def test_another_encoder_is_refused_with_a_remedy_and_rebuilt_by_a_build(tmp_path: Path) -> None:
    first = make(tmp_path, list(ZOO), BagEncoder())
    other = BagEncoder(profile=Profile("other", 32, 256))
    with pytest.raises(IndexProblem, match=r"made by encoder bag.*run: metier index"):
        load(first.folder, profile=other.profile)
    second = make(tmp_path, list(ZOO), other, previous=first.folder)
    assert second.encoded == 12
    assert load(second.folder, profile=other.profile).vectors.shape == (6, 32)  # type: ignore[union-attr]


def test_a_damaged_earlier_index_is_simply_not_reused(tmp_path: Path) -> None:
    first = make(tmp_path, list(ZOO), BagEncoder())
    (first.folder / "index.json").write_text("{", encoding="utf-8")
    assert make(tmp_path, list(ZOO), BagEncoder(), previous=first.folder).fresh == 6


def test_an_index_is_never_written_over_itself(tmp_path: Path) -> None:
    first = make(tmp_path, list(ZOO), BagEncoder())
    with pytest.raises(InputError, match="fresh folder"):
        build([], bodies(ZOO), None, into=first.folder, vectors=tmp_path / "v", previous=first.folder)


def test_a_folder_that_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(IndexProblem, match=r"file.*METIER_HOME"):
        build([made for made, _ in ZOO], bodies(ZOO), None, into=blocked / "x", vectors=tmp_path / "v")


def test_progress_counts_up_to_all_skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.retrieve.build.CHUNK", 4)
    heard: list[tuple[int, int]] = []
    make(tmp_path, list(ZOO), BagEncoder(), progress=lambda done, total: heard.append((done, total)))
    assert heard == [(0, 6), (4, 6), (6, 6)]


def test_the_manifest_states_the_projection_and_its_second_level(tmp_path: Path) -> None:
    built = make(tmp_path, many(60), BagEncoder(profile=PROJECTED))
    facts = load(built.folder).facts["projection"]
    assert (built.directions, facts["first"], facts["second"], facts["documents"]) == (2, 2, 2, 60)
    assert 0 < facts["second_length"] < 1
    assert "data" in facts["words"]
    assert "about" not in facts["words"]


def test_few_skills_are_not_projected(tmp_path: Path) -> None:
    built = make(tmp_path, many(39), BagEncoder(profile=PROJECTED))
    assert built.directions == 0
    assert load(built.folder).directions is None


def test_new_skills_are_projected_by_the_stored_directions_until_the_library_has_drifted(tmp_path: Path) -> None:
    zoo = many(80)
    encoder = BagEncoder(profile=PROJECTED)
    first = make(tmp_path, zoo[:50], encoder)
    grown = load(make(tmp_path, zoo[:55], encoder, previous=first.folder).folder)
    np.testing.assert_array_equal(grown.directions, load(first.folder).directions)
    assert grown.coords is not None
    assert grown.coords.shape == (55, 4)
    drifted = load(make(tmp_path, zoo, encoder, previous=first.folder).folder)
    same(drifted, load(make(tmp_path, zoo, encoder).folder))
    assert drifted.facts["projection"]["documents"] == 80


def test_generated_requests_move_a_document_toward_what_it_could_be_asked(tmp_path: Path) -> None:
    encoder = BagEncoder()
    question = "why does my dashboard take a minute to open"
    plain = load(make(tmp_path, list(ZOO), encoder).folder)
    moved = load(make(tmp_path, list(ZOO), encoder,
                      requests=lambda made: (question,) if made.name == "sql-tuning" else ()).folder)  # fmt: skip
    query = encoder.encode([question], kind="query")[0]
    gain = moved.cosines(query) - plain.cosines(query)
    assert gain[2] > 0.1
    assert not gain[[0, 1, 3, 4, 5]].any()
    assert np.linalg.norm(moved.vectors[2]) == pytest.approx(1, abs=1e-5)  # type: ignore[index]


def test_what_a_skill_is_not_for_has_a_vector_of_its_own(tmp_path: Path) -> None:
    zoo = [*ZOO, skill("forms", "Fill forms. Not for invoices.", "x", excludes=("Not for invoices.",))]
    index = load(make(tmp_path, zoo, BagEncoder()).folder)
    assert index.excluded is not None
    assert index.excluded[0].tolist() == [6]
    assert load(make(tmp_path, list(ZOO), BagEncoder()).folder).excluded is None
