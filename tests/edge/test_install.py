"""Writing a host's configuration: shown, asked, kept whole, and taken out again to the byte."""

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from golden import golden, golden_json
from metier.edge.cli.main import main
from metier.edge.install import jsonc, manifest, plan, plugin
from metier.edge.install.manifest import Commands, host, ours
from metier.edge.install.plan import Ledger, Wish
from metier.errors import InputError, NotFound

COMMANDS = Commands(python="/opt/python/bin/python3")
HOSTS = [name for name in manifest.names() if name != "generic"]


def wish(name: str, at: Path, **more: Any) -> Wish:
    env = {"HOME": str(at / "home")}
    return Wish(host(name), more.pop("where", "user"), at / "project", env, **more)


def installed(name: str, at: Path, **more: Any) -> tuple[Wish, Ledger, list[plan.Change]]:
    wanted, ledger = wish(name, at, **more), Ledger(at / "metier")
    changes = plan.install(wanted, COMMANDS)
    ledger.apply(changes)
    return wanted, ledger, changes


def tree(at: Path) -> dict[str, bytes]:
    return {str(p.relative_to(at)): p.read_bytes() for p in sorted(at.rglob("*")) if p.is_file()}


# ------------------------------------------------------------------------------------------------ every host


@pytest.mark.parametrize("name", HOSTS)
def test_what_each_host_gets_golden(name: str, tmp_path: Path) -> None:
    _, _, changes = installed(name, tmp_path)
    entry = str(Path(manifest.__file__).parents[1] / "hooks" / "entry.py")
    shown = {
        str(c.path.relative_to(tmp_path)): (c.after or b"").decode().replace(entry, "/site/metier/edge/hooks/entry.py")
        for c in changes
    }
    golden(f"install-{name}.txt", "".join(f"=== {path}\n{text}" for path, text in shown.items()))


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("where", ["user", "project"])
def test_installing_twice_changes_nothing_and_uninstalling_leaves_no_trace(
    name: str, where: str, tmp_path: Path
) -> None:
    wanted, ledger, changes = installed(name, tmp_path, where=where)
    assert changes and plan.install(wanted, COMMANDS) == []
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert tree(tmp_path / "home") == tree(tmp_path / "project") == {}
    assert not (tmp_path / "home").exists() and not (tmp_path / "project").exists(), "folders that were made go too"
    assert plan.uninstall(wanted, ledger) == []


