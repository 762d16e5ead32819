"""Skill → capability graph by rules: the embedded extractor, which needs no language model (SKALOS, methods 2.2).

    description clauses → capabilities        headings, steps, commands → methods
    tools, formats, imports → artifacts       must / never / only / at most / without … → constraints

Headings that announce alternatives ("Option A", "3B. Overlay", "Using pandas") become one implementation each;
everything outside of them belongs to all. The extractor by language model is `llm_extract.py`, behind one signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from metier.late import pattern
from metier.rerank.graph import SKILL, Edge, Node, NodeType, Relation, SkillGraph, node_id
from metier.rerank.rules import MAX_STATEMENT, Statement, ancestry, plain, statements
from metier.rerank.terms import DENY, listed
from metier.types import Skill

Extract = Callable[[Skill, str], SkillGraph]
"""(skill, body) → its graph; never raises for what the text holds."""

RULES = "rules-5"
"""Name and version of this extractor; a change here re-reads every skill."""
SAID = {"description": 1.0, "heading": 0.9, "step": 0.95, "sentence": 0.9, "row": 0.9, "code": 0.85}
"""How far a statement of this form is taken at its word before anyone judged it [ours]: the author's summary most,
a line of example code least."""
MAX_DESCRIPTION = 4000
MAX_EXCLUDES = 20
"""Passages on what a skill is not for; a description has one or two."""
MAX_ARTIFACTS = 60
LEAD_WORDS = 6
"""Words up to which a heading or lead-in is about its list as a whole [ours]."""
LEAD_TAIL = 4
"""Last words of a longer one that say what its list is."""
MAX_ALTERNATIVES = 8
"""Implementations told apart in one skill; further alternatives count as common text."""

LIMIT = pattern(
    r"\b(?:must|mandatory|never|only|always|required?|requires|at most|at least|no more than|no less than|without|"
    r"do not|don[’']t|cannot|can[’']t|avoid|exactly|maximum|minimum|max|min|up to|limit(?:ed)?|not|no|forbidden|"
    r"unless|except|mandatory|under|below|above|within|shall|strictly)\b",
    re.IGNORECASE,
)
_ALTERNATIVE = pattern(
    r"(?:\d+[.)]?\s*)?(?:option|approach|alternative|variant|route|strategy|path|method|mode|way)\s*"
    r"(?:[A-Z]\b|\d{1,2}\b|:|[-–—])|\d{1,2}[A-E][.):]?\s",
    re.IGNORECASE,
)
_USING = pattern(r"(?:using|with|via|through)\s+\S", re.IGNORECASE)
_OFFERS = pattern(
    r"\b(?:capabilit|features?\b|what (?:it|this)|when to use|use cases?|overview|purpose|use this|use when)", re.I
)
_DENYING = pattern(
    r"\b(?:do not|don[’']?ts?|never|(?<!to )avoid|to avoid$|not? (?:for|to|in)|when not|anti-?patterns?|out of scope|"
    r"non-?goals?|forbidden|prohibited|must not|should not|shouldn[’']t|exclu(?:des|sions?)|"
    r"(?:bad|wrong)(?=(?:\s\S+)?$)|^(?:\w+ )?limitations?$)\b",
    re.I,
)
_NOT_FOR = pattern(
    r"^(?:(?:do not|don[’']t|never|not)\s+(?:use\s+)?(?:this\s+)?(?:skill\s+)?(?:it\s+)?(?:for|when|if|to)\b[:\s]*)+",
    re.I,
)
_DIGIT = pattern(r"\d")
_BRACKETS = pattern(r"\([^()\n]{0,200}\)|^(?:step|phase)\s*\w{1,3}\s*[:.–—-]\s*", re.I)
_CLAUSE = pattern(r"(?<=[.;!?])\s+|\s+[-–—]\s+|\n+")
_CODE_SPAN = pattern(r"`([^`\n]{2,80})`")
_EXTENSION = pattern(r"(?<![\w/])\*?\.([a-z][a-z0-9]{1,5})\b")
_IMPORT = pattern(r"\s*(?:import|from|require|use|using|#include)\s+[\"'<(]?([A-Za-z_][\w./@-]{1,40})")
_INSTALL = pattern(r"\b(?:pip|pip3|uv|npm|pnpm|yarn|brew|apt|apt-get|cargo|go|gem|npx|uvx)\s+(?:-\w+\s+)?"
                      r"(?:install|add|i|get|tool install)?\s*(?:-[\w-]+\s+)*([A-Za-z@][\w./@-]{1,40})")  # fmt: skip
_COMMAND = pattern(r"\$?\s*([a-z][\w.-]{1,24})(?:\s+[-\w./\"'<$]|$)")
_MAKES = pattern(r"\b(?:output|outputs|produces?|writes?|creates?|generates?|saves?|exports?|returns?|into|to)\b", re.I)
_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "console", "powershell", "cmd"))
_NOISE = listed("the a an to if for then else fi do done echo cd ls cat true false null none yes no and or in")


def extract(skill: Skill, body: str) -> SkillGraph:
    """The graph of a skill by rules. Time is bounded by `rules.MAX_CHARS`, whatever the text holds."""
    made = _Making(skill)
    found = statements(body)
    parents = ancestry(found)
    made.describe()
    made.read(found, parents)
    made.requirements()
    return SkillGraph(skill.digest, skill.name, tuple(made.nodes.values()), tuple(made.edges), RULES)


class _Making:
    """A graph in the making: nodes by id, edges without repetition."""

    def __init__(self, skill: Skill) -> None:
        self.skill = skill
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self._drawn: set[tuple[str, Relation, str]] = set()
        self.whole = self.add("capability", plain(skill.name.replace("-", " ").replace("_", " ")) or "skill", "", 1.0)
        self.edge(SKILL, "provides", self.whole)
        self.artifacts = 0

    def add(self, kind: NodeType, text: str, quote: str, reliability: float) -> str:
        """Id of the node with this text, made if it was not there."""
        name = node_id(kind, text)
        if name not in self.nodes:
            self.nodes[name] = Node(name, kind, text, "", "local", reliability, quote or text)
        return name

    def edge(self, source: str, relation: Relation, target: str) -> None:
        if source != target and (source, relation, target) not in self._drawn:
            self._drawn.add((source, relation, target))
            self.edges.append(Edge(source, relation, target))

    def describe(self) -> None:
        """Clauses of the description are capabilities or constraints of the whole; "Not for …" is denied."""
        text = self.skill.description[:MAX_DESCRIPTION]
        excludes = [other[:MAX_STATEMENT] for other in self.skill.excludes[:MAX_EXCLUDES]]
        for other in excludes:  # said once, as what it is
            text = text.replace(other, " ")
        for clause in _CLAUSE.split(text):
            words = plain(clause).strip(" .;")
            if words:
                self._under(self.whole, words, clause.strip(), "description", offers=True)
        for other in excludes:
            said = _NOT_FOR.sub("", plain(other)).strip(" .;:")
            name = self.add("constraint", f"not for {said}", other, SAID["description"])
            self.edge(self.whole, "subject_to", name)

    def requirements(self) -> None:
        """What the front matter declares: tools and binaries the skill needs."""
        for need in self.skill.requires:
            for each in need.names[:MAX_ARTIFACTS]:
                self.edge(self.whole, "requires", self.add("artifact", each, each, 1.0))

    def read(self, found: Sequence[Statement], parents: Sequence[int]) -> None:
        """Every statement of the body has its node, hung under its heading or alternative."""
        ways = alternatives(found, parents)
        at: list[str] = []
        method = "" if ways else self.add("method", f"{self.nodes[self.whole].text}: procedure", "", 1.0)
        if method:
            self.edge(self.whole, "implemented_by", method)
        root = method or self.whole
        lead_denies, denied_headings = False, [False] * len(found)
        for index, one in enumerate(found):
            parent = parents[index]
            under = at[parent] if parent >= 0 else root
            above = parent >= 0 and denied_headings[parent]
            if one.form == "heading":
                denied_headings[index] = above or denies_below(one.text)
                lead_denies = False
                at.append(self._heading(one, under, index in ways))
                continue
            listed = one.form in ("step", "row")
            denies = listed and (above or lead_denies) and not _DIGIT.search(one.text)
            words = f"not {one.text}" if denies and not _opens_with_denial(one.text) else one.text
            offers = parent >= 0 and bool(_OFFERS.search(found[parent].text))
            name = self._under(under, words, one.quote, one.form, offers=offers)
            at.append(name)
            if not listed:
                lead_denies = one.text.endswith(":") and denies_below(one.text)
            self._things(name, one)

    def _heading(self, one: Statement, under: str, is_way: bool) -> str:
        name = self.add("method", one.text, one.quote, SAID["heading"])
        if is_way:
            self.edge(self.whole, "implemented_by", name)
        else:
            self.edge(name, "part_of", under)
        return name

    def _under(self, parent: str, words: str, quote: str, form: str, *, offers: bool) -> str:
        """One statement as a node of the type that its words ask for, related to its parent."""
        if LIMIT.search(words) and form != "code":
            name = self.add("constraint", words, quote, SAID[form])
            self.edge(parent, "subject_to", name)
        else:
            name = self.add("capability" if offers else "method", words, quote, SAID[form])
            self.edge(name, "part_of", parent)
        return name

    def _things(self, owner: str, one: Statement) -> None:
        """Tools, formats and libraries that a statement names are artifacts of it."""
        if self.artifacts >= MAX_ARTIFACTS:
            return
        if one.form == "code":
            names = _IMPORT.findall(one.text[:80])[:1] + _INSTALL.findall(one.text)
            if one.language in _SHELLS or not one.language:
                names += _COMMAND.findall(one.text[:60])[:1] if one.language else []
            found: list[tuple[str, Relation]] = [(n.split("/")[0] or n, "uses") for n in names]
        else:
            found = [(s.split()[0], "uses") for s in _CODE_SPAN.findall(one.quote) if s.split()]
            makes: Relation = "produces" if _MAKES.search(one.text) else "requires"
            found += [(f".{e}", makes) for e in _EXTENSION.findall(one.text)]
        for text, relation in found:
            word = text.strip("`\"'(),:;")
            if 1 < len(word) <= 60 and word.lower() not in _NOISE and self.artifacts < MAX_ARTIFACTS:
                before = len(self.nodes)
                self.edge(owner, relation, self.add("artifact", word, one.quote, SAID[one.form]))
                self.artifacts += len(self.nodes) - before


def denies_below(lead: str) -> bool:
    """Whether a heading, or a sentence before a list, denies what stands under it: "Avoid:", "When not to use".

    A long one only if its denial comes last: "Never guess; run these:" is followed by what is to be done.
    """
    if lead.endswith("?"):
        return False
    said = _BRACKETS.sub("", lead).rstrip(":.!❌ ").split()
    return bool(_DENYING.search(" ".join(said if len(said) <= LEAD_WORDS else said[-LEAD_TAIL:])))


def _opens_with_denial(text: str) -> bool:
    head = text.split(maxsplit=2)[:2]
    return any(w.lower().strip(",.:;") in DENY for w in head)


def alternatives(found: Sequence[Statement], parents: Sequence[int]) -> frozenset[int]:
    """Indices of headings that stand for one alternative each; empty unless siblings announce at least two."""
    groups: dict[int, list[int]] = {}
    for index, one in enumerate(found):
        if one.form == "heading" and (_ALTERNATIVE.match(one.text) or _USING.match(one.text)):
            groups.setdefault(parents[index], []).append(index)
    best = max(groups.values(), key=len, default=[])
    return frozenset(best[:MAX_ALTERNATIVES]) if len(best) >= 2 else frozenset()
