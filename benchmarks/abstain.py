"""Fits the judge of methods 1.13 for one encoder on one half of what was written, and measures it on the other.

    python benchmarks/abstain.py --skills POOL.jsonl.xz --skills GOLD.jsonl … --folders examples/skills \
        --needless training/needless.jsonl … --needed training/needed.jsonl … --concepts training/concepts.jsonl … \
        --requests DEV.jsonl … [--home HOME] [--encoder minilm] [--write]

Every message is asked of libraries of 15, 50, 500, 2,000 and all skills; a request that needs a skill always finds its
gold in the library. Halves are split by position within each file; the development requests are measured and never
learnt from. The judge that the package ships is measured first, on all rows: on files written since, that is a fair
test of it. `--write` refits on everything written and puts the judge into src/metier/retrieve/data/judges.json; beside
the halves it then keeps what each row got from the four fifths that it was not in. Takes minutes on one processor.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, keep
from judging import Rows, described, fit, scores
from metier.assemble import settings
from metier.evaluate.datasets import lines
from metier.evaluate.run import known_as
from metier.library.read import body
from metier.library.scan import scan
from metier.models.encoder import open_encoder
from metier.retrieve.abstain import CLEAR, JUDGES, READABLE_SHARE, Judge, floor_at, judge_of, packed
from metier.retrieve.index import build, load
from metier.retrieve.vectors import VectorCache, identity, unit
from metier.types import Encoder

SIZES = (15, 50, 500, 2000, 0)
"""Library sizes; 0: all."""
DRAWS = 3
FOLDS = 5
ANSWERED = 0.045
"""Needless messages that are answered, by rows that were not fitted: 5% is allowed (methods 1.13)."""
FALSE_SHARE = 0.015
"""Of requests, for the floor on the cosine that the judge is compared with."""
SHORT_WEIGHT, CONCEPT_WEIGHT = 3.0, 0.5
"""A short command weighs thrice: there are fewer than of long requests, and people type more of them [ours]."""
TRAINING_ROWS = 1500
SHORT = ("short.jsonl", "short-2.jsonl")


@dataclass
class Set:
    """Messages of one file."""

    name: str
    kind: str
    texts: list[str]
    groups: list[str]
    """What kind of message each is."""
    langs: list[str]
    rows: Rows

    @property
    def half(self) -> Any:
        """Which rows are fitted: every other one; of development data none."""
        return np.arange(len(self.texts)) % 2 == (0 if self.kind != "requests" else 2)


@dataclass(frozen=True)
class Shelves:
    """The libraries that are asked."""

    row: Mapping[str, int]
    dense: Any
    columns: list[Any]
    sizes: list[int]
    """Skills in each."""
    of: list[int]
    """Which of SIZES each is a draw of."""

    def best(self, vectors: Any, gold: list[list[int]] | None, own: Any = None) -> Any:
        """(n, libraries): best cosine among a library's skills and the request's own gold."""
        cosines = vectors @ self.dense.T
        found = np.column_stack([cosines[:, columns].max(axis=1) for columns in self.columns])
        if gold is not None:
            own = np.array([cosines[n, mine].max() for n, mine in enumerate(gold)])
        return found if own is None else np.maximum(found, own[:, None])


def shelves(paths: list[Path], folder: Path, encoder: Encoder, vectors: Path) -> Shelves:
    """All skills, encoded; the small libraries hold the folder's and as many of the others as make up their size."""
    with tempfile.TemporaryDirectory() as scratch:
        spool = Path(scratch, "spool")
        library = scan([*paths, folder], spool=spool)
        made = build(library.skills, lambda skill: body(skill, spool=spool), encoder, into=Path(scratch, "index"),
                     vectors=vectors)  # fmt: skip
        dense = np.array(load(made.folder).vectors)
    inside = np.array([Path(skill.root) == folder.resolve() for skill in library.skills])
    row: dict[str, int] = {}
    for n, skill in enumerate(library.skills):
        for name in (*known_as(skill), *([skill.name] if inside[n] else [])):
            row.setdefault(name, n)
    ours, others, columns, of = np.flatnonzero(inside), np.flatnonzero(~inside), [], []
    for place, size in enumerate(SIZES):
        for seed in range(DRAWS if size not in (0, SIZES[0]) else 1):
            drawn = np.random.default_rng(seed).choice(others, max(0, size - len(ours)), replace=False)
            columns.append(np.concatenate([drawn, ours]) if size else np.arange(len(inside)))
            of.append(place)
    return Shelves(row, dense, columns, [len(c) for c in columns], of)


