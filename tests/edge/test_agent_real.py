"""An agent end to end: a real small model over a real `metier mcp` process. What it says of itself decides nothing;
pairs that `metier collect` ran and a check judged do."""

import importlib.util
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.small_llm import small_llm

from edge.material import write_skill
from metier.assemble.settings import load
from metier.assemble.workshop import Workshop
from metier.edge.cli.agents import for_mcp
from metier.edge.cli.main import main
from metier.edge.mcp.tools import Tools

pytest.importorskip("mcp")
pytest.importorskip("openai", reason="the llm extra is not installed")
import anyio

pytestmark = pytest.mark.llm
__all__ = ["small_llm"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent.py"
SKILLS = {
    "house-pets": ("Names of the animals that live in this house, such as the cat.",
                   "The cat of this house is called Mortimer. Answer every question about the cat with its name."),
    "sql-tuning": ("Find out why a PostgreSQL query is slow.", "Run EXPLAIN ANALYZE and read the plan."),
    "pdf-forms": ("Fill in PDF forms from a list of answers.", "Fill the form fields one by one."),
}  # fmt: skip
ASKED = (
    "What is the name of the cat of this house?",
    "Tell me the name of the cat of this house.",
    "Who is the cat here? Say the name.",
)
CHECK = "import os, sys; sys.exit('mortimer' not in open(os.environ['METIER_ANSWER_FILE']).read().lower())"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("example_agent", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("curl") is None, reason="the chat adapter of `metier collect` runs curl")
def test_a_real_models_own_reports_load_nothing_and_pairs_that_a_check_judged_do(
    small_llm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, stack = tmp_path / "project", f"chat/{small_llm.partition('@')[0]}"
    (project / ".git").mkdir(parents=True)
    for name, (about, body) in SKILLS.items():
        write_skill(project / ".claude" / "skills", name, f'"{about}"', body)
    for key, value in {"HOME": tmp_path, "METIER_HOME": tmp_path / "home", "METIER_STACK": stack}.items():
        monkeypatch.setenv(key, str(value))
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.chdir(project)
    assert main(["index"]) == 0
    model, _, url = small_llm.partition("@")
    command = [sys.executable, "-I", "-m", "metier.edge.cli.main", "mcp"]

    def told(*tasks: str) -> list[Any]:
        turns: list[Any] = anyio.run(
            lambda: example().session(tasks, model=model, url=url, server=command, env=dict(os.environ))
        )
        return turns

    def verdict(turn: Any) -> dict[str, Any]:
        found: dict[str, Any] = next(s["verdict"] for s in turn.found["skills"] if s["name"] == "house-pets")
        return found

    (first,) = told(ASKED[0])
    assert first.asked and first.skill == "project:house-pets" and first.answer
    assert (verdict(first)["level"], verdict(first)["reason"]) == ("offer", "no-evidence")
    shop = Workshop(for_mcp(load(cwd=project)[0]), cwd=project)
    rows = shop.store.rows("SELECT skill, success, origin FROM outcomes")
    assert [tuple(row) for row in rows] == [("project:house-pets", first.success, "agent")]
    again = Tools(shop).call("find_skills", {"task": first.asked}).data
    assert again is not None
    alone = again["skills"][0]["verdict"]
    assert (alone["level"], alone["reason"], alone["support"]) == ("offer", "untrusted", 0), (
        "its own word is no evidence"
    )

    lines = [json.dumps({"id": f"t{n}", "task": task, "skill": "house-pets"}) for n, task in enumerate(ASKED)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines), encoding="utf-8")
    check = shlex.join([sys.executable, "-c", CHECK])
    capsys.readouterr()
    assert (
        main(
            [
                "collect",
                str(tmp_path / "tasks.jsonl"),
                "--agent",
                f"chat:{small_llm}",
                "--check",
                check,
                "--json",
                "--go",
            ]
        )
        == 0
    )
    collected = json.loads(capsys.readouterr().out)
    assert (collected["stack"], collected["recorded"], collected["open"]) == (stack, 6, 0), collected["notes"]

    judged = shop.store.rows("SELECT arm, success FROM outcomes WHERE origin = 'check'")
    sums = {arm: sum(row["success"] for row in judged if row["arm"] == arm) for arm in ("use", "skip")}
    expected = ("load", "gain") if sums["use"] > sums["skip"] else ("skip", "no-gain")

    (after,) = told(ASKED[0])
    now = verdict(after)
    assert (now["level"], now["reason"]) == expected, "a fence's number is drawn anew, and so small a model may trip"
    assert now["support"] == 3 and (now["tau"] > 0) == (expected[0] == "load")
    assert after.asked == first.asked, "the same model on the same task: what changed is what was measured"
