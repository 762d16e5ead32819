"""What training promises: the same seed gives the same encoder, killed or not, and int8 costs next to nothing.

    python benchmarks/tuning.py --skills ../shared/data/skills.jsonl.xz \
        --skills ../shared/data/skillsbench-dev.gold.jsonl --skills ../shared/data/sra-dev.gold.jsonl \
        --requests ../shared/data/skillsbench-dev.requests.jsonl --requests ../shared/data/sra-dev.requests.jsonl \
        --base FOLDER --weights FOLDER --scratch FOLDER

Needs torch. BASE is the untuned model as training/make_metier_small.py unpacks it, WEIGHTS the float32 weights that it
blended. Twice the recipe of make_metier_small.py over its first --pairs pairs, and once more killed after its last
checkpoint but one and resumed: held-out MRR@10 and weights are compared. Then --pool skills and all gold are ranked
dense alone by the float32 weights and by the int8 export. Into results/tuning-<sha12>.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from common import HERE, arguments, keep, requests_of
from finetune import DEPTH, half, parts_of, read
from metier.evaluate.grids import halves
from metier.evaluate.metrics import measure, paired_bootstrap
from metier.models.encoder import open_encoder
from metier.retrieve.vectors import unit

EVERY = 3
"""Steps between checkpoints of the short runs."""


class Killed(Exception):
    """Raised where the run would die."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=384)
    parser.add_argument("--pool", type=int, default=1500)
    given = parser.parse_args()
    began = time.perf_counter()
    result = {"short run": repeated(given), "int8": int8(given)}
    keep("tuning", given, began, result)


def repeated(given: argparse.Namespace) -> dict[str, Any]:
    """Two short runs of one seed, and a third that dies and goes on."""
    sys.path.insert(0, str(HERE.parent / "training"))
    from make_metier_small import SETTINGS, material
    from safetensors.torch import load_file

    from metier.models import dataset
    from metier.models.finetune import tune
    from metier.retrieve.byword import by_words

    known, asked, _ = material(given.skills[0], given.skills[1:], given.scratch, ["weak"])
    order = np.random.default_rng(0).permutation(len(asked))[: given.pairs + given.pairs // 8]
    some = [asked[i] for i in sorted(order.tolist())]
    wanted = {pair.skill for pair in some}
    prepared = dataset.prepare([k for k in known if k.id in wanted], some, open_encoder("minilm"), by_words)
    settings = replace(SETTINGS, every=EVERY, patience=0)

    def run(name: str, die_at: int = 0) -> Any:
        def report(step: int, steps: int, loss: float, mrr: float) -> None:
            if die_at and step >= die_at:
                raise Killed

        folder = given.scratch / name
        return tune(given.base, prepared.corpus, prepared.examples, prepared.held_out, settings, folder, report=report)

    first, second = run("first"), run("second")
    try:
        run("killed", die_at=2 * EVERY)
    except Killed:
        third = run("killed")
    weights = [load_file(given.scratch / name / "model.safetensors") for name in ("first", "second", "killed")]

    def apart(other: int) -> float:
        return max(float((weights[0][k] - weights[other][k]).abs().max()) for k in weights[0])

    return {
        "pairs": len(prepared.examples), "held_out": len(prepared.held_out), "steps": first.steps,
        "settings": asdict(settings), "untuned held-out mrr@10": round(first.untuned_mrr, 2),
        "held-out mrr@10": {"first": first.history, "second": second.history, "killed and resumed": third.history},
        "resumed_at": third.resumed_at,
        "largest difference of a weight": {"second": apart(1), "killed and resumed": apart(2)},
    }  # fmt: skip


def int8(given: argparse.Namespace) -> dict[str, Any]:
    """MRR@10 of the float32 weights and of the export, paired."""
    from metier.models.learner import Learner, Settings

    documents = read(given.skills, given.pool)
    requests = requests_of(given)
    exported, learner = open_encoder(given.tuned), Learner(given.weights, Settings(bf16=False))
    learner.torch.set_num_threads(2)
    cards, bodies = parts_of(documents, exported.profile.max_tokens)
    texts = [r.text for r in requests]
    ids = [d.id for d in documents]
    gold = {str(n): dict.fromkeys(r.gold, 1.0) for n, r in enumerate(requests)}
    sets = [r.dataset for r in requests]
    values = {}
    for name, encode in (
        ("float32", learner.encode),
        ("int8", lambda part, kind: exported.encode(part, kind=kind)),
    ):
        vectors = np.array([unit(row) for row in encode(cards, "document") + encode(bodies, "document")])
        rows = np.argsort(-(encode(texts, "query") @ vectors.T), axis=1, kind="stable")[:, :DEPTH]
        values[name] = {"mrr@10": measure("mrr@10", {str(n): [ids[i] for i in r] for n, r in enumerate(rows)}, gold)}
    before, after = values["float32"]["mrr@10"], values["int8"]["mrr@10"]
    return {
        "skills": len(documents),
        "mrr@10": {name: round(100 * float(np.mean([v["mrr@10"][np.asarray(sets) == s].mean() for s in set(sets)])), 2)
                   for name, v in values.items()},
        "change": paired_bootstrap(before, after, sets).as_dict(),
        "second half": half(values, ("float32", "int8"), halves(sets).second, sets, sets)["all datasets"],
    }  # fmt: skip


if __name__ == "__main__":
    main()
