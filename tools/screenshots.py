"""Makes the pictures of `docs/dashboard.md`: a seeded home over the example skills, a real server, a real Chromium.

    python tools/screenshots.py [--into docs/images] [--chromium /usr/bin/chromium] [--only try,library]

Needs `metier[serve]` and `playwright` (any Chromium will do). The outcomes are invented by `tests/edge/seeded.py`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
DESKTOP, NARROW = (1280, 860), (390, 844)
REQUEST = "the nightly report query became slow after the release"
SHOTS: tuple[tuple[str, str, tuple[int, int], str], ...] = (
    ("try", "/", DESKTOP, "light"),
    ("try-dark", "/", DESKTOP, "dark"),
    ("try-narrow", "/", NARROW, "light"),
    ("library", "/library", DESKTOP, "light"),
    ("skill", "/library/skill?id=sql-tuning", DESKTOP, "light"),
    ("problems", "/library/problems", DESKTOP, "light"),
    ("look-alikes", "/library/look-alikes", DESKTOP, "light"),
    ("copies", "/library/copies", DESKTOP, "light"),
    ("budget", "/library/budget?host=codex", DESKTOP, "light"),
    ("evidence", "/evidence", DESKTOP, "light"),
    ("evidence-narrow", "/evidence", NARROW, "dark"),
    ("routes", "/routes", DESKTOP, "light"),
    ("routes-narrow", "/routes", NARROW, "light"),
    ("route", "ROUTE", DESKTOP, "light"),
    ("operations", "/operations", DESKTOP, "light"),
    ("operations-dark", "/operations", DESKTOP, "dark"),
)
"""(file, page, size of the window, colours)."""
KEPT = ("try", "try-narrow", "library", "evidence", "routes", "operations-dark")
"""Those that the documentation shows."""


@contextmanager
def served(shop: Any) -> Iterator[Any]:
    """The shop behind a real server on a free port, in a thread."""
    from metier.edge.web.server import prepared

    with prepared(shop, port=0) as made:
        thread = threading.Thread(target=made.run)
        thread.start()
        try:
            yield made
        finally:
            made.server.should_exit = True
            thread.join(10)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    options.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options.add_argument("--only", default=",".join(KEPT), help="names of pictures, or 'all'")
    options.add_argument("--skills", type=Path, default=None, help="another library than the examples")
    options.add_argument("--full", action="store_true", help="the whole page instead of its first screen")
    wanted = options.parse_args()
    names = {s[0] for s in SHOTS} if wanted.only == "all" else set(wanted.only.split(","))
    from playwright.sync_api import sync_playwright

    from edge.seeded import seeded

    wanted.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="metier-shots-") as folder, sync_playwright() as play:
        shop = seeded(Path(folder) / "home", *([wanted.skills] if wanted.skills else []), encoder="minilm")
        with served(shop) as made:
            browser = play.chromium.launch(executable_path=wanted.chromium, args=list(FLAGS))
            link = made.link
            state = None
            for name, path, (width, height), colours in SHOTS:
                if name not in names:
                    continue
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=colours, storage_state=state,
                    device_scale_factor=1,
                )  # fmt: skip
                page = context.new_page()
                if state is None:
                    page.goto(link)
                    state = context.storage_state()
                if path == "/":
                    page.goto(made.told.address + "/")
                    page.fill("#task", REQUEST)
                    page.click("button[type=submit]")
                    page.wait_for_selector("#slate")
                    page.locator(".slate details").first.locator("summary").click()
                    page.evaluate("scrollTo(0, 0)")
                else:
                    target = shop.store.rows("SELECT id FROM routes ORDER BY at DESC LIMIT 1")[0]["id"]
                    page.goto(made.told.address + path.replace("ROUTE", f"/routes/{target}"))
                    page.wait_for_selector("[data-again]", state="detached", timeout=60_000)
                page.screenshot(path=wanted.into / f"{name}.png", full_page=wanted.full)
                sys.stdout.write(
                    f"{wanted.into / name}.png {(wanted.into / f'{name}.png').stat().st_size / 1000:.0f} kB\n"
                )
                context.close()
            browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
