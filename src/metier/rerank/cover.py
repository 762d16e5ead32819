"""Requests with several needs: a few skills that together cover most of them (SKALOS, methods 2.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 3
"""Skills in a cover, at most (methods 2.5)."""
LOOKED_AT = 10
"""Candidates, best first, that may join a cover: further down, words match by chance."""
MET = 0.5
"""Branch from which a requirement counts as met by a member of a cover."""
NEW = 2
"""Requirements that a further member must add; one alone is matched by chance too often [ours]."""


def cover(
    values: NDArray[np.float64], best_first: Sequence[int], alike: Sequence[Sequence[int]] = ()
) -> tuple[int, ...]:
    """Indices of at most `MOST` skills that greedily meet most requirements; empty when the first one does alone.

    `values` is (skills, requirements). The first candidate is always the first member; two look-alikes never both join.
    """
    pool = list(best_first[:LOOKED_AT])
    if not pool:
        return ()
    family = {m: n for n, group in enumerate(alike) for m in group}
    met = values >= MET
    chosen = [pool[0]]
    have = met[pool[0]].copy()
    while len(chosen) < MOST and not have.all():
        taken = {family[m] for m in chosen if m in family}
        open_ = [m for m in pool if m not in chosen and family.get(m) not in taken]
        if not open_:
            break
        best = max(open_, key=lambda m: (int((met[m] & ~have).sum()), -pool.index(m)))
        if int((met[best] & ~have).sum()) < NEW:
            break
        chosen.append(best)
        have |= met[best]
    return tuple(chosen) if len(chosen) > 1 else ()
