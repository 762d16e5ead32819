"""How fast the library finds, keeps and reads skills, and whether it reads every real one.

    python benchmarks/scan.py SKILLS.jsonl.xz MALFORMED.jsonl [--keep FOLDER]

Unpacks the skills as folders (into FOLDER, or a temporary one), and writes benchmarks/results/scan-<commit>.json:
the time of walking and stat-ing that tree (`os.walk` and `os.stat`, a process of its own), of the first scan, and of a
scan of the unchanged tree (a process of its own, with everything: start, imports, opening the catalogue, walking,
comparing); opening and looking up in a catalogue of 100,000 skills made from the real ones; and which files were read
with name and description, which with problems, which not at all, by code.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import lzma
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from metier.library import catalogue
from metier.library.scan import scan
from metier.library.skillmd import parse, render

ROUNDS = 9
"""Repetitions of each short measurement; the median is reported with the least and the most."""
MANY = 100_000
WALK = """
import os, sys
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        os.stat(os.path.join(folder, file))
"""
RESCAN = """
import sys
from pathlib import Path
from metier.library import catalogue
from metier.library.scan import changes, scan
before = catalogue.open(Path(sys.argv[2]))
now = scan([sys.argv[1]], previous=before)
print(changes(before, now).unchanged)
"""


def unpack(source: Path, folder: Path) -> int:
    """The skills of the JSONL as folders with a SKILL.md each; how many."""
    count = 0
    with lzma.open(source, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            inside = PurePosixPath(row["path"]).parent.as_posix().replace("..", "_") or "."
            place = folder / row["repo"].replace("/", "+") / inside
            place.mkdir(parents=True, exist_ok=True)
            front = (row.get("frontmatter") or "").strip()
            (place / "SKILL.md").write_text(f"---\n{front}\n---\n{row['body']}", encoding="utf-8")
            count += 1
    return count


def process(code: str, *arguments: str) -> tuple[float, str]:
    """(wall seconds, output) of a Python process that runs `code`."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout.strip()


def spread(values: list[float], digits: int = 4) -> dict[str, float]:
    """Median, least and most."""
    return {"median": round(statistics.median(values), digits), "min": round(min(values), digits),
            "max": round(max(values), digits)}  # fmt: skip


def speed(tree: Path, work: Path) -> dict[str, Any]:
    """Walking, the first scan, and scanning what has not changed."""
    start = time.perf_counter()
    library = scan([tree])
    first = time.perf_counter() - start
    library = scan([tree], previous=library)
    start = time.perf_counter()
    catalogue.write(library, work)
    written = time.perf_counter() - start
    walk, rescan, in_process = [], [], []
    for _ in range(ROUNDS):  # alternating, so that a busy moment falls on both
        walk.append(process(WALK, str(tree))[0])
        seconds, unchanged = process(RESCAN, str(tree), str(work))
        rescan.append(seconds)
        if int(unchanged) != len(library.skills):
            raise SystemExit(f"{unchanged} of {len(library.skills)} unchanged: something writes into {tree}")
        before = catalogue.open(work)
        start = time.perf_counter()
        scan([tree], previous=before)
        in_process.append(time.perf_counter() - start)
    empty = [process("pass")[0] for _ in range(ROUNDS)]
    walk_alone = [seconds - statistics.median(empty) for seconds in walk]
    return {
        "skills": len(library.skills),
        "first_scan_s": round(first, 2),
        "skills_per_s": round(len(library.skills) / first),
        "catalogue_write_s": round(written, 3),
        "walk_and_stat_process_s": spread(walk),
        "walk_and_stat_without_start_s": spread(walk_alone),
        "unchanged_scan_process_s": spread(rescan),
        "unchanged_scan_in_process_s": spread(in_process),
        "python_start_s": spread(empty),
        "times_walk_and_stat_process": round(statistics.median(rescan) / statistics.median(walk), 2),
        "times_walk_and_stat_without_start": round(statistics.median(rescan) / statistics.median(walk_alone), 2),
        "bound": 4,
    }


