"""Verbs that look after a library and its home: `doctor`, `budget`, `config`, `forget`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.assemble import settings
from metier.assemble.checkup import examined
from metier.assemble.checkup import usage as usage_of
from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen, clean, line
from metier.errors import InputError
from metier.store import forget

if TYPE_CHECKING:
    from metier.library.budget import Listing
    from metier.library.doctor import Report

FINDINGS_SHOWN = 3
"""Findings of each kind on the first screen."""
NAMES_SHOWN = 8
MOST_DAYS = 36_500
"""As for `log.days`."""


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", help="one setting alone")


def run_config(args: argparse.Namespace, screen: Screen) -> int:
    rows = settings.described(args.config)
    if args.key:
        wanted = settings.named(args.key).key if args.key != "home" else "home"
        rows = [row for row in rows if row[0] == wanted]
    if screen.json_wanted:
        values = {key: {"value": value, "source": source} for key, value, source in rows}
        screen.json({"schema": "metier-config-v1", "settings": values})
        return 0
    about = {s.key: s.about for s in settings.SETTINGS}
    screen.table(
        [[k, _shown(v), source, about.get(k, "")] for k, v, source in rows], ["key", "value", "source", "about"]
    )
    screen.note(
        f"change them in {Path(args.config.home) / settings.FILE}, by METIER_… variables, or with --set KEY=VALUE"
    )
    return 0


def _shown(value: Any) -> str:
    if value is None:
        return "auto"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "-"
    return str(value) if value != "" else "-"


def add_forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=float, metavar="N", help="only what is older than N days")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_forget(args: argparse.Namespace, screen: Screen) -> int:
    if args.days is not None and not 0 <= args.days <= MOST_DAYS:
        raise InputError(f"--days: {args.days:g} is no number of days; give one from 0 to {MOST_DAYS:,}")
    shop = Workshop(args.config)
    before = None if args.days is None else time.time() - args.days * 86400
    what = "every route and event" if before is None else f"routes and events older than {args.days:g} days"
    if not args.yes:
        if screen.json_wanted or not (sys.stdin.isatty() and screen.err.isatty()):
            raise InputError(f"nobody is there to ask whether to forget {what}; repeat with --yes")
        screen.err.write(f"Forget {what} in {shop.store.path}? Outcomes in the bank stay. [y/N] ")
        screen.err.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            screen.note("nothing forgotten")
            return 0
    gone = forget(shop.store, before=before)
    if screen.json_wanted:
        screen.json({"schema": "metier-forget-v1", "routes": gone})
    else:
        screen.print(f"{gone} routes forgotten; outcomes in the bank stay (metier bank show)")
    return 0


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders to look at (default: all known)")
    parser.add_argument("--host", action="append", metavar="HOST", help="judge this host's listing (claude-code)")
    parser.add_argument("--kind", help="print every finding of one kind")


def run_doctor(args: argparse.Namespace, screen: Screen) -> int:
    from metier.library.doctor import KINDS

    shop = Workshop(args.config, paths=args.paths or None)
    report = examined(shop, _hosts(args.host or ["claude-code"]), screen.progress)
    for warning in shop.warnings:
        screen.note(f"warning: {warning}")
    if args.kind and args.kind not in KINDS:
        raise InputError(f"--kind: there is no kind '{args.kind}'; choose from {', '.join(KINDS)}")
    if screen.json_wanted:
        screen.json(report.as_dict())
        return 0
    found = len(report.findings)
    where = line(f" below {report.looked[0]}") if len(report.looked) == 1 else ""
    screen.print(f"{report.skills:,} skills{where}, {found:,} {'finding' if found == 1 else 'findings'}")
    if not report.skills:
        screen.print("Nothing was found; looked in:")
        for place in report.looked:
            screen.print(line(f"  {place}"))
    for kind, count in report.counts.items():
        if args.kind in (None, kind):
            _print_kind(kind, count, report, screen, everything=args.kind is not None)
    if report.skills and not report.findings:
        screen.print("Nothing to mend.")
    return 0


def _print_kind(kind: str, count: int, report: Report, screen: Screen, *, everything: bool) -> None:
    from metier.library.doctor import KINDS

    screen.print(screen.style(f"\n{count} × {KINDS[kind]}", "bold"))
    findings = report.of(kind)
    shown = findings if everything else findings[:FINDINGS_SHOWN]
    shared = {f.remedy for f in shown} if len(shown) > 1 else set()
    if len(shared) == 1:
        screen.print(screen.style(line(f"  → {shown[0].remedy}"), "dim"))
    for finding in shown:
        at = f":{finding.line}" if finding.line else ""
        screen.print(line(f"  {_below(finding.path, report)}{at}: {_below(finding.message, report)}"))
        if len(shared) != 1:
            screen.print(screen.style(line(f"      → {finding.remedy}"), "dim"))
    if not everything and count > FINDINGS_SHOWN:
        screen.print(f"  … {count - FINDINGS_SHOWN} more: metier doctor --kind {kind}")


def _below(text: str, report: Report) -> str:
    """Paths in `text` as seen from the folder that was looked at, where there was one; every skill's starts alike."""
    return text.replace(f"{report.looked[0].rstrip('/')}/", "") if len(report.looked) == 1 else text


