"""The hook command that a host starts on every prompt: JSON on stdin, JSON on stdout, always exit 0, always in time.

Hosts wait for this process, so it is started by its path (`python -I …/entry.py claude-code`) and imports next to
nothing: where a warm `metier serve` runs it asks that, over a plain socket, and only where none runs does it import the
rest of metier. A second thread does all the work; the first one waits, answers `{}` at the deadline, and leaves.
"""
# pathlib costs more than everything else this file imports
# ruff: noqa: PTH100, PTH109, PTH111, PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import _thread
import gc
import os
import sys
import time

if False:  # the names of types, for checkers alone: importing typing would cost every prompt
    from typing import Any

DEADLINE = 1.5
"""Seconds within which the host gets its answer, unless METIER_HOOK_DEADLINE or `hook.deadline` say otherwise."""
STDIN_LIMIT = 8_000_000
"""Bytes of an event that are read; a larger one is not a prompt that a person wrote."""
SERVER_PART = 0.6
"""Share of the deadline that a warm server may take; where none runs the connection is refused at once."""
TICK = 0.02
"""Seconds between two looks at a deadline that the configuration may still move."""
NOTHING = b"{}"
HOSTS = ("claude-code", "codex", "gemini", "qwen")


def run(argv: list[str]) -> None:
    """The process's whole life: one answer on stdout, then exit 0, whatever the worker is doing."""
    began = time.monotonic()
    state: dict[str, Any] = {
        "deadline": _seconds(os.environ.get("METIER_HOOK_DEADLINE", "")) or DEADLINE,
        "answer": NOTHING,
    }
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy loads: with more, the encoder starts slowly
    gc.disable()  # nothing this process makes is worth a collection
    finished = _thread.allocate_lock()
    finished.acquire()
    _thread.start_new_thread(_work, (argv, state, finished))
    while not finished.acquire(timeout=TICK) and time.monotonic() - began < state["deadline"]:
        pass
    _say(state["answer"])
    os._exit(0)  # daemon work (an import, a query) must not hold the host up


def _work(argv: list[str], state: dict[str, Any], finished: _thread.LockType) -> None:
    try:
        state["answer"] = answer(sys.stdin.buffer.read(STDIN_LIMIT + 1), argv, state)
    except BaseException as error:  # a worker has nobody above it: whatever breaks, the answer is {}
        _complain(f"metier hook: {type(error).__name__}: {error}")
    finally:
        finished.release()


def answer(data: bytes, argv: list[str], state: dict[str, Any]) -> bytes:
    """The answer to one event, as the bytes of a JSON object."""
    host, home = _arguments(argv)
    if not data.strip() or len(data) > STDIN_LIMIT:
        return NOTHING
    if os.environ.get("METIER_COLLECTING"):  # both arms of a paired run get exactly what `metier collect` hands them
        return NOTHING
    warm = ask(data, host, home, state["deadline"] * SERVER_PART)
    if warm is not None:
        return warm
    import json

    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return NOTHING
    return json.dumps(cold(event, host, home, state)).encode() if isinstance(event, dict) else NOTHING


def cold(event: dict[str, Any], host: str, home: str | None, state: dict[str, Any]) -> dict[str, Any]:
    """The answer computed in this very process."""
    prompt = event.get("prompt")
    asked = event.get("hook_event_name") in ("UserPromptSubmit", "BeforeAgent")
    if asked and (not isinstance(prompt, str) or _needless(prompt)):
        return {}
    from metier.assemble.settings import load
    from metier.assemble.workshop import Workshop
    from metier.edge.hooks.answer import answer as answered

    cwd = event.get("cwd")
    folder = cwd if isinstance(cwd, str) and os.path.isdir(cwd) else os.getcwd()
    from pathlib import Path

    config, _ = load(flags={"home": home, "host": host}, cwd=Path(folder))
    if not os.environ.get("METIER_HOOK_DEADLINE"):
        state["deadline"] = config.hook_deadline
    said = answered(event, Workshop(config, cwd=Path(folder)), host=host, complain=_complain)
    if config.hook_serve and event.get("hook_event_name") == "SessionStart":
        _serve(config.home, config.hook_serve, folder)
    return said


