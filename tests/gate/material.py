"""What the gate's tests stand on: skills, outcomes, slates, and an encoder whose vectors a test writes down."""

from __future__ import annotations

import hashlib

import numpy as np

from metier.gate.bank import Bank
from metier.gate.decide import Gate
from metier.gate.runnable import Machine, Runnable
from metier.store import Store
from metier.types import Candidate, Outcome, Profile, Skill, Slate, Task

STACK = "agent/model-1"
HERE = Machine("linux", "", frozenset())
NOW = 1_800_000_000.0


class Written:
    """An encoder that answers with the vectors it was given, and with a direction of its own for any other text."""

    def __init__(self, vectors=None, *, dim=16, name="written"):
        self.profile = Profile(name=name, dim=dim, max_tokens=64)
        self.vectors = dict(vectors or {})
        self.asked = []

    def encode(self, texts, *, kind):
        self.asked += list(texts)
        return np.stack([self._one(text) for text in texts]).astype(np.float32)

    def _one(self, text):
        vector = np.zeros(self.profile.dim)
        if text in self.vectors:
            vector[: len(self.vectors[text])] = self.vectors[text]
        else:
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
            vector = np.random.default_rng(seed).normal(size=self.profile.dim)
        length = np.linalg.norm(vector)
        return vector / length if length else vector


def bank(folder):
    return Bank(Store(folder / "store.db"))


def skill(name, *, digest=None, **fields):
    return Skill(
        id=f"given:{name}", name=name, description=f"does {name}", digest=digest or f"digest-of-{name}", root="/r",
        scope="given", addresses=(f"/r/{name}",), body_tokens=fields.pop("body_tokens", 100), **fields,
    )  # fmt: skip


def outcome(task, of, arm, success, **fields):
    skills = [of] if isinstance(of, Skill) else list(of)
    fields.setdefault("stack", STACK)
    fields.setdefault("at", NOW)
    fields.setdefault("origin", "check")
    return Outcome(task=task, skills=tuple(s.id for s in skills), digests=tuple(s.digest for s in skills), arm=arm,
                   success=success, **fields)  # fmt: skip


def pair(task, of, without, used, **fields):
    return [outcome(task, of, "skip", without, **fields), outcome(task, of, "use", used, **fields)]


def fill(into, of, gains, *, task="task {}", **fields):
    """One pair per gain (1, 0 or −1)."""
    rows = []
    for number, gain in enumerate(gains):
        rows += pair(task.format(number), of, float(gain < 0), float(gain > 0), **fields)
    into.append(rows)


def slate(skills, *, text="the request", stack=STACK, tools=None, cover=(), slate_id="r_1", evidence=()):
    found = tuple(Candidate(s, 10.0 - n, tuple(evidence)) for n, s in enumerate(skills))
    return Slate(slate_id, Task(text, tools=tools, stack=stack), found, tuple(cover))


def gate(of_bank, **fields):
    fields.setdefault("encoder", Written())
    fields.setdefault("runnable", Runnable(machine=HERE))
    return Gate(of_bank, **fields)


def verdicts(judged):
    return {c.skill.name: (c.verdict.level, c.verdict.reason) for c in judged.candidates}
