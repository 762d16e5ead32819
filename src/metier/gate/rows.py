"""What may become a row of the bank: one check and one identity, for appends and for every import format.

A task is known by a name and, where it may be kept, its text; a bundle of skills by its sorted ids. A row's key says
when two rows are the same row, so that importing twice changes nothing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from metier.errors import BankError
from metier.late import dataclass, pattern
from metier.text import fingerprint
from metier.types import Arm, Origin, Outcome

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LARGEST = 2**53
"""Whole numbers from here on are no counts of anything, and neither SQLite nor JSON's readers keep them."""
_OPAQUE = pattern(r"(?:id|sha256|route):\S+\Z")  # a name, a hash of the text, a route without its text
_NAME_LENGTH = 16  # hex digits of a text's fingerprint that name it: 64 bits, no collision below billions of tasks
COUNTED = "origin <> 'agent'"
"""SQL: rows that may count (rule 3.14)."""


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome on its way into the bank, with what only some sources know."""

    outcome: Outcome
    name: str | None = None
    """The source's own id of the task."""
    gain: float | None = None
    """A paired difference whose two arms are not known apart; then `outcome.success` is None."""
    key: str | None = None
    vector: ArrayLike | None = None
    """The task's embedding under `encoder`, as the source gave it."""
    encoder: str = ""


def opaque(name: str) -> str:
    """How `Outcome.task` names a task whose text may not be kept; it is never embedded as if it were text."""
    return "id:" + "".join(name.split())


def bundle(values: Sequence[str]) -> str:
    """One string for the ids (or digests) of one skill, of several used together, or of none."""
    if not values:
        return ""
    if len(values) == 1 and not values[0].startswith("["):
        return values[0]
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def members(stored: str) -> tuple[str, ...]:
    """The ids (or digests) that `bundle` put together."""
    if stored.startswith("["):
        return tuple(json.loads(stored))
    return (stored,) if stored else ()


def ordered(outcome: Outcome) -> Outcome:
    """The same outcome with its skills sorted, each beside its digest."""
    if len(outcome.skills) < 2:
        return outcome
    pairs = sorted(zip(outcome.skills, outcome.digests, strict=True))
    return replace(outcome, skills=tuple(s for s, _ in pairs), digests=tuple(d for _, d in pairs))


def task_of(row: Row) -> tuple[str, str, str | None]:
    """(key, name, text) of the row's task."""
    given = row.outcome.task
    text = None if _OPAQUE.match(given) else given
    if row.name is not None:
        name = row.name
    else:
        name = given.removeprefix("id:") if text is None else fingerprint(given)[:_NAME_LENGTH]
    # Without a name of its own a text is known by the text alone, so that every source pairs with every other.
    return (fingerprint(name, text or "") if row.name is not None or text is None else fingerprint(given)), name, text


def row_key(row: Row) -> str:
    """The given key; else the route's, so that recording twice is recording once; else a fresh one."""
    if row.key is not None:
        return row.key
    return content_key(row) if row.outcome.route is not None else os.urandom(16).hex()


def content_key(row: Row, *parts: str) -> str:
    """The same for two rows that say the same thing about the same run."""
    o = ordered(row.outcome)
    told = (task_of(row)[0], bundle(o.skills), bundle(o.digests), o.stack, o.arm, repr(o.success), repr(row.gain))
    return fingerprint(*told, repr(o.tokens), str(o.repeat), o.origin, o.route or "", *parts)


def check(row: Row) -> None:
    """Raises `BankError`, naming the value and the remedy, unless the row can be kept (rule 3.2)."""
    o = row.outcome
    where = f"outcome of task {o.task[:60]!r}"
    if not o.task.strip():
        raise BankError(f"{where}: the task is empty; give its text, or an id")
    if not o.stack.strip():
        raise BankError(f"{where}: the stack is empty; name the agent, model and settings that ran it")
    if o.arm not in get_args(Arm):
        raise BankError(f"{where}: arm is {o.arm!r}; use 'use' or 'skip'")
    if o.origin not in get_args(Origin):
        raise BankError(f"{where}: origin is {o.origin!r}; use one of {', '.join(get_args(Origin))}")
    if not o.skills and (o.arm == "use" or row.gain is not None):
        raise BankError(f"{where}: no skill is named; name the skill that was used")
    if len(o.skills) != len(o.digests):
        raise BankError(f"{where}: {len(o.skills)} skills but {len(o.digests)} digests; give one for each")
    if len(set(o.skills)) != len(o.skills) or "" in o.skills:
        raise BankError(f"{where}: skills are {list(o.skills)!r}; name each skill once")
    for name, value, low, high in (
        ("success", o.success, 0.0, 1.0),
        ("gain", row.gain, -1.0, 1.0),
        ("tokens", o.tokens, 0.0, math.inf),
        ("propensity", o.propensity, 0.0, 1.0),
    ):
        if value is not None and not (_number(value) and low <= value <= high):
            raise BankError(f"{where}: {name} is {value!r}; it lies between {low:g} and {high:g}")
    if o.propensity == 0:
        raise BankError(f"{where}: propensity is 0; an arm that was taken had some probability")
    if row.gain is not None and o.success is not None:
        raise BankError(f"{where}: both a gain and a success are given; a paired difference has no arm of its own")
    if isinstance(o.repeat, bool) or not isinstance(o.repeat, int) or o.repeat < 0:
        raise BankError(f"{where}: repeat is {o.repeat!r}; repeats are counted from 0")
    if not (_number(o.at) and o.at >= 0):
        raise BankError(f"{where}: at is {o.at!r}; give seconds since 1970")


def _number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) < LARGEST if isinstance(value, int) else math.isfinite(value)
