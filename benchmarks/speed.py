"""What a route costs: cold processes beside `python -c pass`, warm routes beside the encoder.

    python benchmarks/speed.py --home HOME --skills DIR --requests FILE [--rounds 20] [--limit 100]

HOME is an indexed home (`METIER_HOME=HOME metier index DIR`, or one route with --skills DIR and its build), FILE has a
JSON object with `text` a line. Cold: whole processes, the arms in turns, so that other load falls on all alike; each
figure stands beside `python -c pass` of the same turns, as wall clock and as processor time. Warm: one process, every
request new to it, processor time; `stage` is the reranker over a slate as shipped and over all fifty candidates read,
without what it spends on encoding the request's phrases, which stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the commands have it; it counts only before numpy is loaded

from common import RESULTS, commit, digest

METIER = "from metier.edge.cli.main import run; run()"
NUMPY = "import os, numpy; os._exit(0)"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--skills", type=Path, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=int, default=100, help="requests of the warm part")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines = given.requests.read_text(encoding="utf-8").splitlines()
    texts = [str(json.loads(line)["text"]) for line in lines if line.strip()]
    before = os.getloadavg()
    result = {
        "schema": "metier-benchmark-speed-v1",
        "command": f"python benchmarks/speed.py --rounds {given.rounds} --limit {given.limit}",
        "commit": commit(),
        "machine": {"processors": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "data": {given.requests.name: digest(given.requests)},
        "cold": cold(given, texts),
        "warm": warm(given, texts[: given.limit]),
        "load": [[round(x, 1) for x in load] for load in (before, os.getloadavg())],
    }
    path = given.out / f"speed-{commit()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result, indent=1) + f"\nwrote {path.name}\n")


def cold(given: argparse.Namespace, texts: Sequence[str]) -> dict[str, Any]:
    """Whole processes: medians in milliseconds, and how many times `python -c pass`."""
    short = [text for text in texts if len(text) <= 80] or list(texts)
    where = ["--home", str(given.home), "--skills", str(given.skills)]
    env = {**os.environ, "METIER_RESCAN": "86400"}  # looking at the folders again is another process's work
    arms: dict[str, Callable[[str], list[str]]] = {
        "python -c pass": lambda text: ["-c", "pass"],
        "import numpy": lambda text: ["-c", NUMPY],
        "metier route": lambda text: ["-c", METIER, "route", text, *where],
        "metier route --only retrieve": lambda text: ["-c", METIER, "route", text, *where, "--only", "retrieve"],
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for turn in range(given.rounds + 1):
        for name, words in arms.items():
            began = time.perf_counter()
            running = subprocess.Popen([sys.executable, *words(short[turn % len(short)])], env=env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
            _, status, usage = os.wait4(running.pid, 0)
            running.returncode = os.waitstatus_to_exitcode(status)
            if running.returncode:
                raise SystemExit(f"{name}: exit code {running.returncode}")
            if turn:  # the first turn fills the caches of the disk
                wall = 1000 * (time.perf_counter() - began)
                took[name].append((wall, 1000 * (usage.ru_utime + usage.ru_stime)))
    middle = {name: [statistics.median(column) for column in zip(*pairs, strict=True)] for name, pairs in took.items()}
    base = middle["python -c pass"]
    return {
        name: {
            "wall_ms": round(wall, 1), "wall_times": round(wall / base[0], 1),
            "processor_ms": round(cpu, 1), "processor_times": round(cpu / base[1], 1),
        }
        for name, (wall, cpu) in middle.items()
    }  # fmt: skip


class Watched:
    """An encoder, and the processor time spent in it."""

    def __init__(self, real: Any) -> None:
        self.real, self.profile, self.ms = real, real.profile, 0.0

    def encode(self, texts: Sequence[str], *, kind: Any) -> Any:
        """As the encoder itself."""
        began = time.process_time()
        try:
            return self.real.encode(texts, kind=kind)
        finally:
            self.ms += 1000 * (time.process_time() - began)


def warm(given: argparse.Namespace, texts: Sequence[str]) -> dict[str, Any]:
    """One process, processor time in milliseconds: a route, the encoder alone, the reranker over fifty candidates."""
    from metier.assemble import settings
    from metier.assemble.workshop import Workshop
    from metier.models.encoder import open_encoder
    from metier.rerank.keep import Graphs
    from metier.rerank.witness import Rerank
    from metier.types import Slate, Task

    config, _ = settings.load(flags={"home": str(given.home), "rescan": 86400})
    shop = Workshop(config, paths=[given.skills])
    router = shop.router()
    alone: Any = open_encoder(config.encoder)
    for encoder in (shop.encoder, alone):
        if hasattr(encoder, "warm"):
            encoder.warm()
    for text in ("warm up the route", "and once more, to be sure"):
        router.route(text)
    routes, encodes = [], []
    for text in texts:
        routes.append(spent(lambda text=text: router.route(text)))  # type: ignore[misc]
        encodes.append(spent(lambda text=text: alone.encode([text], kind="query")))  # type: ignore[misc]
    slates = [router.stages[0](Slate("r", Task(text))) for text in texts]
    slates = [slate for slate in slates if len(slate.candidates) == config.slate]
    watched = Watched(alone)
    shipped = getattr(router.stages[1], "families", None)
    graphs = Graphs(shop.body, shop.store)

    def read(skill: Any) -> Any:  # without outlines, by which most candidates would not be read
        return graphs(skill)

    return {
        "skills": len(shop.library.skills),
        "route": spread(routes),
        "encode": spread(encodes),
        "beyond_encoder": spread([a - b for a, b in zip(routes, encodes, strict=True)]),
        "stage_as_shipped": over(Rerank(Graphs(shop.body, shop.store), watched, families=shipped), slates, watched),
        "stage_all_read": over(Rerank(read, watched), slates, watched),
        "stage_all_read_again": over(Rerank(read, watched), slates, watched),
    }


def over(stage: Any, slates: Sequence[Any], watched: Watched) -> dict[str, Any]:
    """The stage over these slates: its own time, and what it spent on encoding phrases."""
    own, phrases = [], []
    for slate in slates:
        watched.ms = 0.0
        whole = spent(lambda slate=slate: stage(slate))  # type: ignore[misc]
        own.append(whole - watched.ms)
        phrases.append(watched.ms)
    return {"slates": len(slates), **spread(own), "encoding_phrases": spread(phrases)}


def spent(act: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    began = time.process_time()
    act()
    return 1000 * (time.process_time() - began)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and 95% quantile."""
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 1), "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 1)}


if __name__ == "__main__":
    main()
