"""Fits the judge of rule 1.13: one hidden layer beside a table of words, in numpy alone, the same numbers every time.

Every message stands for itself at all library sizes: an epoch shows it once, at a size drawn anew. Gaussian noise on
the vectors is what keeps some four thousand messages from being learnt by heart (decision 0033).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metier.retrieve.abstain import MARKS, Judge, marks, traits
from metier.text import words

HIDDEN = 128
EPOCHS = 400
BATCH = 1024
RATE = 5e-3
TABLE_RATE = 5.0
"""Times RATE: most words are seen a handful of times."""
DECAY = 0.3
TABLE_RIDGE = 1e-3 / 100
NOISE = 1.0
"""Standard deviation of the noise, in that of a unit vector's coordinates."""
DROP_INPUT, DROP_HIDDEN, DROP_MARKS = 0.1, 0.3, 0.5
VECTOR_SCALE, TRAIT_SCALE, COSINE_SCALE = 4.0, 2.0, 4.0
"""How large the inputs are for the network: with it the decay weighs on the vector more than on the cosine."""
WARM_UP = 0.3


@dataclass
class Rows:
    """Messages to learn from or to judge."""

    vectors: Any
    """(n, d)"""
    cosines: Any
    """(n, k): best cosine in each library drawn."""
    traits: Any
    """(n, TRAITS)"""
    marks: Any
    """(n, most): buckets, `MARKS` where there are no more."""
    needed: Any
    """(n,): 1.0 for a request that needs a skill."""
    weight: Any
    """(n,), within its side."""

    def take(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def described(texts: Sequence[str], most: int = 90) -> tuple[Any, Any]:
    """(n, TRAITS) and (n, most): how the texts are written and their buckets."""
    counted = [words(text) for text in texts]
    found = np.full((len(texts), most), MARKS)
    for n, (text, w) in enumerate(zip(texts, counted, strict=True)):
        said = marks(text, w)[:most]
        found[n, : len(said)] = said
    return np.array([traits(text, w) for text, w in zip(texts, counted, strict=True)], np.float32), found


def scores(judge: Judge, rows: Rows, sizes: Sequence[int]) -> Any:
    """(n, k): `Judge.needed` before its cut, of many rows at once."""
    filled = rows.marks != MARKS
    table = (np.append(judge.table, 0.0)[rows.marks] * filled).sum(axis=1) / np.sqrt(filled.sum(axis=1))
    found = []
    for place, size in enumerate(sizes):
        x = np.column_stack(
            [rows.vectors, rows.cosines[:, place], np.full(len(rows.needed), math.log(size)), rows.traits]
        )
        found.append(np.maximum(x @ judge.hidden + judge.offset, 0.0) @ judge.out + table + judge.bias)
    return np.column_stack(found)


def fit(rows: Rows, sizes: Sequence[int], shares: Sequence[float], seed: int = 0) -> Judge:
    """The judge that logistic loss, both sides weighing the same, gives; `sizes` and `shares` of the (k) libraries."""
    dice = np.random.default_rng(seed)
    n, dim = rows.vectors.shape
    logs = np.log(np.array(sizes, np.float64))
    means = np.concatenate([np.zeros(dim), [rows.cosines.mean(), np.average(logs, weights=shares)],
                            rows.traits.mean(axis=0)])  # fmt: skip
    scale = np.concatenate([
        np.full(dim, VECTOR_SCALE), [COSINE_SCALE / rows.cosines.std(), TRAIT_SCALE / logs.std()],
        TRAIT_SCALE / (rows.traits.std(axis=0) + 1e-6),
    ])  # fmt: skip
    weight = rows.weight.astype(np.float64)
    for side in (0.0, 1.0):
        here = rows.needed == side
        weight[here] *= 0.5 / weight[here].sum()
    weight = (weight * n).astype(np.float32)
    inputs = len(means)

    def drawn(fan: int, *shape: int) -> Any:
        return (dice.uniform(-1, 1, shape) / math.sqrt(fan)).astype(np.float32)

    layer, offset = drawn(inputs, inputs, HIDDEN), drawn(inputs, HIDDEN)
    out, bias, table = drawn(HIDDEN, HIDDEN), np.zeros(1, np.float32), np.zeros(MARKS + 1, np.float32)
    learnt = [layer, offset, out, bias, table]
    first, second = [np.zeros_like(p) for p in learnt], [np.zeros_like(p) for p in learnt]
    rarely = (1 / np.sqrt((rows.marks != MARKS).sum(axis=1))).astype(np.float32)
    steps, step = EPOCHS * math.ceil(n / BATCH), 0

    def kept(drop: float, *shape: int) -> Any:
        return (dice.random(shape, np.float32) >= drop) / np.float32(1 - drop)

    for _ in range(EPOCHS):
        order, place = dice.permutation(n), dice.choice(len(sizes), n, p=np.array(shares) / sum(shares))
        for start in range(0, n, BATCH):
            some = order[start : start + BATCH]
            m, at = len(some), place[some]
            x = np.empty((m, inputs), np.float32)
            noise = dice.standard_normal((m, dim), np.float32)
            x[:, :dim] = rows.vectors[some] + NOISE / math.sqrt(dim) * noise
            x[:, dim], x[:, dim + 1], x[:, dim + 2 :] = rows.cosines[some, at], logs[at], rows.traits[some]
            x = ((x - means) * scale).astype(np.float32) * kept(DROP_INPUT, m, inputs)
            z, mask = x @ layer + offset, kept(DROP_HIDDEN, m, HIDDEN)
            active = np.maximum(z, 0) * mask
            said, share = rows.marks[some], kept(DROP_MARKS, m, rows.marks.shape[1]) * rarely[some][:, None]
            y = active @ out + bias + (table[said] * share).sum(axis=1)
            wrong = (1 / (1 + np.exp(-y)) - rows.needed[some]).astype(np.float32) * weight[some] / m
            back = wrong[:, None] * out * mask * (z > 0)
            seen = np.bincount(said.ravel(), (wrong[:, None] * share).ravel(), MARKS + 1).astype(np.float32)
            seen += 2 * TABLE_RIDGE * table
            seen[MARKS] = 0
            step += 1
            rate = RATE * _pace(step / steps)
            slopes = (x.T @ back, back.sum(axis=0), active.T @ wrong, wrong.sum(keepdims=True), seen)
            for k, (p, slope) in enumerate(zip(learnt, slopes, strict=True)):
                first[k] += 0.1 * (slope - first[k])
                second[k] += 0.001 * (slope * slope - second[k])
                now = rate * (TABLE_RATE if p is table else 1.0)
                if p is not table:
                    p *= 1 - now * DECAY
                p -= now * (first[k] / (1 - 0.9**step)) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
    hidden = (layer * scale[:, None]).astype(np.float32)
    moved = (offset - (means * scale) @ layer).astype(np.float32)
    return Judge(hidden, moved, out, table[:MARKS], float(bias[0]))


def _pace(done: float) -> float:
    """Share of the rate: up by half a cosine in the first `WARM_UP`, then down to nothing."""
    if done < WARM_UP:
        return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * done / WARM_UP))
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))