def read_set(path: Path, kind: str, shelf: Shelves, encoder: Encoder, cache: VectorCache) -> Set:
    """The readable messages of a file, requests only with gold in the library, thinned evenly to `TRAINING_ROWS`."""
    readable = getattr(encoder, "readable", lambda text: 1.0)
    found: list[tuple[str, list[int], str, str]] = []
    for _, value in lines(path):
        names = value.get("gold") or value.get("skills") or [value.get("skill")]
        gold = [shelf.row[name] for name in names if name in shelf.row]
        if readable(value["text"]) >= READABLE_SHARE and (gold or kind == "needless"):
            found.append((value["text"], gold, value.get("kind", ""), value.get("lang", "en")))
    if kind != "needless":
        step = max(1.0, len(found) / TRAINING_ROWS)
        found = [found[int(n * step)] for n in range(int(len(found) / step))]
    texts = [text for text, _, _, _ in found]
    vectors = cache.of(texts, encoder, kind="query")
    cosines = shelf.best(vectors, None if kind == "needless" else [gold for _, gold, _, _ in found])
    return _set(path.name, kind, texts, vectors, cosines, [g for _, _, g, _ in found], [g for _, _, _, g in found])


def read_concepts(path: Path, shelf: Shelves, encoder: Encoder, cache: VectorCache) -> Set:
    """Problems and the note that each needs, which stands in the library as a skill of two texts would."""
    texts, own = [], []
    for _, value in lines(path):
        card = f"{value['concept']}: {value.get('use', value['concept'])}"
        note = unit(cache.of([card, value["note"]], encoder, kind="document").mean(axis=0))
        texts += value["questions"]
        own += [note] * len(value["questions"])
    vectors = cache.of(texts, encoder, kind="query")
    cosines = shelf.best(vectors, None, (vectors * np.array(own)).sum(axis=1))
    return _set(path.name, "concepts", texts, vectors, cosines, ["concept"] * len(texts), ["en"] * len(texts))


def _set(
    name: str, kind: str, texts: list[str], vectors: Any, cosines: Any, groups: list[str], langs: list[str]
) -> Set:
    written, said = described(texts)
    weight = SHORT_WEIGHT if name in SHORT else CONCEPT_WEIGHT if kind == "concepts" else 1.0
    needed, weights = np.full(len(texts), float(kind != "needless"), np.float32), np.full(len(texts), weight)
    return Set(name, kind, texts, groups, langs, Rows(vectors, cosines, written, said, needed, weights))


def joined(sets: list[Set], which: list[Any]) -> Rows:
    """The chosen rows of all sets."""
    parts = [part.rows.take(chosen) for part, chosen in zip(sets, which, strict=True)]
    return Rows(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in dataclasses.fields(Rows)))


def fitted(sets: list[Set], which: list[Any], shelf: Shelves) -> Judge:
    """A judge from these rows, every size weighing the same, without cuts."""
    shares = [1 / shelf.of.count(place) for place in shelf.of]
    return fit(joined(sets, which), shelf.sizes, shares)


def out_of_fold(sets: list[Set], which: list[Any], shelf: Shelves) -> list[Any]:
    """Scores of the chosen rows by judges that have not seen them; of development data by all of them, averaged."""
    found = [np.zeros((len(part.texts), len(shelf.sizes))) for part in sets]
    for fold in range(FOLDS):
        out = [np.zeros(len(chosen), bool) for chosen in which]
        for mask, chosen in zip(out, which, strict=True):
            mask[np.flatnonzero(chosen)[fold::FOLDS]] = True
        judge = fitted(sets, [c & ~o for c, o in zip(which, out, strict=True)], shelf)
        for part, got, mask in zip(sets, found, out, strict=True):
            every = scores(judge, part.rows, shelf.sizes)
            got[mask] = every[mask]
            if part.kind == "requests":
                got += every / FOLDS
    return found


def cuts(sets: list[Set], which: list[Any], got: list[Any], shelf: Shelves) -> tuple[tuple[int, float], ...]:
    """For each size the score that `ANSWERED` of the needless messages pass, or come so near to a skill as to pass."""
    found = []
    for place, _ in enumerate(SIZES):
        mine = [n for n, of in enumerate(shelf.of) if of == place]
        values = np.concatenate([
            np.where(part.rows.cosines[chosen][:, mine] >= CLEAR, np.inf, scored[chosen][:, mine]).ravel()
            for part, chosen, scored in zip(sets, which, got, strict=True) if part.kind == "needless"
        ])  # fmt: skip
        found.append((shelf.sizes[mine[0]], round(float(np.quantile(values, 1 - ANSWERED, method="higher")), 4)))
    return tuple(found)


