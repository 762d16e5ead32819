"""Folders and JSONL files → `Library`, and what changed since the last one.

Walking finds addresses and their stamps; only what has another stamp than before is read. Then identities are given,
exact duplicates collapse, and of the default places' skills of one name the stronger scope's stays. One bad file is
one problem; only a path that someone named and that cannot be used is an error.
"""

from __future__ import annotations

import hashlib  # noqa: F401  with it loaded, OpenSSL hashes the folders: thrice as fast
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from metier.errors import LibraryError
from metier.library import catalogue, rows, skillmd
from metier.library.folder import LIMIT, MARK, contents, is_marker, row_of, unchanged
from metier.library.mentions import missing
from metier.library.walk import CODES as WALK_CODES
from metier.library.walk import Found, Root, Walk
from metier.text import count_tokens, visible
from metier.types import Library, Problem, Requirement, Scope, Shadowed, Skill

__all__ = ["Changes", "Root", "changes", "read_folder", "scan"]

Precedence = Literal["agentskills", "claude-code"]
_STRENGTH: dict[str, tuple[Scope, ...]] = {
    "agentskills": ("project", "user", "plugin"),  # the agentskills.io guide
    "claude-code": ("user", "project"),  # Claude Code: personal before project; plugins have names of their own
}


@dataclass(frozen=True, slots=True)
class Changes:
    """What a scan found against the one before it, as skill ids."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


@dataclass(slots=True)
class _Draft:
    """A skill before it has its id: `label` is its name without the plugin, `relative` its path below its root."""

    skill: Skill
    root: int
    relative: str
    label: str
    problems: list[Problem] = field(default_factory=list)


def scan(
    roots: Sequence[Root | Path | str],
    *,
    previous: Library | None = None,
    spool: Path | None = None,
    precedence: Precedence = "agentskills",
    collapse: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Library:
    """Everything under the roots, the first root first.

    `previous` (of the same roots) spares reading what has not been written since; when nothing has, its very skills are
    returned. `spool` keeps the bodies of JSONL files. `collapse=False` (evaluation) keeps exact duplicates apart.
    Raises LibraryError when a given path is missing, is no library or may not be read.
    """
    at = time.time()
    places = [root if isinstance(root, Root) else Root(Path(root)) for root in roots]
    places = [replace(root, path=_absolute(root)) for root in places]
    walk, files = Walk(), dict[int, str]()
    for index, root in enumerate(places):
        if _usable(root):
            if rows.is_library(str(root.path)) and root.path.is_file():
                files[index] = rows.stamp_of(str(root.path))
            else:
                walk.root(index, str(root.path), _bound(root))
    walk.finish()
    given = tuple(dict.fromkeys(str(root.path) for root in places))
    if previous is not None and collapse and _same(previous, walk, places, files, spool):
        return replace(previous, at=at, looked=given)
    drafts = list(_drafts(walk, places, files, previous, spool, progress))
    problems = [*walk.problems, *(problem for draft in drafts for problem in draft.problems)]
    drafts = [draft for draft in drafts if draft.skill.digest]
    _name(drafts, places)
    skills = _collapsed(drafts, everything=collapse)
    kept, shadowed = _shadowed(skills, places, precedence)
    return Library(tuple(kept), tuple(dict.fromkeys(problems)), shadowed, given, at, given)


def changes(previous: Library | None, now: Library) -> Changes:
    """What differs between two scans of the same roots, by id and digest."""
    if previous is None:
        return Changes(added=tuple(skill.id for skill in now.skills))
    if previous.skills is now.skills:
        return Changes(unchanged=len(now.skills))
    before = {skill.id: skill.digest for skill in previous.skills}
    after = {skill.id: skill.digest for skill in now.skills}
    return Changes(
        added=tuple(each for each in after if each not in before),
        changed=tuple(each for each in after if before.get(each, after[each]) != after[each]),
        removed=tuple(each for each in before if each not in after),
        unchanged=sum(before.get(each) == digest for each, digest in after.items()),
    )


def read_folder(address: str, root: Root, skill_id: str = "") -> tuple[Skill | None, list[Problem]]:
    """The skill of a folder as it is on the disk, and its problems; None when it cannot be one. Raises OSError when it
    is gone."""
    folder = visible(address.rstrip("/").rsplit("/", 1)[-1])
    if row_of(address):
        return None, [Problem(f"{address}/SKILL.md", 1, "unreadable-file", "the folder's path reads as a row of a "
                              "JSONL library", "rename the folder so that no '.jsonl#' is in its path")]  # fmt: skip
    try:
        read = contents(address, LIMIT)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return None, [Problem(f"{address}/SKILL.md", 1, "unreadable-file", f"the skill cannot be read: {why}",
                              "make it a readable Markdown file")]  # fmt: skip
    name = next((file for file in _markers(address)), "SKILL.md")
    path = f"{address}/{name}"
    parsed = skillmd.parse(read.data, path=path, folder=folder)
    problems = list(parsed.problems)
    if name != "SKILL.md":
        problems.append(Problem(path, 1, "file-name", f"the file is called '{name}'", "rename it to SKILL.md"))
    if read.unread:
        files = ", ".join(read.unread[:5])
        problems.append(Problem(path, 1, "unreadable-file", f"cannot be read, so the digest does not cover: {files}",
                                "give read permission"))  # fmt: skip
    if not parsed.usable:
        return None, problems
    lacks = missing(parsed.body, read.files)
    needs = tuple(Requirement("file", (file,), False, f"{name} names {file}") for file in lacks)
    label = f"{visible(root.plugin)}:{parsed.name}" if root.plugin else parsed.name
    skill = Skill(
        id=skill_id, name=label, description=parsed.text_for_listing, digest=read.digest, root=str(root.path),
        scope=root.scope, addresses=(address,), family=parsed.family, requires=(*parsed.requires, *needs),
        flags=parsed.flags, excludes=parsed.excludes, body_tokens=count_tokens(parsed.body), resources=read.files,
        stamp=read.stamp,
    )  # fmt: skip
    return skill, problems


def _markers(address: str) -> Iterator[str]:
    names = [each.name for each in Path(address).iterdir() if is_marker(each.name)]
    yield from sorted(names, key=lambda name: (name != "SKILL.md", name))


def _bound(root: Root) -> str:
    """The project that holds its place of skills (`.claude/skills`, `skills`); empty for places of the person."""
    if root.scope != "project":
        return ""
    above = root.path.parent
    return str(above.parent if above.name.startswith(".") else above)


def _absolute(root: Root) -> Path:
    path = root.path
    with suppress(RuntimeError):  # the ~ of a user whom nobody knows
        path = path.expanduser()
    path = path.absolute()
    if is_marker(path.name) and path.is_file():  # someone named the file: they mean its folder
        return path.parent
    return path


def _usable(root: Root) -> bool:
    """Whether there is anything to look at; raises LibraryError where someone named a path that is not usable."""
    path = root.path
    try:
        if path.is_dir():
            next(path.iterdir(), None)
            return True
        if rows.is_library(str(path)) and path.is_file():
            with path.open("rb"):
                return True
        if root.scope != "given":
            return False
        if path.exists():
            raise LibraryError(f"{path}: is a file, not a folder of skills; give the folder that holds it, or a "
                               ".jsonl, .jsonl.gz or .jsonl.xz file")  # fmt: skip
        raise LibraryError(f"{path}: no such folder; check the path (looked from {Path.cwd()})")
    except OSError as error:
        if root.scope != "given":
            return False
        raise LibraryError(f"{path}: cannot be read ({error.strerror}); give read permission, or name another "
                           "folder") from error  # fmt: skip


def _same(previous: Library, walk: Walk, places: Sequence[Root], files: dict[int, str], spool: Path | None) -> bool:
    """Whether every address of `previous` is there, unwritten, and no other is."""
    if any(root.scope != "given" for root in places):  # precedence may have changed: a few hundred skills, look again
        return False
    if spool is not None and not all(rows.spooled(spool, str(places[i].path), stamp) for i, stamp in files.items()):
        return False
    if any(found.stamp.endswith(MARK) for found in walk.skills):
        return False
    if walk.problems or any(problem.code in WALK_CODES for problem in previous.problems):
        return False
    found = [catalogue.key("given", each.address, each.stamp) for each in walk.skills]
    found += (catalogue.key("given", address, walk.skills[i].stamp) for i, address, _ in walk.aliases)
    found += (catalogue.key("given", str(places[i].path), stamp) for i, stamp in files.items())
    before, now = catalogue.keys_of(previous), catalogue.sorted_keys(found)
    return before.shape == now.shape and bool((before == now).all())


def _drafts(
    walk: Walk,
    places: Sequence[Root],
    files: dict[int, str],
    previous: Library | None,
    spool: Path | None,
    progress: Callable[[int, int], None] | None,
) -> Iterator[_Draft]:
    """Every skill that was found, root by root, read or taken over; one that cannot be read has no digest."""
    old: dict[str, tuple[Skill, str]] = {}
    noted: dict[str, list[Problem]] = {}
    if previous is not None:
        for skill in (*previous.skills, *(each.skill for each in previous.shadowed)):
            for address, stamp in zip(skill.addresses, skill.stamp.split(","), strict=False):
                old[address] = (skill, stamp)
        for problem in previous.problems:
            if problem.code not in WALK_CODES:
                noted.setdefault(problem.path.rpartition("/")[0], []).append(problem)
    more: dict[int, list[str]] = {}
    for i, address, _ in walk.aliases:
        more.setdefault(i, []).append(address)
    total, done = len(walk.skills), 0
    in_order = sorted(enumerate(walk.skills), key=lambda pair: (pair[1].root, pair[1].relative))
    at = 0
    for index, root in enumerate(places):
        if index in files:
            yield from _file_drafts(index, root, files[index], old, previous, spool)
        while at < total and in_order[at][1].root == index:
            i, found = in_order[at]
            at, done = at + 1, done + 1
            yield _folder_draft(found, root, old, noted, more.get(i, []))
            if progress is not None:
                progress(done, total)


def _folder_draft(
    found: Found,
    root: Root,
    old: dict[str, tuple[Skill, str]],
    noted: dict[str, list[Problem]],
    more: list[str],
) -> _Draft:
    before = old.get(found.address)
    if before is not None and unchanged(before[1], found.stamp) and before[0].scope == root.scope:
        skill: Skill | None = before[0]
        problems = noted.get(found.address, [])
    else:
        try:
            skill, problems = read_folder(found.address, root)
        except OSError as error:
            skill, problems = None, [Problem(f"{found.address}/{found.marker}", 1, "unreadable-file",
                                             f"the skill cannot be read: {error.strerror or error}",
                                             "make it a readable Markdown file")]  # fmt: skip
    relative = found.relative or root.path.name
    if skill is None:
        return _Draft(Skill("", "", "", "", str(root.path), root.scope, ()), found.root, relative, "", problems)
    addresses = (found.address, *(address for address in dict.fromkeys(more) if address != found.address))
    signed = skill.stamp if before is None or skill is not before[0] else found.stamp
    label = skill.name.removeprefix(f"{visible(root.plugin)}:") if root.plugin else skill.name
    skill = replace(skill, id="", root=str(root.path), addresses=addresses, stamp=",".join([signed] * len(addresses)))
    return _Draft(skill, found.root, relative, label, problems)


def _file_drafts(
    index: int,
    root: Root,
    stamp: str,
    old: dict[str, tuple[Skill, str]],
    previous: Library | None,
    spool: Path | None,
) -> Iterator[_Draft]:
    """The rows of a JSONL library, taken over when the file is unwritten and its bodies are at hand."""
    path = str(root.path)
    mine = [(row[1], skill, signed) for address, (skill, signed) in old.items()
            if (row := row_of(address)) and row[0] == path]  # fmt: skip
    at_hand = spool is None or rows.spooled(spool, path, stamp)
    if previous is not None and mine and at_hand and all(signed == stamp for _, _, signed in mine):
        for row_id, skill, _ in mine:
            skill = replace(skill, addresses=(f"{path}#{row_id}",), root=path, stamp=stamp)
            yield _Draft(skill, index, row_id, skill.name)
        problems = [problem for problem in previous.problems if problem.path == path]
        yield _Draft(Skill("", "", "", "", path, root.scope, ()), index, "", "", problems)
        return
    noted: list[Problem] = []
    keep = rows.Spool(spool, path, stamp) if spool is not None else None
    try:
        for read in rows.rows(path, noted):
            if keep is not None:
                keep.add(read.id, read.parsed.body)
            yield _Draft(_row_skill(read, root, stamp), index, read.id, read.parsed.name)
        if keep is not None:
            keep.done()
    except OSError as error:
        raise LibraryError(f"{keep.final.parent if keep else path}: the bodies cannot be copied ({error.strerror}); "
                           "make room, or set METIER_HOME to another folder") from error  # fmt: skip
    finally:
        if keep is not None:
            keep.__exit__()
    yield _Draft(Skill("", "", "", "", path, root.scope, ()), index, "", "", noted)


def _row_skill(row: rows.Row, root: Root, stamp: str) -> Skill:
    parsed = row.parsed
    return Skill(
        id="", name=parsed.name, description=parsed.text_for_listing, digest=row.digest, root=str(root.path),
        scope=root.scope, addresses=(f"{root.path}#{row.id}",), family=parsed.family, requires=parsed.requires,
        flags=parsed.flags, excludes=parsed.excludes, body_tokens=count_tokens(parsed.body), stamp=stamp,
    )  # fmt: skip


def _name(drafts: list[_Draft], places: Sequence[Root]) -> None:
    """Every draft has its id: `scope:relative/path`, with its root's name before it where another root has the same."""
    taken: set[str] = set()
    for draft in drafts:
        root = places[draft.root]
        path = visible(f"{root.plugin}/{draft.relative}" if root.plugin else draft.relative)
        tried = f"{root.scope}:{path}"
        if tried in taken:
            tried = f"{root.scope}:{visible('/'.join(root.path.parts[-2:]).strip('/'))}/{path}"
        number, plain = 1, tried
        while tried in taken:
            number += 1
            tried = f"{plain}~{number}"
        taken.add(tried)
        draft.skill = replace(draft.skill, id=tried)


