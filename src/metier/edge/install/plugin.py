"""metier as a Claude Code plugin: a marketplace of one in the home, with this machine's interpreter in its commands.

The plugin in the repository (`plugins/metier`) is for people who install from there; it finds `metier` on the PATH.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from metier.edge.install import jsonc
from metier.edge.install.manifest import Commands, Host, hook_entries, mcp_entry
from metier.edge.install.plan import PLUGIN, Change, Wish, cleared, encoded
from metier.errors import InputError

ABOUT = "Finds the skill that fits a task, and loads it only where recorded outcomes show that it helps."
NAME = "metier"


def manifest(version: str) -> dict[str, Any]:
    """`.claude-plugin/plugin.json`."""
    return {
        "name": NAME,
        "version": version,
        "description": ABOUT,
        "author": {"name": "The metier authors"},
        "license": "Apache-2.0",
        "keywords": ["skills", "retrieval", "routing"],
    }


def marketplace() -> dict[str, Any]:
    """`.claude-plugin/marketplace.json`."""
    return {
        "name": NAME,
        "owner": {"name": "The metier authors"},
        "metadata": {"description": "metier, a router for agent skills"},
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": ABOUT}],
    }


def files(host: Host, commands: Commands, version: str) -> dict[str, dict[str, Any]]:
    """Relative path → content of the whole marketplace folder."""
    hooks: dict[str, list[Any]] = {}
    for event, group in hook_entries(host, commands):
        hooks.setdefault(event, []).append(group)
    return {
        ".claude-plugin/marketplace.json": marketplace(),
        f"{NAME}/.claude-plugin/plugin.json": manifest(version),
        f"{NAME}/hooks/hooks.json": {"description": ABOUT, "hooks": hooks},
        f"{NAME}/.mcp.json": {"mcpServers": {NAME: mcp_entry(host, commands)}},
    }


def plan(wish: Wish, commands: Commands, home: Path, version: str) -> list[Change]:
    """The plugin's files and the two settings that switch it on; entries written straight into the settings go."""
    part = wish.host.hook_part
    if part is None or wish.host.name != "claude-code":
        raise InputError(f"--plugin: {wish.host.title} has no plugins of this kind; leave it out")
    folder = home / "claude-plugin"
    changes = []
    for name, content in files(wish.host, commands, version).items():
        path = folder / name
        before = path.read_bytes() if path.exists() else None
        changes.append(Change(path, before, (json.dumps(content, indent=2) + "\n").encode("utf-8")))
    settings = part.file(wish.where, wish.cwd, wish.env)
    source = {"source": {"source": "directory", "path": str(folder)}}
    for change in cleared(replace(wish, hooks=True, mcp=True)):
        if change.path == settings:
            text = "" if change.original is None else change.original.decode("utf-8").replace("\r\n", "\n")
            text = jsonc.put(text, ["extraKnownMarketplaces", NAME], source, str(settings))
            text = jsonc.put(text, ["enabledPlugins", PLUGIN], True, str(settings))
            change = replace(change, after=encoded(text, change.before))
        changes.append(change)
    return [change for change in changes if change.differs]


def removal(home: Path) -> list[Change]:
    """The plugin's own files, which nothing else uses."""
    folder = home / "claude-plugin"
    return [Change(p, p.read_bytes(), None) for p in sorted(folder.rglob("*")) if p.is_file()]
