"""The documents say what is: links lead somewhere, verbs exist, the generated page is current."""

import importlib.util
import re
from pathlib import Path

import pytest

from metier.edge.cli.main import VERBS

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_of_the_repository(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_metier_command_of_a_page_is_a_verb(page: Path) -> None:
    first = {verb.split()[0] for verb in VERBS}
    for command in re.findall(r"^(?:\$ )?metier ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert command in first, f"{page.name}: metier {command}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_page_names_a_path_of_the_machine_it_was_written_on(page: Path) -> None:
    assert not re.search(r"(?<![\w.])/(work|root)/", page.read_text(encoding="utf-8"))


def test_every_decision_has_a_number_of_its_own_and_fits_on_a_page() -> None:
    numbers = [p.name[:4] for p in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))
    long = [
        p.name for p in (ROOT / "docs" / "decisions").glob("*.md") if len(p.read_text(encoding="utf-8").split()) > 900
    ]
    assert long == []


def test_the_page_of_the_command_line_is_what_the_parsers_say() -> None:
    spec = importlib.util.spec_from_file_location("cli_docs", ROOT / "tools" / "cli_docs.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == tool.page(), "run: python tools/cli_docs.py"
