"""What every benchmark here needs: a workshop over given files, and a result file that says how it came about."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The flags that all of them take: data, home, encoder, and where the result goes."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--skills", action="append", required=True, type=Path, help="pool and gold; may repeat")
    parser.add_argument("--requests", action="append", required=True, type=Path, help="may repeat")
    parser.add_argument("--home", type=Path, help="metier's home: vectors are kept there (default: $METIER_HOME)")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--tuned", default="metier-small", help="the encoder that `tuned` stands for")
    parser.add_argument("--asked", type=Path, help="generated requests a skill: JSONL of {skill, requests}")
    parser.add_argument("--limit", type=int, help="only the first N requests of each dataset")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser


def benches_of(given: argparse.Namespace) -> Any:
    """The indexes of `metier eval retrieval`, for these arguments."""
    from metier.assemble import settings
    from metier.edge.cli.benches import Benches
    from metier.edge.cli.screen import Screen

    config, _ = settings.load(flags={"home": given.home, "encoder": given.encoder})
    wanted = argparse.Namespace(
        config=config, skills=given.skills, asked=given.asked, tuned=given.tuned, untuned=given.encoder
    )
    return Benches(wanted, Screen(quiet=True))


def requests_of(given: argparse.Namespace) -> list[Any]:
    """The requests, cut to the limit."""
    from metier.edge.cli.benches import limited
    from metier.evaluate.datasets import read_requests

    return limited(read_requests(given.requests), given.limit)


def arrays_of(bench: Any, requests: Sequence[Any]) -> Any:
    """The arrays of a sweep over one encoder's index."""
    from metier.evaluate.sweep import gather

    return gather(bench, requests)


def digest(path: Path) -> str:
    """Twelve digits of the file's sha256; of a folder, over its files' names and bytes."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


def commit() -> str:
    """Twelve digits of HEAD."""
    found = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


STARTED_AT = commit()
"""What was checked out when the script began: others may commit while it runs."""


def keep(name: str, given: argparse.Namespace, began: float, result: dict[str, Any]) -> Path:
    """`<name>-<sha12>.json`: the result with command, machine and the digests of the data. Paths are names only."""
    data = [*given.skills, *given.requests, *([given.asked] if given.asked else [])]
    whole = {
        "schema": f"metier-benchmark-{name}-v1",
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *_told(sys.argv[1:])]),
        "commit": STARTED_AT,
        "machine": {"processors": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "data": {path.name: digest(path) for path in data},
        "seconds": round(time.perf_counter() - began, 1),
        **result,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    path: Path = given.out / f"{name}-{STARTED_AT}.json"
    path.write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {path.name}\n")
    return path


def _told(words: Sequence[str]) -> list[str]:
    """The arguments that decide the result: where it is kept does not, and is this machine's own."""
    local = {n + k for n, word in enumerate(words) if word in ("--home", "--out") for k in (0, 1)}
    return [_named(word) for n, word in enumerate(words) if n not in local]


def _named(argument: str) -> str:
    """A path on the command line by its last two parts: the folder and the file, not the machine's own places."""
    return "/".join(Path(argument).parts[-2:]) if "/" in argument else argument
