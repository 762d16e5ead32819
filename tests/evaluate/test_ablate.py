"""The ablation's rows, and whether what it says of alone, last and together is what the runs say."""

from __future__ import annotations

import pytest

from metier.evaluate import ablate
from metier.evaluate.datasets import Request
from metier.evaluate.run import FREE, Run

REQUESTS = [Request(str(n), f"request {n}", {"gold": 1.0}, "d") for n in range(10)]
WORTH = {"lexical": 2, "projection": 1, "query-expansion": 1, "document-expansion": 0, "tuned": 3}


def world(modules: tuple[str, ...]) -> Run:
    """Each module makes `WORTH` more of the ten requests find their gold first; together at most nine."""
    found = min(9, 1 + sum(WORTH.get(m, 0) for m in modules)) if "dense" in modules else 2
    rankings = {f"d/{n}": ["gold"] if n < found else ["other"] for n in range(10)}
    return Run(rankings, {k: [1.0] for k in rankings}, [1.0], modules, "c")


def test_rows_have_every_module_alone_last_and_all_on_both_encoders() -> None:
    rows = ablate.rows(("dense", *FREE, "tuned"), ("lexical", "dense"))
    assert ("lexical",) in rows and ("dense",) in rows and ("dense", "tuned") in rows
    for base in (("dense",), ("dense", "tuned")):
        for module in FREE:
            assert ablate.in_order((*base, module)) in rows
            assert ablate.in_order((*base, *(m for m in FREE if m != module))) in rows
        assert ablate.in_order((*base, *FREE)) in rows
    assert ("lexical", "dense", "projection", "tuned") in ablate.rows(("dense", "lexical", "projection", "tuned"), ())
    assert len(rows) == len(set(rows))


def test_exactly_one_row_is_the_default_and_it_is_always_there() -> None:
    found = ablate.ablation(world, ("dense", "lexical"), ("lexical", "dense", "projection"), REQUESTS)["ablation"]
    assert [row["modules"] for row in found if row.get("default")] == [["lexical", "dense", "projection"]]
    assert all(set(row["metrics"]) == {"mrr@10", "r@10", "hit@1", "ndcg@10"} for row in found)


def test_a_module_is_run_once_however_many_tables_show_it() -> None:
    asked = []

    def once(modules: tuple[str, ...]) -> Run:
        asked.append(modules)
        return world(modules)

    ablate.ablation(once, ("dense", *FREE, "tuned"), ("lexical", "dense"), REQUESTS)
    assert len(asked) == len(set(asked))


def test_alone_last_sum_and_together_are_the_differences_of_the_runs() -> None:
    found = ablate.ablation(world, ("dense", *FREE, "tuned"), ("lexical", "dense"), REQUESTS)
    untuned, tuned, tuning = found["modules_alone_and_last"]
    assert {m: g["delta"] for m, g in untuned["alone"].items()} == {m: 10.0 * WORTH[m] for m in FREE}
    assert untuned["sum_alone"] == 40.0 and untuned["together"]["delta"] == 40.0
    assert tuned["base"] == ["dense", "tuned"]
    assert tuned["last"]["lexical"]["delta"] == pytest.approx(20.0)
    assert tuning == {"base": ["tuned"], "alone": tuning["alone"], "last": tuning["last"]}
    assert tuning["alone"]["delta"] == 30.0 and tuning["last"]["delta"] == 30.0
    low, high = untuned["alone"]["lexical"]["ci95"]
    assert low <= 20.0 <= high
