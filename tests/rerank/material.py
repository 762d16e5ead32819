"""Skills, graphs and slates that the tests of this package are made of."""

import random

from metier.rerank.arrays import arrays
from metier.rerank.extract import extract
from metier.rerank.graph import SKILL, Edge, Node, SkillGraph
from metier.rerank.keep import Graphs, Read
from metier.text import fingerprint
from metier.types import Candidate, Evidence, Skill, Slate, Task

MESH = """# Mesh mass

Reads a binary STL file and reports the mass of the largest part.

## Steps

1. Parse the STL file with `numpy`, never with an external mesh library.
2. Compute the volume of every connected component.
3. Look up the density in the material table.
4. Multiply the volume by the density and write `mass.json`.

## Limits

- The file must not exceed 50 MB.
- Do not repair broken meshes.
- Finish within 30 seconds.
"""


def skill(name: str, body: str = "", description: str = "", **more: object) -> Skill:
    made = {
        "id": f"given:{name}", "name": name, "description": description or f"{name} does one thing.",
        "digest": fingerprint(name, body), "root": "/r", "scope": "given", "addresses": (f"/r/{name}",), **more,
    }  # fmt: skip
    return Skill(**made)  # type: ignore[arg-type]


def read(name: str, body: str, description: str = "") -> Read:
    graph = extract(skill(name, body, description), body)
    return Read(graph, arrays(graph))


def library(bodies: dict[str, str]) -> tuple[dict[str, Skill], Graphs]:
    """Skills by name, and the graphs that are extracted from these bodies."""
    skills = {name: skill(name, body, "Weighs meshes.") for name, body in bodies.items()}
    by_id = {s.id: bodies[name] for name, s in skills.items()}
    return skills, Graphs(lambda s: by_id[s.id])


def slate(text: str, skills: list[Skill], scores: list[float] | None = None) -> Slate:
    given = scores or [1.0 - 0.001 * i for i in range(len(skills))]
    first = [Evidence("retrieve", s, "found") for s in given]
    return Slate("r_1", Task(text), tuple(Candidate(s, v, (e,)) for s, v, e in zip(skills, given, first, strict=True)))


def random_graph(rng: random.Random, *, ways: int = 3, depth: int = 6) -> SkillGraph:
    """A small graph with several implementations, shared nodes, and reliabilities anywhere in [0, 1]."""
    capabilities = [Node(f"c{i}", "capability", f"capability {i}", reliability=rng.random()) for i in range(2)]
    methods = [Node(f"m{i}", "method", f"method {i}", reliability=rng.random()) for i in range(ways)]
    leaves = [
        Node(f"x{i}", rng.choice(("artifact", "constraint", "method")), f"leaf {i}", reliability=rng.random())  # type: ignore[arg-type]
        for i in range(depth)
    ]
    edges = [Edge(SKILL, "provides", c.id, rng.random()) for c in capabilities]
    edges += [Edge(rng.choice(capabilities).id, "implemented_by", m.id, rng.random()) for m in methods]
    relation = {"artifact": "uses", "constraint": "subject_to"}
    for leaf in leaves:
        for owner in rng.sample(methods + capabilities, k=min(rng.randint(1, 3), ways + 2)):
            if leaf.type == "method":
                edges.append(Edge(leaf.id, "part_of", owner.id, rng.random()))
            else:
                edges.append(Edge(owner.id, relation[leaf.type], leaf.id, rng.random()))  # type: ignore[arg-type]
    return SkillGraph("d" * 8, "random", (*capabilities, *methods, *leaves), tuple(edges))
