"""Configuration files as nobody should have them: changed and given back to the byte, or refused and left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from metier.edge.install import jsonc, plan
from metier.edge.install.manifest import Commands, host
from metier.edge.install.plan import Ledger, Wish
from metier.errors import InputError

COMMANDS = Commands(python="/opt/python/bin/python3")
MINE = '"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "mine.sh"}]}]}'
TAKEN = {
    "empty": b"", "blank": b"  \n\n", "only a mark": b"\xef\xbb\xbf", "a mark": b"\xef\xbb\xbf{}\n",
    "CRLF and comments": ("{\r\n  // c\r\n  " + MINE + " // d\r\n}\r\n").encode(), "CR alone": b'{\r  "a": 1\r}\r',
    "mixed line ends": b'{\n "a": 1,\r\n "b": 2\n}\n', "trailing commas": b'{"a":[1,2,],"hooks":{"Stop":[],},}',
    "no last line end": b'{"a":1}', "tabs": b'{\n\t"a": 1\n}', "a comment in a text": b'{"a":"// not /* */","b":1}',
    "strange groups": b'{"hooks":{"Stop":[null,1,"x",{"hooks":null},{"hooks":[null]}]}}', "NaN": b'{"a":NaN}',
    "half an emoji": b'{"a":"\\ud800"}', "a raw NUL": b'{"a":"\x00"}',
    "megabytes": b'{"a":"' + b"x" * 2_000_000 + b'"}',
    "right to left": '{"\u202ea":"\u202e"}'.encode(), "line separators": '{"a":"\u2028"}'.encode(),
    "a prototype": b'{"__proto__":{"hooks":1}}', "an escaped key": b'{"mcp\\u0053ervers":{"x":{}}}',
    "a server of theirs with our name": b'{"mcpServers":{"metier":{"command":"metier"}},"mcp":{"metier":1}}',
}  # fmt: skip
REFUSED = {
    "hooks twice": "{" + MINE + ",\n" + MINE + "}", "an event twice": '{"hooks":{"Stop":[],"Stop":[]}}',
    "a key twice, once escaped": '{"hooks":{}, "ho\\u006fks":{"Stop":[]}}', "hooks a list": '{"hooks":[]}',
    "hooks null": '{"hooks":null}', "an event an object": '{"hooks":{"Stop":{}}}',
    "an event null": '{"hooks":{"Stop":null}}',
    "a list": "[]", "a text": '"x"', "two objects": "{}{}", "an open comment": "{ /* open", "single quotes": "{'a':1}",
    "a # comment": '# x\n{"a":1}', "depth": '{"a":' + "[" * 100_000, "a comment alone": "// nothing\n",
}  # fmt: skip


def wish(at: Path, name: str = "claude-code") -> Wish:
    return Wish(host(name), "user", at / "project", {"HOME": str(at / "home")})


def placed(at: Path, data: bytes, name: str = "claude-code") -> list[Path]:
    files = sorted({path for _, _, path in wish(at, name).parts()})
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


@pytest.mark.parametrize("name", ["claude-code", "gemini", "opencode-v1", "cursor"])
@pytest.mark.parametrize("case", TAKEN)
def test_what_can_be_read_is_changed_once_and_given_back_to_the_byte(case: str, name: str, tmp_path: Path) -> None:
    files, ledger = placed(tmp_path, TAKEN[case], name), Ledger(tmp_path / "metier")
    ledger.apply(plan.install(wish(tmp_path, name), COMMANDS))
    for path in files:
        text = json.dumps(jsonc.read(path.read_bytes().decode().replace("\r\n", "\n")))
        assert "hooks/entry.py" in text or "metier.edge.cli.main" in text
    assert plan.install(wish(tmp_path, name), COMMANDS) == []
    ledger.apply(plan.uninstall(wish(tmp_path, name), ledger), undo=True)
    assert [path.read_bytes() for path in files] == [TAKEN[case]] * len(files)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_in_one_way_is_refused_with_its_place_and_left_alone(case: str, tmp_path: Path) -> None:
    files = placed(tmp_path, REFUSED[case].encode())
    with pytest.raises(InputError) as said:
        plan.install(wish(tmp_path), COMMANDS)
    text = str(said.value)
    assert str(tmp_path / "home") in text and "\n" not in text and ("twice" in text) == ("twice" in case)
    assert [path.read_text(encoding="utf-8") for path in files] == [REFUSED[case]] * len(files)


def test_a_file_that_changed_between_the_question_and_the_answer_is_not_overwritten(tmp_path: Path) -> None:
    (first, *_), ledger = placed(tmp_path, b"{}"), Ledger(tmp_path / "metier")
    changes = plan.install(wish(tmp_path), COMMANDS)
    first.write_bytes(b'{"new": 1}')
    with pytest.raises(InputError, match="another program wrote to it just now; run this again"):
        ledger.apply(changes)
    assert first.read_bytes() == b'{"new": 1}' and not (tmp_path / "metier" / "installs.json").exists()


def test_many_installations_at_once_leave_no_trace_after_as_many_removals(tmp_path: Path) -> None:
    hosts = ["claude-code", "gemini", "qwen", "codex", "cursor", "opencode"]
    for name in hosts[:2]:
        placed(tmp_path, b'{"theirs": 1}\n', name)
    before = {p: p.read_bytes() for p in (tmp_path / "home").rglob("*") if p.is_file()}
    for verb in ("install", "uninstall"):
        words = [sys.executable, "-I", "-m", "metier.edge.cli.main", verb]
        env = {"HOME": str(tmp_path / "home"), "METIER_HOME": str(tmp_path / "metier"), "PATH": ""}
        running = [
            subprocess.Popen([*words, name, "--yes", "--quiet"], env=env, stdout=subprocess.PIPE) for name in hosts
        ]
        assert [p.communicate() and p.returncode for p in running] == [0] * len(hosts)
    assert {p: p.read_bytes() for p in (tmp_path / "home").rglob("*") if p.is_file()} == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_a_device_a_folder_and_a_loop_are_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    for make in (os.mkfifo, lambda p: p.symlink_to("/dev/zero"), Path.mkdir, lambda p: p.symlink_to(p.name)):
        make(path)
        with pytest.raises(InputError, match=r"mcp\.json: (is no plain file|cannot be read)"):
            plan.install(wish(tmp_path, "cursor"), COMMANDS)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("target", ["../home/.bashrc", "../home/new.json", "/dev/zero", "../home"])
def test_a_projects_file_that_leads_out_of_the_project_is_not_written_through(target: str, tmp_path: Path) -> None:
    for folder in ("project/.cursor", "home"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "home" / ".bashrc").write_bytes(b"{}")
    at = tmp_path / "project" / ".cursor"
    (at / "mcp.json").symlink_to(target if target.startswith("/") else f"../{target}")
    asked = Wish(host("cursor"), "project", tmp_path / "project", {"HOME": str(tmp_path / "home")})
    for act in (lambda: plan.install(asked, COMMANDS), lambda: plan.uninstall(asked, Ledger(tmp_path / "metier"))):
        with pytest.raises(InputError, match=r"leads out of the project, to .*; remove that link, or"):
            act()
    at.rename(tmp_path / "elsewhere")
    at.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "mcp.json").unlink()
    with pytest.raises(InputError, match="leads out of the project"):
        plan.install(asked, COMMANDS)
    assert (tmp_path / "home" / ".bashrc").read_bytes() == b"{}" and not (tmp_path / "home" / "new.json").exists()


def test_a_link_inside_the_project_and_a_link_of_your_own_are_followed(tmp_path: Path) -> None:
    for folder in ("project/.cursor", "project/etc", "home/.cursor", "dotfiles"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project" / ".cursor" / "mcp.json").symlink_to("../etc/mcp.json")
    (tmp_path / "home" / ".cursor" / "mcp.json").symlink_to("../../dotfiles/mcp.json")
    ledger = Ledger(tmp_path / "metier")
    env = {"HOME": str(tmp_path / "home")}
    for where in ("project", "user"):
        ledger.apply(plan.install(Wish(host("cursor"), where, tmp_path / "project", env), COMMANDS))  # type: ignore[arg-type]
    assert (tmp_path / "project" / "etc" / "mcp.json").is_file() and (tmp_path / "dotfiles" / "mcp.json").is_file()
