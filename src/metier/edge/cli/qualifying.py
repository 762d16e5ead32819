"""Trying a language model on the library at hand before its expansions are used (rule 1.3a)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import BudgetSpent, InputError, LLMError
from metier.evaluate.datasets import read_requests
from metier.models.llm import Ask, ChatLLM
from metier.retrieve import expand
from metier.retrieve import qualify as judging
from metier.retrieve.qualify import SAMPLE, Verdict
from metier.retrieve.stage import QUERY_WEIGHT
from metier.retrieve.vectors import identity


def qualify(shop: Workshop, llm: ChatLLM, args: argparse.Namespace, screen: Screen) -> list[Verdict]:
    """One verdict per kind of expansion, kept in the store. Raises `InputError` for a library too small to tell."""
    index = shop.opened().index
    if index.vectors is None:
        shop.refresh(progress=screen.progress)
        index = shop.opened().index
    documents = np.asarray(index.vectors, np.float32)
    if len(documents) < 10:
        raise InputError(f"{len(documents)} skills are too few to tell whether a model helps; give a larger --skills")
    written = _written(shop, llm, args.sample or SAMPLE, screen)
    labelled = _labelled(shop, args.requests) if args.requests else written
    verdicts: list[Verdict] = []
    encoder = shop.encoder
    if written:
        vectors = encoder.encode([text for text, _ in written], kind="query")
        verdicts.append(judging.judge_requests(judging.reciprocal_ranks(vectors, documents, [g for _, g in written])))
    verdicts.append(_skills(shop, llm, labelled, documents, screen))
    for verdict in verdicts:
        judging.keep(shop.store, llm.name, identity(encoder.profile), verdict)
    return verdicts


def _written(shop: Workshop, llm: ChatLLM, count: int, screen: Screen) -> list[tuple[str, int]]:
    """(request, row of its skill) as the model writes them for skills spread evenly over the library."""
    skills = shop.library.skills
    rows = [i * len(skills) // min(count, len(skills)) for i in range(min(count, len(skills)))]
    asks = [Ask(expand.requests_prompt(skills[r], shop.body(skills[r])), expand.REQUESTS_SCHEMA) for r in rows]
    found: list[tuple[int, str]] = []
    try:
        for place, answer in llm.each(asks, progress=screen.progress("requests", len(asks))):
            if isinstance(answer, LLMError):
                screen.note(f"no requests for {skills[rows[place]].id}: {answer}")
            else:
                found += [(rows[place], text) for text in expand.read_requests(answer)]
    except BudgetSpent as error:
        screen.note(f"judged on less: {error}")
    return [(text, row) for row, text in sorted(found)]


def _labelled(shop: Workshop, path: Path) -> list[tuple[str, int]]:
    place = {skill.id: row for row, skill in enumerate(shop.library.skills)}
    known = [(r.text, next((place[g] for g in r.gold if g in place), -1)) for r in read_requests([path])]
    usable = [(text, row) for text, row in known if row >= 0]
    if not usable:
        raise InputError(
            f"{path}: no request's gold is among the {len(place)} skills; give their library with --skills"
        )
    return usable


def _skills(
    shop: Workshop,
    llm: ChatLLM,
    requests: Sequence[tuple[str, int]],
    documents: np.ndarray,
    screen: Screen,
) -> Verdict:
    """Whether hypothetical skills bring the gold up."""
    asks = [Ask(expand.skills_prompt(text), expand.SKILLS_SCHEMA) for text, _ in requests]
    drafts: dict[int, tuple[str, ...]] = {}
    try:
        for place, answer in llm.each(asks, progress=screen.progress("skills", len(asks))):
            if not isinstance(answer, LLMError):
                drafts[place] = expand.read_skills(answer)
    except BudgetSpent as error:
        screen.note(f"judged on less: {error}")
    used = sorted(place for place, texts in drafts.items() if texts)
    if not used:
        return judging.judge_skills(np.zeros(0), np.zeros(0))
    raw = shop.encoder.encode([requests[place][0] for place in used], kind="query")
    toward = np.stack([shop.encoder.encode(list(drafts[p]), kind="document").mean(axis=0) for p in used])
    gold = [requests[place][1] for place in used]
    mixed = expand.moved(raw, toward.astype(np.float32), QUERY_WEIGHT)
    return judging.judge_skills(
        judging.reciprocal_ranks(raw, documents, gold), judging.reciprocal_ranks(mixed, documents, gold)
    )
