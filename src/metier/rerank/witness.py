"""The Rerank stage: look-alike skills told apart by whether one implementation covers the whole request (SKALOS).

    W(q, s) = max over implementations ι of  min over requirements r of  max over paths P of  branch(P, r)
    score   = z(text) + λ·z(W)

Among look-alikes, whose weakest link is mostly the same statement, W is lowered by what a sibling says for the request
and this one does not (`contrast.py`), and is 0 where this one contradicts the request. Between skills that are nobody's
look-alike the text score stands unless `general` says otherwise: on real requests W did not order those better
(docs/decisions/0051).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from metier.errors import EncoderError, MetierError
from metier.late import dataclass
from metier.rerank.arrays import stack
from metier.rerank.contrast import Contrast, contrast, groups, sharing
from metier.rerank.cover import cover
from metier.rerank.keep import Read
from metier.rerank.maxmin import FLOOR, Witness, matches, required, witness
from metier.rerank.request import Need, needs
from metier.text import one_line
from metier.types import Candidate, Encoder, Evidence, Skill, Slate, ranked

LAMBDA = 2.0
"""Weight of z(log W) against z(text) among look-alikes, fitted on 450 requests of training repositories, flat from 1
to 4 (methods 2.7 starts from 0.5; docs/decisions/0051)."""
GENERAL = 0.0
"""The same weight between skills that are nobody's look-alike: off, by measurement (docs/decisions/0051)."""
DROP = 0.1
"""Slate score taken per unit of the group's combination, so that the worst of a group falls about half a z [ours]."""
APART = 0.5
"""How far the best contradicted member stays below the last uncontradicted one, in units of the combination."""
TINY = 1e-12
STEEP = 1.0
"""How fast W falls with what a look-alike lacks: W·exp(−STEEP·lack)."""
COVERED = 0.35
"""Branch from which a requirement is called covered in the evidence."""
ENCODED_CHARS = 300
"""Characters of a phrase that are encoded: a statement's point is in its first sentence."""
FIRST = 5
"""Candidates whose graph is read in any case: as many as an agent is shown cards of, and the pool of a cover. Of the
others only near-copies can change places, so a route reads a few graphs and not fifty (3 ms each, where none is
stored)."""
UNREADABLE = "its text could not be read"
PLAIN = "not read, since it is nobody's look-alike and not among the first"
SHOWN = 3
"""Covered requirements named in the evidence."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rerank:
    """slate → the same candidates, look-alikes reordered by their witness, each with its evidence."""

    graph: Callable[[Skill], Read]
    """A skill's graph and arrays (`keep.Graphs`)."""
    encoder: Encoder | None = None
    lam: float = LAMBDA
    general: float = GENERAL
    families: Mapping[str, str] | None = None
    """Skill id → its family of look-alikes, as the index knows it; None: bodies are compared line by line."""

    name: ClassVar[str] = "rerank"

    def __call__(self, slate: Slate) -> Slate:
        """Never adds or drops a candidate; the order given does not matter."""
        wanted = needs(slate.task.text)
        if not slate.candidates:
            return slate
        order = ranked(slate.candidates)
        if not wanted:
            return replace(
                slate, candidates=tuple(c.found(_without("the request states no requirement")) for c in order)
            )
        worth_reading = self._worth_reading(order)
        read = [_readable(self.graph, c.skill) if i in worth_reading else None for i, c in enumerate(order)]
        have = [i for i, r in enumerate(read) if r is not None]
        if not have:
            return replace(slate, candidates=tuple(c.found(_without(UNREADABLE)) for c in order))
        kin = [self.families.get(order[i].skill.id) if self.families is not None else None for i in have]
        judged = judge([r for r in read if r is not None], wanted, self._cosines(wanted), kin)
        text = z(np.array([c.score for c in order]))
        score = self._scores(text, judged, have)
        found = {i: position for position, i in enumerate(have)}
        after = [
            c.found(judged.evidence(found[i]), score=float(score[i]))
            if i in found
            else c.found(_without(UNREADABLE if i in worth_reading else PLAIN), score=float(score[i]))
            for i, c in enumerate(order)
        ]
        marked = slate.cover or self._cover(order, judged, have, score)
        return replace(slate, candidates=ranked(after), cover=marked)

    def _worth_reading(self, order: Sequence[Candidate]) -> frozenset[int]:
        """The first candidates, and near-copies of each other wherever they stand; all where outlines are unknown."""
        if self.families is not None:
            return frozenset(range(min(FIRST, len(order)))) | _relatives(order, self.families)
        outline = getattr(self.graph, "outline", None)
        if outline is None:
            return frozenset(range(len(order)))
        lines = []
        for candidate in order:
            try:
                lines.append(outline(candidate.skill))
            except (MetierError, OSError):
                lines.append(frozenset())
        return frozenset(range(min(FIRST, len(order)))) | sharing(lines)

    def _cosines(self, wanted: Sequence[Need]) -> Callable[[Sequence[str]], Floats] | None:
        """Statements → their cosines with each need, encoded when look-alikes are there to be told apart."""
        encoder = self.encoder
        if encoder is None:
            return None

        def measure(statements: Sequence[str]) -> Floats:
            try:
                asked = encoder.encode([n.text[:ENCODED_CHARS] for n in wanted], kind="query")
                said = encoder.encode([s[:ENCODED_CHARS] for s in statements], kind="document")
            except EncoderError:  # words alone still tell look-alikes apart
                return np.zeros((len(statements), len(wanted)))
            near: Floats = np.asarray(said, dtype=np.float64) @ np.asarray(asked, dtype=np.float64).T
            return near

        return measure

    def _scores(self, text: Floats, judged: Judged, have: Sequence[int]) -> Floats:
        score = text.copy()
        if self.general:
            score[have] += self.general * z(judged.worth)
        for group in judged.groups:
            rows = np.array([have[m] for m in group])
            score[rows] = among(text[rows], judged.lack[group], judged.worth[group] <= 0.0, self.lam, score[rows].max())
        rounded: Floats = np.round(score, 9)
        return rounded

    def _cover(self, order: Sequence[Candidate], judged: Judged, have: Sequence[int], score: Floats) -> tuple[str, ...]:
        best_first = sorted(range(len(have)), key=lambda m: (-score[have[m]], order[have[m]].skill.id))
        chosen = cover(judged.values, best_first, judged.groups)
        return tuple(order[have[m]].skill.id for m in chosen)


