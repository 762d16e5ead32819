"""Sentence-transformers models, on a tiny one made here; profiles by family."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metier.errors import EncoderError, MissingExtra
from metier.models.encoder import open_encoder
from metier.models.profiles import Network, read_profile, write_profile
from metier.models.recipes import SKILL_INSTRUCTION, UNKNOWN, Pooling, recipe_for
from metier.types import Profile

Tiny = Callable[..., Path]
INSTALLED = importlib.util.find_spec("sentence_transformers") is not None
needs_it = pytest.mark.skipif(not INSTALLED, reason="sentence-transformers is not installed")


@needs_it
def test_a_local_checkpoint_gives_unit_rows_with_its_familys_prefix_and_pooling(tmp_path: Path, tiny: Tiny) -> None:
    encoder = open_encoder(f"st:{tiny(tmp_path / 'bge-tiny')}")
    profile = encoder.profile
    assert profile.dim == 32 and profile.max_tokens == 512 and profile.query_prefix.startswith("Represent this")
    query, document = (encoder.encode(["fill a form", ""], kind=kind) for kind in ("query", "document"))
    assert query.dtype == np.float32 and query.shape == (2, 32) and not query[1].any()
    np.testing.assert_allclose(np.linalg.norm(query[0]), 1, atol=1e-5)
    prefixed = encoder.encode([profile.query_prefix + "fill a form"], kind="document")
    np.testing.assert_allclose(query[:1], prefixed, atol=1e-5)
    assert not np.allclose(query, document)


@needs_it
def test_pooling_is_what_the_family_says_or_the_caller(tmp_path: Path, tiny: Tiny) -> None:
    from metier.models.hub import SentenceTransformerEncoder

    folder = str(tiny(tmp_path / "tiny"))
    texts = ["a rather long text about spreadsheets"]
    ways: tuple[Pooling, ...] = ("mean", "cls", "lasttoken")
    rows = [SentenceTransformerEncoder(folder, pooling=way).encode(texts, kind="document") for way in ways]
    assert all(abs(float(a[0] @ b[0])) < 0.999 for a, b in zip(rows, [*rows[1:], rows[0]], strict=True))


@needs_it
def test_weights_tuned_anew_under_the_same_path_are_another_encoder(tmp_path: Path, tiny: Tiny) -> None:
    folder = tiny(tmp_path / "tiny")
    before = open_encoder(f"st:{folder}").profile.name
    assert open_encoder(f"st:{folder}").profile.name == before
    (folder / "model.safetensors").touch()
    assert open_encoder(f"st:{folder}").profile.name != before and "/" not in before


@needs_it
def test_a_folder_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="cannot be loaded"):
        open_encoder(f"st:{tmp_path}")


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is installed")
def test_without_sentence_transformers_the_extra_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'metier\[sentence-transformers\]'"):
        open_encoder("st:anything")


@pytest.mark.parametrize(
    ("model", "name", "query", "document", "tokens"),
    [
        ("org/skillrep-embedding-0.6b", "qwen3", SKILL_INSTRUCTION, "", 2048),
        ("Qwen/Qwen3-Embedding-4B", "qwen3", SKILL_INSTRUCTION, "", 2048),
        ("BAAI/bge-small-en-v1.5", "bge", "Represent this sentence for searching relevant passages: ", "", 512),
        ("intfloat/multilingual-e5-small", "e5", "query: ", "passage: ", 512),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm", "", "", 256),
        ("some/other-model", "unknown", "", "", 512),
    ],
)
def test_a_family_is_known_by_its_name(model: str, name: str, query: str, document: str, tokens: int) -> None:
    profile = recipe_for(model).profile
    found = (profile.name, profile.query_prefix, profile.document_prefix, profile.max_tokens)
    assert found == (name, query, document, tokens)


def test_qwen_pools_the_last_token_and_an_unknown_model_has_nothing_fitted() -> None:
    assert recipe_for("Qwen3-Embedding-0.6B").pooling == "lasttoken"
    assert UNKNOWN.profile.projection == () and UNKNOWN.profile.floor == ()


def test_a_profile_reads_back_as_it_was_written(tmp_path: Path) -> None:
    profile = Profile(
        "x-1", 32, 128, "q: ", "d: ", 0.3, ((100, 0.2), (10_000, 0.31)), (0.55, 0.1), ((500, 1), (9000, 12))
    )
    write_profile(tmp_path, profile, Network(2, 4, 1e-12))
    assert read_profile(tmp_path) == (profile, Network(2, 4, 1e-12))
    write_profile(tmp_path, profile)
    assert read_profile(tmp_path) == (profile, None)
    assert json.loads((tmp_path / "profile.json").read_text(encoding="utf-8"))["floor"] == [[100, 0.2], [10_000, 0.31]]
