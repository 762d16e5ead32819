"""A seeded world in which the gain of every task is known, so that claims about the gate can be tested (SkillDelta).

    task  t = unit(c_family + spread · noise)          what an encoder sees, turned away from the truth by `residual`
    μ0(t) = base + hardness · (u · t)                  success without the skill
    τ(t)  = level_family + slope · (v_family · t)      the gain, clipped so that both arms stay within [0, 1]
    y     ~ mean of r Bernoulli draws of each arm      execution noise; after `drift_at` the gain changes its sign

Coverage (how much of the family the bank has seen), residual (what the representation misses) and noise (r) can each be
turned alone. The numbers are stated parameters of this world, not measurements of any agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.evaluate import policy
from metier.evaluate.panel import Recorded, recorded
from metier.gate.gain import Rule, predict

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """The parameters of one world; the same seed is the same world."""

    seed: int = 0
    families: int = 6
    dim: int = 6
    spread: float = 0.7
    """Size of a family about its centre."""
    level: float = 0.2
    """Standard deviation of the families' mean gains: what separates families from each other."""
    slope: float = 0.25
    """Standard deviation of the gain inside a family."""
    base: float = 0.45
    hardness: float = 0.3
    residual: float = 0.0
    """Noise that turns the vectors the gate sees away from the true ones."""
    drift_at: float | None = None
    """Share of the tasks after which every gain has the opposite sign."""
    tokens: tuple[float, float] = (1000.0, 1400.0)
    """Mean tokens of a run without and with the skill."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Tasks drawn from a world, in order of time."""

    recorded: Recorded
    """What a bank and a gate would know."""
    tau: Floats
    """The true gains."""
    mu0: Floats


def draw(world: World, n: int, *, repeats: int = 1, sample: int = 0) -> Drawn:
    """`n` tasks, spread evenly over the families, each run `repeats` times in both arms."""
    rng = np.random.default_rng([world.seed, 0])
    centres = _unit(rng.normal(size=(world.families, world.dim)))
    levels = rng.normal(size=world.families) * world.level
    slopes = _unit(rng.normal(size=(world.families, world.dim)))
    harder = _unit(rng.normal(size=(1, world.dim)))[0]
    here = np.random.default_rng([world.seed, 1, sample])
    family = here.permutation(np.arange(n) % world.families)
    noise = here.normal(size=(n, world.dim)) / np.sqrt(world.dim)
    true = _unit(centres[family] + world.spread * noise)
    inside = (noise * slopes[family]).sum(axis=1) * np.sqrt(world.dim)
    mu0 = np.clip(world.base + world.hardness * (true @ harder), 0.02, 0.98)
    tau = levels[family] + world.slope * inside
    if world.drift_at is not None:
        tau = np.where(np.arange(n) >= world.drift_at * n, -tau, tau)
    tau = np.clip(tau, -mu0, 1.0 - mu0)
    seen = _unit(true + world.residual * here.normal(size=(n, world.dim)) / np.sqrt(world.dim))
    runs0 = (here.random((n, repeats)) < mu0[:, None]).astype(np.float64)
    runs1 = (here.random((n, repeats)) < (mu0 + tau)[:, None]).astype(np.float64)
    spent = here.gamma(4.0, 0.25, size=(n, 2)) * np.array(world.tokens)
    rows: list[dict[str, Any]] = [
        {"id": f"t{sample}-{i}", "family": f"family-{family[i]}", "skill": f"skill-{family[i]}",
         "text": f"task {sample}-{i}", "y0": runs0[i].mean(), "y1": runs1[i].mean(),
         "tokens0": float(round(spent[i, 0])), "tokens1": float(round(spent[i, 1])),
         "repeats0": runs0[i].tolist(), "repeats1": runs1[i].tolist()}
        for i in range(n)
    ]  # fmt: skip
    return Drawn(recorded(rows, seen), tau, mu0)


@dataclass(frozen=True, slots=True)
class Worth:
    """What a bank of one size is worth in a world: judged against the true gains."""

    support: int
    repeats: int
    error: float
    """Mean |τ̂ − τ| over fresh tasks."""
    success: float
    """True success when the gate decides."""
    always_off: float
    always_on: float
    best: float
    """With the true gains known."""
    use_rate: float
    advantage_pp: float
    tokens_spent: float
    """What collecting the bank cost: both arms, every repeat."""


def worth(world: World, n: int, *, repeats: int = 1, rule: Rule | None = None, fresh: int = 600) -> Worth:
    """A bank of `n` paired tasks in this world, asked about `fresh` tasks it has never seen."""
    past, asked = draw(world, n, repeats=repeats, sample=0), draw(world, fresh, sample=1)
    found = predict(asked.recorded.panel.tasks, past.recorded.panel, rule or Rule())
    use = found.use.astype(np.float64)
    return Worth(
        n, repeats, float(np.abs(found.tau - asked.tau).mean()), float((asked.mu0 + use * asked.tau).mean()),
        float(asked.mu0.mean()), float((asked.mu0 + asked.tau).mean()),
        float((asked.mu0 + np.maximum(asked.tau, 0.0)).mean()), float(use.mean()),
        policy.advantage(asked.tau, use) * policy.PP, n * repeats * sum(world.tokens),
    )  # fmt: skip


def sizes(seeds: int = 6) -> list[Worth]:
    """Banks of several sizes in the default world, mean over its seeds: a picture to plan by, no promise."""
    told = []
    for n, repeats in ((30, 1), (60, 1), (120, 1), (240, 1), (60, 4), (240, 4)):
        drawn = [worth(World(seed=seed), n, repeats=repeats, fresh=200) for seed in range(seeds)]
        means = {
            name: float(np.mean([getattr(each, name) for each in drawn]))
            for name in ("error", "success", "always_off", "always_on", "best", "use_rate", "advantage_pp")
        }
        told.append(Worth(n, repeats, tokens_spent=drawn[0].tokens_spent, **means))
    return told


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
