"""The gate's evaluation on paper: Markdown for people, JSON for programs, two plots.

Savings leave out what the bank cost to collect, and say so wherever they are printed (SkillDelta, rule 3.8).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metier.errors import MissingExtra
from metier.evaluate import gain
from metier.evaluate.gain import Evaluated

PLOTS = ("calibration.png", "success-tokens.png")


def everything(done: Evaluated, whole: Any, skills: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The report's data: the stable JSON, baselines, sweeps, shift, calibration and the curve over η.

    `whole` is the panel before any split: sweeps draw their own.
    """
    return {
        **gain.report(done),
        "baselines": gain.baselines(done, skills),
        "sweep_k": gain.sweep_k(whole, done.rule),
        "sweep_support": gain.sweep_support(whole, done.rule),
        "sweep_repeats": gain.sweep_repeats(whole, done.rule),
        "leave_family_out": gain.leave_family_out(whole, done.rule),
        "calibration": gain.calibration(done),
        "curve": gain.curve(done),
    }


def write(data: Mapping[str, Any], folder: Path, *, title: str, plots: bool = True) -> list[Path]:
    """`gate.md`, `gate.json` and the plots are in the folder; the paths written. Raises `MissingExtra`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "gate.md", folder / "gate.json"]
    if plots:
        written += _plot(data, folder)
    written[1].write_text(json.dumps(finite(data), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    written[0].write_text(markdown(data, title=title, plots=plots), encoding="utf-8")
    return written


def finite(value: Any) -> Any:
    """The value with every number that is none as null, as JSON wants it."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown(data: Mapping[str, Any], *, title: str, plots: bool = False) -> str:
    """The report in words and tables."""
    matched, rule = data["matched_rate"], data["rule"]
    knobs = ", ".join(f"{name} {value}" for name, value in rule.items())
    low, high = matched["ci95"]
    parts = [
        f"# The gate on {title}", "",
        f"{data['rows']} tasks, {data['protocol']}; {knobs}.", "",
        f"Advantage over random use at the same rate: **{matched['advantage_pp']:+.2f} pp** "
        f"[{low:+.2f}, {high:+.2f}]" + _split(matched) + ".", "",
        "## Policies", "",
        _table(data["baselines"], ("policy", "success", "use_rate", "advantage_pp", "auroc", "tokens", "token_saving")),
        "", "Token savings are against Always-on and leave out what the bank cost to collect.", "",
        "## Error and worth by neighbours, support and repeats", "",
        _table(data["sweep_k"], ("k", "gain_mae", "auroc", "advantage_pp", "use_rate")), "",
        _table(data["sweep_support"], ("share", "n", "gain_mae", "auroc", "advantage_pp", "use_rate")), "",
    ]  # fmt: skip
    if data["sweep_repeats"]:
        parts += [_table(data["sweep_repeats"], ("repeats", "gain_mae", "auroc", "advantage_pp", "use_rate")), ""]
    if data["leave_family_out"]:
        columns = ("family", "n", "gain_mae", "auroc", "advantage_pp", "use_rate")
        parts += ["## Families never seen", "", _table(data["leave_family_out"], columns), ""]
    parts += ["## Calibration", "", _table(data["calibration"], ("tau", "gain", "low", "high", "n")), ""]
    if plots:
        parts += [f"![{name}]({name})" for name in PLOTS] + [""]
    return "\n".join(parts)


def _split(matched: Mapping[str, Any]) -> str:
    if matched["between_pp"] is None:
        return " (not split: leave-one-out would bias the split)"
    return f" = {matched['between_pp']:+.2f} between families {matched['within_pp']:+.2f} within"


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    lines = ["| " + " | ".join(name.replace("_", " ") for name in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _plot(data: Mapping[str, Any], folder: Path) -> list[Path]:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra("eval", "matplotlib", "plotting the gate's evaluation") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5))
    bins = data["calibration"]
    tau, observed = [b["tau"] for b in bins], [b["gain"] for b in bins]
    reach = max([0.1, *(abs(v) for v in tau + observed)]) * 1.1
    axes.plot([-reach, reach], [-reach, reach], color="0.7", linewidth=1)
    spread = [[b["gain"] - b["low"] for b in bins], [b["high"] - b["gain"] for b in bins]]
    axes.errorbar(tau, observed, yerr=spread, fmt="o", capsize=3)
    axes.set_xlabel("predicted gain")
    axes.set_ylabel("observed gain, 95% interval")
    axes.set_title(f"{data['rows']} tasks, {data['protocol']}", fontsize=9)
    first = folder / PLOTS[0]
    figure.savefig(first, dpi=120, bbox_inches="tight")
    pyplot.close(figure)

    figure, axes = pyplot.subplots(figsize=(6, 4))
    points = data["curve"]
    known = all(p["tokens"] is not None for p in points)
    across = [p["tokens"] if known else p["use_rate"] for p in points]
    axes.plot(across, [p["success"] for p in points], marker=".", label="gate, η from high to low")
    ends = {each["policy"]: each for each in data["baselines"]}
    line = [ends["always off"], ends["always on"]]
    at = [each["tokens"] if known else each["use_rate"] for each in line]
    axes.plot(at, [each["success"] for each in line], color="0.6", linestyle="--", label="random use")
    axes.set_xlabel("mean tokens a task" if known else "use rate (tokens unknown)")
    axes.set_ylabel("mean success")
    axes.legend(fontsize=8)
    second = folder / PLOTS[1]
    figure.savefig(second, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    return [first, second]
