"""Skill → capability graph by a language model, with every statement's quote checked (SKALOS, methods 2.2).

The model's word counts as far as its quotes are really in the text: an entry whose quote is not gets ρ = 0.3. The text
of the skill stands between markers that it cannot contain, so nothing in it can end the data and begin instructions.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

from metier.errors import BudgetSpent, LLMError
from metier.rerank.extract import Extract
from metier.rerank.graph import SKILL, Edge, Node, NodeType, Relation, SkillGraph, node_id
from metier.types import LLM, Skill

UNQUOTED = 0.3
"""Reliability of an entry whose quote is not in the text (methods 2.2)."""
QUOTED = 1.0
MAX_SENT = 24_000
"""Characters of a body that are sent: 6,000 tokens hold nine public skills in ten whole."""
MAX_ENTRIES = 40
"""Entries kept of each kind; more is a model that repeats itself."""
AT_ONCE = 4
"""Skills read at once."""

_ENTRY: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "quote": {"type": "string"}},
    "required": ["text", "quote"],
    "additionalProperties": False,
}
_LISTS: dict[str, tuple[Relation, NodeType]] = {
    "steps": ("part_of", "method"),
    "uses": ("uses", "artifact"),
    "requires": ("requires", "artifact"),
    "produces": ("produces", "artifact"),
    "constraints": ("subject_to", "constraint"),
}
_METHOD: dict[str, Any] = {
    "type": "object",
    "properties": {**_ENTRY["properties"], **{name: {"type": "array", "items": _ENTRY} for name in _LISTS}},
    "required": ["text", "quote", *_LISTS],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "capabilities": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {**_ENTRY["properties"], "methods": {"type": "array", "items": _METHOD}},
                "required": ["text", "quote", "methods"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["capabilities"],
    "additionalProperties": False,
}
"""What the model answers with; strict, as hosted endpoints ask."""


def name_of(llm: LLM) -> str:
    """The extractor's name in the store: the model and the version of the prompt."""
    return f"llm:{llm.name}:{hashlib.sha256(_template().encode()).hexdigest()[:8]}"


def by_llm(llm: LLM) -> Extract:
    """The extractor by `llm`, behind the same signature as the one by rules. It raises `LLMError` and `BudgetSpent`."""

    def extract(skill: Skill, body: str) -> SkillGraph:
        text = f"{skill.name}\n{skill.description}\n\n{body}"[:MAX_SENT]
        return _graph(skill, text, llm.complete(prompt(text), schema=SCHEMA), name_of(llm))

    return extract


def prompt(text: str) -> str:
    """The question about one skill. The markers hold a digest of the text, so the text cannot hold the markers."""
    nonce = hashlib.sha256(b"metier graph\n" + text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return _template().replace("{nonce}", nonce).replace("{skill}", text)


def _template() -> str:
    return (resources.files("metier.rerank") / "prompts" / "graph.md").read_text(encoding="utf-8")


def _graph(skill: Skill, text: str, answer: Mapping[str, Any], extractor: str) -> SkillGraph:
    said = " ".join(text.split()).lower()
    nodes: dict[str, Node] = {}
    edges: dict[str, Edge] = {}

    def add(kind: NodeType, entry: Mapping[str, Any]) -> str | None:
        words, quote = " ".join(str(entry.get("text", "")).split()), str(entry.get("quote", ""))
        if not words:
            return None
        flat = " ".join(quote.split()).lower()
        name = node_id(kind, words)
        rho = QUOTED if len(flat) > 2 and flat in said else UNQUOTED
        if name not in nodes or nodes[name].reliability < rho:
            nodes[name] = Node(name, kind, words[:500], "", "local", rho, quote[:500])
        return name

    def relate(source: str, relation: Relation, target: str) -> None:
        edge = Edge(source, relation, target)
        if source != target:
            edges.setdefault(edge.id, edge)

    for capability in _entries(answer, "capabilities"):
        c = add("capability", capability)
        if c is None:
            continue
        relate(SKILL, "provides", c)
        for method in _entries(capability, "methods"):
            m = add("method", method)
            if m is None:
                continue
            relate(c, "implemented_by", m)
            for field, (relation, kind) in _LISTS.items():
                for entry in _entries(method, field):
                    x = add(kind, entry)
                    if x is not None:
                        relate(*((x, relation, m) if relation == "part_of" else (m, relation, x)))
    return SkillGraph(skill.digest, skill.name, tuple(nodes.values()), tuple(edges.values()), extractor)


def _entries(value: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    found = value.get(field)
    return [e for e in found if isinstance(e, Mapping)][:MAX_ENTRIES] if isinstance(found, list) else []


def each(
    skills: Sequence[Skill], body: Callable[[Skill], str], extract: Extract, *, at_once: int = AT_ONCE
) -> Iterator[tuple[Skill, SkillGraph | LLMError | BudgetSpent]]:
    """(skill, its graph or why there is none), in order. After the budget is spent nothing more is asked."""
    spent = threading.Event()

    def one(skill: Skill) -> SkillGraph | LLMError:
        if spent.is_set():
            return BudgetSpent("the stated budget is used up; run it again with a larger one to go on")
        try:
            return extract(skill, body(skill))
        except BudgetSpent as error:
            spent.set()
            return error
        except LLMError as error:
            return error

    with ThreadPoolExecutor(max(1, at_once), thread_name_prefix="metier-graph") as pool:
        for start in range(0, len(skills), 4 * at_once):
            some = skills[start : start + 4 * at_once]
            yield from zip(some, pool.map(one, some), strict=True)
            if spent.is_set():
                return
