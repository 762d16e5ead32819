"""What the default encoder costs: skills a second, milliseconds a request, memory, and the start of a cold process.

    python benchmarks/encoder.py ../shared/data/skills.jsonl.xz [--skills 400] [--encoder minilm] [--repeats 15]

Each figure is measured in a process of its own; where the machine is shared, trust the processor's time. Skills are
name, description and body, only those that fill all of the encoder's tokens; requests are the first sentences of
descriptions, one at a time. Writes benchmarks/results/encoder-<sha12>.json and prints it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OPENERS = {".xz": lzma.open, ".gz": gzip.open}
REQUESTS = 200
CHARACTERS = 2500
"""A text this long fills 256 tokens."""
COLD = {
    "python": "pass",
    "numpy": "import numpy",
    "open": "from metier.models.encoder import open_encoder; open_encoder({spec!r})",
    "first request": (
        "from metier.models.encoder import open_encoder\n"
        "open_encoder({spec!r}).encode(['fill in this PDF form with data of a spreadsheet'], kind='query')"
    ),
    "first request by onnxruntime": (
        "from metier.models.encoder import open_encoder\n"
        "open_encoder({spec!r}).encode(['fill in this PDF form with data of a spreadsheet'], kind='document')"
    ),
}
"""What a new interpreter is asked to do; each line contains the ones before it, but for the last two."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("library", type=Path, help="skills as JSONL, plain, .gz or .xz")
    arguments.add_argument("--skills", type=int, default=400)
    arguments.add_argument("--encoder", default="minilm")
    arguments.add_argument("--repeats", type=int, default=15, help="cold starts of each kind")
    arguments.add_argument("--out", type=Path, default=HERE / "results")
    arguments.add_argument("--only", choices=["bulk", "requests"], help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.only:
        measure = bulk if given.only == "bulk" else requests
        sys.stdout.write(json.dumps(measure(given.library, given.encoder, given.skills)))
        return
    result = {
        "schema": "metier-benchmark-encoder-v1",
        "encoder": given.encoder,
        "machine": {"processors": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "bulk": again(given, "bulk"),
        "requests": again(given, "requests"),
        "cold start ms": {name: cold(code.format(spec=given.encoder), given.repeats) for name, code in COLD.items()},
    }
    text = json.dumps(result, indent=1)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"encoder-{commit()}.json").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


def again(given: argparse.Namespace, only: str) -> Any:
    """The measurement made by this script in a new process, so that memory is its own."""
    command = [sys.executable, __file__, str(given.library), "--encoder", given.encoder, "--skills", str(given.skills)]
    return json.loads(subprocess.run([*command, "--only", only], capture_output=True, check=True).stdout)


def bulk(library: Path, spec: str, count: int) -> dict[str, Any]:
    from metier.models.encoder import open_encoder

    encoder = open_encoder(spec)
    texts = list(islice((t for t in texts_of(library) if len(t) >= CHARACTERS), count))
    encoder.encode(texts[:2], kind="document")
    before = memory()
    started, spent = time.perf_counter(), time.process_time()
    encoder.encode(texts, kind="document")
    seconds, spent = time.perf_counter() - started, time.process_time() - spent
    return {
        "skills": len(texts), "tokens each": encoder.profile.max_tokens, "seconds": round(seconds, 2),
        "skills per second": round(len(texts) / seconds, 1),
        "processor ms each": round(1000 * spent / len(texts), 1), "peak MB": memory(), "of it before": before,
    }  # fmt: skip


def requests(library: Path, spec: str, count: int) -> dict[str, Any]:
    from metier.models.encoder import open_encoder

    encoder = open_encoder(spec)
    asked = [json.loads(line)["description"].split(". ")[0][:200] for line in islice(lines(library), REQUESTS)]
    encoder.encode(asked[:20], kind="document")
    taken = []
    for text in asked:
        started = time.perf_counter()
        encoder.encode([text], kind="query")
        taken.append(1000 * (time.perf_counter() - started))
    ranked = sorted(taken)
    return {
        "requests": len(asked), "p50 ms": round(statistics.median(taken), 2),
        "p95 ms": round(ranked[int(0.95 * len(ranked))], 2), "peak MB": memory(),
    }  # fmt: skip


def cold(code: str, repeats: int) -> dict[str, float]:
    """Wall and processor time of whole processes, as `metier` starts them (one BLAS thread)."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    taken, spent = [], []
    for _ in range(repeats):
        started, before = time.perf_counter(), os.times()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        taken.append(1000 * (time.perf_counter() - started))
        after = os.times()
        spent.append(1000 * (after[2] + after[3] - before[2] - before[3]))
    shown = {"min": min(taken), "median": statistics.median(taken), "processor": statistics.mean(spent)}
    return {name: round(value, 1) for name, value in shown.items()}


def texts_of(library: Path) -> Iterator[str]:
    for line in lines(library):
        skill = json.loads(line)
        yield f"{skill['name']}\n{skill['description']}\n{skill['body']}"


def lines(library: Path) -> Iterator[str]:
    with OPENERS.get(library.suffix, open)(library, "rt", encoding="utf-8") as file:
        yield from file


def memory() -> float:
    """Peak resident megabytes of this process."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 if sys.platform == "linux" else 1024 * 1024), 1)


def commit() -> str:
    found = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:12] if found.returncode == 0 else "uncommitted"


if __name__ == "__main__":
    main()