SETTINGS = """\ufeff// my settings
{
    "model": "opus", // the good one
    "hooks": {
        "UserPromptSubmit": [ { "hooks": [ { "type": "command", "command": "mine.sh" } ] } ],
        /* keep */
    },
    "permissions": {"allow": ["Bash(git:*)"]},
}
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_order_and_unknown_keys_stay_and_uninstalling_restores_every_byte(
    tmp_path: Path, newline: str
) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    before = SETTINGS.replace("\n", newline).encode()
    path.write_bytes(before)
    path.chmod(0o640)
    wanted, ledger, _ = installed("claude-code", tmp_path)
    after = path.read_bytes()
    text = after.decode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "// my settings" in text and "// the good one" in text and "/* keep */" in text and "mine.sh" in text
    assert ("\r\n" in text) == (newline == "\r\n") and "\n\n\n" not in text.replace("\r", "")
    kept = jsonc.read(text.replace("\r\n", "\n"))
    assert list(kept) == ["model", "hooks", "permissions"] and len(kept["hooks"]["UserPromptSubmit"]) == 2
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert path.read_bytes() == before


def test_after_somebody_else_touched_the_file_only_what_is_ours_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(SETTINGS, encoding="utf-8")
    wanted, ledger, _ = installed("claude-code", tmp_path)
    theirs = path.read_text(encoding="utf-8").replace('"opus"', '"haiku"')
    path.write_text(theirs, encoding="utf-8")
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    text = path.read_text(encoding="utf-8")
    assert "haiku" in text and "mine.sh" in text and "// the good one" in text and "metier" not in text
    assert jsonc.read(text)["hooks"] == {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "mine.sh"}]}]}


def test_a_file_that_we_made_and_somebody_edited_goes_when_nothing_of_theirs_is_left(tmp_path: Path) -> None:
    wanted, ledger, changes = installed("codex", tmp_path)
    hooks, config = (c.path for c in changes)
    hooks.write_text(hooks.read_text(encoding="utf-8").replace(": 5", ": 30"), encoding="utf-8")
    config.write_text(config.read_text(encoding="utf-8") + "\n[theirs]\nx = 1\n", encoding="utf-8")
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert not hooks.exists() and tomlkit.parse(config.read_text(encoding="utf-8")).unwrap() == {"theirs": {"x": 1}}


def test_our_handler_among_others_in_one_group_goes_alone(tmp_path: Path) -> None:
    mine = {"type": "command", "command": COMMANDS.hook("claude-code")}
    other = {"type": "command", "command": "theirs.sh"}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [other, mine]}, {"hooks": [mine]}]}}, indent=2)
    left = plan.without(text, tmp_path, "json", host("claude-code"))
    assert json.loads(left) == {"hooks": {"Stop": [{"hooks": [other]}]}}


def test_a_new_interpreter_replaces_the_old_entries_and_the_first_state_is_still_what_comes_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(SETTINGS, encoding="utf-8")
    wanted, ledger, _ = installed("claude-code", tmp_path)
    moved = replace(COMMANDS, python="/new/python")
    ledger.apply(plan.install(wanted, moved))
    text = path.read_text(encoding="utf-8")
    assert "/new/python" in text and "/opt/python" not in text
    assert text.count("entry.py") == len(host("claude-code").hooks)
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert path.read_text(encoding="utf-8") == SETTINGS


TOML = '# my codex\nmodel = "gpt-6"  # fast\n\n[mcp_servers.other]\ncommand = "x"\n\n[profiles.a]\nb = 1\n'


def test_toml_keeps_its_comments_and_tables_and_comes_back_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".codex" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TOML, encoding="utf-8")
    wanted, ledger, _ = installed("codex", tmp_path)
    text = path.read_text(encoding="utf-8")
    data = tomlkit.parse(text).unwrap()
    assert "# my codex" in text and "# fast" in text
    assert data["mcp_servers"]["metier"]["args"] == ["-I", "-m", "metier.edge.cli.main", "mcp"]
    assert data["mcp_servers"]["other"] == {"command": "x"} and data["profiles"] == {"a": {"b": 1}}
    path.write_text(text + "\n# later\n", encoding="utf-8")
    taken = plan.uninstall(wanted, ledger)
    ledger.apply(taken, undo=True)
    assert tomlkit.parse(path.read_text(encoding="utf-8")).unwrap() == tomlkit.parse(TOML).unwrap()
    assert "# later" in path.read_text(encoding="utf-8")
    path.write_text(TOML, encoding="utf-8")
    wanted, ledger, _ = installed("codex", tmp_path)
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert path.read_text(encoding="utf-8") == TOML


def test_time_outs_are_in_the_unit_of_the_host() -> None:
    def times(name: str, url: str | None = None) -> set[Any]:
        groups = manifest.hook_entries(host(name), replace(COMMANDS, url=url))
        return {g["hooks"][0]["timeout"] for _, g in groups}

    assert times("claude-code") == times("codex") == {5} and times("gemini") == times("qwen") == {5000}
    assert times("qwen", "http://127.0.0.1:7717") == {5, 5000}, "its http hooks count in seconds, its commands not"


def test_commands_name_the_interpreter_absolutely_and_survive_a_space_in_a_path() -> None:
    import shlex

    commands = Commands(python="/opt/my python/bin/python3", home="/data/my home")
    words = shlex.split(commands.hook("codex"))
    assert words[:2] == ["/opt/my python/bin/python3", "-I"] and Path(words[2]).is_file()
    assert words[3:] == ["codex", "--home=/data/my home"]
    assert Path(Commands().python).is_absolute() and Commands().python == sys.executable
    assert ours({"type": "command", "command": commands.hook("codex")})
    assert not ours({"type": "command", "command": "python entry.py"}) and not ours("x")


def test_with_http_the_hooks_ask_the_server_where_the_host_can() -> None:
    groups = dict(manifest.hook_entries(host("claude-code"), replace(COMMANDS, url="http://127.0.0.1:7717")))
    assert groups["UserPromptSubmit"]["hooks"][0] == {
        "type": "http", "url": "http://127.0.0.1:7717/v1/hook/claude-code", "timeout": 5,
        "headers": {"Authorization": "Bearer $METIER_TOKEN"}, "allowedEnvVars": ["METIER_TOKEN"],
    }  # fmt: skip
    assert groups["SessionStart"]["hooks"][0]["type"] == "command", "the host skips http hooks there"
    assert all(ours(g["hooks"][0]) for g in groups.values())


def test_a_jsonc_file_that_exists_is_the_one_that_is_changed(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text('{\n  // mine\n  "theme": "dark",\n}\n', encoding="utf-8")
    _, _, changes = installed("opencode", tmp_path)
    assert [c.path.name for c in changes] == ["opencode.jsonc"]
    text = (folder / "opencode.jsonc").read_text(encoding="utf-8")
    assert "// mine" in text and jsonc.read(text)["mcp"]["servers"]["metier"]["type"] == "local"


def test_a_link_to_a_dotfiles_repository_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}\n", encoding="utf-8")
    link = tmp_path / "home" / ".claude" / "settings.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    wanted, ledger, _ = installed("claude-code", tmp_path, mcp=False)
    assert link.is_symlink() and "entry.py" in real.read_text(encoding="utf-8")
    ledger.apply(plan.uninstall(wanted, ledger), undo=True)
    assert link.is_symlink() and real.read_text(encoding="utf-8") == "{}\n"


# ------------------------------------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize(
    "text", ["{", '{"hooks": [}', "[1]", '{"a": 1} x', '{"hooks": {"Stop": {}}}', '{"hooks": 3}', "{'a': 1}", "/* x"]
)
def test_a_file_that_cannot_be_understood_is_named_with_its_line_and_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"settings\.json"):
        plan.install(wish("claude-code", tmp_path), COMMANDS)
    assert path.read_text(encoding="utf-8") == text


def test_bytes_that_are_no_utf8_and_a_file_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="UTF-8"):
        plan.install(wish("claude-code", tmp_path), COMMANDS)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="nothing was changed there"):
        Ledger(tmp_path).apply([plan.Change(tmp_path / "file" / "below.json", None, b"{}")])


def test_a_host_nobody_knows_gets_the_list_of_those_there_are() -> None:
    with pytest.raises(NotFound) as caught:
        host("emacs")
    assert "claude-code" in caught.value.choices and "codex" in caught.value.choices


def test_a_backup_that_is_gone_is_said_before_anything_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}", encoding="utf-8")
    wanted, ledger, _ = installed("cursor", tmp_path)
    for backup in (tmp_path / "metier" / "backups").iterdir():
        backup.unlink()
    with pytest.raises(InputError, match="backup"):
        plan.uninstall(wanted, ledger)
    assert "metier" in path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("METIER_HOME", str(tmp_path / "metier"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def test_the_command_shows_the_difference_and_writes_only_when_it_may(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["install", "cursor", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "+++ " in out and '+    "metier": {' in out and "nothing was changed" in out
    assert main(["install", "cursor"]) == 1, "nobody is there to ask"
    assert "--yes" in capsys.readouterr().err and not (user / "home").exists()
    monkeypatch.setattr("sys.stdin", Answer("n\n"))
    assert main(["install", "cursor"]) == 0 and not (user / "home").exists()
    monkeypatch.setattr("sys.stdin", Answer("y\n"))
    assert main(["install", "cursor"]) == 0
    assert (user / "home" / ".cursor" / "mcp.json").exists()
    capsys.readouterr()
    assert main(["install", "cursor", "--yes"]) == 0 and "already installed" in capsys.readouterr().out
    assert main(["uninstall", "cursor", "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "metier-uninstall-v1" and told["written"] and not (user / "home").exists()


class Answer:
    """A person at a terminal who says one thing."""

    def __init__(self, line: str) -> None:
        self.line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.line


def test_generic_needs_a_file_and_writes_the_usual_object(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "generic", "--yes"]) == 1 and "--file" in capsys.readouterr().err
    assert main(["install", "generic", "--file", "agent.json", "--yes"]) == 0
    data = json.loads((user / "project" / "agent.json").read_text(encoding="utf-8"))
    assert data["mcpServers"]["metier"]["command"] == sys.executable
    assert data["mcpServers"]["metier"]["args"][-1] == f"--home={user / 'metier'}"
    assert main(["uninstall", "generic", "--file", "agent.json", "--yes"]) == 0
    assert not (user / "project" / "agent.json").exists()


def test_as_a_plugin_the_settings_hold_two_entries_and_uninstalling_removes_all(user: Path) -> None:
    settings = user / "home" / ".claude" / "settings.json"
    assert main(["install", "claude-code", "--yes", "--quiet"]) == 0
    assert main(["install", "claude-code", "--plugin", "--yes", "--quiet"]) == 0
    data = json.loads(settings.read_text(encoding="utf-8"))
    folder = user / "metier" / "claude-plugin"
    assert data["enabledPlugins"] == {"metier@metier": True} and "hooks" not in data
    assert data["extraKnownMarketplaces"]["metier"]["source"] == {"source": "directory", "path": str(folder)}
    hooks = json.loads((folder / "metier" / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert set(hooks) == {h.event for h in host("claude-code").hooks}
    assert main(["uninstall", "claude-code", "--yes", "--quiet"]) == 0
    assert not folder.exists() and not settings.exists()
    assert main(["install", "codex", "--plugin", "--yes"]) == 1


def test_the_plugin_in_the_repository_says_the_same_as_the_installer() -> None:
    root = Path(__file__).parents[2]
    market = json.loads((root / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
    assert market == {
        **plugin.marketplace(),
        "plugins": [{**plugin.marketplace()["plugins"][0], "source": "./plugins/metier"}],
    }
    kept = json.loads((root / "plugins" / "metier" / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
    assert kept == plugin.manifest(kept["version"])
    hooks = json.loads((root / "plugins" / "metier" / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    assert {e: g[0].get("matcher") for e, g in hooks.items()} == {h.event: h.matcher for h in host("claude-code").hooks}
    assert os.access(root / "plugins" / "metier" / "bin" / "metier-run", os.X_OK)
    golden_json("plugin-hooks.json", hooks)


def test_a_file_of_ones_own_takes_the_hooks_where_the_mcp_server_is_not_wanted(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = user / "mine.json"
    mine.write_text('{ "a": 1 } // mine\n', encoding="utf-8")
    before = mine.read_bytes()
    assert main(["install", "claude-code", "--no-mcp", "--file", str(mine), "--yes"]) == 0
    text = mine.read_text(encoding="utf-8")
    assert "UserPromptSubmit" in text and "mcpServers" not in text and "// mine" in text
    assert main(["uninstall", "claude-code", "--file", str(mine), "--yes"]) == 0 and mine.read_bytes() == before
    capsys.readouterr()
    assert main(["install", "claude-code", "--no-mcp", "--no-hooks", "--yes"]) == 1
    assert "nothing is left to install" in capsys.readouterr().err
    assert main(["install", "cursor", "--no-mcp", "--yes"]) == 1
    assert "no hooks for this host" in capsys.readouterr().err