def report(
    sets: list[Set], which: list[Any], got: list[Any], cut: tuple[tuple[int, float], ...], shelf: Shelves
) -> list[dict[str, Any]]:
    """By size, in per cent: needless messages answered and requests turned away, by kind of message and by file."""
    table = []
    for place, size in enumerate(SIZES):
        mine = [n for n, of in enumerate(shelf.of) if of == place]
        at = floor_at(cut, shelf.sizes[mine[0]]) or 0.0
        passed: dict[str, list[Any]] = {}
        for part, chosen, scored in zip(sets, which, got, strict=True):
            yes = ((scored[:, mine] >= at) | (part.rows.cosines[:, mine] >= CLEAR)).mean(axis=1)[chosen]
            english = np.array(part.langs)[chosen] == "en"
            if part.kind == "needless":
                passed.setdefault("answered", []).append(yes)
                passed.setdefault("answered, other language", []).append(yes[~english])
                passed.setdefault(f"answered, {part.name}", []).append(yes)
                for kind in dict.fromkeys(part.groups):
                    passed.setdefault(f"answered, {kind}", []).append(yes[np.array(part.groups)[chosen] == kind])
                continue
            passed.setdefault(f"turned away, {part.name}", []).append(1 - yes)
            if part.name in SHORT:
                passed.setdefault("turned away, short", []).append(1 - yes)
                passed.setdefault("turned away, short, other language", []).append((1 - yes)[~english])
            elif part.kind != "concepts":
                passed.setdefault("turned away, longer", []).append(1 - yes)
            if part.kind != "concepts":
                passed.setdefault("turned away", []).append(1 - yes)
        line: dict[str, Any] = {"size": size or "all"}
        for name, parts in sorted(passed.items()):
            every = np.concatenate(parts)
            if len(every):
                line[name] = round(100 * float(every.mean()), 2)
        table.append(line)
    return table


def cosine_alone(sets: list[Set], shelf: Shelves) -> list[dict[str, Any]]:
    """What a floor on the cosine could do, set on one half, measured on the other."""
    table = []
    for place, size in enumerate(SIZES):
        mine = [n for n, of in enumerate(shelf.of) if of == place]

        def best(needless: bool, half: bool, mine: list[int] = mine) -> Any:
            return np.concatenate([s.rows.cosines[s.half == half][:, mine].mean(axis=1) for s in sets
                                   if (s.kind == "needless") == needless and s.kind != "concepts"])  # fmt: skip

        floor = float(np.quantile(best(False, True), FALSE_SHARE))
        table.append({"size": size or "all", "cosine_floor": round(floor, 3),
                      "answered": round(100 * float((best(True, False) >= floor).mean()), 2),
                      "turned away": round(100 * float((best(False, False) < floor).mean()), 2)})  # fmt: skip
    return table


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--needless", action="append", type=Path, required=True)
    parser.add_argument("--needed", action="append", type=Path, required=True)
    parser.add_argument("--concepts", action="append", type=Path, default=[])
    parser.add_argument("--folders", type=Path, required=True, help="a folder of skills that is in every library")
    parser.add_argument("--write", action="store_true", help="put the judge, fitted on everything, into the package")
    args = parser.parse_args()
    began, encoder = time.perf_counter(), open_encoder(args.encoder)
    config, _ = settings.load(flags={"home": args.home, "encoder": args.encoder})
    vectors, name = Path(config.home) / "vectors", identity(encoder.profile)
    shelf = shelves(args.skills, args.folders, encoder, vectors)
    cache = VectorCache(vectors, encoder.profile)
    sets = [
        read_set(path, kind, shelf, encoder, cache)
        for kind, paths in (("needless", args.needless), ("needed", args.needed), ("requests", args.requests))
        for path in paths
    ] + [read_concepts(path, shelf, encoder, cache) for path in args.concepts]
    every = [np.ones(len(part.texts), bool) for part in sets]
    result: dict[str, Any] = {"encoder": name, "rows": {part.name: len(part.texts) for part in sets}}
    shipped = judge_of(name)
    if shipped is not None:
        got = [scores(shipped, part.rows, shelf.sizes) for part in sets]
        result["shipped_before"] = report(sets, every, got, shipped.cuts, shelf)
    halves = [part.half for part in sets]
    cut = cuts(sets, halves, out_of_fold(sets, halves, shelf), shelf)
    judge = fitted(sets, halves, shelf)
    got = [scores(judge, part.rows, shelf.sizes) for part in sets]
    result["other_half"] = report(sets, [~half for half in halves], got, cut, shelf)
    result["cosine_alone"] = cosine_alone(sets, shelf)
    if args.write:
        learnt = [mask & (part.kind != "requests") for mask, part in zip(every, sets, strict=True)]
        got = out_of_fold(sets, learnt, shelf)
        cut = cuts(sets, learnt, got, shelf)
        result["other_fold"] = report(sets, every, got, cut, shelf)
        final = dataclasses.replace(fitted(sets, learnt, shelf), cuts=cut)
        known = json.loads(JUDGES.read_text(encoding="utf-8")) if JUDGES.exists() else {}
        known[name] = packed(final)
        JUDGES.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for key in ("shipped_before", "other_half", "other_fold", "cosine_alone"):
        for line in result.get(key, []):
            sys.stdout.write(json.dumps({"of": key, **line}) + "\n")
    keep("abstain", args, began, result)


if __name__ == "__main__":
    main()
