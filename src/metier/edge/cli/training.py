"""`metier train`: pairs and a library become a tuned encoder, in a folder that `encoder = DIR` opens."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import EncoderError, InputError
from metier.models import card, dataset, pairs
from metier.models.dataset import Known, Prepared
from metier.models.finetune import Result, blend, tune
from metier.models.learner import Learner, Settings, held_out_score
from metier.models.pairs import Pair
from metier.retrieve import expand
from metier.retrieve.byword import by_words
from metier.retrieve.vectors import VectorCache


def train(args: argparse.Namespace, screen: Screen) -> int:
    """The verb. Raises `InputError` for data that cannot teach, `EncoderError` for an export that lost too much."""
    settings = Settings(
        epochs=args.epochs, batch=args.batch, rate=args.rate, document_tokens=args.tokens,
        request_tokens=args.tokens, negatives=args.negatives, micro=args.micro, seed=args.seed,
    ).checked()  # fmt: skip
    shop = Workshop(args.config, paths=args.skills)
    known = [Known(s.id, s.name, s.description, shop.body(s)) for s in shop.library.skills]
    if not known:
        raise InputError("train: no skills found; give --skills PATH")
    asked = _asked(args, shop, known)
    pairs.refuse_templates([p for p in asked if p.source != "weak"], {k.id: f"{k.name} {k.description}" for k in known})
    cache = VectorCache(Path(args.config.home) / "vectors", shop.encoder.profile)
    vectors = cache.of([one.views[-1] for one in known], shop.encoder)
    if args.avoid:
        forbidden = [_gold(path, row) for path in args.avoid for _, row in pairs.rows(path)]
        theirs = cache.of([one.views[-1] for one in forbidden], shop.encoder)
        alike = dataset.near(known, forbidden, (vectors, theirs))
        screen.note(f"{len(alike)} skills are like the ones to avoid and are left out")
        keep = [row for row, one in enumerate(known) if one.id not in alike]
        known, vectors = [known[row] for row in keep], vectors[keep]
    prepared = dataset.prepare(known, asked, shop.encoder, by_words, vectors=vectors, seed=settings.seed)
    screen.note(f"{len(prepared.examples)} pairs, {len(prepared.held_out)} held out, {prepared.untaught} left out")
    tuned = args.into / "float32"
    bar = screen.progress("train", len(prepared.examples) * settings.epochs // settings.batch)

    def heard(step: int, steps: int, loss: float, mrr: float) -> None:
        bar(step)
        screen.note(f"step {step}/{steps}  loss {loss:.4f}  held-out MRR@10 {mrr:.2f}")

    result = tune(args.base, prepared.corpus, prepared.examples, prepared.held_out, settings, tuned, report=heard)
    if args.share < 1:
        blend(args.base, tuned, args.share, args.into / "blended")
        tuned = args.into / "blended"
    before, after = _exported(args, tuned, prepared, settings)
    name = _finished(args, prepared, settings, result, (before, after))
    found = {
        "pairs": len(prepared.examples),
        "held_out": len(prepared.held_out),
        "untuned_mrr": round(result.untuned_mrr, 2),
        "tuned_mrr": round(before, 2),
        "int8_mrr": round(after, 2),
        "folder": str(args.into),
        "encoder": name,
    }
    if screen.json_wanted:
        screen.json({"schema": "metier-train-v1", **found, "best_step": result.best_step, "seconds": result.seconds})
    else:
        screen.print(
            f"held-out MRR@10: {found['untuned_mrr']} untuned, {found['tuned_mrr']} tuned, {found['int8_mrr']} as int8"
        )
        screen.print(f"use it with: metier index --full --set encoder={args.into}")
    return 0


def _asked(args: argparse.Namespace, shop: Workshop, known: Sequence[Known]) -> list[Pair]:
    ids = {one.id for one in known}
    names: dict[str, list[str]] = {}
    for one in known:
        names.setdefault(one.name, []).append(one.id)
        names.setdefault(one.id.rsplit("#", 1)[-1], []).append(one.id)
        names.setdefault(one.id.split(":", 1)[-1], []).append(one.id)
    asked: list[Pair] = []
    for path in args.pairs:
        for pair in pairs.read_pairs(path):
            found = pair.skill if pair.skill in ids else next(iter(names.get(pair.skill, ())), pair.skill)
            asked.append(replace(pair, skill=found))
    if args.expanded:
        if shop.llm is None:
            raise InputError("train: --expanded needs the model that wrote the requests; set llm.model=MODEL@URL")
        kept = expand.Kept(shop.store, shop.llm.name)
        for skill, one in zip(shop.library.skills, known, strict=True):
            asked += [Pair(text, skill.id, "expand") for text in kept.requests(skill, one.body)]
    weak = [Pair(text, one.id, "weak") for one in known for text in pairs.weak_requests(one.description, 1)]
    chosen = np.random.default_rng(args.seed).permutation(len(weak))[: args.weak]
    asked += [weak[i] for i in sorted(chosen.tolist())]
    if not asked:
        raise InputError("train: nothing to learn from; give FILEs of pairs, --expanded or --weak N")
    return asked


def _gold(path: Path, row: dict[str, object]) -> Known:
    body = row.get("body", row.get("content"))
    if not isinstance(body, str):
        raise InputError(
            f"{path}: a row without body; give the gold documents of the test (id, name, description, body)"
        )
    return Known(str(row.get("id", "")), str(row.get("name", "")), str(row.get("description", "")), body)


def _exported(args: argparse.Namespace, tuned: Path, prepared: Prepared, settings: Settings) -> tuple[float, float]:
    """Held-out MRR@10 of the float32 weights and of the int8 export in `into`."""
    from metier.models.encoder import open_encoder
    from metier.models.export import export
    from metier.models.recipes import recipe_for

    learner = Learner(tuned, settings)
    before = held_out_score(learner.encode, prepared.corpus, prepared.held_out)
    profile = replace(recipe_for(str(args.base)).profile, name=args.into.name, max_tokens=args.tokens, floor=())
    export(tuned, args.into, profile)
    encoder = open_encoder(str(args.into))
    after = held_out_score(
        lambda texts, kind: encoder.encode(texts, kind="query" if kind == "query" else "document"),
        prepared.corpus,
        prepared.held_out,
    )
    why = card.refused(before, after)
    if why is not None:
        raise EncoderError(f"{args.into}: {why} ({tuned})")
    return before, after


def _finished(
    args: argparse.Namespace, prepared: Prepared, settings: Settings, result: Result, scores: tuple[float, float]
) -> str:
    """The model card is beside the model; the encoder's name."""
    from metier.models.checkpoints import digest
    from metier.models.profiles import read_profile

    profile, _ = read_profile(args.into)
    lineage = card.Lineage(str(args.base.name), digest(args.base), "under the licence of its base", "Tuned by metier.")
    text = card.card(
        profile.name, lineage, settings, result, prepared.sources, [("held out", result.untuned_mrr, scores[1])]
    )
    (args.into / "MODEL_CARD.md").write_text(text, encoding="utf-8")
    return profile.name
