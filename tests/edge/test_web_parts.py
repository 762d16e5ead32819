"""The parts below the pages: figures, columns, threads, and the numbers of the gate's board against plain loops."""

from __future__ import annotations

import asyncio
import re
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="needs metier[serve]")

from metier.edge.web import figures, log, standing
from metier.edge.web.crew import Busy, Crew, TooSlow
from metier.edge.web.desk import Desk, Latest
from metier.edge.web.guard import Keys
from metier.edge.web.shelf import Shelf
from metier.types import Skill

from .seeded import STACK, bare, seeded

EVIL = "\"><script>alert('x')</script>&amp;"


# ---------------------------------------------------------------------------------------------------------- figures


def drawn() -> list[str]:
    points = [figures.Point(x / 10, x / 7 - 1, x / 7 - 1.2, x / 7 - 0.8, EVIL) for x in range(6)]
    x = figures.axis([p.x for p in points], figures.signed, EVIL)
    y = figures.axis([p.y for p in points], figures.percent, EVIL)
    return [
        figures.bar(0.4, label=EVIL),
        figures.interval(-0.2, 0.1, 0.6),
        figures.shares([(EVIL, 3, "load"), ("b", 0, "skip")]),
        figures.scatter(points, x, y, EVIL, diagonal=True),
        figures.lines([(EVIL, "accent", points)], x, y, EVIL),
        figures.bars([(EVIL, 3.0, EVIL, "accent")], EVIL, reach=[9.0]),
        figures.slope([(EVIL, 1, 2, "load"), ("b", 2, 1, "skip")], EVIL, "after"),
    ]


def test_every_figure_is_well_formed_named_and_free_of_its_labels_markup() -> None:
    for svg in drawn():
        root = ET.fromstring(svg)
        assert root.get("role") == "img" and root.get("aria-label") is not None
        assert {e.tag for e in root.iter()} <= {"svg", "rect", "line", "circle", "text", "polyline", "polygon"}
        assert "<script" not in svg and "style=" not in svg


def test_an_interval_is_coloured_by_the_side_of_zero_it_lies_on() -> None:
    assert 'circle class="load"' in figures.interval(0.1, 0.3, 0.5)
    assert 'circle class="harm"' in figures.interval(-0.5, -0.3, -0.1)
    assert 'circle class="plain"' in figures.interval(-0.1, 0.1, 0.3)


@given(st.lists(st.floats(-1e6, 1e6), max_size=8))
def test_an_axis_holds_all_its_values_between_few_round_ticks(values: list[float]) -> None:
    found = figures.axis(values, figures.compact)
    slack = 1e-8 * (found.high - found.low)  # far under a pixel
    assert all(found.low - slack <= v <= found.high + slack for v in values)
    assert 2 <= len(found.ticks) <= 9
    steps = np.diff(found.ticks)
    assert np.allclose(steps, steps[0], rtol=1e-6)
    assert found.at(found.low, 10, 100) == 10 and found.at(found.high, 10, 100) == 110


def test_bars_are_in_proportion() -> None:
    widths = [
        float(w)
        for w in re.findall(r'width="([\d.]+)" height="14"', figures.bars([("a", 4, "", "x"), ("b", 1, "", "x")], ""))
    ]
    assert widths[0] / widths[2] == pytest.approx(4, rel=0.01)


# ------------------------------------------------------------------------------------------------------------ shelf


def skill(n: int, text: str) -> Skill:
    return Skill(f"given:{n}", f"s{n}", text, "d", "/r", "given" if n % 2 else "user", (f"/r/{n}",), body_tokens=n)


@given(st.lists(st.sampled_from(["red apple", "green apple", "red pear", ""]), max_size=30), st.integers(1, 7))
def test_pages_of_a_search_are_its_result_cut_in_pieces(texts: list[str], limit: int) -> None:
    skills = [skill(n, text) for n, text in enumerate(texts)]
    shelf = Shelf.of(skills)
    rows: list[int] = []
    while True:
        page = shelf.page("red apple", scope="user", offset=len(rows), limit=limit)
        if not page.rows or len(rows) >= page.total:
            break
        rows += page.rows
    assert sorted(rows) == [n for n, s in enumerate(skills) if s.description == "red apple" and s.scope == "user"]
    sizes = [skills[i].body_tokens for i in shelf.page(sort="size", limit=100).rows]
    assert sizes == sorted(sizes, reverse=True)


# ------------------------------------------------------------------------------------------------------------- crew


