"""The main verbs: `index`, `route`, `show`; `explain` has what a route looks like to people."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from metier.assemble.indexing import Built
from metier.assemble.registered import register, unregister
from metier.assemble.workshop import Workshop
from metier.disclose import within
from metier.edge import wire
from metier.edge.cli.explain import EXPLAINED, explain
from metier.edge.cli.screen import Screen, clean, line
from metier.errors import InputError
from metier.text import count_tokens
from metier.types import Skill

PROBLEMS_SHOWN = 10
"""Problems that `metier index` prints; `metier doctor` has all of them."""
REQUEST_LIMIT = 4_000_000
"""Bytes of a request read from stdin: a megabyte of pasted log is fine, a disk image is a mistake."""


# ------------------------------------------------------------------------------------------------------------ index


def add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders of skills, or JSONL files")
    parser.add_argument("--full", action="store_true", help="rebuild everything, background directions included")
    parser.add_argument("--forget", action="store_true", help="unregister PATH instead")
    parser.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ad-hoc", action="append", type=Path, help=argparse.SUPPRESS)


def run_index(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config, paths=args.ad_hoc)
    if args.forget:
        unregister(shop.store, args.paths)
        if screen.json_wanted:
            screen.json({"schema": "metier-unregister-v1", "paths": [str(p) for p in args.paths]})
            return 0
        screen.print(f"no longer registered: {', '.join(str(p) for p in args.paths)}")
        return 0
    if args.paths:
        register(shop.store, args.paths)
    built = shop.refresh(full=args.full, progress=screen.progress, patient=not args.background)
    for warning in shop.warnings:
        screen.note(f"warning: {warning}")
    if screen.json_wanted:
        screen.json(_index_json(built))
        return 0
    _print_built(built, screen)
    return 0


def _index_json(built: Built) -> dict[str, object]:
    return {
        "schema": "metier-index-v1",
        "skills": built.skills,
        "added": built.added,
        "changed": built.changed,
        "removed": built.removed,
        "unchanged": built.unchanged,
        "encoded": built.encoded,
        "problems": [
            {"path": p.path, "line": p.line, "code": p.code, "message": p.message, "remedy": p.remedy}
            for p in built.problems
        ],
        "shadowed": [s.skill.id for s in built.shadowed],
        "encoder": built.encoder,
        "generation": built.generation,
        "seconds": round(built.seconds, 3),
    }


def _print_built(built: Built, screen: Screen) -> None:
    screen.print(
        f"{built.skills} {'skill' if built.skills == 1 else 'skills'}: {built.added} added, {built.changed} changed, "
        f"{built.removed} removed, "
        f"{built.unchanged} unchanged, {len({p.path for p in built.problems})} with problems "
        f"({built.encoded} texts encoded, {built.seconds:.1f} s, encoder {built.encoder})"
    )
    if built.skills == 0:
        screen.print("No skills found; looked in:")
        for place in built.looked:
            screen.print(line(f"  {place}"))
    for problem in built.problems[:PROBLEMS_SHOWN]:
        screen.print(line(f"  {problem}"))
    if len(built.problems) > PROBLEMS_SHOWN:
        screen.print(f"  … and {len(built.problems) - PROBLEMS_SHOWN} more: metier doctor")


# ------------------------------------------------------------------------------------------------------------ route


def add_route(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="what someone wants done; - reads it from stdin")
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="route over these alone")
    parser.add_argument("--tools", action="append", metavar="T", help="tools the agent has (also a,b,c)")
    parser.add_argument("--stack", help="agent, model and settings, such as claude-code/opus-4.8")
    parser.add_argument("--family", help="family of the task")
    parser.add_argument("--session", help="what this session was already shown is not shown again")
    parser.add_argument("-k", type=int, help="candidates to print (10)")
    parser.add_argument("--budget", type=int, metavar="TOKENS", help="tokens of text for the agent, at most")
    parser.add_argument("--only", metavar="STAGES", help="stages to run: retrieve,rerank,gate")
    parser.add_argument("--host", help="the agent that reads the text")
    parser.add_argument("--why", action="store_true", help=f"reasons of every candidate, not of the first {EXPLAINED}")
    parser.add_argument("--text-only", action="store_true", help="print just what the agent would get")
    parser.set_defaults(setting_flags=("k", "budget", "host", "stack"))


def run_route(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config, paths=args.skills)
    tools = [t for group in args.tools for t in group.split(",") if t] if args.tools else None
    only = None if args.only is None else [s.strip() for s in args.only.split(",") if s.strip()]
    router = shop.router(only=only, source="cli", progress=screen.progress)
    route = router.route(_request(args.task), tools=tools, stack=args.stack, family=args.family, session=args.session)
    if screen.json_wanted:
        screen.json(wire.route(route, k=args.config.k))
    elif args.text_only:
        screen.print(route.text)
    else:
        explain(route, screen, k=args.config.k, reasons=args.config.k if args.why else EXPLAINED)
    _build_behind(shop, args, screen)
    return 0


def _request(task: str) -> str:
    if task != "-":
        return task
    data = sys.stdin.buffer.read(REQUEST_LIMIT + 1)
    if len(data) > REQUEST_LIMIT:
        raise InputError(
            f"stdin: the request has over {REQUEST_LIMIT:,} bytes; send the request without the attachment"
        )
    return data.decode("utf-8", errors="replace")


def _build_behind(shop: Workshop, args: argparse.Namespace, screen: Screen) -> None:
    """After the answer: what the index still lacks is built, with a bar in a terminal, else in a process behind."""
    if not shop.wants_refresh():
        return
    if sys.stderr.isatty() and not shop.complete():
        screen.note("building the full index for next time (Ctrl-C stops; what is done is kept) …")
        sys.stdout.flush()
        shop.refresh(progress=screen.progress)
        return
    shop.refresh_behind()


# ------------------------------------------------------------------------------------------------------------- show


def add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="name or id")
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="look among these alone")
    parser.add_argument("--resource", metavar="PATH", help="a file of the skill's folder")
    parser.add_argument("--budget", type=int, metavar="N", help="tokens; over it the text is named, never cut")
    parser.add_argument("--graph", action="store_true", help="its capabilities, methods, artifacts and constraints")
    parser.add_argument("--card", action="store_true", help="name, description and facts, without the body")


def run_show(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config, paths=args.skills)
    skill = shop.skill(args.skill)
    if args.graph:
        from metier.edge.cli.graph import show_graph

        return show_graph(shop, skill, screen)
    text = "" if args.card else shop.text(skill, args.resource)
    fits = args.budget is None or count_tokens(text) <= args.budget
    if screen.json_wanted:
        screen.json(
            {
                "schema": "metier-show-v1",
                **wire.skill(skill),
                "resources": list(skill.resources),
                "resource": args.resource,
                "over_budget": not fits,
                "tokens": count_tokens(text),
                "text": text if fits else None,
            }
        )
        return 0
    if args.card:
        _print_card(skill, screen)
        return 0
    screen.print(within(clean(text), args.budget, name=skill.name))
    return 0


def _print_card(skill: Skill, screen: Screen) -> None:
    screen.print(screen.style(clean(skill.name), "bold"))
    import textwrap

    screen.print(textwrap.fill(clean(skill.description), screen.width))
    facts = {
        "id": skill.id,
        "where": "\n          ".join(skill.addresses),
        "digest": skill.digest,
        "body": f"{skill.body_tokens} tokens",
        "files": ", ".join(skill.resources),
        "flags": ", ".join(sorted(skill.flags)),
        "needs": ", ".join(f"{'|'.join(r.names)} ({r.kind})" for r in skill.requires if r.declared),
        "not for": "; ".join(skill.excludes),
    }
    for key, value in facts.items():
        if value:
            screen.print(f"  {key:8s}{clean(value)}")
