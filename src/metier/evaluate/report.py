"""Retrieval's evaluation on paper: Markdown for people, JSON for programs, plots.

Every figure in the Markdown stands in the JSON beside it; differences come with their 95% intervals (methods 6.4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metier.errors import InputError, MissingExtra

METRICS = ("mrr@10", "r@10", "hit@1", "ndcg@10")
Table = Sequence[Sequence[str]]


def retrieval_report(shown: Mapping[str, Any], folder: Path, *, plots: bool = True) -> list[Path]:
    """`retrieval.md`, `retrieval.json` and, where there is something to draw, plots; the paths written.

    Raises `InputError` when the folder cannot be written, `MissingExtra` when matplotlib is missing.
    """
    drawn: dict[str, Any] = {}
    if plots:
        if shown.get("ablation"):
            drawn["ablation.png"] = lambda axes: _draw_ablation(axes, shown["ablation"])
        for name in ("alpha", "k1"):
            if shown.get("sweeps", {}).get(name):
                drawn[f"{name}.png"] = lambda axes, name=name: _draw_line(axes, shown["sweeps"][name], name)
        if shown.get("sweeps", {}).get("weights"):
            drawn["weights.png"] = lambda axes: _draw_grid(axes, shown["sweeps"]["weights"])
    return _write(folder, "retrieval", shown, retrieval_markdown(shown, list(drawn)), drawn)


def diagnosis_report(shown: Mapping[str, Any], folder: Path, *, plots: bool = True) -> list[Path]:
    """`diagnosis.md`, `diagnosis.json` and a plot; the paths written. Raises as `retrieval_report`."""
    drawn = {"fifths.png": lambda axes: _draw_fifths(axes, shown["reciprocal_rank_by_fifths"])} if plots else {}
    return _write(folder, "diagnosis", shown, diagnosis_markdown(shown, list(drawn)), drawn)


def table(header: Sequence[str], rows: Table) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def difference(found: Mapping[str, Any]) -> str:
    """`+1.23 [+0.10, +2.40]`."""
    low, high = found["ci95"]
    return f"{found['delta']:+.2f} [{low:+.2f}, {high:+.2f}]"


def retrieval_markdown(shown: Mapping[str, Any], plots: Sequence[str] = ()) -> str:
    """The run, the ablation and the sweeps in tables."""
    rows = [[name, str(g["requests"]), *(f"{g[m]:.1f}" for m in METRICS)] for name, g in shown["by_dataset"].items()]
    rows.append(["macro", str(shown["requests"]), *(f"{shown['metrics'][m]:.1f}" for m in METRICS)])
    times = shown["ms_per_request"]
    parts = [
        "# Retrieval",
        f"{shown['requests']} requests over {shown['skills']} skills; modules {', '.join(shown['modules'])}; "
        f"configuration {shown['config']}; a request takes {times['p50']:.1f} ms (p95 {times['p95']:.1f}).",
        table(["dataset", "requests", *METRICS], rows),
    ]
    if shown.get("ablation"):
        parts += ["## Module by module", ablation_table(shown["ablation"])]
    for base in shown.get("modules_alone_and_last", ()):
        parts += [f"### On {' + '.join(base['base'])}", additivity_table(base)]
    if shown.get("sweeps"):
        parts += sweep_sections(shown["sweeps"])
    return "\n\n".join([*parts, *(f"![{name}]({name})" for name in plots)]) + "\n"


def ablation_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every row with its macro metrics, MRR@10 of each dataset, and its paired difference to dense alone."""
    sets = list(rows[0]["by_dataset"]) if rows else []
    return table(
        ["modules", *METRICS, *sets, "MRR@10 against dense"],
        [
            [
                " + ".join(row["modules"]) + (" **(default)**" if row.get("default") else ""),
                *(f"{row['metrics'][m]:.1f}" for m in METRICS),
                *(f"{row['by_dataset'][name]:.1f}" for name in sets),
                difference(row["against_dense"]),
            ]
            for row in rows
        ],
    )


