"""`metier graph`: build capability graphs, show what is worth a person's look, export; `metier show --graph SKILL`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen, clean
from metier.errors import ConfigError, InputError, LLMError, NotFound
from metier.types import Skill

if TYPE_CHECKING:
    from metier.models.llm import ChatLLM
    from metier.rerank.calibrate import Judged
    from metier.rerank.extract import Extract
    from metier.rerank.graph import SkillGraph

BATCH = 200
"""Graphs saved together: a second's work is lost when someone interrupts."""
AUDITED = 25
"""Suspicious elements printed; --json has all of them."""


def add_graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("build", "audit", "export"), default="build")
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="over these alone")
    parser.add_argument("--llm", action="store_true", help="let the configured language model read the skills")
    parser.add_argument("--max-calls", type=int, metavar="N", help="calls to the model, at most")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens sent and received, at most")
    parser.add_argument("--plan", action="store_true", help="say what --llm would cost and stop")
    parser.add_argument("--full", action="store_true", help="read every skill again")
    parser.add_argument("--shared", action="store_true", help="also find expressions that several skills share")
    parser.add_argument("--calibrate", action="store_true", help="audit: move reliabilities by recorded outcomes")
    parser.add_argument("--correct", dest="corrections", action="append", nargs=3, metavar=("SKILL", "ELEMENT", "RHO"),
                        help="audit: a person's word on one element, 0..1")  # fmt: skip
    parser.add_argument("--format", choices=("json", "graphml"), default="json", help="export: the form")
    parser.add_argument("--out", type=Path, metavar="FILE", help="export: the file; stdout without it")


def run_graph(args: argparse.Namespace, screen: Screen) -> int:
    shop = Workshop(args.config, paths=args.skills)
    if args.action == "audit":
        return _audit(shop, args, screen)
    if args.action == "export":
        return _export(shop, args, screen)
    return _build(shop, args, screen)


# ------------------------------------------------------------------------------------------------------------ build


def _build(shop: Workshop, args: argparse.Namespace, screen: Screen) -> int:
    from metier.rerank.extract import RULES, extract
    from metier.rerank.keep import known
    from metier.rerank.llm_extract import name_of

    llm = _llm(shop, args) if args.llm or args.plan else None
    extractor = name_of(llm) if llm is not None else RULES
    skills = list(shop.library.skills)
    have = frozenset[str]() if args.full else known(shop.store, extractor)
    todo = list({s.digest: s for s in skills if s.digest not in have}.values())
    if args.plan and llm is not None:
        return _plan(shop, llm, todo, screen)
    if llm is not None:
        from metier.rerank.llm_extract import by_llm

        made, failed, why = _by_model(shop, todo, by_llm(llm), screen)
    else:
        made, failed, why = _by_rules(shop, todo, extract, screen), 0, ""
    shared = _join(shop, skills, screen) if args.shared else None
    shown = {
        "schema": "metier-graph-build-v1", "extractor": extractor, "skills": len(skills), "made": made,
        "unchanged": len(skills) - len(todo), "failed": failed, "stopped": why or None, "shared": shared,
    }  # fmt: skip
    if screen.json_wanted:
        screen.json(shown)
    else:
        screen.print(f"{made} graphs made by {extractor}, {len(skills) - len(todo)} were there, {failed} failed")
        if shared is not None:
            screen.print(f"{shared} expressions stand for something that another skill says too")
        if why:
            screen.print(clean(why))
    return 0


def _llm(shop: Workshop, args: argparse.Namespace) -> ChatLLM:
    from metier.models.llm import open_llm
    from metier.models.spending import Budget

    if not shop.config.llm:
        raise ConfigError("llm.model is not set; write MODEL@URL in metier.toml, or leave --llm out: rules need none")
    return open_llm(
        shop.config.llm, shop.store, budget=Budget(calls=args.max_calls, tokens=args.max_tokens), received=4000
    )


def _plan(shop: Workshop, llm: ChatLLM, todo: Sequence[Skill], screen: Screen) -> int:
    from metier.models.llm import Ask
    from metier.rerank.llm_extract import MAX_SENT, SCHEMA, prompt

    asks = [Ask(prompt(f"{s.name}\n{s.description}\n\n{shop.body(s)}"[:MAX_SENT]), SCHEMA) for s in todo]
    estimate = str(llm.estimate(asks))
    if screen.json_wanted:
        screen.json({"schema": "metier-graph-plan-v1", "model": llm.name, "skills": len(todo), "estimate": estimate})
    else:
        screen.print(f"{len(todo)} skills would be read: {estimate}")
    return 0


def _by_rules(shop: Workshop, todo: Sequence[Skill], extract: Extract, screen: Screen) -> int:
    from metier.rerank.keep import save

    show, batch, made = screen.progress("reading skills", len(todo)), list["SkillGraph"](), 0
    for n, skill in enumerate(todo, start=1):
        batch.append(extract(skill, shop.body(skill)))
        if len(batch) == BATCH or n == len(todo):
            made += save(shop.store, batch)
            batch.clear()
            show(n)
    return made


def _by_model(shop: Workshop, todo: Sequence[Skill], extract: Extract, screen: Screen) -> tuple[int, int, str]:
    from metier.errors import BudgetSpent
    from metier.rerank.keep import save
    from metier.rerank.llm_extract import each

    show, made, failed, why = screen.progress("asking the model", len(todo)), 0, 0, ""
    for n, (skill, found) in enumerate(each(todo, shop.body, extract), start=1):
        if isinstance(found, BudgetSpent):
            why = f"stopped: {found}"
        elif isinstance(found, LLMError):
            failed += 1
            screen.note(f"{skill.id}: {found}")
        else:
            made += save(shop.store, [found])
        show(n)
    return made, failed, why


