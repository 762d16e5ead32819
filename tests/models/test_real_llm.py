"""The whole way through a real model: prompt, server, schema, cache, expansion."""

from __future__ import annotations

from pathlib import Path

import pytest

from metier.models.llm import Ask, open_llm
from metier.models.spending import Budget
from metier.retrieve import expand
from metier.store import Store
from metier.types import Skill

from .small_llm import small_llm

pytestmark = pytest.mark.llm
__all__ = ["small_llm"]

SKILL = Skill("given:pdf-tables", "pdf-tables", "Extract tables from PDF files", "d", "/x", "given", ("/x",))
BODY = "# PDF tables\n\nFind tables in a PDF with pdfplumber and write each one as CSV. Scanned pages need OCR first."


def test_a_real_model_writes_requests_for_a_skill(small_llm: str, tmp_path: Path) -> None:
    llm = open_llm(small_llm, Store(tmp_path / "s.db"), temperature=0.0, received=200)
    written = expand.write_requests(llm, SKILL, BODY)
    assert 1 <= len(written) <= 2
    assert all(len(text) >= 8 for text in written)
    assert llm.ledger.calls >= 1
    assert llm.ledger.sent > 150  # the prompt, by the server's own count
    again = open_llm(small_llm, Store(tmp_path / "s.db"), temperature=0.0, received=200, budget=Budget(calls=0))
    assert expand.write_requests(again, SKILL, BODY) == written  # kept: no call is left in the budget


def test_a_real_model_writes_hypothetical_skills(small_llm: str, tmp_path: Path) -> None:
    llm = open_llm(small_llm, Store(tmp_path / "s.db"), temperature=0.0, received=400)
    skills = expand.write_skills(llm, "take the table on page 3 out of report.pdf")
    assert 1 <= len(skills) <= 2
    assert all(": " in skill for skill in skills)


def test_the_estimate_is_above_what_a_real_tokenizer_counts(small_llm: str) -> None:
    ask = Ask(
        expand.requests_prompt(SKILL, BODY),
        {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
            "additionalProperties": False,
        },
    )
    llm = open_llm(small_llm, None, temperature=0.0, received=60)
    estimate = llm.estimate([ask])
    llm.complete(ask.prompt, schema=ask.schema)
    assert llm.ledger.calls == 1
    assert 0.6 * estimate.sent <= llm.ledger.sent <= estimate.sent
