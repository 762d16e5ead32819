"""Every benchmark that needs no outside data, on examples/skills and the requests written for them: minutes, not hours.

    python benchmarks/run.py [--out FOLDER] [--only retrieval,diagnostics,controls]

The 88 requests of training/needed.jsonl for the fifteen example skills are small change against a real library: what
this run shows is that everything runs, and in which direction it points. benchmarks/README.md has the real figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
SKILLS = HERE.parent / "examples" / "skills"
NEEDED = HERE.parent / "training" / "needed.jsonl"


def requests_for_examples(into: Path) -> Path:
    """The requests whose skill is one of the examples, in the form that evaluation reads."""
    here = {folder.name for folder in SKILLS.iterdir() if (folder / "SKILL.md").is_file()}
    with NEEDED.open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["skill"] in here]
    path = into / "examples.requests.jsonl"
    lines = [{"id": r["id"], "text": r["text"], "gold": [r["skill"]], "dataset": "examples"} for r in rows]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def jobs(requests: Path, home: Path, out: Path) -> dict[str, list[str]]:
    """Name → script and arguments."""
    data = ["--skills", str(SKILLS), "--requests", str(requests), "--home", str(home), "--out", str(out)]
    return {
        "retrieval": ["ablation.py", *data],
        "diagnostics": ["diagnostics.py", *data],
        "controls": ["controls.py", *data, "--only", "shared,padding,tiers"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "examples")
    parser.add_argument("--only", help="names, separated by commas")
    given = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory(prefix="metier-bench-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        todo = jobs(requests_for_examples(Path(folder)), home, given.out.absolute())
        for name in given.only.split(",") if given.only else todo:
            if name not in todo:
                sys.stderr.write(f"there is no benchmark '{name}'; these are: {', '.join(todo)}\n")
                return 2
            script, *rest = todo[name]
            began = time.perf_counter()
            code = subprocess.run([sys.executable, str(HERE / script), *rest], check=False).returncode
            sys.stdout.write(f"{name}: {'done' if code == 0 else 'failed'} in {time.perf_counter() - began:.0f} s\n")
            failed += [name] if code else []
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
