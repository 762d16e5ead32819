"""A folder with a model carries in `profile.json` what belongs to it alone: prefixes, length, and all that was fitted.

Models that live on a hub or behind an endpoint get theirs from `recipes.py`, by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from metier.errors import EncoderError
from metier.hashing import sha256
from metier.late import dataclass
from metier.types import Profile


@dataclass(frozen=True, slots=True)
class Network:
    """The shape of an exported BERT that its weights do not tell."""

    layers: int
    heads: int
    epsilon: float
    pieces: str = ""
    """Size and CRC-32 of `pieces.tsv`: an edited vocabulary ranks worse and says nothing. Empty: not checked."""


def read_profile(folder: Path) -> tuple[Profile, Network | None]:
    """The profile of an encoder folder, and its network when our own export made it.

    Unknown keys are an error: a misspelt `projection` would silently change every ranking.
    """
    path = folder / "profile.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EncoderError(
            f"{path} is missing; make the folder with `metier train`, or write one with at least "
            '{"name": "…", "dim": 384, "max_tokens": 256}.'
        ) from None
    except ValueError as error:
        raise EncoderError(f"{path}: not JSON ({error}); restore it or export the encoder again.") from error
    if not isinstance(raw, dict):
        raise EncoderError(f"{path}: must be one JSON object, not {type(raw).__name__}; export the encoder again.")
    network = raw.pop("network", None)
    known = set(Profile.__slots__)
    if wrong := sorted(set(raw) - known):
        raise EncoderError(f"{path}: unknown key {wrong[0]!r}; known are {', '.join(sorted(known))}, network.")
    try:
        profile = Profile(**{key: _frozen(value) for key, value in raw.items()})
        return _checked(profile, path), None if network is None else Network(**network)
    except TypeError as error:
        raise EncoderError(f"{path}: {error}; name, dim and max_tokens are required.") from error


def write_profile(folder: Path, profile: Profile, network: Network | None = None) -> None:
    """`profile.json` in `folder` reads back as the same profile and network, with the mark of the pieces there."""
    value: dict[str, Any] = asdict(profile)
    if network is not None:
        pieces = folder / "pieces.tsv"
        value["network"] = {**asdict(network), "pieces": mark(pieces.read_bytes()) if pieces.is_file() else ""}
    (folder / "profile.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def folder_digest(folder: Path, profile: Profile) -> str:
    """Eight hex digits over all that decides a vector: weights, tokenizer, length and prefixes (nothing fitted)."""
    digest = sha256()
    for name in ("model.onnx", "tokenizer.json"):
        digest.update(sha256((folder / name).read_bytes()).digest())
    digest.update(f"{profile.max_tokens}\0{profile.query_prefix}\0{profile.document_prefix}".encode())
    return digest.hexdigest()[:8]


def mark(pieces: bytes) -> str:
    """`size:crc32`, 0.14 ms for 30,000 pieces where sha256 takes 0.76; who means harm can edit the profile as well."""
    import zlib

    return f"{len(pieces)}:{zlib.crc32(pieces):08x}"


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _checked(profile: Profile, path: Path) -> Profile:
    wanted: Mapping[str, bool] = {
        "name must be text": isinstance(profile.name, str) and bool(profile.name),
        "dim must be a whole number above 0": isinstance(profile.dim, int) and profile.dim > 0,
        "max_tokens must be a whole number above 2": isinstance(profile.max_tokens, int) and profile.max_tokens > 2,
        "alpha must lie in [0, 1]": isinstance(profile.alpha, (int, float)) and 0 <= profile.alpha <= 1,
        "phi must be [centre, width above 0]": _pairs((profile.phi,)) and profile.phi[1] > 0,
        "floor must be ascending [size, cosine] pairs": _pairs(profile.floor) and _ascending(profile.floor),
        "projection must be ascending [size, k1] pairs": _pairs(profile.projection) and _ascending(profile.projection),
    }
    for demand, met in wanted.items():
        if not met:
            raise EncoderError(f"{path}: {demand}; correct it or export the encoder again.")
    return profile


def _pairs(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, (int, float)) for x in pair) for pair in value
    )


def _ascending(pairs: tuple[tuple[int, float], ...]) -> bool:
    return all(a[0] < b[0] for a, b in pairwise(pairs))
