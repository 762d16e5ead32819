"""The Gate stage: for every candidate `load`, `offer` or `skip`, and why (papers: SkillApt, then SkillDelta).

    can it run?  →  is it allowed?  →  did it help on tasks like this one, on this very stack?
    load  ⇔  at least `MIN_PAIRS` paired tasks of the skill's own digest (or of the set used together)  and  τ̂ > η

Family evidence may offer or skip, never load; rows of agents, single arms and other stacks never count. No model is
asked (rule 3.12). Order and scores are kept: the gate judges, it does not rank.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from metier.gate import words
from metier.gate.bank import Bank
from metier.gate.gain import Estimate, Rule, estimate
from metier.gate.pairs import Pairs, Tally, joined
from metier.gate.rows import bundle
from metier.gate.runnable import Finding, Runnable
from metier.gate.thresholds import eta_for, token_price
from metier.hashing import sha256
from metier.late import dataclass, replace
from metier.text import one_line
from metier.types import (
    UNKNOWN_STACK,
    Candidate,
    Config,
    Encoder,
    Evidence,
    Level,
    Reason,
    Skill,
    Slate,
    Verdict,
    ranked,
)  # fmt: skip

MIN_PAIRS = 3
"""Fewest paired tasks of its own that can load a skill: the smallest k SkillDelta ran with (rule 3.1)."""
STALE_TRUST = 0.5
"""Weight of a pair made with an older digest, where the user lets it count at all (rule 3.3)."""
EMBED_AT_ONCE = 64
"""Past tasks embedded during one route; the rest waits for `Bank.embed` (2 ms each would be felt)."""


@dataclass(frozen=True)
class Gate:
    """Slate → the same candidates in the same order, each with a verdict and one line that says why."""

    bank: Bank
    encoder: Encoder | None = None
    """None: past tasks count alike, near or far."""
    runnable: Runnable = field(default_factory=Runnable)
    families: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Skill id or name → family: the user's word before the index's clusters (rule 3.15)."""
    rule: Rule = field(default_factory=Rule)
    eta: float = 0.0
    etas: Mapping[str, float] = field(default_factory=dict)
    explore: float = 0.0
    seed: int = 0
    cold_tokens: int = 20_000
    exchange: float | None = None
    stale: Literal["ignore", "discount"] = "ignore"
    safety_critical: frozenset[str] = frozenset()
    allow: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    name: str = field(default="gate", init=False)
    _groups: dict[str, tuple[Any, dict[str, tuple[str, ...]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, config: Config, bank: Bank, encoder: Encoder | None, runnable: Runnable, clusters: Mapping[str, str]
    ) -> Gate:
        """The gate that a configuration describes; `clusters` are the index's families of look-alikes."""
        return cls(
            bank, encoder, runnable, ChainMap(dict(config.families), _mutable(clusters)),
            eta=config.eta, etas=config.etas,
            explore=config.explore, seed=config.seed, cold_tokens=config.cold_tokens, exchange=config.exchange,
            stale=config.stale, safety_critical=frozenset(config.safety_critical), allow=frozenset(config.allow),
            exclude=frozenset(config.exclude),
        )  # fmt: skip

    def __call__(self, slate: Slate, /) -> Slate:
        """Every candidate with a verdict and one piece of evidence. Raises what store and encoder raise."""
        self.bank.refresh()
        skills = [c.skill for c in slate.candidates]
        findings = self.runnable.look(skills, slate.task)
        asked = _Asked(self, slate)
        asked.embed_what_waits(skills)
        first = min(slate.candidates, key=lambda c: (-c.score, c.skill.id)).skill.id if skills else ""
        judged = [
            self._judged(c, found, asked, first=c.skill.id == first)
            for c, found in zip(slate.candidates, findings, strict=True)
        ]
        return replace(slate, candidates=ranked(judged))

    def _judged(self, candidate: Candidate, findings: tuple[Finding, ...], asked: _Asked, *, first: bool) -> Candidate:
        skill = candidate.skill
        named = any(e.detail.get("named") is True for e in candidate.evidence)
        family = self.family(skill) if self.etas or asked.fitted else ""  # clusters are read from disk when asked for
        eta, whence = eta_for(skill.id, skill.name, family, default=self.eta, stated=self.etas, fitted=asked.fitted)
        eta += float(token_price(float(skill.body_tokens), self.exchange))
        ruled = self._ruled(skill, findings, named=named, first=first)
        case = asked.case(skill) if ruled is None else _Case()
        if ruled is None:
            ruled = self._weighed(skill, case, eta, asked, named=named)
        level, reason, why, earns = ruled
        found = case.found
        verdict = Verdict(
            level, reason, None if found is None else found.tau, None if found is None else found.interval, eta,
            0 if found is None else found.support,
            missing=tuple(f.label for f in findings if f.blocks),
        )  # fmt: skip
        if level == "load" and reason != "safety-critical" and self.explore > 0:
            verdict = self._explored(verdict, asked.slate.id, skill.id)
            if verdict.reason == "explore":
                why = f"held back to learn what happens without it (probability {self.explore:g}) · {why}"
        needs = words.requirements(findings)
        detail: dict[str, Any] = {"eta_source": whence, "scope": case.scope, "stale": case.stale}
        if case.told:
            detail["neighbours"] = case.told
        if findings:
            detail["requirements"] = [
                {"need": f.label, "state": f.state, "reason": f.reason, "declared": f.requirement.declared}
                for f in findings
            ]
        if earns:
            detail["earns"] = earns
        score = 0.0 if found is None else found.tau
        evidence = Evidence(self.name, score, " · ".join(part for part in (why, needs) if part), detail)
        return Candidate(skill, candidate.score, (*candidate.evidence, evidence), verdict)

    def _ruled(self, skill: Skill, findings: tuple[Finding, ...], *, named: bool, first: bool) -> _Ruling | None:
        """What is settled before any gain is looked at; None when nothing is."""
        either = {skill.id, skill.name}
        if "disabled" in skill.flags or either & self.exclude:
            return "skip", "disabled", "disabled", ""
        blocked = [f for f in findings if f.blocks]
        if blocked and not either & self.allow:
            return (
                "skip",
                "missing-requirement",
                "cannot run here",
                f"make what is missing available, or try it without: --set 'gate.allow={one_line(skill.name, 64)}'",
            )
        if "manual-only" in skill.flags:
            how = "was named" if named else "its author wants it used only when named"
            return ("offer" if named else "skip"), "manual-only", how, ""
        if either & self.safety_critical:
            relevant = first or named  # relevance and runnable decide (rule 3.4a): the best match, or the one asked for
            how = "you marked it safety-critical: its gain is not asked"
            return ("load" if relevant else "offer"), "safety-critical", how, ""
        return None

    def _weighed(self, skill: Skill, case: _Case, eta: float, asked: _Asked, *, named: bool) -> _Ruling:
        """The verdict from past tasks (rules 3.1, 3.3–3.5, 3.13–3.16)."""
        found, told = case.found, words.happened(case.told)
        said = ""
        if found is not None:
            said = words.estimated(found.tau, found.interval, eta, len(found.neighbours), found.support, case.scope)
            said = f"{said}; nearest {told}" if told else said
        if not asked.known:
            earns = "name the agent's stack (--stack): evidence belongs to one agent, model and version"
            return self._cold(skill, case, "the agent's stack is unknown", earns, named=named)
        missing = max(MIN_PAIRS - case.own, 0)
        tasks = f"{missing} more paired past {'task' if missing == 1 else 'tasks'}"
        earns = f"{tasks} with a mean gain above {eta:g} would load it (metier collect)"
        if found is None:
            if case.stale:
                why = f"changed since its {words.tasks(case.stale)}: they no longer speak for it"
                return "offer", "stale", why, "rerun its past tasks with the skill as it is now (metier bank plan)"
            if case.tally.agent:
                why = f"{case.tally.agent} outcomes, all reported by the agent itself: they do not count"
                return "offer", "untrusted", why, earns
            return self._cold(skill, case, "no paired past tasks on this stack", earns, named=named)
        if case.scope != "family" and case.own >= MIN_PAIRS and found.tau > eta:
            return "load", "gain", f"helped: {said}", ""
        if (
            found.support >= MIN_PAIRS and found.tau <= eta
        ):  # who names a skill gets its card, and is told what happened
            return "offer" if named else "skip", "no-gain", f"no gain expected: {said}", earns if missing else ""
        why = f"{words.tasks(case.own)} of its own in pairs, {MIN_PAIRS} needed: {said}"
        return "offer", "stale" if case.stale and not case.own else "low-support", why, earns

    def _cold(self, skill: Skill, case: _Case, why: str, earns: str, *, named: bool) -> _Ruling:
        if case.found is None and not case.stale and skill.body_tokens > self.cold_tokens and not named:
            cost = f"{why}, and its body costs {skill.body_tokens} tokens (limit {self.cold_tokens})"
            return "skip", "cost", cost, "name it in the request, or raise gate.cold-tokens, and it is offered"
        return "offer", "no-evidence", why, earns

    def _explored(self, verdict: Verdict, slate_id: str, skill_id: str) -> Verdict:
        """A fixed share of loads is withheld, by a hash, so that what happens without the skill is seen (3.4a)."""
        drawn = sha256(f"{self.seed}\0{slate_id}\0{skill_id}".encode()).digest()[:8]
        if int.from_bytes(drawn, "big") / 2**64 < self.explore:
            return replace(verdict, level="skip", reason="explore", propensity=self.explore)
        return replace(verdict, propensity=1.0 - self.explore)

    def family(self, skill: Skill) -> str:
        """The user's word, else the cluster of look-alikes, else the skill itself (rule 3.15)."""
        return self.families.get(skill.id) or self.families.get(skill.name) or skill.id

    def _kin(self, stack: str, family: str) -> tuple[str, ...]:
        """Ids of the skills of a family that have rows on that stack."""
        held = self._groups.get(stack)
        if held is None or held[0] != self.bank.version:
            grouped: dict[str, list[str]] = {}
            for skill_id in self.bank.single_skills(stack):
                folder = skill_id.rpartition("/")[2].rpartition(":")[2]
                label = self.families.get(skill_id) or self.families.get(folder)
                if label:
                    grouped.setdefault(label, []).append(skill_id)
            held = (self.bank.version, {label: tuple(ids) for label, ids in grouped.items()})
            self._groups[stack] = held
        return held[1].get(family, ())


def _mutable(clusters: Mapping[str, str]) -> MutableMapping[str, str]:
    """The same mapping, as `ChainMap` is typed; nothing is ever written to it, and a lazy one stays unread."""
    return cast("MutableMapping[str, str]", clusters)


_Ruling = tuple[Level, Reason, str, str]
"""Level, reason, why, and what would earn a load."""


@dataclass(slots=True)
class _Case:
    """The past tasks that speak for or against one candidate."""

    found: Estimate | None = None
    scope: str = "none"
    own: int = 0
    stale: int = 0
    tally: Tally = field(default_factory=Tally)
    told: list[dict[str, Any]] = field(default_factory=list)


class _Asked:
    """One slate's question to the bank: its vector is encoded once, and only if some past task can be compared."""

    def __init__(self, gate: Gate, slate: Slate) -> None:
        self.gate, self.slate = gate, slate
        self.stack = slate.task.stack
        self.known = self.stack != UNKNOWN_STACK
        self.encoder = gate.encoder.profile.name if gate.encoder is not None else ""
        self.fitted = gate.bank.fitted(self.stack)
        self._vector: NDArray[np.float32] | None = None
        self._set = self._bundle({c.skill.id: c.skill for c in slate.candidates}, slate.cover)

    def embed_what_waits(self, skills: Iterable[Skill]) -> None:
        """Past tasks of these skills that lack a vector by this encoder get one, up to `EMBED_AT_ONCE`."""
        encoder = self.gate.encoder
        if encoder is None:
            return
        waiting: list[int] = []
        for skill in skills:
            pairs = self._pairs(skill.id)
            if pairs.blank.any():
                waiting += pairs.tasks[pairs.blank].tolist()
        if waiting:
            self.gate.bank.embed(encoder, sorted(set(waiting))[:EMBED_AT_ONCE])
            self.gate.bank.refresh()

    def _pairs(self, skill_id: str) -> Pairs:
        return self.gate.bank.pairs(self.stack, skill_id, self.encoder)

    def _bundle(self, skills: Mapping[str, Skill], cover: tuple[str, ...]) -> tuple[frozenset[str], Pairs] | None:
        """The past tasks of the whole cover used together, where there are enough (rule 3.15)."""
        ids = sorted(set(cover) & skills.keys())
        if len(ids) < 2:
            return None
        pairs = self.gate.bank.pairs(self.stack, ids, self.encoder)
        now = pairs.where(pairs.of(bundle([skills[i].digest for i in ids]))) if len(pairs) else pairs
        return (frozenset(ids), now) if len(now) >= MIN_PAIRS else None

    def case(self, skill: Skill) -> _Case:
        """The evidence for one candidate: the set it is part of, else its own past tasks, else its family's."""
        if self._set is not None and skill.id in self._set[0]:
            return self._estimated(_Case(scope="bundle", own=len(self._set[1])), self._set[1], None)
        pairs, bank = self._pairs(skill.id), self.gate.bank
        case = _Case(tally=bank.tally(self.stack, skill.id, self.encoder))
        fresh = pairs.of(skill.digest)
        case.stale = int((~fresh).sum())
        own, trust = pairs.where(fresh), None
        if self.gate.stale == "discount" and case.stale:
            own, trust = pairs, np.where(fresh, 1.0, STALE_TRUST)
        case.own = len(own)
        if case.own < MIN_PAIRS:
            shared = self._family(skill, own)
            if len(shared) > case.own:
                case.scope = "family"
                return self._estimated(case, shared, None)
        if case.own:
            case.scope = "skill"
            kin = self._family(skill, own).gains if self.gate.rule.toward == "skill" else np.zeros(0)
            return self._estimated(case, own, trust, float(kin.mean()) if len(kin) else 0.0)
        return case

    def _family(self, skill: Skill, own: Pairs) -> Pairs:
        """Its own past tasks, and those of its family, each with the digest it was last tried with."""
        others = [own]
        if not self.gate.bank.single_skills(self.stack):
            return own
        for kin in self.gate._kin(self.stack, self.gate.family(skill)):
            if kin != skill.id:
                pairs = self._pairs(kin)
                if len(pairs):
                    newest = pairs.digests[int(np.argmax(pairs.at))]
                    others.append(pairs.where(pairs.of(newest)))
        return joined(others)

    def _estimated(self, case: _Case, pairs: Pairs, trust: NDArray[np.float64] | None, kin: float = 0.0) -> _Case:
        near = self._cosines(pairs)
        case.found = estimate(near, pairs.gains, self.gate.rule, trust=trust, kin=kin)
        if case.found is not None:
            case.told = words.neighbours(pairs, case.found, near)
        return case

    def _cosines(self, pairs: Pairs) -> NDArray[np.float64]:
        if not pairs.vectors.shape[1] or self.gate.encoder is None:
            return np.zeros(len(pairs))
        if self._vector is None:
            self._vector = self.gate.encoder.encode([self.slate.task.text], kind="query")[0]
        if len(self._vector) != pairs.vectors.shape[1]:
            return np.zeros(len(pairs))
        near: NDArray[np.float64] = (pairs.vectors @ self._vector).astype(np.float64)
        return near
