"""The command line as people and scripts meet it: exit codes, JSON, one-line errors with a remedy."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metier.edge.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


class Cli:
    """`metier` in this process, over one home; `run` gives (exit code, stdout, stderr)."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main([*words, f"--home={self.home}"])
        out, err = self.capsys.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    assert main(["index", str(EXAMPLES), "--quiet", f"--home={home}"]) == 0
    return home


@pytest.fixture
def cli(indexed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    capsys.readouterr()
    return Cli(indexed, capsys)


@pytest.fixture
def fresh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Cli(tmp_path / "home", capsys)


def test_index_prints_what_it_did_and_never_encodes_an_unchanged_skill_again(cli: Cli) -> None:
    found = cli.json("index")
    assert found["schema"] == "metier-index-v1" and found["skills"] == found["unchanged"] == 15
    assert found["added"] == found["changed"] == found["removed"] == found["encoded"] == 0
    assert set(found) >= {"problems", "encoder", "generation", "seconds"}


def test_route_puts_the_right_skill_first_with_evidence_and_verdict(cli: Cli) -> None:
    found = cli.json("route", "pull the revenue tables out of this annual report PDF", "-k", "3")
    assert found["schema"] == "metier-route-v1" and found["route_id"].startswith("r_")
    first = found["candidates"][0]
    assert (first["rank"], first["name"]) == (1, "pdf-tables") and len(found["candidates"]) == 3
    assert {"stage", "score", "why"} <= set(first["evidence"][0])
    assert set(first["verdict"]) >= {"level", "reason", "tau", "eta", "support"}
    assert first["verdict"]["level"] == "offer" and first["verdict"]["reason"] == "no-evidence"
    assert "pdf-tables" in found["text"] and found["tokens"] > 0


def test_route_explains_itself_to_people_and_says_what_earns_a_load(cli: Cli) -> None:
    code, out, _ = cli.run("route", "make this slow postgres query fast", "-k", "2")
    assert code == 0 and "sql-tuning" in out.splitlines()[0]
    assert "dense" in out and "What the agent gets" in out and "Nothing is loaded by itself yet" in out


@pytest.mark.parametrize(
    ("task", "first"),
    [("fill in this scanned tax form", "pdf-forms"), ("turn these invoices into one table", "pdf-tables"),
     ("clean this csv", "csv-cleaning"), ("slow query", "sql-tuning"), ("create a docker image", "docker-slim")],
)  # fmt: skip
def test_the_short_requests_of_our_own_pages_find_their_skill(cli: Cli, task: str, first: str) -> None:
    assert cli.json("route", task)["candidates"][0]["name"] == first


@pytest.mark.parametrize("task", ["thanks, that was quick!", "what is 17 * 23?", "good morning", "ja, mach das bitte"])
def test_small_talk_gets_nothing_and_a_reason(cli: Cli, task: str) -> None:
    """Field report 3: 103 skills cost 3,000 tokens even for a greeting."""
    found = cli.json("route", task)
    assert found["text"] == "" and "nothing relevant: nearest was" in found["note"]


def test_only_retrieve_leaves_the_gate_out(cli: Cli) -> None:
    found = cli.json("route", "clean this csv", "--only", "retrieve")
    assert [s["stage"] for s in found["steps"]] == ["retrieve", "disclose"]


@pytest.mark.parametrize(
    "task", ['don\'t: "AND" (OR) -x*', "word:", "a'b", "\x00\x01", "😀" * 50, " " * 10, "x" * 100_000]
)
def test_no_request_is_a_query_language(cli: Cli, task: str) -> None:
    """Field report 13: an apostrophe or `word:` in the request raises a query-syntax error."""
    assert cli.json("route", task)["schema"] == "metier-route-v1"


def test_a_request_is_read_from_stdin(indexed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metier.edge.cli.main", "route", "-", "--json", f"--home={indexed}"],
        input="clean this messy CSV\n", capture_output=True, text=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["candidates"][0]["name"] == "csv-cleaning"


def test_show_gives_body_card_and_resource(cli: Cli) -> None:
    assert "# Tables from PDF reports" in cli.json("show", "pdf-tables")["text"]
    assert "given:pdf-tables" in cli.run("show", "pdf-tables", "--card")[1]
    assert "retry" in cli.json("show", "api-client-retries", "--resource", "reference.md")["text"].lower()


def test_a_skill_is_found_by_its_name_as_it_is_printed(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "odd" / "evil"
    folder.mkdir(parents=True)
    front = '---\nname: "evil\\e[31m-\\e]0;pwn\\a"\ndescription: Helps.\n---\nThe body.\n'
    (folder / "SKILL.md").write_text(front, encoding="utf-8")
    code, out, _ = cli.run("show", "evil-", "--skills", str(folder.parent))
    assert code == 0 and "The body." in out and "\x1b" not in out


def test_a_resource_outside_the_folder_is_refused(cli: Cli) -> None:
    code, out, err = cli.run("show", "pdf-tables", "--resource", "../pdf-forms/SKILL.md")
    assert (code, out) == (1, "") and "pdf-forms/SKILL.md" in err


def test_a_body_over_the_budget_is_named_not_cut(cli: Cli) -> None:
    assert cli.json("show", "pdf-tables", "--budget", "10")["over_budget"] is True


def test_an_unknown_skill_gets_the_nearest_names(cli: Cli) -> None:
    code, out, err = cli.run("show", "pdf-table")
    assert (code, out) == (1, "") and "given:pdf-tables" in err


def test_an_ambiguous_name_gets_the_ids_to_choose_from(fresh: Cli, tmp_path: Path) -> None:
    for place in ("a", "b"):
        shutil.copytree(EXAMPLES / "csv-cleaning", tmp_path / place / "csv-cleaning")
    (tmp_path / "b" / "csv-cleaning" / "SKILL.md").write_text("---\nname: csv-cleaning\ndescription: other\n---\nx")
    code, _, err = fresh.run("show", "csv-cleaning", "--skills", "a", "--skills", "b")
    assert code == 1 and err.count("csv-cleaning") >= 3


def test_with_no_index_the_words_answer_at_once_and_it_says_so(fresh: Cli) -> None:
    found = fresh.json("route", "clean this messy csv", "--skills", str(EXAMPLES))
    assert found["candidates"][0]["name"] == "csv-cleaning" and "words alone" in found["note"]


def test_with_nothing_found_it_says_where_it_looked(fresh: Cli, tmp_path: Path) -> None:
    found = fresh.json("route", "clean this csv")
    assert found["candidates"] == [] and str(tmp_path / ".claude" / "skills") in found["note"]


def test_an_edited_skill_is_never_served_stale(fresh: Cli, tmp_path: Path) -> None:
    """Field report 18."""
    shutil.copytree(EXAMPLES / "csv-cleaning", tmp_path / "s" / "csv-cleaning")
    fresh.run("index", str(tmp_path / "s"))
    file = tmp_path / "s" / "csv-cleaning" / "SKILL.md"
    file.write_text(file.read_text(encoding="utf-8") + "\nA line written just now.\n", encoding="utf-8")
    assert "written just now" in fresh.json("show", "csv-cleaning")["text"]
    assert "changed since" in fresh.json("route", "clean this csv")["candidates"][0]["evidence"][0]["why"]
    shutil.rmtree(tmp_path / "s" / "csv-cleaning")
    assert fresh.json("route", "clean this csv")["candidates"] == []


def test_route_ranks_by_the_body_even_where_the_card_says_nothing(fresh: Cli, tmp_path: Path) -> None:
    for name, body in (("alpha", "Rotate the TLS certificates of the mail relay."), ("beta", "Knit a woollen scarf.")):
        folder = tmp_path / "s" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Helps.\n---\n{body}\n", encoding="utf-8")
    fresh.run("index", str(tmp_path / "s"))
    found = fresh.json("route", "our mail relay's TLS certificate expires tomorrow")
    assert found["candidates"][0]["name"] == "alpha"


def test_an_outcome_is_written_back_and_an_agents_own_word_loads_nothing(cli: Cli) -> None:
    route = cli.json("route", "clean this messy csv", "--stack", "agent/1")
    code, _, err = cli.run("record", route["route_id"], "csv-cleaning", "--success", "1", "--origin", "check")
    assert code == 0, err
    assert cli.run("record", route["route_id"], "csv-cleaning", "--success", "7")[0] in (1, 2)
    assert cli.run("record", "r_none", "csv-cleaning", "--success", "1")[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["index", "no-such-folder"], "no-such-folder"),
        (["route", "x", "--skills", "no-such-folder"], "no-such-folder"),
        (["route", "x", "--skills", "a-file"], "a-file"),
        (["route", "x", "--only", "gate"], "retrieve"),
        (["route", "x", "--only", "retrieve,magic"], "magic"),
        (["route", "x", "--set", "k=none"], "'k' is 'none'"),
        (["route", "x", "--set", "kk"], "KEY=VALUE"),
        (["route", "x", "--set", "encoder=/no/such/model"], "/no/such/model"),
        (["budget", "--host", "emacs"], "emacs"),
        (["doctor", "--kind", "magic"], "magic"),
    ],
)
def test_bad_input_is_one_line_with_a_remedy_exit_1_and_nothing_on_stdout(
    fresh: Cli, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "a-file").write_text("no skills here", encoding="utf-8")
    code, out, err = fresh.run(*words)
    if "encoder=/no/such/model" in words[-1]:  # the answer still goes out, by words
        assert code == 0
        return
    assert (code, out) == (1, "")
    assert said in err.splitlines()[0] and ";" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_read_permission_says_so(fresh: Cli, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    code, _, err = fresh.run("index", str(locked))
    locked.chmod(stat.S_IRWXU)
    assert code == 1 and "permission" in err


def test_wrong_usage_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["route"])
    assert caught.value.code == 2
    assert main(["fly"]) == 2 and "no verb 'fly'" in capsys.readouterr().err


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in ("index", "route", "doctor", "eval gate"))


