"""Killed indexers, and several processes at once: the library always routes, and nothing acknowledged is lost."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "skills"

ROUTING = """
import json, sys
from pathlib import Path
from metier.assemble import settings
from metier.assemble.workshop import Workshop

home = Path(sys.argv[1])
said = []
for _ in range(3):
    config, _none = settings.load(flags={"home": str(home), "encoder": "hash", "rescan": 86400}, env={}, cwd=home)
    router = Workshop(config, paths=[Path(sys.argv[2])], cwd=home).router()
    route = router.route("make this slow postgres query fast")
    router.record(route, route.slate.candidates[0].skill.id, 1.0, origin="check")
    said.append([route.id, route.slate.candidates[0].skill.name, list(route.warnings)])
print(json.dumps(said))
"""


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill", ROOT / "benchmarks" / "kill.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(os.name == "nt", reason="kills process groups")
def test_an_indexer_killed_at_any_moment_leaves_a_library_that_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, home = tmp_path / "skills", tmp_path / "home"
    shutil.copytree(EXAMPLES, shelf)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    told = script().killed(shelf, home, kills=5, seed=7)
    assert told.faults == []
    assert told.kills and told.whole


def test_two_indexers_and_four_routers_at_once_all_answer_and_lose_no_row(tmp_path: Path) -> None:
    shelf, home = tmp_path / "skills", tmp_path / "home"
    shutil.copytree(EXAMPLES, shelf)
    home.mkdir()
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("METIER_")}, "HOME": str(home)}
    index = [sys.executable, "-m", "metier.edge.cli.main", "index", f"--ad-hoc={shelf}", "--full", "--json"]
    index += [f"--home={home}", "--set=encoder=hash"]
    route = [sys.executable, "-c", ROUTING, str(home), str(shelf)]
    running = [
        subprocess.Popen(each, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for each in [index, route, route, index, route, route]
    ]
    ended = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert [code for _, code in ended] == [0] * 6, [err.decode() for (_, err), _ in ended]
    said = [row for (out, _), _ in ended for row in (json.loads(out) if out.startswith(b"[") else [])]
    assert len(said) == 12
    assert {name for _, name, _ in said} == {"sql-tuning"}
    assert [warnings for _, _, warnings in said if warnings] == []

    from metier.assemble import settings
    from metier.assemble.workshop import Workshop

    config, _ = settings.load(flags={"home": str(home), "encoder": "hash"}, env={}, cwd=home)
    shop = Workshop(config, paths=[shelf], cwd=home)
    assert shop.complete() and shop.opened().index.vectors is not None, "words alone never replace a whole index"
    kept = {row["route"] for row in shop.store.rows("SELECT route FROM outcomes")}
    assert {route_id for route_id, _, _ in said} <= kept
