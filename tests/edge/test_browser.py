"""The dashboard in a real Chromium: flows clicked, keys pressed, no serious finding of axe-core, nothing from outside.

Needs Chromium (`METIER_CHROMIUM`, or on the path), `playwright`, and for the accessibility test axe-core's
`axe.min.js` (`METIER_AXE`); what is missing is skipped and said.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs metier[serve]")
pytest.importorskip("playwright.sync_api", reason="needs playwright")

from playwright import sync_api

from .seeded import REQUESTS, seeded
from .served import Client, served

CHROMIUM = os.environ.get("METIER_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
AXE = os.environ.get("METIER_AXE", "")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PAGES = (
    "/", "/library", "/library/skill?id=sql-tuning", "/library/problems", "/library/look-alikes", "/library/copies",
    "/library/budget", "/evidence", "/routes", "/operations",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install one, or set METIER_CHROMIUM"),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(seeded(tmp_path_factory.mktemp("browser") / "home", routes=60)) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        made = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield made
        made.close()


class Window:
    """A tab that has entered, and everything that went wrong in it."""

    def __init__(self, browser: Any, client: Client, **options: Any) -> None:
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.home = client.made.told.address
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(client.post("/v1/link").json["link"])

    def go(self, path: str) -> Any:
        self.page.goto(self.home + path)
        self.page.wait_for_selector("[data-again]", state="detached")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []
        assert all(url.startswith(self.home) for url in self.asked), "something came from outside"


@pytest.fixture
def window(browser: Any, client: Client) -> Iterator[Window]:
    made = Window(browser, client)
    yield made
    made.close()


def test_a_request_is_tried_with_the_keyboard_alone(window: Window) -> None:
    page = window.go("/")
    page.keyboard.press("/")
    page.keyboard.type(REQUESTS[2])
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#slate")
    first = page.locator(".slate details").first
    assert "sql-tuning" in first.inner_text()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert first.locator(".stages").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/library/skill*")
    assert "PostgreSQL" in page.inner_text("main")


def test_an_example_fills_the_form(window: Window) -> None:
    page = window.go("/")
    button = page.locator("[data-fill]").first
    button.click()
    assert page.input_value("#task") == button.inner_text()


def test_the_library_filters_as_one_types_and_the_address_follows(window: Window) -> None:
    page = window.go("/library")
    page.fill("#q", "postgresql")
    page.wait_for_url("**q=postgresql*")
    assert page.locator("#results tbody tr").count() == 2
    page.reload()
    assert page.input_value("#q") == "postgresql" and page.locator("#results tbody tr").count() == 2
    page.select_option("#sort", "size")
    page.wait_for_url("**sort=size*")


def test_an_outcome_is_recorded_and_shown(window: Window) -> None:
    page = window.go("/routes")
    page.locator("#results tbody a").first.click()
    page.wait_for_url("**/routes/r_*")
    page.select_option("#success", "yes")
    page.get_by_role("button", name="Record").click()
    page.wait_for_url("**recorded=1")
    assert "The outcome is recorded" in page.inner_text("main")
    assert "says person" in page.inner_text("main")


def test_the_log_is_filtered_and_paged(window: Window) -> None:
    page = window.go("/routes")
    before = page.locator("#results tbody tr").count()
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**before=*")
    assert 0 < page.locator("#results tbody tr").count() <= before
    page.fill("#q", "tax form")
    page.wait_for_url("**q=tax*")
    assert "tax form" in page.locator("#results tbody tr").first.inner_text()


def test_light_and_dark_are_chosen_and_remembered(browser: Any, client: Client) -> None:
    window = Window(browser, client, color_scheme="light")
    page = window.go("/")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator(".theme").click()
    assert page.evaluate(paper) == light
    page.locator(".theme").click()
    dark = page.evaluate(paper)
    assert dark != light
    page.goto(window.home + "/evidence")
    assert page.evaluate(paper) == dark and page.locator(".theme").inner_text() == "Dark"
    window.close()


def test_no_page_is_wider_than_a_narrow_window(browser: Any, client: Client) -> None:
    window = Window(browser, client, viewport={"width": 360, "height": 740})
    for path in PAGES:
        page = window.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    window.close()


def test_everything_works_without_script(browser: Any, client: Client) -> None:
    window = Window(browser, client, java_script_enabled=False)
    page = window.go("/")
    page.fill("#task", REQUESTS[0])
    page.click("button[type=submit]")
    page.wait_for_selector("#slate")
    page = window.go("/library")
    page.fill("#q", "pdf")
    page.click("noscript button")
    page.wait_for_url("**q=pdf*")
    assert page.locator("#results tbody tr").count() >= 2
    window.close()


def test_a_browser_without_the_link_sees_only_that_it_is_locked(browser: Any, client: Client) -> None:
    page = browser.new_page()
    page.goto(client.made.told.address + "/library")
    assert "locked" in page.inner_text("h1") and "pdf-tables" not in page.content()
    page.close()


@pytest.mark.skipif(not Path(AXE or "-").is_file(), reason="no axe-core: set METIER_AXE to its axe.min.js")
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(browser: Any, client: Client, colours: str) -> None:
    context = browser.new_context(color_scheme=colours, bypass_csp=True)
    page = context.new_page()
    page.goto(client.post("/v1/link").json["link"])
    route = client.post("/v1/route", {"task": REQUESTS[2]}).json["route_id"]
    found = {}
    for path in (*PAGES, f"/routes/{route}", "TRY"):
        page.goto(client.made.told.address + ("/" if path == "TRY" else path))
        page.wait_for_selector("[data-again]", state="detached")
        if path == "TRY":
            page.fill("#task", REQUESTS[0])
            page.click("button[type=submit]")
            page.wait_for_selector("#slate")
            page.locator(".slate summary").first.click()
        page.add_script_tag(path=AXE)
        said = json.loads(page.evaluate("axe.run().then(r => JSON.stringify(r.violations))"))
        wrong = [
            (v["id"], v["impact"], v["nodes"][0]["html"][:160]) for v in said if v["impact"] in ("serious", "critical")
        ]
        if wrong:
            found[path] = wrong
    context.close()
    assert found == {}