def test_a_full_crew_refuses_and_a_slow_piece_is_given_up() -> None:
    async def story() -> None:
        crew, gate = Crew("test", 1, waiting=2), threading.Event()
        with pytest.raises(TooSlow):
            await crew.do(lambda: gate.wait(20), seconds=0.01)
        assert crew.pending == 1, "what still runs still counts"
        late = asyncio.ensure_future(crew.do(lambda: 7, seconds=20))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await crew.do(lambda: 8, seconds=20)
        gate.set()
        assert await late == 7
        with pytest.raises(ZeroDivisionError):
            await crew.do(lambda: 1 // 0, seconds=20)
        assert crew.pending == 0
        crew.close()

    asyncio.run(story())


def test_a_derived_value_is_made_once_for_a_key_however_many_ask() -> None:
    made: list[int] = []
    latest: Latest[int] = Latest()
    threads = [threading.Thread(target=lambda: latest.of("a", lambda: made.append(1) or 5)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1] and latest.ready("a") and not latest.ready("b")
    assert latest.of("b", lambda: 6) == 6


# --------------------------------------------------------------------------------------------------------- standing


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([-1.0, 0.0, 0.5, 1.0])), min_size=1, max_size=40))
def test_the_advantage_is_success_above_a_coin_that_loads_as_often(rows: list[tuple[bool, float]]) -> None:
    use, gains = np.array([u for u, _ in rows]), np.array([g for _, g in rows])
    y0 = np.linspace(0, 1, len(rows))
    success = np.where(use, y0 + gains, y0).mean()
    random = y0.mean() + use.mean() * gains.mean()
    assert standing._advantage(use, gains) == pytest.approx(success - random)


@given(st.lists(st.tuples(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 1.0])), min_size=1, max_size=60))
def test_calibration_groups_hold_every_task_once_in_order_of_prediction(rows: list[tuple[float, float]]) -> None:
    tau, gains = np.array([t for t, _ in rows]), np.array([g for _, g in rows])
    found = standing.calibration(tau, gains)
    assert sum(b.n for b in found) == len(rows)
    assert [b.predicted for b in found] == sorted(b.predicted for b in found)
    assert sum(b.observed * b.n for b in found) == pytest.approx(gains.sum(), abs=1e-9)
    assert all(-1 <= b.low <= b.high <= 1 for b in found)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(seeded(tmp_path_factory.mktemp("parts") / "home", routes=4), Keys(("t",)), "")


def test_the_board_judges_every_task_by_the_others_of_its_skill(desk: Desk) -> None:
    """Leave-one-out k-nearest neighbours by plain loops, over the pairs as the bank holds them."""
    board = standing.board(desk, STACK)
    assert board is not None and board.n == 100 and board.unread == 0
    encoder, wins, uses = desk.shop.encoder.profile.name, [], []
    for key in desk.bank.skills(STACK):
        found = standing.find(desk, key[0])
        assert found is not None
        pairs = desk.bank.pairs(STACK, key, encoder)
        rows = [i for i in range(len(pairs)) if pairs.digests[i] == found.digest]
        for i in rows:
            near = sorted((-round(float(pairs.vectors[i].astype(float) @ pairs.vectors[j]), 6), n, j)
                          for n, j in enumerate(rows) if j != i)[:6]  # fmt: skip
            weights = [max(-c, 0.0) for c, _, _ in near]
            total = sum(weights) or len(near)
            weights = weights if sum(weights) else [1.0] * len(near)
            tau = sum(w * pairs.gains[j] for w, (_, _, j) in zip(weights, near, strict=True)) / total
            uses.append(tau > 0)
            wins.append(pairs.y1[i] if tau > 0 else pairs.y0[i])
    gate = board.policies[2]
    assert gate.rate == pytest.approx(float(np.mean(uses)), abs=0.02)
    assert gate.success == pytest.approx(float(np.mean(wins)), abs=0.02)
    assert board.interval[0] <= board.advantage <= board.interval[1]


def test_a_stack_without_pairs_has_no_board(tmp_path: Path) -> None:
    assert standing.board(Desk(bare(tmp_path / "home"), Keys(("t",)), ""), "nobody/none") is None


# -------------------------------------------------------------------------------------------------------------- log


def test_the_pulse_counts_failures_and_empty_slates(tmp_path: Path) -> None:
    from dataclasses import replace

    from metier.store import log_route
    from metier.types import Step

    shop = bare(tmp_path / "home")
    route = replace(shop.router(), log=None, events=None).route("clean a csv")
    failed = replace(route.slate, candidates=(), steps=(Step("retrieve", 5.0, "broke"), Step("gate", 1.0)))
    log_route(shop.store, route, text="off", source="cli")
    log_route(shop.store, replace(route, id="r_failed", slate=failed), text="off", source="cli")
    pulse = log.pulse(shop.store)
    assert (pulse.routes, pulse.failed, pulse.empty) == (2, 1, 1)
    assert 5.0 in pulse.stages["retrieve"] and 6.0 in pulse.totals
    shown, more = log.listed(shop.store, log.Filter(level="failed"))
    assert [r.id for r in shown] == ["r_failed"] and more == "" and shown[0].errors == ("retrieve: broke",)
    assert [r.id for r in log.listed(shop.store, log.Filter(level="empty"))[0]] == ["r_failed"]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values(values: list[float], part: float) -> None:
    ordered = sorted(values)
    assert log.quantile(ordered, part) in ordered and log.quantile(ordered, 0) == ordered[0]
    assert log.quantile((), 0.5) == 0