def test_doctor_finds_what_is_broken_and_says_what_to_do(fresh: Cli, tmp_path: Path) -> None:
    for n in range(3):
        folder = tmp_path / "s" / f"skill-{n}"
        folder.mkdir(parents=True)
        text = f"---\nname: skill-{n}\ndescription: Does thing {n}: and more\n---\nRun scripts/none.py {n}.\n"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
    (tmp_path / "s" / "bad").mkdir()
    (tmp_path / "s" / "bad" / "SKILL.md").write_bytes(b"\x00\x00")
    report = fresh.json("doctor", str(tmp_path / "s"))
    assert report["skills"] == 3 and {"refused", "reference"} <= set(report["counts"])
    assert all(f["remedy"] for f in report["findings"])


def test_one_broken_file_among_five_hundred_is_one_problem(fresh: Cli, tmp_path: Path) -> None:
    """Field report 12: one file's metadata makes the whole index empty."""
    for n in range(500):
        folder = tmp_path / "s" / f"skill-{n}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: skill-{n}\ndescription: Does thing {n}.\n---\nStep {n}.\n")
    (tmp_path / "s" / "bad").mkdir()
    (tmp_path / "s" / "bad" / "SKILL.md").write_bytes(b"\x00\x01\x02" * 50)
    found = fresh.json("index", str(tmp_path / "s"), "--set", "encoder=hash")
    assert found["skills"] == 500 and len({p["path"] for p in found["problems"]}) == 1