def _relatives(order: Sequence[Candidate], families: Mapping[str, str]) -> frozenset[int]:
    """Places of the candidates that share a family with another one."""
    members: dict[str, list[int]] = {}
    for i, candidate in enumerate(order):
        family = families.get(candidate.skill.id)
        if family is not None:
            members.setdefault(family, []).append(i)
    return frozenset(i for places in members.values() if len(places) > 1 for i in places)


def _readable(graph: Callable[[Skill], Read], skill: Skill) -> Read | None:
    try:
        return graph(skill)
    except (MetierError, OSError):
        return None


def _without(why: str) -> Evidence:
    return Evidence("rerank", FLOOR, f"no witness: {why}")


def z(values: Floats) -> Floats:
    """Standard scores; all zeros for an inert channel."""
    spread = float(values.std()) if len(values) else 0.0
    return (values - values.mean()) / spread if spread > TINY else np.zeros(len(values))


def among(text: Floats, lack: Floats, clashed: NDArray[np.bool_], lam: float, top: float) -> Floats:
    """Scores of one group of look-alikes, ordered by z(text) + λ·z(log W) within the group; log W = −lack + constant.

    The group's best stands where its best text stood (`top`), the others at most a little lower, so that look-alikes
    stay neighbours on the slate. A contradicted member (W = 0) ends below every uncontradicted one (methods 2.5a).
    """
    raw = z(text) - lam * z(lack)
    if clashed.any() and not clashed.all():
        below = raw[clashed]
        raw[clashed] = raw[~clashed].min() - APART - (below.max() - below)
    shifted: Floats = top - DROP * (raw.max() - raw)
    return shifted


