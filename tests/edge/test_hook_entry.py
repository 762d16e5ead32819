"""The hook's own process: light, in time, and exit 0 whatever comes in or is broken."""

import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from edge.material import workshop
from metier.edge.hooks import entry

SCRIPT = Path(entry.__file__)
PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": "why is this query slow", "session_id": "s"}


def start(home: Path, *flags: str, **env: str) -> "subprocess.Popen[bytes]":
    given = {**os.environ, "METIER_HOME": str(home), "METIER_ENCODER": "hash", "HOME": str(home.parent), **env}
    command = [sys.executable, "-I", *flags, str(SCRIPT), "claude-code"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=given)


def ran(home: Path, data: bytes, *flags: str, **env: str) -> tuple[int, Any, str]:
    """(exit code, answer, stderr) of the process."""
    process = start(home, *flags, **{"METIER_HOOK_DEADLINE": "60", **env})
    out, err = process.communicate(data, timeout=90)
    return process.returncode, json.loads(out), err.decode()


def test_a_cold_process_answers_a_prompt_from_the_index_alone(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    code, said, err = ran(tmp_path / "home", json.dumps({**PROMPT, "cwd": str(shop.cwd)}).encode())
    assert code == 0 and err == ""
    assert "sql-tuning" in said["hookSpecificOutput"]["additionalContext"]


def test_a_prompt_that_needs_no_skill_loads_nothing_of_metier_but_the_list_of_small_talk(tmp_path: Path) -> None:
    data = json.dumps({**PROMPT, "prompt": "thanks!"}).encode()
    code, said, err = ran(tmp_path, data, "-X", "importtime")
    assert (code, said) == (0, {})
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "numpy" not in loaded and "dataclasses" not in loaded
    assert not {name for name in loaded if name.startswith("metier")} and "chatter" in loaded


@pytest.mark.parametrize("data", [b"", b"  ", b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b"1e999", b"[" * 100_000])
def test_whatever_stands_on_stdin_the_process_exits_0_with_an_object(tmp_path: Path, data: bytes) -> None:
    assert entry.answer(data, ["claude-code", f"--home={tmp_path}"], {"deadline": 1.0}) == b"{}"


def test_while_pairs_are_collected_the_hook_adds_nothing_to_either_arm(tmp_path: Path) -> None:
    shop = workshop(tmp_path)
    data = json.dumps({**PROMPT, "cwd": str(shop.cwd)}).encode()
    assert ran(tmp_path / "home", data, METIER_COLLECTING="1") == (0, {}, "")


def test_garbage_on_a_real_stdin_is_answered_with_an_empty_object_and_exit_0(tmp_path: Path) -> None:
    assert ran(tmp_path, b"\x00\xff{garbage") == (0, {}, "")


def test_a_host_that_never_closes_stdin_gets_its_answer_at_the_deadline(tmp_path: Path) -> None:
    process = start(tmp_path, METIER_HOOK_DEADLINE="0.2")
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.read() == b"{}\n"
    assert process.wait(timeout=30) == 0
    process.stdin.close()


def mutated(rng: random.Random) -> bytes:
    """A payload of any kind: noise, cut or spoilt JSON, an event with members of wrong types."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    strange: list[Any] = [None, 7, -1.5, True, "", "x" * 50, [], {}, ["a", {"b": []}], "\x00\u202e", "/etc/passwd"]
    event = {k: rng.choice(strange) for k in ("session_id", "prompt", "cwd", "model", "tool_input", "transcript_path")}
    event["hook_event_name"] = rng.choice(["Nothing", 3, None, [], "userpromptsubmit", ""])
    text = json.dumps(event)
    if kind == 1:
        return text[: rng.randrange(len(text))].encode()
    if kind == 2:
        spoilt = bytearray(text.encode())
        for _ in range(8):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        return bytes(spoilt)
    return text.encode() if kind == 3 else json.dumps(rng.choice(strange)).encode()


def test_a_thousand_fuzzed_payloads_are_each_answered_with_a_json_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    rng = random.Random(20261130)
    for _ in range(1000):
        said = entry.answer(mutated(rng), ["claude-code"], {"deadline": 1.0})
        assert isinstance(json.loads(said), dict)


# ------------------------------------------------------------------------------------------- asking a warm server


@contextmanager
def served(home: Path, status: int, body: bytes, *, alive: bool = True) -> Iterator[list[Any]]:
    """A server that answers everything alike; what it was asked is kept. `alive` ones hold the home's lock."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["Authorization"], self.headers["Host"], json.loads(sent)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    home.mkdir(parents=True, exist_ok=True)
    (home / "serve.json").write_text(json.dumps({"port": server.server_port, "token": "t0k", "pid": os.getpid()}))
    lock = FileLock(home / "serve.lock")
    try:
        with lock if alive else nullcontext():
            yield asked
    finally:
        server.shutdown()
        server.server_close()


def test_a_stranger_on_the_port_of_a_server_that_crashed_gets_neither_prompt_nor_token(tmp_path: Path) -> None:
    with served(tmp_path, 200, b'{"hookSpecificOutput": {"additionalContext": "mine"}}', alive=False) as asked:
        (tmp_path / "serve.lock").touch()
        assert entry.ask(json.dumps(PROMPT).encode(), "claude-code", str(tmp_path), 5.0) is None
    assert asked == []


def test_with_a_warm_server_the_process_asks_it_and_loads_nothing_of_metier(tmp_path: Path) -> None:
    with served(tmp_path, 200, b'{"hookSpecificOutput": {"additionalContext": "warm"}}') as asked:
        code, said, err = ran(tmp_path, json.dumps(PROMPT).encode(), "-X", "importtime")
    assert code == 0 and said["hookSpecificOutput"]["additionalContext"] == "warm"
    path, authorization, host, event = asked[0]
    assert (path, authorization, event) == ("/v1/hook/claude-code", "Bearer t0k", PROMPT)
    assert host.startswith("127.0.0.1:")
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert not {name for name in loaded if name.startswith(("metier", "numpy", "onnx", "http", "pathlib"))}


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (401, b"{}"), (200, b"<html>"), (200, b"[1]"), (200, b"")])
def test_a_server_that_answers_nonsense_counts_as_none(tmp_path: Path, status: int, body: bytes) -> None:
    with served(tmp_path, status, body):
        assert entry.ask(b"{}", "claude-code", str(tmp_path), 5.0) is None


