#!/usr/bin/env python3
"""Write docs/cli.md from the parsers themselves, so that the page cannot say anything else than the program does.

usage: python tools/cli_docs.py          (a test compares the page with what this prints)
"""

import argparse
from pathlib import Path

from metier.edge.cli.main import VERBS, parser_of

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
COMMON = ("json", "quiet", "home", "set", "help")
HEAD = """# The command line

Generated from the parsers by `python tools/cli_docs.py`; do not edit.

Exit codes: 0 done · 1 a metier error (one line on stderr, nothing on stdout) · 2 wrong usage · 130 interrupted.

Every verb takes `--json` (one JSON object with a `schema` field, and nothing else on stdout), `--quiet`, `--home DIR`, and `--set KEY=VALUE` for any setting of `metier config`. Progress and remarks go to stderr; bars are drawn on a terminal only; `NO_COLOR` is honoured.
"""  # noqa: E501


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(verb) for verb in VERBS)])


def section(verb: str) -> str:
    """One verb: what it does, its usage line, its arguments."""
    parser = parser_of(verb)
    actions = [a for a in parser._actions if a.dest not in COMMON and a.help != argparse.SUPPRESS]
    usage = " ".join(["metier", verb, *(shape(a) for a in actions)])
    rows = [f"| `{names(a)}` | {(a.help or '').replace('|', chr(92) + '|')} |" for a in actions]
    table = "\n".join(["| argument | what |", "|---|---|", *rows]) + "\n" if rows else ""
    return f"## metier {verb}\n\n{VERBS[verb][1][0].upper() + VERBS[verb][1][1:]}.\n\n```\n{usage}\n```\n\n{table}"


def value(action: argparse.Action) -> str:
    """How the value of an argument is shown; nothing for a switch."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return "|".join(map(str, action.choices))
    shown = action.metavar or action.dest.upper()
    return shown if isinstance(shown, str) else " ".join(shown)


def shape(action: argparse.Action) -> str:
    """The argument's place in the usage line."""
    shown = value(action)
    if not action.option_strings:
        return f"[{shown} …]" if action.nargs == "*" else f"[{shown}]" if action.nargs == "?" else shown
    text = f"{action.option_strings[-1]} {shown}".strip()
    return text if action.required else f"[{text}]"


def names(action: argparse.Action) -> str:
    """The argument as the table lists it."""
    shown = value(action)
    return " ".join([", ".join(action.option_strings), shown]).strip() if action.option_strings else shown


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
