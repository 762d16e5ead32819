"""What is on the disk now: bodies, other files, and never anything outside the skill's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.errors import ForbiddenPath, LibraryError, NotFound
from metier.library.read import body, fresh, resource, tree
from metier.library.scan import Root, scan
from metier.types import Skill

from .shelf import put


def only(root: Path) -> Skill:
    [skill] = scan([root]).skills
    return skill


def test_the_body_is_the_one_on_the_disk(tmp_path: Path) -> None:
    put(tmp_path, "pdf", body="First.\n")
    skill = only(tmp_path)
    assert body(skill) == "First.\n"
    put(tmp_path, "pdf", body="Second.\n")
    assert body(skill) == "Second.\n"


def test_a_skill_that_is_gone_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    file = put(tmp_path, "pdf") / "SKILL.md"
    skill = only(tmp_path)
    file.unlink()
    assert fresh(skill) is None
    with pytest.raises(LibraryError, match=r"the skill 'pdf' is gone; run: metier index"):
        body(skill)


def test_an_edited_skill_is_noticed_when_it_is_about_to_be_shown(tmp_path: Path) -> None:
    put(tmp_path, "pdf", description="Forms.")
    skill = only(tmp_path)
    put(tmp_path, "pdf", description="Tables.")
    now = fresh(skill)
    assert now is not None and now.description == "Tables."
    assert (now.id, now.root, now.scope) == (skill.id, skill.root, skill.scope) and now.digest != skill.digest


def test_a_skill_written_again_with_the_same_bytes_is_the_same_skill(tmp_path: Path) -> None:
    put(tmp_path, "pdf")
    skill = only(tmp_path)
    put(tmp_path, "pdf")
    now = fresh(skill)
    assert now is not None and now.digest == skill.digest and now.description == skill.description


def test_an_edited_resource_changes_the_digest(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    (folder / "run.sh").write_text("echo good", encoding="utf-8")
    skill = only(tmp_path)
    (folder / "run.sh").write_text("echo evil", encoding="utf-8")
    now = fresh(skill)
    assert now is not None and now.digest != skill.digest


def test_a_duplicate_is_read_from_its_other_address_when_the_first_is_gone(tmp_path: Path) -> None:
    put(tmp_path, "a/pdf", body="Same.\n")
    put(tmp_path, "b/pdf", body="Same.\n")
    skill = only(tmp_path)
    (tmp_path / "a" / "pdf" / "SKILL.md").unlink()
    now = fresh(skill)
    assert now is not None and now.addresses == (str(tmp_path / "b" / "pdf"),) and now.digest == skill.digest
    assert body(skill) == "Same.\n"


def test_a_plugins_skill_keeps_its_plugin_when_it_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, "pdf")
    [skill] = scan([Root(tmp_path, "plugin", "tools")]).skills
    put(tmp_path, "pdf", description="New.")
    now = fresh(skill)
    assert now is not None and now.name == "tools:pdf" and now.description == "New."


def test_a_resource_is_read_and_listed(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    (folder / "references").mkdir()
    (folder / "references" / "notes.md").write_bytes(b"notes\n")
    (folder / "alias.md").symlink_to("references/notes.md")
    skill = only(tmp_path)
    assert skill.resources == ("alias.md", "references/notes.md")
    assert tree(skill) == ("SKILL.md", "alias.md", "references/notes.md")
    assert resource(skill, "references/notes.md") == resource(skill, "./alias.md") == b"notes\n"


@pytest.mark.parametrize(
    "path",
    ["../other/SKILL.md", "/etc/passwd", "a/../../x", "", ".", "out", "way/secret", "pipe", "sub", "C:\\x", "a\0b",
     ".git/config", "node_modules/x.js"],
)  # fmt: skip
def test_a_path_never_leaves_the_folder(tmp_path: Path, path: str) -> None:
    folder = put(tmp_path, "pdf")
    put(tmp_path, "other")
    (tmp_path / "secret").write_text("SECRET", encoding="utf-8")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path)
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    for tools in (".git/config", "node_modules/x.js"):
        (folder / tools).parent.mkdir()
        (folder / tools).write_text("x", encoding="utf-8")
    skill = next(each for each in scan([tmp_path]).skills if each.name == "pdf")
    with pytest.raises(ForbiddenPath) as caught:
        resource(skill, path)
    assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value).replace(path, "")


def test_a_resource_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    (put(tmp_path, "pdf") / "notes.md").write_text("x", encoding="utf-8")
    with pytest.raises(NotFound, match=r"notes\.md") as caught:
        resource(only(tmp_path), "note.md")
    assert caught.value.choices == ("notes.md",)


def test_a_row_of_a_jsonl_library_has_no_resources(tmp_path: Path) -> None:
    file = tmp_path / "l.jsonl"
    file.write_text('{"id": "a", "name": "a", "description": "d", "body": "b"}\n', encoding="utf-8")
    skill = only(file)
    assert tree(skill) == () and fresh(skill) is skill
    with pytest.raises(NotFound, match="files of 'a' are unknown"):
        resource(skill, "x")
    file.unlink()
    assert fresh(skill) is None
