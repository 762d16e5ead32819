"""When no skill is relevant the answer is none, with the near miss and why (rule 1.13).

The best cosine alone does not tell small talk from short requests: at 12,610 skills half of written needless messages
reach what the lowest 2% of real requests reach (decision 0033). So an encoder that was fitted has a *judge*, a small
network beside a table of words,

    x      = [q, max_d cos(q, d), ln N, traits]
    needed = w · relu(A x + a) + Σ_{marks} g / √|marks| + e − cut(ln N)  ≥ 0

q tells what a message is about, the cosine whether something here fits it, N how high the best of N reaches by chance,
traits how it is written (length, a question, a file name …), marks which words and pairs of words it has.
Encoders without a judge have their profile's floor on the cosine, by library size; without either, nothing abstains.
"""

from __future__ import annotations

import itertools
import json
import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from metier.late import dataclass, pattern
from metier.types import Encoder

if TYPE_CHECKING:
    from metier.types import Vectors

READABLE_SHARE = 0.5
"""An encoder that knows less than this share of a request: its vector says nothing, the lexical channel decides."""
CLEAR = 0.75
"""A skill this near is an answer, whatever the message reads like: none without need comes so near (decision 0033)."""
WORDS_COUNTED = (12, 40)
"""Longer is no more a request than this: people also tell long stories that want nothing (decision 0033)."""
WORDS_MARKED = 40
"""Words of a message that the judge looks at one by one [ours]: what a request is shows in its beginning."""
CHARS_READ = 2_000
"""Characters in which signs of code and of a person are looked for [ours]."""
MARKS = 8_192
"""Buckets of the table of words; two words in one bucket share a weight, and the fit sees to it that few suffer."""
TRAITS = 9
JUDGES = Path(__file__).parent / "data" / "judges.json"
"""Fitted by benchmarks/abstain.py on training/needless*.jsonl and requests that do need a skill; by encoder."""

_ASKS = pattern(
    r"(?:what|what's|whats|who|whose|when|where|why|which|how|is|are|was|were|do|does|did|can|could|will|would|should"
    r"|am|has|have)\b"
)
_CODE = pattern(
    r"[/\\]\w+|\w\.(?:py|js|ts|csv|pdf|docx?|xlsx?|md|json|ya?ml|sql|go|rs|java|log|txt|html|css)\b"
    r"|`|\{|\}|==|\w_\w|[a-z][A-Z]"
)
_SELF = pattern(r"\b(?:i|i'm|my|me|we|our)\b")


def traits(text: str, counted: Sequence[str]) -> list[float]:
    """How a message is written, in `TRAITS` numbers: length twice, question, code, digits, brevity, I, you."""
    head, n = text.strip()[:CHARS_READ], len(counted)
    plain = head.lower()
    return [
        *(math.log1p(min(n, most)) for most in WORDS_COUNTED),
        float(text.rstrip().endswith("?")),
        float(_ASKS.match(plain) is not None),
        float(_CODE.search(head) is not None),
        sum(c.isdigit() for c in head) / max(1, len(head)),
        float(n <= 3),
        float(_SELF.search(plain) is not None),
        float("you" in counted or "your" in counted),
    ]


def marks(text: str, counted: Sequence[str]) -> list[int]:
    """Buckets of a message's words, pairs of words, its beginning and its end; never empty."""
    w, text = counted[:WORDS_MARKED], text.strip()
    found = [*w, *(f"{a} {b}" for a, b in itertools.pairwise(w)), f"E{text[-1:]}", f"P{int(text[:1].isupper())}"]
    if w:
        found += [f"^{w[0]}", "^" + " ".join(w[:2]), f"${w[-1]}"]
    return [crc32(mark.encode("utf-8", "surrogatepass")) % MARKS for mark in dict.fromkeys(found)]


