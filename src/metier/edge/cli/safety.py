"""`metier scan`: a second opinion on third-party skills, from a scanner that the user installed."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen, clean
from metier.edge.scanner import Finding, scan
from metier.errors import InputError
from metier.text import one_line


def add_scan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skills", nargs="+", metavar="SKILL", help="names or ids")
    parser.add_argument("--scanner", metavar="CMD", help="another scanner: a command with {folder} in it")


def run_scan(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config)
    told: dict[str, list[Finding]] = {}
    for name in args.skills:
        skill = shop.skill(name)
        if not skill.addresses or "#" in skill.addresses[0]:
            raise InputError(f"{skill.name}: comes from a file of many skills, not from a folder; nothing to scan")
        told[skill.id] = scan(skill.addresses[0], args.scanner)
    if screen.json_wanted:
        screen.json({"schema": "metier-scan-v1", "findings": {k: [asdict(f) for f in v] for k, v in told.items()}})
        return 0
    for name, findings in told.items():
        screen.print(clean(f"{name}: {len(findings)} findings"))
        for found in findings:
            place = found.file if found.line is None else f"{found.file}:{found.line}"
            screen.print(clean(f"  {found.severity:8s} {place}: {one_line(found.title, 120)}"))
            if found.remedy:
                screen.print(clean(f"           {one_line(found.remedy, 160)}"))
    return 0
