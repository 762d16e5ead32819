"""Money and tokens never overrun, however many calls are under way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import BudgetSpent, ConfigError
from metier.models.spending import Budget, Ledger


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=20), st.integers(0, 300))
def test_spent_tokens_stay_within_the_budget_when_estimates_hold(calls: list[tuple[int, int]], limit: int) -> None:
    ledger = Ledger(Budget(tokens=limit))
    for sent, received in calls:
        try:
            with ledger.call(sent, received) as paid:
                paid.sent, paid.received = sent, received
        except BudgetSpent:
            assert ledger.sent + ledger.received + sent + received > limit
    assert ledger.sent + ledger.received <= limit


def test_calls_under_way_count_with_their_estimate() -> None:
    ledger = Ledger(Budget(tokens=100))
    with ledger.call(40, 20), pytest.raises(BudgetSpent), ledger.call(40, 20):
        pass
    with ledger.call(40, 20):
        pass


def test_a_limit_in_money_needs_prices() -> None:
    with pytest.raises(ConfigError, match="needs prices"):
        Budget(money=1.0)
    with pytest.raises(ConfigError, match="cannot be negative"):
        Budget(tokens=-1)
