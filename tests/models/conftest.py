"""What several tests of the models need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier.models.encoder import MINILM


@pytest.fixture
def tiny() -> Callable[..., Path]:
    """Makes a tiny checkpoint in the folder it is given; skips where torch or transformers is not installed."""
    return make_tiny


def make_tiny(folder: Path, *, trained: bool = True) -> Path:
    """A BERT of two layers with random weights and the real tokenizer, saved as safetensors."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = transformers.BertModel(config).eval()
    if trained:  # a fresh network has layer norms of ones and biases of zeros
        for weight in model.parameters():
            weight.data += 0.05 * torch.randn(weight.shape)
    model.save_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(MINILM / "tokenizer.json"), unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", mask_token="[MASK]", model_max_length=512,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return folder
