"""From pairs to what a training run reads: documents with their views, groups, hard negatives, and the held-out part.

A document is read as the index makes its vector, the unit mean of card and body, so that what is trained is what is
ranked; for requests taken from the card (weak pairs) it is the body alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metier.errors import InputError
from metier.models import negatives, pairs
from metier.models.learner import Corpus, Example
from metier.models.pairs import Pair
from metier.text import words
from metier.types import Encoder

if TYPE_CHECKING:
    from metier.types import Vectors

HELD_OUT = 0.06
"""Share of the groups with written requests kept aside to stop early: about 130 requests of 2,160."""

Lexical = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[int]]]
"""(documents, requests) → the best rows per request by words, best first."""


@dataclass(frozen=True, slots=True)
class Known:
    """A skill that may be the answer or a negative."""

    id: str
    name: str
    description: str
    body: str
    also: tuple[tuple[str, ...], ...] = ()
    """Further readings, such as card and body in another notation."""

    @property
    def views(self) -> tuple[str, ...]:
        """Body, card, whole; one text where they do not differ."""
        card = f"{self.name}: {self.description}" if self.description else self.name
        whole = f"{card}\n\n{self.body}".strip()
        return tuple(dict.fromkeys(v for v in (self.body.strip(), card, whole) if v))

    @property
    def readings(self) -> tuple[tuple[str, ...], ...]:
        """Body alone, then card and body, then `also`; see `Corpus`."""
        views = self.views
        return (views[:1], (views[1], views[0]), *self.also) if len(views) > 1 else (views, *self.also)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything a run reads."""

    corpus: Corpus
    examples: list[Example]
    held_out: list[Example]
    sources: Mapping[str, int]
    """Training pairs by source."""
    untaught: int
    """Pairs left out because their skill is not known or means the same as a held-out one."""


def near(candidates: Sequence[Known], forbidden: Sequence[Known], vectors: tuple[Vectors, Vectors] | None) -> set[str]:
    """Ids of the candidates that are, by name, trigram Jaccard > 0.6 or cosine > 0.92, one of the forbidden (1.15)."""
    names = {" ".join(words(f.name)) for f in forbidden}
    grams = [pairs.trigrams(f.body) for f in forbidden]
    found = set()
    for row, one in enumerate(candidates):
        own = pairs.trigrams(one.body)
        alike = " ".join(words(one.name)) in names or any(
            pairs.jaccard(own, other) > pairs.SAME_TEXT for other in grams if own and not own.isdisjoint(other)
        )
        if not alike and vectors is not None:
            alike = bool((vectors[1] @ vectors[0][row] > pairs.SAME_VECTOR).any())
        if alike:
            found.add(one.id)
    return found


def prepare(
    known: Sequence[Known],
    asked: Sequence[Pair],
    encoder: Encoder,
    lexical: Lexical | None,
    *,
    vectors: Vectors | None = None,
    seed: int = 0,
    share: float = HELD_OUT,
) -> Prepared:
    """The training and held-out examples. `vectors` are the documents' where they were encoded before.

    Held out are whole groups of skills with written requests or concepts; weak pairs are never held out.
    Raises `InputError` when no pair's skill is known.
    """
    place = {one.id: row for row, one in enumerate(known)}
    usable = [pair for pair in asked if pair.skill in place]
    if not usable:
        raise InputError(f"train: none of the {len(asked)} pairs names one of the {len(known)} skills; check the ids")
    if vectors is None:
        vectors = encoder.encode([one.views[-1] for one in known], kind="document")
    marks = pairs.groups([k.name for k in known], [k.body for k in known], vectors)
    held_groups = _held(usable, place, marks, seed, share)
    gold = [place[pair.skill] for pair in usable]
    requests = encoder.encode([pair.request for pair in usable], kind="query")
    ranked = lexical([k.views[-1] for k in known], [pair.request for pair in usable]) if lexical is not None else None
    mined = negatives.mine(gold, marks, requests, vectors, None if ranked is None else (lambda i: ranked[i]), seed=seed)
    examples: list[Example] = []
    held_out: list[Example] = []
    counts: dict[str, int] = {}
    dropped = len(asked) - len(usable)
    for pair, row, hard in zip(usable, gold, mined, strict=True):
        also = tuple(place[other] for other in pair.also if other in place)
        answers = {marks[n] for n in also}
        hard = tuple(n for n in hard if marks[n] not in answers)
        if marks[row] in held_groups:
            if pair.source == "weak":
                dropped += 1
            else:
                few = hard[:: negatives.EACH]  # one a kind: scored often
                held_out.append(Example(pair.request, row, few, also=also))
            continue
        if any(marks[n] in held_groups for n in also):
            dropped += 1
            continue
        fair = tuple(n for n in hard if marks[n] not in held_groups)
        examples.append(Example(pair.request, row, fair, body_only=pair.source == "weak", also=also))
        counts[pair.source] = counts.get(pair.source, 0) + 1
    corpus = Corpus([one.readings for one in known], marks)
    return Prepared(corpus, examples, held_out, counts, dropped)


def _held(usable: Sequence[Pair], place: Mapping[str, int], marks: Sequence[int], seed: int, share: float) -> set[int]:
    written = sorted({marks[place[pair.skill]] for pair in usable if pair.source != "weak"})
    if not written:  # only weak pairs: they are all there is to stop by
        written = sorted({marks[place[pair.skill]] for pair in usable})
    count = max(1, round(share * len(written)))
    return {written[i] for i in np.random.default_rng((seed, 2)).permutation(len(written))[:count].tolist()}
