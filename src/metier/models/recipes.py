"""How families of public models want their texts: prefixes, length, pooling, and where fitting starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metier.types import Profile

Pooling = Literal["mean", "cls", "lasttoken"]

SKILL_INSTRUCTION = (
    "Instruct: Given a task description, retrieve the most relevant skill document that would help an agent "
    "complete the task\nQuery:"
)
"""The query prefix that `skillrep-embedding-0.6b` was tuned with (SkillRep; methods 1.8)."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a family of public models wants its texts, and the profile to start from."""

    marks: tuple[str, ...]
    """The family's models have one of these in their lower-case name."""
    profile: Profile
    pooling: Pooling
    """Used where the checkpoint itself does not say."""


RECIPES = (
    Recipe(
        ("skillrep-embedding", "qwen3-embedding", "skillrouter-embedding"),
        Profile("qwen3", 1024, 2048, SKILL_INSTRUCTION, alpha=0.3, projection=((1000, 2),)),
        "lasttoken",
    ),
    Recipe(
        ("bge-",),
        Profile("bge", 768, 512, "Represent this sentence for searching relevant passages: ", alpha=0.4,
                projection=((1000, 2),)),
        "cls",
    ),
    Recipe(
        ("e5-", "-e5"),
        Profile("e5", 768, 512, "query: ", "passage: ", alpha=0.4, projection=((1000, 2),)),
        "mean",
    ),
    Recipe(("minilm",), Profile("minilm", 384, 256, alpha=0.5, projection=((1000, 2),)), "mean"),
)  # fmt: skip
UNKNOWN = Recipe((), Profile("unknown", 0, 512, alpha=0.4), "mean")
"""A model of which nothing is known: no prefixes, a middling weight, nothing that had to be fitted."""


def recipe_for(model: str) -> Recipe:
    """The first recipe whose mark is in the model's name, else `UNKNOWN`."""
    name = Path(model).name.lower()
    return next((r for r in RECIPES if any(mark in name for mark in r.marks)), UNKNOWN)
