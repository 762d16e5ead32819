"""A project's links out of it are followed a few levels: a clone must not turn its skills folder into the disk."""

from pathlib import Path

import pytest

from metier.library.scan import scan
from metier.library.walk import OUTSIDE, Root


def skill(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: d\n---\nb\n", encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project's skills folder, and a deep tree elsewhere with a skill on each level."""
    made = tmp_path / "project" / ".claude" / "skills"
    skill(made / "own")
    level = tmp_path / "elsewhere"
    for n in range(OUTSIDE + 3):
        level = level / f"level{n}"
        skill(level / f"skill{n}")
    return made


def names(*roots: Root) -> list[str]:
    return sorted(s.name for s in scan(roots).skills)


def test_a_link_out_of_a_project_is_followed_three_levels_and_the_rest_is_said_once(
    place: Path, tmp_path: Path
) -> None:
    (place / "all").symlink_to(tmp_path / "elsewhere")
    library = scan([Root(place, "project")])
    assert sorted(s.name for s in library.skills) == ["own", "skill0", "skill1"]
    (said,) = [p for p in library.problems if p.code == "link-outside"]
    assert said.path == str(place / "all") and str(tmp_path / "elsewhere") in said.message


def test_links_on_the_way_share_the_same_levels(place: Path, tmp_path: Path) -> None:
    (place / "all").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "level0" / "again").symlink_to(
        tmp_path / "elsewhere" / "level0" / "level1" / "level2" / "level3"
    )
    assert names(Root(place, "project")) == ["own", "skill0", "skill1", "skill3"], "one level is left"


def test_what_people_link_to_is_found(place: Path, tmp_path: Path) -> None:
    """A skill, a folder of skills, a folder of kinds of skills; the whole place as a link to one's dotfiles."""
    for kind in ("web", "data"):
        skill(tmp_path / "shared" / kind / f"{kind}-one")
    (place / "one").symlink_to(tmp_path / "shared" / "web" / "web-one")
    (place / "kinds").symlink_to(tmp_path / "shared")
    assert names(Root(place, "project")) == ["data-one", "own", "web-one"]
    other = tmp_path / "other" / "skills"
    other.parent.mkdir()
    other.symlink_to(tmp_path / "shared")
    assert names(Root(other, "project")) == ["data-one", "web-one"]


def test_links_inside_a_project_and_in_places_of_the_person_go_as_deep_as_folders_do(
    place: Path, tmp_path: Path
) -> None:
    deep = tmp_path / "project" / "a" / "b" / "c" / "d" / "e"
    skill(deep / "inner")
    (place / "far").symlink_to(tmp_path / "project" / "a")
    assert names(Root(place, "project")) == ["inner", "own"]
    (place / "all").symlink_to(tmp_path / "elsewhere")
    assert len(names(Root(place, "user"))) == OUTSIDE + 3 + 2