def _join(shop: Workshop, skills: Sequence[Skill], screen: Screen) -> int:
    """Every stored graph is part of the shared layer; the number of merged expressions."""
    from metier.rerank.canon import Canons
    from metier.rerank.keep import save

    canons, batch = Canons.open(shop.store, shop.encoder), list["SkillGraph"]()
    show = screen.progress("finding what skills share", len(skills))
    for n, skill in enumerate(skills, start=1):
        graph = shop.graphs.stored(skill)
        if graph is not None and not all(node.canon for node in graph.nodes):
            batch.append(canons.join(graph))
        if batch and (len(batch) == BATCH or n == len(skills)):
            save(shop.store, batch)
            batch.clear()
        show(n)
    return canons.merged


# ------------------------------------------------------------------------------------------------- audit and export


def _audit(shop: Workshop, args: argparse.Namespace, screen: Screen) -> int:
    from metier.rerank.calibrate import attribute, audit, calibrated
    from metier.rerank.keep import judge

    if args.corrections:
        for name, element, value in args.corrections:
            _correct(shop, name, element, value)
        if screen.json_wanted:
            screen.json({"schema": "metier-graph-correct-v1", "kept": len(args.corrections)})
        else:
            screen.print(f"{len(args.corrections)} corrections kept")
        return 0
    pairs = _judged(shop)
    found = attribute(pairs)
    if args.calibrate:
        graphs = {g.digest: g for p in pairs for g in (p.better, p.worse)}
        rows = [(g.digest, x, v, "attribution") for g in graphs.values() for x, v in calibrated(g, found).items()]
        moved = judge(shop.store, rows, origin="calibration")
        screen.note(f"{moved} reliabilities moved by {len(pairs)} judged pairs")
    graphs = {g.digest: g for p in pairs for g in (p.better, p.worse)}
    elements = [
        {"skill": graphs[digest].name, "digest": digest, "element": element, "suspicion": round(value, 4),
         "text": _text_of(graphs[digest], element)}
        for (digest, element), value in audit(found)
    ]  # fmt: skip
    if screen.json_wanted:
        screen.json({"schema": "metier-graph-audit-v1", "pairs": len(pairs), "elements": elements})
    elif not pairs:
        screen.print(
            "No judged pairs yet: two skills used for one task with different success (metier record) make one."
        )
    else:
        screen.print(f"The most suspicious of {len(found.values)} elements that {len(pairs)} judged pairs touched:")
        shown = [
            [f"{r['suspicion']:+.3f}", str(r["skill"]), str(r["element"]), str(r["text"])] for r in elements[:AUDITED]
        ]
        screen.table(shown, ["suspicion", "skill", "element", "text"])
        screen.print("Correct one with: metier graph audit --correct SKILL ELEMENT 0.1")
    return 0


def _judged(shop: Workshop) -> list[Judged]:
    from metier.rerank.calibrate import pairs_of

    now = {(s.id, s.digest): s for s in shop.library.skills}

    def graph(skill_id: str, digest: str) -> SkillGraph | None:
        skill = now.get((skill_id, digest))
        return shop.graphs(skill).graph if skill is not None else None

    return pairs_of([row.outcome for row in shop.bank.outcomes()], graph)


def _correct(shop: Workshop, name: str, element: str, value: str) -> None:
    from metier.rerank.keep import judge

    skill = shop.skill(name)
    graph = shop.graphs(skill).graph
    known = {n.id for n in graph.nodes} | {e.id for e in graph.edges}
    if element not in known:
        raise NotFound(f"{skill.name} has no element {element!r}; its nodes are", tuple(n.id for n in graph.nodes[:40]))
    try:
        rho = float(value)
    except ValueError:
        rho = -1.0
    if not 0.0 <= rho <= 1.0:
        raise InputError(f"--correct {name} {element} {value}: a reliability is a number from 0 to 1")
    judge(shop.store, [(skill.digest, element, rho, "audit")], origin="person")
    shop.graphs.forget(skill.digest)


def _text_of(graph: SkillGraph, element: str) -> str:
    node = graph.node(element)
    if node is not None:
        return node.text
    parts = element.split(" ")
    ends = [graph.node(parts[0]), graph.node(parts[-1])]
    return " → ".join(n.text[:60] if n else graph.name for n in ends)


def _export(shop: Workshop, args: argparse.Namespace, screen: Screen) -> int:
    from metier.rerank.graph import to_graphml, to_json

    graphs = [shop.graphs(s).graph for s in shop.library.skills]
    text = to_graphml(graphs) if args.format == "graphml" else to_json(graphs)
    if args.out is None:
        screen.print(text)
        return 0
    try:
        args.out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{args.out}: cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from error
    screen.note(f"wrote {len(graphs)} graphs to {args.out}")
    return 0


# ------------------------------------------------------------------------------------------------------------- show


def show_graph(shop: Workshop, skill: Skill, screen: Screen) -> int:
    """The capability graph of one skill as a tree, or as JSON."""
    from metier.rerank.graph import as_dict, tree

    graph = shop.graphs(skill).graph
    if screen.json_wanted:
        screen.json({"schema": "metier-show-graph-v1", "id": skill.id, "graph": as_dict(graph)})
        return 0
    for line in tree(graph, width=max(40, screen.width - 24)):
        screen.print(clean(line))
    return 0
