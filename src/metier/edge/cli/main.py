"""`metier VERB …`: finds the verb, imports only its module, and turns errors into exit codes.

0 done · 1 a metier error (one line on stderr, nothing on stdout) · 2 wrong usage · 130 interrupted.
"""
# two things are to be settled before the rest is imported
# ruff: noqa: E402

from __future__ import annotations

import contextlib
import os
import signal

_INTERRUPT = signal.getsignal(signal.SIGINT)
with contextlib.suppress(ValueError):  # another thread's import is nobody's to interrupt
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the rest is imported ends it without a traceback
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when numpy loads: two spinning threads cost a second

import argparse
import gc
import importlib
import io
import sys
from collections.abc import Sequence

from metier.errors import ConfigError, MetierError

with contextlib.suppress(ValueError, TypeError):
    signal.signal(signal.SIGINT, _INTERRUPT)

_HERE = "metier.edge.cli"
VERBS: dict[str, tuple[str, str]] = {
    "index": ("routing", "scan skills and (re)build the index; unchanged skills are never encoded again"),
    "route": ("routing", "the main job: a task → ranked skills with evidence and verdicts, and the text for the agent"),
    "show": ("routing", "one skill: its card, body, a resource, or its capability graph"),
    "demo": ("demo", "the main job on the bundled example skills, explained step by step"),
    "doctor": ("upkeep", "every problem in the library, with its remedy"),
    "budget": ("upkeep", "what a host's own skill listing shows and cuts"),
    "config": ("upkeep", "every setting with its value and source"),
    "forget": ("upkeep", "empty the route log"),
    "record": ("bank", "write back an outcome of a route"),
    "bank": ("bank", "evidence per stack and skill: show, import, export, plan"),
    "collect": ("collect", "paired runs of a real agent with and without a skill"),
    "expand": ("learn", "let a language model write the requests that each skill answers"),
    "graph": ("graph", "capability graphs: build, audit, export"),
    "train": ("learn", "fine-tune the encoder on request–skill pairs"),
    "eval retrieval": ("eval_retrieval", "retrieval benchmarks, module by module"),
    "eval rerank": ("eval_rerank", "the controlled look-alike test"),
    "eval gate": ("eval_gate", "the gate on a panel of paired outcomes"),
    "diagnose": ("diagnose", "background gap, unsaid vocabulary, dilution"),
    "serve": ("serve", "HTTP API and dashboard"),
    "mcp": ("agents", "MCP server on stdio, or over HTTP"),
    "install": ("agents", "write an agent's configuration (shows the difference first)"),
    "uninstall": ("agents", "take that configuration out again, without trace"),
    "scan": ("safety", "a second opinion on third-party skills, from a scanner that you installed"),
    "hook": ("agents", "the hook itself: JSON on stdin, JSON on stdout, always exit 0"),
}

TRACEBACK = "METIER_TRACEBACK"
"""Environment variable that lets a fault of metier's own be seen whole."""
_SHORT = ("route", "show")
"""Verbs that end right after their answer; nothing of theirs waits to be written at exit."""
_SELF_CONFIGURED = ("hook",)
"""Verbs that must answer even where the configuration is broken; they load it themselves."""


