"""From a judged slate to the text an agent reads: a card, a body or a resource, under a stated token budget.

Progressive disclosure has three levels (methods 5.1): a *card* (name, one line, how to load it on this host), the
*body*, and a *resource* of the skill's folder. What the budget cannot hold is never cut in the middle: its card goes
out instead, and the evidence says so. Text from a skill is third-party content: it is fenced, with origin and digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import PurePath

from metier.errors import MetierError
from metier.hashing import sha256
from metier.late import dataclass, replace
from metier.text import count_tokens, one_line, printable, visible
from metier.types import Candidate, Evidence, Route, Skill, Slate

CARD_WIDTH = 220
"""Characters of description on a card: two lines of a terminal, about 55 tokens."""
RELEVANT = 0.35
"""Share of the best candidate's relevance below which a card would only distract (field report 5)."""
DIGEST_SHOWN = 12
"""Hex digits of a digest that people and agents see; 48 bits tell any two folders of a library apart."""

Seen = Mapping[tuple[str, str], str]
"""(skill id, digest) → the strongest of offered, loaded, used in this session."""


@dataclass(frozen=True, slots=True)
class Disclosed:
    """What goes out: the slate (with what disclosure found), the text, its tokens, and who is in it."""

    slate: Slate
    text: str = ""
    tokens: int = 0
    loaded: tuple[Skill, ...] = ()
    offered: tuple[Skill, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disclose:
    """Slate → text of at most `budget` tokens: at most `loads` bodies (`cover_loads` in a cover) and `cards` cards."""

    body: Callable[[Skill], str]
    """The skill's body as it is on disk now."""
    host: str = "generic"
    budget: int = 4000
    cards: int = 5
    loads: int = 1
    cover_loads: int = 3

    def __call__(self, slate: Slate, seen: Seen | None = None) -> Disclosed:
        """The text for one request. What `seen` already holds is not shown again (methods 5.6)."""
        known = seen or {}
        order = _cover_first(slate)
        plan = _Plan(self.budget - count_tokens(_heading(slate)))
        notes: dict[str, Evidence] = {}
        limit = self.cover_loads if len(slate.cover) > 1 else self.loads
        least = RELEVANT * max((_relevance(c) for c in order), default=0.0)
        for candidate in order:
            if candidate.verdict.level == "skip":
                continue
            skill = candidate.skill
            already = known.get((skill.id, skill.digest))
            wants_body = candidate.verdict.level == "load" and already not in ("loaded", "used")
            if wants_body and len(plan.bodies) < limit:
                why = self._load(candidate, slate.id, plan)
                if why is None:
                    continue
                notes[skill.id] = Evidence("disclose", 0.0, why)
            if already is not None:  # it keeps its place: the next request brings in nothing that fits less
                notes.setdefault(skill.id, Evidence("disclose", 0.0, f"already {already} in this session"))
                plan.places += 1
            elif _relevance(candidate) < least:
                notes.setdefault(skill.id, Evidence("disclose", 0.0, "no card: far less relevant than the best"))
            elif plan.places < self.cards:
                plan.card(skill, self.card(skill))
            else:
                plan.left += 1
        marked = tuple(c.found(notes[c.skill.id]) if c.skill.id in notes else c for c in slate.candidates)
        text = plan.text(_heading(slate))
        return Disclosed(
            slate=replace(slate, candidates=marked),
            text=text,
            tokens=count_tokens(text),
            loaded=tuple(plan.loaded),
            offered=tuple(plan.offered),
            warnings=tuple(plan.warnings),
        )

    def _load(self, candidate: Candidate, nonce: str, plan: _Plan) -> str | None:
        """None when the body is in the plan, else why it is not."""
        skill = candidate.skill
        try:
            block = fenced(skill, self.body(skill), nonce=nonce)
        except (MetierError, OSError) as error:
            plan.warnings.append(f"{skill.name}: its body could not be read ({error}); only its card is shown")
            return "body could not be read"
        if not plan.body(skill, block):
            return f"over budget: body has {skill.body_tokens} tokens, {max(plan.room, 0)} of {self.budget} were left"
        return None

    def card(self, skill: Skill) -> str:
        """Name, one line of description, and how to load the skill on this host."""
        line = one_line(skill.description, CARD_WIDTH) or "(no description)"
        return f"- {one_line(skill.name, 64)}: {line} [{how_to_load(skill, self.host)}]"


@dataclass(slots=True)
class _Plan:
    """What has been put into the text so far, and the tokens still free."""

    room: int
    bodies: list[str] = field(default_factory=list)
    cards: list[str] = field(default_factory=list)
    loaded: list[Skill] = field(default_factory=list)
    offered: list[Skill] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    places: int = 0
    """Cards shown now, and those shown before that still stand for themselves."""
    left: int = 0

    def body(self, skill: Skill, block: str) -> bool:
        if not self._fits(block):
            return False
        self.bodies.append(block)
        self.loaded.append(skill)
        return True

    def card(self, skill: Skill, line: str) -> None:
        self.places += 1
        if self._fits(line):
            self.cards.append(line)
            self.offered.append(skill)
        else:
            self.left += 1

    def _fits(self, piece: str) -> bool:
        cost = count_tokens(piece) + 1
        if cost > self.room - _CLOSING_TOKENS:
            return False
        self.room -= cost
        return True

    def text(self, heading: str) -> str:
        if not self.bodies and not self.cards:
            return ""
        parts = [heading, *self.bodies]
        if self.cards:
            parts.append("Available, not loaded:" if self.bodies else "Possibly relevant skills, none loaded:")
            parts.extend(self.cards)
        if self.left:
            parts.append(f"({self.left} more on the slate, not shown: limits of cards and tokens.)")
        return "\n".join(parts)


_CLOSING_TOKENS = 40
"""Kept free for the lines between the parts and the closing one."""


def _heading(slate: Slate) -> str:
    return f"[metier] Skills matched to this request, as information (route {slate.id})."


def _cover_first(slate: Slate) -> tuple[Candidate, ...]:
    """The slate's order with the members of its cover in front (methods 5.3); nothing is dropped."""
    members = set(slate.cover)
    return tuple(sorted(slate.candidates, key=lambda c: c.skill.id not in members))


def _relevance(candidate: Candidate) -> float:
    """What the first stage said of it, 0..1; 1 where it could not say."""
    return min((float(e.detail["relevance"]) for e in candidate.evidence if "relevance" in e.detail), default=1.0)


def how_to_load(skill: Skill, host: str) -> str:
    """How an agent on `host` gets the body: its own skill tool where it knows the skill, else a call or a path."""
    if host == "mcp":
        return f"load_skill({json.dumps(skill.id, ensure_ascii=False)})"
    if (
        host == "claude-code"
        and skill.scope in ("project", "user", "plugin")
        and ".claude" in PurePath(skill.root).parts
    ):
        return f"Skill tool: {one_line(skill.name, 64)}"
    address = skill.addresses[0] if skill.addresses else ""
    if host in ("generic", "cli") or "#" in address or visible(address) != address or not address:
        return f"metier show {_word(skill.id)}"
    return f"read {address}/SKILL.md"


def _word(text: str) -> str:
    """The text as one word of a shell, always quoted: folders are named by strangers, and agents run what they read."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def fenced(skill: Skill, text: str, *, nonce: str, what: str = "SKILL.md") -> str:
    """The text between two lines that its author cannot have forged, labelled with origin and digest (methods 5.5).

    The mark depends on `nonce` (the route's id, unknown when the skill was written). Terminal escapes and invisible
    reordering characters are removed: they could hide text from a person who reads along.
    """
    mark = sha256(f"{nonce}\0{skill.id}\0{skill.digest}".encode("utf-8", "replace")).hexdigest()[:8]
    origin = f"third-party text from {visible(skill.id)} · sha256 {skill.digest[:DIGEST_SHOWN]}"
    label = f"{one_line(skill.name, 64)} · {visible(what)} · {origin}"
    where = visible(skill.addresses[0]) if skill.addresses and "#" not in skill.addresses[0] else None
    folder = f"\nFiles it mentions are relative to: {where}" if where and what == "SKILL.md" else ""
    return f"<<<skill {mark} · {label}{folder}\n{printable(text).strip()}\n{mark} end of skill>>>"


def within(text: str, budget: int | None, *, name: str) -> str:
    """`text` if it costs at most `budget` tokens, else a line that says what it costs: nothing is cut (methods 5.2)."""
    cost = count_tokens(text)
    if budget is None or cost <= budget:
        return text
    return f"{name}: {cost} tokens, over the budget of {budget}; raise the budget to see it whole."


def summary(route: Route) -> str:
    """One line for people: what was loaded, offered or withheld."""
    levels = [c.verdict.level for c in route.slate.candidates]
    return " · ".join(f"{levels.count(level)} {level}" for level in ("load", "offer", "skip") if level in levels)
