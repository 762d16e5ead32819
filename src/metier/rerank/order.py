"""What comes before what, as a text says it: "validate before you deploy", "report first, edits afterwards".

    (A, B): the terms of A come first      A before B · B after A · A first, then B · first A, then B · before B, A
                                           once A is done, B · A; after that B · never A before B is (B, A)

Only the words around the marker are read, so a sentence costs no more than its length.
"""

from __future__ import annotations

from functools import lru_cache

from metier.late import pattern
from metier.rerank.terms import code, terms

Order = tuple[frozenset[int], frozenset[int]]
"""Terms of what comes first, and of what comes after it; an empty side is not named."""

WINDOW = 60
"""Characters to either side of a marker in which its two things are named [ours]."""

_CLAUSE = pattern(r"[.;:!?,|]\s|\s[-–—]+\s|—|\sand\s")
_MARK = pattern(
    r"\b(before|precedes?|prior to|ahead of|until|after|follows|(?<!at )once|"
    r"when (?=[^,.;]{3,60} (?:is|are|has|have) )|"
    r"first(?=\W*(?:$|[,.;:)*—–-]|then\b|and\b))|(?<!the )first(?= [^,.;:]{3,60}, (?:and )?then )|"
    r"afterwards?|later|at the (?:very )?end|finally|in the end)\b",
)
_EARLY = ("before", "precede", "precedes", "prior to", "ahead of", "until")
_LATE = ("after", "follows", "once")
_BACK = pattern(r"(?:that|this|which)\b[ ,]*")
"""After it "after" speaks of the clause before: "build the image, and after that push it"."""
_OTHERWISE = pattern(r"\b(?:look(?:s|ed|ing)?|tak(?:e|es|ing)|named?|called)$")
"""Before it "after" orders nothing: "look after the plants"."""
_DENIED = pattern(r"\b(?:no|not|never|nothing|don[’']?t|cannot)\b(?! (?:only|forget|fail|hesitate|just)\b)")
_LEAN = ("only", "just", "right", "immediately", "directly", "shortly", "always", "even", "and", "then", "but", "so")
"""Words between a clause's beginning and its marker that name nothing."""


@lru_cache(maxsize=1 << 12)
def orders(text: str) -> tuple[Order, ...]:
    """The orders that a text states, in its order; empty where it states none."""
    low = text.lower()
    found: list[Order] = []
    for mark in _MARK.finditer(low):
        word = mark[1].strip()
        left, here, right, opens = _around(low, mark.start(), mark.end())
        back = _BACK.match(right[0]) if word == "after" else None
        if word == "after" and _OTHERWISE.search(here):
            continue
        if back and not (here and right[0][back.end() :]):  # with words on both sides it is "after this check"
            pair = _codes(left), _codes(here or right[0][back.end() :] or right[1])
        elif word in _EARLY or word in _LATE or word.startswith("when"):
            other = _codes(right[1]) if opens and right[1] else _codes(here or left)
            named = _codes(right[0])
            denied = len(_DENIED.findall(here or left)) % 2 == 1  # "no reading until the design stands"
            if denied and word not in (*_EARLY, "after", "follows"):
                continue
            pair = (other, named) if (word in _EARLY) != denied else (named, other)
        elif word == "first":  # "report first", "first the report": what shares its clause
            then = right[1].removeprefix("and ")
            follows = then if then.startswith(("then", "afterwards", "after that")) else ""
            pair = _codes(f"{here} {right[0]}"), _codes(follows)
        else:  # "… afterwards": the clause before came first
            pair = _codes(left), _codes(f"{here} {right[0]}")
        both = pair[0] & pair[1]
        if (pair[0] or pair[1]) - both:
            found.append((pair[0] - both, pair[1] - both))
    return tuple(found)


def _around(text: str, start: int, end: int) -> tuple[str, str, tuple[str, str], bool]:
    """(the clause before, this one up to the mark, (this one after it, the next one), whether the mark opens all)."""
    ahead = text[max(0, start - 2 * WINDOW) : start]
    before = _CLAUSE.split(ahead)
    after = _CLAUSE.split(text[end : end + 2 * WINDOW])
    left = before[-2][-WINDOW:].strip() if len(before) > 1 else ""
    right = after[1][:WINDOW].strip() if len(after) > 1 else ""
    here = before[-1][-WINDOW:].strip(" *_`-")
    here = "" if here in _LEAN else here
    opens = not here and not ahead.rstrip(" *_`-").endswith((",", ")"))
    return left, here, (after[0][:WINDOW].strip(), right), opens


def _codes(text: str) -> frozenset[int]:
    return frozenset(code(key) for key, _, _ in terms(text))


def compared(wanted: tuple[Order, ...], said: tuple[Order, ...]) -> int:
    """1 where a text states an order that is wanted, −1 where it states the opposite of one, 0 otherwise."""
    for enough in (2, 1):  # orders that share both sides decide before those that share the one that is named
        same = any(_shared(w, s) >= enough for w in wanted for s in said)
        against = any(_shared(w, (s[1], s[0])) >= enough for w in wanted for s in said)
        if same != against:
            return 1 if same else -1
    return 0


def _shared(one: Order, other: Order) -> int:
    """Sides that are about the same; 0 where a side that both name is about something else."""
    hits = [bool(a & b) for a, b in zip(one, other, strict=True)]
    named = [bool(a and b) for a, b in zip(one, other, strict=True)]
    return sum(hits) if hits == named else 0
