import json
from pathlib import Path

import pytest

from metier.errors import InputError
from metier.evaluate.paraphrase import Rewording, read_rewordings, reworded
from metier.models.encoder import open_encoder

ROWS = [
    Rewording("p", "Sort the invoices by due date", "Invoices get sorted by their due date", True),
    Rewording("n", "Wait 30 seconds for the viewer", "Wait 30 minutes for the viewer", False),
]


def test_a_rewording_shares_id_and_w_and_another_unit_does_not(tmp_path: Path) -> None:
    found = reworded(ROWS, open_encoder("minilm"), tmp_path)
    assert (found["one_id"], found["one_w"], found["told_apart"], found["missed"]) == (100.0, 100.0, 100.0, [])


def test_what_goes_wrong_is_named(tmp_path: Path) -> None:
    wrong = [Rewording("w", "Brew the tea", "Compile the kernel", True)]
    found = reworded(wrong, open_encoder("minilm"), tmp_path)
    assert found["missed"] == ["w"] and found["one_id"] == 0.0


def test_a_row_that_is_no_rewording_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", "one": "x", "other": "y", "same": "yes"}), encoding="utf-8")
    with pytest.raises(InputError, match=":1: "):
        read_rewordings(path)


def test_the_committed_rewordings_are_read() -> None:
    rows = read_rewordings(Path(__file__).parents[2] / "training" / "paraphrases.jsonl")
    assert len(rows) >= 30 and {r.same for r in rows} == {True, False}
