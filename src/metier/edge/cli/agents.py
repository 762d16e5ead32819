"""What agents and their hosts are given: `mcp`, `hook`, `install`, `uninstall`."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from metier.assemble.workshop import Workshop
from metier.edge.cli.screen import Screen
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
    from metier.edge.hooks.entry import HOSTS

    parser.add_argument("host", choices=HOSTS, help="the agent that calls")


def run_hook(args: argparse.Namespace, screen: Screen) -> int:
    from metier.edge.hooks import entry

    entry.run([args.host, *([f"--home={args.home}"] if args.home else [])])
    return 0
