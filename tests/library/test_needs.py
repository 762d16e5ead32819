"""What a skill needs, from its front matter (methods 4.2, 4.3)."""

from __future__ import annotations

import json
import os

import pytest

from metier.library.needs import listed, requirements
from metier.library.skillmd import parse


def needs(front: str) -> list[tuple[str, tuple[str, ...], bool]]:
    parsed = parse(f"---\nname: x\ndescription: y\n{front}\n---\nz\n".encode(), path="x/SKILL.md", folder="x")
    return [(need.kind, need.names, need.declared) for need in parsed.requires]


@pytest.mark.parametrize("host", ["openclaw", "clawdbot"])
@pytest.mark.parametrize("form", ["yaml", "json", "string", "inner string"])
def test_openclaws_requirements_are_declared_in_every_form_they_are_written(host: str, form: str) -> None:
    requires = {"bins": ["jq", "git"], "anyBins": ["rg", "grep"], "env": ["API_KEY"], "config": ["a.b"]}
    inner = json.dumps({"requires": requires, "os": ["darwin", "linux"]})
    front = {
        "yaml": f"metadata:\n  {host}:\n    os: [darwin, linux]\n    requires:\n      bins: [jq, git]\n"
        "      anyBins: [rg, grep]\n      env: [API_KEY]\n      config: [a.b]",
        "json": f'metadata: {{"{host}": {inner}}}',
        "string": f"metadata: '{{\"{host}\": {inner}}}'",
        "inner string": f"metadata:\n  {host}: '{inner}'",
    }[form]
    assert needs(front) == [
        ("bin", ("jq",), True), ("bin", ("git",), True), ("env", ("API_KEY",), True), ("config", ("a.b",), True),
        ("bin", ("rg", "grep"), True), ("os", ("darwin", "linux"), True),
    ]  # fmt: skip


def test_our_own_requirements_are_declared() -> None:
    front = (
        "metadata:\n  metier-requires-bins: jq, git\n  metier-requires-any-bins: rg grep\n"
        "  metier-requires-env: [KEY]\n  metier-requires-config: a.b\n  metier-requires-tools: Bash\n"
        "  metier-requires-os: macOS\n  metier-requires-network: yes"
    )
    assert needs(front) == [
        ("bin", ("jq",), True), ("bin", ("git",), True), ("env", ("KEY",), True), ("config", ("a.b",), True),
        ("tool", ("Bash",), True), ("bin", ("rg", "grep"), True), ("os", ("darwin",), True),
        ("network", ("internet",), True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("compatibility", "expected"),
    [
        ("Requires Python 3.10+ and git", [("bin", ("python3", "python")), ("bin", ("git",))]),
        ("Python 3.12+, pipx", [("bin", ("python3", "python"))]),
        ("Requires ripgrep or grep", [("bin", ("rg",))]),
        ("Requires Node.js 18+ or bun", [("bin", ("node", "bun"))]),
        ("Requires ImageMagick installed and available as `magick` on PATH.", [("bin", ("magick", "convert"))]),
        ("macOS only", [("os", ("darwin",))]),
        ("Requires Python 3.9+, macOS or Linux.", [("os", ("darwin", "linux")), ("bin", ("python3", "python"))]),
        ("Requires internet access to prices.azure.com.", [("network", ("internet",))]),
        ("Outbound HTTPS connectivity required", [("network", ("internet",))]),
        ("Designed for Claude Code, also compatible with Codex", []),
        ("Cross-platform (Windows, macOS, Linux). Optional: git, gh CLI.", []),
        ("Pure reasoning skill: no network access, scripts or API keys", []),
        ("Python and TypeScript apps use packages", []),
        ("Works offline; needs no network", []),
    ],
)
def test_compatibility_declares_an_os_a_binary_or_the_network_where_it_names_one(
    compatibility: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert [(kind, names) for kind, names, _ in needs(f"compatibility: '{compatibility}'")] == expected


@pytest.mark.parametrize(
    "tools", ["Read Bash(git add:*) mcp__x", "Read, Bash(git add:*), mcp__x", "[Read, 'Bash(git add:*)', mcp__x]",
              "\n  - Read\n  - Bash(git add:*)\n  - mcp__x"]
)  # fmt: skip
def test_allowed_tools_is_one_undeclared_need_that_any_of_them_meets(tools: str) -> None:
    assert needs(f"allowed-tools: {tools}") == [("tool", ("Read", "Bash(git add:*)", "mcp__x"), False)]


def test_variables_are_known_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    text = '---\nname: x\ndescription: y\nmetadata: {"openclaw": {"requires": {"env": ["API_KEY"]}}}\n---\nz\n'
    parsed = parse(text.encode(), path="x", folder="x")
    assert parsed.requires[0].names == ("API_KEY",)
    assert os.environ["API_KEY"] not in repr(parsed)


ODD = [None, "", 7, [], {}, [[]], [{}], {"requires": 1}, {"openclaw": []}, "{", "[",
       {"openclaw": {"requires": {"bins": {"a": 1}}}}]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_metadata_needs_nothing(odd: object) -> None:
    found = requirements({"metadata": odd, "compatibility": odd})
    assert found == ()
    assert isinstance(listed(odd), tuple)
