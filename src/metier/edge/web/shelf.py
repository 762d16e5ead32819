"""A library's skills in columns, so that 100,000 of them are searched, filtered and paged without decoding each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metier.types import Skill

PAGE = 50
"""Rows of one page: about two screens."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a longer list: which rows of the library, and where the page lies."""

    rows: tuple[int, ...]
    total: int
    offset: int
    limit: int

    @property
    def last(self) -> int:
        """Number of the last row shown."""
        return self.offset + len(self.rows)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Per skill: a lower-cased line to search in, and what can be filtered and sorted by."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    scopes: tuple[str, ...]
    tokens: tuple[int, ...]
    flags: tuple[frozenset[str], ...]
    by_name: tuple[int, ...]
    by_size: tuple[int, ...]

    @staticmethod
    def of(skills: Sequence[Skill]) -> Shelf:
        """The columns of these skills; reads every one of them once."""
        texts, names, scopes, tokens, flags = [], [], [], [], []
        for skill in skills:
            texts.append(f"{skill.id}\n{skill.name}\n{skill.description}".lower())
            names.append(skill.name.lower())
            scopes.append(str(skill.scope))
            tokens.append(skill.body_tokens)
            flags.append(frozenset(map(str, skill.flags)))
        order = range(len(names))
        return Shelf(
            tuple(texts),
            tuple(names),
            tuple(scopes),
            tuple(tokens),
            tuple(flags),
            tuple(sorted(order, key=lambda i: (names[i], i))),
            tuple(sorted(order, key=lambda i: (-tokens[i], i))),
        )

    def page(
        self, q: str = "", *, scope: str = "", flag: str = "", sort: str = "name", offset: int = 0, limit: int = PAGE
    ) -> Page:
        """The rows that hold every word of `q`, names that begin with it first."""
        found = list(self._found(q.lower().split(), scope, flag, self.by_size if sort == "size" else self.by_name))
        if q and sort != "size":
            start = q.lower().strip()
            found.sort(key=lambda i: (self.names[i] != start, not self.names[i].startswith(start)))  # stable
        offset = max(0, min(offset, max(0, len(found) - 1)))
        return Page(tuple(found[offset : offset + limit]), len(found), offset, limit)

    def _found(self, words: Sequence[str], scope: str, flag: str, order: Sequence[int]) -> Iterator[int]:
        for i in order:
            if scope and self.scopes[i] != scope:
                continue
            if flag and flag not in self.flags[i]:
                continue
            if all(word in self.texts[i] for word in words):
                yield i

    def counts(self) -> dict[str, int]:
        """Skills per scope."""
        return {scope: self.scopes.count(scope) for scope in sorted(set(self.scopes))}
