"""An external scanner, where there is one: found, asked with the folder as one argument, and read."""

import json
import sys
from pathlib import Path

import pytest

from edge.material import workshop
from metier.edge.scanner import Finding, read, scan
from metier.errors import InputError

REPORT = {
    "skill_name": "evil", "is_safe": False, "findings": [
        {"severity": "LOW", "title": "Vague", "file_path": "SKILL.md", "line_number": None, "remediation": "Say more"},
        {"severity": "CRITICAL", "title": "Exfiltration", "file_path": "SKILL.md", "line_number": 8, "remediation": ""},
        "nonsense", {"rule_id": "R1"},
    ],
}  # fmt: skip


def test_findings_come_gravest_first_and_what_is_missing_is_filled_in() -> None:
    found = read("loading rules…\n" + json.dumps(REPORT), "skill-scanner")
    assert [f.severity for f in found] == ["CRITICAL", "LOW", "INFO"]
    assert found[0] == Finding("CRITICAL", "Exfiltration", "SKILL.md", 8, "") and found[2].title == "R1"
    for text in ("", "[]", '{"x": 1}', "{broken"):
        with pytest.raises(InputError, match="run it by hand"):
            read(text, "skill-scanner")


def test_a_folder_with_shell_signs_in_its_name_is_one_argument_and_no_command(tmp_path: Path) -> None:
    folder = tmp_path / "a; touch pwned $(x)"
    folder.mkdir()
    program = "import sys, json; print(json.dumps({'findings': [{'title': sys.argv[1]}]}))"
    found = scan(str(folder), f'{sys.executable} -c "{program}" {{folder}}')
    assert [f.title for f in found] == [str(folder)] and not (tmp_path / "pwned").exists()


def test_without_a_scanner_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="pipx install cisco-ai-skill-scanner"):
        scan(str(tmp_path))
    with pytest.raises(InputError, match="folder"):
        scan(str(tmp_path), f"{sys.executable} -V")


def test_the_verb_prints_what_the_scanner_of_a_skill_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    from metier.edge.cli.safety import add_scan, run_scan
    from metier.edge.cli.screen import Screen

    monkeypatch.setenv("HOME", str(tmp_path))
    shop = workshop(tmp_path)
    monkeypatch.chdir(shop.cwd)
    parser = argparse.ArgumentParser()
    add_scan(parser)
    (tmp_path / "says.json").write_text(json.dumps(REPORT), encoding="utf-8")
    program = f"import pathlib; print(pathlib.Path('{tmp_path / 'says.json'}').read_text())"
    args = parser.parse_args(["pdf-forms", "--scanner", f'{sys.executable} -c "{program}" {{folder}}'])
    args.config = shop.config
    assert run_scan(args, Screen(out=sys.stdout, err=sys.stderr)) == 0
    out = capsys.readouterr().out
    assert "project:pdf-forms: 3 findings" in out and "CRITICAL SKILL.md:8: Exfiltration" in out
