"""What the bank says about each skill, and what the gate's rule would have done: the numbers of two pages.

Everything is computed leave-one-task-out from pairs of the skill's present digest (SkillDelta, rules 3.3, 3.5, 3.8);
stale pairs, single arms and reports of agents are counted beside it, never in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metier.edge.web.desk import Desk
from metier.gate.bank import Bank
from metier.gate.gain import Panel, Rule, gain_interval, panel, predict, tasks
from metier.gate.pairs import Pairs, Tally
from metier.types import Skill

Floats = NDArray[np.float64]

BINS = 6
"""Groups of the calibration plot: few enough to hold several tasks each in a bank of fifty pairs."""
RESAMPLES = 2000
"""Paired bootstrap draws behind an interval; its ends move by less than 0.2 points between seeds."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One skill (or set of skills used together) on one stack."""

    skills: tuple[str, ...]
    name: str
    n: int
    mu0: float | None
    mu1: float | None
    tau: float | None
    interval: tuple[float, float] | None
    helped: int
    unchanged: int
    harmed: int
    stale: int
    tokens: float | None
    """Mean tokens that using it added; None where they are unknown."""
    tally: Tally
    gone: bool
    """Whether the library no longer has it."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Tasks of similar predicted gain: what was predicted and what came of it."""

    predicted: float
    observed: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Mean success and tokens had one rule decided for every past task."""

    name: str
    success: float
    tokens: float | None
    rate: float


@dataclass(frozen=True, slots=True)
class Board:
    """The gate against its alternatives on the past tasks of one stack."""

    n: int
    policies: tuple[Policy, ...]
    advantage: float
    """Success above a coin that loads equally often (rule 3.9)."""
    interval: tuple[float, float]
    saved: float | None
    """Share of the tokens of Always-on that the gate spares; None where tokens are unknown."""
    bins: tuple[Bin, ...]
    unread: int
    """Pairs without a vector or without both arms, which the rule cannot judge."""


def standings(desk: Desk, stack: str) -> tuple[Standing, ...]:
    """Every skill with a row on that stack, most evidence first."""
    bank = desk.bank
    bank.refresh()
    return tuple(
        sorted(
            (_standing(desk, bank, stack, skills) for skills in bank.skills(stack)),
            key=lambda s: (-s.n, -s.stale, s.name, s.skills),
        )
    )


def _standing(desk: Desk, bank: Bank, stack: str, skills: tuple[str, ...]) -> Standing:
    known = [find(desk, i) for i in skills]
    names = [s.name if s else i for s, i in zip(known, skills, strict=True)]
    pairs, tally = bank.pairs(stack, skills), bank.tally(stack, skills)
    present = pairs.where(_present(pairs, known))
    n, gains = len(present), present.gains
    extra = present.tokens1 - present.tokens0
    extra = extra[np.isfinite(extra)]
    return Standing(
        skills=skills, name=" + ".join(names), n=n,
        mu0=_mean(present.y0), mu1=_mean(present.y1), tau=_mean(gains),
        interval=gain_interval(float(gains.sum()), float(n)) if n else None,
        helped=int((gains > 0).sum()), unchanged=int((gains == 0).sum()), harmed=int((gains < 0).sum()),
        stale=len(pairs) - n, tokens=_mean(extra), tally=tally, gone=None in known,
    )  # fmt: skip


def _present(pairs: Pairs, known: Sequence[Skill | None]) -> NDArray[np.bool_]:
    """Pairs made with the skills as they are now; nothing is present of a skill that is gone."""
    digests = [s.digest for s in known if s is not None]
    if len(digests) != len(known):
        return np.zeros(len(pairs), dtype=bool)
    from metier.gate.rows import bundle

    return pairs.of(bundle(digests))


def find(desk: Desk, skill_id: str) -> Skill | None:
    """The library's skill of exactly that id, as indexed."""
    ids: _Ids = desk.latest("ids").of(desk.shop.opened().folder, lambda: _Ids(desk))
    return ids.get(skill_id)


class _Ids:
    """Ids of one library, each decoded at most once."""

    def __init__(self, desk: Desk) -> None:
        self._skills = desk.shop.library.skills
        self._rows = {text.split("\n", 1)[0]: row for row, text in enumerate(desk.shelf().texts)}

    def get(self, skill_id: str) -> Skill | None:
        """The skill, or None; the shelf's ids are lower-cased, so the decoded one decides."""
        row = self._rows.get(skill_id.lower())
        if row is None:
            return None
        found = self._skills[row]
        return found if found.id == skill_id else None


