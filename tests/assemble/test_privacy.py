"""What of a request is kept: what `log.text` says, in the log and in the bank alike (decision 0063)."""

from pathlib import Path

import pytest

from edge.material import workshop
from metier.types import Outcome

ASKED = "why is this query slow, of customer Ångström"


def in_files(home: Path) -> bool:
    """Whether the request's words stand anywhere in the home, the database's log included."""
    return any("Ångström".encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("setting", ["full", "hash", "off"])
def test_the_bank_keeps_no_more_of_a_request_than_the_log(setting: str, tmp_path: Path) -> None:
    shop = workshop(tmp_path, log_text=setting)
    router = shop.router()
    outcome = router.record(router.route(ASKED), "sql-tuning", 1.0, origin="check")
    assert outcome.task == ASKED, "whoever records has the text already"
    assert in_files(tmp_path / "home") == (setting == "full")
    assert len(shop.bank.outcomes()) == 1


def test_both_arms_of_a_task_are_a_pair_whichever_process_recorded_them(tmp_path: Path) -> None:
    shop = workshop(tmp_path, log_text="hash", stack="s/1")
    first, later = shop.router(), workshop(tmp_path, built=False, log_text="hash", stack="s/1").router(source="cli")
    first.record(first.route(ASKED), "sql-tuning", 1.0, origin="check")
    later.record(first.route(ASKED).id, "sql-tuning", 0.0, arm="skip", origin="check")
    pairs = shop.bank.pairs("s/1", "project:sql-tuning")
    assert (pairs.y0.tolist(), pairs.y1.tolist()) == ([0.0], [1.0])


def test_a_task_that_a_person_brought_as_data_keeps_its_text(tmp_path: Path) -> None:
    shop = workshop(tmp_path, log_text="hash")
    skill = shop.skill("sql-tuning")
    shop.bank.append([Outcome(ASKED, (skill.id,), (skill.digest,), "s/1", "use", 1.0, None, None, 0, 1.0, "check")])
    assert in_files(tmp_path / "home")
