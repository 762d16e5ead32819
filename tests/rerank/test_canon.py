from pathlib import Path

import pytest
from tests.rerank.material import MESH, skill

from metier.errors import NotFound
from metier.models.encoder import open_encoder
from metier.models.replay import HashEncoder
from metier.rerank.arrays import stack
from metier.rerank.canon import Canons, exact
from metier.rerank.extract import extract
from metier.rerank.graph import SKILL, Edge, Node, SkillGraph
from metier.rerank.keep import Graphs, save
from metier.rerank.maxmin import matches, witness
from metier.rerank.request import needs
from metier.store import Store


def said(digest: str, kind: str, *texts: str) -> SkillGraph:
    nodes = tuple(Node(f"n{i}", kind, t) for i, t in enumerate(texts))  # type: ignore[arg-type]
    return SkillGraph(digest, digest, nodes, tuple(Edge(SKILL, "provides", n.id) for n in nodes))


def canon(graph: SkillGraph, i: int = 0) -> str:
    return graph.nodes[i].canon


def test_a_capability_reworded_has_the_same_canonical_id_and_the_same_w(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    canons = Canons.open(store, open_encoder("minilm"))
    request = needs("extract the tables of PDF reports")
    for plain, reworded in (
        ("Extract tables from PDF reports", "Extracting the tables out of PDF reports"),
        ("Convert images to WebP format", "Convert images into the WebP image format"),
        ("Write release notes for a new version", "Writing the release notes of a new version"),
    ):
        one, other = canons.join(said("a", "capability", plain)), canons.join(said("b", "capability", reworded))
        assert canon(one) == canon(other)
        save(store, [canons.named(one), other])
        graphs = Graphs(lambda s: "", store)
        made = [graphs(skill("x", digest=d)).arrays for d in "ab"]
        stacked = stack(made)
        found = witness(stacked, matches(stacked, request)[0], request)
        assert found.hard[0] == found.hard[1] and found.soft[0] == found.soft[1]
        assert made[0].same.tolist() == made[1].same.tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The file has at most 5 MB", "The file has at most 50 MB"),
        ("The file has at most 5 MB", "The file has at most 5 GB"),
        ("The file has at most 5 MB", "The file has at least 5 MB"),
        ("Answer in under 200 ms", "Answer in over 200 ms"),
        ("Runs on Python 3.8", "Runs on Python 3.11"),
        ("Use Docker for the build", "Never use Docker for the build"),
    ],
)
def test_numbers_units_versions_and_denials_must_agree_exactly(tmp_path: Path, one: str, other: str) -> None:
    canons = Canons.open(Store(tmp_path / "s.db"), open_encoder("minilm"))
    assert exact(one) != exact(other)
    assert canon(canons.join(said("a", "constraint", one))) != canon(canons.join(said("b", "constraint", other)))


def test_nothing_merges_across_types_or_without_shared_words(tmp_path: Path) -> None:
    canons = Canons.open(Store(tmp_path / "s.db"), HashEncoder())
    ids = {canon(canons.join(said(k[:1], k, "pack images"))) for k in ("capability", "method", "artifact")}
    assert len(ids) == 3
    other = canon(canons.join(said("z", "capability", "compress pictures")))
    assert other not in ids


def test_a_node_of_several_skills_is_shared_and_of_one_is_local(tmp_path: Path) -> None:
    canons = Canons.open(Store(tmp_path / "s.db"))
    first = canons.join(said("a", "artifact", "qpdf", "pdftk"))
    second = canons.join(said("b", "artifact", "qpdf"))
    assert [n.layer for n in first.nodes] == ["local", "local"] and second.nodes[0].layer == "shared"
    assert [n.layer for n in canons.named(first).nodes] == ["shared", "local"]


def test_a_new_skill_joins_without_touching_the_rest_and_after_reopening(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    canons = Canons.open(store, HashEncoder())
    first = canons.join(extract(skill("mesh", MESH), MESH))
    again = Canons.open(store, HashEncoder()).join(extract(skill("mesh2", MESH), MESH))
    assert [n.canon for n in first.nodes if n.text != "mesh"][5:] == [
        n.canon for n in again.nodes if n.text != "mesh2"
    ][5:]
    assert canons.named(first) == first
    rows = store.rows("SELECT count(*) AS n FROM canons")[0]["n"]
    Canons.open(store, HashEncoder()).join(extract(skill("mesh2", MESH), MESH))
    assert store.rows("SELECT count(*) AS n FROM canons")[0]["n"] == rows


def test_a_merge_can_be_undone(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    canons = Canons.open(store)
    one, other = (canons.join(said(d, "method", t)) for d, t in (("a", "sort the rows"), ("b", "rows: sort these")))
    assert canon(one) == canon(other) and canons.aliases(canon(one)) == ("sort the rows", "rows: sort these")
    assert canons.text(canon(one)) == "sort the rows" and canons.merged == 1
    assert canons.undo("method", "rows: sort these") and not canons.undo("method", "rows: sort these")
    apart = canons.named(other)
    assert canon(apart) != canon(one) and apart.nodes[0].layer == "local"
    assert canon(Canons.open(store).named(other)) == canon(apart)
    with pytest.raises(NotFound):
        canons.text("m999")
