"""The warm side of the hooks: one process answers for any working folder, with a workshop for each and one encoder."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.edge.hooks.answer import answer, in_time

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop

DESKS = 16
"""Working folders that one server keeps open at a time."""


@dataclass(slots=True)
class Desk:
    """Answers hooks from any working folder, out of one process: a workshop per folder, one encoder for all."""

    open: Callable[[Path, str], Workshop]
    """(working folder, host) → its workshop."""
    deadline: float = 1.5
    complain: Callable[[str], None] = lambda text: None
    _shops: OrderedDict[tuple[str, str], Workshop] = field(default_factory=OrderedDict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Mapping[str, Any], host: str) -> dict[str, Any]:
        """The answer, inside the deadline; `{}` for whatever is not a hook event."""
        if not isinstance(event, Mapping):
            return {}
        return in_time(lambda: self._answer(event, host), self.deadline)

    def _answer(self, event: Mapping[str, Any], host: str) -> dict[str, Any]:
        try:
            shop = self.shop(event.get("cwd"), host)
        except Exception as error:
            self.complain(f"metier hook: {type(error).__name__}: {error}")
            return {}
        return answer(event, shop, host=host, complain=self.complain)

    def shop(self, cwd: object, host: str) -> Workshop:
        """The workshop of that folder; the least recently used one is let go."""
        folder = Path(cwd) if isinstance(cwd, str) and Path(cwd).is_dir() else Path.home()
        key = (str(folder), host)
        with self._guard:
            if key not in self._shops:
                self._shops[key] = self.open(folder, host)
            self._shops.move_to_end(key)
            while len(self._shops) > DESKS:
                self._shops.popitem(last=False)
            return self._shops[key]
