"""Threads for the work that is not asynchronous: few, bounded, and with a time for each piece.

They are daemons: a piece that hangs (a model that never answers) must not keep a stopped server alive. What a piece
writes, it writes in one transaction of the store, so that its end at any moment loses nothing that was acknowledged.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

WAITING = 256
"""Pieces of work under way or waiting; more are refused at once rather than answered too late."""


class Busy(Exception):
    """More work is waiting than can be done in time."""


class TooSlow(Exception):
    """A piece of work took longer than it was given; it goes on, its answer is dropped."""


class Crew:
    """`workers` threads and a bounded queue before them."""

    def __init__(self, name: str, workers: int, *, waiting: int = WAITING) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._limit = waiting
        self._lock = threading.Lock()
        self.pending = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"metier-{name}-{n}", daemon=True) for n in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    async def do(self, work: Callable[[], T], *, seconds: float) -> T:
        """What `work` returns or raises. Raises `Busy` when the queue is full, `TooSlow` after `seconds`."""
        with self._lock:
            if self.pending >= self._limit:
                raise Busy
            self.pending += 1
        future: Future[T] = Future()
        future.add_done_callback(self._done)
        self._waiting.put((future, work))
        waited = asyncio.wrap_future(future)
        done, _ = await asyncio.wait([waited], timeout=seconds)
        if not done:
            future.cancel()  # not begun yet: never begins; else it counts as under way until it ends
            raise TooSlow
        return waited.result()

    def close(self) -> None:
        """No thread begins anything more."""
        for _ in self._threads:
            self._waiting.put(None)

    def _done(self, future: Future[Any]) -> None:
        with self._lock:
            self.pending -= 1

    def _work(self) -> None:
        while (piece := self._waiting.get()) is not None:
            future, work = piece
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # handed to whoever waits for it
                future.set_exception(error)
            del piece, future, work  # else the last answer stays in memory while the thread waits
