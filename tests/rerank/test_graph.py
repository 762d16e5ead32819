import json
import random
from xml.etree import ElementTree

import pytest
from tests.rerank.material import MESH, random_graph, skill

from metier.errors import InputError
from metier.rerank.extract import extract
from metier.rerank.graph import SKILL, Edge, Node, SkillGraph, as_dict, from_dict, to_graphml, to_json, tree

networkx = pytest.importorskip("networkx")


def test_a_graph_survives_json() -> None:
    for seed in range(20):
        graph = random_graph(random.Random(seed))
        assert from_dict(json.loads(json.dumps(as_dict(graph)))) == graph
    graph = extract(skill("mesh", MESH), MESH)
    assert from_dict(json.loads(to_json([graph]))["graphs"][0]) == graph


def test_another_format_or_an_unknown_relation_is_an_error_that_says_so() -> None:
    good = as_dict(random_graph(random.Random(1)))
    with pytest.raises(InputError, match="format 9"):
        from_dict({**good, "format": 9})
    with pytest.raises(InputError, match="'likes' is no relation"):
        from_dict({**good, "edges": [["c0", "likes", "m0"]]})
    with pytest.raises(InputError, match="damaged"):
        from_dict({**good, "nodes": [{"id": "x"}]})


def test_graphml_is_read_by_networkx_with_shared_nodes_once() -> None:
    shared = Node("c1", "capability", "weigh \x00 a mesh", canon="c7", layer="shared")
    graphs = [SkillGraph(d * 20, d, (shared,), (Edge(SKILL, "provides", "c1"),)) for d in "ab"]
    drawn = networkx.parse_graphml(to_graphml(graphs))
    assert drawn.number_of_nodes() == 3 and drawn.number_of_edges() == 2
    assert drawn.nodes["c7"]["text"] == "weigh  a mesh" and drawn.nodes["c7"]["layer"] == "shared"
    ElementTree.fromstring(to_graphml([extract(skill("mesh", MESH), MESH)]).encode())


def test_taking_a_node_out_takes_its_edges_along() -> None:
    graph = random_graph(random.Random(2))
    less = graph.without("m0")
    assert less.node("m0") is None and all("m0" not in (e.source, e.target) for e in less.edges)
    edge = graph.edges[0]
    assert edge not in graph.without(edge.id).edges and len(graph.without(edge.id).nodes) == len(graph.nodes)


def test_the_tree_shows_every_type_once_and_marks_doubt() -> None:
    graph = extract(skill("mesh", MESH), MESH)
    doubted = next(n for n in graph.nodes if n.type == "constraint")
    lines = tree(graph.reweighted({doubted.id: 0.2}), most=50)
    assert lines[0] == "mesh" and sum("constraint:" in line for line in lines) >= 3
    assert sum("doubtful, 0.20" in line for line in lines) == 1
    assert len(tree(graph, most=2)) < len(lines)
