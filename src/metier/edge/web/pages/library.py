"""*Library*: the skills, what is wrong with them, which look alike, which are copies, and what a host would cut."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from metier.assemble.checkup import usage
from metier.edge.web import figures, shelf, standing
from metier.edge.web.desk import Desk
from metier.edge.web.pages.evidence import gain_mark
from metier.edge.web.pages.render import Visit, page
from metier.errors import ForbiddenPath, InputError, MetierError
from metier.library.budget import HOSTS, Listing, listing
from metier.library.doctor import KINDS, Report, difference, examine
from metier.text import count_tokens
from metier.types import Skill

ALIKE = 0.85
"""Cosine from which two skills are shown as look-alikes: below the 0.9 that makes a family, so that near ones show."""
PAIRS = 25
"""Pairs, problems or copies on one page."""
NAMED = 40
"""Skills named in one group of a host's listing."""
BODY_SHOWN = 200_000
"""Characters of a body that a page shows; a longer one is named with its size."""
TABS = (
    ("/library", "Skills"),
    ("/library/problems", "Problems"),
    ("/library/look-alikes", "Look-alikes"),
    ("/library/copies", "Copies and shadows"),
    ("/library/budget", "Listing budget"),
)


def _page(desk: Desk, template: str, tab: str, **values: Any) -> Response:
    return page(desk, template, "/library", tabs=TABS, tab=tab, **values)


def skills(desk: Desk, visit: Visit) -> Response:
    """`GET /library`: search, filter, page."""
    library, columns = desk.shop.library, desk.shelf()
    q, scope, sort = visit.get("q").strip(), visit.get("scope"), visit.get("sort", "name")
    found = columns.page(q, scope=scope, flag=visit.get("flag"), sort=sort, offset=visit.number("offset"))
    used = desk.used()
    rows = [(s, used.get(s.id, {})) for s in (library.skills[i] for i in found.rows)]
    return _page(
        desk, "library.html", "/library", q=q, scope=scope, sort=sort, flag=visit.get("flag"), found=found, rows=rows,
        scopes=columns.counts(), looked=library.looked,
    )  # fmt: skip


def one(desk: Desk, visit: Visit) -> Response:
    """`GET /library/skill?id=`: one skill in full; its text is shown as text, whatever it holds."""
    skill = desk.shop.skill(visit.get("id"))
    resource, said, text = visit.get("resource"), "", ""
    try:
        text = desk.shop.text(skill, resource or None, "shown") if resource else desk.shop.body(skill)
    except (ForbiddenPath, InputError) as error:
        said = str(error)
    except (MetierError, OSError) as error:
        said = f"its text cannot be read now: {error}"
    if len(text) > BODY_SHOWN:
        said, text = f"{len(text):,} characters: too long to show here; read it from {skill.addresses[0]}", ""
    indexed = standing.find(desk, skill.id)
    rows = []
    for stack in desk.bank.stacks():
        rows += [(stack, s, gain_mark(s)) for s in standing.standings(desk, stack) if skill.id in s.skills]
    problems = [p for p in desk.shop.library.problems if p.path.startswith(tuple(skill.addresses))][:PAIRS]
    return _page(
        desk, "skill.html", "/library", skill=skill, text=text, resource=resource, said=said, standing=rows,
        tokens=count_tokens(text), used=desk.used().get(skill.id, {}), problems=problems,
        changed=indexed is not None and indexed.digest != skill.digest,
    )  # fmt: skip


def problems(desk: Desk, visit: Visit) -> Response:
    """`GET /library/problems`: the doctor's findings by kind, the most costly first, each with its remedy."""
    opened = desk.shop.opened()
    held, key = desk.latest("report"), opened.folder
    if not held.ready(key):
        desk.behind("report", lambda: held.of(key, lambda: _examined(desk)))
    if not held.ready(key):
        return _page(desk, "problems.html", "/library/problems", waiting=True, kinds={}, kind="", rows=(), found=None)
    report: Report = held.of(key, lambda: _examined(desk))
    kind = visit.get("kind")
    rows = report.of(kind) if kind else report.findings
    found = _cut(len(rows), visit)
    return _page(
        desk, "problems.html", "/library/problems", waiting=False, kinds=report.counts, kind=kind, about=KINDS,
        rows=rows[found.offset : found.last], found=found, ids=frozenset(),
    )  # fmt: skip


def _examined(desk: Desk) -> Report:
    """The doctor's report without look-alikes, which have a page of their own."""
    shop = desk.shop
    return examine(
        shop.library,
        body=shop.body,
        runnable=lambda skill: [f.reason for f in shop.runnable(skill) if f.blocks],
        usage=usage(shop),
    )