def _collapsed(drafts: list[_Draft], *, everything: bool) -> list[tuple[_Draft, Skill]]:
    """The drafts with exact duplicates (same digest, same name) made one, all addresses kept, the first one first."""
    first: dict[tuple[str, ...], int] = {}
    kept: list[tuple[_Draft, Skill]] = []
    for draft in drafts:
        skill = draft.skill
        same: tuple[str, ...] = (skill.digest, draft.label)
        if not everything:  # only one row in two files is one document
            same += (draft.relative, "" if row_of(skill.addresses[0]) else skill.root)
        at = first.setdefault(same, len(kept))
        if at == len(kept):
            kept.append((draft, skill))
            continue
        one = kept[at][1]
        new = [i for i, address in enumerate(skill.addresses) if address not in one.addresses]
        stamps = skill.stamp.split(",")
        kept[at] = (kept[at][0], replace(
            one,
            addresses=(*one.addresses, *(skill.addresses[i] for i in new)),
            stamp=",".join([one.stamp, *(stamps[i] for i in new)]),
        ))  # fmt: skip
    return kept


def _shadowed(
    skills: list[tuple[_Draft, Skill]], places: Sequence[Root], precedence: Precedence
) -> tuple[list[Skill], tuple[Shadowed, ...]]:
    """The skills that stay, and those of the default places that a stronger scope's skill of the same name hides."""
    order = _STRENGTH[precedence]
    winners: dict[str, tuple[int, str]] = {}
    for draft, skill in skills:
        if skill.scope in order:
            mine = (order.index(skill.scope), skill.id)
            best = winners.get(draft.label)
            if best is None or mine[0] < best[0]:
                winners[draft.label] = mine
    kept: list[Skill] = []
    hidden: list[Shadowed] = []
    for draft, skill in skills:
        best = winners.get(draft.label)
        if skill.scope in order and best is not None and order.index(skill.scope) > best[0]:
            hidden.append(Shadowed(skill, best[1]))
        else:
            kept.append(skill)
    return kept, tuple(hidden)
