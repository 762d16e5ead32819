"""A sweep ranks as the stage ranks; its settings do what they say, held against plain loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metier.errors import InputError
from metier.evaluate import run
from metier.evaluate.grids import halved, halves, measured, sweeps, weights
from metier.evaluate.sweep import Arrays, Setting, Sweep, asked, background, documents_of, gather
from metier.evaluate.variants import generic_requests, mean_request, own_requests, read_asked
from metier.retrieve.build import DOCUMENT_WEIGHT
from metier.retrieve.stage import QUERY_WEIGHT

from . import shelf

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> run.Bench:
    made = shelf.bench(tmp_path_factory.mktemp("bench"))
    assert made.encoder is not None
    mean = mean_request(made.encoder, generic_requests())
    return replace(made, toward=lambda: mean, _variants={})


@pytest.fixture(scope="module")
def sweep(bench: run.Bench) -> Sweep:
    return Sweep(gather(bench, shelf.requests()))


def random_arrays(m: int = 8, n: int = 40, d: int = 16) -> Arrays:
    def unit(rows: int) -> np.ndarray:
        drawn = RNG.standard_normal((rows, d)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    lexical = np.abs(RNG.standard_normal((m, n))).astype(np.float32)
    return Arrays(
        documents=unit(n), requests=unit(m), drafts=unit(m), lexical=lexical, lexical_drafts=lexical * 2,
        generic=unit(30), rank=np.arange(n, dtype=np.int32), gold=tuple({int(i % n): 1.0} for i in range(m)),
        datasets=tuple("ab"[i % 2] for i in range(m)), toward=unit(1)[0] * 0.4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("modules", "setting"),
    [
        (("lexical",), Setting(channels="lexical")),
        (("dense",), Setting(channels="dense")),
        (("lexical", "dense"), Setting()),
        (("dense", "projection"), Setting(channels="dense", step="two", first=run.PROJECTED)),
        (("lexical", "dense", "query-expansion"), Setting(w_q=QUERY_WEIGHT)),
        (("dense", "document-expansion"), Setting(channels="dense", w_d=DOCUMENT_WEIGHT)),
        (
            ("lexical", "dense", "projection", "query-expansion", "document-expansion"),
            Setting(step="two", first=run.PROJECTED, w_q=QUERY_WEIGHT, w_d=DOCUMENT_WEIGHT),
        ),
    ],
)
def test_a_sweep_ranks_as_the_stages_do(
    bench: run.Bench, sweep: Sweep, modules: tuple[str, ...], setting: Setting
) -> None:
    assert bench.encoder is not None
    setting = replace(setting, alpha=bench.encoder.profile.alpha)
    wanted = shelf.requests()
    stages = run.retrieve_all(bench, wanted, modules)
    names = [run.known_as(s)[0] for s in bench.skills]
    for request, rows in zip(wanted, sweep.rank(setting), strict=True):
        of_stage = list(stages.rankings[run.key_of(request)])
        ids = [bench.skills[r].id for r in rows]
        mine = [names[r] if names[r] in of_stage else i for r, i in zip(rows, ids, strict=True)]
        assert mine[:10] == of_stage[:10]


def test_values_of_a_setting_are_those_of_the_run(bench: run.Bench, sweep: Sweep) -> None:
    done = run.retrieve_all(bench, shelf.requests(), ("lexical",))
    np.testing.assert_allclose(
        sweep.values(Setting(channels="lexical")), run.values(done, shelf.requests(), "mrr@10"), atol=1e-12
    )


def test_projected_scores_are_those_of_a_naive_projection() -> None:
    a = random_arrays()
    setting = Setting(channels="dense", step="two", first=1)
    found = background(a, a.documents, setting)
    assert found is not None
    vt = np.linalg.svd(a.documents.astype(np.float64), full_matrices=False)[2]
    d = a.documents - (a.documents @ vt[:1].T) @ vt[:1]
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    d -= (d @ found.second.T) @ found.second
    np.testing.assert_allclose(Sweep(a).dense(setting), a.requests @ d.T, atol=1e-5)


def test_random_directions_are_as_many_and_lie_elsewhere() -> None:
    a = random_arrays()
    two = background(a, a.documents, Setting(step="two", first=2))
    drawn = background(a, a.documents, Setting(step="random", first=2))
    assert two is not None and drawn is not None
    assert len(drawn.all) == len(two.all) == 4
    assert abs(float(np.linalg.norm(two.all @ drawn.all.T))) < 1.9
    np.testing.assert_allclose(drawn.all @ drawn.all.T, np.eye(4), atol=1e-5)


def test_both_backgrounds_are_one_orthonormal_set() -> None:
    a = random_arrays()
    found = background(a, a.documents, Setting(step="both", first=2))
    assert found is not None
    np.testing.assert_allclose(found.all @ found.all.T, np.eye(4), atol=1e-5)


def test_too_few_documents_are_not_projected() -> None:
    a = random_arrays(n=20)
    assert background(a, a.documents, Setting(step="two", first=1)) is None


def test_requests_without_hypothetical_skills_stay_as_they_are() -> None:
    a = random_arrays()
    a.drafts[3] = 0
    mixed = asked(a, Setting(w_q=0.3))
    np.testing.assert_array_equal(mixed[3], a.requests[3])
    expected = 0.7 * a.requests[0] + 0.3 * a.drafts[0]
    np.testing.assert_allclose(mixed[0], expected / np.linalg.norm(expected), atol=1e-6)


def test_documents_move_toward_their_own_requests_where_they_have_some() -> None:
    a = random_arrays()
    own = np.zeros_like(a.documents)
    own[5] = a.requests[0]
    moved = documents_of(replace(a, own=own), Setting(w_d=0.2, asked="own"))
    expected = 0.8 * a.documents[5] + 0.2 * a.requests[0]
    np.testing.assert_allclose(moved[5], expected / np.linalg.norm(expected), atol=1e-6)
    np.testing.assert_allclose(np.delete(moved, 5, axis=0), np.delete(a.documents, 5, axis=0), atol=1e-6)


def test_document_expansion_without_requests_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(InputError, match="document expansion needs"):
        documents_of(replace(random_arrays(), toward=None), Setting(w_d=0.2))


def test_generated_requests_are_read_in_both_forms(tmp_path: Path, bench: run.Bench) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text(
        '{"skill": "pdf-0", "requests": ["a", "b"]}\n{"id": "sql-0", "text": "c"}\n{"id": "sql-0", "text": "d"}\n',
        encoding="utf-8",
    )
    assert read_asked(path) == {"pdf-0": ["a", "b"], "sql-0": ["c", "d"]}
    assert bench.encoder is not None
    found = own_requests(bench.encoder, bench.skills, read_asked(path))
    assert (np.abs(found).sum(axis=1) > 0).sum() == 2
    path.write_text('{"skill": "pdf-0"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"asked\.jsonl:1: "):
        read_asked(path)


def test_the_mean_request_comes_from_requests_that_no_benchmark_holds() -> None:
    given = generic_requests()
    assert len(given) == len(set(given)) >= 200
    assert not set(given) & {r.text for r in shelf.requests()}


def test_what_is_chosen_on_one_half_is_reported_on_the_other() -> None:
    sweep = Sweep(random_arrays(m=20))
    grid = weights(Setting(), (0.0, 0.3, 0.5), (0.0, 0.2))
    found = halved(sweep, grid, Setting())
    split = halves(sweep.arrays.datasets)
    assert sorted(split.first + split.second) == list(range(20))
    for half, (there, here) in zip(
        found["halves"], [(split.first, split.second), (split.second, split.first)], strict=True
    ):
        chosen = replace(Setting(), **half["chosen"])

        def macro(setting: Setting, rows: tuple[int, ...]) -> float:
            values = sweep.values(setting)
            sets = [[n for n in rows if sweep.arrays.datasets[n] == d] for d in "ab"]
            return float(np.mean([values[s].mean() for s in sets]))

        assert macro(chosen, there) == pytest.approx(max(macro(s, there) for s in grid))
        assert half["reported_on"] == pytest.approx(100 * macro(chosen, here), abs=0.01)
        assert half["short_of_best"] >= 0


def test_all_sweeps_are_made_and_their_base_agrees_with_itself(sweep: Sweep) -> None:
    base = Setting(w_q=0.3)
    found = sweeps(sweep, base, drafts=True)
    at_base = measured(sweep, base)
    assert next(r for r in found["alpha"] if r["alpha"] == base.alpha)["metrics"] == at_base
    assert next(r for r in found["weights"] if (r["w_q"], r["w_d"]) == (0.3, 0.0))["metrics"] == at_base
    assert {r["k1"] for r in found["k1"]} >= {0, 1, 2, 3}
    assert found["fusion"]["scores"]["metrics"] == at_base
    assert found["fusion"]["ranks"]["metrics"] == measured(sweep, replace(base, channels="ranks"))
