"""The paper's controls: does each module help for the reason that is given for it?

    directions   one level of 1–8, two levels, as many random ones: only the documents' own may change anything
    expansion    what requests gain from hypothetical skills before and after both backgrounds are gone
    shared       document expansion against the one component that all documents share
    supplied     deleting the gold words that a hypothetical skill supplies, against words as rare that gold lacks

SkillRep, rule 1.16. Padding, the fifth control, is in `padding`; weights by halves are in `grids`, fifths of dilution
and partial correlations in `diagnosis`. Every difference is paired by request and macro over datasets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.evaluate.diagnose import content_words
from metier.evaluate.grids import measured
from metier.evaluate.metrics import paired_bootstrap
from metier.evaluate.sweep import Arrays, Setting, Step, Sweep
from metier.text import words

if TYPE_CHECKING:
    from metier.types import Vectors

ONE_STEP = tuple(range(1, 9))
"""Directions of the one-level projections: the paper's 1–8."""
RANDOM_SEEDS = (0, 1, 2, 3, 4)
_TOKEN = re.compile(r"[^\W_]+")


def against(sweep: Sweep, base: Setting, setting: Setting) -> dict[str, Any]:
    """MRR@10 of the setting, and its paired difference to the base."""
    gain = paired_bootstrap(sweep.values(base), sweep.values(setting), sweep.arrays.datasets)
    return {"mrr@10": measured(sweep, setting, ("mrr@10",))["mrr@10"], "against_base": gain.as_dict()}


def directions(sweep: Sweep, base: Setting, first: int = 2) -> list[dict[str, Any]]:
    """None, one level of 1–8 directions, two levels, and random ones of the same number (the mean of five draws)."""
    none = replace(base, step="none")
    rows = [{"projection": "none", **against(sweep, none, none)}]
    rows += [
        {"projection": f"one level, {k}", **against(sweep, none, replace(base, step="one", first=k))} for k in ONE_STEP
    ]
    rows.append(
        {"projection": f"two levels, {first} + 2", **against(sweep, none, replace(base, step="two", first=first))}
    )
    drawn = [sweep.values(replace(base, step="random", first=first, seed=seed)) for seed in RANDOM_SEEDS]
    mean = np.mean(drawn, axis=0)
    gain = paired_bootstrap(sweep.values(none), mean, sweep.arrays.datasets)
    rows.append(
        {
            "projection": f"random, {first} + 2",
            "mrr@10": round(rows[0]["mrr@10"] + 100 * gain.delta, 2),
            "against_base": gain.as_dict(),
            "draws": [round(100 * float(v.mean()), 2) for v in drawn],
        }
    )
    return rows


def expansion_by_background(sweep: Sweep, base: Setting, w_q: float) -> list[dict[str, Any]]:
    """What query expansion gains with nothing, the documents' and both backgrounds taken out."""
    rows = []
    steps: tuple[Step, ...] = ("none", "one", "both")
    for step in steps:
        plain = replace(base, step=step, w_q=0.0)
        rows.append({"background": step, **against(sweep, plain, replace(plain, w_q=w_q))})
    return rows


def shared_component(arrays: Arrays, base: Setting, w_d: float) -> list[dict[str, Any]]:
    """Document expansion by each document's own requests, by their shared mean alone, and by what is left of them.

    Needs `own`; the shared component is the mean over the documents that have requests of their own.
    """
    if arrays.own is None or not arrays.own.any():
        return []
    has = np.flatnonzero(np.abs(arrays.own).sum(axis=1) > 0)
    mean = arrays.own[has].astype(np.float64).mean(axis=0).astype(np.float32)
    rest = np.zeros_like(arrays.own)
    rest[has] = arrays.own[has] - mean
    variants: Mapping[str, Vectors] = {
        "own requests": arrays.own,
        "shared component alone": _only(arrays.own, has, mean),
        "without the shared component": rest,
    }
    plain = replace(base, w_d=0.0)
    before = Sweep(arrays).values(plain)
    rows = []
    for name, own in variants.items():
        sweep = Sweep(_with_own(arrays, own))
        setting = replace(base, w_d=w_d, asked="own")
        gain = paired_bootstrap(before, sweep.values(setting), arrays.datasets)
        rows.append({"toward": name, "mrr@10": measured(sweep, setting)["mrr@10"], "against_base": gain.as_dict()})
    return rows


def _only(own: Vectors, has: Sequence[int] | Any, mean: Vectors) -> Vectors:
    out = np.zeros_like(own)
    out[has] = mean
    return out


def _with_own(arrays: Arrays, own: Vectors) -> Arrays:
    return replace(arrays, own=own)


def supplied_words(draft: str, request: str, gold: Sequence[str]) -> list[str]:
    """Content words of the hypothetical skill that its gold bodies have and the request does not say."""
    said = set(words(request))
    held = {word for body in gold for word in content_words(body)}
    return [word for word in content_words(draft) if word in held and word not in said]


def matched_words(
    draft: str, request: str, gold: Sequence[str], supplied: Sequence[str], idf: Callable[[str], float]
) -> list[str]:
    """As many other words of the draft, none of them in gold or request, each the nearest in idf to a supplied one."""
    said = set(words(request))
    held = {word for body in gold for word in content_words(body)}
    free = {word: idf(word) for word in content_words(draft) if word not in held and word not in said}
    taken = []
    for word in sorted(supplied, key=idf, reverse=True):
        if not free:
            break
        wanted = idf(word)
        best = min(free, key=lambda w: (abs(free[w] - wanted), w))
        taken.append(best)
        del free[best]
    return taken


def without_words(text: str, gone: Sequence[str]) -> str:
    """The text with every occurrence of these (lower-case) words left out."""
    dropped = set(gone)
    return _TOKEN.sub(lambda m: "" if m[0].lower() in dropped else m[0], text)


def deletions(
    drafts: Sequence[Sequence[str]], requests: Sequence[str], gold: Sequence[Sequence[str]], idf: Callable[[str], float]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]], float]:
    """All drafts without the supplied gold words, and without as many words as rare; and the words taken a draft.

    Only as many supplied words go as there are matches for them, so that both versions lose the same number.
    """
    supplied_gone, others_gone, count = [], [], 0
    for mine, request, bodies in zip(drafts, requests, gold, strict=True):
        first, second = [], []
        for draft in mine:
            supplied = supplied_words(draft, request, bodies)
            others = matched_words(draft, request, bodies, supplied, idf)
            lost = sorted(supplied, key=idf, reverse=True)[: len(others)]
            first.append(without_words(draft, lost))
            second.append(without_words(draft, others))
            count += len(lost)
        supplied_gone.append(tuple(first))
        others_gone.append(tuple(second))
    return supplied_gone, others_gone, count / max(1, sum(map(len, drafts)))


def deletion_table(whole: Sweep, supplied: Sweep, others: Sweep, setting: Setting) -> list[dict[str, Any]]:
    """The whole drafts, those without supplied words and those without matched ones, at one setting."""
    sets, before = whole.arrays.datasets, whole.values(setting)
    return [
        {
            "drafts": name,
            "mrr@10": measured(sweep, setting)["mrr@10"],
            "against_whole": paired_bootstrap(before, sweep.values(setting), sets).as_dict(),
        }
        for name, sweep in (("whole", whole), ("supplied words deleted", supplied), ("matched words deleted", others))
    ]
