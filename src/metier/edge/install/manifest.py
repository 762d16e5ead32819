"""What is known of each host, read from `hosts/*.toml`: where its files are, how they look, in what unit it counts.

A host that changes its format changes one data file here and no code.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import tomlkit

from metier.errors import NotFound

Where = Literal["user", "project"]
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
MARK = "metier/edge/hooks/entry.py"
"""What every hook command of ours holds, on any machine: by this it is found again."""
SERVER_MARK = "metier.edge.cli.main"
"""What every MCP entry of ours holds."""
URL_MARK = "/v1/hook/"
"""The same for hooks that ask a warm server."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One event the host can call us on."""

    event: str
    timeout: float
    """Seconds after which the host may give up; ours answers long before."""
    matcher: str | None = None
    http: bool = True
    """Whether the host can ask a server for this event."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to write: a file per scope, its format, and the place in it."""

    user: str
    project: str | None
    format: Literal["json", "toml"]
    path: tuple[str, ...]
    shape: Mapping[str, Any]
    also: Mapping[str, Any]
    """Members that the file needs beside, where it does not have them yet."""

    def file(self, where: Where, cwd: Path, env: Mapping[str, str]) -> Path:
        """The file of that scope on this machine. A `.jsonc` neighbour that exists is preferred."""
        if where == "project":
            if self.project is None:
                raise NotFound("this host has no configuration per project; leave --project out")
            found = cwd / self.project
        else:
            found = Path(expanded(self.user, env))
        other = found.with_suffix(".jsonc")
        return other if self.format == "json" and not found.exists() and other.exists() else found


@dataclass(frozen=True, slots=True)
class Host:
    """One agent program."""

    name: str
    title: str
    unit: Literal["seconds", "milliseconds"]
    note: str
    hooks: tuple[Hook, ...]
    hook_part: Part | None
    mcp: Part | None


@dataclass(frozen=True, slots=True)
class Commands:
    """How a host starts us: with this very interpreter, isolated, from any folder."""

    python: str = sys.executable
    home: str | None = None
    """Given only where it is not the default one."""
    url: str | None = None
    """Address of the warm server that hooks ask, where the user wants that."""

    @property
    def mcp(self) -> list[str]:
        """The MCP server's command line."""
        return [self.python, "-I", "-m", "metier.edge.cli.main", "mcp", *self._home]

    def hook(self, host: str) -> str:
        """The hook's command, quoted for a shell."""
        entry = str(files("metier.edge.hooks").joinpath("entry.py"))
        words = [self.python, "-I", entry, host, *self._home]
        return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)

    @property
    def _home(self) -> list[str]:
        return [f"--home={self.home}"] if self.home else []


def names() -> list[str]:
    """Every host there is a manifest for."""
    folder = files("metier.edge").joinpath("hosts")
    return sorted(f.name[: -len(".toml")] for f in folder.iterdir() if f.name.endswith(".toml"))


def host(name: str) -> Host:
    """The host of that name. Raises `NotFound` with those there are."""
    if name not in names():
        raise NotFound(f"there is no host '{name}'; these are known:", tuple(names()))
    text = files("metier.edge").joinpath("hosts").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    data: dict[str, Any] = tomlkit.parse(text).unwrap()
    hooks = data.get("hooks")
    return Host(
        name=name,
        title=data["title"],
        unit=data["unit"],
        note=data.get("note", ""),
        hooks=tuple(Hook(**event) for event in hooks["event"]) if hooks else (),
        hook_part=_part(hooks) if hooks else None,
        mcp=_part(data["mcp"]) if "mcp" in data else None,
    )


def _part(data: Mapping[str, Any]) -> Part:
    return Part(
        user=data["user"],
        project=data.get("project"),
        format=data["format"],
        path=tuple(data["path"]),
        shape=data["shape"],
        also=data.get("also", {}),
    )


def filled(shape: Any, values: Mapping[str, Any]) -> Any:
    """The shape with `{name}` replaced; a text that is one name alone becomes the value itself, a list say."""
    if isinstance(shape, Mapping):
        return {key: filled(item, values) for key, item in shape.items()}
    if isinstance(shape, Sequence) and not isinstance(shape, str):
        return [filled(item, values) for item in shape]
    if isinstance(shape, str) and shape.startswith("{") and shape.endswith("}") and shape[1:-1] in values:
        return values[shape[1:-1]]
    return shape


def hook_entries(known: Host, commands: Commands) -> list[tuple[str, dict[str, Any]]]:
    """(event, group) of every hook, in the host's own shape and unit of time."""
    made = []
    for hook in known.hooks:
        if commands.url and hook.http:
            handler: dict[str, Any] = {
                "type": "http",
                "url": f"{commands.url}/v1/hook/{known.name}",
                "headers": {"Authorization": "Bearer $METIER_TOKEN"},
                "allowedEnvVars": ["METIER_TOKEN"],
                "timeout": hook.timeout,  # in seconds on every host that knows this type
            }
        else:
            factor = 1000 if known.unit == "milliseconds" else 1
            values = {"command": commands.hook(known.name), "timeout": _whole(hook.timeout * factor)}
            handler = filled(known.hook_part.shape if known.hook_part else {}, values)
        group = {"matcher": hook.matcher, "hooks": [handler]} if hook.matcher else {"hooks": [handler]}
        made.append((hook.event, group))
    return made


def mcp_entry(known: Host, commands: Commands) -> dict[str, Any]:
    """The MCP server in the host's own shape."""
    argv = commands.mcp
    shape = known.mcp.shape if known.mcp else {}
    entry: dict[str, Any] = filled(shape, {"command": argv[0], "args": argv[1:], "argv": argv})
    return entry


def ours(handler: Any) -> bool:
    """Whether a hook handler is one that we wrote, however long ago."""
    if not isinstance(handler, Mapping):
        return False
    command = str(handler.get("command", "")).replace("\\", "/")
    return MARK in command or (URL_MARK in str(handler.get("url", "")) and "METIER_TOKEN" in str(handler))


def server_of_ours(entry: Any) -> bool:
    """Whether an MCP server's entry is one that we wrote, on any machine; another one may be called metier too."""
    return SERVER_MARK in str(entry)


def expanded(path: str, env: Mapping[str, str]) -> str:
    """`${NAME:-default}` and `~` as they are on this machine."""
    filled_in = _VARIABLE.sub(lambda m: env.get(m[1]) or m[2], path)
    if filled_in.startswith("~"):
        filled_in = (env.get("HOME") or str(Path.home())) + filled_in[1:]
    return filled_in


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number
