"""A run is the product's own stages over the requests; what it reports is what other programs read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from metier.errors import InputError
from metier.evaluate import run
from metier.evaluate.datasets import IN_POOL, Request
from metier.evaluate.variants import generic_requests, mean_request

from . import shelf


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> run.Bench:
    return shelf.bench(tmp_path_factory.mktemp("bench"))


def test_a_run_finds_gold_by_the_ids_it_is_named_by(bench: run.Bench) -> None:
    done = run.retrieve_all(bench, shelf.requests(), ("lexical", "dense"))
    assert done.unknown_gold == ()
    assert run.metrics(done, shelf.requests())["mrr@10"] > 40
    assert all(set(r.gold) & set(done.rankings[run.key_of(r)]) for r in shelf.requests())


def test_gold_that_no_skill_has_is_named_and_scores_zero(bench: run.Bench) -> None:
    lost = Request("lost", "the tables in this pdf should become rows", {"nowhere": 1.0}, "first")
    done = run.retrieve_all(bench, [lost], ("lexical",))
    assert done.unknown_gold == ("nowhere",)
    assert run.metrics(done, [lost])["mrr@10"] == 0.0


def test_unknown_modules_and_no_channel_are_refused(bench: run.Bench) -> None:
    with pytest.raises(InputError, match="no module 'magic'"):
        run.stages_for(bench, ("dense", "magic"))
    with pytest.raises(InputError, match="at least one channel"):
        run.stages_for(bench, ("projection",))


def test_projection_is_there_when_asked_for_though_the_profile_has_none(bench: run.Bench) -> None:
    assert bench.index.directions is None
    found = bench.index_for(("dense", "projection"))
    assert found.directions is not None and len(found.directions) == run.PROJECTED + 2
    assert bench.index_for(("dense", "projection")) is found
    assert bench.index_for(("dense",)) is bench.index


def test_document_expansion_moves_every_document_toward_the_mean_request(bench: run.Bench) -> None:
    assert bench.encoder is not None
    toward = mean_request(bench.encoder, generic_requests())
    moved = replace(bench, toward=lambda: toward, _variants={}).index_for(("dense", "document-expansion"))
    assert moved.vectors is not None and bench.index.vectors is not None
    before, after = bench.index.vectors @ toward, moved.vectors @ toward
    assert (after > before).all()
    np.testing.assert_allclose(np.linalg.norm(moved.vectors, axis=1), 1.0, atol=1e-5)


def test_document_expansion_without_requests_says_what_to_give(bench: run.Bench) -> None:
    with pytest.raises(InputError, match="--asked"):
        run.stages_for(bench, ("dense", "document-expansion"))


def test_query_expansion_uses_the_given_hypothetical_skills(bench: run.Bench) -> None:
    wanted = [Request("q", "please help me with this", {"docker-0": 1.0}, "d", ("docker layers alpine multi stage",))]
    plain = run.retrieve_all(bench, wanted, ("lexical", "dense"))
    expanded = run.retrieve_all(bench, wanted, ("lexical", "dense", "query-expansion"))
    assert run.metrics(expanded, wanted)["mrr@10"] > run.metrics(plain, wanted)["mrr@10"]


def test_a_request_without_a_ranking_scores_zero_and_is_not_dropped(bench: run.Bench) -> None:
    asked = shelf.requests()
    done = run.retrieve_all(bench, asked[:6], ("lexical",))
    kept = run.metrics(done, asked, ("hit@1",))["hit@1"]
    assert 0 < kept <= 50.0


def test_the_macro_average_weighs_datasets_alike(bench: run.Bench) -> None:
    asked = shelf.requests()
    done = run.retrieve_all(bench, asked, ("lexical",))
    parts = run.by_dataset(done, asked, ("mrr@10",))
    expected = np.mean([p["mrr@10"] for p in parts.values()])
    assert run.metrics(done, asked, ("mrr@10",))["mrr@10"] == pytest.approx(expected, abs=0.01)
    assert {name: p["requests"] for name, p in parts.items()} == {"first": 6, "second": 6}


def test_a_trec_run_has_six_fields_a_line_in_rank_order(bench: run.Bench) -> None:
    done = run.retrieve_all(bench, [Request("a b", "clean a messy csv", {"csv-0": 1.0}, "d")], ("lexical",))
    lines = [line.split(" ") for line in run.trec(done, "tag").splitlines()]
    assert {len(line) for line in lines} == {6}
    assert [line[3] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert lines[0][0] == "d/a_b" and lines[0][1] == "Q0" and lines[0][5] == "tag"
    assert [float(line[4]) for line in lines] == sorted((float(line[4]) for line in lines), reverse=True)


def test_the_result_file_has_the_form_of_sra_bench(bench: run.Bench) -> None:
    asked = shelf.requests()
    written = run.sra_results(run.retrieve_all(bench, asked, ("lexical",)), asked, {"corpus": "small"})
    assert set(written) == {"metadata", "metrics", "results"}
    first = written["results"][0]
    assert first["instance_id"] == "pdf0" and first["gold_skill_ids"] == ["pdf-0"]
    assert set(first["retrieved"][0]) == {"skill_id", "score"}
    assert written["metadata"]["query"] == "bare question"
    assert written["metadata"]["corpus"] == "small"


def test_skillrouters_gold_outside_the_pool_does_not_count_and_others_does(bench: run.Bench) -> None:
    theirs = Request("a", "t", {"pdf-0": 1.0, "gone": 1.0}, "d", extra={IN_POOL: True})
    empty = Request("b", "t", {"gone": 1.0}, "d", extra={IN_POOL: True})
    ours = Request("c", "t", {"pdf-0": 1.0, "gone": 1.0}, "d")
    kept = run.judged([theirs, empty, ours], bench.skills)
    assert [(r.id, sorted(r.gold)) for r in kept] == [("a", ["pdf-0"]), ("c", ["gone", "pdf-0"])]
