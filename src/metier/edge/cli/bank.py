"""`metier record` and `metier bank show|import|export|plan|fit`: outcomes in, evidence out."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from metier.assemble.workshop import Workshop
from metier.edge import wire
from metier.edge.cli.screen import Screen, clean
from metier.errors import EncoderError, InputError, MetierError, NotFound
from metier.gate import exports, fit, online, plan
from metier.gate.gain import seen_interval
from metier.gate.imports import Given, Imported, import_file
from metier.gate.rows import bundle, members
from metier.gate.thresholds import DRIFT_Z, drift
from metier.text import one_line
from metier.types import UNKNOWN_STACK

ACTIONS = ("show", "import", "export", "plan", "fit")
FORMATS = ("rows", "support", "outcomes", "panel")
REFUSED_SHOWN = 20
"""Refused rows that an import prints; `--json` has all of them."""


# ------------------------------------------------------------------------------------------------------------ record


def add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("route_id", metavar="ROUTE_ID", help="as `metier route --json` printed it")
    parser.add_argument("skill", metavar="SKILL", nargs="+", help="name or id; several were used together")
    parser.add_argument("--success", type=float, metavar="0..1", help="how well it went (leave out: nobody judged)")
    parser.add_argument("--tokens", type=int, metavar="N", help="what the run cost")
    parser.add_argument("--arm", choices=("use", "skip"), default="use", help="with the skill (default) or without it")
    parser.add_argument("--origin", choices=("check", "person", "ci"), default="person", help="who says so (person)")


def run_record(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config)
    router = shop.router(only=["retrieve"], source="cli")
    skill = args.skill[0] if len(args.skill) == 1 else args.skill
    told = router.record(
        args.route_id, skill, args.success, tokens=args.tokens, arm=args.arm, origin=args.origin
    )  # fmt: skip
    if screen.json_wanted:
        screen.json(wire.recorded(told))
        return 0
    screen.print(f"recorded: {', '.join(told.skills)} · {told.arm} · success {_shown(told.success)} on {told.stack}")
    if told.stack == UNKNOWN_STACK:
        screen.note("the route did not name its stack: such evidence never loads a skill (metier route --stack …)")
    return 0


# -------------------------------------------------------------------------------------------------------------- bank


def add_bank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="to import from, or to export to")
    parser.add_argument("--stack", help="agent, model and settings; for plan: the new stack to prepare for")
    parser.add_argument("--skill", metavar="SKILL", help="one skill (name or id)")
    parser.add_argument("--digest", help="import: the digest the outcomes were made with (default: the present one)")
    parser.add_argument("--family", help="import: family of rows that name none")
    parser.add_argument("--arm", choices=("use", "skip"), help="import: the arm of an SR-Agents result file")
    parser.add_argument("--vectors", type=Path, metavar="FILE.npz", help="import: embeddings of a panel's tasks")
    parser.add_argument("--vectors-encoder", default="unknown", metavar="NAME", help="import: who made them")
    parser.add_argument("--instances", type=Path, metavar="FILE", help="import: SR-Agents instances, for the questions")
    parser.add_argument(
        "--format", choices=FORMATS, default="rows", help="export: rows (default), or a reference format"
    )
    parser.add_argument("--summary", metavar="SKILL", help="export: what this skill's release should carry")
    parser.add_argument("--from-stack", metavar="S", help="plan: the stack to take over from (default: the configured)")
    parser.add_argument("--width", type=float, default=plan.WIDTH, help=f"plan: wanted interval ± ({plan.WIDTH})")
    parser.add_argument("--worth", action="store_true", help="plan: what banks of several sizes are worth, simulated")
    parser.add_argument("--use-rate", type=float, metavar="R", help="fit: use at most this share of tasks")
    parser.add_argument("--tokens", type=float, metavar="N", help="fit: at most this many extra tokens a task")


def run_bank(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config)
    return int(_DO[args.action](args, screen, shop))


def _show(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    name = args.skill or (None if args.file is None else str(args.file))  # `bank show SKILL` reads as one means it
    wanted = None if name is None else _skill(shop, name)[0]
    stacks = [args.stack] if args.stack else shop.bank.stacks()
    told: list[dict[str, Any]] = [{"stack": stack, "skills": _evidence(shop, stack, wanted)} for stack in stacks]
    if screen.json_wanted:
        screen.json({"schema": "metier-bank-v1", "rows": len(shop.bank.outcomes()), "stacks": told,
                     "summaries": _summaries(shop, wanted)})  # fmt: skip
        return 0
    if not any(each["skills"] for each in told) and shop.bank.outcomes():
        about = f" of {_skill(shop, name)[1]}" if name else ""
        screen.print(clean(f"No outcomes{about} on {args.stack or 'any stack'}; there are some on: "
                           f"{', '.join(shop.bank.stacks())}"))  # fmt: skip
    elif not any(each["skills"] for each in told):
        screen.print("The bank is empty. `metier record` adds an outcome, `metier collect` runs pairs, "
                     "`metier bank import FILE` takes over what others measured.")  # fmt: skip
    for each in told:
        if each["skills"]:
            screen.print(screen.style(str(each["stack"]), "bold"))
            screen.table([_line(row) for row in each["skills"]], _HEADER)
            screen.print()
    for row in _summaries(shop, wanted):
        screen.print(f"its release says, not counted: {row['skill']} {row['family']} on {row['stack']}: "
                     f"gain {row['tau']:+.2f} from {row['n']}")  # fmt: skip
    return 0


_HEADER = ("skill", "pairs", "without", "with", "gain", "95%", "stale", "not counted", "note")


def _evidence(shop: Workshop, stack: str, wanted: str | None) -> list[dict[str, Any]]:
    """Everything the bank knows about the skills of one stack."""
    out = []
    for ids in shop.bank.skills(stack):
        key = bundle(ids)
        if wanted is not None and wanted not in ids:
            continue
        digests = [_digest(shop, each) for each in ids]
        pairs, tally = shop.bank.pairs(stack, key), shop.bank.tally(stack, key)
        fresh = pairs.of(bundle([d or "" for d in digests])) if all(digests) else pairs.of(_newest(pairs))
        now = pairs.where(fresh) if len(pairs) else pairs
        low, high = seen_interval(now.gains)
        drawn = online.randomised(shop.store, stack, key, bundle([d or "" for d in digests]))
        moved = drift(now.gains)
        out.append({
            "skill": key, "skills": list(ids), "digest": bundle([d or "" for d in digests]) or None,
            "known": all(digests), "pairs": len(now), "success_without": _mean(now.y0), "success_with": _mean(now.y1),
            "gain": _mean(now.gains), "interval": [low, high] if len(now) else None,
            "tokens_without": _mean(now.tokens0), "tokens_with": _mean(now.tokens1),
            "stale": int((~fresh).sum()) if len(pairs) else 0, "agent": tally.agent, "single": tally.single,
            "unjudged": tally.unjudged, "drift_z": moved, "drifted": moved is not None and abs(moved) >= DRIFT_Z,
            "randomised": None if drawn is None else {"gain": drawn.gain, "interval": [drawn.low, drawn.high],
                                                      "used": drawn.used, "skipped": drawn.skipped},
        })  # fmt: skip
    return out


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    low_high = "–" if row["interval"] is None else f"{row['interval'][0]:+.2f}…{row['interval'][1]:+.2f}"
    notes = [] if row["known"] else ["not in the library"]
    if row["drifted"]:
        notes.append("newest pairs differ: the gain drifted")
    if row["randomised"]:
        notes.append(f"randomised single arms {row['randomised']['gain']:+.2f}")
    aside = [f"{row[k]} {word}" for k, word in (("agent", "by agent"), ("single", "one arm"), ("unjudged", "unjudged"))
             if row[k]]  # fmt: skip
    return (
        clean(one_line(" + ".join(row["skills"]), 48)), str(row["pairs"]), _shown(row["success_without"]),
        _shown(row["success_with"]), "–" if row["gain"] is None else f"{row['gain']:+.2f}", low_high,
        str(row["stale"]), ", ".join(aside) or "–", "; ".join(notes),
    )  # fmt: skip


def _import(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    path = _file(args)

    @cache
    def resolve(name: str) -> tuple[str, str] | None:
        if args.digest is not None:
            return None
        try:
            found = shop.skill(name)
        except NotFound:
            return None
        return found.id, found.digest

    stack = args.stack or (args.config.stack if args.config.stack != UNKNOWN_STACK else None)
    given = Given(stack, args.skill, args.digest, args.family, args.arm, args.vectors_encoder, resolve)
    done = import_file(shop.bank, path, given, vectors=args.vectors, instances=args.instances)
    _embed_bound(shop, screen)
    if screen.json_wanted:
        refused = [{"where": where, "why": why} for where, why in done.refused]
        screen.json({"schema": "metier-bank-import-v1", "kind": done.kind, "read": done.read, "new": done.new,
                     "unbound": done.unbound, "refused": refused})  # fmt: skip
        return 0
    _print_import(done, path, screen)
    return 0


def _embed_bound(shop: Workshop, screen: Screen) -> None:
    """Past tasks of skills that can be routed to have vectors, so that no route has to wait for them."""
    rows = shop.store.rows("SELECT DISTINCT task FROM outcomes WHERE digest <> ''")
    try:
        shop.bank.embed(shop.encoder, [row["task"] for row in rows], lambda n, of: screen.progress("tasks", of)(n))
    except EncoderError as error:
        screen.note(f"warning: the tasks are compared once they can be encoded: {error}")


def _print_import(done: Imported, path: Path, screen: Screen) -> None:
    known = done.read - done.new
    already = f", {known} known already" if known > 0 else ""
    screen.print(
        f"{path.name}: {done.new} new outcomes of {done.read} ({done.kind}){already}, {len(done.refused)} refused"
    )
    for where, why in done.refused[:REFUSED_SHOWN]:
        screen.print(clean(f"  {where}: {why}"))
    if len(done.refused) > REFUSED_SHOWN:
        screen.print(f"  … and {len(done.refused) - REFUSED_SHOWN} more: --json lists all")
    if done.unbound:
        screen.note(f"{done.unbound} outcomes belong to no known digest: they are shown and load nothing; "
                    "index the skill first, or give --digest")  # fmt: skip


def _export(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    path, bank = _file(args), shop.bank
    if args.summary is not None:
        skill_id, digest, name = _skill(shop, args.summary)
        count, what = exports.summary(bank, path, skill=skill_id, name=name, digest=digest), "families"
    elif args.format == "rows":
        skill = None if args.skill is None else _skill(shop, args.skill)[0]
        count, what = exports.rows(bank, path, stack=args.stack, skill=skill), "outcomes"
    else:
        stack = args.stack or args.config.stack
        if args.format == "panel":
            skills = None if args.skill is None else [_skill(shop, args.skill)[0]]
            count, what = exports.panel(bank, path, stack=stack, skills=skills, encoder=_embedded(shop)), "tasks"
        else:
            if args.skill is None:
                raise InputError(f"--format {args.format} is about one skill; name it with --skill")
            skill = _skill(shop, args.skill)[0]
            if args.format == "support":
                count = exports.support(bank, path, stack=stack, skill=skill, encoder=_embedded(shop))
            else:
                count = exports.outcomes_v1(bank, path, stack=stack, skill=skill)
            what = "tasks" if args.format == "support" else "outcomes"
    if screen.json_wanted:
        screen.json({"schema": "metier-bank-export-v1", "file": str(path), "count": count, "what": what})
    else:
        screen.print(f"{path}: {count} {what}")
    return 0


def _plan(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    if args.worth:
        return _plan_worth(screen)
    if args.stack is not None:
        return _plan_stack(args, screen, shop)
    stacks = [args.config.stack] if args.config.stack != UNKNOWN_STACK else shop.bank.stacks()
    told = []
    for stack in stacks:
        digests = {each: _digest(shop, each) or "" for ids in shop.bank.skills(stack) for each in ids}
        for need in plan.needs(shop.bank, stack, digests, args.width):
            told.append({"stack": stack, "skill": need.skill, "pairs": need.pairs, "gain": need.gain,
                         "half_width": need.half_width, "wanted_pairs": need.wanted, "runs": need.runs,
                         "tokens": need.tokens})  # fmt: skip
    unseen = plan.pairs_needed(0.0, args.width)
    if screen.json_wanted:
        screen.json(
            {"schema": "metier-bank-plan-v1", "width": args.width, "pairs_for_a_new_skill": unseen, "skills": told}
        )
        return 0
    screen.print(
        f"A skill without any evidence needs {unseen} pairs ({2 * unseen} runs) for an interval of ±{args.width:g}."
    )
    if told:
        screen.table(
            [(str(n["stack"]), str(n["skill"]), str(n["pairs"]),
              "–" if n["half_width"] is None else f"±{n['half_width']:.2f}", str(n["runs"]),
              "unknown" if n["tokens"] is None else f"{n['tokens']:,.0f}") for n in told],
            ("stack", "skill", "pairs", "now", "runs to go", "tokens"),
        )  # fmt: skip
    screen.note("more support helps only where it is near: pick tasks like those the skill is asked for")
    return 0


def _plan_stack(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    old = args.from_stack or args.config.stack
    if old == UNKNOWN_STACK:
        others = [s for s in shop.bank.stacks() if s not in (args.stack, UNKNOWN_STACK)]
        if len(others) != 1:
            known = "the bank knows these:" if others else "the bank knows none yet (metier collect)"
            raise NotFound(f"name the stack to take over from with --from-stack; {known}", tuple(others))
        old = others[0]
    clusters = _families(shop)
    told = plan.reruns(shop.bank, old, args.stack, clusters, exchange=args.config.exchange)
    if screen.json_wanted:
        screen.json({"schema": "metier-bank-rerun-v1", "stack": args.stack, "from": old, "families": [
            {"family": r.family, "skills": list(r.skills), "frequency": r.frequency, "gain": r.gain,
             "priority": r.priority, "runs": r.runs, "tokens": r.tokens, "breaks_even_tasks": r.breaks_even}
            for r in told]})  # fmt: skip
        return 0
    screen.print(f"{args.stack} starts without evidence; from {old}, the families worth rerunning first:")
    screen.table(
        [(one_line(r.family, 48), f"{r.frequency:.1%}", f"{r.gain:+.2f}", str(r.runs),
          "unknown" if r.tokens is None else f"{r.tokens:,.0f}",
          "cannot be told" if r.breaks_even is None else f"{r.breaks_even:,} tasks") for r in told],
        ("family", "of tasks", "gain", "runs", "tokens", "pays after"),
    )  # fmt: skip
    if args.config.exchange is None:
        screen.note("what a success is worth in tokens is not set (gate.exchange): only saved tokens count as pay")
    return 0


def _plan_worth(screen: Screen) -> int:
    from metier.evaluate.world_gain import sizes

    told = sizes()
    if screen.json_wanted:
        screen.json({"schema": "metier-bank-worth-v1", "simulated": [asdict(each) for each in told]})
        return 0
    screen.print("Simulated, six families whose gains differ by ±0.2 between and ±0.25 within (not your agent):")
    screen.table(
        [(str(w.support), str(w.repeats), f"{w.error:.2f}", f"{w.success:.3f}", f"{w.always_off:.3f}",
          f"{w.always_on:.3f}", f"{w.best:.3f}", f"{w.tokens_spent:,.0f}") for w in told],
        ("pairs", "repeats", "error of gain", "success", "always off", "always on", "best", "tokens"),
    )  # fmt: skip
    return 0


def _fit(args: argparse.Namespace, screen: Screen, shop: Workshop) -> int:
    stack = args.stack or args.config.stack
    told = fit.fit(shop.bank, stack, _families(shop), _embedded(shop), rate=args.use_rate, tokens=args.tokens,
                   exchange=args.config.exchange)  # fmt: skip
    if screen.json_wanted:
        screen.json({"schema": "metier-bank-fit-v1", "stack": stack, "families": [
            {"family": f.family, "eta": f.eta, "pairs": f.pairs, "how": f.how} for f in told]})  # fmt: skip
    elif told:
        screen.table([(one_line(f.family, 48), f"{f.eta:+.3f}", str(f.pairs), f.how) for f in told],
                     ("family", "η", "pairs", "fitted for"))  # fmt: skip
    else:
        screen.print(f"no family on {stack} has {fit.FEWEST} pairs yet: the default threshold stays")
    return 0


_DO = {"show": _show, "import": _import, "export": _export, "plan": _plan, "fit": _fit}


# ------------------------------------------------------------------------------------------------------------ shared


def _file(args: argparse.Namespace) -> Path:
    if args.file is None:
        raise InputError(f"bank {args.action} needs a FILE")
    return Path(args.file)


def _skill(shop: Workshop, name: str) -> tuple[str, str, str]:
    """(id, present digest, name) of a skill of the library, or of one that only the bank still knows."""
    try:
        found = shop.skill(name)
        return found.id, found.digest, found.name
    except NotFound:
        known = sorted({each for stack in shop.bank.stacks() for ids in shop.bank.skills(stack) for each in ids})
        here = [each for each in known if each == name] or [
            e for e in known if members(e)[0].rpartition("/")[2] == name
        ]
        if len(here) != 1:
            raise
        return here[0], "", name


def _digest(shop: Workshop, skill_id: str) -> str | None:
    try:
        return shop.skill(skill_id).digest
    except MetierError:
        return None


def _newest(pairs: Any) -> str:
    return str(pairs.digests[int(pairs.at.argmax())]) if len(pairs) else ""


def _families(shop: Workshop) -> dict[str, str]:
    """Skill id → family, as the gate sees it."""
    gate: Any = shop.stage("gate")
    return {
        each: gate.families.get(each, each) for stack in shop.bank.stacks() for each in shop.bank.single_skills(stack)
    }


def _embedded(shop: Workshop) -> str:
    """The encoder's name, every task having a vector by it."""
    shop.bank.embed(shop.encoder)
    return shop.encoder.profile.name


def _summaries(shop: Workshop, wanted: str | None) -> list[dict[str, Any]]:
    rows = shop.store.rows("SELECT skill, digest, stack, family, n, tau, low, high FROM bank_summaries ORDER BY skill")
    return [dict(row) for row in rows if wanted is None or row["skill"] in (wanted, wanted.rpartition("/")[2])]


def _mean(values: Any) -> float | None:
    known = [float(v) for v in values if not math.isnan(v)]
    return sum(known) / len(known) if known else None


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
