"""What `metier doctor` finds, in the order in which it matters."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from metier.errors import LibraryError
from metier.library.doctor import CODES, KINDS, Report, difference, examine, kind_of
from metier.library.read import body
from metier.library.scan import Root, scan
from metier.types import Skill

from .shelf import put

FOUND = {"missing-requirement", "same-name", "shadowed", "listing-budget", "near-duplicate", "look-alike",
         "missing-file", "duplicate", "nested"}  # fmt: skip
"""Codes of what the doctor itself finds."""
CALLS = ("note", "_problem", "Problem", "_unusable")


def sick(tmp_path: Path) -> Report:
    """A library with one of everything."""
    user, project = tmp_path / "user", tmp_path / "project"
    put(project, "broken", text=b"\0\1\2\3\4" * 99)
    put(project, "colon", text="---\nname: colon\ndescription: a: b\n---\nx\n")
    put(project, "crlf", text="---\r\nname: crlf\r\ndescription: d\r\n---\r\nx\r\n")
    put(project, "long", description="x" * 2_000)
    put(project, "same/pdf", name="pdf", description="Forms.")
    put(project, "other/pdf", name="pdf", description="Tables.")
    put(project, "copy/a/twin", name="twin")
    put(project, "copy/b/twin", name="twin")
    put(project, "lacks", body="Run scripts/run.sh\n")
    put(project, "needy", more="compatibility: Requires git and jq\n")
    put(project, "outer")
    put(project, "outer/inner")
    put(user, "colon", description="The other.")
    library = scan([Root(project, "project"), Root(user, "user")])
    at = {skill.id: i for i, skill in enumerate(library.skills)}
    pair = (at["project:same/pdf"], at["project:other/pdf"])
    return examine(
        library,
        body=body,
        look_alikes=[(*pair, 0.98), (at["project:lacks"], at["project:needy"], 0.8)],
        runnable=lambda skill: [r.names[0] for r in skill.requires if r.kind == "bin" and r.names == ("jq",)],
    )


def test_everything_that_is_wrong_is_found_once(tmp_path: Path) -> None:
    report = sick(tmp_path)
    assert report.counts == {
        "lost": 1, "unmet": 1, "collision": 1, "shadowed": 1, "listing": 1, "near-duplicate": 1, "look-alike": 1,
        "refused": 1, "reference": 1, "duplicate": 1, "standard": 1, "nested": 1, "form": 1,
    }  # fmt: skip


def test_what_costs_a_person_most_comes_first(tmp_path: Path) -> None:
    kinds = [finding.kind for finding in sick(tmp_path).findings]
    assert kinds == sorted(kinds, key=list(KINDS).index)
    assert kinds[0] == "lost"


def test_every_finding_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    report = sick(tmp_path)
    assert all(f.path and f.code and f.message and f.remedy and "\n" not in f.message for f in report.findings)
    [colon] = report.of("refused")
    assert (colon.line, colon.code) == (3, "unquoted-colon") and colon.path.endswith("project/colon/SKILL.md")
    [unmet] = report.of("unmet")
    assert unmet.message == "'needy' needs jq" and unmet.skills == ("project:needy",)
    [shadowed] = report.of("shadowed")
    assert shadowed.message == "'colon' (user) is hidden by project:colon"
    [reference] = report.of("reference")
    assert "scripts/run.sh" in reference.message
    [nested] = report.of("nested")
    assert nested.skills == ("project:outer/inner", "project:outer")
    [collision] = report.of("collision")
    assert set(collision.skills) == {"project:same/pdf", "project:other/pdf"}


def test_look_alikes_are_told_apart_by_what_only_one_has(tmp_path: Path) -> None:  # field report 6
    [alike] = sick(tmp_path).of("look-alike")
    assert "'lacks' and 'needy' are 80% alike" in alike.message
    assert "only lacks: " in alike.message and "only needy: bin git, bin jq" in alike.message


def test_skills_with_the_same_words_are_said_to_be_the_same() -> None:
    one, other = (Skill(f"given:{i}/x", "x", "Same words.", "", "/r", "given", ()) for i in "ab")
    assert difference(one, other, lambda _: "body") == "their words are the same"
    assert difference(one, other, lambda skill: "body " * len(skill.id[:1]) + ("body" if skill is one else "")) == (
        "they use the same words in other amounts"
    )


def test_a_look_alike_that_is_gone_is_left_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(tmp_path, name)
    library = scan([tmp_path])
    (tmp_path / "one" / "SKILL.md").unlink()
    assert examine(library, body=body, look_alikes=[(0, 1, 0.9)]).of("look-alike") == ()


def test_another_differ_is_asked_when_it_is_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(tmp_path, name)

    def never(_: Skill) -> str:
        raise LibraryError("the body is not needed")

    report = examine(scan([tmp_path]), body=never, look_alikes=[(0, 1, 0.9)], differ=lambda a, b: f"{a.name}≠{b.name}")
    assert report.of("look-alike")[0].message.endswith("one≠two")


def test_a_healthy_library_has_nothing_to_report_but_its_listing(tmp_path: Path) -> None:
    put(tmp_path, "pdf")
    report = examine(scan([tmp_path]), body=body, hosts=("claude-code", "codex", "openclaw"))
    assert report.findings == () and report.skills == 1 and report.looked == (str(tmp_path),)
    assert [each.host for each in report.listings] == ["claude-code", "codex", "openclaw"]


def test_the_listing_names_whom_the_host_cuts(tmp_path: Path) -> None:  # field report 1
    for i in range(40):
        put(tmp_path, f"s{i:02}", description="d" * 500)
    [listing] = examine(scan([tmp_path]), body=body).of("listing")
    assert "claude-code shows 15 of 40 skills in full, 25 by name only" in listing.message
    assert len(listing.skills) == 25 and "metier route" in listing.remedy


def test_the_report_is_plain_data(tmp_path: Path) -> None:
    data = json.loads(json.dumps(sick(tmp_path).as_dict()))
    assert data["schema"] == "metier-doctor-v1" and data["counts"]["lost"] == 1
    assert data["findings"][0]["kind"] == "lost"


def test_every_code_has_its_kind_and_its_row_in_the_documentation() -> None:
    root = Path(__file__).parents[2]
    documented = (root / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z0-9-]+)` \|", documented, re.MULTILINE))
    written = set()
    for file in (root / "src" / "metier" / "library").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in CALLS:
                constants = (arg.value for arg in node.args if isinstance(arg, ast.Constant))
                written |= {value for value in constants if isinstance(value, str)}
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(code, message, remedy)":
                written.add(ast.literal_eval(node.value.elts[0]))  # type: ignore[attr-defined]
    codes = {text for text in written if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*", text)}
    assert set(CODES) - codes == set()
    assert codes - set(CODES) <= {"name", "description", "compatibility", "allowed-tools", "metadata"}
    assert rows == set(CODES) | FOUND
    assert set(CODES.values()) <= set(KINDS) and kind_of("crlf") == "form"
