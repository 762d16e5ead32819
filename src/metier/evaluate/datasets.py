"""Requests with gold, and libraries, in the forms that the public benchmarks use (methods 6.1–6.3).

Our own form is JSONL: `{"id", "text", "gold": [skill ids], "dataset"?, "hypothetical_skills"?}`. SRA-Bench,
SkillRouter-Eval-Core and SkillRet files are recognised by their shape; their libraries are rewritten once as JSONL.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metier.errors import InputError
from metier.types import Skill

IN_POOL = "gold_in_pool"
"""In a request's `extra`: only gold that the pool holds counts (SkillRouter's protocol, methods 6.2)."""


def known_as(skill: Skill) -> tuple[str, ...]:
    """The ids gold may name a skill by: its row's id in a JSONL library, its own id, its path below the root."""
    rows = tuple(a.rsplit("#", 1)[1] for a in skill.addresses if "#" in a)
    short = skill.id.split(":", 1)[-1]
    return (*rows, skill.id, short, f"{short}/SKILL.md")


@dataclass(frozen=True, slots=True)
class Request:
    """One request with its gold."""

    id: str
    text: str
    gold: Mapping[str, float]
    dataset: str
    hypothetical: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file, plain or `.gz`/`.xz`. Raises `InputError` with the line."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise InputError(f"{path}:{number}: a {type(value).__name__} where an object should be")
                    yield number, value
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a JSONL file, plain, .gz or .xz") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not JSON Lines in UTF-8 ({error}); write one object a line") from error


def read_requests(paths: Iterable[Path]) -> list[Request]:
    """All requests of the files, in order. A request without `dataset` belongs to the one named after its file."""
    found: list[Request] = []
    for path in paths:
        found += _read_one(path)
    seen: dict[tuple[str, str], int] = {}
    for request in found:
        seen[request.dataset, request.id] = seen.get((request.dataset, request.id), 0) + 1
    twice = [key for key, n in seen.items() if n > 1]
    if twice:
        raise InputError(f"request id {twice[0][1]!r} stands twice in dataset {twice[0][0]!r}; ids must be unique")
    if not found:
        raise InputError(f"no requests in {', '.join(map(str, paths))}; give JSONL with id, text and gold")
    return found


def _read_one(path: Path) -> list[Request]:
    if path.is_dir():
        if (path / "tasks.jsonl").is_file():
            return _skillrouter(path)
        files = sorted((path / "instances" if (path / "instances").is_dir() else path).glob("*.json"))
        return [r for file in files if file.name != "corpus.json" for r in _sra(file)]
    if path.suffix == ".json":
        return _sra(path)
    name = path.name.split(".")[0]
    return [_request(value, path, number, name) for number, value in lines(path)]


def _request(value: Mapping[str, Any], path: Path, number: int, name: str) -> Request:
    text = value.get("text", value.get("query", value.get("question")))
    gold = value.get(
        "gold", value.get("skill_ids", value.get("labels", [value["skill"]] if "skill" in value else None))
    )
    if not isinstance(text, str) or not isinstance(gold, (list, dict)) or "id" not in value:
        missing = [k for k, v in (("id", value.get("id")), ("text", text), ("gold", gold)) if not v]
        raise InputError(
            f"{path}:{number}: {', '.join(missing) or 'id, text or gold'} missing or of the wrong type; "
            'write {"id": "r1", "text": "…", "gold": ["skill-name"]}'
        )
    return Request(
        id=str(value["id"]),
        text=text,
        gold={str(g): float(v) for g, v in gold.items()} if isinstance(gold, dict) else {str(g): 1.0 for g in gold},
        dataset=str(value.get("dataset") or name),
        hypothetical=tuple(value.get("hypothetical_skills") or ()),
        extra={k: v for k, v in value.items() if k not in ("id", "text", "gold", "dataset", "hypothetical_skills")},
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as JSON ({error})") from error


def _sra(path: Path) -> list[Request]:
    """SRA-Bench instances: {instance_id, dataset, question, skill_annotations}; the bare question is the query."""
    requests = []
    for n, row in enumerate(_json(path)):
        try:
            marks = row["skill_annotations"]
            ids = [m["skill_id"] if isinstance(m, dict) else m for m in marks]
            name = str(row.get("dataset") or path.stem)
            requests.append(Request(str(row["instance_id"]), str(row["question"]), dict.fromkeys(ids, 1.0), name))
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: instance {n} lacks {error}; this is not an SRA-Bench instances file") from error
    return requests


def _skillrouter(folder: Path) -> list[Request]:
    """SkillRouter-Eval-Core: `generic_only` tasks are dropped, gold = core_gt_ids (methods 6.2)."""
    relevance = _json(folder / "relevance.json")
    requests = []
    for number, task in lines(folder / "tasks.jsonl"):
        judged = relevance.get(str(task.get("task_id")))
        if task.get("excluded") or judged is None or judged.get("task_type") == "generic_only":
            continue
        if "instruction_text" not in task:
            raise InputError(f"{folder / 'tasks.jsonl'}:{number}: instruction_text is missing")
        core = judged.get("core_gt_ids") or judged.get("gt_skill_ids") or []
        grades = judged.get("relevance") or {}
        gold = {str(i): float(grades.get(i, 1.0) or 1.0) for i in core}
        extra = {IN_POOL: True}
        requests.append(Request(str(task["task_id"]), task["instruction_text"], gold, folder.name, extra=extra))
    return requests


def as_library(path: Path, into: Path) -> Path:
    """A path that `library.scan` reads: the path itself, or our JSONL copy of a benchmark's own form under `into`."""
    parts = sorted(path.glob("part-*.jsonl.gz")) if path.is_dir() else []
    if path.is_dir() and (path / "corpus.json").is_file():
        path = path / "corpus.json"
    if path.suffix != ".json" and not parts and not _foreign(path):
        return path
    rows: Iterable[Mapping[str, Any]]
    rows = (row for part in parts for _, row in lines(part)) if parts else _json(path) if path.suffix == ".json" else (
        row for _, row in lines(path)
    )  # fmt: skip
    into.mkdir(parents=True, exist_ok=True)
    target = into / f"{path.stem}-{abs(path.stat().st_mtime_ns) % 10**10}.jsonl"
    with target.open("w", encoding="utf-8") as file:
        for row in rows:
            body = row.get("body", row.get("content", _without_front(row.get("skill_md"))))
            one = {"id": str(row.get("id", row.get("skill_id"))), "name": row.get("name") or "", "body": body or ""}
            file.write(json.dumps({**one, "description": row.get("description") or ""}, ensure_ascii=False) + "\n")
    return target


def _without_front(skill_md: str | None) -> str:
    """The body of a whole SKILL.md: its front matter is in the row's own fields (methods 6.3)."""
    from metier.library.skillmd import parse

    return parse(skill_md.encode("utf-8"), path="SKILL.md", folder="skill").body if skill_md else ""


def _foreign(path: Path) -> bool:
    """Whether a JSONL file's first row is a benchmark's own form rather than ours."""
    if not path.is_file() or not any(path.name.endswith(end) for end in (".jsonl", ".jsonl.gz", ".jsonl.xz")):
        return False
    first = next(iter(lines(path)), None)
    return first is not None and "body" not in first[1] and bool({"skill_md", "content", "skill_id"} & set(first[1]))
