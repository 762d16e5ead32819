"""Fits the rule of methods 1.13 for one encoder on one half of everything, and measures it on the other.

    python benchmarks/abstain.py --skills POOL.jsonl.xz --skills GOLD.jsonl … --folders examples/skills \
        --needless training/needless.jsonl --needless training/needless-2.jsonl \
        --needed training/needed.jsonl --needed training/requests-0.jsonl … --requests DEV.jsonl … \
        [--home HOME] [--encoder minilm] [--write]

Every request is asked of libraries of 15, 50, 500, 2,000 and all skills; a request that needs a skill always finds its
gold in the library. Halves are split by position within each file. `--write` refits on everything and puts the judge
into src/metier/retrieve/data/judges.json; the figures printed and kept are those of the untouched halves.
"""

from __future__ import annotations

import base64
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, keep
from metier.assemble import settings
from metier.evaluate.datasets import lines
from metier.evaluate.run import known_as
from metier.library.read import body
from metier.library.scan import scan
from metier.models.encoder import open_encoder
from metier.retrieve.abstain import JUDGES, READABLE_SHARE, WORDS_COUNTED
from metier.retrieve.index import build, load
from metier.retrieve.vectors import VectorCache, identity
from metier.text import words
from metier.types import Encoder

SIZES = (15, 50, 500, 2000, 0)
"""Library sizes; 0: all."""
DRAWS = 3
FALSE_SHARE = 0.015
"""Requests that need a skill and get none, on the rows that set the threshold: 2% is allowed on others."""
RIDGE = 0.1
"""Weight of ‖w‖²; of 0.03, 0.1, 0.3 and 1 the best on held-out halves (decision 0033)."""
SHARES = {"needless": 1.0, "needed": 1.0, "requests": 0.8}
"""Weight of each side and kind in the fit, whatever the number of its rows."""
TRAINING_ROWS = 1200


@dataclass
class Set:
    """Requests of one file."""

    name: str
    kind: str
    texts: list[str]
    gold: list[list[int]]
    groups: list[str]
    vectors: Any
    cosines: Any
    half: Any

    def best(self, columns: Any) -> Any:
        """Best cosine among these skills and the request's own gold."""
        found = self.cosines[:, columns].max(axis=1)
        if self.kind != "needless":
            own = np.array([self.cosines[row, gold].max() for row, gold in enumerate(self.gold)])
            found = np.maximum(found, own)
        return found


def features(part: Set, best: Any, size: int) -> Any:
    """(n, d + 4): the vector, best cosine, words, ln N, 1; scaled so that the ridge weighs on the vector alone."""
    counted = np.log1p(np.minimum([len(words(text)) for text in part.texts], WORDS_COUNTED))
    rest = np.column_stack([best, counted, np.full(len(best), math.log(size)), np.ones(len(best))])
    return np.hstack([part.vectors, rest]).astype(np.float64)


def logistic(x: Any, y: Any, weight: Any, dim: int) -> Any:
    """Weights of a ridge logistic regression by Newton steps; the last columns are not shrunk."""
    b, ridge = np.zeros(x.shape[1]), np.full(x.shape[1], RIDGE)
    ridge[dim:] = 1e-6
    for _ in range(40):
        p = 1 / (1 + np.exp(-np.clip(x @ b, -30, 30)))
        step = np.linalg.solve((x * (weight * p * (1 - p) + 1e-9)[:, None]).T @ x + np.diag(ridge),
                               x.T @ (weight * (p - y)) + ridge * b)  # fmt: skip
        b -= step
        if np.abs(step).max() < 1e-7:
            break
    return b


def fitted(sets: list[Set], tables: dict[tuple[str, int], Any], rows: str) -> Any:
    """The weights from one half (`fit`) or from everything (`all`); the threshold is in the bias."""
    xs, ys, ws = [], [], []
    kinds = {kind: sum(s.kind == kind for s in sets) for kind in SHARES}
    for part in sets:
        keep = part.half if rows == "fit" else np.ones(len(part.half), bool)
        for size in SIZES:
            x = tables[part.name, size][keep]
            xs.append(x)
            ys.append(np.full(len(x), float(part.kind != "needless")))
            share = SHARES[part.kind] / kinds[part.kind]
            ws.append(np.full(len(x), 300 * share / (len(x) * len(SIZES))))
    return logistic(np.concatenate(xs), np.concatenate(ys), np.concatenate(ws), sets[0].vectors.shape[1])


