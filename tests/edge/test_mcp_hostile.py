"""What a broken or hostile MCP client sends, and files whose names no JSON can carry: every request has an answer."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from edge.material import project, workshop, write_skill
from metier.edge.mcp.server import _ESCAPE, _whole
from metier.edge.mcp.skills import Shelf
from metier.edge.mcp.tools import Tools
from metier.errors import NotFound

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
FRAMES = [b"", b"{", b"\0\0", b"\xff\xfe", b"[]", b"null", b"[" * 9999, b'{"jsonrpc":"2.0","id":{},"method":1}',
          b"Content-Length: 5\r", b"x" * 2_000_000]  # fmt: skip


def request(number: int, method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def test_garbage_frames_and_halves_of_emoji_leave_no_request_without_an_answer(tmp_path: Path) -> None:
    cwd = project(tmp_path / "project")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "METIER_HOME": str(tmp_path / "home"),
        "METIER_ENCODER": "hash",
    }
    lines = [request(1, "initialize", HELLO), b'{"jsonrpc":"2.0","method":"notifications/initialized"}', *FRAMES]
    calls = [
        {"name": "find_skills", "arguments": {"task": text}} for text in ("slow query \ud83d", "\udca9 \U0001f4a9")
    ]
    calls += [{"name": "load_skill", "arguments": {"skill": "\ud800"}},
              {"name": "record_outcome", "arguments": {"route_id": "\ud800", "skill": "a", "success": 1}}]  # fmt: skip
    lines += [request(n, "tools/call", call) for n, call in enumerate(calls, start=2)]  # type: ignore[arg-type]
    running = subprocess.Popen(
        [sys.executable, "-m", "metier.edge.cli.main", "mcp"], cwd=cwd, env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(b"\n".join(lines) + b"\n")
    running.stdin.flush()
    said: dict[int, dict[str, object]] = {}
    until = time.monotonic() + 60
    while len(said) < 5 and time.monotonic() < until and (line := running.stdout.readline()):
        answer = json.loads(line)
        if isinstance(answer.get("id"), int):
            said[answer["id"]] = answer
    _, err = running.communicate(timeout=30)
    assert sorted(said) == [1, 2, 3, 4, 5] and running.returncode == 0
    assert b"Traceback" not in err
    assert all("result" in answer for answer in said.values())


@pytest.mark.parametrize(
    ("line", "mended"),
    [
        (r'"\ud83d\ude00"', r'"\ud83d\ude00"'),
        (r'"\ud83d"', r'"\ufffd"'),
        (r'"\uDE00 \uD83Dx"', r'"\ufffd \ufffdx"'),
        (r'"\\ud83d"', r'"\\ud83d"'),
        (r'"\\\ud83d"', r'"\\\ufffd"'),
        (r'"\ud83d\ud83d\ude00"', r'"\ufffd\ud83d\ude00"'),
    ],
)
def test_only_halves_of_pairs_are_replaced(line: str, mended: str) -> None:
    assert _ESCAPE.sub(_whole, line) == mended


def test_an_address_of_fifty_thousand_segments_is_refused_at_once(tmp_path: Path) -> None:
    shelf = Shelf(workshop(tmp_path))
    for ask in (shelf.read, shelf.get, shelf.folder):
        with pytest.raises(NotFound, match="characters"):
            ask("skill://" + "a/" * 50_000)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes as a name")
def test_a_file_whose_name_is_not_utf8_takes_no_other_skill_from_the_listing(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    folder = shop.cwd / ".claude" / "skills" / "pdf-forms"
    (folder / os.fsdecode(b"caf\xe9.md")).write_text("x", encoding="utf-8")
    shop.refresh()
    listed, _ = Shelf(shop).page([], None)
    assert len(listed) == 3 and "pdf-forms" not in json.dumps(listed)
    json.dumps(Shelf(shop).folder("skill://project/pdf-forms"), ensure_ascii=False).encode()
    said = Tools(shop).call("load_skill", {"skill": "pdf-forms", "resource": "none.md"})
    assert said.error and "caf%E9.md" in said.text
    found = Tools(shop).call("load_skill", {"skill": "pdf-forms"})
    json.dumps([found.text, found.data], ensure_ascii=False).encode()


def test_a_count_of_tokens_that_no_database_holds_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    route = Tools(shop).call("find_skills", {"task": "why is this postgres query slow"}).data["route_id"]  # type: ignore[index]
    said = Tools(shop).call(
        "record_outcome", {"route_id": route, "skill": "sql-tuning", "success": 1, "tokens": 10**30}
    )
    assert said.error and "metier failed" not in said.text


def test_a_name_of_a_megabyte_is_not_said_back(tmp_path: Path) -> None:
    said = Tools(workshop(tmp_path)).call("load_skill", {"skill": "x" * 1_000_000})
    assert said.error and len(said.text) < 500


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_ends_a_server_that_waits_for_its_client(tmp_path: Path) -> None:
    cwd = project(tmp_path / "project")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "METIER_HOME": str(tmp_path / "home")}
    running = subprocess.Popen(
        [sys.executable, "-m", "metier.edge.cli.main", "mcp"], cwd=cwd, env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(request(1, "initialize", HELLO) + b"\n")
    running.stdin.flush()
    assert b'"id":1' in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    try:
        assert running.wait(timeout=20) == 130
    finally:
        running.kill()
        running.communicate()


def test_a_front_matter_of_two_megabytes_is_not_parsed_on_every_listing(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    keys = "".join(f"key-{n}: value\n" for n in range(100_000))
    write_skill(shop.cwd / ".claude" / "skills", "endless", "Has many keys.", "body", front=keys)
    shop.refresh()
    shelf = Shelf(shop)
    assert shelf.entry(shop.skill("endless")) is None and len(shelf.page([], None)[0]) == 4
    assert "body" in Tools(shop).call("load_skill", {"skill": "endless"}).text
