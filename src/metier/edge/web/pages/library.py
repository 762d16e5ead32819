"""*Library*: the skills, what is wrong with them, which look alike, which are copies, and what a host would cut."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from metier.edge.web import log, shelf, standing
from metier.edge.web.desk import Desk
from metier.edge.web.pages.evidence import gain_mark
from metier.edge.web.pages.render import Visit, page
from metier.errors import ForbiddenPath, InputError, MetierError
from metier.text import count_tokens, words
from metier.types import Skill

ALIKE = 0.85
"""Cosine from which two skills are shown as look-alikes: below the 0.9 that makes a family, so that near ones show."""
PAIRS = 25
"""Pairs, problems or copies on one page."""
TELLING = 8
"""Words of difference named on either side."""
BODY_SHOWN = 200_000
"""Characters of a body that a page shows; a longer one is named with its size."""
TABS = (
    ("/library", "Skills"),
    ("/library/problems", "Problems"),
    ("/library/look-alikes", "Look-alikes"),
    ("/library/copies", "Copies and shadows"),
)


def _page(desk: Desk, template: str, tab: str, **values: Any) -> Response:
    return page(desk, template, "/library", tabs=TABS, tab=tab, **values)


def skills(desk: Desk, visit: Visit) -> Response:
    """`GET /library`: search, filter, page."""
    library, columns = desk.shop.library, desk.shelf()
    q, scope, sort = visit.get("q").strip(), visit.get("scope"), visit.get("sort", "name")
    found = columns.page(q, scope=scope, flag=visit.get("flag"), sort=sort, offset=visit.number("offset"))
    used = log.use_by_skill(desk.shop.store)
    rows = [(s, used.get(s.id, {})) for s in (library.skills[i] for i in found.rows)]
    return _page(
        desk, "library.html", "/library", q=q, scope=scope, sort=sort, flag=visit.get("flag"), found=found, rows=rows,
        scopes=columns.counts(), looked=library.looked, at=library.at,
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
        tokens=count_tokens(text), used=log.use_by_skill(desk.shop.store).get(skill.id, {}), problems=problems,
        changed=indexed is not None and indexed.digest != skill.digest,
    )  # fmt: skip


def problems(desk: Desk, visit: Visit) -> Response:
    """`GET /library/problems`: everything the reader had to forgive, by kind, with its remedy."""
    library = desk.shop.library
    kinds = desk.latest("problem kinds").of(id(library), lambda: _kinds(desk))
    code = visit.get("code")
    rows = kinds.get(code, ()) if code else range(len(library.problems))
    offset = min(visit.number("offset"), max(0, len(rows) - 1))
    shown = [library.problems[i] for i in rows[offset : offset + PAIRS]]
    return _page(
        desk, "problems.html", "/library/problems", kinds={k: len(v) for k, v in kinds.items()}, code=code, rows=shown,
        found=shelf.Page(tuple(rows[offset : offset + PAIRS]), len(rows), offset, PAIRS),
    )  # fmt: skip


def _kinds(desk: Desk) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for n, problem in enumerate(desk.shop.library.problems):
        found[problem.code].append(n)
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two skills that a request could hardly tell apart, and the words that do."""

    one: Skill
    other: Skill
    cosine: float
    only_one: tuple[str, ...]
    only_other: tuple[str, ...]


def look_alikes(desk: Desk, visit: Visit) -> Response:
    """`GET /library/look-alikes`: closest pairs first; found out once per index, behind the first visit."""
    opened = desk.shop.opened()
    held = desk.latest("look-alikes")
    key = str(opened.folder)
    if not held.ready(key):
        desk.behind(lambda: held.of(key, lambda: _alike(desk)))
        return _page(
            desk, "look-alikes.html", "/library/look-alikes", waiting=True, rows=(), found=None, threshold=ALIKE
        )
    pairs = held.of(key, lambda: _alike(desk))
    offset = min(visit.number("offset"), max(0, len(pairs) - 1))
    library = desk.shop.library.skills
    rows = [_pair(library[a], library[b], cosine) for a, b, cosine in pairs[offset : offset + PAIRS]]
    found = shelf.Page(tuple(range(offset, offset + len(rows))), len(pairs), offset, PAIRS)
    return _page(
        desk, "look-alikes.html", "/library/look-alikes", waiting=False, rows=rows, found=found, threshold=ALIKE
    )


def _alike(desk: Desk) -> list[tuple[int, int, float]]:
    from metier.retrieve.index import look_alikes as pairs

    opened = desk.shop.opened()
    return pairs(opened.index, opened.library.skills, ALIKE)


def _pair(one: Skill, other: Skill, cosine: float) -> Pair:
    a, b = words(f"{one.name} {one.description}"), words(f"{other.name} {other.description}")
    return Pair(one, other, cosine, _only(a, b), _only(b, a))


def _only(mine: list[str], theirs: list[str]) -> tuple[str, ...]:
    """The words of one text that the other lacks, in order, without the shortest."""
    there = set(theirs)
    return tuple(dict.fromkeys(w for w in mine if w not in there and len(w) > 2))[:TELLING]


def copies(desk: Desk, visit: Visit) -> Response:
    """`GET /library/copies`: the same folder at several addresses, one name for several skills, shadowed skills."""
    library = desk.shop.library
    same, named = desk.latest("copies").of(id(library), lambda: _copies(desk))
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
