"""What the gate is worth on public paired outcomes, with the product's own encoder, and what would improve its rule.

    python benchmarks/gate.py --pairs pairs-dev.jsonl.xz --gold sra-dev.gold.jsonl

Leave-one-task-out for the totals; held-out halves for the split, for everything tuned, and for every comparison of
rules (tuned on the support half, judged on the other, `--seeds` draws). Writes benchmarks/results/gate-<sha12>.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metier.edge.cli.eval_gate import skill_texts
from metier.evaluate import gain, policy
from metier.evaluate.panel import Recorded, recorded
from metier.gate.gain import Rule, predict
from metier.gate.imports import text_of
from metier.models.encoder import open_encoder
from metier.types import Encoder

Floats = NDArray[np.float64]
ARMS = ("oracle_gold", "retrieved_top1", "retrieved_top1_routed")
SPLIT_SEEDS = 20
PUBLISHED = {  # SkillDelta (arXiv:2609.32274), 15 panels; and its note on a public bank, TF-IDF neighbours
    "advantage_pp": 4.33, "between_pp": 3.72, "within_pp": 0.61, "token_saving_vs_always_on": 0.208,
    "success_vs_always_on_pp": -0.9, "self_judge_use_rate_above": 0.91, "beats_with_skill_only_in": "12 of 15 panels",
    "public_bank_advantage_pp": [1.1, 7.9],
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--gold", type=Path, help="texts of the skills, for lexical relevance (TheoremQA, CHAMP)")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--seeds", type=int, default=10, help="held-out draws for every comparison")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    began = time.time()
    rows = [json.loads(line) for line in text_of(args.pairs).splitlines()]
    encoder = open_encoder(args.encoder)
    vectors = {name: _encoded(encoder, {view(r["task"]) for r in rows}) for name, view in VIEWS.items()}
    skills = skill_texts(args.gold) if args.gold else None
    told: dict[str, Any] = {
        "schema": "metier-benchmark-gate-v1", "command": "python " + " ".join(_shown(sys.argv)),
        "commit": _git(), "machine": _machine(), "encoder": encoder.profile.name,
        "data": {path.name: _digest(path) for path in (args.pairs, args.gold) if path},
        "stack": sorted({r["stack"] for r in rows}), "published": PUBLISHED, "arms": {},
    }  # fmt: skip
    for arm in ARMS:
        views = {name: _panel([r for r in rows if r["arm"] == arm], vectors[name], VIEWS[name]) for name in VIEWS}
        told["arms"][arm] = _arm(arm, views, skills, args.seeds)
    told["seconds"] = round(time.time() - began, 1)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"gate-{told['commit']}.json"
    path.write_text(json.dumps(_rounded(told), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"\npublished (SkillDelta, 15 panels): +{PUBLISHED['advantage_pp']} pp = +{PUBLISHED['between_pp']} between "
          f"+{PUBLISHED['within_pp']} within; a public bank with TF-IDF +1.1 to +7.9 pp")  # fmt: skip
    print(f"wrote {path} in {told['seconds']} s")
    return 0


def _plain(text: str) -> str:
    return text


def _without_numbers(text: str) -> str:
    """Numbers as one sign: two tasks that differ in their numbers alone are the same task."""
    return re.sub(r"\d+(?:[.,]\d+)*", "#", text)


def _ends(text: str) -> str:
    """The first and last 60 words: where a long task says what it is about, and what it asks."""
    found = text.split()
    return text if len(found) <= 120 else " ".join([*found[:60], "…", *found[-60:]])


VIEWS = {"text": _plain, "numbers as #": _without_numbers, "both ends": _ends}


def _encoded(encoder: Encoder, texts: set[str]) -> dict[str, Floats]:
    ordered = sorted(texts, key=lambda text: (len(text), text))  # texts of one length pad nothing
    matrix = encoder.encode(ordered, kind="query").astype(np.float64)
    return dict(zip(ordered, matrix, strict=True))


def _panel(rows: Sequence[dict[str, Any]], vectors: dict[str, Floats], view: Any) -> Recorded:
    told = [
        {"id": r["task_id"], "family": r["family"], "y0": r["success_without"], "y1": r["success_with"],
         "tokens0": r["tokens_without"], "tokens1": r["tokens_with"], "text": r["task"], "skill_ids": r["skill_ids"]}
        for r in rows
    ]  # fmt: skip
    return recorded(told, np.stack([vectors[view(r["task"])] for r in rows]))


def _arm(arm: str, views: dict[str, Recorded], skills: dict[str, str] | None, seeds: int) -> dict[str, Any]:
    panel, rule = views["text"], Rule()
    done = gain.evaluate(panel, rule)
    told = gain.report(done)
    told.pop("predictions")
    out: dict[str, Any] = {"leave_one_out": told, "policies": gain.baselines(done)}
    out["leave_one_out"]["auroc_with_skill_only"] = policy.auroc(
        done.gains > 0, gain.with_skill_only(panel.panel.tasks, panel.panel, rule)
    )
    out["held_out"] = _held_out(panel, rule)
    known = [i for i, f in enumerate(panel.panel.tasks.families) if f in ("theoremqa", "champ")]
    if skills is not None:
        covered = [i for i in known if all(p in skills for p in panel.panel.tasks.skills[i].split("+"))]
        part = panel.take(covered)
        relevance = gain.lexical(part, skills)
        if relevance is not None and len(covered) > 1:
            there = gain.evaluate(part, rule)
            out["lexical"] = {
                "rows": len(part), "left_out": len(known) - len(covered),
                "auroc_lexical": policy.auroc(there.gains > 0, relevance),
                "auroc_gate": policy.auroc(there.gains > 0, there.found.tau),
                "policies": gain.baselines(there, skills),
            }  # fmt: skip
    out["rules"] = _rules(views, seeds)
    out["sweep_k"] = gain.sweep_k(panel, rule)
    out["sweep_support"] = gain.sweep_support(panel, rule)
    _print(arm, out)
    return out


def _held_out(panel: Recorded, rule: Rule) -> dict[str, Any]:
    """Advantage and its split over many draws: mean and standard deviation."""
    drawn = []
    for seed in range(SPLIT_SEEDS):
        done = gain.evaluate(panel, rule, holdout=seed)
        split = policy.between_within(done.gains, done.found.use, done.recorded.panel.tasks.families)
        drawn.append((policy.advantage(done.gains, done.found.use), *split))
    mean, spread = np.mean(drawn, axis=0) * policy.PP, np.std(drawn, axis=0) * policy.PP
    names = ("advantage_pp", "between_pp", "within_pp")
    return {name: {"mean": float(mean[i]), "sd": float(spread[i])} for i, name in enumerate(names)} | {
        "seeds": SPLIT_SEEDS
    }


def _rules(views: dict[str, Recorded], seeds: int) -> list[dict[str, Any]]:
    """Every rule against the default on the same judged halves, paired by task: at η = 0 and at the default's rate."""
    n = len(views["text"])
    gains = views["text"].panel.gains
    place = {name: i for i, name in enumerate(views["text"].panel.tasks.ids)}
    sums: dict[str, Any] = {}
    for seed in range(seeds):
        halves = {name: gain.halves(panel, seed) for name, panel in views.items()}
        judged, support = halves["text"]
        base = predict(judged.panel.tasks, support.panel, Rule())
        at = np.array([place[name] for name in judged.panel.tasks.ids])
        d, y0 = judged.panel.gains, judged.panel.y0
        rate = float(base.use.mean())
        for name, (view, rule) in _candidates(halves).items():
            one, past = halves[view]
            found = predict(one.panel.tasks, past.panel, rule)
            level = policy.at_rate(found.tau, rate) - policy.at_rate(base.tau, rate)
            zero = found.use.astype(float) - base.use.astype(float)
            held = sums.setdefault(
                name, {"at_rate": np.zeros(n), "zero": np.zeros(n), "count": np.zeros(n), "seen": []}
            )
            held["at_rate"][at] += level * d
            held["zero"][at] += zero * d
            held["count"][at] += 1
            held["seen"].append((
                policy.auroc(d > 0, found.tau) or 0.5, policy.success(y0, d, found.use), float(found.use.mean()),
                policy.advantage(d, found.use), policy.advantage(d, policy.at_rate(found.tau, rate)),
                float(np.abs(found.tau - d).mean()), repr(rule),
            ))  # fmt: skip
    return [_summed(name, held, gains) for name, held in sums.items()]