def additivity_table(base: Mapping[str, Any]) -> str:
    """One base of rule 1.9: alone, last, sum and together."""
    if base["base"] == ["tuned"]:
        return f"Fine-tuning: {difference(base['alone'])} alone, {difference(base['last'])} last."
    rows = [[name, difference(base["alone"][name]), difference(base["last"][name])] for name in base["alone"]]
    whole = f"Sum of alone {base['sum_alone']:+.2f}, together {difference(base['together'])}."
    return table(["module", "alone", "last"], rows) + "\n\n" + whole


def sweep_sections(found: Mapping[str, Any]) -> list[str]:
    """α, directions, weights, fusion and the choices by halves, as Markdown."""
    parts = ["## Sweeps", f"Around {json.dumps(found['base'])}; macro over datasets."]
    for name, title in (("alpha", "α, the weight of words"), ("k1", "Directions projected (dense alone)")):
        rows = [[str(r[name]), *(f"{r['metrics'][m]:.1f}" for m in METRICS)] for r in found[name]]
        parts += [f"### {title}", table([name, *METRICS], rows)]
    if found.get("weights"):
        across = sorted({r["w_d"] for r in found["weights"]})
        value = {(r["w_q"], r["w_d"]): r["metrics"]["mrr@10"] for r in found["weights"]}
        down = sorted({q for q, _ in value})
        rows = [[str(q), *(f"{value[q, d]:.1f}" for d in across)] for q in down]
        parts += ["### Weights, MRR@10", table(["w_q \\ w_d", *map(str, across)], rows)]
    fused = found["fusion"]
    parts += [
        "### Scores or ranks",
        f"At α {fused['alpha']}: scores {fused['scores']['metrics']['mrr@10']:.1f}, ranks "
        f"{fused['ranks']['metrics']['mrr@10']:.1f}, difference {difference(fused['scores_minus_ranks'])}; against "
        f"dense alone {difference(fused['scores_minus_dense'])}, words alone "
        f"{difference(fused['scores_minus_lexical'])}.",
        "### Chosen on one half, reported on the other",
    ]
    rows = []
    for name in ("alpha", "k1", "weights"):
        for half in found.get(f"{name}_by_halves", {}).get("halves", ()):
            rows.append(
                [
                    name, json.dumps(half["chosen"]), f"{half['reported_on']:.1f}", f"{half['short_of_best']:.1f}",
                    difference(half["against_baseline"]),
                ]
            )  # fmt: skip
    return [*parts, table(["what", "chosen", "MRR@10", "short of that half's best", "against the base"], rows)]


def _cell(found: Mapping[str, Any]) -> str:
    low, high = found["ci95"]
    return f"{found['value']:.2f} [{low:.2f}, {high:.2f}]"


def _rho(found: Mapping[str, Any]) -> str:
    if found["rho"] is None:
        return "–"
    low, high = found["ci95"]
    return f"{found['rho']:+.2f} [{low:+.2f}, {high:+.2f}]"


