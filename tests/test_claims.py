"""Every numbered rule of the pages names a test; every claimed test exists and belongs to a written rule."""

import ast
import re
from pathlib import Path

from tests import claims

ROOT = Path(__file__).parents[1]
RULE = re.compile(r"^\*\*(\d+\.\d+[a-z]?)\*\*", re.MULTILINE)


def written() -> set[str]:
    pages = (ROOT / "docs" / "how-it-works").glob("*.md")
    return {number for page in pages for number in RULE.findall(page.read_text(encoding="utf-8"))}


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def test_every_written_rule_has_a_test() -> None:
    assert sorted(written() - set(claims.merged())) == []


def test_every_claim_belongs_to_a_written_rule() -> None:
    assert sorted(set(claims.merged()) - written()) == []


def test_every_claimed_test_exists() -> None:
    missing = []
    for rule, nodes in claims.merged().items():
        assert nodes, f"rule {rule} claims no test"
        for node in nodes:
            file, _, name = node.partition("::")
            path = ROOT / file
            if not path.is_file() or name.split("[")[0].split("::")[-1] not in names_in(path):
                missing.append(f"{rule}: {node}")
    assert missing == []
