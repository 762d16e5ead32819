"""The controlled test's near-copies: one critical requirement, which the request states, is broken and nothing else.

Operators (SKALOS, methods 2.10): a step is removed; a method, format, number, unit or tool is changed; a negation is
flipped. Every corruption is recorded with the line it touched. What the request states is found by plain words here,
on purpose: the test must not see with the eyes of the reranker that it judges.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from metier.evaluate.swaps import FORMATS, METHODS, NAMES, TOOLS, UNITS, neighbours

OPERATORS = (
    "step-removed",
    "method-changed",
    "format-changed",
    "number-changed",
    "unit-changed",
    "tool-changed",
    "negation-flipped",
)
MIN_SHARED = 2
"""Content words that a line shares with one sentence of the request to count as stated there."""
WAYS = 3
"""Draws of each operator: one requirement can be broken in several ways, each a near-copy of its own."""
NEAR = 60
"""Characters around a word or quantity within which the line must share another word with the request: what is further
away may belong to another requirement."""
PREFIX = 5
"""Letters by which two words count as the same: "merging" and "merged" share a requirement."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """One way to break a skill: the lines that change, and what the request says there."""

    operator: str
    stated: str
    """The word or quantity of the request that is broken; for a step or a negation, the words shared with it."""
    changes: Mapping[int, str | None]
    """Line number (0-based) → its new text, None where it is removed."""
    description: tuple[str, str] | None = None
    """(word, replacement) where the description names the thing as well."""

    def apply(self, body: str) -> str:
        """The corrupted body."""
        lines = body.split("\n")
        changed = [self.changes.get(n, line) for n, line in enumerate(lines)]
        return "\n".join(line for line in changed if line is not None)

    def describe(self, text: str) -> str:
        """The corrupted description."""
        return _replaced(text, *self.description) if self.description else text


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Za-z][A-Za-z0-9+#]*(?:[.-][A-Za-z0-9]+)*|\d+(?:[.,:]\d+)*")
_COMMON = _listed(
    """the and for with that this from into your you are not but all any can use using when will must should have has
    its it's per each one two our out only also more than then them they their what which who how why does don't never
    without about after before over under need needs want please like make just get got some such via new file files
    code data project work task step run add set list user users"""
)
_ACRONYMS = _listed("api apis cli sdk sdks url urls llm llms pr prs prd prds id ids ui ux os ai gpu cpu faq qa")
"""Written in capitals like a name, yet no tool that could be replaced by another."""
_DENIAL = re.compile(
    r"\b(must not|should not|do not|does not|cannot|can't|don't|doesn't|never|without|avoid|no|not)\b", re.IGNORECASE
)
_REQUEST_DENIAL = re.compile(
    r"\b(not|never|no|without|don't|doesn't|can't|nothing|nobody|none|avoid|must not|mustn't|isn't|aren't)\b",
    re.IGNORECASE,
)
_PROPER = re.compile(r"(?<=[a-z,(] )[A-Z][\w.-]{2,24}(?=[\s,.;:)])|\b\w+[-_]\w+\b|\b[a-z]+\d\w*")
"""Words that a request writes like a name: capitals inside a sentence, hyphens, digits at the end."""
_ASIDE = re.compile(
    r"\b(?:when (?:not )?to use|use this|use cases?|triggers?|references?|resources|related|see also|further reading|"
    r"links|documentation|attribution|activat\w+|getting help)\b",
    re.IGNORECASE,
)
"""Headings over text that says what a skill is about or where to read on, not what it does."""
_LINKED = re.compile(r"\[[^\[\]\n]{1,200}\]\([^()\s]{0,300}\)")
_NOT_ALL = re.compile(r"not\s+(?:only|every|all|just|necessarily|yet|found|available)\b", re.IGNORECASE)
_LIST_MARK = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_VERB = re.compile(
    r"(?:\*\*)?(?:Add|Apply|Ask|Attach|Avoid|Break|Build|Calculate|Call|Check|Choose|Classify|Clean|Close|Collect|Compare|"
    r"Compute|Configure|Confirm|Convert|Copy|Correct|Create|Define|Delete|Deploy|Describe|Detect|Document|Draft|Enable|"
    r"Enrich|Ensure|Escape|Estimate|Explain|Export|Extract|Fetch|Fill|Filter|Find|Fix|Flag|Format|Gather|Generate|Get|"
    r"Give|Group|Identify|Implement|Import|Include|Insert|Install|Keep|Label|Link|List|Load|Log|Look|Make|Map|Mark|Match|"
    r"Measure|Merge|Migrate|Monitor|Move|Name|Normali[sz]e|Note|Open|Order|Parse|Pass|Pick|Place|Plan|Plot|Post|Prefer|"
    r"Prepare|Present|Preserve|Print|Prioriti[sz]e|Provide|Publish|Push|Put|Quote|Read|Record|Rename|Render|Replace|Report|"
    r"Request|Require|Resolve|Restore|Return|Review|Run|Save|Scan|Schedule|Score|Search|Select|Send|Set|Show|Sort|Split|"
    r"Start|State|Stop|Store|Strip|Submit|Summari[sz]e|Switch|Tag|Take|Test|Track|Treat|Trim|Try|Update|Upload|Use|"
    r"Validate|Verify|Wait|Walk|Warn|Wrap|Write)\b(?:\*\*)?\s+\S"
)
_QUANTITY = re.compile(r"(?<![\w.#/–-])(\d+(?:[.,]\d+)*)(\s?)(%|[A-Za-z]{1,10}\b)?")
_RANGE = re.compile(r"\s?(?:-|–|to)\s?(\d+)(?![\w.,])")
_YEAR = re.compile(r"(?:19|20)\d\d")


def corruptions(
    request: str, body: str, description: str, rng: random.Random, *, foreign: Sequence[str] = ()
) -> list[Corruption]:
    """Ways to break `body` that the request would notice, in random order; a requirement may be broken in several ways.

    `foreign` are names that replace a tool which `swaps` does not know; by default those of its other tools.
    """
    site = _Site(request, body, description, rng, tuple(foreign) or NAMES)
    makers: tuple[Callable[[_Site], Iterator[Corruption]], ...] = (
        _steps, _methods, _formats, _numbers, _units, _tools, _negations,
    )  # fmt: skip
    found: dict[tuple[object, ...], Corruption] = {}
    for make in makers * WAYS:
        for one in make(site):
            if any(after != site.lines[line] for line, after in one.changes.items()):
                found.setdefault((one.operator, one.stated, *one.changes.items()), one)
    order = list(found.values())
    rng.shuffle(order)
    return order


def chosen(found: Sequence[Corruption], n: int, body: str, *, seen: Counter[str] | None = None) -> list[Corruption]:
    """`n` corruptions that give different texts; fewer where there are fewer.

    Different operators and different lines come first, rare operators before common ones; only then is one
    requirement broken in a second way. `seen` counts operators over the whole test, so that all are exercised.
    """
    counts: Counter[str] = seen if seen is not None else Counter()
    left, taken, texts = list(found), list[Corruption](), {body}
    while left and len(taken) < n:
        used = {t.operator for t in taken}
        lines = {line for t in taken for line in t.changes}
        best = min(left, key=lambda c: (bool(lines & set(c.changes)), c.operator in used, counts[c.operator]))
        left.remove(best)
        made = best.apply(body)
        if made not in texts:
            texts.add(made)
            taken.append(best)
            counts[best.operator] += 1
    return taken


class _Site:
    """A request and the skill that answers it, prepared for the operators."""

    def __init__(self, request: str, body: str, description: str, rng: random.Random, foreign: tuple[str, ...]) -> None:
        self.request, self.description, self.rng, self.foreign = request, description, rng, foreign
        self.lines = body.split("\n")
        self.fenced, self.aside = _fenced(self.lines), _aside(self.lines)
        clauses = re.split(r"(?<=[.!?;])\s+|\n|, | and | but ", request)
        self.asked = [set(_content(clause)) for clause in clauses]
        self.held = [{w.lower() for w in _WORD.findall(clause)} for clause in clauses]
        self.said = {w.lower() for w in _WORD.findall(request)}
        frequency = Counter(w for line in self.lines for w in set(_content(line)))
        self.rare = {w for w, n in frequency.items() if n <= max(3, len(self.lines) // 20)}

    def shared(self, line: str) -> set[str]:
        """Words that the line shares with the sentence of the request that shares most."""
        words = set(_content(line))
        return max((words & asked for asked in self.asked), key=len, default=set())

    def about(self, word: str, line: str, start: int, end: int) -> bool:
        """Whether one clause of the request holds the word and another content word that the line has near it."""
        if line[:start].count("`") % 2:  # inside code: a subcommand or a flag, not the word
            return False
        words = set(_content(line[max(0, start - NEAR) : end + NEAR])) - set(_content(word)) - {word}
        return any(words & asked and word in held for asked, held in zip(self.asked, self.held, strict=True))

    def prose(self, *, told: bool = False) -> Iterator[tuple[int, str]]:
        """Lines that say something: no headings, no code; `told`: no lists of links or occasions for use either."""
        for n, line in enumerate(self.lines):
            if line.strip() and not self.fenced[n] and not line.lstrip().startswith("#"):
                linked = sum(map(len, _LINKED.findall(line))) * 2 > len(line)
                if not told or not (self.aside[n] or linked or line.rstrip().endswith(":")):
                    yield n, line

    def everywhere(self, operator: str, word: str, new: str) -> Iterator[Corruption]:
        """The word replaced wherever the skill says it."""
        changes: dict[int, str | None] = {}
        for n, line in enumerate(self.lines):
            changed = line if line.lstrip().startswith(("```", "~~~")) else _replaced(line, word, new)
            if changed != line:
                changes[n] = changed
        if any(not self.fenced[n] for n in changes):  # a name that only code says is an example of it
            yield Corruption(operator, word, changes, (word, new))


def _content(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        word = word.lower()
        if len(word) > 2 and word not in _COMMON:
            yield word[:PREFIX] if word.isalpha() else word


def _fenced(lines: Sequence[str]) -> list[bool]:
    inside, marks = False, []
    for line in lines:
        fence = line.lstrip().startswith(("```", "~~~"))
        marks.append(inside or fence)
        inside ^= fence
    return marks


def _aside(lines: Sequence[str]) -> list[bool]:
    """Whether each line stands under a heading that is about the skill and not part of what it does."""
    marks, level = [], 0
    for line in lines:
        depth = len(line) - len(line.lstrip("#"))
        if depth and (not level or depth <= level):
            level = depth if _ASIDE.search(line) else 0
        marks.append(level > 0)
    return marks


def _replaced(text: str, word: str, new: str) -> str:
    """Whole words only, the case of the first letter kept."""

    def one(match: re.Match[str]) -> str:
        old = match[0]
        return new.upper() if old.isupper() and len(old) > 1 else new.capitalize() if old[0].isupper() else new

    return re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", one, text, flags=re.IGNORECASE)


def _steps(site: _Site) -> Iterator[Corruption]:
    lines = [n for n, line in site.prose(told=True) if _LIST_MARK.match(line) or _VERB.match(line)]
    for n in lines:
        shared = site.shared(site.lines[n])
        if len(shared & site.rare) >= MIN_SHARED:
            gone: dict[int, str | None] = {n: None}
            depth = len(site.lines[n]) - len(site.lines[n].lstrip())
            for after in range(n + 1, len(site.lines)):  # what belongs to the step goes with it
                line = site.lines[after]
                if not line.strip() or len(line) - len(line.lstrip()) <= depth:
                    break
                gone[after] = None
            yield Corruption("step-removed", " ".join(sorted(shared)), gone)


def _swapped(site: _Site, operator: str, table: Mapping[str, tuple[str, ...]]) -> Iterator[Corruption]:
    for word in sorted(site.said & set(table)):
        options = [w for w in table[word] if w not in site.said]
        if options:
            yield from site.everywhere(operator, word, site.rng.choice(options))


def _formats(site: _Site) -> Iterator[Corruption]:
    yield from _swapped(site, "format-changed", neighbours(FORMATS))


def _methods(site: _Site) -> Iterator[Corruption]:
    table = neighbours(METHODS)
    for n, line in site.prose():
        for match in _WORD.finditer(line):
            word = match[0].lower()
            options = [w for w in table.get(word, ()) if w not in site.said] if word in site.said else []
            if options and site.about(word, line, *match.span()):
                new = _replaced(match[0], match[0], site.rng.choice(options))
                yield Corruption("method-changed", word, {n: line[: match.start()] + new + line[match.end() :]})


def _tools(site: _Site) -> Iterator[Corruption]:
    table = neighbours(TOOLS)
    yield from _swapped(site, "tool-changed", table)
    written = {w.lower() for line in site.lines for w in _WORD.findall(line)}
    others = [w for w in site.foreign if w not in site.said and w not in written]
    for word in sorted(((set(map(str.lower, _PROPER.findall(site.request)))) & written) - set(table) - _COMMON):
        if others and word not in _ACRONYMS and _is_name(word, site.lines):
            yield from site.everywhere("tool-changed", word, site.rng.choice(others))


def _is_name(word: str, lines: Sequence[str]) -> bool:
    """Whether a skill writes the word as a name: in code, or never in small letters alone."""
    if not word.isalpha():
        return any(f"`{word}" in line.lower() for line in lines)
    return not any(re.search(rf"(?<![\w`./-]){re.escape(word)}(?![\w`/-])", line) for line in lines)


def _numbers(site: _Site) -> Iterator[Corruption]:
    for n, line in site.prose():
        mark = _LIST_MARK.match(line)
        start = mark.end() if mark else 0
        for match in _QUANTITY.finditer(line, start):
            value, end = match[1], match.end(1)
            if value in site.said and value not in ("0", "1") and site.about(value, line, *match.span()):
                new, upper = _other_number(value, site.rng), _RANGE.match(line, end)
                if upper and value.isdigit():  # a range stays one: both of its ends move
                    shift = int(new) - int(value) if int(new) > int(value) else int(upper[1]) - int(value) + 1
                    new = f"{int(value) + shift}{line[end : upper.start(1)]}{int(upper[1]) + shift}"
                    end = upper.end(1)
                yield Corruption("number-changed", value, {n: line[: match.start(1)] + new + line[end:]})


def _other_number(value: str, rng: random.Random) -> str:
    if _YEAR.fullmatch(value):
        return str(int(value) + rng.choice((-3, -2, 2, 3)))
    head, *rest = re.split(r"([.,:])", value)
    if rest and rest[0] in ".:" and len(rest) == 2:
        tail = int(rest[1])
        return f"{head}{rest[0]}{tail + rng.choice((1, 2, 3)) if tail < 90 else tail - 7}"
    number = int(head) if head.isdigit() else 0
    new = rng.choice([number * 2, number * 5, number + 3, max(1, number // 2)])
    return "".join([str(new if new != number else number + 1), *rest])


def _units(site: _Site) -> Iterator[Corruption]:
    asked = {(m[1], m[3].lower()) for m in _QUANTITY.finditer(site.request) if m[3]}
    for n, line in site.prose():
        for match in _QUANTITY.finditer(line):
            unit = (match[3] or "").lower()
            if (match[1], unit) in asked and unit in UNITS:
                changed = line[: match.start(3)] + site.rng.choice(UNITS[unit]) + line[match.end(3) :]
                yield Corruption("unit-changed", f"{match[1]} {unit}", {n: changed})


_AFFIRMED = {
    "must not": ("must", "may"), "should not": ("should", "may"), "do not": ("always", "feel free to"),
    "don't": ("always", "you may"), "does not": ("may", "does"), "doesn't": ("may", "will"), "cannot": ("can", "may"),
    "can't": ("can", "may"), "never": ("always", "freely"), "without": ("with", "including"),
    "avoid": ("prefer", "allow"),
    "no": ("some", "any"), "not": ("also", "even"),
}  # fmt: skip


def _negations(site: _Site) -> Iterator[Corruption]:
    clauses = re.split(r"(?<=[.!?;])\s+|\n|, ", site.request)
    denied = [set(_content(c)) for c in clauses if _REQUEST_DENIAL.search(c)]
    affirmed = [set(_content(c)) for c in clauses if not _REQUEST_DENIAL.search(c)]
    for n, line in site.prose(told=True):
        words, denial = set(_content(line)), _DENIAL.search(line)
        if denial and _NOT_ALL.match(line, denial.start()):
            continue
        shared = max((words & d for d in denied), key=len, default=set())
        if denial and len(shared) >= MIN_SHARED and _near(line, denial, shared):
            new = site.rng.choice(_AFFIRMED[denial[1].lower()])
            new = new.capitalize() if denial[1][0].isupper() else new
            changed = line[: denial.start()] + new + line[denial.end() :]
            yield Corruption("negation-flipped", " ".join(sorted(shared)), {n: changed})
            continue
        shared = max((words & a for a in affirmed), key=len, default=set())
        mark = _LIST_MARK.match(line)
        start = mark.end() if mark else 0
        if not denial and len(shared & site.rare) >= MIN_SHARED and _VERB.match(line[start:]):
            verb = line[start:].lstrip("*")
            said = site.rng.choice(("Never ", "Do not ", "Skip this: never "))
            changed = line[:start] + said + verb[0].lower() + verb[1:].replace("**", "", line[start:].startswith("**"))
            yield Corruption("negation-flipped", " ".join(sorted(shared)), {n: changed})


def _near(line: str, denial: re.Match[str], shared: set[str]) -> bool:
    """Whether what is denied is what the request speaks of: a shared word within a clause after the denial."""
    clause = re.split(r"[.;:!?]", line[denial.end() :], maxsplit=1)[0]
    return bool(set(_content(clause)) & shared)
