"""Contrastive tuning of an encoder on request–skill pairs (SkillRep, rule 1.8).

    loss(i) = −log  exp(q_i·d_i / τ)  /  Σ_c exp(q_i·d_c / τ)        c over the batch's skills and its hard negatives,
                                                                     but those that mean the same skill as d_i

Skills that mean the same are one *group*: no batch holds two pairs of a group, and a column of i's own group is left
out of i's sum. The plan of batches is a function of the seed alone and dropout is 0, so a run that was killed and
resumed takes the very steps of one that was not. Everything here runs on a CPU; a GPU is used where torch sees one.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from metier.errors import InputError
from metier.models import checkpoints
from metier.models.learner import Corpus, Example, Learner, Settings, need_torch
from metier.text import fingerprint

RECORD = "training.json"


@dataclass(slots=True)
class Result:
    """What a run did: one entry of `history` per held-out score, {step, loss, mrr}."""

    steps: int = 0
    best_step: int = 0
    best_mrr: float = 0.0
    untuned_mrr: float = 0.0
    seconds: float = 0.0
    stopped_early: bool = False
    resumed_at: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def batches(examples: Sequence[Example], groups: Sequence[int], settings: Settings) -> list[list[int]]:
    """Rows of `examples` per step for all epochs: each once an epoch, no two of a group in a batch, by the seed alone.

    The last batches of an epoch, where the remaining examples share groups, may be small; single ones are dropped
    (one pair has nothing to be told apart from).
    """
    plan: list[list[int]] = []
    for epoch in range(settings.epochs):
        order = np.random.default_rng((settings.seed, epoch)).permutation(len(examples))
        open_batches: list[tuple[list[int], set[int]]] = []
        done: list[list[int]] = []
        for row in order.tolist():
            group = groups[examples[row].document]
            for members, held in open_batches:
                if group not in held:
                    members.append(row)
                    held.add(group)
                    break
            else:
                open_batches.append(([row], {group}))
            full = [b for b in open_batches if len(b[0]) == settings.batch]
            done += [members for members, _ in full]
            open_batches = [b for b in open_batches if len(b[0]) < settings.batch]
        done += [members for members, _ in open_batches if len(members) > 1]
        plan += done
    return plan


def rate_at(step: int, steps: int, settings: Settings) -> float:
    """Learning rate of a step: linear warm-up, then half a cosine down to 0 (SkillRep)."""
    warm = max(1, round(settings.warmup * steps))
    if step < warm:
        return settings.rate * (step + 1) / warm
    return settings.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def tune(
    base: Path,
    corpus: Corpus,
    examples: Sequence[Example],
    held_out: Sequence[Example],
    settings: Settings,
    into: Path,
    *,
    report: Callable[[int, int, float, float], None] | None = None,
) -> Result:
    """`into` holds the best weights by held-out MRR@10, in the folder format of `base`, and `training.json`.

    A killed run goes on from its last checkpoint when called again with the same arguments, and a finished one is not
    run again; other arguments start anew. `report(step, steps, loss, mrr)` hears of every held-out score. Raises
    `InputError` without data, and `MissingExtra` without torch.
    """
    settings.checked()
    if len(examples) < 2 or not held_out:
        raise InputError(f"train: {len(examples)} pairs and {len(held_out)} held out; at least 2 and 1 are needed")
    torch = need_torch()
    torch.manual_seed(settings.seed)
    torch.set_num_threads(settings.threads)
    learner = Learner(base, settings)
    plan = batches(examples, corpus.groups, settings)
    sign = fingerprint(
        json.dumps(asdict(settings), sort_keys=True), checkpoints.digest(base), *_contents(corpus, examples, held_out)
    )
    finished = _finished(into, sign)
    if finished is not None:
        return finished
    optimiser = torch.optim.AdamW(learner.model.parameters(), lr=settings.rate, weight_decay=settings.decay)
    began, result = time.monotonic(), Result(steps=len(plan))
    best = learner.weights()
    state = checkpoints.load(into / checkpoints.STATE, sign)
    if state is not None:
        learner.model.load_state_dict(state.weights)
        checkpoints.restore(optimiser, learner.model, state)
        best = state.best
        result = Result(**state.facts)
        result.resumed_at = state.step
    else:
        result.untuned_mrr = result.best_mrr = learner.held_out(corpus, held_out)
    losses: list[float] = []
    for step in range(state.step if state is not None else 0, len(plan)):
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, len(plan), settings)
        others = [examples[row] for row in plan[step - 1]]
        losses.append(learner.step([examples[row] for row in plan[step]], corpus, step, optimiser, others))
        if (step + 1) % settings.every and step + 1 < len(plan):
            continue
        mrr, loss = learner.held_out(corpus, held_out), float(np.mean(losses))
        losses = []
        result.history.append({"step": step + 1, "loss": round(loss, 5), "mrr": round(mrr, 3)})
        if mrr > result.best_mrr:
            result.best_mrr, result.best_step, best = mrr, step + 1, learner.weights()
        if report is not None:
            report(step + 1, len(plan), loss, mrr)
        behind = sum(1 for h in result.history if h["step"] > result.best_step)
        result.stopped_early = bool(settings.patience) and behind >= settings.patience and step + 1 < len(plan)
        result.seconds = round(result.seconds + time.monotonic() - began, 1)
        began = time.monotonic()
        if result.stopped_early:
            break
        checkpoints.save(
            into / checkpoints.STATE, sign, step + 1, learner.weights(), optimiser, learner.model, best, asdict(result)
        )
    save_model(base, best, into)
    record = {
        "sign": sign,
        "settings": asdict(settings),
        "pairs": len(examples),
        "held_out": len(held_out),
        **asdict(result),
    }
    (into / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (into / checkpoints.STATE).unlink(missing_ok=True)
    return result


def _finished(into: Path, sign: str) -> Result | None:
    """What the very same run found when it ended here before."""
    record, names = into / RECORD, {f.name for f in fields(Result)}
    if not record.is_file() or not (into / "model.safetensors").is_file():
        return None
    kept = json.loads(record.read_text(encoding="utf-8"))
    return Result(**{k: v for k, v in kept.items() if k in names}) if kept.get("sign") == sign else None


def save_model(base: Path, weights: dict[str, Any], into: Path) -> None:
    """`into` holds `weights` and every other small file of `base`: configuration, tokenizer, licence and notice."""
    from safetensors.torch import save_file

    into.mkdir(parents=True, exist_ok=True)
    for path in sorted(base.rglob("*")):
        if path.is_file() and path.suffix not in (".safetensors", ".bin", ".onnx", ".pt"):
            target = into / path.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    part = into / "model.safetensors.part"
    save_file({k: v.contiguous() for k, v in weights.items()}, part, metadata={"format": "pt"})
    part.replace(into / "model.safetensors")


def blend(base: Path, tuned: Path, share: float, into: Path) -> None:
    """`into` holds (1 − share)·base + share·tuned, weight by weight: what was learnt, less of the forgetting."""
    from safetensors.torch import load_file

    if not 0 <= share <= 1:
        raise InputError(f"train: a share of {share} of the tuned weights; give a number from 0 to 1")
    old, new = load_file(base / "model.safetensors"), load_file(tuned / "model.safetensors")
    mixed = {k: v if not v.is_floating_point() else old[k].to(v.dtype).lerp(v, share) for k, v in new.items()}
    save_model(tuned, mixed, into)


def _contents(corpus: Corpus, *parts: Sequence[Example]) -> Iterator[str]:
    for readings, group in zip(corpus.readings, corpus.groups, strict=True):
        yield fingerprint(*(text for one in readings for text in (str(len(one)), *one)), str(group))
    for examples in parts:
        for example in examples:
            also = ("also", *map(str, example.also)) if example.also else ()
            yield fingerprint(example.request, str(example.document), *map(str, example.negatives), *also)
