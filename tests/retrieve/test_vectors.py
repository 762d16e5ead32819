"""The cache of vectors: each text once, whoever asks, whatever crashes."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.retrieve.world import BagEncoder

from metier.errors import EncoderError
from metier.retrieve.vectors import SEGMENTS, VectorCache, identity, unit

TEXTS = ["fill forms", "tune sql", "write notes", "fill forms"]


def test_a_text_is_encoded_once_and_found_again_by_another_process(tmp_path: Path) -> None:
    encoder = BagEncoder()
    cache = VectorCache(tmp_path, encoder.profile)
    first = cache.of(TEXTS, encoder)
    assert cache.encoded == 3
    assert encoder.calls == ["fill forms", "tune sql", "write notes"]
    again = VectorCache(tmp_path, encoder.profile)
    np.testing.assert_array_equal(again.of(TEXTS, encoder), first)
    assert again.encoded == 0
    np.testing.assert_array_equal(first[0], first[3])


def test_queries_and_documents_are_kept_apart(tmp_path: Path) -> None:
    encoder = BagEncoder()
    cache = VectorCache(tmp_path, encoder.profile)
    cache.of(["a"], encoder, kind="query")
    cache.of(["a"], encoder, kind="document")
    assert cache.encoded == 2


def test_another_encoder_never_gets_these_vectors(tmp_path: Path) -> None:
    encoder = BagEncoder()
    VectorCache(tmp_path, encoder.profile).of(TEXTS, encoder)
    for other in (
        replace(encoder.profile, name="bag-2"),
        replace(encoder.profile, query_prefix="query: "),
        replace(encoder.profile, max_tokens=128),
    ):
        assert identity(other) != identity(encoder.profile)
        cache = VectorCache(tmp_path, other)
        cache.of(TEXTS[:1], encoder)
        assert cache.encoded == 1


def test_what_was_fitted_for_an_encoder_does_not_change_its_vectors() -> None:
    profile = BagEncoder().profile
    assert identity(replace(profile, alpha=0.1, floor=((10, 0.3),), projection=((5, 2),))) == identity(profile)


def test_a_record_torn_by_a_crash_is_encoded_again(tmp_path: Path) -> None:
    encoder = BagEncoder()
    cache = VectorCache(tmp_path, encoder.profile)
    cache.of(TEXTS, encoder)
    (segment,) = cache.folder.glob("*.vec")
    os.truncate(segment, segment.stat().st_size - 5)
    after = VectorCache(tmp_path, encoder.profile)
    after.of(TEXTS, encoder)
    assert after.encoded == 1


def test_a_record_of_wrong_bytes_is_encoded_again(tmp_path: Path) -> None:
    encoder = BagEncoder()
    cache = VectorCache(tmp_path, encoder.profile)
    right = cache.of(TEXTS, encoder)
    (segment,) = cache.folder.glob("*.vec")
    data = bytearray(segment.read_bytes())
    data[40] ^= 0xFF
    segment.write_bytes(data)
    after = VectorCache(tmp_path, encoder.profile)
    np.testing.assert_array_equal(after.of(TEXTS, encoder), right)
    assert after.encoded == 1


def test_what_was_encoded_before_an_interruption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.retrieve.vectors.BATCH", 2)
    encoder = BagEncoder(breaks_after=4)
    with pytest.raises(EncoderError):
        VectorCache(tmp_path, encoder.profile).of([f"text {n}" for n in range(9)], encoder)
    healthy = BagEncoder()
    cache = VectorCache(tmp_path, healthy.profile)
    cache.of([f"text {n}" for n in range(9)], healthy)
    assert cache.encoded == 5


def test_an_encoder_that_returns_something_else_is_named(tmp_path: Path) -> None:
    class Broken(BagEncoder):
        def encode(self, texts, *, kind):  # type: ignore[no-untyped-def]
            return super().encode(texts, kind=kind) * np.float32("nan")

    encoder = Broken()
    with pytest.raises(EncoderError, match="bag"):
        VectorCache(tmp_path, encoder.profile).of(["a"], encoder)


def _encode(folder: Path, number: int) -> None:
    encoder = BagEncoder()
    VectorCache(folder, encoder.profile).of(
        [f"shared {n}" for n in range(20)] + [f"own {number} {n}" for n in range(20)], encoder
    )


def test_several_processes_encode_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    workers = [multiprocessing.get_context("fork").Process(target=_encode, args=(tmp_path, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    encoder = BagEncoder()
    cache = VectorCache(tmp_path, encoder.profile)
    wanted = [f"shared {n}" for n in range(20)] + [f"own {m} {n}" for m in range(3) for n in range(20)]
    found = cache.of(wanted, encoder)
    assert cache.encoded == 0
    np.testing.assert_allclose(found, BagEncoder().encode(wanted, kind="document"), atol=1e-3)


def test_many_old_segments_become_one_and_fresh_ones_are_left_alone(tmp_path: Path) -> None:
    encoder = BagEncoder()
    for n in range(SEGMENTS + 1):
        VectorCache(tmp_path, encoder.profile).of([f"text {n}", "shared"], encoder)
    cache = VectorCache(tmp_path, encoder.profile)
    segments = sorted(cache.folder.glob("*.vec"))
    cache.tidy()
    assert sorted(cache.folder.glob("*.vec")) == segments
    cache.tidy(now=segments[0].stat().st_mtime + 10 * 86_400)
    assert len(list(cache.folder.glob("*.vec"))) == 1
    after = VectorCache(tmp_path, encoder.profile)
    after.of([f"text {n}" for n in range(SEGMENTS + 1)], encoder)
    assert after.encoded == 0


def test_the_unit_of_zeros_is_zeros() -> None:
    assert not unit(np.zeros(4, np.float32)).any()
    assert np.linalg.norm(unit(np.ones(4, np.float32))) == pytest.approx(1)
