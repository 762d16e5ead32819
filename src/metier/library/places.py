"""Where agents keep their skills, so that a person need not say it.

The order is the precedence: what stands first wins where two default places hold one name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from metier.library.folder import SKIP
from metier.library.walk import Root

PROJECT = (
    ".claude/skills", ".agents/skills", ".codex/skills", ".cursor/skills", ".opencode/skills", ".gemini/skills",
    ".github/skills", "skills",
)  # fmt: skip
"""Folders of a project, below the working folder and each folder above it up to the repository's root."""
USER = (
    ".agents/skills", ".codex/skills", "/etc/codex/skills", ".config/opencode/skills", ".openclaw/skills",
    ".gemini/skills", ".cursor/skills", ".hermes/skills",
)  # fmt: skip
"""Folders of a person, below the home; Claude Code's comes before them and may be moved by its variable."""
PLUGIN_DEPTH = 6
"""Levels below the plugin folder where a `skills` folder is looked for (marketplace/plugin/version/skills is four)."""


def places(cwd: Path, env: Mapping[str, str]) -> list[Root]:
    """Every default place, present or not, strongest first: the project's, the person's, then the plugins'."""
    home = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    claude = home / ".claude"
    if env.get("CLAUDE_CONFIG_DIR"):
        claude = Path(env["CLAUDE_CONFIG_DIR"])
        with suppress(RuntimeError):  # the ~ of a user whom nobody knows
            claude = claude.expanduser()
    user = [Root(claude / "skills", "user"), *(Root(home / place, "user") for place in USER)]
    taken = {root.path for root in user}
    project = [Root(folder / place, "project") for folder in _upward(cwd, home) for place in PROJECT]
    plugins = [Root(path, "plugin", name) for path, name in _plugins(claude / "plugins")]
    return [*(root for root in project if root.path not in taken), *user, *plugins]


def _upward(cwd: Path, home: Path) -> Iterator[Path]:
    """The working folder and those above it up to the repository's root; outside a repository, only itself."""
    cwd = cwd.absolute()
    above = [cwd, *cwd.parents]
    root = next((folder for folder in above if (folder / ".git").exists()), cwd)
    for folder in above:
        if folder != home or folder == cwd:  # a home under version control is no project of its subfolders
            yield folder
        if folder == root:
            return


def _plugins(folder: Path) -> Iterator[tuple[Path, str]]:
    """(skills folder, plugin's name) of every plugin below `folder`, in order of path."""
    waiting = [(str(folder), 0)]
    found: list[str] = []
    while waiting:
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as listing:
                inner = [each for each in listing if each.is_dir() and each.name not in SKIP]
        except OSError:
            continue  # no plugins there: the folder is listed among those looked in by its root
        for each in inner:
            if each.name == "skills":
                found.append(each.path)
            elif depth < PLUGIN_DEPTH and not each.is_symlink():
                waiting.append((each.path, depth + 1))
    for path in sorted(found):
        yield Path(path), _plugin_name(Path(path).parent)


def _plugin_name(folder: Path) -> str:
    """What the plugin's manifest calls it, else its folder, else the folder above one that is named for a version."""
    try:
        manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
        name = manifest.get("name") if isinstance(manifest, dict) else None
        if isinstance(name, str) and name.strip():
            return name.strip()
    except (OSError, ValueError):
        pass  # most plugins under a marketplace have no manifest of their own
    versioned = folder.name[:1].isdigit() or (folder.name[:1] == "v" and folder.name[1:2].isdigit())
    return folder.parent.name if versioned else folder.name
