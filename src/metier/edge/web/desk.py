"""What every page and endpoint works from: the workshop, the bank, the counters and the threads, made once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from metier.assemble.workshop import Workshop
from metier.edge.web import log
from metier.edge.web.crew import Crew
from metier.edge.web.guard import Keys
from metier.edge.web.meter import Meter
from metier.edge.web.shelf import Shelf
from metier.gate.bank import Bank
from metier.router import Router, run
from metier.types import Route, Slate, Task

T = TypeVar("T")
Hook = Callable[[dict[str, Any], str], Mapping[str, Any]]
"""(what the host sent, host) → what it gets; see `edge/hooks`."""

WORKERS = 2
"""Threads that route. Encoding releases the interpreter's lock, the rest does not: a third only adds waiting."""
MOMENT = 0.15
"""Seconds that a page waits for what may take long: a small library is done by then, a large one is told of."""
TICK = 5.0
"""Seconds for which a count over the whole log is good enough."""


@dataclass(slots=True)
class Latest(Generic[T]):
    """The newest value made for a key, made once however many ask at the same time."""

    _key: Any = None
    _value: T | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, key: Any, make: Callable[[], T]) -> T:
        """The value for `key`; `make` runs only when the key changed."""
        with self._lock:
            if self._value is None or self._key != key:
                self._value, self._key = make(), key
            return self._value

    def ready(self, key: Any) -> bool:
        """Whether the value for `key` is there already."""
        return self._value is not None and self._key == key


@dataclass
class Desk:
    """One server's state. Sync methods run in a `Crew`'s threads, never on the event loop."""

    shop: Workshop
    keys: Keys
    address: str
    """Where people find it: `http://127.0.0.1:7717`."""
    hook: Hook | None = None
    meter: Meter = field(default_factory=Meter)
    routing: Crew = field(default_factory=lambda: Crew("route", WORKERS))
    reading: Crew = field(default_factory=lambda: Crew("page", WORKERS))
    kept: dict[str, Latest[Any]] = field(default_factory=dict)
    tried: OrderedDict[str, tuple[Route, dict[str, str]]] = field(default_factory=OrderedDict)
    """What the *Try* page routed lately, with the form it came from."""
    _behind: dict[str, threading.Thread] = field(default_factory=dict)

    def router(self, only: Sequence[str] | None = None) -> Router:
        """The router of the newest generation."""
        return self.shop.router(only, source="http")

    @property
    def bank(self) -> Bank:
        """The outcomes of this home."""
        return self.shop.bank

    def shelf(self) -> Shelf:
        """The library's columns for searching, of the newest generation."""
        opened = self.shop.opened()
        made: Shelf = self.latest("shelf").of(opened.folder, lambda: Shelf.of(opened.library.skills))
        return made

    def latest(self, name: str) -> Latest[Any]:
        """The keeper of one derived value."""
        return self.kept.setdefault(name, Latest())

    def counted(self, name: str, make: Callable[[], T]) -> T:
        """What the log adds up to, at most `TICK` seconds old: counting it grows with the log."""
        made: T = self.latest(name).of(int(time.monotonic() / TICK), make)
        return made

    def used(self) -> dict[str, dict[str, int]]:
        """Skill id → how often it was offered, loaded and used."""
        return self.counted("used", lambda: log.use_by_skill(self.shop.store))

    def behind(self, name: str, work: Callable[[], object]) -> None:
        """`work` runs in a thread of its own, once while it runs, and is given a moment to be done already."""
        running = self._behind.get(name)
        if running is None or not running.is_alive():
            self._behind[name] = threading.Thread(target=work, name=f"metier-{name}", daemon=True)
            self._behind[name].start()
        self._behind[name].join(MOMENT)

    def warm(self) -> None:
        """The first request finds everything open."""
        run(self.router().stages, Slate("warm", Task("warm up")))  # not through `route`: nobody asked, nothing to log
        self.shelf()

    def look(self) -> None:
        """An index that fell behind its folders is brought up to date by another process."""
        if self.shop.wants_refresh():
            self.shop.refresh_behind()

    def close(self) -> None:
        """The threads end with what they are doing."""
        self.routing.close()
        self.reading.close()
