"""The tables of benchmarks/README.md, from a result file: what stands there can be made again.

python benchmarks/tables.py benchmarks/results/ablation-<sha12>.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metier.evaluate.report import (
    ablation_table,
    additivity_table,
    diagnosis_markdown,
    difference,
    sweep_sections,
    table,
)


def tables(found: Mapping[str, Any]) -> list[str]:
    """Markdown pieces for whatever the result file holds."""
    parts = []
    if "ablation" in found:
        parts += ["## Module by module", ablation_table(found["ablation"])]
        parts += [f"On {' + '.join(b['base'])}:\n\n{additivity_table(b)}" for b in found["modules_alone_and_last"]]
    for encoder, kinds in found.get("sweeps", {}).items():
        for kind, made in kinds.items():
            parts += [f"# Sweeps, {encoder}, {kind}", *sweep_sections(made)]
    parts += [diagnosis_markdown(made) for made in found.get("diagnosis", {}).values()]
    for channel, rows in found.get("directions", {}).items():
        cells = [[r["projection"], f"{r['mrr@10']:.1f}", difference(r["against_base"])] for r in rows]
        parts += [f"## Directions, {channel}", table(["projection", "MRR@10", "against none"], cells)]
    simple = {
        "query_expansion_by_background": ("background", "against_base"),
        "mean_request": ("w_d", "against_base"),
        "shared_component": ("toward", "against_base"),
    }
    for name, (first, gain) in simple.items():
        if found.get(name):
            cells = [[str(r[first]), f"{r['mrr@10']:.1f}", difference(r[gain])] for r in found[name]]
            parts += [f"## {name.replace('_', ' ')}", table([first, "MRR@10", "difference"], cells)]
    for channel in ("dense", "fused"):
        if channel in found.get("supplied_words", {}):
            rows = found["supplied_words"][channel]
            cells = [[r["drafts"], f"{r['mrr@10']:.1f}", difference(r["against_whole"])] for r in rows]
            about = found["supplied_words"]
            parts += [
                f"## Supplied words, {channel}: {about['requests']} requests, {about['words_deleted_a_draft']} a draft",
                table(["hypothetical skills", "MRR@10", "against whole"], cells),
            ]
    if found.get("padding"):
        ways = [w for w in found["padding"]["levels"][0] if w != "sections"]
        cells = [
            [str(r["sections"]), *(f"{r[w]['mrr@10']:.1f} ({difference(r[w]['against_unpadded'])})" for w in ways)]
            for r in found["padding"]["levels"]
        ]
        parts += [f"## Padding, {found['padding']['requests']} requests", table(["foreign sections", *ways], cells)]
    if found.get("tiers"):
        cells = [
            [
                r["ranked by"], f"{r['easy']['mrr@10']:.1f}", f"{r['hard']['mrr@10']:.1f}",
                difference(r["hard_minus_easy"]), f"{r['easy']['hit@1']:.1f}", f"{r['hard']['hit@1']:.1f}",
                f"{r['easy']['r@10']:.1f}", f"{r['hard']['r@10']:.1f}",
            ]
            for r in found["tiers"]["rows"]
        ]  # fmt: skip
        about = found["tiers"]
        parts += [
            f"## Tiers: {about['requests']} requests, {about['copies']} copies of {about['gold_with_copies']} skills",
            table(["", "MRR@10 easy", "hard", "difference", "Hit@1 easy", "hard", "R@10 easy", "hard"], cells),
        ]
    return parts


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(tables(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))) + "\n")
