import random
from collections import Counter

import pytest

from metier.evaluate.corrupt import OPERATORS, chosen, corruptions
from metier.evaluate.swaps import FORMATS, METHODS, TOOLS, UNITS, neighbours

BODY = """# Mesh report

Works on one binary STL file.

## Steps

1. Parse the mesh with `numpy` and count its triangles.
2. Merge vertices that are closer than 0.5 mm before the volume is taken.
3. Look up the density of the alloy in the material table.
   - The table is in the same folder.
4. Write the result as JSON, at most 300 dpi for the picture.

## Rules

- Never repair a broken mesh.
- Wait at most 30 seconds for the viewer.
"""
REQUEST = (
    "Parse this mesh with numpy, merge vertices closer than 0.5 mm, look up the density of our alloy in the material "
    "table and give me JSON. Don't repair a broken mesh, and wait at most 30 seconds for the viewer."
)
DESCRIPTION = "Mass of a mesh as JSON."


def found(seed: int = 0, request: str = REQUEST) -> list:
    return corruptions(request, BODY, DESCRIPTION, random.Random(seed), foreign=("gizmo", "widget"))


def test_every_operator_breaks_something_that_the_request_states() -> None:
    assert {c.operator for c in found()} == set(OPERATORS)


def test_a_corruption_touches_what_it_says_and_nothing_else() -> None:
    for one in found():
        before, after = BODY.split("\n"), one.apply(BODY).split("\n")
        kept = [line for n, line in enumerate(before) if n not in one.changes]
        assert [line for line in after if line in kept or line in before] == [
            line for n, line in enumerate(before) if n not in one.changes or one.changes[n] == line
        ]
        assert one.apply(BODY) != BODY and len(before) - len(after) == sum(v is None for v in one.changes.values())


def test_a_removed_step_takes_its_sub_steps_along() -> None:
    removed = next(c for c in found() if c.operator == "step-removed" and "density" in BODY.split("\n")[min(c.changes)])
    assert "same folder" not in removed.apply(BODY)


def test_the_description_is_broken_where_it_names_the_thing_too() -> None:
    one = next(c for c in found() if c.operator == "format-changed" and c.stated == "json")
    assert "JSON" not in one.describe(DESCRIPTION) and "JSON" not in one.apply(BODY)


def test_what_the_request_does_not_state_is_left_alone() -> None:
    assert corruptions("What is the weather like?", BODY, DESCRIPTION, random.Random(0)) == []
    assert all(c.stated != "300" for c in found())


def test_the_same_seed_gives_the_same_corruptions() -> None:
    assert found(3) == found(3) and found(3) != found(4)


def test_chosen_ones_differ_in_text_and_prefer_rare_operators() -> None:
    seen = Counter({"tool-changed": 50, "step-removed": 40})
    taken = chosen(found(), 3, BODY, seen=seen)
    assert len({c.apply(BODY) for c in taken}) == 3 and len({c.operator for c in taken}) == 3
    assert not {"tool-changed", "step-removed"} & {c.operator for c in taken}
    assert len(chosen(found(), 1000, BODY)) < 1000


@pytest.mark.parametrize("groups", [FORMATS, METHODS, TOOLS])
def test_swap_tables_lead_to_something_else(groups: tuple[tuple[str, ...], ...]) -> None:
    assert all(others and word not in others for word, others in neighbours(groups).items())
    assert all(others for others in UNITS.values())
