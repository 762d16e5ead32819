"""Threads for the work that is not asynchronous: few, bounded, and with a time for each piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"metier-{name}")
        self._limit = waiting
        self.pending = 0

    async def do(self, work: Callable[[], T], *, seconds: float) -> T:
        """What `work` returns or raises. Raises `Busy` when the queue is full, `TooSlow` after `seconds`."""
        if self.pending >= self._limit:
            raise Busy
        self.pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._done)
        done, _ = await asyncio.wait([future], timeout=seconds)
        if not done:
            future.cancel()  # not begun yet: never begins
            raise TooSlow
        return future.result()

    def _done(self, future: asyncio.Future[T]) -> None:
        self.pending -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that an answer nobody waits for makes no noise

    def close(self) -> None:
        """No new work; what is running ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
