"""A client that dies leaves no server behind: real processes, killed as the operating system kills them."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.material import workshop
from metier.edge.mcp import server

pytest.importorskip("mcp")
posix = pytest.mark.skipif(not hasattr(select, "poll"), reason="hang-ups are told by poll(2)")

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
LINES = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    *(
        {"jsonrpc": "2.0", "id": n, "method": "tools/call",
         "params": {"name": "find_skills", "arguments": {"task": f"why is this query slow, case {n}"}}}
        for n in range(1, 30)
    ),
]  # fmt: skip
CLIENT = """
import os, subprocess, sys
sent, taken = int(sys.argv[1]), int(sys.argv[2])
command = [sys.executable, "-I", "-m", "metier.edge.cli.main", "mcp"]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b"".join(sys.stdin.buffer.readlines()[:sent]))
child.stdin.flush()
for _ in range(taken):
    child.stdout.readline()
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
WAIT = 60  # seconds until a test gives up; a server ends in one to four


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    workshop(tmp_path)
    yield {**os.environ, "HOME": str(tmp_path), "METIER_HOME": str(tmp_path / "home"), "METIER_ENCODER": "hash"}


def ended(pid: int) -> bool:
    """Whether the process goes away by itself; it is no child of ours, so the kernel is asked for its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        gone = bool(select.select([handle], [], [], WAIT)[0])
        if not gone:
            os.kill(pid, signal.SIGKILL)
        return gone
    finally:
        os.close(handle)


@posix
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of a stranger's process is told by pidfd")
@pytest.mark.parametrize(("sent", "taken"), [(0, 0), (1, 0), (3, 1), (31, 1), (31, 5)])
def test_a_server_whose_client_is_killed_ends(sent: int, taken: int, env: dict[str, str], tmp_path: Path) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in LINES)
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, str(sent), str(taken)],
        input=lines, stdout=subprocess.PIPE, encoding="utf-8", env=env, cwd=tmp_path / "project", check=False,
    )  # fmt: skip
    assert client.returncode == -signal.SIGKILL
    assert ended(int(client.stdout))


@posix
def test_a_client_that_stops_listening_but_holds_the_pipe_ends_the_server(env: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "metier.edge.cli.main", "mcp"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=tmp_path
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write("".join(json.dumps(line) + "\n" for line in LINES[:2]).encode())
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(WAIT) == 0 and process.stderr.read() == b""


@posix
def test_an_answer_that_nobody_takes_after_the_end_of_the_input_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STUCK_SECONDS", 1)
    (reading, asks), (answers, writing) = os.pipe(), os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"." * 65_536)
    os.close(asks)
    said: list[int] = []
    server._end_alone(reading, writing, said.append)
    assert said == [0]
    for descriptor in (reading, answers, writing):
        os.close(descriptor)
