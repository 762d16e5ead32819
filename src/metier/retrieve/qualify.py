"""Whether a language model may be used for expansion: measured on this library before it is (SkillRep, rule 1.3a).

With labelled requests: does the gold move up when hypothetical skills are mixed in? Without labels the model's own
requests are the labels: is a skill found again from the requests written for it, and do hypothetical skills written for
those requests bring it further up? A model that does not help is off. A 135M model took dense retrieval from 68 to 51.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from metier.retrieve.expand import prompt_digest
from metier.store import Store

if TYPE_CHECKING:
    from metier.types import Vectors

SAMPLE = 40
"""Skills tried: 80 requests, which tell 10 points of MRR@10 apart from none."""
FOUND_AGAIN = 0.5
"""MRR@10 that requests must reach on their own skill among all: on average second place or better."""
STANDARD_ERRORS = 1.0
"""By how many standard errors hypothetical skills must help: five in six useless models fail, few useful ones do."""
ROUNDING = 1e-9
CUTOFF = 10

Kind = Literal["requests", "skills"]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one kind of expansion; MRR@10 as fractions."""

    kind: Kind
    passed: bool
    n: int
    before: float
    after: float
    error: float
    """Standard error of the difference (or of `after`, where there is no before)."""
    why: str


def reciprocal_ranks(queries: Vectors, documents: Vectors, gold: Sequence[int]) -> Values:
    """1/rank of the gold row within the first ten of each query, else 0; ties count against it."""
    scores = queries @ documents.T
    own = scores[np.arange(len(gold)), list(gold)]
    ranks = (scores >= own[:, None]).sum(axis=1)
    return np.where(ranks <= CUTOFF, 1.0 / ranks, 0.0)


def judge_requests(found: Values) -> Verdict:
    """On reciprocal ranks of skills for the requests written for them."""
    mean, error = _mean(found)
    passed = len(found) > 0 and mean >= FOUND_AGAIN
    why = f"its requests lead back to their skill with MRR@10 {mean:.2f} (at least {FOUND_AGAIN:g} is needed)"
    return Verdict("requests", passed, len(found), 0.0, mean, error, why)


def judge_skills(without: Values, with_: Values) -> Verdict:
    """On reciprocal ranks of the gold without and with hypothetical skills, pair by pair."""
    change, error = _mean(with_ - without)
    passed = change > max(0.0, STANDARD_ERRORS * error + ROUNDING)
    why = f"hypothetical skills change MRR@10 by {100 * change:+.1f} ± {100 * error:.1f}"
    before, after = (float(v.mean()) if len(v) else 0.0 for v in (without, with_))
    return Verdict("skills", passed, len(without), before, after, error, why)


def _mean(values: Values) -> tuple[float, float]:
    if not len(values):
        return 0.0, 0.0
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), spread / math.sqrt(len(values))


def keep(store: Store, model: str, encoder: str, verdict: Verdict) -> None:
    """The verdict holds for this model, prompt and encoder from now on."""
    store.write(
        "INSERT OR REPLACE INTO qualifications VALUES (?, ?, ?, ?, ?, ?, ?)",
        (model, prompt_digest(verdict.kind), encoder, verdict.kind, int(verdict.passed),
         json.dumps(asdict(verdict)), time.time()),
    )  # fmt: skip


def qualified(store: Store, model: str, encoder: str, kind: Kind) -> Verdict | None:
    """The kept verdict, or None where the model was not tried with this prompt and encoder; then it is not used."""
    found = store.rows(
        "SELECT report FROM qualifications WHERE model = ? AND prompt = ? AND encoder = ? AND kind = ?",
        (model, prompt_digest(kind), encoder, kind),
    )
    return Verdict(**json.loads(found[0]["report"])) if found else None
