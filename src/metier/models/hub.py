"""Any sentence-transformers model: a local folder or a hub name, with the prefixes and pooling of its family."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.errors import EncoderError, MissingExtra
from metier.models.recipes import Pooling, recipe_for
from metier.types import Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors

BATCH = 16
"""Texts a forward pass: enough to fill the cores, few enough for 2,048 tokens each in 4 GB."""


class SentenceTransformerEncoder:
    """A model that sentence-transformers loads, as an `Encoder` with unit float32 rows."""

    def __init__(self, model: str, profile: Profile | None = None, *, pooling: Pooling | None = None) -> None:
        """Loads `model`, safetensors only, without code from its folder or hub.

        The profile and the pooling come from the model's family unless given; a checkpoint that states its own
        pooling (modules.json) keeps it. Raises `MissingExtra` without sentence-transformers and `EncoderError` when
        the model cannot be loaded.
        """
        recipe = recipe_for(model)
        self._model = _load(model, pooling or recipe.pooling)
        wanted = profile or recipe.profile
        limit = self._model.max_seq_length
        self._model.max_seq_length = min(wanted.max_tokens, limit) if limit else wanted.max_tokens
        self.profile = replace(
            wanted,
            name=wanted.name if profile else _name(model, wanted),
            dim=int(_dim(self._model)),
            max_tokens=int(self._model.max_seq_length),
        )

    def __repr__(self) -> str:
        return f"SentenceTransformerEncoder({self.profile.name!r})"

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 (len(texts), dim) unit rows; a blank text is a row of zeros."""
        prefix = self.profile.query_prefix if kind == "query" else self.profile.document_prefix
        vectors = np.zeros((len(texts), self.profile.dim), np.float32)
        rows = [i for i, text in enumerate(texts) if text and not text.isspace()]
        if rows:
            wanted = [prefix + texts[i].encode("utf-8", "replace").decode() for i in rows]
            vectors[rows] = self._model.encode(
                wanted, batch_size=BATCH, prompt="", normalize_embeddings=True, convert_to_numpy=True,
                show_progress_bar=False,
            )  # fmt: skip
        return vectors


def _load(model: str, pooling: Pooling) -> Any:
    try:
        from sentence_transformers import SentenceTransformer

        try:
            from sentence_transformers.sentence_transformer import modules as models
        except ImportError:  # before version 5.2
            from sentence_transformers import models
    except ImportError as missing:
        raise MissingExtra("sentence-transformers", "sentence-transformers", f"the encoder 'st:{model}'") from missing
    path = _path(model)
    safe = {"use_safetensors": True}
    try:
        if not path.is_dir() or (path / "modules.json").is_file():
            name = str(path) if path.is_dir() else model
            return SentenceTransformer(name, trust_remote_code=False, model_kwargs=safe)
        body = models.Transformer(str(path), model_args={**safe, "trust_remote_code": False})
        mixed = models.Pooling(_width(body), pooling_mode=pooling)
        return SentenceTransformer(modules=[body, mixed])
    except (OSError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EncoderError(
            f"encoder 'st:{model}' cannot be loaded ({why}); "
            "give the path of a local checkpoint with safetensors, or a hub name that this machine can reach."
        ) from error


def _path(model: str) -> Path:
    """Where the model lies if it is a folder. Raises `EncoderError` for a home that does not exist."""
    try:
        return Path(model).expanduser()
    except RuntimeError as error:
        raise EncoderError(
            f"encoder 'st:{model}': there is no such home folder ({error}); write the folder's whole path"
        ) from error


def _dim(model: Any) -> Any:
    """Renamed in sentence-transformers 6; both are asked."""
    ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return ask()


def _width(body: Any) -> Any:
    ask = getattr(body, "get_embedding_dimension", None) or body.get_word_embedding_dimension
    return ask()


def _name(model: str, profile: Profile) -> str:
    """A name that is safe as a folder and different wherever the vectors may be."""
    path = _path(model)
    identity = [str(path.resolve()) if path.is_dir() else model, profile.query_prefix, profile.document_prefix]
    if path.is_dir():  # a model tuned anew under the same path is another model
        files = sorted(path.rglob("*.safetensors"))
        identity += [f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files]
    digest = hashlib.sha256("\0".join([*identity, str(profile.max_tokens)]).encode()).hexdigest()[:8]
    return f"st-{re.sub(r'[^a-z0-9.]+', '-', Path(model).name.lower()).strip('-')}-{digest}"
