"""`/v1/route` under load: many clients, every request distinct, against the same work done alone in the same run.

    python benchmarks/serving.py --home HOME --requests FILE [--clients 16] [--seconds 60] [--alone 15] [--skills PATH]

HOME is an indexed home (`metier index …`), FILE has a JSON object with `text` a line; texts are made distinct by a
number, so that neither the encoder's memo nor anything else can answer twice. The server is a process of its own, so
are the clients, on the same cores: what a client costs is taken from the server. Beside the rates stands the processor
time of a request on either side, which other load on the machine hardly moves. `alone` is one thread in one process
that encodes and routes (log included) and does nothing else; load and alone take turns, so that what else the machine
does falls on both alike.
Also measured: pages of the dashboard to their first byte, warm. Every answer must be 200 with a candidate or a note.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import RESULTS, commit, digest

PAGES = ("/", "/library", "/library?q=pdf+table", "/library?offset=6000", "/evidence", "/routes", "/operations")
WARM, WARM_SECONDS = 400, 30.0
"""Requests before anything counts, on either side: until then skills and look-ups are read for the first time."""
ROUNDS = 12
"""Visits of a page; the first is not counted (it fills what is kept)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--alone", type=float, default=30.0, help="seconds without load, in all")
    parser.add_argument("--turns", type=int, default=6, help="slices that load and alone are cut into")
    parser.add_argument("--skills", type=Path, help="these alone")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines = given.requests.read_text(encoding="utf-8").splitlines()
    texts = [str(json.loads(line)["text"])[:2000] for line in lines if line.strip()]
    words = [f"--home={given.home.absolute()}", *([f"--skills={given.skills.absolute()}"] if given.skills else [])]

    with served(words) as (address, token, pid), alone(given, texts) as measure:
        warm = Client(address, token, numbered(texts, 10_000_000))
        until = time.perf_counter() + WARM_SECONDS
        for _ in range(WARM):
            warm.one()
            if time.perf_counter() > until:
                break
        pages = {path: first_byte(address, token, path) for path in PAGES}
        alones, loads, memory = [], [], [resident(pid)]
        for turn in range(given.turns):
            alones.append(measure(given.alone / given.turns))
            loads.append(under_load(address, token, pid, texts, given.clients, given.seconds / given.turns, turn))
            memory.append(resident(pid))
    ms = [value for load in loads for value in load["ms"]]
    rate = len(ms) / given.seconds
    one = sum(a["per_second"] for a in alones) / len(alones)
    result = {
        "schema": "metier-benchmark-serving-v1",
        "command": f"python benchmarks/serving.py --clients {given.clients} --seconds {given.seconds:g}",
        "commit": commit(),
        "machine": {"processors": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "load": [round(x, 1) for x in os.getloadavg()],
        "data": {given.requests.name: digest(given.requests)},
        "skills": alones[0]["skills"],
        "rerank": os.environ.get("METIER_RERANK_ON", "true"),
        "alone_per_second": [a["per_second"] for a in alones],
        "served_per_second": [round(len(load["ms"]) * given.turns / given.seconds, 1) for load in loads],
        "share": round(rate / one, 3),
        "cpu_ms": {
            "alone": round(sum(a["cpu_ms"] for a in alones) / len(alones), 1),
            "served": round(1000 * sum(load["cpu"] for load in loads) / len(ms), 1),
        },
        "ms": quantiles(ms),
        "requests": len(ms),
        "errors": sum(load["errors"] for load in loads),
        "memory_mb": memory,
        "first_byte_ms": pages,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"serving-{commit()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result, indent=1) + f"\nwrote {path.name}\n")
    return 0


def numbered(texts: list[str], start: int) -> Iterator[str]:
    """The texts round and round, each with a number no other request has."""
    number = start
    while True:
        yield f"{texts[number % len(texts)]} (case {number})"
        number += 1


@contextmanager
def alone(given: argparse.Namespace, texts: list[str]) -> Iterator[Callable[[float], dict[str, Any]]]:
    """Encode and route in a process of its own, one thread, for as many seconds as it is told."""
    told = json.dumps({"home": str(given.home), "skills": str(given.skills or ""), "texts": texts[:400]})
    words = [sys.executable, str(Path(__file__).absolute()), "--child-alone", told]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # as `metier serve` has it; a second thread makes it slower
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def measure(seconds: float) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        return dict(json.loads(process.stdout.readline()))

    try:
        yield measure
    finally:
        process.communicate()


def child_alone(told: dict[str, Any]) -> None:
    from metier.assemble.settings import load
    from metier.assemble.workshop import Workshop

    config, _ = load(flags={"home": told["home"]})
    shop = Workshop(config, paths=[Path(told["skills"])] if told["skills"] else None)
    router = shop.router(source="http")
    asked = numbered(told["texts"], 50_000_000)
    until = time.perf_counter() + WARM_SECONDS
    for _ in range(WARM):  # as warm as a server is after its first few hundred requests
        router.route(next(asked))
        if time.perf_counter() > until:
            break
    for line in sys.stdin:
        n, began, spent = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < float(line):
            router.route(next(asked))
            n += 1
        took, spent = time.perf_counter() - began, time.process_time() - spent
        said = {"per_second": round(n / took, 1), "cpu_ms": round(1000 * spent / n, 1)}
        sys.stdout.write(json.dumps({**said, "skills": len(shop.library.skills)}) + "\n")
        sys.stdout.flush()


class served:
    """`metier serve` as a process, for as long as the block lasts."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def __enter__(self) -> tuple[str, str, int]:
        command = [sys.executable, "-m", "metier.edge.cli.main", "serve", "--port=0", "--json", *self.words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        home = Path(self.words[0].partition("=")[2])
        return told["address"].partition("//")[2], (home / "token").read_text().strip(), told["pid"]

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(30)


class Client:
    """One connection that asks one request after another."""

    def __init__(self, address: str, token: str, asked: Iterator[str]) -> None:
        self.wire = http.client.HTTPConnection(address, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.asked = asked

    def one(self) -> tuple[float, bool]:
        """(milliseconds, whether the answer was right) of the next request."""
        body = json.dumps({"task": next(self.asked)})
        began = time.perf_counter()
        self.wire.request("POST", "/v1/route", body, self.headers)
        answer = self.wire.getresponse()
        data = answer.read()
        took = (time.perf_counter() - began) * 1000
        return took, answer.status == 200 and data.startswith(b'{"schema":"metier-route-v1"')


def child_clients(told: dict[str, Any]) -> None:
    """Several clients in one process, a thread each, until the time is up."""
    ms: list[float] = []
    errors = [0]

    def run(number: int) -> None:
        client = Client(
            told["address"], told["token"], numbered(told["texts"], (told["turn"] * 100 + number) * 100_003)
        )
        while time.perf_counter() < until:
            took, right = client.one()
            ms.append(took)
            errors[0] += not right

    until = time.perf_counter() + told["seconds"]
    threads = [threading.Thread(target=run, args=(n,)) for n in range(told["clients"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"ms": [round(v, 2) for v in ms], "errors": errors[0]}))


def under_load(
    address: str, token: str, pid: int, texts: list[str], clients: int, seconds: float, turn: int
) -> dict[str, Any]:
    """What the clients measured in one turn, and the processor time that the server used."""
    told = {"address": address, "token": token, "texts": texts[:400], "clients": clients, "seconds": seconds}
    words = [sys.executable, str(Path(__file__).absolute()), "--child-clients", json.dumps({**told, "turn": turn})]
    before = processor(pid)
    heard = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
    return {**json.loads(heard), "cpu": processor(pid) - before}


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def first_byte(address: str, token: str, path: str) -> dict[str, float]:
    """Milliseconds from asking for a page to the first byte of its answer."""
    took = []
    for _ in range(ROUNDS):
        wire = http.client.HTTPConnection(address, timeout=60)
        began = time.perf_counter()
        wire.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = wire.getresponse()
        took.append((time.perf_counter() - began) * 1000)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}")
        answer.read()
        wire.close()
    return quantiles(took[1:])


def quantiles(values: list[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile, and the largest."""
    ordered = sorted(values)
    at = {f"p{int(100 * q)}": ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.95, 0.99)}
    return {name: round(value, 1) for name, value in {**at, "max": ordered[-1]}.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child-alone"]:
        child_alone(json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["--child-clients"]:
        child_clients(json.loads(sys.argv[2]))
    else:
        raise SystemExit(main())
