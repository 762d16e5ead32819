import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rerank.material import MESH, random_graph, read, skill, slate

from metier.rerank import shelf
from metier.rerank.arrays import Arrays, arrays
from metier.rerank.extract import RULES, extract
from metier.rerank.graph import SkillGraph
from metier.rerank.keep import Graphs, judge
from metier.rerank.witness import Rerank
from metier.store import Store
from metier.types import Skill


def never(_: object) -> str:
    raise AssertionError("the body must not be read")


def quiet(label: str, total: int):  # type: ignore[no-untyped-def]
    return lambda done: None


def same(one: Arrays, other: Arrays) -> bool:
    return all(
        np.array_equal(getattr(one, n), getattr(other, n)) and getattr(one, n).dtype == getattr(other, n).dtype
        for n in Arrays.__slots__
    )


@given(st.randoms(use_true_random=False))
def test_any_reading_comes_back_as_it_was_packed(rng) -> None:  # type: ignore[no-untyped-def]
    graph = random_graph(rng)
    made, texts = arrays(graph), tuple(f"{n.text}\n\0\ud800ü" for n in graph.nodes)
    found, said = shelf.unpacked(shelf.packed(texts, made))
    assert same(made, found) and said() == texts


def test_an_empty_graph_comes_back_too() -> None:
    made = arrays(SkillGraph("d", "n", (), ()))
    found, said = shelf.unpacked(shelf.packed((), made))
    assert same(made, found) and said() == ()


@pytest.mark.parametrize("data", [b"", b"\x00" * 7, b"\xff" * 16, b"\x05\x00\x00\x00" * 5])
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        shelf.unpacked(data)


def test_a_request_for_a_shelved_skill_reads_no_body_and_finds_the_same(tmp_path: Path) -> None:
    store, names = Store(tmp_path / "s.db"), ("mesh", "other")
    bodies = {n: MESH.replace("STL", n.upper()) for n in names}
    skills = [skill(n, bodies[n]) for n in names]
    assert Graphs(lambda s: bodies[s.name], store).shelve(skills, quiet) == 2
    asked = slate("parse an STL file and never repair meshes, within 30 seconds", skills)
    families = {s.id: "meshes" for s in skills}
    extracted = Rerank(Graphs(lambda s: bodies[s.name]), families=families)(asked)
    assert Rerank(Graphs(never, store), families=families)(asked) == extracted


def test_the_graph_of_a_shelved_skill_is_extracted_when_somebody_wants_it(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    graphs = Graphs(lambda s: MESH, store)
    graphs.shelve([one], quiet)
    found = graphs(one)
    assert found.graph == extract(one, MESH) and found.texts == read("mesh", MESH).texts


def test_only_what_is_missing_is_read_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    store, seen = Store(tmp_path / "s.db"), []

    def body(one: Skill) -> str:
        seen.append(one.name)
        if one.name == "gone":
            raise FileNotFoundError(one.name)
        return MESH

    skills = [skill("mesh", MESH), skill("gone")]
    assert Graphs(body, store).shelve(skills, quiet) == 1
    assert Graphs(body, store).shelve([*skills, skill("new", MESH + "x")], quiet) == 1
    assert seen == ["mesh", "gone", "gone", "new"]


def test_another_version_of_rules_or_format_is_made_anew(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    Graphs(lambda s: MESH, store).shelve([one], quiet)
    store.write("UPDATE readings SET extractor = 'rules-0/1', reading = x'00'")
    assert Graphs(lambda s: MESH, store)(one).graph == extract(one, MESH)
    assert Graphs(lambda s: MESH, store).shelve([one], quiet) == 1
    assert shelf.kept(store, one.digest, RULES) is not None


def test_a_damaged_reading_costs_time_and_not_the_witness(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    Graphs(lambda s: MESH, store).shelve([one], quiet)
    store.write("UPDATE readings SET reading = x'0102030405'")
    assert same(Graphs(lambda s: MESH, store)(one).arrays, read("mesh", MESH).arrays)


def test_statements_cut_short_are_extracted_and_the_stage_goes_on(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    Graphs(lambda s: MESH, store).shelve([one], quiet)
    store.write("UPDATE readings SET reading = substr(reading, 1, length(reading) - 5)")
    assert Graphs(lambda s: MESH, store)(one).texts == read("mesh", MESH).texts


def test_a_corrected_reliability_is_not_lost_on_the_shelf(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    Graphs(lambda s: MESH, store).shelve([one], quiet)
    node = extract(one, MESH).nodes[3].id
    judge(store, [(one.digest, node, 0.1, "seen")], origin="person")
    found = Graphs(lambda s: MESH, store)(one).graph.node(node)
    assert found is not None and found.reliability == 0.1


READ_BY = {"rules-5": "4571879fccce8a84"}
"""What the rules make of the example skills: what is kept by their name rests on its changing with them."""


def test_rules_that_read_otherwise_have_another_name() -> None:
    found = hashlib.sha256()
    for path in sorted(Path("examples/skills").resolve().rglob("SKILL.md")):
        body = path.read_text(encoding="utf-8")
        one = read(path.parent.name, body)
        for name in Arrays.__slots__:
            found.update(getattr(one.arrays, name).tobytes())
        found.update(json.dumps(one.texts).encode())
    said = f"raise RULES in rerank/extract.py, then put here: {found.hexdigest()[:16]}"
    assert READ_BY.get(RULES) == found.hexdigest()[:16], said
