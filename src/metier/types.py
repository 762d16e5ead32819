"""Every noun of metier: frozen data, and the protocols that stages and models obey.

One value flows: a `Task` becomes a `Slate` of `Candidate`s, each stage adds `Evidence`, the gate sets a
`Verdict`, disclosure turns the slate into the text of a `Route`. Whoever understands this file can read any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from metier.late import dataclass

if TYPE_CHECKING:  # numpy is only named here, so that importing the nouns stays light
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """Rows are texts, columns dimensions; every row has length 1 (or is all zeros)."""

Kind = Literal["query", "document"]
Level = Literal["load", "offer", "skip"]
Arm = Literal["use", "skip"]
Origin = Literal["check", "person", "ci", "import", "agent"]
Scope = Literal["given", "project", "user", "plugin"]
What = Literal["offered", "loaded", "used"]
Flag = Literal["manual-only", "safety-critical", "disabled"]
Reason = Literal[
    "gain", "no-gain", "no-evidence", "low-support", "stale", "missing-requirement", "cost",
    "manual-only", "untrusted", "disabled", "explore", "error", "safety-critical",
]  # fmt: skip

UNKNOWN_STACK = "default"
"""The stack of a task that did not say which agent runs it; it never loads (methods 3.16)."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing a skill needs; any one of `names` satisfies it.

    `declared` requirements can make a skill unrunnable; the others only warn (methods 4.2, 4.3).
    """

    kind: Literal["bin", "env", "config", "os", "tool", "network", "file"]
    names: tuple[str, ...]
    declared: bool
    source: str
    """The field or line that states it, such as `metadata.openclaw.requires.bins`."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as the catalogue knows it. The body stays on disk until it is disclosed."""

    id: str
    """`scope:relative/path`, never absolute; identity. The name is only a label."""
    name: str
    description: str
    digest: str
    """sha256 (hex) over the paths, modes and bytes of the whole folder."""
    root: str
    """The given or default folder (or JSONL file) under which it was found; absolute."""
    scope: Scope
    addresses: tuple[str, ...]
    """Absolute folders (or `file.jsonl#id`) that hold this very skill; the first one is read."""
    family: str | None = None
    requires: tuple[Requirement, ...] = ()
    flags: frozenset[Flag] = frozenset()
    excludes: tuple[str, ...] = ()
    """What its author says it is *not* for ("Not for …"): a penalty, never match text."""
    body_tokens: int = 0
    resources: tuple[str, ...] = ()
    """Relative POSIX paths of the folder's other files; empty for JSONL libraries."""
    stamp: str = ""
    """Cheap signature (sizes and times of the folder's files); equal stamps mean an unread, unchanged folder."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something the reader had to forgive, or could not."""

    path: str
    line: int
    code: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill hidden by another of the same name in a stronger scope."""

    skill: Skill
    by: str
    """Id of the skill that wins."""


@dataclass(frozen=True, slots=True)
class Library:
    """What was found under some roots at one moment."""

    skills: Sequence[Skill]
    problems: Sequence[Problem] = ()
    shadowed: Sequence[Shadowed] = ()
    roots: tuple[str, ...] = ()
    at: float = 0.0
    """Seconds since the epoch."""
    looked: tuple[str, ...] = ()
    """Every place that was looked in, present or not: an empty library says where it looked."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What was fitted for one encoder; changing the encoder changes all of it together."""

    name: str
    dim: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    alpha: float = 0.5
    """Weight of the lexical channel (methods 1.6); the better the encoder, the smaller."""
    floor: tuple[tuple[int, float], ...] = ()
    """(library size, cosine below which a request needs no skill), ascending; empty means off (1.13)."""
    phi: tuple[float, float] = (0.6, 0.08)
    """Centre and width of the sigmoid that turns a cosine into a match (2.4)."""
    projection: tuple[tuple[int, int], ...] = ()
    """(library size from which it holds, directions k1), ascending; empty means no projection (1.4)."""


@dataclass(frozen=True, slots=True)
class Task:
    """What someone wants done. `tools=None` means unknown, not none."""

    text: str
    tools: frozenset[str] | None = None
    stack: str = UNKNOWN_STACK
    family: str | None = None
    session: str | None = None
    local: bool = True
    """Whether the agent runs on this machine; if not, its binaries and variables are unknown (methods 4.4)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one stage found out about one candidate: `why` for people, `detail` for programs."""

    stage: str
    score: float
    why: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to load a skill's body, offer its card, or stay silent, and why."""

    level: Level
    reason: Reason
    tau: float | None = None
    """Estimated gain in success (0..1 scale) for this task; None when there is no evidence."""
    interval: tuple[float, float] | None = None
    eta: float = 0.0
    """The gain that had to be exceeded."""
    support: int = 0
    """Number of paired past tasks behind `tau`."""
    propensity: float | None = None
    """Probability with which exploration chose this level, when it did."""
    missing: tuple[str, ...] = ()


