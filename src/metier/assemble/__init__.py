"""From a `Config` to a `Router`: settings, views, indexing, stages, and the workshop that holds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metier.router import Router
from metier.types import Config, Library


def open(library: Library | None = None, *, config: Config | None = None, **settings: Any) -> Router:
    """A router over `library` (or over the known places), its index built or loaded beside the store.

    `settings` are those of `metier config`, such as `home=`, `k=`, `stack=`. Raises `ConfigError` for a wrong one.
    """
    from metier.assemble.settings import load
    from metier.assemble.workshop import Workshop

    if config is None:
        config, _ = load(flags=settings)
    shop = Workshop(config, library=library)
    if not shop.complete():
        shop.refresh()
    return shop.router()


def scan(*paths: str | os.PathLike[str]) -> Library:
    """The skills under these folders or in these JSONL files; with no path, those of the default places."""
    from metier.assemble.settings import placed
    from metier.library.places import places
    from metier.library.scan import Root
    from metier.library.scan import scan as scan_roots

    roots: Sequence[Root] = [Root(placed(Path(p)), "given") for p in paths]
    return scan_roots(roots or places(Path.cwd(), os.environ))