def test_a_server_that_is_gone_hangs_or_left_a_broken_note_counts_as_none(tmp_path: Path) -> None:
    assert entry.ask(b"{}", "codex", str(tmp_path), 1.0) is None
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        (tmp_path / "serve.json").write_text(json.dumps({"port": silent.getsockname()[1], "token": "t"}))
        assert entry.ask(b"{}", "codex", str(tmp_path), 0.1) is None
    assert entry.ask(b"{}", "codex", str(tmp_path), 1.0) is None, "nobody listens there any more"
    for text in ("", "[]", "{}", '{"port": "x", "token": 1}', '{"port": 1'):
        (tmp_path / "serve.json").write_text(text)
        assert entry.ask(b"{}", "codex", str(tmp_path), 1.0) is None


def test_the_light_rule_for_the_home_agrees_with_platformdirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    for value in (None, str(tmp_path), "", "  "):
        if value is None:
            monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        else:
            monkeypatch.setenv("XDG_DATA_HOME", value)
        assert entry.default_home() == platformdirs.user_data_dir("metier", appauthor=False)


def test_words_on_the_command_line_that_nobody_knows_do_no_harm() -> None:
    assert entry._arguments(["codex", "--home", "/h", "--what", "x"]) == ("codex", "/h")
    assert entry._arguments(["--home=/h", "nobody"]) == ("claude-code", "/h")
    assert entry._arguments([]) == ("claude-code", None)
    assert [entry._seconds(t) for t in ("", "x", "0", "99", "0.5", "nan")] == [None, None, None, None, 0.5, None]


def test_a_cold_process_encodes_on_one_thread_without_starting_onnxruntime(tmp_path: Path) -> None:
    shop = workshop(tmp_path, encoder="minilm")
    event = json.dumps({**PROMPT, "cwd": str(shop.cwd)}).encode()
    code, said, err = ran(tmp_path / "home", event, "-X", "importtime", METIER_ENCODER="minilm")
    assert code == 0 and "sql-tuning" in said["hookSpecificOutput"]["additionalContext"]
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "metier.models.bert" in loaded and "onnxruntime" not in loaded
