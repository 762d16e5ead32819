"""How retrieval grows: 1,000 to 100,000 skills made by perturbing real ones; build, memory, cold load, warm request.

    python benchmarks/scale.py --skills ../shared/data/skills.jsonl.xz \
        --requests ../shared/data/skillsbench-dev.requests.jsonl [--size 1000 --size 12610 --size 100000]

A copy of a skill has a fifth of its body's words exchanged for words of another skill's body. Documents get random unit
vectors, which cost retrieval what encoded ones cost: encoding 100,000 texts would measure the encoder. Requests are
encoded. Each size runs in a process of its own, so peak memory is that size's. Processor time beside the clock: the
machine may be busy with other things.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, keep, requests_of
from metier.evaluate.datasets import lines
from metier.models.encoder import open_encoder
from metier.retrieve.bm25 import query_weights
from metier.retrieve.index import Retrieve, build, load
from metier.text import fingerprint, words
from metier.types import Skill, Slate, Task

SIZES = (1_000, 3_000, 12_610, 30_000, 100_000)
EXCHANGED = 0.2
REPEATS = 3


class RandomDocuments:
    """The real encoder for requests; for documents a unit vector drawn from the text's hash."""

    def __init__(self, real: Any) -> None:
        self.real, self.profile = real, real.profile

    def encode(self, texts: Sequence[str], *, kind: Any) -> Any:
        """float32 (n, d) unit rows."""
        if kind == "query":
            return self.real.encode(texts, kind=kind)
        seeds = [int(fingerprint(text)[:8], 16) for text in texts]
        drawn = np.array([np.random.default_rng(seed).standard_normal(self.profile.dim) for seed in seeds])
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def perturbed(rows: list[dict[str, Any]], size: int) -> tuple[list[Skill], Any]:
    """`size` skills and the function that makes their bodies when asked, so that they are never all in memory."""
    skills = []
    for n in range(size):
        row = rows[n % len(rows)]
        name = row["name"] if n < len(rows) else f"{row['name']}-{n // len(rows)}"
        digest = fingerprint(str(n), row["body"])
        skills.append(Skill(f"given:{n:06}-{name}", name, row["description"], digest, "/", "given", ("/",)))

    def body(skill: Skill) -> str:
        n = int(skill.id[6:12])
        pieces = rows[n % len(rows)]["body"].split(" ")
        if n < len(rows):
            return " ".join(pieces)
        draw, other = random.Random(n), rows[(n * 7919) % len(rows)]["body"].split(" ")
        for place in draw.sample(range(len(pieces)), int(EXCHANGED * len(pieces))):
            pieces[place] = draw.choice(other)
        return " ".join(pieces)

    return skills, body


def one(given: Any, size: int, texts: Sequence[str]) -> dict[str, Any]:
    """Build, load and ask an index of one size."""
    rows = [value for path in given.skills for _, value in lines(path)][:size]
    real = open_encoder(given.encoder)
    skills, body = perturbed(rows, size)
    before = _peak()
    with tempfile.TemporaryDirectory() as scratch:
        encoder = RandomDocuments(real)
        made = build(skills, body, encoder, into=Path(scratch, "index"), vectors=Path(scratch, "vectors"))
        after, disk = _peak(), sum(f.stat().st_size for f in Path(scratch, "index").iterdir())
        began = time.perf_counter()
        index = load(Path(scratch, "index"))
        opened = 1000 * (time.perf_counter() - began)
        stage = Retrieve(index, skills, encoder, abstain=False)
        taken: dict[str, list[tuple[float, float]]] = {"request": [], "encoder": [], "bm25": []}
        for text in [*texts[:2], *list(texts) * REPEATS]:
            weights = query_weights(words(text))
            for name, act in (
                ("request", lambda t=text: stage(Slate("", Task(t)))),
                ("encoder", lambda t=text: real.encode([t], kind="query")),
                ("bm25", lambda w=weights: index.lexical.scores(w)),
            ):
                clock, processor = time.perf_counter(), time.process_time()
                act()
                taken[name].append((1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - processor)))
    wall, cpu = ({name: np.array(pairs[2:])[:, part] for name, pairs in taken.items()} for part in (0, 1))
    return {
        "skills": size, "build_seconds": round(made.seconds - made.encode_seconds, 1), "index_mb": round(disk / 1e6, 1),
        "peak_mb": {"skills alone": round(before), "after building": round(after), "after asking": round(_peak())},
        "load_ms": round(opened, 2), "words": round(float(np.mean([len(t.split()) for t in texts]))),
        "wall_ms": {**{name: _spread(ms) for name, ms in wall.items()},
                    "beyond encoder": _spread(wall["request"] - wall["encoder"])},
        "processor_ms": {**{name: _spread(ms) for name, ms in cpu.items()},
                         "beyond encoder": _spread(cpu["request"] - cpu["encoder"])},
    }  # fmt: skip


def _spread(values: Any) -> dict[str, float]:
    return {"p50": round(float(np.percentile(values, 50)), 2), "p95": round(float(np.percentile(values, 95)), 2)}


def _peak() -> float:
    """Peak resident memory of this process in MB (mapped files included)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--only", type=int, help="measure one size and print it; what the sizes' own processes run")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.only:
        texts = [request.text for request in requests_of(given)]
        sys.stdout.write(json.dumps(one(given, given.only, texts)) + "\n")
        return
    curve = []
    for size in given.size or SIZES:
        command = [sys.executable, __file__, *sys.argv[1:], "--only", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
        curve.append(json.loads(done.stdout.splitlines()[-1]))
        sys.stdout.write(json.dumps(curve[-1]) + "\n")
    keep("scale", given, began, {"curve": curve})


if __name__ == "__main__":
    main()
