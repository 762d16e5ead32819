"""Where agents keep their skills."""

from __future__ import annotations

from pathlib import Path

from metier.library.places import PROJECT, USER, places
from metier.library.scan import scan

from .shelf import put


def shown(home: Path, cwd: Path, **env: str) -> list[tuple[str, str]]:
    found = places(cwd, {"HOME": str(home), **env})
    return [(root.scope, str(root.path).replace(str(home), "~")) for root in found]


def test_every_default_place_is_listed_project_before_user(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / "packages" / "app").mkdir(parents=True)
    found = shown(tmp_path / "home", repo / "packages" / "app")
    project = [path for scope, path in found if scope == "project"]
    assert len(project) == 3 * len(PROJECT)
    assert project[0] == f"{repo}/packages/app/.claude/skills" and project[-1] == f"{repo}/skills"
    assert [path for scope, path in found if scope == "user"] == [
        "~/.claude/skills", *(place if place.startswith("/") else f"~/{place}" for place in USER)
    ]  # fmt: skip
    assert [scope for scope, _ in found] == sorted((scope for scope, _ in found), key=["project", "user"].index)


def test_outside_a_repository_only_the_working_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = [path for scope, path in shown(tmp_path / "home", tmp_path / "a" / "b") if scope == "project"]
    assert len(found) == len(PROJECT) and all(f"{tmp_path}/a/b/" in path for path in found)


def test_a_home_under_version_control_is_no_project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    found = shown(tmp_path, tmp_path / "work")
    assert ("user", "~/.claude/skills") in found and ("project", "~/.claude/skills") not in found
    assert ("project", "~/skills") not in found


def test_the_variable_moves_claudes_folder_and_its_plugins(tmp_path: Path) -> None:
    put(tmp_path / "moved" / "plugins" / "mine" / "skills", "pdf")
    found = shown(tmp_path, tmp_path / "x", CLAUDE_CONFIG_DIR=str(tmp_path / "moved"))
    assert ("user", "~/moved/skills") in found and ("plugin", "~/moved/plugins/mine/skills") in found
    assert ("user", "~/.claude/skills") not in found


def test_plugins_are_named_by_their_manifest_their_folder_or_the_one_above_a_version(tmp_path: Path) -> None:
    plugins = tmp_path / ".claude" / "plugins"
    put(plugins / "cache" / "market" / "superpowers" / "1.2.0" / "skills", "tdd")
    put(plugins / "named" / "skills", "pdf")
    (plugins / "named" / ".claude-plugin").mkdir()
    (plugins / "named" / ".claude-plugin" / "plugin.json").write_text('{"name": "office"}', encoding="utf-8")
    put(plugins / "broken" / "skills", "csv")
    (plugins / "broken" / ".claude-plugin").mkdir()
    (plugins / "broken" / ".claude-plugin" / "plugin.json").write_text("{", encoding="utf-8")
    put(plugins / "node_modules" / "never" / "skills", "x")
    library = scan(places(tmp_path / "x", {"HOME": str(tmp_path)}))
    assert sorted(skill.name for skill in library.skills) == ["broken:csv", "office:pdf", "superpowers:tdd"]
    assert str(tmp_path / ".codex" / "skills") in library.looked
