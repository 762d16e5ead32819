"""Text → terms: stemmed content words, quantities with their unit, formats under one name, each affirmed or denied.

Two texts speak of the same thing when they share terms; they clash when they share a subject and differ in a
quantity, a format, a tool, or in whether it is denied. All patterns here are linear, so hostile text costs no more
than plain text of its length.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

from metier.late import pattern
from metier.text import words as script_words


def listed(text: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(text.split())


UNITS: dict[str, tuple[str, float]] = {
    # unit → (dimension, factor to its base). Decimal bytes: skills and requests rarely mean 1,024.
    "b": ("byte", 1), "byte": ("byte", 1), "bytes": ("byte", 1), "kb": ("byte", 1e3), "kib": ("byte", 1e3),
    "kilobytes": ("byte", 1e3), "mb": ("byte", 1e6), "mib": ("byte", 1e6), "megabyte": ("byte", 1e6),
    "megabytes": ("byte", 1e6), "gb": ("byte", 1e9), "gib": ("byte", 1e9), "gigabytes": ("byte", 1e9),
    "tb": ("byte", 1e12), "terabytes": ("byte", 1e12),
    "ns": ("second", 1e-9), "us": ("second", 1e-6), "µs": ("second", 1e-6), "ms": ("second", 1e-3),
    "millisecond": ("second", 1e-3), "milliseconds": ("second", 1e-3), "s": ("second", 1), "sec": ("second", 1),
    "secs": ("second", 1), "second": ("second", 1), "seconds": ("second", 1), "min": ("second", 60),
    "mins": ("second", 60), "minute": ("second", 60), "minutes": ("second", 60), "h": ("second", 3600),
    "hr": ("second", 3600), "hrs": ("second", 3600), "hour": ("second", 3600), "hours": ("second", 3600),
    "day": ("second", 86400), "days": ("second", 86400), "week": ("second", 604800), "weeks": ("second", 604800),
    "month": ("month", 1), "months": ("month", 1), "year": ("month", 12), "years": ("month", 12),
    "mm": ("metre", 1e-3), "cm": ("metre", 1e-2), "m": ("metre", 1), "km": ("metre", 1e3), "meters": ("metre", 1),
    "metres": ("metre", 1), "meter": ("metre", 1), "metre": ("metre", 1), "inch": ("metre", 0.0254),
    "inches": ("metre", 0.0254), "ft": ("metre", 0.3048), "feet": ("metre", 0.3048), "nm": ("metre", 1e-9),
    "µm": ("metre", 1e-6), "mg": ("gram", 1e-3), "g": ("gram", 1), "kg": ("gram", 1e3), "lb": ("gram", 453.592),
    "lbs": ("gram", 453.592), "hz": ("hertz", 1), "khz": ("hertz", 1e3), "mhz": ("hertz", 1e6),
    "ghz": ("hertz", 1e9), "px": ("pixel", 1), "pixel": ("pixel", 1), "pixels": ("pixel", 1), "pt": ("point", 1),
    "points": ("point", 1), "em": ("em", 1), "rem": ("rem", 1), "dpi": ("dpi", 1), "fps": ("fps", 1),
    "db": ("decibel", 1), "v": ("volt", 1), "mv": ("volt", 1e-3), "w": ("watt", 1), "kw": ("watt", 1e3),
    "ma": ("ampere", 1e-3), "k": ("count", 1e3), "words": ("word", 1), "word": ("word", 1),
    "chars": ("character", 1), "characters": ("character", 1), "character": ("character", 1),
    "tokens": ("token", 1), "token": ("token", 1), "lines": ("line", 1), "line": ("line", 1),
    "pages": ("page", 1), "page": ("page", 1), "usd": ("usd", 1), "eur": ("eur", 1), "euro": ("eur", 1),
    "euros": ("eur", 1), "dollars": ("usd", 1), "percent": ("%", 1), "%": ("%", 1), "°c": ("°c", 1), "°f": ("°f", 1),
}  # fmt: skip
"""What is not in here stays a bare number next to a word, which is compared as well."""

NUMBER_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "hundred": 100, "thousand": 1000, "twice": 2, "zero": 0, "single": 1,
}  # fmt: skip
"""`one` is left out: it is a pronoun far more often than a number."""

SAME = {
    # Names of one format or tool. Left: how it is written; right: the term it becomes.
    "word": "docx", "excel": "xlsx", "xls": "xlsx", "powerpoint": "pptx", "ppt": "pptx", "markdown": "md",
    "yml": "yaml", "jpg": "jpeg", "javascript": "js", "typescript": "ts", "tsx": "ts", "jsx": "js", "py": "python",
    "python3": "python", "postgres": "postgresql", "psql": "postgresql", "k8s": "kubernetes", "golang": "go",
    "htm": "html", "tif": "tiff", "gh": "github", "gha": "github", "repo": "repository", "repos": "repository",
    "dir": "directory", "dirs": "directory", "folder": "directory", "folders": "directory", "doc": "docx",
    "config": "configuration", "env": "environment", "dev": "development", "prod": "production", "db": "database",
    "auth": "authentication", "docs": "documentation", "deps": "dependency", "dependencies": "dependency",
    "library": "dependency", "libraries": "dependency", "lib": "dependency", "params": "parameter",
    "picture": "image", "pictures": "image", "photo": "image", "photos": "image", "ci": "ci", "os": "os",
    "spreadsheet": "xlsx", "spreadsheets": "xlsx", "slides": "pptx", "slide": "pptx", "bug": "bug", "pr": "pullrequest",
    "prs": "pullrequest", "mr": "pullrequest", "email": "mail", "emails": "mail", "e-mail": "mail",
    "edit": "change", "edits": "change", "edited": "change", "editing": "change", "mutate": "change",
    "mutates": "change", "mutating": "change", "ask": "approval", "asks": "approval", "asked": "approval",
    "asking": "approval", "confirm": "approval", "confirms": "approval", "confirmed": "approval",
    "confirming": "approval", "confirmation": "approval", "approve": "approval", "approves": "approval",
    "approved": "approval", "permission": "approval", "consent": "approval",
    "overwrite": "change", "overwrites": "change", "overwriting": "change", "overwritten": "change",
    "modify": "change", "modifies": "change", "modified": "change", "modifying": "change", "alter": "change",
    "alters": "change", "altered": "change", "altering": "change", "rewrite": "change", "rewrites": "change",
    "rewriting": "change", "rewritten": "change", "touch": "change", "touched": "change", "touches": "change",
    "touching": "change", "erase": "delete", "erased": "delete", "wipe": "delete", "wiped": "delete",
}  # fmt: skip

STOP = listed(
    """a about above after again all also always am an and any anyone anything are as at be because been before
    being below between both but by can can't could did do does doing done down during each either else ensure etc
    even ever every everyone everything few first for from further get gets getting give gives go goes going good got
    had has have having he help her here hers him his how i i'd i'll i'm i've if in into is isn't it it's its itself
    just keep know last let lets like lot made make makes making many may maybe me might mine more most much must my
    need needed needs next now of off ok on once one ones only or other our ours out over own per please put quite
    really run said same say see she should since so some someone something somewhere soon still such sure take than
    that that's the their them themselves then there these they they're thing things this those through to too try
    two-way under until up upon us use used user uses using very via want wanted wants was way we we'd we'll we're
    we've well were what what's when where whether which while who whole whose why will wish with within would yet you
    your yours yourself able according across add along already although among another around available based become
    best better case cases come common commonly consider create current currently describe detail details different
    easily easy end especially example examples exist existing fine follow following follows full general generally
    given handle have including include includes instead kind later least less level long look looks main mean means
    more multiple new nice often order overall own part particular perform possible provide provided provides quick
    quickly rather ready related relevant right section set several show similar simple simply specific start step
    steps support supports tell thank thanks type types usually various ideally preferably rule rules skill skills
    task tasks work works working e.g i.e eg ie vs hi hey hello dear today"""
)
"""Words that carry no requirement of their own; negations are read before this list is."""

OPPOSITE = {
    # Words that deny another one: "leave it untouched" is "do not change it".
    "untouched": "change", "unchanged": "change", "intact": "change", "unmodified": "change", "unaltered": "change",
    "preserve": "change", "preserves": "change", "preserved": "change", "preserving": "change", "unsigned": "sign",
    "undeleted": "delete", "unencrypted": "encrypt", "uncompressed": "compress", "unformatted": "format",
    "unlimited": "limit", "unsorted": "sort", "untracked": "track", "unversioned": "version",
}  # fmt: skip

DENY = listed(
    """not no never without don't dont doesn't didn't won't can't cannot shouldn't mustn't isn't aren't wasn't nor none
    nobody nothing neither avoid avoids avoiding skip skips skipping skipped omit omits omitting exclude excludes
    excluded excluding forbid forbids forbidden prohibit prohibited prevent prevents refuse refuses refrain except
    disallow disallowed disable disables disabled disabling ban banned lacks lacking unsupported nicht kein keine
    keinen ohne nie sans jamais pas sin nunca sem senza niente geen niet zonder"""
)
"""What denies the words after it, up to the clause's end; two of them cancel ("never skip the tests")."""
_PAIRS = {("instead", "of"), ("rather", "than"), ("opt", "out"), ("turn", "off"), ("turned", "off"), ("turning", "off"),
          ("free", "of"), ("leave", "out"), ("leaving", "out"), ("kept", "out"), ("stay", "away"), ("ruled", "out"),
          ("no", "longer")}  # fmt: skip
