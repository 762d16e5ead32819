"""A SKILL.md's text → statements, by rules: headings, steps, sentences, table rows and lines of code (methods 2.2).

One pass over the lines with linear patterns and hard caps: megabytes, deep nesting or bait for backtracking cost no
more than the caps allow. Nothing here decides what a statement means; `extract.py` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from re import Match
from typing import Literal

from metier.late import dataclass, pattern

MAX_CHARS = 120_000
"""Characters of a body that are read; one public skill in 12,610 is longer."""
MAX_STATEMENTS = 700
"""Statements kept of one skill; the median public skill has about 90."""
MAX_STATEMENT = 500
"""Characters of one statement; what is longer is cut there."""
MAX_VERDICT = 16
"""Characters of a table's cell that says no more than yes or no."""
MAX_DEPTH = 6
"""Nested headings kept as context, as many as Markdown has."""

Form = Literal["heading", "step", "sentence", "row", "code"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing the text says: its form, the words without markup, the words as written, and the headings above."""

    form: Form
    text: str
    quote: str
    heading: int
    """Index of the nearest heading statement above, or -1."""
    level: int = 0
    """Depth of a heading; 0 for anything else."""
    language: str = ""
    """Language of the fence around a line of code."""


_HEADING = pattern(r" {0,3}(#{1,6})\s+(\S.{0,300})")
_FENCE = pattern(r" {0,12}(`{3,}|~{3,})\s*([A-Za-z0-9_+#.-]{0,20})")
_ITEM = pattern(r"\s{0,40}(?:[-*+•]|\d{1,3}[.)]|[a-zA-Z][.)])\s+(?:\[[ xX]\]\s+)?(?=\S)")
_RULE = pattern(r"[\s|:*_=+-]*$")
_BOLD_LINE = pattern(r"\*\*([^*\n]{3,120})\*\*:?$")
_SENTENCE_END = pattern(
    r"(?<=[.!?。！？])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+(?=[A-Z0-9`\"'*(\[\u3400-\u9fff])|(?<=[。！？])"
)
_YES = frozenset(("yes", "required", "optional", "always", "mandatory", "supported", "✅", "✓", "✔", "✔️"))
_NO = frozenset(("no", "skip", "never", "none", "unsupported", "forbidden", "❌", "✗", "✘", "x"))
_LINK = pattern(r"\[([^\[\]\n]{1,200})\]\([^()\s]{0,300}\)")
_MARKS = pattern(r"`([^`\n]{0,200})`|\*\*|__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|`|<[^<>\n]{1,80}>")


def _unmarked(mark: Match[str]) -> str:
    """Marks go, what stands in back-ticks stays as it is: `<script setup>` is no tag there."""
    return mark[1] or ""


def plain(text: str) -> str:
    """A line without Markdown's marks: links become their words, emphasis and back-ticks go."""
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "`" in text or "*" in text or "_" in text or "<" in text:
        text = _MARKS.sub(_unmarked, text)
    return " ".join(text.split())


def statements(body: str) -> list[Statement]:
    """The statements of a body in order, at most `MAX_STATEMENTS`."""
    found: list[Statement] = []
    for one in _read(body[:MAX_CHARS].splitlines()):
        found.append(one)
        if len(found) >= MAX_STATEMENTS:
            break
    return found


def _read(lines: list[str]) -> Iterator[Statement]:
    heading, count, fence, language = -1, 0, "", ""
    held: list[str] = []
    held_form: Form = "sentence"
    columns: list[str] = []

    def flush() -> Iterator[Statement]:
        if held:
            text = " ".join(held)
            held.clear()
            for piece in _SENTENCE_END.split(text) if len(text) > 60 else (text,):
                words = plain(piece[:MAX_STATEMENT])
                if words and not _RULE.match(words):
                    yield Statement(held_form, words, piece.strip()[:MAX_STATEMENT], heading)

    def counted(made: Iterator[Statement]) -> Iterator[Statement]:
        nonlocal count
        for one in made:
            count += 1
            yield one

    for number, line in enumerate(lines):
        line = line[: 4 * MAX_STATEMENT]
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
            elif line.strip() and not _RULE.match(line):
                text = " ".join(line.split())[:MAX_STATEMENT]
                yield from counted(iter((Statement("code", text, line.strip()[:MAX_STATEMENT], heading, 0, language),)))
            continue
        if mark:
            yield from counted(flush())
            fence, language = mark[1], mark[2].lower()
            continue
        if not line.strip() or _RULE.match(line):
            yield from counted(flush())
            continue
        line = line.lstrip("> ") if line.lstrip().startswith(">") else line
        title = _HEADING.match(line)
        bold = None if title else _BOLD_LINE.match(line.strip())
        if title or bold:
            yield from counted(flush())
            words = plain((title[2] if title else bold[1] if bold else "").rstrip("# "))
            level = len(title[1]) if title else MAX_DEPTH + 1
            if words:
                heading = count
                yield from counted(iter((Statement("heading", words, line.strip(), -1, level),)))
            continue
        item = _ITEM.match(line)
        if item:
            yield from counted(flush())
            held_form = "step"
            held.append(line[item.end() :].strip())
        elif line.lstrip().startswith("|"):
            yield from counted(flush())
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            under = lines[number + 1] if number + 1 < len(lines) else ""
            if under.lstrip().startswith("|") and _RULE.match(under[: 4 * MAX_STATEMENT]):
                columns = [plain(c[:MAX_STATEMENT]) for c in cells]
            elif len(columns) == len(cells):
                cells = [cells[0], *(_verdict(c, column) for c, column in zip(cells[1:], columns[1:], strict=True))]
            words = plain(" | ".join(c for c in cells if c)[:MAX_STATEMENT])
            if words and not _RULE.match(words):
                yield from counted(iter((Statement("row", words, line.strip()[:MAX_STATEMENT], heading),)))
        else:
            columns = []
            if not held:
                held_form = "sentence"
            held.append(line.strip())
            if sum(map(len, held)) > 8 * MAX_STATEMENT:
                yield from counted(flush())
    yield from counted(flush())


def _verdict(cell: str, column: str) -> str:
    """A cell that only says yes or no, as a statement about its column: "Skip" under "E2E" is "skip E2E"."""
    if len(cell) > MAX_VERDICT or not column:
        return cell
    word = cell.strip("*_`. ").lower()
    if word in _YES:
        return f"{column} {word}" if word.isalpha() else column
    return f"{word if word.isalpha() else 'no'} {column}" if word in _NO else cell


def ancestry(found: list[Statement]) -> list[int]:
    """Each statement's parent heading (its index, or -1); a heading's parent is the nearest one of lower level."""
    parents: list[int] = []
    stack: list[int] = []
    for index, one in enumerate(found):
        if one.form == "heading":
            while stack and found[stack[-1]].level >= one.level:
                stack.pop()
            parents.append(stack[-1] if stack else -1)
            stack.append(index)
        else:
            parents.append(one.heading)
    return parents
