"""The capability graph of one skill: typed nodes, typed relations, and what each rests on (SKALOS, methods 2.1).

    skill ──provides──▶ capability ──implemented_by──▶ method ──uses──▶ artifact
                            ▲                            │ ▲──requires / produces──▶ artifact
                         part_of                         │ └──part_of── step
                        capability                       └──subject_to──▶ constraint

One `implemented_by` edge stands for one alternative; an *implementation* is a (capability, method) pair and all it
reaches. A graph is plain data: it goes to JSON and GraphML and comes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from metier.errors import InputError
from metier.hashing import blake2b
from metier.late import dataclass, replace

if TYPE_CHECKING:
    from xml.etree import ElementTree

NodeType = Literal["capability", "method", "artifact", "constraint"]
Relation = Literal["provides", "part_of", "implemented_by", "requires", "produces", "uses", "subject_to"]
Layer = Literal["local", "shared"]
SKILL = "skill"
"""Id of the root: the skill itself, which is no node."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Node:
    """One thing that a skill says about itself. `quote` is verbatim; `canon` names what it means in every skill."""

    id: str
    type: NodeType
    text: str
    canon: str = ""
    layer: Layer = "local"
    reliability: float = 1.0
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` stands in `relation` to `target`, as far as `reliability` says."""

    source: str
    relation: Relation
    target: str
    reliability: float = 1.0

    @property
    def id(self) -> str:
        """How corrections and attributions name this edge."""
        return f"{self.source} {self.relation} {self.target}"


@dataclass(frozen=True, slots=True)
class SkillGraph:
    """What one skill provides, how, with what, and under which conditions."""

    digest: str
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    extractor: str = "rules"

    def node(self, node_id: str) -> Node | None:
        """The node of that id."""
        return next((n for n in self.nodes if n.id == node_id), None)

    def reweighted(self, reliability: Mapping[str, float]) -> SkillGraph:
        """The same graph with these reliabilities (node or edge id → value in [0, 1]); others keep theirs."""
        if not reliability:
            return self
        nodes = tuple(replace(n, reliability=reliability.get(n.id, n.reliability)) for n in self.nodes)
        edges = tuple(replace(e, reliability=reliability.get(e.id, e.reliability)) for e in self.edges)
        return replace(self, nodes=nodes, edges=edges)

    def without(self, element: str) -> SkillGraph:
        """The same graph with one node (and its edges) or one edge taken out."""
        nodes = tuple(n for n in self.nodes if n.id != element)
        edges = tuple(e for e in self.edges if element not in (e.id, e.source, e.target))
        return replace(self, nodes=nodes, edges=edges)


def node_id(kind: NodeType, text: str) -> str:
    """Stable id of a node: its type's letter and a hash of its text, so that a correction survives re-extraction."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{kind[0] if kind != 'constraint' else 'k'}{digest}"


def edges_out(graph: SkillGraph) -> dict[str, list[Edge]]:
    """Edges by the node from which a path may take them; `part_of` is taken from the whole to its parts."""
    out: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        out.setdefault(edge.target if edge.relation == "part_of" else edge.source, []).append(edge)
    return out


def far_end(edge: Edge) -> str:
    """Where a path gets to by taking this edge."""
    return edge.source if edge.relation == "part_of" else edge.target


# ------------------------------------------------------------------------------------------------------ to and from


def as_dict(graph: SkillGraph) -> dict[str, Any]:
    """The graph as JSON types, fields in a fixed order, defaults left out."""
    return {
        "format": FORMAT,
        "digest": graph.digest,
        "name": graph.name,
        "extractor": graph.extractor,
        "nodes": [
            {
                "id": n.id, "type": n.type, "text": n.text,
                **({"canon": n.canon} if n.canon else {}),
                **({"layer": n.layer} if n.layer != "local" else {}),
                **({"rho": n.reliability} if n.reliability != 1.0 else {}),
                **({"quote": n.quote} if n.quote != n.text else {}),
            }
            for n in graph.nodes
        ],
        "edges": [
            [e.source, e.relation, e.target, *([e.reliability] if e.reliability != 1.0 else [])] for e in graph.edges
        ],
    }  # fmt: skip


def from_dict(value: Mapping[str, Any]) -> SkillGraph:
    """The graph written by `as_dict`. Raises `InputError` where it is of another format or names unknown types."""
    if value.get("format") != FORMAT:
        raise InputError(
            f"a capability graph of format {value.get('format')!r}; this metier reads {FORMAT}: rebuild it"
        )
    try:
        nodes = tuple(
            Node(n["id"], _type(n["type"]), n["text"], n.get("canon", ""), n.get("layer", "local"),
                 float(n.get("rho", 1.0)), n.get("quote", n["text"]))
            for n in value["nodes"]
        )  # fmt: skip
        edges = tuple(Edge(e[0], _relation(e[1]), e[2], float(e[3]) if len(e) > 3 else 1.0) for e in value["edges"])
        return SkillGraph(value["digest"], value["name"], nodes, edges, value["extractor"])
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(f"a damaged capability graph ({type(error).__name__}: {error}); rebuild it") from error


def _type(text: str) -> NodeType:
    if text not in get_args(NodeType):
        raise InputError(f"{text!r} is no type of node; use one of {', '.join(get_args(NodeType))}")
    return cast(NodeType, text)


def _relation(text: str) -> Relation:
    if text not in get_args(Relation):
        raise InputError(f"{text!r} is no relation; use one of {', '.join(get_args(Relation))}")
    return cast(Relation, text)


def to_json(graphs: Iterable[SkillGraph]) -> str:
    """All graphs as one JSON document."""
    return json.dumps({"schema": "metier-graph-v1", "graphs": [as_dict(g) for g in graphs]}, ensure_ascii=False)


def to_graphml(graphs: Sequence[SkillGraph]) -> str:
    """All graphs as one GraphML document; nodes that share a canonical id are one node of the shared layer."""
    from xml.etree import ElementTree

    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for owner, fields in (("node", ("type", "text", "layer", "reliability")), ("edge", ("relation", "reliability"))):
        for name in fields:
            kind = "double" if name == "reliability" else "string"
            key = {"id": f"{owner}-{name}", "for": owner, "attr.name": name, "attr.type": kind}
            ElementTree.SubElement(root, "key", key)
    drawing = ElementTree.SubElement(root, "graph", edgedefault="directed")
    seen: set[str] = set()
    for graph in graphs:
        skill = f"skill:{graph.digest[:16] or graph.name}"
        names = {n.id: n.canon or f"{skill}/{n.id}" for n in graph.nodes} | {SKILL: skill}
        _draw_node(drawing, skill, {"type": "skill", "text": graph.name, "layer": "local", "reliability": "1.0"}, seen)
        for n in graph.nodes:
            shown = {"type": n.type, "text": n.text, "layer": n.layer, "reliability": f"{n.reliability:.4g}"}
            _draw_node(drawing, names[n.id], shown, seen)
        for e in graph.edges:
            ends = {"source": names[e.source], "target": names[e.target]}
            drawn = ElementTree.SubElement(drawing, "edge", ends)
            _data(drawn, "edge", {"relation": e.relation, "reliability": f"{e.reliability:.4g}"})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _draw_node(drawing: ElementTree.Element, name: str, values: Mapping[str, str], seen: set[str]) -> None:
    from xml.etree import ElementTree

    if name not in seen:
        seen.add(name)
        _data(ElementTree.SubElement(drawing, "node", id=name), "node", values)


_UNWRITABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)))
"""What XML 1.0 cannot hold."""


def _data(element: ElementTree.Element, owner: str, values: Mapping[str, str]) -> None:
    from xml.etree import ElementTree

    for name, value in values.items():
        ElementTree.SubElement(element, "data", key=f"{owner}-{name}").text = value.translate(_UNWRITABLE)


# ------------------------------------------------------------------------------------------------------------ a tree


def tree(graph: SkillGraph, *, width: int = 100, most: int = 12) -> list[str]:
    """Lines that show a skill's capabilities, methods, artifacts and constraints; at most `most` children a node."""
    out, nodes, lines = edges_out(graph), {n.id: n for n in graph.nodes}, [graph.name]
    seen: set[str] = set()

    def draw(at: str, indent: str) -> None:
        steps = [e for e in out.get(at, ()) if far_end(e) in nodes and far_end(e) not in seen]
        for n, edge in enumerate(steps[:most]):
            node = nodes[far_end(edge)]
            if node.id in seen:
                continue
            seen.add(node.id)
            last = n == min(len(steps), most) - 1 and len(steps) <= most
            doubt = "" if node.reliability >= 0.5 else f"  (doubtful, {node.reliability:.2f})"
            text = " ".join(node.text.split())
            label = f"{node.type}: {text[: width - 1] + '…' if len(text) > width else text}{doubt}"
            lines.append(f"{indent}{'└─ ' if last else '├─ '}{label}")
            draw(node.id, indent + ("   " if last else "│  "))
        if len(steps) > most:
            lines.append(f"{indent}└─ … {len(steps) - most} more")

    draw(SKILL, "")
    return lines