AFFIRM_AFTER = listed("only forget fail hesitate just necessarily more less fewer later longer exceed")
"""After a negation these take it back: "not only", "don't forget", "no more than"."""
_CLAUSE_END = listed("but however though unless then so otherwise")

_TOKEN = pattern(
    r"(?P<num>[$€£]?\d+(?:[.,:]\d+)*(?:x(?![a-z]))?)\s?(?P<unit>%|°[CFcf]\b|[A-Za-zµ]{1,12}\b)?"
    r"|(?P<word>[^\W\d_](?:[^\W_]|['’+#](?=[^\W_])|(?<=[cCfFjJ])[#+]+)*)"
    r"|(?P<end>[;:!?,()\n|—–•]|\.(?=\s|$))"
)
_AS_IS = pattern(
    r"\s(?:just |exactly )?as (?:it|they|he|she) (?:is|are|was|were)\b|\sas is\b|(?<![\w/-])[Rr]ead-?only\b"
)
_LEFT_OUT = pattern(r"\b(?:left|kept|ruled) out\b")
_CAMEL = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
MAX_TERMS = 120
"""Terms kept of one phrase; a longer one is a pasted blob, and its head says what it is."""


Term = tuple[str, bool, str]
"""One term in its place: its key, whether it is denied, and how it was written."""


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The word under its shared name and without common English endings; short words stay as they are."""
    word = SAME.get(word, word)
    n = len(word)
    if n > 4 and word.endswith("ies"):
        return word[:-3] + "i"
    if n > 5 and word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif n > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    word = SAME.get(word, word)
    for ending in ("ization", "isation", "ations", "ation", "ements", "ement", "ingly", "ing", "edly", "ed", "ion",
                   "ment", "ally", "ly", "al", "er", "or", "e"):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 4 and word.endswith("y") else word


def number(text: str) -> str:
    """A number in one spelling: no thousands separators, no trailing zeros of a decimal; versions stay as they are."""
    text = text.lstrip("$€£").rstrip("x")
    if ":" in text:
        return text
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    text = text.replace(",", ".")
    if text.count(".") == 1:
        whole, decimals = text.split(".")
        return f"{int(whole)}.{decimals}" if decimals.strip("0") else str(int(whole))
    return str(int(text)) if text.isdigit() and len(text) < 19 else text


def quantity(value: str, unit: str) -> str | None:
    """`#value|dimension` in the dimension's base unit, or None where the word is no unit."""
    known = UNITS.get(unit) or UNITS.get(unit.lower())
    if known is None:
        return None
    dimension, factor = known
    try:
        return f"#{float(value) * factor:.6g}|{dimension}"
    except ValueError:
        return f"#{value}|{dimension}"


