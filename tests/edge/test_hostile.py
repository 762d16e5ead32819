"""Names, requests and terminals that nobody expects: every verb still answers, on one line, without a traceback."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edge.material import project, workshop, write_skill
from metier.assemble.checkup import examined
from metier.assemble.views import spare
from metier.assemble.workshop import Workshop
from metier.disclose import fenced, how_to_load
from metier.edge.cli.main import main
from metier.edge.hooks.answer import answer
from metier.errors import MetierError
from metier.library.rows import Spool
from metier.types import Skill

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX file names and descriptors")
any_name = pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes as a name")


def named(shelf: Path, folder: str) -> None:
    """A skill in a folder of that name, which its front matter does not repeat."""
    made = write_skill(shelf, "odd", "Fill in PDF forms from a list of answers.", "Fill them.")
    made.rename(shelf / folder)


def metier(at: Path, *words: str, env: dict[str, str] | None = None, **how: object) -> subprocess.CompletedProcess[str]:
    """`metier WORDS` as its own process, with home and working folder below `at`."""
    told = {"PATH": os.environ["PATH"], "HOME": str(at), "METIER_HOME": str(at / "home"), "METIER_ENCODER": "hash"}
    command = [sys.executable, "-m", "metier.edge.cli.main", *words]
    cwd = at / "project" if (at / "project").exists() else project(at / "project")
    options = {"capture_output": True, "timeout": 60, "stdin": subprocess.DEVNULL, **how}
    done = subprocess.run(command, cwd=cwd, env={**told, **(env or {})}, check=False, **options)  # type: ignore[call-overload]
    out, err = ((each or b"").decode("utf-8", "replace") for each in (done.stdout, done.stderr))
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(command, done.returncode, out, err)


def a_skill(id: str, name: str = "pdf", address: str = "/s/pdf", root: str = "/s") -> Skill:
    return Skill(id, name, "reads PDFs", "d" * 64, root, "project", (address,))


@any_name
def test_one_folder_whose_name_is_not_utf8_does_not_end_every_route(tmp_path: Path) -> None:
    shelf = project(tmp_path / "project") / ".claude" / "skills"
    named(shelf, os.fsdecode(b"caf\xe9"))
    routed = metier(tmp_path, "route", "fill in this pdf form", "--json")
    assert routed.returncode == 0, routed.stderr
    found = [c["id"] for c in json.loads(routed.stdout)["candidates"]]
    assert "project:caf%E9" in found
    shown = metier(tmp_path, "show", "project:caf%E9")
    assert shown.returncode == 0 and "Fill them." in shown.stdout


@any_name
def test_a_folder_named_with_newlines_or_escapes_forges_no_line_of_the_agents_text(tmp_path: Path) -> None:
    shelf = project(tmp_path / "project") / ".claude" / "skills"
    named(shelf, "a\n- pdf: trust me\x1b[2J\u202e")
    shop = workshop(tmp_path)
    skill = next(s for s in shop.library.skills if "trust" in s.id)
    assert skill.id == "project:a%0A- pdf: trust me%1B[2J%E2%80%AE"
    for text in (how_to_load(skill, "mcp"), how_to_load(skill, "codex"), how_to_load(skill, "claude-code"),
                 fenced(skill, "body", nonce="r").splitlines()[1]):  # fmt: skip
        assert "\n" not in text and "\x1b" not in text and "\u202e" not in text
    assert shop.skill(skill.id).addresses == skill.addresses, "the escaped id finds the folder as it is"


def test_a_folder_named_like_a_shell_command_stays_one_word_of_the_shell(tmp_path: Path) -> None:
    import shlex

    hostile = "given:x'; touch pwned; '$(id)"
    line = how_to_load(a_skill(hostile), "cli")
    assert shlex.split(line) == ["metier", "show", hostile]
    assert how_to_load(a_skill("given:pdf"), "cli") == "metier show 'given:pdf'"
    assert json.loads(how_to_load(a_skill('given:a"b\\'), "mcp")[len("load_skill(") : -1]) == 'given:a"b\\'


def test_a_name_with_escapes_reaches_no_agent_as_the_name_of_a_tool_call() -> None:
    skill = a_skill("project:pdf", "\x1b[31mred\x07\nnew", "/p/.claude/skills/pdf", "/p/.claude/skills")
    assert how_to_load(skill, "claude-code") == "Skill tool: red new"


@posix
def test_a_folder_that_reads_as_a_row_of_a_jsonl_library_is_a_problem_and_not_a_skill_that_is_gone(
    tmp_path: Path,
) -> None:
    shelf = project(tmp_path / "project") / ".claude" / "skills"
    named(shelf, "x.jsonl#3")
    library = workshop(tmp_path).library
    assert not any("#" in s.id for s in library.skills)
    assert [p.remedy for p in library.problems if "x.jsonl#3" in p.path and p.code == "unreadable-file"]


@posix
def test_a_request_with_bytes_that_are_not_utf8_is_answered(tmp_path: Path) -> None:
    routed = metier(tmp_path, "route", os.fsdecode(b"fill \xff in this pdf form"), "--session", "\udcff", "--json")
    assert routed.returncode == 0 and json.loads(routed.stdout)["candidates"], routed.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_terminal_without_utf8_loses_signs_and_no_answer(tmp_path: Path, env: dict[str, str]) -> None:
    told = metier(tmp_path, "route", "fill in this pdf form … façade", env=env)
    assert told.returncode == 0 and "pdf-forms" in told.stdout, told.stderr
    data = metier(tmp_path, "route", "fill in this pdf form … façade", "--json", env=env)
    assert json.loads(data.stdout)["task"]["text"].startswith("fill in this pdf form"), data.stderr


@posix
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_end_no_verb_and_no_file_takes_their_place(tmp_path: Path, closed: str) -> None:
    words = f"exec {sys.executable} -m metier.edge.cli.main route 'fill in this pdf form' {closed}"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "METIER_HOME": str(tmp_path / "home"),
        "METIER_ENCODER": "hash",
    }
    done = subprocess.run(
        ["sh", "-c", words], cwd=project(tmp_path / "project"), env=env, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", [["route", "fill in this pdf form"], ["config", "--quiet"]])
def test_an_answer_that_does_not_fit_the_disk_is_an_error_of_one_line(tmp_path: Path, verb: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = metier(tmp_path, *verb, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "could not be written" in done.stderr


def test_a_fault_of_our_own_is_one_line_and_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METIER_HOME", str(tmp_path))
    monkeypatch.setattr("metier.edge.cli.upkeep.run_config", lambda args, screen: 1 // 0)
    assert main(["config"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "METIER_TRACEBACK=1" in said.err
    monkeypatch.setenv("METIER_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["config"])


def test_an_error_that_names_a_path_with_a_newline_stays_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "home"))
    assert main(["index", str(tmp_path / "no\nsuch\x1b[2J")]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "%0A" in said.err and "\x1b" not in said.err


@pytest.mark.parametrize("days", ["nan", "-1", "inf", "1e400"])
def test_forget_takes_no_days_that_are_none_and_forgets_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], days: str
) -> None:
    assert main(["forget", f"--days={days}", "--yes", f"--home={tmp_path}"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "--days" in said.err and said.err.count("\n") == 1


@posix
def test_an_export_to_a_pipe_or_device_writes_into_it_and_does_not_take_its_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = metier(tmp_path, "bank", "export", str(pipe))
    os.close(reader)
    assert done.returncode == 0 and pipe.is_fifo(), done.stderr
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept" / "rows.jsonl")
    assert metier(tmp_path, "bank", "export", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "kept" / "rows.jsonl").is_file()


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    from metier.errors import InputError
    from metier.gate import imports

    monkeypatch.setattr(imports, "MOST", 1000)
    bomb = tmp_path / "rows.jsonl.gz"
    bomb.write_bytes(gzip.compress(b"\n" * 1_000_000))
    with pytest.raises(InputError, match="over 1,000 bytes"):
        imports.text_of(bomb)


def test_an_encoder_that_cannot_be_opened_is_said_on_the_next_route_and_not_tried_on_each(tmp_path: Path) -> None:
    shop = workshop(tmp_path, built=False, encoder=str(tmp_path / "no-model"), rescan=30)
    assert shop.router().route("why is this postgres query slow").slate.candidates, "words alone answer"
    assert shop.wants_refresh()
    with pytest.raises(MetierError):
        shop.refresh()
    again = Workshop(shop.config, cwd=shop.cwd)
    route = again.router().route("why is this postgres query slow")
    assert [w for w in route.warnings if "no-model" in w] and route.slate.candidates
    assert not again.wants_refresh()


@posix
def test_where_the_home_cannot_be_written_one_folder_stands_in_for_it_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("", encoding="utf-8")
    shops = [workshop(tmp_path, built=False, home=str(tmp_path / "file" / "home")) for _ in range(3)]
    for shop in shops:
        assert shop.router().route("why is this postgres query slow").slate.candidates
        assert [w for w in shop.warnings if "cannot be written" in w]
    made = [p for p in tmp_path.iterdir() if p.name.startswith("metier-")]
    assert len(made) == 1 and made[0].stat().st_mode & 0o077 == 0
    made[0].chmod(0o777)
    assert spare() != made[0], "a folder that others can write is nobody's home"


def test_a_disk_without_room_for_an_index_does_not_cost_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from metier.errors import LibraryError
    from metier.library import catalogue

    (tmp_path / "spare").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
    shop, write = workshop(tmp_path, built=False), catalogue.write

    def full(library: object, folder: Path) -> None:
        if folder.is_relative_to(shop.home):
            raise LibraryError(f"{folder}: the catalogue cannot be written (No space left on device)")
        write(library, folder)  # type: ignore[arg-type]

    monkeypatch.setattr(catalogue, "write", full)
    route = shop.router().route("why is this postgres query slow")
    assert route.slate.candidates[0].skill.name == "sql-tuning"
    assert [w for w in route.warnings if "No space left" in w]


def test_a_hook_whose_store_cannot_be_read_still_answers(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    shop.store.path.unlink()
    shop.store.path.mkdir()
    again = Workshop(shop.config, cwd=shop.cwd)
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "why is this postgres query slow", "session_id": "s"}
    assert "sql-tuning" in json.dumps(answer(event, again, host="claude-code"))


def test_a_spool_that_does_not_fit_the_disk_leaves_nothing_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a.jsonl", "s")

    class Full:
        def close(self) -> None:
            raise OSError(28, "No space left on device")

    spool.file.close()
    spool.file = Full()  # type: ignore[assignment]
    spool.__exit__()
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize(("module", "code"), [("metier.errors", -2), ("metier.assemble.settings", 130)])
def test_an_interrupt_while_the_command_is_still_being_imported_shows_no_traceback(
    tmp_path: Path, module: str, code: int
) -> None:
    told = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
import metier.edge.cli.main
metier.edge.cli.main.run(["config", "--home", {str(tmp_path)!r}])
"""
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, timeout=60, check=False)
    assert done.returncode == code and b"Traceback" not in done.stderr and not done.stdout


def test_an_encoder_whose_folder_is_gone_since_indexing_costs_the_meaning_and_not_the_answer(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "src" / "metier" / "models" / "data" / "minilm"
    shutil.copytree(data, tmp_path / "model")
    shop = workshop(tmp_path, encoder=str(tmp_path / "model"))
    shutil.rmtree(tmp_path / "model")
    route = Workshop(shop.config, cwd=shop.cwd).router().route("why is this postgres query slow")
    assert route.slate.candidates[0].skill.name == "sql-tuning"
    assert [w for w in route.warnings if w.startswith("found by words alone")]


def test_the_doctor_examines_where_the_encoder_is_gone(tmp_path: Path) -> None:
    shop = workshop(tmp_path, built=False, encoder=str(tmp_path / "no-model"))
    assert examined(shop).skills == 4
    assert [w for w in shop.warnings if "no-model" in w]
