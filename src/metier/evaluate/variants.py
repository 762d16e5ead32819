"""What an index would be with its documents moved or another background, in memory: the files stay as they are.

    d ← unit((1 − w_d)·d + w_d·r)      r: the mean request (rule 1.1), or the mean of the document's own (1.2)

The product's own `Retrieve` stage ranks over a variant as over any index: an ablation measures what people would get.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metier.errors import InputError
from metier.evaluate.datasets import known_as, lines
from metier.retrieve.background import Background, coordinates, enough, generic_directions, top_directions
from metier.types import Encoder, Skill

if TYPE_CHECKING:
    from metier.retrieve.opened import Index
    from metier.types import Vectors

GENERIC = Path(__file__).parent / "data" / "generic-requests.json"
"""300 requests from the project's own training folder, of all styles: what a request looks like, whatever it asks."""


@cache
def generic_requests() -> tuple[str, ...]:
    """The requests whose mean stands for all requests (rule 1.1); none of them is in a benchmark."""
    return tuple(json.loads(GENERIC.read_text(encoding="utf-8")))


def mean_request(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """float32 (d,): the mean of the requests' vectors, not of length 1. Raises `InputError` where there are none."""
    if not texts:
        raise InputError("the mean request needs at least one request that is not under test")
    vectors = encoder.encode(list(texts), kind="query").astype(np.float64)
    mean: Vectors = vectors.mean(axis=0).astype(np.float32)
    return mean


def own_requests(encoder: Encoder, skills: Sequence[Skill], asked: Mapping[str, Sequence[str]]) -> Vectors:
    """float32 (N, d): the mean vector of each skill's generated requests; zeros where it has none."""

    out = np.zeros((len(skills), encoder.profile.dim), np.float32)
    for row, skill in enumerate(skills):
        texts = next((asked[name] for name in known_as(skill) if name in asked), ())
        if texts:
            out[row] = encoder.encode(list(texts), kind="query").mean(axis=0)
    return out


def read_asked(path: Path) -> dict[str, list[str]]:
    """Skill id → requests it could be asked. Rows are `{"skill" or "id", "requests": […]}` or one `"text"` each.

    Raises `InputError` with the line of a row that is neither.
    """
    found: dict[str, list[str]] = {}
    for number, row in lines(path):
        name, texts = row.get("skill", row.get("id")), row.get("requests", row.get("text"))
        texts = [texts] if isinstance(texts, str) else texts
        if name is None or not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
            raise InputError(f'{path}:{number}: not a skill\'s requests; write {{"skill": id, "requests": [text, …]}}')
        found.setdefault(str(name), []).extend(texts)
    return found


def varied(index: Index, documents: Vectors, first: int, generic: Vectors) -> Index:
    """The index with these documents, projected by `first` directions of them and two of generic words (rule 1.4)."""
    if not enough(len(documents), first):
        return replace(index, vectors=documents, directions=None, coords=None, scale=None)
    top = top_directions(documents, first)
    none = np.zeros((0, documents.shape[1]), np.float32)
    second = generic_directions(generic, top) if len(generic) else none
    found = Background(top, second, len(documents))
    coords, scale, _ = coordinates(documents, found)
    return replace(index, vectors=documents, directions=found.all, coords=coords, scale=scale)
