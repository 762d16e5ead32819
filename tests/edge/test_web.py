"""The dashboard's pages over HTTP: what they show, that hostile text stays text, that every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

pytest.importorskip("starlette", reason="needs metier[serve]")

from metier.assemble.settings import load
from metier.assemble.workshop import Workshop
from metier.edge.web import pages
from metier.store import log_route

from .seeded import GAINS, REQUESTS, STACK, bare, seeded
from .served import Client, served

PAGES = (
    "/", "/library", "/library/problems", "/library/look-alikes", "/library/copies", "/library/budget", "/evidence",
    "/routes", "/operations",
)  # fmt: skip
HOSTILE = """---
name: "<script>alert(1)</script>"
description: '"><img src=x onerror=alert(2)> {{ 7 * 191 }} \u202egnp.exe'
metadata: {"<b onload=alert(3)>": "</style><script>alert(4)</script>"}
---
</pre><script>alert(5)</script><svg onload=alert(6)> ]]> <!-- {% raw %} `x` javascript:alert(7)

A skill about parsing invoices, see [this](javascript:alert(8)) and \x1b]0;owned\x07 the rest.
"""


class Page(HTMLParser):
    """What a browser would make of the HTML: tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, name: str) -> list[str]:
        return [value for _, attrs in self.tags if (value := attrs.get(name))]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(seeded(tmp_path_factory.mktemp("web") / "home", routes=70)) as made:
        yield made


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("plain", "<b>x", "a' OR 1=1 --"):
        (folder / "skills" / name).mkdir(parents=True)
        (folder / "skills" / name / "SKILL.md").write_text(HOSTILE, encoding="utf-8")
        (folder / "skills" / name / "<img src=x>.md").write_text("</pre><script>x</script>")
    config = load(flags={"home": str(folder / "home"), "encoder": "hash", "log.text": "full"}, env={})[0]
    shop = Workshop(config, paths=[folder / "skills"])
    shop.refresh()
    with served(shop) as made:
        yield made


def read(client: Client, path: str) -> Page:
    """The page, asked for again while it says that something is still being found out, or that others wait too."""
    for _ in range(200):
        got = client.get(path)
        if got.status == 503 and "retry-after" in got.headers:
            client.get("/healthz")  # answered last in line: a place is free again
            continue
        assert got.status == 200, (path, got.text)
        if "data-again" not in got.text:
            return Page(got.text)
    raise AssertionError(f"{path} never became ready")


# ------------------------------------------------------------------------------------------------- all pages alike


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_with_a_history_and_without_one(client: Client, tmp_path: Path, path: str) -> None:
    assert read(client, path).all("href")
    (tmp_path / "none").mkdir()
    config = load(flags={"home": str(tmp_path / "home"), "encoder": "hash"}, env={})[0]
    with served(Workshop(config, paths=[tmp_path / "none"])) as empty:
        assert read(empty, path).text


def test_every_link_of_every_page_leads_somewhere(client: Client) -> None:
    route = client.shop.store.rows("SELECT id FROM routes LIMIT 1")[0]["id"]
    waiting, seen = [*PAGES, f"/routes/{route}"], set[str]()
    while waiting and len(seen) < 150:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        page = read(client, path)
        for link in page.all("href") + page.all("src"):
            target = urlsplit(urljoin(path, link))
            assert not target.netloc, f"{path} links outside: {link}"
            where = target.path + (f"?{target.query}" if target.query else "")
            if target.path.startswith("/static/") or target.path == "/openapi.json":
                assert client.get(where).status == 200
            elif where not in seen and not target.path.startswith("/routes/r_"):
                waiting.append(where)
    assert len(seen) > 30


def test_nothing_on_any_page_comes_from_elsewhere_or_needs_an_unsafe_policy(client: Client) -> None:
    for path in PAGES:
        page = read(client, path)
        for tag, attrs in page.tags:
            assert not {name for name in attrs if name.startswith("on") or name == "style"}, (path, tag, attrs)
            assert tag != "style"
        assert [t[1].get("src", "").split("?")[0] for t in page.tags if t[0] == "script"] == ["/static/script.js"]
    for name in ("style.css", "script.js", "icon.svg"):
        content, _ = pages.static(name) or (b"", "")
        assert content and not re.search(rb"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", content)


