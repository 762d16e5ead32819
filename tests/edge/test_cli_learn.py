"""`metier expand` and `metier train` as people run them, against a scripted server."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.chat_server import serving

from metier.edge.cli.main import main
from metier.retrieve.expand import Kept
from metier.retrieve.qualify import qualified
from metier.store import Store

pytest.importorskip("openai", reason="the llm extra is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


class Cli:
    """`metier` in this process over one home with the example skills and the hashing encoder."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        common = [f"--home={self.home}", "--set", "encoder=hash"]
        code = main([words[0], *words[1:], f"--skills={EXAMPLES}", *common])
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("METIER_LLM", raising=False)
    return Cli(tmp_path / "home", capsys)


def helpful(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
    """Requests that say the skill's first line again; hypothetical skills that say the request's words again."""
    prompt = body["messages"][0]["content"]
    if "<skill>" in prompt:
        text = prompt.split("<skill>\n")[1].split("\n")[0]
        return 200, {}, json.dumps({"requests": [f"please: {text[:90]}", f"I need {text[:60]}"]})
    text = prompt.split("<request>\n")[1].split("\n")[0]
    return 200, {}, json.dumps({"skills": [{"name": "x", "description": text, "body": text}]})


def test_without_a_model_expand_says_how_to_name_one(cli: Cli) -> None:
    code, out, err = cli.run("expand")
    assert (code, out) == (1, "")
    assert "llm.model=MODEL@URL" in err


def test_a_dry_run_sends_nothing_and_says_the_cost(cli: Cli) -> None:
    with serving(helpful) as (chat, url):
        code, out, _ = cli.run("expand", "--dry-run", "--set", f"llm.model=m@{url}", "--price", "1,2")
        assert code == 0
        assert chat.asked == []
    assert "15 skills would be shown to m@http" in out
    assert "15 calls" in out and "in money" in out


def test_expand_keeps_requests_within_its_budget_and_goes_on_where_it_stopped(cli: Cli) -> None:
    with serving(helpful) as (chat, url):
        code, _, err = cli.run("expand", "--set", f"llm.model=m@{url}", "--calls", "6", "--at-once", "2")
        assert code == 1 and "budget of 6 calls is used up" in err
        assert len(chat.asked) == 6
        code, out, _ = cli.run("expand", "--set", f"llm.model=m@{url}", "--json")
        assert code == 0
        found = json.loads(out)
        assert (found["schema"], found["expanded"], found["skipped"]) == ("metier-expand-v1", 9, 6)
        assert len(chat.asked) == 15
        rows = Store(cli.home / "store.db").rows("SELECT subject, texts FROM expansions WHERE kind = 'requests'")
        assert len({row["subject"] for row in rows}) == 15
        assert all(len(json.loads(row["texts"])) == 2 for row in rows)


def test_a_model_is_qualified_by_what_its_expansions_do(cli: Cli) -> None:
    with serving(helpful) as (_, url):
        code, out, err = cli.run("expand", "--qualify", "--set", f"llm.model=m@{url}", "--json")
        assert code == 0, err
        by_kind = {v["kind"]: v for v in json.loads(out)["verdicts"]}
        assert by_kind["requests"]["passed"] and by_kind["requests"]["n"] == 30

    def idle(number: int, body: dict[str, Any]) -> tuple[int, dict[str, str], str]:
        texts = [f"tell me a story about weather number {number}", "sing a song of sixpence"]
        if "<skill>" in body["messages"][0]["content"]:
            return 200, {}, json.dumps({"requests": texts})
        return 200, {}, json.dumps({"skills": [{"name": "x", "description": t, "body": t} for t in texts]})

    with serving(idle) as (_, url):
        code, out, _ = cli.run("expand", "--qualify", "--set", f"llm.model=idle@{url}")
        assert code == 0
        assert "document expansion: off" in out and "query expansion: off" in out
        store = Store(cli.home / "store.db")
        encoder = store.rows("SELECT encoder FROM qualifications LIMIT 1")[0]["encoder"]
        verdict = qualified(store, f"idle@{url}", encoder, "requests")
        assert verdict is not None and not verdict.passed
        assert Kept(store, "never-tried").get("requests", "x") is None


def test_train_without_data_says_what_to_give(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli.run("train", f"--base={tmp_path}", f"--into={tmp_path / 'out'}")
    assert (code, out) == (1, "")
    assert "give FILEs of pairs, --expanded or --weak N" in err


def test_train_refuses_requests_that_were_filled_into_a_template(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    names = sorted(p.name for p in EXAMPLES.iterdir() if p.is_dir())
    rows = [{"skill": n, "text": f"please be so kind and help me with {n.replace('-', ' ')}"} for n in names]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    code, _, err = cli.run("train", str(file), f"--base={tmp_path}", f"--into={tmp_path / 'out'}")
    assert code == 1
    assert "look filled into templates" in err


def test_train_makes_an_encoder_that_opens_and_says_what_it_learnt_from(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    pytest.importorskip("onnx", reason="the train extra is not installed")
    from tests.models.conftest import make_tiny

    file = tmp_path / "pairs.jsonl"
    rows = [
        {"skill": "pdf-tables", "text": "the figures on page 3 of this report belong in a spreadsheet"},
        {"skill": "pdf-forms", "text": "fill my name and address into the tax sheet"},
        {"skill": "git-recovery", "text": "I reset hard and two days of commits are gone"},
        {"skill": "sql-tuning", "text": "this query takes forty seconds since the import"},
        {"skill": "csv-cleaning", "text": "dates in three formats and half the names in capitals"},
        {"skill": "docker-slim", "text": "the image has 1.9 GB, our registry complains"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    into = tmp_path / "tuned"
    code, out, err = cli.run(
        "train", str(file), f"--base={make_tiny(tmp_path / 'base')}", f"--into={into}", "--weak=15", "--batch=6",
        "--tokens=32", "--rate=0.001", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["schema"] == "metier-train-v1"
    assert found["pairs"] + found["held_out"] <= 21
    card = (into / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "| weak |" in card and "| written |" in card
    from metier.models.encoder import open_encoder

    encoder = open_encoder(str(into))
    assert encoder.encode(["a request"], kind="query").shape == (1, 32)
    assert encoder.profile.name == found["encoder"]
