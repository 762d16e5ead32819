"""Opens an encoder by its name, and remembers what was encoded lately.

minilm             the encoder that metier brings along (default)
metier-small       the same network, tuned on requests for skills (docs/decisions/0080-metier-small.md)
hash               hashed words: no model at all, for tests and demonstrations
FOLDER             model.onnx, tokenizer.json and profile.json, as `metier train` writes them
st:NAME            sentence-transformers, a local path or hub name
openai:MODEL@URL   an OpenAI-compatible /v1/embeddings endpoint (@URL may be left out)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.errors import ConfigError
from metier.hashing import blake2b
from metier.types import Encoder, Kind, Profile

if TYPE_CHECKING:
    from metier.types import Vectors

DATA = Path(__file__).parent / "data"
MINILM = DATA / "minilm"
BUNDLED = {"minilm": MINILM, "metier-small": DATA / "metier-small"}
REMEMBERED = 4096
"""Vectors a memo keeps: 6 MB at 384 dimensions, and every phrase of a few hundred requests."""


def open_encoder(spec: str = "minilm") -> Encoder:
    """The encoder that `spec` names; nothing heavy is loaded before its first use, but for `st:`.

    Raises `ConfigError` for a spec of no known form, `EncoderError` for a model that cannot be opened, and
    `MissingExtra` where its library is not installed.
    """
    scheme, _, rest = spec.partition(":")
    if spec in BUNDLED:
        from metier.models.onnx import OnnxEncoder

        return OnnxEncoder(BUNDLED[spec])
    if spec == "hash":
        from metier.models.replay import HashEncoder

        return HashEncoder()
    if scheme == "st" and rest:
        from metier.models.hub import SentenceTransformerEncoder

        return SentenceTransformerEncoder(rest)
    if scheme == "openai" and rest:
        from metier.models.endpoint import OpenAIEncoder

        model, _, url = rest.partition("@")
        return OpenAIEncoder(model, url)
    folder = expanded(spec)
    if spec and folder.is_dir():
        from metier.models.onnx import OnnxEncoder

        return OnnxEncoder(folder)
    raise ConfigError(
        f"encoder {spec!r}: no such folder, nor a known name; use minilm, hash, a folder with model.onnx, "
        "st:NAME or openai:MODEL@URL, or metier-small."
    )


def expanded(path: str) -> Path:
    """The path with `~` and `~name` resolved. Raises `ConfigError` for a home that does not exist."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        who = path.partition("/")[0]
        raise ConfigError(
            f"encoder {path!r}: there is no home folder for {who!r} here; write the folder's whole path"
        ) from error


class Memo:
    """An encoder that answers from memory what it was asked lately; safe to share between threads."""

    def __init__(self, encoder: Encoder, size: int = REMEMBERED) -> None:
        self.encoder = encoder
        self.size = size
        self._rows: OrderedDict[tuple[Kind, bytes], Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Memo({self.encoder!r}, {self.size})"

    @property
    def profile(self) -> Profile:
        return self.encoder.profile

    def encode(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """As the encoder itself; each distinct text is encoded once while it is remembered.

        A call with more texts than the memo holds passes through: it would push everything out and never be asked
        again (vectors of skills are kept in files).
        """
        if len(texts) > self.size:
            return self.encoder.encode(texts, kind=kind)
        keys = [(kind, _key(text)) for text in texts]
        with self._lock:
            found = {key: self._rows[key] for key in keys if key in self._rows}
            for key in found:
                self._rows.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            rows = self.encoder.encode(list(missing.values()), kind=kind)
            found.update(zip(missing, rows.copy(), strict=True))
            with self._lock:
                self._rows.update((key, found[key]) for key in missing)
                while len(self._rows) > self.size:
                    self._rows.popitem(last=False)
        vectors = np.empty((len(texts), self.profile.dim), np.float32)
        for i, key in enumerate(keys):
            vectors[i] = found[key]
        return vectors

    def readable(self, text: str) -> float:
        """Share of the text that the encoder can read, 0..1 (methods 1.13); 1 for an encoder that cannot tell."""
        return readable(self.encoder, text)

    def warm(self) -> None:
        """The encoder is ready to answer without delay."""
        start = getattr(self.encoder, "warm", None)
        if start is not None:
            start()


def memo(encoder: Encoder, size: int = REMEMBERED) -> Memo:
    """The encoder with a memory of its last `size` vectors, keyed by (kind, text)."""
    return encoder if isinstance(encoder, Memo) else Memo(encoder, size)


def readable(encoder: Encoder, text: str) -> float:
    """Share of the text that the encoder can read, 0..1 (methods 1.13); 1 for an encoder that cannot tell."""
    share = getattr(encoder, "readable", None)
    return 1.0 if share is None else float(share(text))


def _key(text: str) -> bytes:
    """16 bytes that stand for a text of any length."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
