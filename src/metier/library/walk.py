"""Which folders under some roots are skills.

One pass over every real folder: links are set aside and followed once at the end, so that a loop cannot form and a
target is walked once, however many links lead to it. Each address under which a skill can be reached is kept.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from dataclasses import field
from pathlib import Path

from metier.late import dataclass
from metier.library.folder import DEPTH, SKIP, Stat, entry, is_marker, marker, stamp
from metier.types import Problem, Scope

CODES = frozenset(("unreadable-folder", "too-deep", "link-loop", "dead-link", "link-outside"))
"""Codes of the problems that every walk finds anew."""
OUTSIDE = 3
"""Levels below a link out of a project that are looked in: a skill, a folder of them, or a folder of kinds [ours]. A
clone may bring a link to /usr, and its skills folder would be the whole disk."""
_NOT_FILES = ("/proc/", "/sys/", "/dev/")
"""Where a link never leads to skills, and where reading can hang."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder (or JSONL file) to look in; `plugin` names the plugin whose skills it holds."""

    path: Path
    scope: Scope = "given"
    plugin: str | None = None


@dataclass(slots=True)
class Found:
    """A folder that is a skill: `root` is the index of its root, `relative` its path below it ("" for the root)."""

    root: int
    address: str
    real: str
    relative: str
    marker: str
    stamp: str = ""


@dataclass(slots=True)
class Walk:
    """What was found: `skills` once each, `aliases` as (index of a skill, further address, its root)."""

    skills: list[Found] = field(default_factory=list)
    aliases: list[tuple[int, str, int]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    links: list[tuple[int, str, str, int]] = field(default_factory=list)
    order: list[tuple[str, int]] = field(default_factory=list)
    bounds: dict[int, str] = field(default_factory=dict)
    out: str = ""
    """The link out of a project that is being followed."""

    def root(self, index: int, path: str, bound: str = "") -> None:
        """Every skill below the folder `path` is found, as the root of that index.

        `bound`: the folder that a link may lead out of only to something shallow (a project).
        """
        real = os.path.realpath(path)
        if bound:
            self.bounds[index] = os.path.realpath(bound).rstrip("/") + "/"
        if real in self.seen:
            self._alias(index, path, real)
        else:
            self._follow(index, path, real, "", 0)

    def _follow(self, index: int, address: str, real: str, relative: str, depth: int) -> None:
        """The folder is walked; out of a project only some levels of it."""
        outside = index in self.bounds and not real.startswith(self.bounds[index])
        self.out = address if outside else ""
        self._visit(index, address, real, relative, max(depth, DEPTH - OUTSIDE) if outside else depth, [])
        self.out = ""

    def finish(self) -> None:
        """Every link that was set aside is followed, once."""
        while self.links:
            index, address, relative, depth = self.links.pop(0)
            real = os.path.realpath(address)
            here = os.path.realpath(Path(address).parent)
            if real == here or here.startswith(real.rstrip("/") + "/") or (real + "/").startswith(_NOT_FILES):
                self._problem(address, "link-loop", f"a link leads up to '{real}' and is not followed",
                              "remove it, or link to a skill's folder")  # fmt: skip
            elif real in self.seen:
                self._alias(index, address, real)
            else:
                self._follow(index, address, real, relative, depth)

    def _visit(
        self, index: int, path: str, real: str, relative: str, depth: int, owners: list[tuple[int, list[Stat]]]
    ) -> None:
        known = real in self.seen  # then only the skills around it still need its files
        if known and not owners:
            return
        self.seen.add(real)
        now = time.time()
        try:
            with os.scandir(path) as listing:
                listed = list(listing)
        except OSError as error:
            self._problem(path, "unreadable-folder", f"the folder cannot be read ({error.strerror})",
                          "give read permission, or leave it out")  # fmt: skip
            return
        found: Found | None = None
        folders: list[os.DirEntry[str]] = []
        files: list[os.DirEntry[str]] = []
        for each in listed:
            if each.is_dir(follow_symlinks=False):
                if each.name not in SKIP:
                    folders.append(each)
            else:
                files.append(each)
                if found is None and not known and is_marker(each.name):
                    name = marker(other.name for other in listed) or each.name
                    found = Found(index, path, real, relative, name)
                    owners = [*owners, (len(real) + 1, [])]
                    self.skills.append(found)
        prefix = real + "/"
        for each in files:
            link = each.is_symlink()
            if link and not known:
                self._link(index, each, f"{relative}/{each.name}".lstrip("/"), depth + 1)
            if owners:
                self._enter(each, prefix + each.name, owners, follow=link and is_marker(each.name))
        if folders and depth >= DEPTH and self.out:
            to = os.path.realpath(self.out)
            told = Problem(self.out, 0, "link-outside", f"a link leads out of the project to '{to}'; "
                           f"folders over {OUTSIDE} levels below it are not looked in",
                           "link to a skill's folder, or to the folder that holds skills")  # fmt: skip
            if told not in self.problems[-1:]:
                self.problems.append(told)
            folders = []
        elif folders and depth >= DEPTH:
            self._problem(path, "too-deep", f"folders more than {DEPTH} levels down are not looked in", "move them up")
            folders = []
        folders.sort(key=lambda each: each.name)
        for each in folders:
            below = f"{relative}/{each.name}" if relative else each.name
            self._visit(index, each.path, prefix + each.name, below, depth + 1, owners)
        if found is not None:
            found.stamp = stamp(owners[-1][1], now)

    def _link(self, index: int, each: os.DirEntry[str], relative: str, depth: int) -> None:
        """A link to a folder is set aside; one that leads nowhere is noted."""
        try:
            folder = each.is_dir()
            dead = not folder and not os.access(each.path, os.F_OK)
        except OSError:
            folder, dead = False, True  # a link to itself
        if folder:
            self.links.append((index, each.path, relative, depth))
        elif dead and not is_marker(each.name):
            self._problem(each.path, "dead-link", f"a link leads to '{_target(each.path)}', which is not there",
                          "remove it, or restore what it leads to")  # fmt: skip

    def _enter(self, each: os.DirEntry[str], real: str, owners: list[tuple[int, list[Stat]]], *, follow: bool) -> None:
        for cut, stats in owners:
            try:  # of links only a skill's own SKILL.md is followed
                status = each.stat(follow_symlinks=follow and len(real) - cut == 8)
            except OSError:
                try:
                    status = each.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone since it was listed: its stamp differs, and the next look sees it
            stats.append(entry(real[cut:], status))

    def _alias(self, index: int, address: str, real: str) -> None:
        """Every skill at or below a folder that was walked already has one more address."""
        if len(self.order) != len(self.skills):
            self.order = sorted((found.real, i) for i, found in enumerate(self.skills))
        below = real.rstrip("/") + "/"
        for path, i in self.order[bisect_left(self.order, (real, -1)) :]:
            if path != real and not path.startswith(below):
                if path > below:
                    break
                continue
            self.aliases.append((i, (address + path[len(real) :]).rstrip("/"), index))

    def _problem(self, path: str, code: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(path, 0, code, message, remedy))


def _target(path: str) -> str:
    """What a link says it leads to."""
    try:
        return str(Path(path).readlink())
    except OSError:  # /proc has links that nobody may read
        return "a place that cannot be read"
