"""The HTTP server as programs and attackers meet it: a real socket, a real process, nothing replaced."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs metier[serve]")

from metier.edge.web import openapi, server
from metier.edge.web.app import template
from metier.edge.web.meter import Meter
from metier.errors import ConfigError, MetierError
from metier.store import Store

from .seeded import EXAMPLES, REQUESTS, STACK, bare, seeded
from .served import Answer, Client, served

HOOKED = threading.Event()


def hook(event: dict[str, Any], host: str) -> dict[str, Any]:
    """What a hook may do: answer, fail, or take too long."""
    if event.get("prompt") == "fail":
        raise ValueError("no")
    if event.get("prompt") == "hang":
        HOOKED.wait(10)
    return {"host": host, "seen": event.get("prompt")}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    shop = seeded(tmp_path_factory.mktemp("http") / "home", routes=5)
    with served(shop, hook=hook) as made:
        yield made
        HOOKED.set()


# ---------------------------------------------------------------------------------------------------- the process


def test_a_second_server_for_the_same_home_says_where_the_first_one_is(client: Client) -> None:
    with (
        pytest.raises(
            MetierError, match=rf"already served at http://127.0.0.1:{client.port} \(process {os.getpid()}\)"
        ),
        server.prepared(bare(client.shop.home), port=0),
    ):
        pass


def test_serve_json_is_private_while_the_server_runs_and_gone_afterwards(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served(bare(home)) as made:
        path = home / "serve.json"
        told = json.loads(path.read_text())
        assert (told["port"], told["pid"]) == (made.port, os.getpid())
        for private in (path, home / "token", home / "serve.lock"):
            assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert server.running(home) == made.made.told
        assert made.stranger(told["token"]).get("/v1/skills").status == 200
    assert not path.exists() and server.running(home) is None


def test_what_a_crash_left_behind_is_not_believed(tmp_path: Path) -> None:
    told = {"host": "127.0.0.1", "port": 7717, "token": "x" * 20, "pid": 1, "started": 0.0}
    (tmp_path / "serve.json").write_text(json.dumps(told))
    assert server.running(tmp_path) is None
    with pytest.raises(MetierError, match="no server runs for this home"):
        server.fresh_link(tmp_path)


def test_the_token_of_a_home_stays_and_a_new_one_comes_when_its_file_is_removed(tmp_path: Path) -> None:
    first = server.home_token(tmp_path)
    assert server.home_token(tmp_path) == first and len(first) > 40
    (tmp_path / "token").unlink()
    assert server.home_token(tmp_path) != first


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(client: Client) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen there .* choose another with --port"):
        server.listen("127.0.0.1", client.port)
    with pytest.raises(ConfigError, match="no such address"):
        server.listen("no.such.host.invalid", 0)


def test_a_token_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    weak = server.prepared(bare(tmp_path / "home"), port=0, environment={"METIER_TOKEN": "short"})
    with pytest.raises(ConfigError, match="METIER_TOKEN has 5 characters"), weak:
        pass


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_NEEDS", ("no_such_library",))
    with pytest.raises(MetierError, match=r"pip install 'metier\[serve\]'"):
        server.check_installed()


def start(home: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    words = ["serve", "--port", "0", "--json", f"--home={home}", "--set=encoder=hash", "--skills", str(EXAMPLES)]
    code = f"from metier.edge.cli.main import run; run({words!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return process, json.loads(line)


def test_killed_it_loses_no_acknowledged_outcome_and_stopped_it_tidies_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process, _ = start(home)
    told = server.running(home)
    assert told is not None and told.pid == process.pid
    client = Client(server.Prepared(None, told, "", socket.socket()), bare(home), told.token)
    route = client.post("/v1/route", {"task": REQUESTS[2], "stack": STACK}).json
    skill = route["candidates"][0]["id"]
    body = {"route_id": route["route_id"], "skill": skill, "success": 1, "origin": "check"}
    assert client.post("/v1/outcomes", body).status == 201
    process.kill()
    process.communicate()
    assert server.running(home) is None
    kept = Store(home / "store.db").rows("SELECT skill, success, origin FROM outcomes")
    assert [tuple(row) for row in kept] == [(skill, 1.0, "check")]

    process, said = start(home)
    assert said["schema"] == "metier-serve-v1" and server.fresh_link(home).startswith(said["address"])
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and "stopped" in errors
    assert not (home / "serve.json").exists()


# ------------------------------------------------------------------------------------------------- what it answers


def test_a_route_over_http_is_the_route_in_process(client: Client) -> None:
    router = client.shop.router(source="api")
    for request in REQUESTS:
        got = client.post("/v1/route", {"task": request, "stack": STACK, "k": 3})
        here = router.route(request, stack=STACK)
        assert got.status == 200 and got.json["schema"] == "metier-route-v1"
        assert [c["id"] for c in got.json["candidates"]] == [c.skill.id for c in here.slate.candidates[:3]]
        assert [c["verdict"]["level"] for c in got.json["candidates"]] == [
            c.verdict.level for c in here.slate.candidates[:3]
        ]


def test_sixteen_clients_at_once_all_get_their_own_answer(client: Client) -> None:
    asked = [f"{request}, case {n}" for n in range(4) for request in REQUESTS[:12]]

    def one(text: str) -> Answer:
        return client.post("/v1/route", {"task": text, "k": 1})

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, asked))
    assert {a.status for a in answers} == {200}
    assert [a.json["task"]["text"] for a in answers] == asked
    assert len({a.json["route_id"] for a in answers}) == len(asked)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "'task' is missing"),
        ({"task": "  "}, "'task' is '  '"),
        ({"task": 7}, "'task' is 7"),
        ({"task": "x", "tools": {"a": 1}}, "'tools' is"),
        ({"task": "x", "k": 0}, "'k' is 0"),
        ({"task": "x", "k": True}, "'k' is True"),
        ({"task": "x", "only": ["none"]}, "no stage 'none'"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(client: Client, body: dict[str, Any], said: str) -> None:
    got = client.post("/v1/route", body)
    assert got.status == 400 and said in got.json["message"]


def test_no_request_text_breaks_a_route(client: Client) -> None:
    for text in (
        "it's",
        "NEAR(a b)",
        'say "so" -- ; DROP TABLE routes',
        "\x00\x1b[31m",
        "\ud800",
        "名前" * 50,
        "a" * 50_000,
    ):
        assert client.post("/v1/route", {"task": text}).status == 200


def test_the_library_is_paged_without_gaps_or_repetitions(client: Client) -> None:
    seen: list[str] = []
    for offset in range(0, 16, 4):
        seen += [s["id"] for s in client.get(f"/v1/skills?offset={offset}&limit=4").json["skills"]]
    assert len(seen) == len(set(seen)) == 15 == client.get("/v1/skills").json["total"]
    found = client.get("/v1/skills?q=postgresql+plans").json
    assert [s["name"] for s in found["skills"]] == ["sql-tuning"]
    one = client.get("/v1/skills?id=pdf-tables").json
    assert one["schema"] == "metier-skill-v1" and one["resources"]


def test_a_name_that_is_nearly_one_gets_the_choices(client: Client) -> None:
    got = client.get("/v1/skills?id=pdf-tabels")
    assert got.status == 404 and "given:pdf-tables" in got.json["choices"]


def test_a_body_comes_fenced_and_no_path_leaves_its_folder(client: Client) -> None:
    got = client.post("/v1/load", {"skill": "api-client-retries"}).json
    assert "third-party" in got["text"] and got["tokens"] > 0
    file = client.post("/v1/load", {"skill": "api-client-retries", "resource": "reference.md"})
    assert file.status == 200
    for path in (
        "../pdf-tables/SKILL.md",
        "/etc/passwd",
        "..\\..\\x",
        "a/../../x",
        "\x00",
        "con",
        "reference.md/../../x",
    ):
        got_path = client.post("/v1/load", {"skill": "api-client-retries", "resource": path})
        assert got_path.status in (403, 404), path
        assert "root:" not in got_path.text
    small = client.post("/v1/load", {"skill": "api-client-retries", "budget": 10}).json
    assert small["over_budget"] and small["text"] is None


def test_an_outcome_without_an_origin_is_the_agents_own_and_counts_for_nothing(client: Client) -> None:
    route = client.post("/v1/route", {"task": REQUESTS[0], "stack": "told/stack"}).json
    body = {"route_id": route["route_id"], "skill": route["candidates"][0]["id"], "success": 1.0}
    said = client.post("/v1/outcomes", body)
    assert said.status == 201 and said.json["origin"] == "agent" and said.json["counts"] is False
    row = client.get("/v1/bank?stack=told/stack").json["skills"][0]
    assert row["n"] == 0 and row["agent"] == 1 and row["tau"] is None
    counted = client.post("/v1/outcomes", {**body, "origin": "check", "arm": "skip", "success": 0.0}).json
    assert counted["counts"] is True


@pytest.mark.parametrize(
    ("change", "status"),
    [({"success": 2}, 400), ({"success": "yes"}, 400), ({"origin": "import"}, 400), ({"arm": "both"}, 400),
     ({"tokens": -1}, 400), ({"skill": "no-such-skill"}, 404), ({"route_id": "r_none"}, 404), ({"skill": []}, 400)],
)  # fmt: skip
def test_an_outcome_that_cannot_be_is_refused(client: Client, change: dict[str, Any], status: int) -> None:
    route = client.post("/v1/route", {"task": REQUESTS[0]}).json
    body = {"route_id": route["route_id"], "skill": route["candidates"][0]["id"], "success": 1.0, **change}
    assert client.post("/v1/outcomes", body).status == status


def test_the_hook_answers_and_whatever_goes_wrong_answers_nothing(client: Client) -> None:
    assert client.post("/v1/hook/codex", {"prompt": "hi"}).json == {"host": "codex", "seen": "hi"}
    for body in (b"", b"{", b"[]", b'"x"', b'{"prompt": "fail"}'):
        got = client.ask("POST", "/v1/hook/claude-code", body)
        assert (got.status, got.json) == (200, {})


def test_a_hook_that_takes_too_long_answers_nothing_within_its_deadline(tmp_path: Path) -> None:
    wait = threading.Event()
    with served(
        bare(tmp_path / "home", **{"hook.deadline": 0.1}), hook=lambda event, host: {"late": wait.wait(20)}
    ) as client:
        got = client.post("/v1/hook/claude-code", {"prompt": "x"})
        assert (got.status, got.json) == (200, {})
        wait.set()


# ------------------------------------------------------------------------------------------------ what it counts


def test_metrics_are_prometheus_text_whose_histograms_add_up(client: Client) -> None:
    client.post("/v1/route", {"task": REQUESTS[0]})
    got = client.get("/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    values: dict[str, float] = {}
    for line in got.text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name not in values
            values[name] = float(value)
    assert values["metier_skills"] == 15
    assert values['metier_stage_seconds_count{stage="retrieve"}'] >= 1
    routed = [v for k, v in values.items() if k.startswith('metier_requests_total{path="/v1/route"')]
    assert sum(routed) == values['metier_request_seconds_count{path="/v1/route"}']
    buckets = [v for k, v in values.items() if k.startswith('metier_request_seconds_bucket{path="/v1/route"')]
    assert buckets == sorted(buckets) and buckets[-1] == sum(routed)


def test_counters_stay_few_whatever_paths_are_asked_for() -> None:
    known = {"/", "/routes", "/routes/{id}", "/static/{name}", "/v1/hook/{host}"}
    asked = [f"/{n}" for n in range(50)] + [f"/routes/r_{n}" for n in range(50)] + ["/v1/hook/x", "/static/a", "/"]
    assert {template(path, known) for path in asked} == {
        "other",
        "/routes/{id}",
        "/v1/hook/{host}",
        "/static/{name}",
        "/",
    }
    meter = Meter()
    meter.answered('a"b\n', "GET", 200, 0.1)
    assert 'path="a\\"b\\n"' in meter.text({})


def test_the_description_names_every_path_of_the_api_and_no_other(client: Client) -> None:
    app: Any = client.made.server.config.app
    machine = ("/v1/", "/metrics", "/healthz", "/openapi.json")
    served_paths = {r.path: sorted(r.methods - {"HEAD"}) for r in app.app.routes if r.path.startswith(machine)}
    told = {
        path: sorted(m.upper() for m in methods if m != "parameters")
        for path, methods in openapi.DESCRIPTION["paths"].items()
    }
    assert told == served_paths
    assert client.get("/openapi.json").json == openapi.DESCRIPTION