def threshold(sets: list[Set], tables: dict[tuple[str, int], Any], rows: str) -> float:
    """Score that 2% of requests with gold fall short of, by five folds: never on a row that was fitted."""
    scores = []
    for fold in range(5):
        kept = []
        for part in sets:
            inside = part.half if rows == "fit" else np.ones(len(part.half), bool)
            out = np.zeros(len(part.half), bool)
            out[np.flatnonzero(inside)[fold::5]] = True
            kept.append((part, part.half, out))
            part.half = inside & ~out
        b = fitted(sets, tables, "fit")
        for part, half, out in kept:
            part.half = half
            if part.kind != "needless":
                share = len(part.texts) / sum(len(s.texts) for s in sets if s.kind != "needless")
                scores += [(value, share / (out.sum() * len(SIZES))) for size in SIZES
                           for value in (tables[part.name, size][out] @ b).tolist()]  # fmt: skip
    scores.sort()
    total, seen = sum(w for _, w in scores), 0.0
    for value, w in scores:
        seen += w
        if seen > FALSE_SHARE * total:
            return float(value)
    return 0.0


def library_vectors(paths: list[Path], folder: Path, encoder: Encoder, vectors: Path) -> tuple[Any, ...]:
    """Name → row, the skills' vectors, and which rows lie in `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        spool = Path(scratch, "spool")
        library = scan([*paths, folder], spool=spool)
        made = build(
            library.skills,
            lambda skill: body(skill, spool=spool),
            encoder,
            into=Path(scratch, "index"),
            vectors=vectors,
        )
        dense = np.array(load(made.folder).vectors)
    row: dict[str, int] = {}
    for n, skill in enumerate(library.skills):
        for name in (*known_as(skill), *([skill.name] if Path(skill.root) == folder.resolve() else [])):
            row.setdefault(name, n)
    return row, dense, np.array([Path(skill.root) == folder.resolve() for skill in library.skills])


def read_set(path: Path, kind: str, row: Mapping[str, int], encoder: Encoder, cache: VectorCache, dense: Any) -> Set:
    """The readable requests of a file, those with gold in the library, thinned evenly to `TRAINING_ROWS`."""
    readable = getattr(encoder, "readable", lambda text: 1.0)
    rows: list[tuple[str, list[int], str]] = []
    for _, value in lines(path):
        names = value.get("gold") or [value.get("skill")]
        gold = [row[name] for name in names if name in row]
        if readable(value["text"]) >= READABLE_SHARE and (gold or kind == "needless"):
            rows.append((value["text"], gold, value.get("kind", value.get("dataset", ""))))
    step = max(1.0, len(rows) / TRAINING_ROWS)
    rows = [rows[int(n * step)] for n in range(int(len(rows) / step))]
    texts = [text for text, _, _ in rows]
    vectors = cache.of(texts, encoder, kind="query")
    half = np.arange(len(rows)) % 2 == 0
    return Set(
        path.name, kind, texts, [g for _, g, _ in rows], [k for _, _, k in rows], vectors, vectors @ dense.T, half
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--needless", action="append", type=Path, required=True)
    parser.add_argument("--needed", action="append", type=Path, required=True)
    parser.add_argument("--folders", type=Path, required=True, help="a folder of skills that is in every library")
    parser.add_argument("--write", action="store_true", help="put the judge, fitted on everything, into the package")
    args = parser.parse_args()
    began, encoder = time.perf_counter(), open_encoder(args.encoder)
    config, _ = settings.load(flags={"home": args.home, "encoder": args.encoder})
    vectors = Path(config.home) / "vectors"
    row, dense, inside = library_vectors(args.skills, args.folders, encoder, vectors)
    cache = VectorCache(vectors, encoder.profile)
    sets = [
        read_set(path, kind, row, encoder, cache, dense)
        for kind, paths in (("needless", args.needless), ("needed", args.needed), ("requests", args.requests))
        for path in paths
    ]
    tables, cosine_only = {}, {}
    for part in sets:
        for size in SIZES:
            draws = [_columns(inside, size, seed) for seed in range(DRAWS if size not in (0, 15) else 1)]
            best = np.mean([part.best(columns) for columns in draws], axis=0)
            tables[part.name, size] = features(part, best, len(draws[0]))
            cosine_only[part.name, size] = best
    b = fitted(sets, tables, "fit")
    cut = threshold(sets, tables, "fit")
    table = _report(sets, tables, b, cut)
    floor = _cosine_alone(sets, cosine_only)
    for line in (*table, *floor):
        sys.stdout.write(json.dumps(line) + "\n")
    if args.write:
        final, edge = fitted(sets, tables, "all"), threshold(sets, tables, "all")
        dim = encoder.profile.dim
        known = json.loads(JUDGES.read_text(encoding="utf-8")) if JUDGES.exists() else {}
        known[identity(encoder.profile)] = {
            "topic": base64.b64encode(final[:dim].astype("<f2").tobytes()).decode("ascii"),
            "cosine": round(final[dim], 4), "words": round(final[dim + 1], 4), "size": round(final[dim + 2], 4),
            "bias": round(final[dim + 3] - edge, 4),
        }  # fmt: skip
        JUDGES.parent.mkdir(exist_ok=True)
        JUDGES.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    result = {
        "encoder": identity(encoder.profile),
        "rows": {part.name: len(part.texts) for part in sets},
        "held_out": table,
        "cosine_alone": floor,
    }
    keep("abstain", args, began, result)


def _columns(inside: Any, size: int, seed: int) -> Any:
    """The skills of one library: the folder's, and as many of the others as make up `size`."""
    folder, pool = np.flatnonzero(inside), np.flatnonzero(~inside)
    if size == 0:
        return np.arange(len(inside))
    drawn = np.random.default_rng(seed).choice(pool, max(0, size - len(folder)), replace=False)
    return np.concatenate([drawn, folder])