def _candidates(halves: dict[str, tuple[Recorded, Recorded]]) -> dict[str, tuple[str, Rule]]:
    """Name → (text view, rule); what is tuned is tuned on the support half by leave-one-out AUROC."""
    support = {name: pair[1] for name, pair in halves.items()}

    def best(rules: Sequence[tuple[str, Rule]]) -> tuple[str, Rule]:
        def worth(each: tuple[str, Rule]) -> float:
            panel = support[each[0]].panel
            return policy.auroc(panel.gains > 0, predict(panel.tasks, panel, each[1]).tau) or 0.5

        return max(rules, key=worth)

    plain = Rule()
    pulled = [("text", Rule(k=k, kappa=kappa, toward="skill")) for k in (6, 20) for kappa in (2.0, 6.0, 12.0, 30.0)]
    return {
        "default (k=6, family)": ("text", plain),
        "shrunk to zero, κ=2": ("text", replace(plain, kappa=2.0)),
        "k learned": best([("text", replace(plain, k=k)) for k in (3, 6, 10, 20, 50)]),
        "own skill only": ("text", replace(plain, scope="skill")),
        "all families": ("text", replace(plain, scope="global")),
        "text with numbers as #": ("numbers as #", plain),
        "text's both ends": ("both ends", plain),
        "towards the skill's mean, κ=6": ("text", replace(plain, kappa=6.0, toward="skill")),
        "towards the skill's mean, k and κ learned": best(pulled),
        "the same, text learned too": best([(view, rule) for view in halves for _, rule in pulled]),
    }


