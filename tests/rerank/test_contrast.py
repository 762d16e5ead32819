import numpy as np
import pytest
from tests.rerank.material import MESH, read

from metier.rerank.arrays import stack
from metier.rerank.contrast import contrast, groups, joined, sharing
from metier.rerank.request import needs

REQUEST = (
    "Parse the binary STL with numpy and no external mesh library, look up the density in the material table, "
    "file not larger than 50 MB, done within 30 seconds."
)


def told(valid: str, copy: str, request: str = REQUEST) -> tuple[np.ndarray, list[bool]]:
    members = [read("a", valid), read("b", copy)]
    readings = [list(zip(m.arrays.same.tolist(), [n.text for n in m.graph.nodes], strict=True)) for m in members]
    found = contrast(readings, needs(request), {})
    return found.gain, [c is not None for c in found.clashes]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("3. Look up the density in the material table.\n", ""),
        ("`numpy`, never with an external mesh library", "`trimesh`, never with an external mesh library"),
        ("50 MB", "500 MB"),
        ("50 MB", "50 GB"),
        ("30 seconds", "30 minutes"),
        ("never with an external mesh library", "always with an external mesh library"),
        ("never with an external mesh library", "with any external mesh library you like"),
        ("binary STL file and", "ASCII OBJ file and"),
        ("material table", "supplier's web page"),
    ],
)
def test_the_copy_that_breaks_a_stated_requirement_gains_less(said: str, instead: str) -> None:
    assert said in MESH
    gain, clashes = told(MESH, MESH.replace(said, instead))
    assert gain[0] > gain[1]
    assert not clashes[0]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("`numpy`", "`trimesh`"),
        ("50 MB", "500 MB"),
        ("never with an external", "always with an external"),
        ("material table", "price table"),
    ],
)
def test_another_value_in_the_place_of_the_stated_one_is_a_contradiction(said: str, instead: str) -> None:
    assert told(MESH, MESH.replace(said, instead))[1] == [False, True]


def test_a_missing_step_is_a_lack_and_no_contradiction() -> None:
    assert told(MESH, MESH.replace("3. Look up the density in the material table.\n", ""))[1] == [False, False]


def test_a_difference_that_the_request_does_not_speak_of_tells_nothing() -> None:
    gain, clashes = told(MESH, MESH.replace("repair broken meshes", "colour broken meshes"), "Look up the density")
    assert gain[0] == gain[1] and clashes == [False, False]


def test_meaning_decides_where_no_word_is_shared() -> None:
    members = [read("a", MESH), read("b", MESH.replace("Look up the density in the material table.", "Ask someone."))]
    readings = [list(zip(m.arrays.same.tolist(), [n.text for n in m.graph.nodes], strict=True)) for m in members]
    asked: list[list[str]] = []

    def cosines(texts: object) -> np.ndarray:
        asked.append(list(texts))  # type: ignore[call-overload]
        return np.array([[0.9] if "density" in t else [0.1] for t in asked[-1]])

    found = contrast(readings, needs("specific gravity"), {}, cosines)
    assert found.gain[0] > found.gain[1] and asked == [sorted(asked[0])]


def test_near_copies_are_grouped_and_strangers_are_not() -> None:
    other = (
        "# Tea\n\n- Boil the fresh water.\n- Pour it over the leaves.\n- Wait for four minutes.\n- Serve the tea hot.\n"
    )
    bodies = [MESH, other, MESH.replace("50 MB", "5 MB"), MESH.replace("30 seconds", "3 hours")]
    assert groups(stack([read(str(i), b).arrays for i, b in enumerate(bodies)])) == [[0, 2, 3]]


def test_boilerplate_headings_make_nobody_look_alike() -> None:
    frame = (
        "# {0}\n\n## Overview\n\n{0} {0}ing.\n\n## Example\n\nA {0}.\n\n## Notes\n\nNo {0}.\n\n## Steps\n\n- do {0}\n"
    )
    bodies = [frame.format(word) for word in ("gauss", "euler", "noether", "hilbert")]
    assert groups(stack([read(str(i), b).arrays for i, b in enumerate(bodies)])) == []


def test_outlines_find_near_copies_without_reading_a_statement() -> None:
    assert sharing([frozenset({1, 2, 3, 4}), frozenset({1, 2, 3, 9}), frozenset({7, 8})]) == {0, 1}
    assert joined(5, [(0, 1), (1, 4)]) == [[0, 1, 4]]
