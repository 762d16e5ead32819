"""What a language model may cost, counted before and after: a stated budget ends the work cleanly, never in the middle.

A call is allowed while what was spent and the call's own estimate stay within every stated limit. Calls under way are
counted as if they had cost their estimate, so parallel ones cannot overrun together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from metier.errors import BudgetSpent, ConfigError

PER = 1_000_000
"""Prices are in money per million tokens, as vendors state them."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one piece of work; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    """Sent and received together."""
    money: float | None = None
    price_sent: float = 0.0
    """Money per million tokens sent."""
    price_received: float = 0.0

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "money", "price_sent", "price_received"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"budget: {name} is {value}; it cannot be negative")
        if self.money is not None and not (self.price_sent or self.price_received):
            raise ConfigError("budget: a limit in money needs prices; state what a million tokens cost")

    def cost(self, sent: int, received: int) -> float:
        """Money for so many tokens."""
        return (sent * self.price_sent + received * self.price_received) / PER


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a piece of work will cost at most; `cached` calls cost nothing."""

    calls: int
    cached: int
    sent: int
    received: int
    money: float

    def __str__(self) -> str:
        price = f", {self.money:.4f} in money" if self.money else ""
        return (
            f"{self.calls} calls ({self.cached} more are answered already), "
            f"about {self.sent:,} tokens sent and at most {self.received:,} received{price}"
        )


@dataclass(slots=True)
class Ledger:
    """What was spent so far, and what is under way; safe to share between threads."""

    budget: Budget = field(default_factory=Budget)
    calls: int = 0
    sent: int = 0
    received: int = 0
    hits: int = 0
    """Answers from the cache."""
    _pending_calls: int = 0
    _pending_sent: int = 0
    _pending_received: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def money(self) -> float:
        """Money spent so far."""
        return self.budget.cost(self.sent, self.received)

    def hit(self) -> None:
        """One answer came from the cache."""
        with self._lock:
            self.hits += 1

    @contextmanager
    def call(self, sent: int, received: int) -> Iterator[Paid]:
        """Room for one call of that estimate; inside, `paid` is told the true numbers.

        Raises `BudgetSpent` when the call does not fit; nothing was sent then. A call that fails counts as sent.
        """
        with self._lock:
            self._refuse(sent, received)
            self._pending_calls += 1
            self._pending_sent += sent
            self._pending_received += received
        paid = Paid(sent, 0)
        try:
            yield paid
        finally:
            with self._lock:
                self._pending_calls -= 1
                self._pending_sent -= sent
                self._pending_received -= received
                self.calls += 1
                self.sent += paid.sent
                self.received += paid.received

    def _refuse(self, sent: int, received: int) -> None:
        limit = self.budget
        calls = self.calls + self._pending_calls + 1
        out = self.sent + self._pending_sent + sent
        back = self.received + self._pending_received + received
        spent = f"{self.calls} calls, {self.sent + self.received:,} tokens"
        if limit.calls is not None and calls > limit.calls:
            raise BudgetSpent(f"the budget of {limit.calls} calls is used up ({spent}); what was answered is kept")
        if limit.tokens is not None and out + back > limit.tokens:
            raise BudgetSpent(
                f"the next call does not fit into the budget of {limit.tokens:,} tokens ({spent}); "
                "what was answered is kept"
            )
        if limit.money is not None and limit.cost(out, back) > limit.money:
            raise BudgetSpent(
                f"the next call does not fit into the budget of {limit.money:g} ({self.money:.4f} spent, {spent}); "
                "what was answered is kept"
            )


@dataclass(slots=True)
class Paid:
    """The true cost of one call."""

    sent: int
    received: int
