"""What an agent's own listing of skills shows, and whom it cuts without a word.

Every host prints the names and descriptions of all skills into each conversation, within a budget; past it,
descriptions are cut, then names stand alone, then skills vanish. The rules below are the hosts' documented or observed
ones, as data; a rule of another version differs by a number, not by code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from metier.text import CHARS_PER_TOKEN, count_tokens, one_line
from metier.types import Skill

WINDOW = 200_000
"""Tokens of context assumed where the agent's model is unknown."""
CARDS = 5
"""Cards that a route shows at most (methods 5.3)."""
CARD_LINE = 220
"""Characters of the one line on a card, as `disclose.CARD_WIDTH` has them."""


@dataclass(frozen=True, slots=True)
class Host:
    """How one host lists skills. `over` is what it does past its budget:

    usage    names always; descriptions granted to the most used until the budget is spent
    shorten  all descriptions shortened alike, then left out, then skills dropped from the end
    prefix   descriptions left out, then skills dropped from the end
    """

    name: str
    characters: int
    """The budget where no share of the window is known."""
    share: float | None
    """Share of the context window, in characters at four a token."""
    description: int | None
    """Characters of one description, at most."""
    count: int | None
    """Skills listed, at most."""
    frame: int
    """Characters of a line beside the name and the description."""
    over: Literal["usage", "shorten", "prefix"]
    variable: str = ""
    """Environment variable that sets the budget in characters."""


HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        # 1% of the window at four characters a token: 8,000 characters at 200k; "- name: description" a line.
        Host("claude-code", 8_000, 0.01, 1_536, None, 5, "usage", "SLASH_COMMAND_TOOL_CHAR_BUDGET"),
        # About 2% of the window, 8,000 characters where it is unknown. A line carries the file's path as well: 60
        # characters of it are our estimate, and so is the cap on one description (the standard's).
        Host("codex", 8_000, 0.02, 1_024, None, 60, "shorten"),
        # 150 skills and 18,000 characters. An entry is a few lines of markup with the file's path: 100 is our estimate.
        Host("openclaw", 18_000, None, None, 150, 100, "prefix"),
    )
}
"""By name. Hosts change these rules between versions; the budgets and counts are the ones they document."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What one host shows of a library, as skill ids: in `full`, `cut`, by name only (`bare`), or not (`dropped`)."""

    host: str
    budget: int
    full: tuple[str, ...]
    cut: tuple[str, ...]
    bare: tuple[str, ...]
    dropped: tuple[str, ...]
    unlisted: tuple[str, ...]
    """Skills that only a person may call: the host never lists them."""
    characters: int
    tokens: int
    wanted: int
    """Characters that everything would take."""
    routed: int
    """Tokens of the cards of one route, which stand in for the listing."""

    @property
    def saved(self) -> int:
        """Tokens a turn that routing saves against this listing; never below 0."""
        return max(self.tokens - self.routed, 0)

    def as_dict(self) -> dict[str, object]:
        """The listing as plain data."""
        return {
            "host": self.host, "budget": self.budget, "full": list(self.full), "cut": list(self.cut),
            "bare": list(self.bare), "dropped": list(self.dropped), "unlisted": list(self.unlisted),
            "characters": self.characters, "tokens": self.tokens, "wanted": self.wanted, "routed": self.routed,
            "saved": self.saved,
        }  # fmt: skip


def listing(
    skills: Sequence[Skill],
    host: Host,
    *,
    usage: Mapping[str, int] | None = None,
    window: int | None = None,
    characters: int | None = None,
) -> Listing:
    """What `host` shows of the skills. `usage` counts uses by skill id, `window` is the model's context in tokens,
    `characters` the budget that the host's variable sets."""
    listed = [skill for skill in skills if "manual-only" not in skill.flags]
    budget = characters if characters is not None else _budget(host, window)
    texts = {skill.id: " ".join(skill.description.split()) for skill in listed}
    capped = {key: text[: host.description] for key, text in texts.items()}
    names = {skill.id: len(skill.name) + host.frame for skill in listed}
    shown, dropped = _shown(listed, host, budget, names, capped, usage or {})
    lines = [f"- {skill.name}: {shown[skill.id]}" if shown.get(skill.id) else f"- {skill.name}"
             for skill in listed if skill.id in shown]  # fmt: skip
    return Listing(
        host=host.name,
        budget=budget,
        full=tuple(key for key, text in shown.items() if text == texts[key]),
        cut=tuple(key for key, text in shown.items() if text and text != texts[key]),
        bare=tuple(key for key, text in shown.items() if not text and texts[key]),
        dropped=dropped,
        unlisted=tuple(skill.id for skill in skills if "manual-only" in skill.flags),
        characters=sum(names[key] + len(text) for key, text in shown.items()),
        tokens=count_tokens("\n".join(lines)),
        wanted=sum(names[key] + len(text) for key, text in texts.items()),
        routed=_routed(listed),
    )


def _budget(host: Host, window: int | None) -> int:
    if host.share is None or (window is None and host.over == "shorten"):
        return host.characters
    return round((window or WINDOW) * CHARS_PER_TOKEN * host.share)


def _shown(
    listed: Sequence[Skill], host: Host, budget: int, names: Mapping[str, int], texts: Mapping[str, str],
    usage: Mapping[str, int],
) -> tuple[dict[str, str], tuple[str, ...]]:  # fmt: skip
    """(skill id → description shown, ids of the skills that are not listed at all)."""
    keys = [skill.id for skill in listed][: host.count]
    late = tuple(skill.id for skill in listed[len(keys) :])
    if sum(names[key] + len(texts[key]) for key in keys) <= budget:
        return {key: texts[key] for key in keys}, late
    if host.over == "usage":
        return _granted(keys, budget, names, texts, usage), late
    room = budget - sum(names[key] for key in keys)
    if host.over == "shorten" and room > 0:
        return _shortened(keys, room, texts), late
    kept: dict[str, str] = {}
    for key in keys:
        budget -= names[key]
        if budget < 0:
            break
        kept[key] = ""
    return kept, (*keys[len(kept) :], *late)


def _granted(
    keys: Sequence[str], budget: int, names: Mapping[str, int], texts: Mapping[str, str], usage: Mapping[str, int]
) -> dict[str, str]:
    room = budget - sum(names[key] for key in keys)
    granted: set[str] = set()
    for key in sorted(keys, key=lambda key: -usage.get(key, 0)):  # stable: equals in the order they are listed
        room -= len(texts[key])
        if room < 0:
            break
        granted.add(key)
    return {key: texts[key] if key in granted else "" for key in keys}


def _shortened(keys: Sequence[str], room: int, texts: Mapping[str, str]) -> dict[str, str]:
    """Every description cut at the one length that just fits; what short ones leave goes to the longer."""
    left, limit = room, 0
    for at, length in enumerate(sorted(len(texts[key]) for key in keys)):
        limit = left // (len(keys) - at)
        if length > limit:
            break
        left -= length
    return {key: texts[key][:limit] for key in keys}


def _routed(listed: Sequence[Skill]) -> int:
    """Tokens of as many average cards as a route shows."""
    if not listed:
        return 0
    step = max(1, len(listed) // 200)  # an average needs no more than a few hundred
    sample = listed[::step]
    tokens = sum(count_tokens(f"{skill.name}: {one_line(skill.description, CARD_LINE)}") for skill in sample)
    return round(tokens / len(sample) * min(CARDS, len(listed)))
