"""The page that goes with a tuned encoder: where it comes from, what it learnt from, what was measured, its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from metier.models.finetune import Result
from metier.models.learner import Settings

QUANTISATION_LOSS = 0.5
"""MRR@10 points that int8 may cost against float32 before an encoder is refused (issue: learned representation)."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Whose work the weights are."""

    base: str
    base_sha256: str
    licence: str
    changed: str


def card(
    name: str,
    lineage: Lineage,
    settings: Settings,
    result: Result,
    sources: Mapping[str, int],
    measured: Sequence[tuple[str, float, float]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Markdown. `measured` are rows (what, untuned, tuned) in MRR@10 percent."""
    lines = [
        f"# {name}",
        "",
        f"An encoder for finding the skill that answers a request. Base: {lineage.base} (sha256 of its weights "
        f"{lineage.base_sha256}), {lineage.licence}. {lineage.changed}",
        "",
        "## Training",
        "",
        f"Contrastive (InfoNCE, temperature {settings.temperature:g}), {result.steps} steps of {settings.batch} pairs, "
        f"AdamW at {settings.rate:g} with {100 * settings.warmup:g}% warm-up and cosine decay, "
        f"{settings.negatives} hard negatives a pair, documents read to {settings.document_tokens} tokens, "
        f"seed {settings.seed}, best weights at step {result.best_step} by held-out MRR@10 "
        f"({result.untuned_mrr:.1f} before, {result.best_mrr:.1f} after).",
        "",
        "| source | pairs |",
        "|---|---|",
        *[f"| {source} | {count} |" for source, count in sorted(sources.items())],
        "",
        "All settings: `" + ", ".join(f"{k}={v}" for k, v in asdict(settings).items()) + "`",
    ]
    if measured:
        lines += ["", "## Measured (MRR@10)", "", "| | untuned | tuned |", "|---|---|---|"]
        lines += [f"| {what} | {before:.1f} | {after:.1f} |" for what, before, after in measured]
    lines += ["", "## Limits", "", *[f"- {note}" for note in (*notes, *LIMITS)], ""]
    return "\n".join(lines)


LIMITS = (
    "It reads mostly English; requests in other languages are measured apart and left to the lexical channel where its "
    "tokenizer does not know them.",
    "It ranks by meaning; whether a skill helps is the gate's question, not its own.",
)


def refused(float32: float, int8: float) -> str | None:
    """Why the exported model may not be used, or None: both in MRR@10 percent on the same requests."""
    loss = float32 - int8
    if loss <= QUANTISATION_LOSS:
        return None
    return (
        f"int8 lost {loss:.2f} MRR@10 on the held-out requests (at most {QUANTISATION_LOSS:g}); keep the float32 folder"
    )


def facts(settings: Settings, result: Result, sources: Mapping[str, int]) -> dict[str, Any]:
    """The same in JSON."""
    return {"settings": asdict(settings), "result": asdict(result), "pairs": dict(sources)}