def _cut(total: int, visit: Visit) -> shelf.Page:
    """The page of a list of that length that the visit asks for."""
    offset = min(visit.number("offset"), max(0, total - 1))
    return shelf.Page(tuple(range(offset, min(offset + PAIRS, total))), total, offset, PAIRS)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two skills that a request could hardly tell apart, and the words that do."""

    one: Skill
    other: Skill
    cosine: float
    difference: str


def look_alikes(desk: Desk, visit: Visit) -> Response:
    """`GET /library/look-alikes`: closest pairs first; found out once per index, behind the first visit."""
    opened = desk.shop.opened()
    held, key = desk.latest("look-alikes"), opened.folder
    values: dict[str, Any] = {"waiting": True, "rows": (), "found": None, "threshold": ALIKE}
    if not held.ready(key):
        desk.behind("look-alikes", lambda: held.of(key, lambda: _alike(desk)))
    if held.ready(key):
        pairs = held.of(key, lambda: _alike(desk))
        found = _cut(len(pairs), visit)
        rows = [_pair(desk, *pair) for pair in pairs[found.offset : found.last]]
        values |= {"waiting": False, "rows": rows, "found": found}
    return _page(desk, "look-alikes.html", "/library/look-alikes", **values)


def _alike(desk: Desk) -> list[tuple[int, int, float]]:
    from metier.retrieve.index import look_alikes as pairs

    opened = desk.shop.opened()
    return pairs(opened.index, opened.library.skills, ALIKE)


def _pair(desk: Desk, one: int, other: int, cosine: float) -> Pair:
    skills = desk.shop.library.skills
    try:
        what = difference(skills[one], skills[other], desk.shop.body)
    except (MetierError, OSError) as error:
        what = f"one of them cannot be read now: {error}"
    return Pair(skills[one], skills[other], cosine, what)


def copies(desk: Desk, visit: Visit) -> Response:
    """`GET /library/copies`: the same folder at several addresses, one name for several skills, shadowed skills."""
    library = desk.shop.library
    same, named = desk.latest("copies").of(desk.shop.opened().folder, lambda: _copies(desk))
    return _page(
        desk, "copies.html", "/library/copies",
        same=[library.skills[i] for i in same[:PAIRS]], same_total=len(same),
        named=[(name, [library.skills[i] for i in rows]) for name, rows in named[:PAIRS]], named_total=len(named),
        shadowed=list(library.shadowed[:PAIRS]), shadowed_total=len(library.shadowed),
    )  # fmt: skip


def _copies(desk: Desk) -> tuple[list[int], list[tuple[str, list[int]]]]:
    same, by_name = [], defaultdict(list)
    for n, skill in enumerate(desk.shop.library.skills):
        if len(skill.addresses) > 1:
            same.append(n)
        by_name[skill.name].append(n)
    named = [(name, rows) for name, rows in by_name.items() if len(rows) > 1]
    return same, sorted(named, key=lambda pair: (-len(pair[1]), pair[0]))


@dataclass(frozen=True, slots=True)
class Group:
    """Skills that a host's listing treats alike."""

    title: str
    tone: str
    total: int
    skills: tuple[Skill, ...]


def budget(desk: Desk, visit: Visit) -> Response:
    """`GET /library/budget`: what a host's own listing shows of this library, who is cut, and what routing saves."""
    host = visit.get("host") or (desk.shop.config.host if desk.shop.config.host in HOSTS else "claude-code")
    if host not in HOSTS:
        raise InputError(f"no listing rule is known for {host[:40]!r}; choose from {', '.join(HOSTS)}")
    library = desk.shop.library.skills
    key = desk.shop.opened().folder
    shown: Listing = desk.latest(f"listing {host}").of(
        key, lambda: listing(library, HOSTS[host], usage=usage(desk.shop))
    )
    groups = [
        _group(desk, title, tone, ids)
        for title, tone, ids in (
            ("Not listed at all", "harm", shown.dropped),
            ("Listed by name only", "offer", shown.bare),
            ("Description cut", "offer", shown.cut),
            ("In full", "load", shown.full),
        )
    ]
    parts = [(g.title.lower(), g.total, g.tone) for g in reversed(groups)]
    return _page(
        desk, "budget.html", "/library/budget", host=host, hosts=list(HOSTS), shown=shown, groups=groups,
        shares=figures.shares([(t, float(n), tone) for t, n, tone in parts], width=640, height=14),
        unlisted=len(shown.unlisted),
    )  # fmt: skip


def _group(desk: Desk, title: str, tone: str, ids: tuple[str, ...]) -> Group:
    found = (standing.find(desk, i) for i in ids[:NAMED])
    return Group(title, tone, len(ids), tuple(s for s in found if s is not None))