NO_EVIDENCE = Verdict("offer", "no-evidence")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One skill on the slate."""

    skill: Skill
    score: float
    evidence: tuple[Evidence, ...] = ()
    verdict: Verdict = NO_EVIDENCE

    def found(self, evidence: Evidence, *, score: float | None = None) -> Candidate:
        """The same candidate with one more piece of evidence, and its new score if there is one."""
        return Candidate(self.skill, self.score if score is None else score, (*self.evidence, evidence), self.verdict)


@dataclass(frozen=True, slots=True)
class Step:
    """How long one stage took, and what went wrong in it if anything did."""

    stage: str
    ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Slate:
    """The one value that flows through the stages."""

    id: str
    task: Task
    candidates: tuple[Candidate, ...] = ()
    cover: tuple[str, ...] = ()
    """Ids of the few skills that together cover most of a request with several needs."""
    note: str | None = None
    """Why the slate is empty or partial."""
    steps: tuple[Step, ...] = ()


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates by falling score, ties by id: the one order that every stage returns."""
    return tuple(sorted(candidates, key=lambda c: (-c.score, c.skill.id)))


@dataclass(frozen=True, slots=True)
class Route:
    """What the agent gets, and why."""

    id: str
    slate: Slate
    text: str
    tokens: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the bank: what happened to one task under one arm. Several skills used together are one bundle."""

    task: str
    """The request's text (or an opaque id when its text may not be kept)."""
    skills: tuple[str, ...]
    digests: tuple[str, ...]
    stack: str
    arm: Arm
    success: float | None
    """In [0, 1]; None when nobody judged. A missing success is not a failure (methods 3.13)."""
    tokens: int | None = None
    family: str | None = None
    repeat: int = 0
    at: float = 0.0
    origin: Origin = "person"
    propensity: float | None = None
    route: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a shown skill, without a judgement."""

    route: str
    skill: str
    what: What
    at: float
    session: str | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set. `sources` names where each value that is not a default came from."""

    home: str
    skills: tuple[str, ...] = ()
    """Skill paths named by configuration."""
    encoder: str = "minilm"
    """`minilm`, `hash`, a folder with `model.onnx`, `st:NAME`, or `openai:MODEL@URL`."""
    alpha: float | None = None
    """Overrides the profile's weight of the lexical channel."""
    slate: int = 50
    k: int = 10
    """Candidates printed or returned; the slate itself holds `slate`."""
    cards: int = 5
    loads: int = 1
    cover_loads: int = 3
    budget: int = 4000
    """Tokens of text handed to the agent, at most."""
    host: str = "generic"
    """Which agent reads the text: decides how a card says to load a skill, and name precedence."""
    stack: str = UNKNOWN_STACK
    eta: float = 0.0
    etas: Mapping[str, float] = field(default_factory=dict)
    """Per skill id, name or family."""
    explore: float = 0.0
    seed: int = 0
    cold_tokens: int = 20_000
    """A body above this many tokens with no evidence is skipped for its cost (methods 3.4)."""
    exchange: float | None = None
    """Success points per 1,000 tokens that a load must earn; None: cost plays no part."""
    stale: Literal["ignore", "discount"] = "ignore"
    families: Mapping[str, str] = field(default_factory=dict)
    """Skill id or name → family."""
    safety_critical: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    """Skills (id or name) whose missing requirements the user overrides."""
    exclude: tuple[str, ...] = ()
    """Skills (id or name) never shown."""
    rerank: bool = True
    lam: float | None = None
    """Weight of the witness against the text score; None: the fitted default (methods 2.7)."""
    llm: str = ""
    """`MODEL@URL` of an OpenAI-compatible chat endpoint; empty: no language model."""
    llm_deadline: float = 4.0
    """Seconds a route waits for hypothetical skills."""
    log_text: Literal["full", "hash", "off"] = "full"
    log_days: int = 90
    rescan: float = 30.0
    """Seconds between looks for added skills."""
    hook_deadline: float = 1.5
    hook_serve: float = 0.0
    """Seconds that a server begun by a session's start outlives the last request; 0: none is begun."""
    sources: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Stage(Protocol):
    """A frozen dataclass of its parameters; calling it maps a slate to a slate.

    Every stage after the first keeps the set of candidates and their earlier evidence, does not depend on their
    order, is deterministic, and returns them `ranked`.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, slate: Slate, /) -> Slate: ...


class Encoder(Protocol):
    """Turns texts into unit vectors. Prefixes, truncation and pooling are its own business."""

    @property
    def profile(self) -> Profile: ...

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 of shape (len(texts), profile.dim), rows of length 1."""
        ...


class LLM(Protocol):
    """A language model that answers in JSON."""

    @property
    def name(self) -> str: ...

    def complete(self, prompt: str, *, schema: Mapping[str, Any], sample: int = 0) -> Mapping[str, Any]:
        """An object valid under `schema`. `sample` tells repeated draws apart (cache key)."""
        ...
