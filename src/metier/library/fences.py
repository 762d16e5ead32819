"""Where the front matter of a SKILL.md begins and ends.

A fence is a line that is `---` and nothing else: `a --- b` inside a value or a rule in the body is none, so the text
is never split at the three characters. What people write instead of the standard is found too, and reported.
"""

from __future__ import annotations

import re

from metier.late import dataclass, pattern
from metier.types import Problem

_FENCE = pattern(r"---[ \t]*\Z")
_END = pattern(r"(?:---|\.\.\.)[ \t]*\Z")  # YAML ends a document with either
_ALMOST = pattern(r"[ \t]*(?:-{2,12}|[—–]{1,4}-?|\+{3}|\*{3}|_{3}|```+|~~~+)[ \t]*\Z")
_KEY = pattern(r"[ \t]*[\"']?[A-Za-z_][\w.-]{0,60}[\"']?[ \t]*:(?:[ \t]|\Z)")
_KNOWN = pattern(r"[ \t]*[\"']?(?:name|description|title|version|license|metadata|allowed-tools)[\"']?[ \t]*:", re.I)
_YAML_LINE = pattern(r"[ \t]+\S|-[ \t]|#|[}\])]|[\"']?[A-Za-z_][\w.-]{0,60}[\"']?[ \t]*:(?:[ \t]|\Z)")
_INLINE_KEY = pattern(r"(?:(?<=\s)|\A)([A-Za-z][A-Za-z_-]{0,40}):[ \t]")
LOOK = 40
"""Lines in which a late opening fence is looked for; comments and headings before it take a few."""
ONE_LINE = 8_000
"""Characters of a front matter written on one line, at most; it holds a description and little else."""
FRONT_LINES = 4_000
"""Lines in which an end is looked for; the longest of 12,610 public ones has 144."""


@dataclass(frozen=True, slots=True)
class Split:
    """A file in two: `front` (None when there is none) starts at line `front_line`, `body` at `body_line`, from 1."""

    front: str | None
    front_line: int
    body: str
    body_line: int


def split(text: str) -> tuple[Split, list[Problem]]:
    """The front matter and the body of a text with `\\n` line ends, and what had to be forgiven to tell them apart."""
    lines = text.split("\n")
    problems: list[Problem] = []
    if _FENCE.match(lines[0]):
        return _from(lines, 1, problems), problems
    only = lines[0].rstrip()
    if only.startswith("--- ") and only.endswith(" ---") and len(only) <= ONE_LINE:
        problems.append(_problem(1, "one-line-front-matter", "the whole front matter stands on one line",
                                 "put the fences and every key on lines of their own"))  # fmt: skip
        front = _INLINE_KEY.sub(lambda m: f"\n{m[1]}: ", only[4:-4].strip()).strip("\n")
        return Split(front, 1, "\n".join(lines[1:]), 2), problems
    at = _late(lines)
    if at is not None:
        return _late_split(lines, at, problems), problems
    first = next((i for i, line in enumerate(lines[:LOOK]) if line.strip()), None)
    if first is not None and _KNOWN.match(lines[first]):
        problems.append(_problem(first + 1, "missing-opening-fence", "the front matter has no opening '---'",
                                 "put a line '---' before it"))  # fmt: skip
        return _from(lines, first, problems, opened=False), problems
    problems.append(_problem(1, "no-front-matter", "there is no front matter; the name is the folder's and the "
                             "description the first paragraph",
                             "begin the file with '---', 'name: …', 'description: …', '---'"))  # fmt: skip
    return Split(None, 1, text, 1), problems


def _late(lines: list[str]) -> int | None:
    """Index of an opening fence that is not the first line or is misspelt, followed by a key; None without one."""
    for i, line in enumerate(lines[:LOOK]):
        if not (_FENCE.match(line) or _ALMOST.match(line)):
            continue
        after = next((later for later in lines[i + 1 : i + 6] if later.strip() and not later.startswith("#")), "")
        if _KNOWN.match(after) or (_FENCE.match(line) and _KEY.match(after)):
            return i
    return None


