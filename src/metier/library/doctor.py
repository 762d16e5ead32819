"""Everything that is wrong with a library, in the order in which it costs a person something.

A skill that is not there comes before one that cannot run, that before one nobody will pick, and a misspelt field
comes last. `examine` only gathers; what is said elsewhere (the encoder's look-alikes, what this machine lacks) is
handed in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metier.errors import LibraryError
from metier.library.budget import HOSTS, Listing, listing
from metier.library.catalogue import labels
from metier.text import one_line, words
from metier.types import Library, Problem, Skill

NEAR = 0.97
"""Cosine from which a look-alike is reported as a near-duplicate [ours]; `difference` still says what differs."""
EXAMPLES = 8
"""Names listed in one line before "and N more"."""

KINDS: Mapping[str, str] = {
    "lost": "not read: nothing could be made of these files",
    "unmet": "cannot run here: something they declare is missing",
    "collision": "the same name twice in one place: an agent finds only one of them",
    "shadowed": "hidden by a skill of the same name in a stronger place",
    "listing": "the agent's own listing does not show them in full",
    "near-duplicate": "nearly the same skill twice",
    "look-alike": "easily taken for one another",
    "refused": "other programs do not read these files, or read them differently",
    "reference": "the body names files that the folder does not have",
    "duplicate": "the very same folder in several places",
    "standard": "outside the Agent Skills standard",
    "nested": "a skill inside another skill's folder",
    "form": "read without loss, but worth tidying",
}
"""What can be found, most costly first, and what each means."""

CODES: Mapping[str, str] = {
    code: kind
    for kind, codes in {
        "lost": "bad-row binary damaged-file empty-file nothing-to-route too-deep unreadable-file unreadable-folder",
        "refused": "closing-fence description-type empty-front-matter encoding front-matter-too-deep "
        "front-matter-too-long key-sign late-front-matter missing-closing-fence missing-description missing-name "
        "missing-opening-fence name-type no-front-matter not-a-mapping one-line-front-matter opening-fence quote "
        "reserved-character stray-fence tab unquoted-colon yaml",
        "standard": "allowed-tools-type compatibility-too-long compatibility-type description-too-long empty-body "
        "file-name key-spelling metadata-type name-characters name-differs-from-folder name-too-long",
        "form": "bare-cr byte-order-mark control-characters crlf dead-link duplicate-id duplicate-key link-loop "
        "link-outside",
    }.items()
    for code in codes.split()
}
"""Every code of a reader's problem, and the kind of finding it is; docs/errors.md explains each."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know. `skills` are the ids concerned; `line` is 0 where no line is to blame."""

    kind: str
    path: str
    line: int
    code: str
    message: str
    remedy: str
    skills: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {"kind": self.kind, "path": self.path, "line": self.line, "code": self.code, "message": self.message,
                "remedy": self.remedy, "skills": list(self.skills)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, most costly kind first, with what each host's listing would show."""

    skills: int
    looked: tuple[str, ...]
    findings: tuple[Finding, ...]
    listings: tuple[Listing, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Findings by kind, in the order of `KINDS`."""
        counted = Counter(finding.kind for finding in self.findings)
        return {kind: counted[kind] for kind in KINDS if counted[kind]}

    def of(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, as `metier doctor --json` prints it."""
        return {
            "schema": "metier-doctor-v1",
            "skills": self.skills,
            "looked": list(self.looked),
            "counts": self.counts,
            "findings": [finding.as_dict() for finding in self.findings],
            "listings": [each.as_dict() for each in self.listings],
        }


def examine(
    library: Library,
    *,
    body: Callable[[Skill], str],
    look_alikes: Sequence[tuple[int, int, float]] = (),
    runnable: Callable[[Skill], Sequence[str]] | None = None,
    differ: Callable[[Skill, Skill], str] | None = None,
    hosts: Sequence[str] = ("claude-code",),
    usage: Mapping[str, int] | None = None,
) -> Report:
    """Everything to know about the library.

    `body` reads a skill's body; `look_alikes` are (position, position, cosine); `runnable` lists what a skill declares
    and this machine lacks; `differ` names the difference of two skills (by default their own words); `hosts` are
    names of `budget.HOSTS`.
    """
    told = differ or (lambda one, other: difference(one, other, body))
    listings = tuple(listing(library.skills, HOSTS[host], usage=usage) for host in hosts)
    found = [
        *_problems(library.problems),
        *_unmet(library.skills, runnable),
        *_collisions(library.skills),
        *_shadowed(library),
        *(_listed(each) for each in listings if each.cut or each.bare or each.dropped),
        *_pairs(library.skills, look_alikes, told),
        *_references(library.skills),
        *_duplicates(library.skills),
        *_nested(library.skills),
    ]
    order = {kind: i for i, kind in enumerate(KINDS)}
    found.sort(key=lambda finding: (order[finding.kind], finding.path, finding.line))
    return Report(len(library.skills), library.looked, tuple(found), listings)


def kind_of(code: str) -> str:
    """The kind of a reader's problem, by its code."""
    return CODES.get(code, "refused")


def _problems(problems: Iterable[Problem]) -> Iterator[Finding]:
    for each in problems:
        yield Finding(kind_of(each.code), each.path, each.line, each.code, each.message, each.remedy)


def _unmet(skills: Iterable[Skill], runnable: Callable[[Skill], Sequence[str]] | None) -> Iterator[Finding]:
    if runnable is None:
        return
    for skill in skills:
        if skill.requires and (lacks := runnable(skill)):
            yield Finding("unmet", skill.addresses[0], 0, "missing-requirement", f"'{skill.name}' needs {_some(lacks)}",
                          "install or set it, or allow the skill by name: gate.allow", (skill.id,))  # fmt: skip


def _collisions(skills: Iterable[Skill]) -> Iterator[Finding]:
    named: defaultdict[tuple[str, str, str], list[Skill]] = defaultdict(list)
    for skill in skills:
        place = skill.root if skill.scope == "given" else skill.scope
        named[skill.scope, place, labels(skill.name)[0]].append(skill)
    for group in named.values():
        if len(group) > 1:
            where = _some([skill.addresses[0] for skill in group])
            yield Finding("collision", group[0].addresses[0], 0, "same-name",
                          f"{len(group)} different skills are called '{group[0].name}': {where}",
                          "rename all but one", tuple(skill.id for skill in group))  # fmt: skip


def _shadowed(library: Library) -> Iterator[Finding]:
    for each in library.shadowed:
        skill = each.skill
        yield Finding("shadowed", skill.addresses[0], 0, "shadowed",
                      f"'{skill.name}' ({skill.scope}) is hidden by {each.by}", "rename or remove one of the two",
                      (skill.id, each.by))  # fmt: skip


def _listed(shown: Listing) -> Finding:
    groups = ((shown.dropped, "not at all"), (shown.bare, "by name only"), (shown.cut, "with the description cut"))
    parts = [f"{len(ids):,} {what}" for ids, what in groups if ids]
    total = sum(map(len, (shown.full, shown.cut, shown.bare, shown.dropped)))
    message = (f"{shown.host} shows {len(shown.full):,} of {total:,} skills in full, {', '.join(parts)}: "
               f"{shown.wanted:,} characters wanted, {shown.budget:,} allowed")  # fmt: skip
    remedy = f"let metier route instead: about {shown.routed:,} tokens a request for {shown.tokens:,} a conversation"
    return Finding("listing", shown.host, 0, "listing-budget", message, remedy,
                   (*shown.dropped, *shown.bare, *shown.cut))  # fmt: skip


def _pairs(
    skills: Sequence[Skill], look_alikes: Sequence[tuple[int, int, float]], differ: Callable[[Skill, Skill], str]
) -> Iterator[Finding]:
    for i, j, cosine in look_alikes:
        one, other = skills[i], skills[j]
        near = cosine >= NEAR
        try:
            what = differ(one, other)
        except LibraryError:
            continue  # gone since the index was built: nothing to tell apart any more
        yield Finding("near-duplicate" if near else "look-alike", one.addresses[0], 0,
                      "near-duplicate" if near else "look-alike",
                      f"'{one.name}' and '{other.name}' are {round(cosine * 100)}% alike; {what}",
                      "keep one" if near else "say in each description when to use it and what it is not for",
                      (one.id, other.id))  # fmt: skip


def _references(skills: Iterable[Skill]) -> Iterator[Finding]:
    for skill in skills:
        lacks = [need.names[0] for need in skill.requires if need.kind == "file"]
        if lacks:
            yield Finding("reference", skill.addresses[0], 0, "missing-file",
                          f"'{skill.name}' names {_some(lacks)}, which the folder does not have",
                          "add the file, or take the sentence out", (skill.id,))  # fmt: skip


def _duplicates(skills: Iterable[Skill]) -> Iterator[Finding]:
    for skill in skills:
        if len(skill.addresses) > 1:
            yield Finding("duplicate", skill.addresses[0], 0, "duplicate",
                          f"'{skill.name}' is also in {_some(skill.addresses[1:])}",
                          "nothing need be done: it is listed once", (skill.id,))  # fmt: skip


def _nested(skills: Sequence[Skill]) -> Iterator[Finding]:
    homes = {address: skill for skill in skills for address in skill.addresses}
    for skill in skills:
        parts = skill.addresses[0].split("/")
        outer = ("/".join(parts[:cut]) for cut in range(len(parts) - 1, 1, -1))
        above = next((homes[folder] for folder in outer if folder in homes), None)
        if above is not None and above is not skill:
            yield Finding("nested", skill.addresses[0], 0, "nested", f"'{skill.name}' lies inside '{above.name}'",
                          "move it beside that skill if agents should find it", (skill.id, above.id))  # fmt: skip


def difference(one: Skill, other: Skill, body: Callable[[Skill], str]) -> str:
    """What tells two look-alikes apart: needs that only one has, and the words that only one uses, most used first."""
    texts = [f"{skill.name} {skill.description} {skill.description} {body(skill)}" for skill in (one, other)]
    counts = [Counter(word for word in words(text) if len(word) > 2 and not word.isdigit()) for text in texts]
    parts = []
    for skill, mine, theirs, rest in ((one, counts[0], counts[1], other), (other, counts[1], counts[0], one)):
        needs = {f"{need.kind} {' or '.join(need.names)}" for need in skill.requires if need.declared}
        needs -= {f"{need.kind} {' or '.join(need.names)}" for need in rest.requires if need.declared}
        own = sorted((word for word in mine if word not in theirs), key=lambda word: (-mine[word], word))[:4]
        if own or needs:
            said = ", ".join([*sorted(needs)[:2], *own])
            parts.append(f"only {skill.name if skill.name != rest.name else skill.id}: {said}")
    if parts:
        return "; ".join(parts)
    return "their words are the same" if counts[0] == counts[1] else "they use the same words in other amounts"


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(one_line(name, 120) for name in names[:EXAMPLES])
    return listed if len(names) <= EXAMPLES else f"{listed} and {len(names) - EXAMPLES} more"