@dataclass(frozen=True, slots=True)
class Judge:
    """One encoder's rule; positive means that a skill may be needed."""

    hidden: Vectors
    """(d + 2 + TRAITS, h): the network's first layer, over vector, cosine, ln N and traits."""
    offset: Vectors
    """(h,)"""
    out: Vectors
    """(h,)"""
    table: Vectors
    """(MARKS,): weight of each bucket."""
    bias: float
    cuts: tuple[tuple[int, float], ...] = ()
    """Library size → log-odds from which a message counts as a request."""

    def needed(self, query: Vectors, cosine: float, text: str, counted: Sequence[str], size: int) -> float:
        """Log-odds, above the cut, that a message with this vector, best cosine and words needs one of `size` skills.

        `counted` are the message's words (`text.words`).
        """
        x = np.array([*query, cosine, math.log(max(size, 1)), *traits(text, counted)], np.float32)
        said = marks(text, counted)
        odds = float(np.maximum(x @ self.hidden + self.offset, 0.0) @ self.out)
        odds += float(self.table[said].sum()) / math.sqrt(len(said)) + self.bias
        return odds - (floor_at(self.cuts, size) or 0.0)


@lru_cache(maxsize=4)
def judge_of(encoder: str | None, path: Path = JUDGES) -> Judge | None:
    """The judge fitted for the encoder of that identity (`vectors.identity`), or None."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    found = known.get(encoder)
    return None if found is None else _unpacked(found)


def packed(judge: Judge) -> dict[str, Any]:
    """The judge as JSON: a byte a weight, with a scale for each hidden unit's vector part, the traits in float16."""
    dim = len(judge.hidden) - 2 - TRAITS
    scale = np.abs(judge.hidden[:dim]).max(axis=0) / 127 + 1e-12
    spread = float(np.abs(judge.table).max()) / 127 + 1e-12
    return {
        "topic": _text(np.rint(judge.hidden[:dim] / scale).astype("<i1")),
        "scale": _text(scale.astype("<f4")),
        "rest": _text(judge.hidden[dim:].astype("<f4")),
        "offset": _text(judge.offset.astype("<f4")),
        "out": _text(judge.out.astype("<f4")),
        "table": _text(np.rint(judge.table / spread).astype("<i1")),
        "spread": spread,
        "bias": judge.bias,
        "cuts": [list(cut) for cut in judge.cuts],
    }


def _unpacked(found: Mapping[str, Any]) -> Judge:
    out, scale = _array(found["out"], "<f4"), _array(found["scale"], "<f4")
    topic = _array(found["topic"], "<i1").reshape(-1, len(out)) * scale
    hidden = np.concatenate([topic, _array(found["rest"], "<f4").reshape(-1, len(out))]).astype(np.float32)
    table = _array(found["table"], "<i1").astype(np.float32) * np.float32(found["spread"])
    cuts = tuple((int(size), float(cut)) for size, cut in found["cuts"])
    return Judge(hidden, _array(found["offset"], "<f4"), out, table, found["bias"], cuts)


def _text(values: Any) -> str:
    from base64 import b64encode

    return b64encode(values.tobytes()).decode("ascii")


def _array(text: str, kind: str) -> Any:
    return np.frombuffer(b64decode(text), kind)


def floor_at(floor: Sequence[tuple[int, float]], size: int) -> float | None:
    """The floor for a library of `size` skills, interpolated in log size; None when none was fitted."""
    if not floor:
        return None
    points = sorted(floor)
    if size <= points[0][0]:
        return points[0][1]
    for (n0, f0), (n1, f1) in itertools.pairwise(points):
        if size <= n1:
            return f0 + (f1 - f0) * (math.log(size) - math.log(n0)) / (math.log(n1) - math.log(n0))
    return points[-1][1]


def reads(encoder: Encoder | None, text: str) -> bool:
    """Whether the encoder knows at least half of the text's letters, where it can tell (its `readable`)."""
    share = getattr(encoder, "readable", None)
    return share is None or float(share(text)) >= READABLE_SHARE
