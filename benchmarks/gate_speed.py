"""What the gate adds to a route, and what an outcome costs to keep.

    python benchmarks/gate_speed.py

A bank of 100,000 rows over 2,000 skills with 384-dimensional embeddings; slates of 50 random skills; the encoder's own
time is left out (retrieval has encoded the request already, the memo answers). Appends are compared with a bare write
and fsync of as many bytes on the same disk. Writes benchmarks/results/gate-speed-<sha12>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from metier.gate.bank import Bank
from metier.gate.decide import Gate
from metier.gate.rows import Row
from metier.gate.runnable import Runnable
from metier.store import Store
from metier.types import Candidate, Outcome, Profile, Requirement, Skill, Slate, Task

SKILLS, PAIRS, DIM, SLATE = 2000, 25, 384, 50
STACK = "agent/model"


class Given:
    """An encoder that knows the request's vector already, as the shared memo does."""

    profile = Profile("given", DIM, 256)

    def __init__(self, vector: Any) -> None:
        self.vector = vector

    def encode(self, texts: Any, *, kind: str) -> Any:
        return np.repeat(self.vector, len(texts), axis=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--routes", type=int, default=300)
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where the store lies (default: a temporary folder)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        folder = Path(made)
        told = {
            "schema": "metier-benchmark-gate-speed-v1", "command": "python benchmarks/gate_speed.py",
            "commit": _git(), "machine": _machine(), "rows": 2 * SKILLS * PAIRS, "skills": SKILLS, "slate": SLATE,
            **_routes(folder, args.routes), **_appends(folder, args.appends),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"gate-speed-{told['commit']}.json"
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(told, indent=1))
    return 0


def _skill(number: int) -> Skill:
    needs = (Requirement("bin", ("sh",), True, "metadata.openclaw.requires.bins"),) if number % 3 == 0 else ()
    return Skill(f"given:s{number}", f"s{number}", "", f"d{number}", "/r", "given", (f"/r/s{number}",),
                 requires=needs, body_tokens=500)  # fmt: skip


def _fill(bank: Bank, rng: np.random.Generator) -> float:
    began = time.perf_counter()
    for start in range(0, SKILLS, 100):
        rows = []
        for number in range(start, start + 100):
            vectors = rng.normal(size=(PAIRS, DIM)) + rng.normal(size=DIM)
            for task in range(PAIRS):
                text = f"past task {task} of skill {number}: convert the file and check what came out of it"
                for arm in ("skip", "use"):
                    outcome = Outcome(text, (f"given:s{number}",), (f"d{number}",), STACK, arm,  # type: ignore[arg-type]
                                      float(rng.random() < 0.6), tokens=1000, origin="check", at=1.0)  # fmt: skip
                    rows.append(Row(outcome, vector=vectors[task] if arm == "use" else None, encoder="given"))
        bank.add(rows)
    return time.perf_counter() - began


def _routes(folder: Path, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    bank = Bank(Store(folder / "store.db"))
    filled = _fill(bank, rng)
    families = {f"given:s{n}": f"family {n // 4}" for n in range(SKILLS)}
    vector = rng.normal(size=(1, DIM)).astype(np.float32)
    stage = Gate(Bank(Store(folder / "store.db")), Given(vector / np.linalg.norm(vector)), Runnable(), families)
    skills = [_skill(n) for n in range(SKILLS)]

    spent_cpu: list[float] = []

    def once(number: int) -> float:
        chosen = np.random.default_rng(number).permutation(SKILLS)[:SLATE]
        slate = Slate(f"r_{number}", Task("convert this file", tools=frozenset({"bash"}), stack=STACK),
                      tuple(Candidate(skills[i], 50.0 - n) for n, i in enumerate(chosen)))  # fmt: skip
        began, busy = time.perf_counter(), time.process_time()
        judged = stage(slate)
        spent = (time.perf_counter() - began) * 1000.0
        spent_cpu.append((time.process_time() - busy) * 1000.0)
        assert len(judged.candidates) == SLATE and all(c.verdict.support == PAIRS for c in judged.candidates)
        return spent

    cold = once(0)
    for number in range(200):  # every skill has been asked for
        once(number)
    warm = [once(number) for number in range(count)]
    measured = spent_cpu[-count:]
    bank.append([Outcome("one more", ("given:s1",), ("d1",), STACK, "use", 1.0)])
    return {
        "fill_seconds": round(filled, 1), "gate_ms_cold_skills": round(cold, 2),
        "gate_ms_p50": round(float(np.median(warm)), 2), "gate_cpu_ms_p50": round(float(np.median(measured)), 2),
        "load": [round(each, 1) for each in os.getloadavg()],
        "gate_ms_p95": round(float(np.percentile(warm, 95)), 2),
        "gate_ms_after_a_new_row": round(once(1), 2),
    }  # fmt: skip


def _appends(folder: Path, count: int) -> dict[str, Any]:
    """Medians taken in turns, so that both meet the same disk."""
    bank = Bank(Store(folder / "store.db"))
    line = b"x" * 400
    bare, kept = [], []
    with (folder / "bare").open("ab", buffering=0) as file:
        for number in range(count):
            began = time.perf_counter()
            file.write(line)
            os.fsync(file.fileno())
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            bank.append([Outcome(f"a new task {number}", ("given:s5",), ("d5",), STACK, "use", 1.0, tokens=10)])
            kept.append(time.perf_counter() - began)
    one, two = float(np.median(bare)) * 1000.0, float(np.median(kept)) * 1000.0
    return {"fsync_ms_p50": round(one, 3), "append_ms_p50": round(two, 3), "append_over_fsync": round(two / one, 2)}


def _git() -> str:
    found = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True,
                           cwd=Path(__file__).parent)  # fmt: skip
    return found.stdout.strip()


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, numpy {np.__version__}"


if __name__ == "__main__":
    raise SystemExit(main())
