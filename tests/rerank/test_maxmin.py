"""The vectorised max–min against a brute force over all paths, and its laws."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rerank.material import random_graph, read

from metier.rerank.arrays import arrays, implementations, stack
from metier.rerank.graph import SKILL, Edge, Node, SkillGraph, edges_out, far_end
from metier.rerank.maxmin import CONTEXT, FLOOR, OPPOSED, matches, required, soft_minimum, witness
from metier.rerank.request import Need, needs
from metier.rerank.terms import terms


def paths(graph: SkillGraph, capability: str, method: str | None) -> list[tuple[str, float]]:
    """(end, weakest element) of every simple path of one implementation, by walking them all."""
    out, rho = edges_out(graph), {n.id: n.reliability for n in graph.nodes}
    found: list[tuple[str, float]] = []

    def walk(at: str, weakest: float, seen: frozenset[str]) -> None:
        found.append((at, weakest))
        for edge in out.get(at, ()):
            end = far_end(edge)
            allowed = edge.relation != "implemented_by" or at != capability or end == method
            if end in rho and end not in seen and allowed:
                walk(end, min(weakest, edge.reliability, rho[end]), seen | {end})

    for edge in out.get(SKILL, ()):
        if far_end(edge) == capability:
            walk(capability, min(edge.reliability, rho[capability]), frozenset({capability}))
    return found


def brute(graph: SkillGraph, phi: np.ndarray, wanted: list[Need]) -> float:
    at = {n.id: i for i, n in enumerate(graph.nodes)}
    groups = sorted({n.group for n in wanted})
    best = FLOOR
    for capability, method in implementations(graph):
        ends = paths(graph, capability, method)
        values = []
        for group in groups:
            members = []
            for j, need in enumerate(wanted):
                if need.group == group:
                    branch = max((min(w, float(phi[at[e], j])) for e, w in ends), default=0.0)
                    members.append(1.0 - need.weight * (1.0 - max(branch, FLOOR)))
            values.append(max(members))
        best = max(best, min(values))
    return best


def some_needs(rng: random.Random, n: int) -> list[Need]:
    group, found = 0, []
    for i in range(n):
        found.append(Need(f"need {i}", "capability", tuple(terms(f"need {i}")), rng.choice((1.0, 1.0, 0.5)), group))
        group += rng.random() < 0.7
    return found


@given(st.integers(0, 10_000))
@settings(max_examples=120, deadline=None)
def test_max_min_agrees_with_brute_force_over_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    graphs = [random_graph(rng, ways=rng.randint(0, 4), depth=rng.randint(0, 7)) for _ in range(3)]
    wanted = some_needs(rng, rng.randint(1, 4))
    stacked = stack([arrays(g) for g in graphs])
    phi = np.random.default_rng(seed).random((len(stacked.parent), len(wanted))).astype(np.float32)
    found = witness(stacked, phi, wanted)
    for s, graph in enumerate(graphs):
        own = phi[stacked.nodes[s] : stacked.nodes[s + 1]]
        assert found.hard[s] == pytest.approx(brute(graph, own, wanted), abs=1e-6)


@given(st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_w_never_falls_when_a_reliability_rises(seed: int) -> None:
    rng = random.Random(seed)
    graph, wanted = random_graph(rng), some_needs(rng, 3)
    phi = np.random.default_rng(seed).random((len(graph.nodes), len(wanted))).astype(np.float32)
    element = rng.choice([*graph.nodes, *graph.edges])
    raised = graph.reweighted({element.id: min(1.0, element.reliability + rng.random())})
    before, after = (witness(stack([arrays(g)]), phi, wanted) for g in (graph, raised))
    assert after.hard[0] >= before.hard[0] - 1e-7 and after.soft[0] >= before.soft[0] - 1e-7


def two_ways(split: bool) -> SkillGraph:
    nodes = [Node("c", "capability", "c"), Node("m1", "method", "m1"), Node("m2", "method", "m2"),
             Node("a", "artifact", "a"), Node("b", "artifact", "b")]  # fmt: skip
    edges = [Edge(SKILL, "provides", "c"), Edge("c", "implemented_by", "m1"), Edge("c", "implemented_by", "m2"),
             Edge("m1", "uses", "a"), Edge("m2" if split else "m1", "uses", "b")]  # fmt: skip
    return SkillGraph("d", "s", tuple(nodes), tuple(edges))


def test_covering_everything_across_two_implementations_scores_below_covering_it_in_one() -> None:
    wanted = [Need(k, "artifact", ((k, False, k),), 1.0, i) for i, k in enumerate("ab")]
    phi = np.zeros((5, 2), dtype=np.float32)
    phi[3, 0] = phi[4, 1] = 0.9
    split, whole = (witness(stack([arrays(two_ways(s))]), phi, wanted).hard[0] for s in (True, False))
    assert split == pytest.approx(FLOOR) and whole == pytest.approx(0.9)


def test_a_supporting_branch_is_worth_its_weakest_node_or_relation() -> None:
    wanted = [Need("a", "artifact", (("a", False, "a"),))]
    phi = np.zeros((5, 1), dtype=np.float32)
    phi[3, 0] = 0.9
    graph = two_ways(False)
    for weak in ("m1", "m1 uses a", "c implemented_by m1", "skill provides c", "a"):
        assert witness(stack([arrays(graph.reweighted({weak: 0.3}))]), phi, wanted).hard[0] == pytest.approx(0.3)


def test_what_nothing_covers_has_the_floor_and_rejects_nobody() -> None:
    one = read("tea", "# Tea\n\n- Boil water.\n- Pour it.\n")
    wanted = needs("Repair the gearbox of a tractor")
    stacked = stack([one.arrays])
    assert witness(stacked, matches(stacked, wanted)[0], wanted).hard[0] == pytest.approx(FLOOR)


def test_a_wish_costs_less_than_a_demand_and_alternatives_count_their_best() -> None:
    demand, wish = Need("a", "capability", (), 1.0, 0), Need("b", "capability", (), 0.5, 1)
    assert required(np.array([1.0, 0.0]), [demand, wish]).min() == pytest.approx(1 - 0.5 * (1 - FLOOR))
    either = [Need("a", "capability", (), 1.0, 0), Need("b", "capability", (), 1.0, 0)]
    assert required(np.array([0.2, 0.8]), either).tolist() == pytest.approx([0.8])


def test_the_soft_minimum_lies_between_minimum_and_mean_and_every_element_moves_it() -> None:
    for values in itertools.product((0.1, 0.5, 0.9), repeat=3):
        x = np.array(values)
        soft = float(soft_minimum(x))
        assert x.min() - 1e-12 <= soft <= x.mean() + 1e-12
        assert float(soft_minimum(x + np.array([0.0, 0.0, 0.05]))) > soft


def test_words_cover_by_rarity_denials_oppose_and_headings_lend_context() -> None:
    one = read("x", "# X\n\n## Docker images\n\n- Push them.\n- Never use Docker here.\n- Build with Docker.\n")
    wanted = [Need("Docker", "artifact", tuple(terms("Docker")))]
    stacked = stack([one.arrays])
    phi, rarity = matches(stacked, wanted)
    by_text = {n.text: float(phi[i, 0]) for i, n in enumerate(one.graph.nodes)}
    assert by_text["Build with Docker."] == pytest.approx(1.0)
    assert by_text["Never use Docker here."] == pytest.approx(OPPOSED)
    assert by_text["Push them."] == pytest.approx(CONTEXT)
    assert len(rarity) == 1


def test_a_copy_of_a_skill_does_not_make_its_words_common() -> None:
    one = read("x", "# X\n\n- Weigh the anvil.\n- Boil the water.\n- Close the door.\n")
    wanted = [Need("anvil", "capability", tuple(terms("anvil")))]
    alone, copies = stack([one.arrays]), stack([one.arrays] * 4)
    assert matches(alone, wanted)[1] == matches(copies, wanted)[1]