def _report(sets: list[Set], tables: dict[tuple[str, int], Any], b: Any, cut: float) -> list[dict[str, Any]]:
    lines = []
    for size in SIZES:
        line: dict[str, Any] = {"size": size or "all"}
        real, none, kinds = [], [], []
        for part in sets:
            scores = (tables[part.name, size] @ b)[~part.half] - cut
            if part.kind == "needless":
                none.append(scores)
                kinds += [group for group, half in zip(part.groups, part.half, strict=True) if not half]
            else:
                real.append(scores)
                line[f"false_abstentions {part.name}"] = round(100 * float((scores < 0).mean()), 1)
        empty = np.concatenate(none)
        line["false_abstentions"] = round(100 * float((np.concatenate(real) < 0).mean()), 2)
        line["answered"] = round(100 * float((empty >= 0).mean()), 2)
        for kind in dict.fromkeys(kinds):
            line[f"answered {kind}"] = round(100 * float((empty[np.array(kinds) == kind] >= 0).mean()), 1)
        lines.append(line)
    return lines


def _cosine_alone(sets: list[Set], best: dict[tuple[str, int], Any]) -> list[dict[str, Any]]:
    """What a floor on the cosine could do, fitted on one half, measured on the other."""
    lines = []
    for size in SIZES:
        fit = np.concatenate([best[s.name, size][s.half] for s in sets if s.kind != "needless"])
        floor = float(np.quantile(fit, FALSE_SHARE))
        none = np.concatenate([best[s.name, size][~s.half] for s in sets if s.kind == "needless"])
        real = np.concatenate([best[s.name, size][~s.half] for s in sets if s.kind != "needless"])
        lines.append({"size": size or "all", "cosine_floor": round(floor, 3),
                      "answered": round(100 * float((none >= floor).mean()), 2),
                      "false_abstentions": round(100 * float((real < floor).mean()), 2)})  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
