"""What a hook costs the host: cold, warm through the server's command, warm over HTTP, and whether the answers agree.

    python benchmarks/hooks.py --home HOME [--project DIR] [--requests FILE] [--rounds 40]

HOME is an indexed home (`metier index …`), DIR the folder the agent works in, FILE has a JSON object with `text` a
line. Only answers whose first skill is the in-process router's count. Everything is measured on this machine alone;
other load shows in `load`, every figure stands beside `python -c pass` of the same minutes, and the processor time of
each process is given too, which other load disturbs less.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metier.assemble.settings import load
from metier.assemble.workshop import Workshop
from metier.edge.hooks import entry

REQUESTS = (
    "why is this postgres query so slow", "write the release notes for version 2.1", "fill in this scanned tax form",
    "get the branch back that I deleted yesterday", "turn the meeting transcript into minutes",
    "make the docker image smaller", "clean up this messy csv export", "find the first error in these logs",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--project", type=Path, default=Path.cwd())
    parser.add_argument("--requests", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    texts = list(REQUESTS)
    if args.requests:
        lines = args.requests.read_text(encoding="utf-8").splitlines()
        texts = [str(json.loads(line)["text"]) for line in lines if line.strip()]
    result = measure(args.home.absolute(), args.project.absolute(), texts, args.rounds)
    result["command"] = f"python benchmarks/hooks.py --home HOME --project DIR --rounds {args.rounds}"
    sha = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout
    out = Path(__file__).parent / "results" / f"hooks-{sha.strip()}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(
        json.dumps([result["ms"], result["processor_ms"]], indent=None) + f"\n{result['agree']} agree\n{out}\n"
    )


def measure(home: Path, project: Path, texts: list[str], rounds: int) -> dict[str, Any]:
    """Medians and 95% quantiles in milliseconds, the arms interleaved so that load falls on all alike."""
    env = {**os.environ, "METIER_HOME": str(home), "METIER_HOOK_DEADLINE": "60"}
    config, _ = load(flags={"home": str(home), "host": "claude-code"}, cwd=project)
    shop = Workshop(config, cwd=project)
    router = shop.router(source="hook")
    command = [sys.executable, "-I", str(entry.__file__), "claude-code"]
    number = iter(range(1_000_000))

    def event(text: str) -> bytes:
        session = f"bench-{os.getpid()}-{next(number)}"
        given = {"hook_event_name": "UserPromptSubmit", "prompt": text, "session_id": session, "cwd": str(project)}
        return json.dumps(given).encode()

    spent = [0.0]
    took: dict[str, list[float]] = {}
    worked: dict[str, list[float]] = {}

    def process(words: list[str], data: bytes = b"") -> bytes:
        running = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        if running.stdin is None or running.stdout is None:
            raise OSError("no pipes")
        running.stdin.write(data)
        running.stdin.close()
        said = running.stdout.read()
        _, _, usage = os.wait4(running.pid, 0)
        running.returncode = 0
        spent[0] = (usage.ru_utime + usage.ru_stime) * 1000
        return said

    agreed: dict[str, list[bool]] = {}
    otherwise: dict[str, Counter[str]] = {}

    def timed(name: str, act: Callable[[], bytes], text: str | None = None) -> None:
        began, spent[0] = time.perf_counter(), 0.0
        said = act()
        took.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        if spent[0]:
            worked.setdefault(name, []).append(spent[0])
        if text is not None:
            agreed.setdefault(name, []).append(first(said) == expected[text])
            if not agreed[name][-1]:
                otherwise.setdefault(name, Counter())["{}" if first(said) is None else "another skill first"] += 1

    expected = {text: first_of(router.route(text, stack=config.stack).text) for text in texts}
    process(command, event(texts[0]))  # the first run of all compiles
    for n in range(max(4, rounds // 4)):
        text = texts[n % len(texts)]
        timed("python -c pass (beside cold)", lambda: process([sys.executable, "-c", "pass"]))
        timed("command, cold", lambda text=text: process(command, event(text)), text)  # type: ignore[misc]
        timed("command, small talk", lambda: process(command, event("thanks!")))
    with served(home, env) as running:
        link = http.client.HTTPConnection("127.0.0.1", running["port"], timeout=60)

        def over_http(data: bytes) -> bytes:
            headers = {"Authorization": f"Bearer {running['token']}", "Content-Type": "application/json"}
            link.request("POST", "/v1/hook/claude-code", data, headers)
            return link.getresponse().read()

        for text in texts[:3]:
            over_http(event(text))
        for n in range(rounds):
            text = texts[n % len(texts)]
            timed("python -c pass (beside warm)", lambda: process([sys.executable, "-c", "pass"]))
            timed("command, warm server", lambda text=text: process(command, event(text)), text)  # type: ignore[misc]
            timed("http hook, warm server", lambda text=text: over_http(event(text)), text)  # type: ignore[misc]
    return {
        "skills": len(shop.library.skills),
        "encoder": config.encoder if shop.complete() else "none (words alone)",
        "rounds": rounds,
        "ms": {name: quantiles(values) for name, values in took.items()},
        "processor_ms": {name: quantiles(values) for name, values in worked.items()},
        "agree": {name: f"{sum(values)}/{len(values)}" for name, values in agreed.items()},
        "otherwise": {name: dict(counts) for name, counts in otherwise.items()},
        "load": [round(x, 1) for x in os.getloadavg()],
        "machine": {"cpus": os.cpu_count(), "cpu": platform.machine(), "python": platform.python_version()},
    }


class served:
    """`metier serve` of this home, for as long as the block lasts."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home, self.env = home, env

    def __enter__(self) -> dict[str, Any]:
        words = [
            sys.executable,
            "-I",
            "-m",
            "metier.edge.cli.main",
            "serve",
            "--port=0",
            "--quiet",
            f"--home={self.home}",
        ]
        self.process = subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.process.stdout is None:
            raise OSError("no pipe")
        self.process.stdout.readline()  # it says where it is once it listens
        return dict(json.loads((self.home / "serve.json").read_text(encoding="utf-8")))

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def first(answer: bytes) -> str | None:
    """The first skill named in a hook's answer."""
    said = json.loads(answer)
    return first_of(said["hookSpecificOutput"]["additionalContext"]) if said else None


def first_of(text: str) -> str | None:
    """The first skill named in the text for an agent: a loaded body's, else the first card's."""
    found = re.search(r"^(?:<<<skill \w+ · (?P<body>[^·\n]+) ·|- (?P<card>[^:\n]+):)", text, re.M)
    return (found["body"] or found["card"]).strip() if found else None


def quantiles(values: list[float]) -> dict[str, float]:
    """Median, 95% quantile and minimum."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
        "min": round(ordered[0], 1),
        "n": len(ordered),
    }


if __name__ == "__main__":
    main()