def _late_split(lines: list[str], at: int, problems: list[Problem]) -> Split:
    before = [line for line in lines[:at] if line.strip()]
    if before:
        what = "a code fence" if before[-1].lstrip().startswith(("```", "~~~")) else f"'{before[0].strip()[:40]}'"
        problems.append(_problem(at + 1, "late-front-matter", f"the front matter comes after {what}",
                                 "move it to the first line"))  # fmt: skip
    elif at:
        problems.append(_problem(at + 1, "late-front-matter", f"the front matter comes after {at} empty lines",
                                 "move it to the first line"))  # fmt: skip
    if not _FENCE.match(lines[at]):
        problems.append(_problem(at + 1, "opening-fence", f"the opening fence is '{lines[at].strip()[:20]}'",
                                 "write it as '---'"))  # fmt: skip
    found = _from(lines, at + 1, problems)
    if before and before[-1].lstrip().startswith(("```", "~~~")):  # the wrapper's own end is no part of the body
        body = found.body.rstrip()
        found = Split(found.front, found.front_line, body.removesuffix("```").removesuffix("~~~"), found.body_line)
    elif before and not before[0].lstrip().startswith(("<!--", "-----")):  # a heading or text: part of the body
        body = "\n".join(lines[:at]) + "\n" + found.body
        found = Split(found.front, found.front_line, body, found.body_line)
    return found


def _from(lines: list[str], start: int, problems: list[Problem], *, opened: bool = True) -> Split:
    """The split of a file whose front matter starts at index `start`."""
    stop = min(len(lines), start + FRONT_LINES)
    exact = next((i for i in range(start, len(lines)) if _END.match(lines[i])), None)
    if exact is not None and _heading(lines, start, exact):
        exact = None  # it is a rule in the body of a front matter that never ends
    early = _glued(lines, start, min(stop, len(lines) if exact is None else exact))
    if early is not None:
        problems.append(_problem(early + 1, "closing-fence", f"text follows the closing fence: '{lines[early][:40]}'",
                                 "put '---' on a line of its own"))  # fmt: skip
        rest = lines[early][3:].lstrip("-").strip()
        return Split("\n".join(lines[start:early]), start + 1, "\n".join([rest, *lines[early + 1 :]]), early + 1)
    if exact is not None and (opened or _all_yaml(lines[start:exact])):
        return Split("\n".join(lines[start:exact]), start + 1, "\n".join(lines[exact + 1 :]), exact + 2)
    almost = next((i for i in range(start + 1, stop) if _ALMOST.match(lines[i])), None)
    end = _run_out(lines, start, stop)
    if almost is not None and almost <= end + 1:
        problems.append(_problem(almost + 1, "closing-fence", f"the closing fence is '{lines[almost][:40]}'",
                                 "write it as '---' at the start of its line"))  # fmt: skip
        return Split("\n".join(lines[start:almost]), start + 1, "\n".join(lines[almost + 1 :]), almost + 2)
    if opened:
        problems.append(_problem(start, "missing-closing-fence", "the front matter has no closing '---'",
                                 f"put a line '---' after line {end}"))  # fmt: skip
    return Split("\n".join(lines[start:end]), start + 1, "\n".join(lines[end:]), end + 1)


def _glued(lines: list[str], start: int, stop: int) -> int | None:
    """Index of a closing fence with text behind it: nothing but front matter before it, none after it."""
    for i in range(start, stop):
        line = lines[i]
        if not (line.startswith("---") and not _END.match(line) and line.strip("- \t")):
            continue
        after = next((later for later in lines[i + 1 : i + 8] if later.strip()), "")
        return i if _all_yaml(lines[start:i]) and not (_KEY.match(after) or _END.match(after)) else None
    return None


def _heading(lines: list[str], start: int, stop: int) -> bool:
    """Whether a Markdown heading stands between: after an empty line, and before something that is no key."""
    for i in range(start + 1, stop):
        if lines[i].startswith("#") and lines[i].lstrip("#").startswith(" ") and not lines[i - 1].strip():
            after = next((later for later in lines[i + 1 : min(i + 6, stop)] if later.strip()), "")
            if after and not _KEY.match(after) and not after.startswith(("#", "-", " ")):
                return True
    return False


def _all_yaml(lines: list[str]) -> bool:
    return all(not line.strip() or _YAML_LINE.match(line) for line in lines)


def _run_out(lines: list[str], start: int, stop: int) -> int:
    """Index of the first line that can no longer be front matter: a heading or prose after an empty line."""
    empty = block = False
    for i in range(start, stop):
        line = lines[i]
        if not line.strip():
            empty = True
            continue
        if not line[0].isspace():
            block = line.rstrip().endswith(("|", ">", "|-", ">-"))
        if empty and (not _YAML_LINE.match(line) or line.startswith(("#", "- ")) or (line[0].isspace() and not block)):
            return i
        after = next((later for later in lines[i + 1 : i + 4] if later.strip()), "")
        if line.startswith(("## ", "```")) or (line.startswith("# ") and not _KEY.match(after)):
            return i
    return stop


def _problem(line: int, code: str, message: str, remedy: str) -> Problem:
    return Problem("", line, code, message, remedy)