_PLAIN, _DENIES, _ENDS, _JOINS, _ACTS, _OPPOSES, _NEXT = range(7)
_JOIN = frozenset(("and", "or", "nor", "und", "et", "y"))
_NOTHING = frozenset(("nothing", "nichts", "rien", "nada", "niente", "niets"))
_CANCELS = listed("without skip skips skipping omit omits omitting avoid exclude forget")
"""A second denial by one of these takes the first one back wherever it stands: "do not run it without tests"."""
_BE = frozenset(("is", "are", "was", "were", "be"))
_MODALS = frozenset(("must", "should", "may", "can", "shall", "will", "need", "needs"))
_PREFIX = "non"
"""Denies the one word after it: "non-root users" are users."""
_ACT = frozenset(("use", "using", "do", "make", "keep", "for", "when", "if", "during", "while", "because", "since"))


@lru_cache(maxsize=1 << 16)
def _entry(surface: str) -> tuple[int, str, tuple[str, ...]]:
    """(what the word does, the word in lower case, the keys it adds)."""
    word = surface.lower().replace("’", "'")
    if word in DENY or word.endswith("n't"):
        return _DENIES, word, ()
    if word == _PREFIX:
        return _NEXT, word, ()
    if word in _CLAUSE_END:
        return _ENDS, word, ()
    if word in _JOIN:
        return _JOINS, word, ()
    if word in _ACT:
        return _ACTS, word, ()
    if word in OPPOSITE:
        return _OPPOSES, word, (stem(OPPOSITE[word]),)
    if word.endswith("'s"):
        word = word[:-2]
    if word in NUMBER_WORDS:
        return _PLAIN, word, (f"#{NUMBER_WORDS[word]}",)
    if not word.isascii():
        return _PLAIN, word, tuple(stem(w) for w in script_words(word) if w not in STOP)
    if word in STOP or (len(word) == 1 and not surface.isupper()):
        return _PLAIN, word, ()
    keys = [stem(word)]
    if len(surface) > 5 and not surface.islower() and not surface.isupper():
        parts = _CAMEL.split(surface)
        if len(parts) > 1:
            keys += [stem(p.lower()) for p in parts if p.lower() not in STOP]
    return _PLAIN, word, tuple(keys)