def test_a_folder_that_was_moved_away_is_named_and_hides_no_other(fresh: Cli, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n"
        )
    assert fresh.run("index", str(tmp_path / "one"), str(tmp_path / "two"))[0] == 0
    (tmp_path / "two").rename(tmp_path / "away")
    code, _, err = fresh.run("index")
    assert code == 0 and f"metier index --forget {tmp_path / 'two'}" in err
    assert fresh.run("doctor")[0] == 0 and fresh.run("show", "one")[0] == 0
    assert "one" in fresh.run("show", "on")[2]
    code, _, err = fresh.run("doctor", "--set", f"skills={tmp_path / 'gone'}")
    assert code == 0 and "leave it out of 'skills'" in err


def test_the_log_is_not_emptied_where_nobody_can_be_asked(cli: Cli) -> None:
    cli.json("route", "clean this csv")
    code, out, err = cli.run("forget")
    assert (code, out) == (1, "") and "--yes" in err
    assert cli.json("forget", "--yes")["routes"] >= 1


def test_the_log_is_emptied_on_request(cli: Cli) -> None:
    cli.json("route", "clean this csv")
    assert cli.json("forget", "--yes")["routes"] >= 1
    assert cli.json("forget", "--yes")["routes"] == 0


def test_every_setting_shows_where_it_came_from(cli: Cli) -> None:
    found = cli.json("config", "--set", "k=3")
    assert found["settings"]["k"] == {"value": 3, "source": "flag"}
    assert list(cli.json("config", "budget")["settings"]) == ["budget"]
