"""What the evaluation verbs stand on: one index per encoder over the skills under test, kept in the home."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
from metier.errors import ConfigError, EncoderError, InputError
from metier.evaluate.datasets import Request, as_library
from metier.evaluate.kept import KeptEncoder
from metier.evaluate.run import Bench, Run, retrieve_all
from metier.evaluate.sweep import generic_words
from metier.evaluate.variants import generic_requests, mean_request, own_requests, read_asked
from metier.types import Encoder, Skill

if TYPE_CHECKING:
    from metier.types import Vectors

UNTUNED, TUNED = "minilm", "metier-small"


def add_what_is_tested(parser: argparse.ArgumentParser) -> None:
    """The flags that say over what, and with which encoders."""
    parser.add_argument("--skills", action="append", type=Path, required=True, metavar="FILE|DIR", help="may repeat")
    parser.add_argument("--requests", action="append", type=Path, required=True, metavar="FILE", help="may repeat")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N requests of each dataset")
    parser.add_argument("--untuned", metavar="ENCODER", help=f"the encoder without `tuned` ({UNTUNED}, or the one set)")
    parser.add_argument("--tuned", metavar="ENCODER", help=f"the encoder that `tuned` stands for ({TUNED})")
    parser.add_argument(
        "--asked", type=Path, metavar="FILE",
        help="generated requests, for document expansion: JSONL of {skill, requests}; default: toward the mean request",
    )  # fmt: skip


class Benches:
    """One index per encoder over the same skills, made when first needed."""

    def __init__(self, args: argparse.Namespace, screen: Screen) -> None:
        self.config, self.screen = args.config, screen
        copies = Path(args.config.home) / "benchmarks"
        self.paths = [as_library(p, copies) for p in args.skills]
        self.asked = None if args.asked is None else read_asked(args.asked)
        self.tuned = args.tuned or TUNED
        configured = self.config.encoder if "encoder" in self.config.sources else UNTUNED
        self.untuned = args.untuned or (UNTUNED if configured == self.tuned else configured)
        self._made: dict[str, Bench] = {}

    def has_tuned(self) -> bool:
        """Whether the tuned encoder is there."""
        from metier.models.encoder import open_encoder

        try:
            open_encoder(self.tuned)
        except (ConfigError, EncoderError):
            return False
        return True

    def bench(self, modules: Sequence[str]) -> Bench:
        """The bench of the encoder that these modules use."""
        name = self.tuned if "tuned" in modules else self.untuned
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Bench:
        shop = Workshop(replace(self.config, encoder=name), paths=self.paths, evaluating=True)
        built = shop.refresh(progress=self.screen.progress)
        opened = shop.opened()
        encoder = KeptEncoder(shop.encoder, shop.home / "vectors")
        skills = opened.library.skills
        bench = Bench(
            index=opened.index,
            skills=skills,
            encoder=encoder,
            rerank=lambda: shop.stage("rerank"),
            index_seconds=built.seconds,
            body=shop.body,
            toward=cache(lambda: self._toward(encoder, skills)),
            generic=lambda: encoder.encode(generic_words(bench), kind="document"),
        )
        return bench

    def _toward(self, encoder: Encoder, skills: Sequence[Skill]) -> Vectors:
        if self.asked is None:
            return mean_request(encoder, generic_requests())
        found = own_requests(encoder, skills, self.asked)
        if not found.any():
            raise InputError("--asked: none of its skills is in the library; its ids must be those of --skills")
        return found

    def run(self, modules: Sequence[str], requests: Sequence[Request]) -> Run:
        """Every request through the stages that the modules switch on."""
        bench = self.bench(modules)
        if bench.encoder is not None and "query-expansion" in modules:
            bench.encoder.encode([text for r in requests for text in r.hypothetical], kind="document")
        return retrieve_all(bench, requests, modules)


def limited(requests: Sequence[Request], limit: int | None) -> list[Request]:
    """The first `limit` requests of each dataset."""
    if limit is None:
        return list(requests)
    taken: dict[str, int] = {}
    kept = []
    for request in requests:
        taken[request.dataset] = taken.get(request.dataset, 0) + 1
        if taken[request.dataset] <= limit:
            kept.append(request)
    return kept