def _mean(values: Floats) -> float | None:
    real = values[np.isfinite(values)]
    return float(real.mean()) if len(real) else None


def board(desk: Desk, stack: str) -> Board | None:
    """The gate's rule against always and never loading, on the stack's own pairs; None with fewer than two."""
    encoder = desk.shop.encoder.profile.name
    held = [(s, desk.bank.pairs(stack, s, encoder)) for s in desk.bank.skills(stack)]
    found, extra0, extra1, unread = _panel(desk, held)
    if found is None or len(found) < 2:
        return None
    rule = Rule(scope="skill")
    predicted = predict(found.tasks, found, rule)
    use = predicted.tau > desk.shop.config.eta
    y0, y1 = found.y0, found.y1
    chosen, gains = np.where(use, y1, y0), found.gains
    spent = _mean_of_all(np.where(use, extra1, extra0))
    always = _mean_of_all(extra1)
    policies = (
        Policy("never load", float(y0.mean()), _mean_of_all(extra0), 0.0),
        Policy("always load", float(y1.mean()), always, 1.0),
        Policy("the gate", float(chosen.mean()), spent, float(use.mean())),
    )
    return Board(
        n=len(found),
        policies=policies,
        advantage=_advantage(use, gains),
        interval=_bootstrap(use, gains),
        saved=None if spent is None or not always else 1.0 - spent / always,
        bins=calibration(predicted.tau, gains),
        unread=unread,
    )


def _panel(desk: Desk, held: Sequence[tuple[tuple[str, ...], Pairs]]) -> tuple[Panel | None, Floats, Floats, int]:
    """All present pairs with both arms and a vector as one panel, whose 'skill' is the skill (or set)."""
    ids: list[str] = []
    skills: list[str] = []
    rows: list[tuple[NDArray[np.float32], float, float, float, float]] = []
    unread = 0
    for key, pairs in held:
        present = pairs.where(_present(pairs, [find(desk, i) for i in key]))
        for i in range(len(present)):
            vector = present.vectors[i]
            if not vector.any() or not np.isfinite(present.y0[i]):
                unread += 1
                continue
            ids.append(f"{key}:{present.tasks[i]}")
            skills.append(str(key))
            rows.append((vector, present.y0[i], present.y1[i], present.tokens0[i], present.tokens1[i]))
    none = np.zeros(0)
    if not rows:
        return None, none, none, unread
    made = tasks(ids, skills, np.stack([r[0] for r in rows]), skills=skills)
    columns = np.array([r[1:] for r in rows], dtype=np.float64)
    return panel(made, columns[:, 0], columns[:, 1]), columns[:, 2], columns[:, 3], unread


def _mean_of_all(values: Floats) -> float | None:
    return float(values.mean()) if len(values) and np.isfinite(values).all() else None


def _advantage(use: NDArray[np.bool_], gains: Floats) -> float:
    """(1/n) Σ (a_i − ā)·D_i: success above loading equally often at random (rule 3.9)."""
    return float(((use - use.mean()) * gains).mean())


def _bootstrap(use: NDArray[np.bool_], gains: Floats) -> tuple[float, float]:
    """The central 95% of the advantage over resampled tasks, from a fixed seed."""
    draws = np.random.default_rng(0).integers(0, len(gains), size=(RESAMPLES, len(gains)))
    a, d = use[draws].astype(np.float64), gains[draws]
    values = ((a - a.mean(axis=1, keepdims=True)) * d).mean(axis=1)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def calibration(tau: Floats, gains: Floats, bins: int = BINS) -> tuple[Bin, ...]:
    """Tasks in groups of equal size by predicted gain, with the gain that was observed and its interval."""
    order = np.argsort(tau, kind="stable")
    groups = np.array_split(order, min(bins, max(1, len(order) // 3)))
    found = []
    for group in groups:
        if len(group):
            low, high = gain_interval(float(gains[group].sum()), float(len(group)))
            found.append(Bin(float(tau[group].mean()), float(gains[group].mean()), low, high, len(group)))
    return tuple(found)
