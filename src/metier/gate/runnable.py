"""Can this skill run here at all? Asked before its gain is (paper: SkillApt's LOAD/ABSTAIN; methods 4).

    declared and missing  →  skip, with the list          a positive τ̂ never overrides it, the user can
    unknown               →  a warning in the evidence

Every answer is `met`, `missing` or `unknown`, with its reason. Variables are looked up by name; no value is ever read.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from metier.gate.tools import capability, fits
from metier.late import dataclass
from metier.text import fingerprint
from metier.types import Requirement, Skill, Task

State = Literal["met", "missing", "unknown"]
_OS_NAMES: Mapping[str, str] = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_OS_ALIASES: Mapping[str, str] = {
    "macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32", "ubuntu": "linux",
}  # fmt: skip
REMEMBERED = 8192
"""Answers kept, oldest dropped: every skill of a large slate in a few environments."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement, whether it is met, and why."""

    requirement: Requirement
    state: State
    reason: str

    @property
    def blocks(self) -> bool:
        """Whether it makes the skill unrunnable: declared and missing (rule 4.1)."""
        return self.requirement.declared and self.state == "missing"

    @property
    def label(self) -> str:
        """The requirement in a few words, such as `bin pdftotext` or `bin magick or convert`."""
        return f"{self.requirement.kind} {' or '.join(self.requirement.names)}"


@dataclass(frozen=True, slots=True)
class Machine:
    """What requirements are compared with: taken once per slate, so that all its skills see the same machine."""

    platform: str
    path: str
    variables: frozenset[str]
    """Names only."""

    @classmethod
    def here(cls, env: Mapping[str, str] | None = None) -> Machine:
        """This process's machine."""
        found = os.environ if env is None else env
        return cls(sys.platform, found.get("PATH", os.defpath), frozenset(found))

    def fingerprint(self) -> str:
        """Changes when a folder on the path gains or loses a file, or a variable appears or goes (rule 4.5)."""
        stamps = []
        for folder in self.path.split(os.pathsep):
            try:
                stamps.append(f"{folder}\0{Path(folder).stat().st_mtime_ns}")
            except OSError:
                stamps.append(folder)
        return fingerprint(self.platform, *stamps, "", *sorted(self.variables))


@dataclass(frozen=True)
class Runnable:
    """Skill and task → one finding per requirement. Answers are remembered by (digest, environment) (rule 4.5)."""

    host: str = "generic"
    machine: Machine | None = None
    """None: this machine, looked at anew for every slate."""
    _known: OrderedDict[tuple[str, str], tuple[Finding, ...]] = field(
        default_factory=OrderedDict, repr=False, compare=False
    )

    def __call__(self, skill: Skill, task: Task | None = None) -> tuple[Finding, ...]:
        """The findings for one skill."""
        return self.look([skill], task)[0]

    def look(self, skills: Iterable[Skill], task: Task | None = None) -> list[tuple[Finding, ...]]:
        """The findings for each skill, the machine being looked at once."""
        asked = Task("") if task is None else task
        wanted = list(skills)
        if not any(skill.requires for skill in wanted):
            return [()] * len(wanted)
        machine = self.machine or Machine.here()
        tools = "?" if asked.tools is None else "\0".join(sorted(asked.tools))
        environment = fingerprint(self.host, tools, str(asked.local), machine.fingerprint())
        return [self._remembered(skill, asked, machine, environment) for skill in wanted]

    def _remembered(self, skill: Skill, task: Task, machine: Machine, environment: str) -> tuple[Finding, ...]:
        if not skill.requires:
            return ()
        key = (skill.digest, environment)
        found = self._known.get(key)
        if found is None:
            found = tuple(check(need, skill, task, machine, self.host) for need in skill.requires)
            self._known[key] = found
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found


def check(need: Requirement, skill: Skill, task: Task, machine: Machine, host: str = "generic") -> Finding:
    """One requirement against the agent's tools and the machine (methods 4.1–4.4)."""
    if need.kind == "tool":
        state, reason = _tool(need, task, host)
    elif need.kind == "file":
        state, reason = _file(need, skill)
    elif not task.local:  # a server never answers for its client (rule 4.4)
        state, reason = "unknown", "the agent runs on another machine"
    elif need.kind == "bin":
        state, reason = _bin(need, machine)
    elif need.kind == "env":
        state, reason = _env(need, machine)
    elif need.kind == "os":
        state, reason = _os(need, machine)
    elif need.kind == "network":
        state, reason = "unknown", "whether the agent may use the network is not tried out"
    else:
        state, reason = "unknown", f"settings of another program ({', '.join(need.names)}) are not read"
    return Finding(need, state, reason)


def _tool(need: Requirement, task: Task, host: str) -> tuple[State, str]:
    if task.tools is None:
        return "unknown", "the agent's tools are not known"
    for name in need.names:
        had = fits(name, task.tools, host)
        if had is not None:
            return "met", f"the agent has {had}"
    wanted = sorted({capability(name, host) for name in need.names})
    return "missing", f"the agent has no {' or '.join(wanted)} tool"


def _bin(need: Requirement, machine: Machine) -> tuple[State, str]:
    import shutil  # it loads three archivers; most slates need no program

    for name in need.names:
        if os.sep in name or (os.altsep and os.altsep in name):
            return "unknown", f"{name} is a path, not the name of a program"
        where = shutil.which(name, path=machine.path)
        if where:
            return "met", f"{name} is on the path"
    return "missing", f"{_or(need.names)} {'is' if len(need.names) == 1 else 'are'} not on the path"


def _env(need: Requirement, machine: Machine) -> tuple[State, str]:
    for name in need.names:
        if name in machine.variables:
            return "met", f"{name} is set"
    return "missing", f"{_or(need.names)} {'is' if len(need.names) == 1 else 'are'} not set"


def _os(need: Requirement, machine: Machine) -> tuple[State, str]:
    names = {_OS_ALIASES.get(name.lower(), name.lower()) for name in need.names}
    here = "win32" if machine.platform == "cygwin" else machine.platform
    said = _OS_NAMES.get(here, here)
    if here in names:
        return "met", f"this is {said}"
    return "missing", f"this is {said}, it needs {_or(tuple(_OS_NAMES.get(n, n) for n in sorted(names)))}"


def _file(need: Requirement, skill: Skill) -> tuple[State, str]:
    if skill.addresses and "#" in skill.addresses[0]:
        return "unknown", "the files of a skill from a JSONL library are not known"
    had = set(skill.resources)
    for name in need.names:
        if str(Path(name).as_posix()).removeprefix("./") in had:
            return "met", f"{name} is in the folder"
    return "missing", f"its text mentions {_or(need.names)}, which the folder lacks"


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)
