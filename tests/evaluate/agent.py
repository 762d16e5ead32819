"""A scripted agent for the collection's tests: what it does is the first word of its task."""

import json
import os
import signal
import sys
import time
from pathlib import Path


def read(variable):
    return Path(os.environ[variable]).read_text(encoding="utf-8") if variable in os.environ else ""


def main():
    prompt, skill, task, log = sys.stdin.read(), read("METIER_SKILL_FILE"), read("METIER_TASK_FILE"), "AGENT_LOG"
    what = task.split()[0]
    told = {"task": task, "skill": bool(skill), "prompt": prompt, "cwd": str(Path.cwd()), "argv": sys.argv[1:],
            "files": sorted(path.name for path in Path().iterdir()), "inline": os.environ.get("METIER_SKILL"),
            "metier": sorted(name for name in os.environ if name.startswith("METIER_"))}  # fmt: skip
    with Path(os.environ[log]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")
    runs = sum(json.loads(line)["task"] == task for line in read(log).splitlines())
    if what == "hang":
        print("started", flush=True)
        time.sleep(60)
    elif what == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "quit":
        print("I give up")
        sys.exit(3)
    elif what == "garbage":
        sys.stdout.buffer.write(bytes(range(256)) * 50)
        return
    elif what == "flood":
        while True:
            sys.stdout.buffer.write(b"x" * (1 << 20))
    elif what == "flaky" and runs < 3:
        sys.exit("Error: 529 Overloaded, please retry")
    elif what == "down":
        sys.exit(f"connection refused with key {os.environ.get('MY_API_KEY', '')}")
    elif what == "boast":
        print("success 1.0" if skill else "I do not know")
        return
    model = os.environ.get("AGENT_MODEL") or ("m-2" if what == "swap" and runs > 1 else "m-1")
    answer = "right" if "useful" in skill else "wrong"
    usage = {"in": 100 + 50 * bool(skill), "out": 10}
    print(json.dumps({"answer": answer, "usage": usage, "cost": 0.01, "model": model}))


main()