def diagnosis_markdown(shown: Mapping[str, Any], plots: Sequence[str] = ()) -> str:
    """The diagnostics, what changes them, and what goes with them."""
    ground = shown["background"]
    rows = [
        ["before", _cell(ground["documents"]["gap"]), _cell(ground["requests"]["gap"])],
        *([f"after {name}", _cell(g["documents"]), _cell(g["requests"])] for name, g in ground["gap_after"].items()),
        ["skills above gold, %", _cell(ground["documents"]["above_gold"]), _cell(ground["requests"]["above_gold"])],
    ]
    parts = [
        "# Diagnosis",
        f"{shown['requests']} requests over {shown['skills']} skills, encoder {shown['encoder']}; all × 100, macro "
        f"over datasets. Projection: **{'on' if shown['projection']['on'] else 'off'}**, {shown['projection']['why']}.",
        "## Background",
        table(["", "documents' directions", "requests' directions"], rows),
        "## Unsaid vocabulary",
        table(["coverage", "mean"], [[k.replace("_", " "), _cell(v)] for k, v in shown["unsaid_vocabulary"].items()]),
        "## Dilution",
        f"{_cell(shown['dilution'])} over {shown['dilution']['n']} requests whose gold has sections.",
        "## Reciprocal rank by fifths (dense alone)",
        table(
            ["diagnostic", *(f"fifth {n}" for n in range(1, 6))],
            [
                [name, *(f"{f['mean']:.1f}" for f in found), *[""] * (5 - len(found))]
                for name, found in shown["reciprocal_rank_by_fifths"].items()
            ],
        ),
        "## What goes with what",
        table(["", "", "ρ"], [[r["x"], r["y"], _rho(r)] for r in shown["correlations"]["between"]]),
        table(
            ["gain of", "with", "ρ", "ρ, others held still"],
            [
                [r["module"], r["diagnostic"], _rho(r["plain"]), _rho(r["partial"])]
                for r in shown["correlations"]["gains"]
            ],
        ),
    ]
    return "\n\n".join([*parts, *(f"![{name}]({name})" for name in plots)]) + "\n"


def _write(folder: Path, name: str, shown: Mapping[str, Any], text: str, drawn: Mapping[str, Any]) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / f"{name}.md", folder / f"{name}.json"]
        written[0].write_text(text, encoding="utf-8")
        written[1].write_text(json.dumps(shown, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        return written + [_plot(folder / file, draw) for file, draw in drawn.items()]
    except OSError as error:
        raise InputError(f"{folder}: the report cannot be written ({error.strerror}); name a folder you own") from error


def _plot(path: Path, draw: Any) -> Path:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("eval", "matplotlib", "drawing the report's plots (or give --no-plots)") from error
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    figure.savefig(path, dpi=120)
    return path


def _draw_ablation(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [" + ".join(row["modules"]) for row in rows][::-1]
    values = [row["metrics"]["mrr@10"] for row in rows][::-1]
    axes.barh(range(len(rows)), values, color=["0.35" if row.get("default") else "0.7" for row in rows][::-1])
    axes.set_yticks(range(len(rows)), names, fontsize=6)
    axes.set_xlabel("MRR@10 (dark: the default)")


def _draw_line(axes: Any, rows: Sequence[Mapping[str, Any]], name: str) -> None:
    at = [row[name] for row in rows]
    for dataset in rows[0]["by_dataset"]:
        axes.plot(at, [row["by_dataset"][dataset] for row in rows], marker=".", linewidth=1, label=dataset)
    axes.plot(at, [row["metrics"]["mrr@10"] for row in rows], marker="o", color="black", label="macro")
    axes.set_xlabel("α, weight of words" if name == "alpha" else "k1, directions projected")
    axes.set_ylabel("MRR@10")
    axes.legend(fontsize=8)


def _draw_grid(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    down, across = sorted({r["w_q"] for r in rows}), sorted({r["w_d"] for r in rows})
    value = {(r["w_q"], r["w_d"]): r["metrics"]["mrr@10"] for r in rows}
    image = axes.imshow([[value[q, d] for d in across] for q in down], cmap="Greys", aspect="auto")
    for i, q in enumerate(down):
        for j, d in enumerate(across):
            axes.text(j, i, f"{value[q, d]:.1f}", ha="center", va="center", fontsize=8, color="tab:red")
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    axes.set_xlabel("w_d")
    axes.set_ylabel("w_q")
    axes.figure.colorbar(image, label="MRR@10")


def _draw_fifths(axes: Any, found: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    for name, parts in found.items():
        axes.plot(range(1, len(parts) + 1), [p["mean"] for p in parts], marker="o", label=name)
    axes.set_xticks(range(1, 6))
    axes.set_xlabel("fifth of the requests, lowest value first")
    axes.set_ylabel("MRR@10, dense alone")
    axes.legend(fontsize=8)