def test_pages_carry_what_a_screen_reader_needs(client: Client) -> None:
    for path in PAGES:
        page = read(client, path)
        tags = [tag for tag, _ in page.tags]
        assert tags.count("h1") == 1 and tags.count("main") == 1
        assert ("html", {"lang": "en"}) in page.tags
        labelled = {attrs.get("for") for tag, attrs in page.tags if tag == "label"}
        for tag, attrs in page.tags:
            if tag in ("input", "select", "textarea"):
                assert attrs.get("id") in labelled, (path, attrs)
            if tag == "svg":
                assert attrs.get("role") == "img" and attrs.get("aria-label")
            if tag == "th":
                assert attrs.get("scope") in ("col", "row")


def test_static_files_are_named_by_their_content_and_nothing_else_is_served(client: Client) -> None:
    address = next(a for a in read(client, "/").all("href") if "style.css" in a)
    assert "immutable" in client.stranger().get(address).headers["cache-control"]
    for path in ("/static/..%2fserver.py", "/static/../server.py", "/static/", "/static/style.css/x", "/static/%00"):
        assert client.get(path).status == 404, path


# ----------------------------------------------------------------------------------------------------- hostile text


def test_html_in_a_skill_is_inert_wherever_it_is_shown(hostile: Client) -> None:
    ids = [s["id"] for s in hostile.get("/v1/skills").json["skills"]]
    route = hostile.send("/try", {"task": "<script>alert(9)</script> parse invoices"}).headers["location"]
    log_id = route.partition("route=")[2]
    from urllib.parse import quote

    seen = [*PAGES, route, f"/routes/{log_id}", *(f"/library/skill?id={quote(i)}" for i in ids)]
    seen += [f"/library/skill?id={quote(i)}&resource={quote('<img src=x>.md')}" for i in ids]
    for path in seen:
        page = read(hostile, path)
        scripts = [attrs for tag, attrs in page.tags if tag == "script"]
        assert len(scripts) == 1 and str(scripts[0].get("src")).startswith("/static/")
        assert not [t for t in page.tags if t[0] in ("img", "b", "iframe") and t[1]], path
        assert not [n for _, attrs in page.tags for n in attrs if n.startswith("on")], path
        assert not [a for a in page.all("href") + page.all("action") if a.lower().startswith("javascript")], path
        assert not set(page.text) & set("\x1b\x07\u202e"), path
        assert "1337" not in page.text, "a template inside a skill was evaluated"
    assert "<script>alert(1)</script>" in read(hostile, f"/library/skill?id={quote(ids[0])}").text


@pytest.mark.parametrize(
    "text", ["' OR 1=1 --", '"; DROP TABLE routes; --', "%", "_", "\\", "100%_\\'", "\x00", "é" * 3000]
)
def test_no_filter_is_ever_sql(client: Client, text: str) -> None:
    from urllib.parse import quote

    before = client.shop.store.rows("SELECT count(*) AS n FROM routes")[0]["n"]
    for field in ("q", "source", "stack", "level", "before"):
        got = client.get(f"/routes?{field}={quote(text)}")
        assert got.status in (200, 400)
        if field == "q" and text != "\x00":  # which no request holds: it is no filter
            assert "/routes/r_" not in got.text, "a wildcard matched everything"
    assert client.get(f"/library?q={quote(text)}&scope={quote(text)}&offset={quote(text)}").status == 200
    assert client.get(f"/routes/{quote(text, safe='')}").status == 404
    assert client.get(f"/library/skill?id={quote(text)}").status == 404
    assert client.shop.store.rows("SELECT count(*) AS n FROM routes")[0]["n"] == before


# -------------------------------------------------------------------------------------------------------------- try


def test_a_request_is_tried_and_its_page_says_who_is_where_why_and_at_what_cost(client: Client) -> None:
    sent = client.send("/try", {"task": REQUESTS[2], "tools": "bash, python", "stack": STACK, "only": ""})
    assert sent.status == 303
    page = read(client, sent.headers["location"])
    assert "sql-tuning" in page.text and "What the agent gets" in page.text and "Tokens in the context" in page.text
    for stage in ("retrieve", "gate"):
        assert stage in page.text
    route = sent.headers["location"].partition("route=")[2]
    assert f"/routes/{route}" in page.all("href")
    assert REQUESTS[2] in page.text


