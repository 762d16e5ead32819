"""Whether an index survives being killed: `metier index` dies at random moments, and the library still routes.

    python benchmarks/kill.py SKILLS [--kills 50] [--encoder hash] [--seed 0]

SKILLS is a folder of skills; a copy of it is worked on, in a home of its own, both temporary. First an index of edited
skills and one with --full run through and are timed. Then, until so many were killed: some skills are edited, `metier
index` (every third time with --full) is started and killed (SIGKILL, its whole group) after a random share of that
time, and at once the library is opened anew and asked: does the skill whose description is the request come back,
without the index being called damaged? An outcome of each answer is recorded. At the end an undisturbed `metier index`
must bring everything up to date, and every outcome must be there.
Writes benchmarks/results/kill-<commit>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metier.assemble import settings
from metier.assemble.workshop import Workshop

LATE = 1.1
"""Kills fall anywhere within this multiple of the quickest run so far, so some come after its end."""
TRIES = 4
"""Runs for each kill that is asked for, at most: on a busy machine many are over before their time comes."""
EDITED = 3
"""Skills edited before each run, so that there is something to index."""


@dataclass
class Told:
    """What happened: `faults` says what went wrong, and is empty when nothing did."""

    kills: int = 0
    finished: int = 0
    """Runs that were done before their time had come."""
    whole: int = 0
    """Times the index at hand had vectors."""
    seconds: dict[bool, float] = field(default_factory=dict)
    """Of the quickest undisturbed run, with --full (True) and of edited skills alone (False)."""
    faults: list[str] = field(default_factory=list)


def killed(skills: Path, home: Path, *, kills: int, encoder: str = "hash", seed: int = 0) -> Told:
    """`metier index` over `skills` (which is edited) is killed so often; every time the library is asked."""
    dice, told = random.Random(seed), Told()
    files = sorted(skills.rglob("SKILL.md"))
    _index(skills, home, encoder, full=True).wait()
    routes: list[str] = []
    number = -2  # the first two are timed
    while told.kills < kills and number < TRIES * kills:
        for file in dice.sample(files, min(EDITED, len(files))):
            file.write_text(file.read_text(encoding="utf-8") + f"\nEdited {number}.\n", encoding="utf-8")
        full = number % 3 == 2
        began = time.perf_counter()
        running = _index(skills, home, encoder, full=full)
        try:
            running.wait(None if number < 0 else dice.uniform(0.0, LATE * told.seconds[full]))
            told.seconds[full] = min(told.seconds.get(full, 1e9), time.perf_counter() - began)
            told.finished += number >= 0
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            told.kills += 1
        if number >= 0:
            routes += _asked(home, encoder, dice, told, f"after run {number}")
        number += 1
    done = _index(skills, home, encoder, full=False)
    if done.wait() != 0:
        told.faults.append(f"the last index ended with {done.returncode}")
    routes += _asked(home, encoder, dice, told, "at the end", whole=True)
    kept = {row["route"] for row in _shop(home, encoder).store.rows("SELECT route FROM outcomes")}
    told.faults += [f"the outcome of {route} is lost" for route in routes if route not in kept]
    return told


def _asked(home: Path, encoder: str, dice: random.Random, told: Told, when: str, *, whole: bool = False) -> list[str]:
    """One request, answered by what is on the disk now; an outcome of it is recorded."""
    shop = _shop(home, encoder)
    try:
        router = shop.router()
        skill = dice.choice(list(shop.library.skills))
        route = router.route(f"use the {skill.name} skill: {skill.description}"[:500])
        found = [c.skill.id for c in route.slate.candidates]
        if skill.id not in found:
            told.faults.append(f"{when}: {skill.id} is not among the {len(found)} found; {route.slate.note}")
        told.faults += [f"{when}: {warning}" for warning in route.warnings]
        if found:
            router.record(route, found[0], 1.0, origin="check")
        if shop.complete():
            told.whole += 1
        elif whole:
            told.faults.append(f"{when}: the index has words alone")
        return [route.id] if found else []
    except Exception as error:  # what this looks for
        told.faults.append(f"{when}: {type(error).__name__}: {error}")
        return []


def _shop(home: Path, encoder: str) -> Workshop:
    flags = {"home": str(home), "encoder": encoder, "rescan": 86400}
    config, _ = settings.load(flags=flags, env={}, cwd=home)
    return Workshop(config, cwd=home)


def _index(skills: Path, home: Path, encoder: str, *, full: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "metier.edge.cli.main", "index", str(skills), "--quiet", f"--home={home}"]
    command += [f"--set=encoder={encoder}", *(["--full"] if full else [])]
    env = {key: value for key, value in os.environ.items() if not key.startswith("METIER_")}
    return subprocess.Popen(
        command, cwd=home, env={**env, "HOME": str(home)}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> int:
    from common import RESULTS, commit

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("skills", type=Path, metavar="SKILLS")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--encoder", default="hash")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metier-kill-") as work:
        shelf, home = Path(work, "skills"), Path(work, "home")
        shutil.copytree(given.skills, shelf, symlinks=True)
        home.mkdir()
        os.environ["HOME"] = str(home)
        told = killed(shelf, home, kills=given.kills, encoder=given.encoder, seed=given.seed)
        left = sorted(p.name for p in home.rglob("*") if ".part" in p.name or ".spool-" in p.name)
        size = sum(p.stat().st_size for p in home.rglob("*") if p.is_file())
    result: dict[str, Any] = {
        "benchmark": "kill",
        "skills": str(given.skills),
        "encoder": given.encoder,
        "killed": told.kills,
        "finished_first": told.finished,
        "index_at_hand_had_vectors": told.whole,
        "seconds_undisturbed": {"edited": round(told.seconds[False], 2), "full": round(told.seconds[True], 2)},
        "unfinished_folders_left": len(left),
        "megabytes_left": round(size / 1e6, 1),
        "faults": told.faults,
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"kill-{result['commit'][:12]}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return 1 if told.faults else 0


if __name__ == "__main__":
    sys.exit(main())
