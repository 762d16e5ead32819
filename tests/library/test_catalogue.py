"""A library in one file: opened lazily, found by name, and never read when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.errors import IndexProblem, LibraryError
from metier.library import catalogue
from metier.types import Library, Problem, Requirement, Shadowed, Skill


def skill(number: int, name: str = "") -> Skill:
    return Skill(
        id=f"given:s{number}", name=name or f"skill-{number}", description=f"Does {number}. 表", digest="d" * 64,
        root="/r", scope="given", addresses=(f"/r/s{number}", f"/q/s{number}"), family="f" if number % 2 else None,
        requires=(Requirement("bin", ("jq", "gojq"), True, "metadata"),), flags=frozenset({"manual-only"}),
        excludes=("Not for x.",), body_tokens=number, resources=("a.md",), stamp=f"{number},{number}",
    )  # fmt: skip


def library(count: int = 5) -> Library:
    return Library(
        skills=tuple(skill(i) for i in range(count)),
        problems=(Problem("/r/s1/SKILL.md", 3, "yaml", "m", "r"),),
        shadowed=(Shadowed(skill(99), "given:s0"),),
        roots=("/r",),
        at=12.5,
        looked=("/r", "/nowhere"),
    )


def test_a_library_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = library()
    catalogue.write(written, tmp_path)
    opened = catalogue.open(tmp_path)
    assert tuple(opened.skills) == written.skills
    assert opened.skills == written.skills and list(opened.skills[1:3]) == list(written.skills[1:3])
    assert opened.skills[-1] == written.skills[-1]
    assert tuple(opened.problems) == written.problems and tuple(opened.shadowed) == written.shadowed
    assert (opened.roots, opened.looked, opened.at) == (written.roots, written.looked, written.at)
    with pytest.raises(IndexError):
        opened.skills[5]


def test_an_empty_library_is_read_back(tmp_path: Path) -> None:
    catalogue.write(Library(()), tmp_path)
    opened = catalogue.open(tmp_path)
    assert len(opened.skills) == len(opened.problems) == 0 and catalogue.lookup(opened.skills, "x") == []


def test_names_are_looked_up_without_case_and_with_or_without_their_plugin(tmp_path: Path) -> None:
    names = ["pdf", "PDF", "tools:pdf", "forms", "other:forms", "a:b:c", ":", "p:"]
    plain = Library(tuple(skill(i, name) for i, name in enumerate(names)), roots=("/r",))
    catalogue.write(plain, tmp_path)
    opened = catalogue.open(tmp_path)
    for asked in [*names, "Pdf", "b:c", "none", ""]:
        by_loop = [i for i, name in enumerate(names) if asked.lower() in catalogue.labels(name)]
        assert catalogue.lookup(opened.skills, asked) == catalogue.lookup(plain.skills, asked) == by_loop
    assert catalogue.lookup(opened.skills, "pdf") == [0, 1, 2]


def test_only_the_skill_that_is_asked_for_is_decoded(tmp_path: Path) -> None:
    catalogue.write(library(), tmp_path)
    file = tmp_path / catalogue.FILE
    data = bytearray(file.read_bytes())
    at = data.index(b"Does 3.")
    data[at] ^= 1
    file.write_bytes(bytes(data))
    opened = catalogue.open(tmp_path)
    assert opened.skills[2] == skill(2)
    with pytest.raises(IndexProblem, match=r"record 3 does not match its checksum\); run: metier index --full"):
        opened.skills[3]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_changed_or_missing_byte_never_passes_for_the_library(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("catalogue")
    catalogue.write(library(2), folder)
    file = folder / catalogue.FILE
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        file.write_bytes(whole[:at])
    else:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    try:
        opened = catalogue.open(folder)
        read = (tuple(opened.skills), tuple(opened.problems), tuple(opened.shadowed), opened.looked, opened.at)
    except IndexProblem:
        return
    expected = library(2)  # the byte lay in the padding between two sections
    assert read == (expected.skills, expected.problems, expected.shadowed, expected.looked, expected.at)


def test_a_missing_or_foreign_file_is_an_index_problem(tmp_path: Path) -> None:
    with pytest.raises(IndexProblem, match="is missing; run: metier index"):
        catalogue.open(tmp_path)
    (tmp_path / catalogue.FILE).write_bytes(b"something else entirely, long enough")
    with pytest.raises(IndexProblem, match="of another format"):
        catalogue.open(tmp_path)
    (tmp_path / catalogue.FILE).write_bytes(b"")
    with pytest.raises(IndexProblem):
        catalogue.open(tmp_path)


def test_a_new_library_replaces_the_old_one_and_leaves_nothing_behind(tmp_path: Path) -> None:
    catalogue.write(library(2), tmp_path)
    before = catalogue.open(tmp_path)
    catalogue.write(library(4), tmp_path)
    assert len(catalogue.open(tmp_path).skills) == 4
    assert tuple(before.skills) == library(2).skills  # who has it open reads on undisturbed
    assert [each.name for each in tmp_path.iterdir()] == [catalogue.FILE]


def test_a_place_that_cannot_be_written_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(LibraryError, match="the catalogue cannot be written"):
        catalogue.write(library(), tmp_path / "file" / "below")
