"""An encoder whose documents are kept: what a benchmark encodes beside the skills is not encoded by its second run.

Requests are not kept: their encoding is part of the time that a request takes, and a run measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.retrieve.vectors import VectorCache
from metier.types import Encoder, Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors


class KeptEncoder:
    """The encoder itself for queries; documents go through the home's vectors (float16)."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder = encoder
        self.cache = VectorCache(folder, encoder.profile)

    def __repr__(self) -> str:
        return f"KeptEncoder({self.encoder!r})"

    @property
    def profile(self) -> Profile:
        return self.encoder.profile

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """float32 (len(texts), dim)."""
        if not texts:
            return np.zeros((0, self.profile.dim), np.float32)
        return self.cache.of(texts, self.encoder) if kind == "document" else self.encoder.encode(texts, kind=kind)

    def readable(self, text: str) -> float:
        """Share of the text that the encoder can read."""
        share = getattr(self.encoder, "readable", None)
        return 1.0 if share is None else float(share(text))

    def warm(self) -> None:
        """The encoder is ready to answer without delay."""
        start = getattr(self.encoder, "warm", None)
        if start is not None:
            start()
