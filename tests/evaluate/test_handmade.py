import json
from pathlib import Path

import pytest

from metier.errors import InputError
from metier.evaluate.datasets import Request
from metier.evaluate.handmade import hand_pairs, read_edits
from metier.types import Skill

BODY = "# Count\n\nNever open the archive.\nWait 5 minutes.\n"


def rows(tmp_path: Path, *edits: dict) -> Path:
    path = tmp_path / "hand.jsonl"
    path.write_text("\n".join(map(json.dumps, edits)), encoding="utf-8")
    return path


def edit(**changed: object) -> dict:
    given = {"id": "h1", "request": "l1", "kind": "unit", "part": "held", "edits": [["5 minutes", "5 hours"]]}
    return {**given, **changed}


def skill(name: str = "count") -> Skill:
    return Skill(id=name, name=name, digest="d", root="", scope="given", description="Counts.", addresses=(name,))


def test_the_edits_of_one_request_stand_beside_its_valid_skill(tmp_path: Path) -> None:
    path = rows(tmp_path, edit(), edit(id="h2", kind="negation", edits=[["Never open", "Feel free to open"]]))
    asked = {"l1": Request("l1", "Wait 5 minutes.", {"count": 1.0}, "x")}
    ((pair, edits),) = hand_pairs(read_edits(path), asked, {"count": skill()}, lambda s: BODY)
    assert sorted(e.id for e in edits if e) == ["h1", "h2"] and edits[pair.position] is None
    assert pair.candidates[pair.position].body == BODY
    assert {c.operator for c in pair.candidates} == {None, "unit", "negation"}
    assert all(c.skill.id.startswith("given:") for c in pair.candidates)


def test_what_is_not_given_is_left_out(tmp_path: Path) -> None:
    assert hand_pairs(read_edits(rows(tmp_path, edit())), {}, {"count": skill()}, lambda s: BODY) == []


def test_an_edit_of_what_the_skill_does_not_say_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not say"):
        read_edits(rows(tmp_path, edit()))[0].apply("another text")


@pytest.mark.parametrize("wrong", [{"part": "both"}, {"edits": []}, {"edits": ["abc"]}, {"edits": None}])
def test_a_row_that_is_no_edit_is_refused_with_its_line(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(InputError, match=":1: "):
        read_edits(rows(tmp_path, edit(**wrong)))