def _summed(name: str, held: dict[str, Any], gains: Floats) -> dict[str, Any]:
    seen = held["seen"]
    mean = np.mean([row[:6] for row in seen], axis=0)
    judged = held["count"] > 0
    out = {
        "rule": name, "auroc": float(mean[0]), "success": float(mean[1]), "use_rate": float(mean[2]),
        "advantage_pp": float(mean[3] * policy.PP), "advantage_at_default_rate_pp": float(mean[4] * policy.PP),
        "gain_mae": float(mean[5]), "chosen": sorted({row[6] for row in seen}),
    }  # fmt: skip
    for key, label in (("at_rate", "at_default_rate_pp"), ("zero", "success_at_zero_pp")):
        step = held[key][judged] / held["count"][judged]
        rng = np.random.default_rng(0)
        drawn = [step[rng.integers(0, len(step), len(step))].mean() for _ in range(2000)]
        low, high = np.percentile(drawn, [2.5, 97.5])
        out[f"difference_{label}"] = {
            "value": float(step.mean() * policy.PP),
            "ci95": [low * policy.PP, high * policy.PP],
        }
    return out


def _print(arm: str, out: dict[str, Any]) -> None:
    told, held = out["leave_one_out"], out["held_out"]
    low, high = told["matched_rate"]["ci95"]
    print(f"\n### {arm}: {told['rows']} tasks, one stack\n")
    print(f"advantage at matched rate {told['matched_rate']['advantage_pp']:+.2f} pp [{low:+.2f}, {high:+.2f}]; "
          f"held out {held['advantage_pp']['mean']:+.2f} = {held['between_pp']['mean']:+.2f} between "
          f"{held['within_pp']['mean']:+.2f} within\n")  # fmt: skip
    print("| policy | success % | use % | advantage pp | AUROC |\n|---|---|---|---|---|")
    for row in out["policies"]:
        area = "" if row["auroc"] is None else f"{row['auroc']:.3f}"
        print(f"| {row['policy']} | {100 * row['success']:.2f} | {100 * row['use_rate']:.1f} | "
              f"{row['advantage_pp']:+.2f} | {area} |")  # fmt: skip
    if "lexical" in out:
        words = out["lexical"]
        print(f"\nwhere texts are at hand ({words['rows']}): AUROC gate {words['auroc_gate']:.3f}, "
              f"lexical {words['auroc_lexical']:.3f}")  # fmt: skip
    print("\n| rule, held out | AUROC | success % | use % | difference at the default's rate, pp | and at η=0, pp |")
    print("|---|---|---|---|---|---|")
    for row in out["rules"]:
        one, two = row["difference_at_default_rate_pp"], row["difference_success_at_zero_pp"]
        print(f"| {row['rule']} | {row['auroc']:.3f} | {100 * row['success']:.2f} | {100 * row['use_rate']:.0f} | "
              f"{one['value']:+.2f} [{one['ci95'][0]:+.2f}, {one['ci95'][1]:+.2f}] | "
              f"{two['value']:+.2f} [{two['ci95'][0]:+.2f}, {two['ci95'][1]:+.2f}] |")  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    if isinstance(value, (float, np.floating)):
        return round(float(value), 5) if np.isfinite(value) else None
    return value


def _shown(argv: Sequence[str]) -> list[str]:
    """The command with file names alone: where the data lies on one machine is nobody's business."""
    return ["benchmarks/gate.py", *(Path(word).name if "/" in word else word for word in argv[1:])]


def _git() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    ).stdout.strip()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _machine() -> str:
    import os

    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}"


if __name__ == "__main__":
    raise SystemExit(main())