@dataclass(frozen=True)
class Judged:
    """Everything the stage found out about one slate."""

    needs: tuple[Need, ...]
    read: tuple[Read, ...]
    witness: Witness
    values: Floats
    """(skills, requirements): branches after floor, weights and alternatives."""
    groups: tuple[list[int], ...]
    worth: Floats
    """W after contrast and contradiction."""
    lack: Floats
    """What each skill says less for the request than the best of its look-alikes; 0 for nobody's look-alike."""
    contrasts: Mapping[int, tuple[Contrast, int]]
    """Skill → its group's contrast and its place in it."""
    labels: tuple[str, ...]
    offsets: tuple[int, ...]
    """Where each skill's nodes begin in the witness's paths."""

    def evidence(self, m: int) -> Evidence:
        """The witness of skill `m` as a sentence, and as data."""
        branch, path, texts = self.witness.branches[m], self.witness.paths[m], self.read[m].texts
        offset = self.offsets[m]
        via = [texts[p - offset] if p >= 0 else None for p in path.tolist()]
        covered = [j for j in np.argsort(-branch, kind="stable") if branch[j] >= COVERED]
        weakest = int(branch.argmin())
        others = [self.labels[j] for j in covered if j != weakest][:SHOWN]
        if others:
            parts = [f"covers {', '.join(others)}", f"weakest: {self._link(weakest, branch, via)}"]
        elif covered:  # there is one requirement, and it is covered
            parts = [f"covers {self._link(weakest, branch, via)}"]
        else:
            best = int(branch.argmax())
            parts = [f"covers little; nearest: {self._link(best, branch, via)}"]
            parts += [f"weakest: {self._link(weakest, branch, via)}"] if best != weakest else []
        clash, telling = self._compared(m)
        if clash:
            parts.insert(0, clash)
        detail = {
            "W": round(float(self.witness.hard[m]), 4),
            "soft": round(float(self.witness.soft[m]), 4),
            "requirements": self.labels,
            "branches": [round(b, 4) for b in branch.tolist()],
            "via": via,
            "weakest": self.labels[weakest],
            "contradiction": clash,
            "telling": telling,
        }
        return Evidence("rerank", round(float(self.worth[m]), 6), "; ".join(parts), detail)

    def _link(self, need: int, branch: NDArray[np.float32], via: Sequence[str | None]) -> str:
        """A requirement with its branch and the words that cover it: `density table (0.31, via "material lookup")`."""
        quote = (via[need] or "").replace(" | ", ", ")
        if not quote or branch[need] <= FLOOR:
            return f"{self.labels[need]} (not said)"
        return f'{self.labels[need]} ({branch[need]:.2f}, via "{one_line(quote, 60)}")'

    def _compared(self, m: int) -> tuple[str | None, str | None]:
        if m not in self.contrasts:
            return None, None
        found, place = self.contrasts[m]
        clash = found.clashes[place]
        telling = found.telling[place] or None
        if clash is None or self.worth[m] > 0.0:
            return None, telling
        label = self.labels[clash.need]
        said = (
            f'contradicts {label}: "{one_line(clash.said, 80)}" where a look-alike says "{one_line(clash.instead, 80)}"'
        )
        return said, telling


def judge(
    read: Sequence[Read],
    wanted: tuple[Need, ...],
    cosines: Callable[[Sequence[str]], Floats] | None = None,
    families: Sequence[str | None] = (),
) -> Judged:
    """Witness, look-alike groups and contrasts of these skills for these needs (not empty)."""
    stacked = stack([r.arrays for r in read])
    phi, weights = matches(stacked, wanted)
    found = witness(stacked, phi, wanted)
    alike = groups(stacked, families)
    worth, lack = found.soft.copy(), np.zeros(len(read))
    contrasts: dict[int, tuple[Contrast, int]] = {}
    for group in alike:
        members = [list(zip(read[m].arrays.same.tolist(), read[m].texts, strict=True)) for m in group]
        told = contrast(members, wanted, weights, cosines)
        lack[group] = told.gain.max() - told.gain
        worth[group] = float(found.soft[group].max()) * np.exp(-STEEP * lack[group])
        clashed = np.array([c is not None for c in told.clashes])
        if not clashed.all():
            worth[np.array(group)[clashed]] = 0.0
        contrasts |= {m: (told, place) for place, m in enumerate(group)}
    values = required(found.branches, wanted)
    return Judged(
        needs=wanted,
        read=tuple(read),
        witness=found,
        values=values,
        groups=tuple(alike),
        worth=worth,
        lack=lack,
        contrasts=contrasts,
        labels=tuple(n.label for n in wanted),
        offsets=tuple(stacked.nodes.tolist()),
    )
