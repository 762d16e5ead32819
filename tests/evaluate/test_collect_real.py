"""A collection with a real small language model behind an OpenAI-compatible server, through curl."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.models.small_llm import small_llm

from metier.evaluate.adapters import open_adapter
from metier.evaluate.collect import Protocol, collect, make_plan
from metier.evaluate.ledger import Limits
from metier.evaluate.tasks import Job, Material
from metier.gate.bank import Bank
from metier.store import Store
from metier.types import Skill

pytestmark = pytest.mark.llm
__all__ = ["small_llm"]

SKILL = Skill("given:pets", "pets", "Names of the pets", "d", "/r", "given", ("/r/pets",))
BODY = "The cat of this house is called Mortimer. Answer every question about the cat with its name: Mortimer."
CHECK = (
    sys.executable, "-c",
    "import os, sys; sys.exit('mortimer' not in open(os.environ['METIER_ANSWER_FILE']).read().lower())",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("curl") is None, reason="the chat adapter runs curl")
def test_pairs_are_collected_from_a_real_model_and_what_the_skill_knows_shows(small_llm: str, tmp_path: Path) -> None:
    bank = Bank(Store(tmp_path / "store.db"))
    adapter = open_adapter(f"chat:{small_llm}")
    jobs = [Job(f"t{n}", None, text, (SKILL.id,), (SKILL.digest,)) for n, text in enumerate(
        ["What is the name of the cat of this house?", "Who is the cat here? Say the name."])]  # fmt: skip
    plan = make_plan(bank, jobs, Protocol(adapter, CHECK, "chat/smollm2", timeout=120.0))
    material = Material({SKILL.id: SKILL}, lambda _: BODY, lambda _skill, _place: None)
    done = collect(bank, plan, material, Limits(), env={**os.environ, "OPENAI_API_KEY": "unused-but-secret"})
    assert (done.recorded, done.open) == (4, 0), done.notes
    pairs = bank.pairs("chat/smollm2", SKILL.id)
    assert pairs.y0.tolist() == [0.0, 0.0] and pairs.y1.sum() >= 1  # only the skill knows the name
    assert (pairs.tokens0 > 10).all() and (pairs.tokens1 > 10).all()  # as the server itself counts them
    models = {row["model"] for row in bank.store.rows("SELECT model FROM collect_attempts")}
    assert len(models) == 1 and None not in models