def terms(text: str, limit: int = MAX_TERMS) -> list[Term]:
    """The terms of a phrase in order (at most about `limit`), each marked as denied or not."""
    if " as " in text or "ead-only" in text or "eadonly" in text:
        text = _AS_IS.sub(" unchanged", text)
    if " out" in text:
        text = _LEFT_OUT.sub("excluded", text)
    if "nd-to-end" in text:
        text = text.replace("end-to-end", "E2E").replace("End-to-end", "E2E")
    found: list[Term] = []
    denied, before, since, turned = False, "", 0, False
    start, passive = 0, False
    for number_, unit, surface, end in _TOKEN.findall(text):
        if surface:
            act, word, keys = _entry(surface)
            if act == _PLAIN and not ((before, word) in _PAIRS or (before in DENY and word in AFFIRM_AFTER)):
                for key in keys:
                    found.append((key, denied != turned, surface))
                turned = False
                if passive and word == "be":  # "secrets must never be committed" is "never commit secrets"
                    found[start:] = [(k, True, s) for k, _, s in found[start:]]
                passive = False
            elif act == _JOINS:
                if before not in DENY:
                    before = word
                continue
            elif act == _OPPOSES:
                found += [(key, not denied, surface) for key in keys]
            elif act == _ENDS:
                denied, start = False, len(found)
            elif act == _NEXT:
                turned = True
            elif act == _ACTS:  # "rather than YAML use JSON": a new verb after denied terms begins anew
                denied = denied and (before in DENY or len(found) == since)
            elif word in _NOTHING and found and found[-1][2].lower() == before:
                found[-1] = (found[-1][0], True, found[-1][2])  # "write nothing", "change nothing"
            else:  # a negation, or the second half of one: two cancel when they meet ("never skip", "not … without")
                if before in _BE:
                    found[start:] = [(k, True, s) for k, _, s in found[start:]]
                passive = before in _MODALS
                again = before in _JOIN or (denied and len(found) > since and word not in _CANCELS)
                denied, since = again or not denied, len(found)
            before = word
        elif end:
            denied, before, start = False, "", len(found)
        elif number_:
            found += _quantities(number_, unit)
            before = ""
        if len(found) >= limit:
            break
    return found


@lru_cache(maxsize=1 << 14)
def _keys(digits: str, unit: str) -> tuple[str, ...]:
    value = number(digits)
    if digits[0] in "$€£":
        return f"#{value}", f"#{value}|money"
    if not unit:
        return (f"#{value}",)
    whole = quantity(value, unit)
    if whole is not None:
        return f"#{value}", whole
    _, _, keys = _entry(unit)
    return (f"#{value}", *keys)


def _quantities(digits: str, unit: str) -> list[Term]:
    """A quantity is never denied: "must not exceed 5 MB" and "nobody within 24 hours" state their number too."""
    return [(key, False, f"{digits} {unit}".strip()) for key in _keys(digits, unit)]


@lru_cache(maxsize=1 << 17)
def code(key: str) -> int:
    """31 bits of CRC-32, shifted left: the lowest bit is free for the denial. Stable, so that it can be stored."""
    return (zlib.crc32(key.encode("utf-8", "surrogatepass")) << 1) & 0xFFFFFFFF


def codes(found: list[Term]) -> list[int]:
    """Distinct codes of terms, sorted; the lowest bit says denied."""
    return sorted({code(key) | denied for key, denied, _ in found})
