"""Requirements against the agent's tools and this machine, each answer with its reason."""

from __future__ import annotations

import pytest

from metier.gate.runnable import Machine, Runnable, check
from metier.gate.tools import capability, fits
from metier.types import Requirement, Task

from .material import skill

LOCAL = Task("", tools=frozenset({"Bash", "Read"}))
REMOTE = Task("", tools=frozenset({"Bash"}), local=False)


def need(kind, *names, declared=True, source="metadata.openclaw.requires"):
    return Requirement(kind, names, declared, source)


@pytest.fixture
def machine(tmp_path):
    for name in ("magick", "git"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "readme").write_text("not a program", encoding="utf-8")
    return Machine("linux", str(tmp_path), frozenset({"TOKEN_A", "EMPTY"}))


@pytest.mark.parametrize(
    ("requirement", "state", "reason"),
    [
        (need("bin", "git"), "met", "git is on the path"),
        (need("bin", "convert", "magick"), "met", "magick is on the path"),
        (need("bin", "pdftotext"), "missing", "pdftotext is not on the path"),
        (need("bin", "a1", "b2"), "missing", "a1 or b2 are not on the path"),
        (need("bin", "readme"), "missing", "readme is not on the path"),
        (need("bin", "/opt/x/tool"), "unknown", "is a path"),
        (need("env", "TOKEN_A"), "met", "TOKEN_A is set"),
        (need("env", "TOKEN_B"), "missing", "TOKEN_B is not set"),
        (need("os", "linux"), "met", "this is Linux"),
        (need("os", "darwin", "win32"), "missing", "this is Linux, it needs macOS or Windows"),
        (need("os", "macOS", "Linux"), "met", "this is Linux"),
        (need("config", "channels.discord"), "unknown", "settings of another program"),
        (need("network", "internet"), "unknown", "not tried out"),
        (need("tool", "bash"), "met", "the agent has Bash"),
        (need("tool", "Write"), "missing", "the agent has no write tool"),
        (need("tool", "Write", "Bash(git:*)"), "met", "the agent has Bash"),
        (need("file", "scripts/run.py"), "missing", "mentions scripts/run.py, which the folder lacks"),
        (need("file", "./reference.md"), "met", "reference.md is in the folder"),
    ],
)
def test_every_requirement_is_met_missing_or_unknown_with_its_reason(machine, requirement, state, reason):
    found = check(requirement, skill("a", resources=("reference.md",)), LOCAL, machine)
    assert found.state == state and reason in found.reason
    assert found.blocks == (state == "missing")


@pytest.mark.parametrize("kind", ["bin", "env", "os", "config", "network"])
def test_nothing_about_the_agents_machine_is_known_when_it_is_another_one(machine, kind):
    found = check(need(kind, "no-such-thing"), skill("a"), REMOTE, machine)
    assert found.state == "unknown"


def test_tools_travel_with_the_task_even_from_another_machine(machine):
    assert check(need("tool", "shell"), skill("a"), REMOTE, machine).state == "met"
    assert check(need("tool", "shell"), skill("a"), Task(""), machine).state == "unknown"


def test_a_hint_that_is_not_declared_never_blocks(machine):
    found = check(need("tool", "Write", declared=False, source="allowed-tools"), skill("a"), LOCAL, machine)
    assert found.state == "missing" and not found.blocks


def test_the_files_of_a_jsonl_skill_are_unknown(machine):
    import dataclasses

    listed = dataclasses.replace(skill("a"), addresses=("/r/all.jsonl#a",))
    assert check(need("file", "x.py"), listed, LOCAL, machine).state == "unknown"


def test_no_value_of_a_variable_is_ever_read():
    class Guarded(dict):
        def __getitem__(self, name):
            assert name == "PATH", f"the value of {name} was read"
            return super().__getitem__(name)

        def get(self, name, default=None):
            assert name == "PATH", f"the value of {name} was read"
            return super().get(name, default)

        def items(self):
            raise AssertionError("values were read")

        values = items

    machine = Machine.here(Guarded({"PATH": "/bin", "API_KEY": "secret"}))
    assert check(need("env", "API_KEY"), skill("a"), LOCAL, machine).state == "met"
    assert machine.fingerprint() and "secret" not in repr(machine)


def test_answers_are_remembered_until_the_environment_or_the_skill_changes(tmp_path):
    needy = skill("a", requires=(need("bin", "late"), need("env", "LATE")))
    look = Runnable(machine=Machine("linux", str(tmp_path), frozenset()))
    first = look(needy, LOCAL)
    assert look(needy, LOCAL) is first
    assert look(needy, REMOTE) is not first
    assert look(skill("a", digest="new", requires=needy.requires), LOCAL) is not first
    (tmp_path / "late").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "late").chmod(0o755)
    assert [f.state for f in look(needy, LOCAL)] == ["met", "missing"]


def test_a_skill_without_requirements_costs_nothing_to_check():
    look = Runnable()
    assert look(skill("a")) == () and look.look([skill("a"), skill("b")]) == [(), ()]


@pytest.mark.parametrize(
    ("wanted", "had", "host", "found"),
    [
        ("Bash", {"bash"}, "generic", "bash"),
        ("shell", {"Bash"}, "generic", "Bash"),
        ("Bash(git:*)", {"run_shell_command"}, "gemini", "run_shell_command"),
        ("Edit", {"replace"}, "gemini", "replace"),
        ("Edit", {"replace"}, "generic", None),
        ("mcp__github__*", {"mcp__github__create_issue"}, "generic", "mcp__github__create_issue"),
        ("mcp__github__*", {"mcp__gitlab__create_issue"}, "generic", None),
        ("web-fetch", {"WebFetch"}, "generic", "WebFetch"),
        ("Bash", {"bashful"}, "generic", None),
        ("Teleport", {"teleport"}, "generic", "teleport"),
    ],
)
def test_tools_are_compared_by_what_they_are_for(wanted, had, host, found):
    assert fits(wanted, had, host) == found


def test_a_tools_pattern_does_not_change_what_it_is_for():
    assert capability("Bash(npm run test:*)") == capability("bash") == "shell"
