"""The tasks of a collection, checked before any run: lines {id?, task, skill | skills, family?, files?, check?}."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metier.errors import InputError
from metier.gate.imports import text_of
from metier.text import fingerprint
from metier.types import Skill


@dataclass(frozen=True, slots=True)
class Job:
    """One task with the skill it is tried with."""

    id: str
    name: str | None
    """The id the file gave; None where it gave none."""
    text: str
    skills: tuple[str, ...]
    digests: tuple[str, ...]
    family: str | None = None
    files: Path | None = None
    check: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Material:
    """The skills under test, by id, and how their text and folder are had."""

    skills: Mapping[str, Skill]
    body: Callable[[Skill], str]
    folder: Callable[[Skill, Path], None]
    """Copies a skill's folder to a new place."""

    def text(self, skill_id: str) -> str:
        """The skill's body as it is on disk now."""
        return self.body(self.skills[skill_id])

    def name(self, skill_id: str) -> str:
        """A name that is safe as one step of a path."""
        return (
            "".join(c if c.isalnum() or c in "-_." else "-" for c in self.skills[skill_id].name).strip(".") or "skill"
        )

    def copy(self, skill_id: str, place: Path) -> None:
        """The skill's folder is at `place`."""
        self.folder(self.skills[skill_id], place)


def read_tasks(
    path: Path, resolve: Callable[[str], Skill], *, skill: Sequence[str] = (), check: bool = False
) -> tuple[list[Job], dict[str, Skill]]:
    """The tasks of a file and the skills they name. `skill`: those of lines that name none.

    `check`: one is given for all. Raises `InputError` naming the line, and what `resolve` raises for an unknown skill.
    """
    jobs: list[Job] = []
    skills: dict[str, Skill] = {}
    seen: dict[str, int] = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        job, used = _job(line, f"{path}:{number}", path.parent, resolve, tuple(skill))
        if job.id in seen:
            raise InputError(f"{path}:{number}: id {job.id!r} is that of line {seen[job.id]}; every task needs its own")
        if not job.check and not check:
            raise InputError(f"{path}:{number}: nothing says whether it succeeded; give a check there, or --check CMD")
        seen[job.id] = number
        skills |= {each.id: each for each in used}
        jobs.append(job)
    if not jobs:
        raise InputError(f'{path}: no tasks in it; give lines such as {{"task": "…", "skill": "pdf-forms"}}')
    return jobs, skills


def _job(
    line: str, where: str, folder: Path, resolve: Callable[[str], Skill], default: tuple[str, ...]
) -> tuple[Job, list[Skill]]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}); write one object per line") from error
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: not an object; write {{…}}")
    text = next((row[k] for k in ("task", "text", "question") if isinstance(row.get(k), str) and row[k].strip()), None)
    if text is None:
        raise InputError(f'{where}: the task is missing; give its text as "task"')
    told = row.get("skills") or row.get("skill") or default
    names = [told] if isinstance(told, str) else list(told)
    if not names:
        raise InputError(f"{where}: no skill is named; give one there, or --skill")
    used = sorted({found.id: found for found in (resolve(str(name)) for name in names)}.values(), key=lambda s: s.id)
    name = None if row.get("id") in (None, "") else str(row["id"])
    job = Job(
        id=name or fingerprint(text)[:16], name=name, text=text, skills=tuple(s.id for s in used),
        digests=tuple(s.digest for s in used), family=str(row["family"]) if row.get("family") else None,
        files=_files(row.get("files"), where, folder), check=_command(row.get("check"), where),
    )  # fmt: skip
    return job, used


def _files(value: Any, where: str, folder: Path) -> Path | None:
    """A file or folder beside the tasks, copied into every run's working folder."""
    if value in (None, ""):
        return None
    place = (folder / str(value)).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise InputError(f"{where}: files {value!r} leaves the folder of the tasks; put them beside it")
    if not place.exists():
        raise InputError(f"{where}: files {value!r} is not there")
    return place


def _command(value: Any, where: str) -> tuple[str, ...]:
    if value in (None, "", []):
        return ()
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise InputError(f"{where}: check {value!r}: {error}") from error
    raise InputError(f"{where}: check is {value!r}; give a command line, or a list of arguments")
