from pathlib import Path

from tests.rerank.material import MESH, skill

from metier.rerank.extract import RULES, extract
from metier.rerank.graph import Node, SkillGraph
from metier.rerank.keep import Graphs, judge, known, reliabilities, save
from metier.store import Store


def never(_: object) -> str:
    raise AssertionError("the body must not be read")


def test_a_saved_graph_is_read_instead_of_the_body(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    graph = extract(one, MESH)
    assert save(store, [graph]) == 1 and known(store, RULES) == {one.digest}
    assert Graphs(never, store)(one).graph == graph


def test_another_digest_or_a_damaged_row_is_extracted_anew(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    save(store, [extract(one, MESH)])
    changed = skill("mesh", MESH + "\nMore.\n")
    assert Graphs(lambda s: MESH + "\nMore.\n", store)(changed).graph.digest == changed.digest
    store.write("UPDATE graphs SET graph = x'00'")
    assert Graphs(lambda s: MESH, store)(one).graph == extract(one, MESH)


def test_the_preferred_extractor_wins(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    by_model = SkillGraph(one.digest, one.name, (Node("c1", "capability", "weigh"),), (), "llm:x")
    save(store, [extract(one, MESH), by_model])
    assert Graphs(never, store, preferred="llm:x").stored(one) == by_model
    assert Graphs(never, store).stored(one) == extract(one, MESH)


def test_reliabilities_are_put_on_and_calibration_never_overwrites_a_person(tmp_path: Path) -> None:
    store, one = Store(tmp_path / "s.db"), skill("mesh", MESH)
    node = extract(one, MESH).nodes[3].id
    judge(store, [(one.digest, node, 0.4, "x")], origin="calibration")
    judge(store, [(one.digest, node, 0.1, "seen")], origin="person")
    judge(store, [(one.digest, node, 0.9, "x")], origin="calibration")
    assert reliabilities(store, one.digest) == {node: 0.1}
    found = Graphs(lambda s: MESH, store)(one).graph.node(node)
    assert found is not None and found.reliability == 0.1


def test_an_unreadable_store_costs_time_and_not_the_witness(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"this is no database, it only stands where one should be" * 40)
    one = skill("mesh", MESH)
    assert Graphs(lambda s: MESH, Store(tmp_path / "s.db"))(one).graph == extract(one, MESH)