def test_an_empty_request_and_a_forgotten_route_are_answered_in_words(client: Client) -> None:
    assert "write what you want done first" in client.send("/try", {"task": "  "}).text
    assert "no longer kept" in client.get("/?route=r_0000000000000000").text


def test_a_route_that_is_only_in_the_log_is_shown_from_there(client: Client) -> None:
    route = client.shop.store.rows("SELECT id FROM routes ORDER BY at LIMIT 1")[0]["id"]
    got = client.get(f"/?route={route}")
    assert got.status == 303 and got.headers["location"] == f"/routes/{route}"


def test_a_form_from_elsewhere_is_refused(client: Client) -> None:
    cookie = client.enter()
    known = client.stranger(cookie=cookie)
    assert known.send("/try", {"task": "x"}, Origin="https://evil.example").status == 403
    assert known.send("/try", {"task": "x"}).status == 303


# ---------------------------------------------------------------------------------------------------------- library


def test_the_library_is_searched_by_every_word_and_names_come_first(client: Client) -> None:
    assert "15 of 15" in read(client, "/library").text.replace("1–", "")
    found = read(client, "/library?q=pdf").text
    assert found.index("pdf-forms") < found.index("1–")
    assert "No skill has all of these words" in read(client, "/library?q=pdf+kubernetes").text


def test_a_skill_page_shows_its_text_its_files_and_what_it_earned(client: Client) -> None:
    page = read(client, "/library/skill?id=given:pdf-tables")
    assert STACK in page.text and "20" in page.text
    assert any("resource=" in link for link in page.all("href"))
    missing = client.get("/library/skill?id=given:pdf-tables&resource=..%2f..%2fsecret")
    assert missing.status == 200 and "root:" not in missing.text and 'role="alert"' in missing.text


def test_problems_come_with_their_remedy_and_can_be_asked_for_by_kind(client: Client) -> None:
    page = read(client, "/library/problems")
    assert "unmet" in page.text and "install or set it" in page.text
    assert "None: every skill" in read(client, "/library/problems?kind=lost").text or "of" in page.text


def test_look_alikes_copies_and_the_budget_say_what_they_found(tmp_path: Path) -> None:
    text = "---\nname: {0}\ndescription: Rotate the log files of a web server every {1}\n---\nRotate logs every {1}.\n"
    for folder, name, when in (("a/one", "one", "night"), ("b/one", "one", "night"), ("b/two", "two", "week")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "SKILL.md").write_text(text.format(name, when))
    (tmp_path / "b" / "one" / "extra.txt").write_text("not the same folder")
    config = load(flags={"home": str(tmp_path / "home"), "encoder": "hash"}, env={})[0]
    shop = Workshop(config, paths=[tmp_path / "a", tmp_path / "b"])
    shop.refresh()
    with served(shop) as client:
        alike = read(client, "/library/look-alikes")
        assert "What tells them apart" in alike.text and "1–" in alike.text
        assert "2 skills" in read(client, "/library/copies").text
        assert "In full" in read(client, "/library/budget?host=codex").text
        assert client.get("/library/budget?host=nobody").status == 400


# --------------------------------------------------------------------------------------------------------- evidence


def test_evidence_shows_each_skills_pairs_and_counts_neither_stale_rows_nor_agents(client: Client) -> None:
    page = read(client, "/evidence")
    for name in GAINS:
        assert name in page.text
    assert page.text.count("4 stale") == len(GAINS) and page.text.count("1 by agents") == len(GAINS)
    rows = client.get(f"/v1/bank?stack={STACK}").json["skills"]
    assert {r["n"] for r in rows} == {20}
    assert "Were the predictions right?" in page.text and "always load" in page.text


def test_the_bank_is_the_same_by_hand(client: Client) -> None:
    """The page's numbers against plain loops over the rows as they were appended."""
    rows = client.get(f"/v1/bank?stack={STACK}").json["skills"]
    for row in rows:
        (skill,) = row["skills"]
        digest = client.shop.skill(skill).digest
        arms: dict[str, dict[str, float]] = {}
        for found in client.shop.bank.outcomes(stack=STACK, skill=skill):
            o = found.outcome
            if o.origin != "agent" and o.digests == (digest,) and o.success is not None:
                arms.setdefault(o.task, {})[o.arm] = o.success
        gains = [both["use"] - both["skip"] for both in arms.values() if len(both) == 2]
        assert row["tau"] == pytest.approx(sum(gains) / len(gains)) and row["n"] == len(gains)
        assert (row["helped"], row["harmed"]) == (sum(g > 0 for g in gains), sum(g < 0 for g in gains))
        assert row["interval"][0] < row["tau"] < row["interval"][1]


