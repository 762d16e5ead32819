"""What agents and their hosts are given: `mcp`, `hook`, `install`, `uninstall`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from metier.assemble.settings import placed
from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen, clean
from metier.edge.install.manifest import Commands, host
from metier.edge.install.plan import Change, Ledger, Wish
from metier.errors import InputError
from metier.types import Config

# -------------------------------------------------------------------------------------------------------------- mcp


def add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--http", action="store_true", help="streamable HTTP at /mcp instead of stdin and stdout")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on with --http (127.0.0.1)")
    parser.add_argument("--port", type=int, default=7718, help="port to listen on with --http (7718)")


def run_mcp(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.mcp.server import serve_http, serve_stdio

    shop = Workshop(for_mcp(args.config))
    if args.http:
        screen.note(f"metier mcp: http://{args.host}:{args.port}/mcp (Ctrl-C stops)")
        serve_http(shop, host=args.host, port=args.port, token=os.environ.get("METIER_MCP_TOKEN"))
    else:
        serve_stdio(shop)
    return 0


def for_mcp(config: Config) -> Config:
    """Cards say how to call `load_skill`; a body goes out by that call alone; requests are logged as hashes."""
    text = config.log_text if "log_text" in config.sources else "hash"
    return replace(config, host="mcp", loads=0, cover_loads=0, log_text=text)


# ------------------------------------------------------------------------------------------------------------- hook


def add_hook(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", nargs="*", help="the agent that calls; an unknown word does no harm")


def run_hook(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.hooks import entry

    entry.run([*args.host, *([f"--home={args.home}"] if args.home else [])])
    return 0


# --------------------------------------------------------------------------------------------- install and uninstall


def add_install(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument("--plugin", action="store_true", help="as a Claude Code plugin instead of settings")
    parser.add_argument("--no-hooks", action="store_true", help="the MCP server alone")
    parser.add_argument("--no-mcp", action="store_true", help="the hooks alone")
    parser.add_argument(
        "--http",
        metavar="URL",
        nargs="?",
        const="http://127.0.0.1:7717",
        help="let the hooks ask a running `metier serve` (at URL); it and the host need the same METIER_TOKEN",
    )


def add_uninstall(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", help="the agent: claude-code, codex, cursor, opencode, gemini, qwen, generic, …")
    parser.add_argument("--project", action="store_true", help="in this folder's configuration instead of the user's")
    parser.add_argument(
        "--file",
        type=Path,
        help="this file instead of the host's usual one: for its MCP server, or with --no-mcp for its hooks",
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the difference and change nothing")


def run_install(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.install import plan, plugin

    wish, ledger = _wish(args), plan.Ledger(Path(args.config.home))
    commands = Commands(home=_named_home(args), url=args.http)
    if not wish.parts():
        raise InputError(
            f"install {args.host}: with these flags nothing is left to install"
            + ("" if wish.host.hook_part else "; metier has no hooks for this host")
        )
    if not args.plugin:
        return _carry_out(plan.install(wish, commands), args, screen, ledger, undo=False, note=wish.host.note)
    changes = plugin.plan(wish, commands, ledger.home, version("metier"))
    note = (
        "Claude Code loads it at its next start; at once: claude plugin marketplace add "
        f"{ledger.home / 'claude-plugin'} && claude plugin install {plan.PLUGIN}"
    )
    return _carry_out(changes, args, screen, ledger, undo=False, note=note)


def run_uninstall(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.install import plan, plugin

    wish, ledger = _wish(args), plan.Ledger(Path(args.config.home))
    changes = plan.uninstall(wish, ledger)
    if args.host == "claude-code" and not args.project:
        changes += plugin.removal(ledger.home)
    return _carry_out(changes, args, screen, ledger, undo=True, note="")


def _wish(args: argparse.Namespace) -> Wish:
    known = host(args.host)
    if known.name == "generic" and args.file is None:
        raise InputError("install generic: say which file, such as --file ~/.config/agent/mcp.json")
    mcp = not getattr(args, "no_mcp", False)
    hooks = not getattr(args, "no_hooks", False) and (args.file is None or not mcp)  # one file, one kind of entry
    return Wish(
        host=known,
        where="project" if args.project else "user",
        cwd=Path.cwd(),
        env=os.environ,
        hooks=hooks,
        mcp=mcp,
        file=None if args.file is None else _placed(args.file),
    )


def _named_home(args: argparse.Namespace) -> str | None:
    """The home, where it is not the one that metier would find by itself in a host's environment."""
    given = args.home or os.environ.get("METIER_HOME")
    return str(placed(given)) if given else None


def _placed(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise InputError(
            f"--file {path}: there is no home folder for {path.parts[0]!r}; write the whole path"
        ) from error


def _carry_out(
    changes: list[Change], args: argparse.Namespace, screen: Screen, ledger: Ledger, *, undo: bool, note: str
) -> int:
    verb = "uninstall" if undo else "install"
    shown = {"schema": f"metier-{verb}-v1", "host": args.host, "changed": [str(c.path) for c in changes]}
    if not changes:
        state = "not installed" if undo else "already installed"
        if screen.json_wanted:
            screen.json({**shown, "written": False, "backups": []})
        else:
            screen.print(f"{args.host}: {state}; there is nothing to change")
        return 0
    if not screen.json_wanted:
        for change in changes:
            screen.print(clean(change.diff()))
    backups: list[Path] = []
    write = not args.dry_run and (args.yes or _agreed(screen))
    if write:
        backups = ledger.apply(changes, undo=undo)
    if screen.json_wanted:
        diffs = {str(c.path): c.diff() for c in changes}
        screen.json({**shown, "diffs": diffs, "written": write, "backups": [str(b) for b in backups]})
        return 0
    if not write:
        screen.print("nothing was changed")
        return 0
    for backup in backups:
        screen.print(f"what was there before: {backup}")
    screen.print(f"{args.host}: {verb}ed" + (f". {note}" if note else ""))
    if not undo and not args.no_mcp and find_spec("mcp") is None:
        screen.note(
            "warning: the MCP server cannot start yet; run: pip install 'metier[mcp]' (or install with --no-mcp)"
        )
    return 0


def _agreed(screen: Screen) -> bool:
    if screen.json_wanted or not sys.stdin.isatty():
        raise InputError("nobody is there to ask; repeat with --yes, or with --dry-run to see the difference alone")
    screen.err.write("Write this? [y/N] ")
    screen.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
