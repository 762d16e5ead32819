"""An embeddings endpoint that speaks OpenAI's /v1/embeddings, through the official client."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metier.errors import EncoderError, MissingExtra
from metier.models.recipes import recipe_for
from metier.types import Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors

KEYS = ("METIER_EMBEDDINGS_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, first found wins; a key is never written or logged."""
BATCH = 64
"""Texts a request: well under the 2,048 inputs and 300,000 tokens that OpenAI takes, and light for local servers."""
TIMEOUT = 60.0
RETRIES = 2
"""The client's own, for refused connections, 408, 429 and 5xx."""
BYTES_PER_TOKEN = 3
"""UTF-8 bytes a token at least, nearly always: code has 3-4, English 4-5, an ideograph is 3 bytes and about a token."""
OPENAI = Profile("openai", 0, 8191, alpha=0.3)
"""OpenAI's own models; an endpoint that serves an open model gets that family's recipe instead."""


class OpenAIEncoder:
    """`model` at `base_url` as an `Encoder`; the first call (or `profile`) asks the endpoint for the dimension."""

    def __init__(self, model: str, base_url: str = "", profile: Profile | None = None) -> None:
        """Nothing is sent yet. An empty `base_url` is OpenAI's own (or $OPENAI_BASE_URL).

        Raises `MissingExtra` without the openai package and `EncoderError` where OpenAI's own endpoint has no key.
        """
        self.model, self.base_url = model, base_url
        key = next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
        if not key and not base_url and not os.environ.get("OPENAI_BASE_URL"):
            raise EncoderError(
                f"encoder 'openai:{model}': no key; set {KEYS[0]}, or name a server: openai:{model}@URL."
            )
        self._client = _client(base_url, key or "none")
        self._lock = threading.Lock()
        recipe = recipe_for(model)
        self._profile = profile or replace(recipe.profile if recipe.marks else OPENAI, dim=0, name=self._name(recipe))

    def __repr__(self) -> str:
        return f"OpenAIEncoder({self.model!r}, {self.base_url!r})"

    @property
    def profile(self) -> Profile:
        """The profile, with the dimension that the endpoint was found to answer in."""
        with self._lock:
            if not self._profile.dim:
                self._profile = replace(self._profile, dim=len(self._ask(["dimension"])[0]))
        return self._profile

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 (len(texts), dim) unit rows; a blank text is a row of zeros and is not sent.

        Raises `EncoderError` naming the endpoint and what it answered.
        """
        profile = self.profile
        prefix = profile.query_prefix if kind == "query" else profile.document_prefix
        vectors = np.zeros((len(texts), profile.dim), np.float32)
        rows = [i for i, text in enumerate(texts) if text and not text.isspace()]
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            found = self._ask([_cut(prefix + texts[i], profile.max_tokens) for i in part])
            for i, vector in zip(part, found, strict=True):
                if len(vector) != profile.dim:
                    raise EncoderError(
                        f"{self._where()}: answered {len(vector)} dimensions instead of {profile.dim}; "
                        "the server changed its model, build the index anew (`metier index --full`)."
                    )
                row = np.asarray(vector, np.float64)
                length = float(np.sqrt(row @ row))
                if not np.isfinite(length) or length == 0:
                    raise EncoderError(f"{self._where()}: answered a vector of length {length}; check the server.")
                vectors[i] = row / length
        return vectors

    def _ask(self, texts: list[str]) -> list[Sequence[float]]:
        import openai

        try:
            answer = self._client.embeddings.create(model=self.model, input=texts, encoding_format="float")
        except openai.AuthenticationError as error:
            raise EncoderError(f"{self._where()}: the key was refused; set {KEYS[0]} to a valid one.") from error
        except openai.APIStatusError as error:
            said = " ".join(error.message.split())[:300]
            raise EncoderError(
                f"{self._where()}: answered {error.status_code} ({said}); check the model's name and the server."
            ) from error
        except openai.APIConnectionError as error:
            raise EncoderError(f"{self._where()}: cannot be reached ({error.message}); is it running?") from error
        except (openai.APIError, ValueError) as error:
            raise EncoderError(f"{self._where()}: not an embeddings answer ({error}); check the URL.") from error
        rows = getattr(answer, "data", None)
        if not isinstance(rows, list) or len(rows) != len(texts):
            raise EncoderError(
                f"{self._where()}: answered {len(rows) if isinstance(rows, list) else 'no'} vectors for {len(texts)} "
                "texts; is this an /v1/embeddings endpoint?"
            )
        ordered = sorted(rows, key=lambda row: row.index)
        return [row.embedding for row in ordered]

    def _where(self) -> str:
        return f"encoder 'openai:{self.model}@{self.base_url or self._client.base_url}'"

    def _name(self, recipe: Any) -> str:
        """A name that is safe as a folder and different wherever the vectors may be."""
        same = f"{self.model}\0{self.base_url}\0{recipe.profile.query_prefix}\0{recipe.profile.document_prefix}"
        label = re.sub(r"[^a-z0-9.]+", "-", self.model.lower()).strip("-")
        return f"openai-{label}-{hashlib.sha256(same.encode()).hexdigest()[:8]}"


def _client(base_url: str, key: str) -> Any:
    try:
        import openai
    except ImportError as missing:
        raise MissingExtra("llm", "openai", "an embeddings endpoint") from missing
    return openai.OpenAI(api_key=key, base_url=base_url or None, timeout=TIMEOUT, max_retries=RETRIES)


def _cut(text: str, max_tokens: int) -> str:
    """The text without lone surrogates, cut to what surely fits the model."""
    data = text.encode("utf-8", "replace")[: max_tokens * BYTES_PER_TOKEN]
    return data.decode("utf-8", "ignore")