def _serve(home: str, idle: float, folder: str) -> None:
    """A server of this home begins behind, so that the session's prompts are answered warm; a second one just ends."""
    import subprocess

    words = [sys.executable, "-m", "metier.edge.cli.main", "serve", "--quiet", "--port=0", f"--idle={idle:g}"]
    subprocess.Popen(
        [*words, f"--home={home}"], cwd=folder, start_new_session=True, close_fds=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _needless(prompt: str) -> bool:
    """`chatter.needless`, found beside this file: by its full name, all nouns of metier would be loaded with it."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        import chatter  # type: ignore[import-not-found]
    finally:
        del sys.path[0]
    return bool(chatter.needless(prompt))


def ask(body: bytes, host: str, home: str | None, seconds: float) -> bytes | None:
    """What the warm server of this home says, or None where none runs or it does not say a JSON object.

    The event goes through as it came; not even the parsing of JSON is paid for here.
    """
    folder = home or os.environ.get("METIER_HOME") or default_home()
    try:
        with open(os.path.join(folder, "serve.json"), encoding="utf-8") as file:
            served = file.read(10_000)
        port, token = int(_member(served, "port")), _member(served, "token")
        if not token or not _held(os.path.join(folder, "serve.lock")):
            return None
        return _post(port, token, f"/v1/hook/{host}", body, seconds)
    except (OSError, ValueError, OverflowError):
        return None


def _held(path: str) -> bool:
    """Whether a server is alive to hold its lock: after a crash a stranger may listen on the port it once had."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock to look at; its own file of a crash is as old as the port
        return True
    with open(path, "rb+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def _member(text: str, key: str) -> str:
    """The number or text of one member of a flat JSON object that our own server wrote; empty where it is not."""
    _, found, rest = text.partition(f'"{key}":')
    rest = rest.lstrip()
    if rest.startswith('"'):
        return rest[1:].partition('"')[0]
    return rest.partition(",")[0].partition("}")[0].strip() if found else ""


def _post(port: int, token: str, path: str, body: bytes, seconds: float) -> bytes | None:
    import _socket  # what `socket` wraps; the wrapper costs as much as the whole request

    until = time.monotonic() + seconds
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    wire = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        wire.settimeout(seconds)
        wire.connect(("127.0.0.1", port))
        wire.sendall(head.encode("latin-1", "replace") + body)
        got = b""
        while True:
            wire.settimeout(max(0.001, until - time.monotonic()))
            piece = wire.recv(65536)
            if not piece:
                break
            got += piece
            top, blank, rest = got.partition(b"\r\n\r\n")
            length = _length(top) if blank else None
            if length is not None and len(rest) >= length:
                break
    finally:
        wire.close()
    top, _, rest = got.partition(b"\r\n\r\n")
    whole = rest.strip().startswith(b"{") and rest.strip().endswith(b"}")
    return rest if whole and top.split(b" ", 2)[1:2] == [b"200"] else None


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return None


def default_home() -> str:
    """`platformdirs.user_data_dir("metier", appauthor=False)`, without its import."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME", "").strip() or os.path.expanduser("~/.local/share")
    return os.path.join(base, "metier")


def _arguments(argv: list[str]) -> tuple[str, str | None]:
    """(host, home or None). An unknown host is answered as the first one: the hook never fails over a word."""
    home = None
    host = HOSTS[0]
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word.startswith("--home="):
            home = word[len("--home=") :]
        elif word == "--home" and rest:
            home = rest.pop(0)
        elif word in HOSTS:
            host = word
    return host, home or None


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.05 <= value <= 60 else None


def _say(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(1, data) :]
        os.write(1, b"\n")
    except OSError:  # the host has gone; there is nobody to tell
        return


def _complain(text: str) -> None:
    try:
        os.write(2, text.replace("\n", " ").encode("utf-8", "replace") + b"\n")
    except OSError:
        return


def main() -> None:
    """The `metier-hook` command."""
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