def run(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `metier` command."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0] in _SHORT:
        gc.disable()  # nothing a short command makes is worth a collection
    _streams()
    try:
        code = main(words)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the verb had begun
        code = 130
    except BrokenPipeError:  # `metier … | head` is no error
        _discard()
        code = 0
    except OSError as error:  # a full disk behind `> file`
        _discard()
        sys.stderr.write(
            f"metier: the answer could not be written ({error.strerror}); free space, or send it elsewhere\n"
        )
        code = 1
    if words[:1] and words[0] in _SHORT:
        sys.stderr.flush()
        os._exit(code)  # tearing the interpreter down costs as much as the answer
    sys.exit(code)


def _streams() -> None:
    """Descriptors 0 to 2 are open and every character can be written: a locale without UTF-8 loses signs, no answer."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed by the caller: the next file opened, perhaps the store, must not take its place
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard() -> None:
    """What is still to be written to stdout goes nowhere, so that leaving cannot fail over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(words: Sequence[str]) -> int:
    """Runs one verb and returns its exit code."""
    verb, rest = _split(words)
    if verb is None:
        return _without_verb(rest)
    parser = parser_of(verb)
    args = parser.parse_args(rest)
    from metier.edge.cli.screen import Screen

    screen = Screen(json_wanted=args.json, quiet=args.quiet, out=sys.stdout, err=sys.stderr)
    module = importlib.import_module(f"{_HERE}.{VERBS[verb][0]}")
    try:
        if verb not in _SELF_CONFIGURED:
            from metier.assemble import settings

            args.config, warnings = settings.load(flags=_flags(args))
            for warning in warnings:
                screen.note(f"warning: {warning}")
        return int(getattr(module, f"run_{_slug(verb)}")(args, screen))
    except MetierError as error:
        screen.error(f"metier {verb}: {error}")
        for choice in getattr(error, "choices", ()):
            screen.error(f"  {choice}")
        return 1
    except KeyboardInterrupt:
        screen.error(f"metier {verb}: interrupted; what was finished is kept, run it again to go on")
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # the edge's last net: whatever breaks, one line and an exit code
        if os.environ.get(TRACEBACK):
            raise
        if isinstance(error, OSError) and error.filename is not None:
            what = f"{error.filename}: {error.strerror}; see that it can be read and written, or name another place"
            screen.error(f"metier {verb}: {what}")
            return 1
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        screen.error(f"metier {verb}: failed unexpectedly ({cause}); report what it prints with {TRACEBACK}=1 set")
        return 1


def _split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb (one or two words) and what follows it."""
    two = " ".join(words[:2])
    if two in VERBS:
        return two, list(words[2:])
    if words and words[0] in VERBS:
        return words[0], list(words[1:])
    return None, list(words)


def _without_verb(words: Sequence[str]) -> int:
    if words and words[0] in ("--version", "-V"):
        from importlib.metadata import version

        sys.stdout.write(f"metier {version('metier')}\n")
        return 0
    group = [verb for verb in VERBS if words and verb.startswith(f"{words[0]} ")]
    if group:  # `metier eval` and `metier eval --help`: the verbs that begin so
        asked = words[1:2] in (["--help"], ["-h"])
        lines = "\n".join(f"  metier {verb}    {VERBS[verb][1]}" for verb in group)
        (sys.stdout if asked else sys.stderr).write(f"metier {words[0]}: say which one:\n\n{lines}\n")
        return 0 if asked else 2
    wanted = not words or words[0] in ("--help", "-h", "help")
    stream = sys.stdout if wanted else sys.stderr
    if not wanted:
        stream.write(f"metier: there is no verb '{words[0]}'; these are:\n\n")
    stream.write(overview())
    return 0 if wanted else 2


def overview() -> str:
    """The list of verbs, as `metier --help` prints it."""
    width = max(len(verb) for verb in VERBS)
    lines = [f"  {verb.ljust(width)}  {about}" for verb, (_, about) in VERBS.items()]
    return (
        "metier: routes an agent's task to the right skill, and loads it only when it will help\n\n"
        "usage: metier VERB [options]     (metier VERB --help explains one)\n\n" + "\n".join(lines) + "\n\n"
        'start:  metier demo        or        metier route "fill in this scanned tax form"\n'
    )


class _Help(argparse.HelpFormatter):
    """argparse's own, told the width: asking for it would load archivers at every start."""

    def __init__(self, prog: str) -> None:
        from metier.edge.cli.screen import columns

        super().__init__(prog, width=columns(80) - 2)


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb, its own arguments and the common ones."""
    name, about = VERBS[verb]
    parser = argparse.ArgumentParser(
        prog=f"metier {verb}", description=about[0].upper() + about[1:] + ".", formatter_class=_Help
    )
    module = importlib.import_module(f"{_HERE}.{name}")
    getattr(module, f"add_{_slug(verb)}")(parser)
    common = parser.add_argument_group("common")
    common.add_argument("--json", action="store_true", help="print one JSON object and nothing else on stdout")
    common.add_argument("--quiet", "-q", action="store_true", help="no remarks and no progress on stderr")
    common.add_argument("--home", metavar="DIR", help="metier's own folder (default: $METIER_HOME)")
    common.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of `metier config`, for this call"
    )
    return parser


def _slug(verb: str) -> str:
    return verb.replace(" ", "_").replace("-", "_")


def _flags(args: argparse.Namespace) -> dict[str, object]:
    """Flags that are settings: `--home`, `--set`, and those a verb marks in `args.setting_flags`."""
    flags: dict[str, object] = {"home": args.home}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set: {pair!r} has no '='; write KEY=VALUE")
        flags[key.strip()] = value
    for name in getattr(args, "setting_flags", ()):
        if getattr(args, name) is not None:
            flags[name] = getattr(args, name)
    return flags


if __name__ == "__main__":
    run()