# ----------------------------------------------------------------------------------------------------------- routes


def test_the_log_is_paged_by_cursor_without_gaps_or_repetitions(client: Client) -> None:
    path, seen = "/routes", list[str]()
    while path:
        page = read(client, path)
        seen += [a.partition("/routes/")[2] for a in page.all("href") if a.startswith("/routes/r_")]
        older = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("rel") == "next"]
        path = str(older[0]) if older else ""
    assert len(seen) == len(set(seen)) == client.shop.store.rows("SELECT count(*) AS n FROM routes")[0]["n"]


def test_the_log_is_filtered_by_words_source_and_verdict(client: Client) -> None:
    assert "tax form" in read(client, "/routes?q=tax+form").text
    hooks = read(client, "/routes?source=hook")
    ids = [a.partition("/routes/")[2] for a in hooks.all("href") if a.startswith("/routes/r_")]
    marks = ", ".join("?" for _ in ids)
    sources = client.shop.store.rows(f"SELECT DISTINCT source FROM routes WHERE id IN ({marks})", ids)
    assert [r["source"] for r in sources] == ["hook"]
    assert "sql-tuning" in read(client, "/routes?level=load").text
    assert "No route passes" in read(client, "/routes?level=failed").text


def test_a_hashed_request_is_found_by_its_whole_text(tmp_path: Path) -> None:
    shop = bare(tmp_path / "home")
    route = shop.router().route("a secret request")
    log_route(shop.store, route_again(route), text="hash", source="hook")
    with served(shop) as client:
        page = read(client, "/routes?q=a+secret+request&source=hook")
        assert [a for a in page.all("href") if a.startswith("/routes/r_")] == ["/routes/r_again"]
        assert "text was not kept" in read(client, "/routes/r_again").text


def route_again(route: Any) -> Any:
    from dataclasses import replace

    return replace(route, id="r_again")


def test_a_person_records_how_it_went(client: Client) -> None:
    route = client.post("/v1/route", {"task": "a new task nobody judged", "stack": "by/hand"}).json
    skill, path = route["candidates"][0]["id"], f"/routes/{route['route_id']}"
    sent = client.send(f"{path}/outcome", {"skill": skill, "success": "partly", "arm": "use", "tokens": "1200"})
    assert sent.status == 303
    page = read(client, sent.headers["location"])
    assert "The outcome is recorded" in page.text and "says person" in page.text and "50%" in page.text
    row = client.get("/v1/bank?stack=by/hand").json["skills"][0]
    assert (row["agent"], row["single"]) == (0, 1)


@pytest.mark.parametrize("form", [{"success": ""}, {"success": "maybe"}, {"success": "yes", "tokens": "many"},
                                  {"success": "yes", "arm": "x"}, {"success": "yes", "skill": "none"}])  # fmt: skip
def test_a_form_that_makes_no_sense_is_explained_on_the_page(client: Client, form: dict[str, str]) -> None:
    route = client.post("/v1/route", {"task": REQUESTS[0]}).json
    sent = client.send(f"/routes/{route['route_id']}/outcome", {"skill": route["candidates"][0]["id"], **form})
    assert sent.status == 400 and 'role="alert"' in sent.text


# ------------------------------------------------------------------------------------------------------- operations


def test_operations_adds_up_the_log_and_the_bank(client: Client) -> None:
    page = read(client, "/operations")
    assert "100.0%" in page.text and "Success at matched rate" in page.text and "Tokens saved" in page.text
    assert "retrieve" in page.text and "p95" in page.text


def test_a_skill_that_harms_is_proposed_for_retirement(tmp_path: Path) -> None:
    from metier.types import Outcome

    shop = bare(tmp_path / "home", stack="x/y")
    shop.refresh()
    skill = shop.skill("pdf-tables")
    shop.bank.append(
        [
            Outcome(
                f"task {n}", (skill.id,), (skill.digest,), "x/y", arm, 1.0 if arm == "skip" else 0.0, origin="check"
            )
            for n in range(12)
            for arm in ("use", "skip")
        ]
    )
    with served(shop) as client:
        assert "harms: −1.00 on 12 tasks" in read(client, "/operations").text
