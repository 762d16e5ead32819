"""An index that is open: arrays mapped from a generation's folder, nothing decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metier.errors import IndexProblem
from metier.late import dataclass
from metier.retrieve.background import projected_scores
from metier.retrieve.bm25 import Bm25
from metier.retrieve.generation import REBUILD, Array, open_arrays, read_manifest, verify
from metier.retrieve.names import Names
from metier.retrieve.vectors import identity
from metier.types import Profile

if TYPE_CHECKING:
    from metier.types import Vectors


@dataclass(frozen=True, slots=True)
class Index:
    """Row i is skill i of the library it was built from."""

    folder: Path = field(repr=False)
    size: int
    """N"""
    encoder: str | None
    """Identity of the encoder (`vectors.identity`), or None where only words are indexed."""
    facts: Mapping[str, Any] = field(repr=False)
    """The manifest: counts, projection facts, view, times."""
    lexical: Bm25 = field(repr=False)
    names: Names = field(repr=False)
    manual: NDArray[np.uint8] = field(repr=False)
    """(N,) 1 where the author wants the skill found only when named (field report 9)."""
    rank: NDArray[np.int32] = field(repr=False)
    """(N,) place of the row when ids are sorted: the order of ties."""
    vectors: Vectors | None = field(repr=False)
    """(N, d) unit rows before projection; zeros where nothing could be encoded."""
    directions: Vectors | None = field(repr=False)
    """(k, d) background, both levels; None where the library or the profile has no projection."""
    coords: Vectors | None = field(repr=False)
    """(N, k)"""
    scale: NDArray[np.float32] | None = field(repr=False)
    """(N,)"""
    excluded: tuple[NDArray[np.int32], Vectors] | None = field(repr=False)
    """Rows that say what they are not for, and the vectors of that."""
    arrays: Mapping[str, Array] = field(repr=False)

    def cosines(self, query: Vectors) -> NDArray[np.float32]:
        """float32 (N,): q · d before projection."""
        if self.vectors is None:
            raise IndexProblem(f"{self.folder}: the index has no vectors; {REBUILD}")
        scores: NDArray[np.float32] = self.vectors @ query
        return scores

    def projected(self, cosines: NDArray[np.float32], query: Vectors) -> NDArray[np.float32]:
        """float32 (N,): q · P d, or the cosines where there is no projection."""
        if self.directions is None or self.coords is None or self.scale is None:
            return cosines
        return projected_scores(cosines, query, self.directions, self.coords, self.scale)

    def projected_rows(
        self, rows: NDArray[np.int64], cosines: NDArray[np.float64], query: Vectors
    ) -> NDArray[np.float64]:
        """float64: `projected` for some rows only."""
        if self.directions is None or self.coords is None or self.scale is None:
            return cosines
        scores: NDArray[np.float64] = projected_scores(
            cosines, query.astype(np.float64), self.directions, self.coords[rows].astype(np.float64), self.scale[rows]
        )
        return scores


def load(folder: Path, *, profile: Profile | None = None, check: bool = False) -> Index:
    """The index in `folder`, mapped. `profile`: the encoder it must have been made by; `check`: read every byte.

    Raises IndexProblem when it is missing, cut, damaged, of another format or another encoder's.
    """
    facts = read_manifest(folder)
    made_by = facts["encoder"]
    if profile is not None and made_by is not None and made_by != identity(profile):
        raise IndexProblem(
            f"{folder}: the index was made by encoder {made_by}, the configured one is {identity(profile)}; "
            "run: metier index"
        )
    if check:
        verify(folder)
    a = open_arrays(folder, facts)
    try:
        return _opened(folder, facts, a)
    except KeyError as error:
        raise IndexProblem(f"{folder}: the index lacks {error}; {REBUILD}") from error


def _opened(folder: Path, facts: Mapping[str, Any], a: Mapping[str, Array]) -> Index:
    lexical = Bm25(
        a["bm25-hashes"], a["bm25-starts"], a["bm25-docs"], a["bm25-impact"], a["bm25-plain"], a["bm25-plain-row"],
        facts["skills"],
    )  # fmt: skip
    names = Names(a["name-hashes"], a["name-rows"], a["name-text"], a["name-ends"], a["name-sorted-rows"])
    return Index(
        folder=folder,
        size=facts["skills"],
        encoder=facts["encoder"],
        facts=facts,
        lexical=lexical,
        names=names,
        manual=a["manual"],
        rank=a["rank"],
        vectors=a.get("vectors"),
        directions=a.get("directions"),
        coords=a.get("coords"),
        scale=a.get("scale"),
        excluded=(a["excluded-rows"], a["excluded-vectors"]) if "excluded-rows" in a else None,
        arrays=a,
    )