def _hosts(names: Sequence[str]) -> tuple[str, ...]:
    from metier.library.budget import HOSTS

    for name in names:
        if name not in HOSTS:
            raise InputError(f"--host: no listing rule is known for '{name}'; choose from {', '.join(HOSTS)}")
    return tuple(names)


def add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", action="append", metavar="HOST", help="claude-code, codex or openclaw")
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="these alone")
    parser.add_argument("--window", type=int, metavar="TOKENS", help="the model's context window")


def run_budget(args: argparse.Namespace, screen: Screen) -> int:
    from metier.library.budget import HOSTS, listing

    shop = Workshop(args.config, paths=args.skills)
    skills, usage = shop.library.skills, usage_of(shop)
    if args.window is not None and args.window < 1:
        raise InputError(f"--window {args.window}: give the model's context in tokens, such as 200000")
    shown = []
    for name in _hosts(args.host or ["claude-code"]):
        wanted = os.environ.get(HOSTS[name].variable, "") if HOSTS[name].variable else ""
        characters = int(wanted) if wanted.isdigit() else None
        shown.append(listing(skills, HOSTS[name], usage=usage, window=args.window, characters=characters))
    if screen.json_wanted:
        screen.json({"schema": "metier-budget-v1", "skills": len(skills), "hosts": [s.as_dict() for s in shown]})
        return 0
    for each in shown:
        _print_listing(each, {s.id: s.name for s in skills}, screen)
    return 0


def _print_listing(shown: Listing, names: dict[str, str], screen: Screen) -> None:
    screen.print(screen.style(f"{shown.host}: {shown.budget:,} characters for {len(names)} skills", "bold"))
    screen.print(
        f"  wanted {shown.wanted:,} characters; the listing holds {shown.characters:,} ({shown.tokens:,} tokens)"
    )
    groups = {"in full": shown.full, "description cut": shown.cut, "name only": shown.bare, "not at all": shown.dropped}
    for what, ids in groups.items():
        listed = ", ".join(names[i] for i in ids[:NAMES_SHOWN])
        more = f" and {len(ids) - NAMES_SHOWN} more" if len(ids) > NAMES_SHOWN else ""
        screen.print(clean(f"  {len(ids):5d} {what}{': ' + listed + more if ids else ''}"))
    if shown.unlisted:
        screen.print(f"  {len(shown.unlisted):5d} never listed: only a person may call them")
    screen.print(f"  routing shows about {shown.routed:,} tokens a request instead: {shown.saved:,} saved")
