"""Exporting a checkpoint: the same bytes twice, the same vectors as torch up to quantisation."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metier.errors import EncoderError, MissingExtra
from metier.models.encoder import MINILM
from metier.models.export import export
from metier.models.onnx import OnnxEncoder
from metier.models.profiles import folder_digest, read_profile
from metier.types import Profile

Tiny = Callable[..., Path]
TRAINING = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnx"))
needs_it = pytest.mark.skipif(not TRAINING, reason="torch, transformers or onnx is not installed")
FILES = ("model.onnx", "tokenizer.json", "pieces.tsv", "profile.json")
TEXTS = ["fill in this PDF form", "recover a deleted branch", "write the release notes " * 40]


@needs_it
@pytest.mark.train
def test_an_exported_checkpoint_opens_and_agrees_with_torch(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import transformers

    checkpoint = tiny(tmp_path / "checkpoint")
    profile = export(checkpoint, tmp_path / "made", Profile("tiny", 0, 64, alpha=0.4))
    encoder = OnnxEncoder(tmp_path / "made")
    assert encoder.profile == profile and profile.dim == 32 and profile.alpha == 0.4
    assert profile.name.startswith("tiny-")

    model = transformers.BertModel.from_pretrained(checkpoint).eval()
    encoder.warm()
    for text, vector in zip(TEXTS, encoder.encode(TEXTS, kind="document"), strict=True):
        with torch.no_grad():
            expected = model(torch.tensor([encoder._ids(text)])).last_hidden_state[0].mean(0).numpy()
        assert vector @ expected / np.linalg.norm(expected) > 0.99

    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    cold = OnnxEncoder(tmp_path / "made")
    vectors = cold.encode(TEXTS[:2], kind="query")
    assert cold._session is None
    assert np.einsum("ij,ij->i", vectors, encoder.encode(TEXTS[:2], kind="document")).min() > 0.99


@needs_it
@pytest.mark.train
def test_exporting_twice_gives_the_same_bytes(tmp_path: Path, tiny: Tiny) -> None:
    checkpoint = tiny(tmp_path / "checkpoint")
    for name in ("one", "two"):
        export(checkpoint, tmp_path / name, Profile("tiny", 0, 64))
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in FILES)


@needs_it
@pytest.mark.train
def test_only_bert_checkpoints_with_a_tokenizer_are_exported(tmp_path: Path, tiny: Tiny) -> None:
    checkpoint = tiny(tmp_path / "checkpoint")
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    (checkpoint / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}), encoding="utf-8")
    with pytest.raises(EncoderError, match="model_type is 'gpt2'"):
        export(checkpoint, tmp_path / "made", Profile("tiny", 0, 64))
    (checkpoint / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match=r"tokenizer\.json is missing"):
        export(checkpoint, tmp_path / "made", Profile("tiny", 0, 64))
    assert not (tmp_path / "made").exists()


@needs_it
@pytest.mark.train
def test_an_untrained_network_is_refused(tmp_path: Path, tiny: Tiny) -> None:
    with pytest.raises(EncoderError, match="give a trained checkpoint"):
        export(tiny(tmp_path / "checkpoint", trained=False), tmp_path / "made", Profile("tiny", 0, 64))


@pytest.mark.skipif(TRAINING, reason="torch, transformers and onnx are installed")
def test_without_torch_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'metier\[train\]'"):
        export(tmp_path, tmp_path, Profile("tiny", 0, 64))


def test_the_shipped_encoder_is_named_by_the_digest_of_its_own_files() -> None:
    profile, network = read_profile(MINILM)
    assert profile.name == f"minilm-{folder_digest(MINILM, profile)}"
    assert network is not None and (network.layers, network.heads) == (6, 12)


def test_the_shipped_encoder_carries_its_licence_and_says_what_was_changed() -> None:
    assert "Apache License" in (MINILM / "LICENSE").read_text(encoding="utf-8")
    notice = (MINILM / "NOTICE").read_text(encoding="utf-8")
    assert "all-MiniLM-L6-v2" in notice and "quantised to int8 per channel" in notice
    pieces = hashlib.sha256((MINILM / "pieces.tsv").read_bytes()).hexdigest()
    assert pieces == "dc54589a3bee3733aab71b04dfff4cf4a243e4370dec40cb78bbea7e720cb320"