def many(work: Path) -> dict[str, Any]:
    """A catalogue of 100,000 skills, made from the real ones under new names: opened, asked, decoded."""
    real = catalogue.open(work).skills
    made = tuple(replace(real[i % len(real)], id=f"given:c{i // len(real)}/{i}", name=f"{real[i % len(real)].name}-{i}")
            for i in range(MANY))  # fmt: skip
    folder = work / "many"
    start = time.perf_counter()
    catalogue.write(replace(catalogue.open(work), skills=made), folder)
    written = time.perf_counter() - start
    opening, asking, decoding = [], [], []
    for i in range(ROUNDS * 5):
        start = time.perf_counter()
        skills = catalogue.open(folder).skills
        opening.append(time.perf_counter() - start)
        name = skills[i * 977].name
        start = time.perf_counter()
        found = catalogue.lookup(skills, name)
        asking.append(time.perf_counter() - start)
        if i * 977 not in found:
            raise SystemExit(f"'{name}' is not found under its own name")
        start = time.perf_counter()
        for at in range(50):
            skills[(i * 977 + at * 13) % MANY]
        decoding.append(time.perf_counter() - start)
    return {
        "skills": MANY,
        "bytes": (folder / catalogue.FILE).stat().st_size,
        "write_s": round(written, 2),
        "open_ms": spread([1e3 * each for each in opening], 3),
        "lookup_ms": spread([1e3 * each for each in asking], 3),
        "decode_50_ms": spread([1e3 * each for each in decoding], 3),
    }


def read_all(source: Path) -> dict[str, Any]:
    """Every public skill parsed: name and description as its row states them, and back again through `render`."""
    codes: Counter[str] = Counter()
    total = same = returned = described = 0
    with lzma.open(source, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            data = f"---\n{(row.get('frontmatter') or '').strip()}\n---\n{row['body']}".encode()
            folder = PurePosixPath(row["path"]).parent.name
            parsed = parse(data, path=row["id"], folder=folder)
            again = parse(render(parsed).encode(), path=row["id"], folder=folder)
            total += 1
            described += bool(parsed.name and parsed.description)
            same += parsed.name == row["name"] and parsed.description.split() == row["description"].split()
            returned += (again.name, again.description, again.body, again.front) == (
                parsed.name, parsed.description, parsed.body, parsed.front
            )  # fmt: skip
            codes.update(problem.code for problem in parsed.problems)
    return {"files": total, "with_name_and_description": described, "as_the_row_states": same,
            "round_trips": returned, "problems": dict(codes.most_common())}  # fmt: skip


def read_malformed(source: Path) -> dict[str, Any]:
    """Every broken file: read with name and description, or the reason why not."""
    read, reasons, silent = 0, [], []
    codes: Counter[str] = Counter()
    with source.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        parsed = parse(base64.b64decode(row["bytes"]), path=row["file"], folder=row["folder"])
        codes.update(problem.code for problem in parsed.problems)
        if parsed.usable and parsed.name and parsed.description:
            read += 1
        elif parsed.problems:
            reasons.append({"kind": row["kind"], "folder": row["folder"], "reason": parsed.problems[0].message})
        else:
            silent.append({"kind": row["kind"], "folder": row["folder"]})
    return {"files": len(rows), "with_name_and_description": read, "listed_with_the_reason": reasons, "silent": silent,
            "problems": dict(codes.most_common())}  # fmt: skip


def main() -> None:
    """Measures everything and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skills", type=Path)
    parser.add_argument("malformed", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the unpacked skills; used as it is when it exists")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as scratch:
        tree = options.keep or Path(scratch, "tree")
        if not tree.is_dir():
            unpack(options.skills, tree)
            time.sleep(1)  # a tree written this very moment would be read once more, and rightly so
        work = Path(scratch, "view")
        result = {
            "command": "python benchmarks/scan.py SKILLS.jsonl.xz MALFORMED.jsonl",
            "commit": commit.stdout.strip(),
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "data": {
                file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (options.skills, options.malformed)
            },
            "speed": speed(tree, work),
            "catalogue": many(work),
            "public_skills": read_all(options.skills),
            "malformed": read_malformed(options.malformed),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
    out = Path(__file__).parent / "results" / f"scan-{result['commit']}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"{out}\n{json.dumps({k: result[k] for k in ('speed', 'catalogue', 'peak_memory_mb')}, indent=1)}\n"
    )


if __name__ == "__main__":
    main()
