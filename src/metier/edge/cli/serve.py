"""`metier serve`: the HTTP API and the dashboard, until it is stopped."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from metier.assemble import settings
from metier.assemble.workshop import Workshop
from metier.edge import wire
from metier.edge.cli.screen import Screen
from metier.edge.hooks.desk import Desk as Hooks
from metier.edge.web import server

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this machine reaches."""


def add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", dest="bind", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=server.PORT, help=f"port; 0 takes any free one ({server.PORT})")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another name this server is reached by"
    )
    parser.add_argument("--skills", action="append", type=Path, metavar="PATH", help="serve these alone")
    parser.add_argument("--idle", type=float, default=0.0, metavar="SECONDS", help="end when nobody asks for so long")
    parser.add_argument("--link", action="store_true", help="print a link to the running dashboard, and end")


def run_serve(args: argparse.Namespace, screen: Screen) -> int:
    home = Path(args.config.home)
    if args.link:
        link = server.fresh_link(home)
        if screen.json_wanted:
            screen.json(wire.link(link))
        else:
            screen.print(link)
        return 0

    def ready(told: server.Running, link: str) -> None:
        if screen.json_wanted:
            screen.json({"schema": "metier-serve-v1", "address": told.address, "pid": told.pid, "link": link})
        else:
            screen.print(
                f"metier at {told.address}, for you alone. Open the dashboard (this link works once):\n\n  {link}\n"
            )
            screen.note(f"programs send the token in {home / 'token'} as 'Authorization: Bearer …'; Ctrl-C stops")
        screen.out.flush()

    # Two threads route at once; a second BLAS thread for each would only spin (measured: 34 ms of processor time a
    # route instead of 16). It counts only before numpy is loaded, and a value that the user set stays.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    shop = Workshop(args.config, paths=args.skills)
    hooks = Hooks(
        open=lambda folder, host: _hooked(shop, args, folder, host),
        deadline=args.config.hook_deadline,
        complain=screen.note,
    )
    server.serve(shop, host=args.bind, port=args.port, allow=args.allow_host, hook=hooks, ready=ready, idle=args.idle)
    screen.note("stopped")
    return 0


def _hooked(shop: Workshop, args: argparse.Namespace, folder: Path, host: str) -> Workshop:
    """The workshop that answers hooks in `folder`: its own project's skills, this home, one encoder in memory."""
    config, _ = settings.load(flags={"home": str(shop.home), "host": host}, cwd=folder)
    shared = shop.encoder if config.encoder == shop.config.encoder else None
    return Workshop(config, cwd=folder, paths=args.skills, encoder=shared)
