"""`metier serve`: one process per home, a listening socket, and an orderly start and stop.

    lock  →  listen  →  announce (<home>/serve.json)  →  answer until a signal  →  finish what runs  →  withdraw

The lock is held by the operating system as long as the process lives, so a crash frees it; whoever reads `serve.json`
checks the lock first (`running`), since after a crash anybody could listen on the port that the file still names.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.edge.web.limits import CONNECTIONS, HEAD_BYTES, IDLE_SECONDS, protocol
from metier.errors import ConfigError, MetierError, MissingExtra

if TYPE_CHECKING:
    from metier.assemble.workshop import Workshop
    from metier.edge.web.desk import Hook
    from metier.edge.web.meter import Meter

PORT = 7717
BACKLOG = 256
"""Connections that wait while the server starts or is busy accepting others."""
GRACE_SECONDS = 5
"""Requests under way at a stop signal are finished within this time."""
SHORTEST_TOKEN = 16
"""Characters below which a `METIER_TOKEN` could be guessed over a network."""
_NEEDS = ("starlette", "uvicorn", "jinja2")


@dataclass(frozen=True, slots=True)
class Running:
    """What `<home>/serve.json` says about the server of this home. The file is 0600: it holds the token."""

    host: str
    port: int
    token: str
    pid: int
    started: float

    @property
    def address(self) -> str:
        """Where a client of this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"


def check_installed() -> None:
    """Raises `MissingExtra` unless everything that serving needs is installed."""
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra("serve", ", ".join(missing), "metier serve")


def serve(
    shop: Workshop,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    allow: Sequence[str] = (),
    hook: Hook | None = None,
    ready: Callable[[Running, str], None] = lambda running, link: None,
    environment: Mapping[str, str] = os.environ,
    idle: float = 0.0,
) -> None:
    """Serves until SIGINT or SIGTERM, or for `idle` seconds without a request (0: for ever), then ends in order.

    `ready` gets the address and a one-time link.

    Raises `MissingExtra`, `ConfigError` (host, port or token) and `MetierError` (this home is already served).
    """
    ours = prepared(shop, host=host, port=port, allow=allow, hook=hook, environment=environment)
    with ours as made, stopping(made.server):
        ready(made.told, made.link)
        if idle > 0:
            threading.Thread(target=made.retire, args=(idle,), name="metier-idle", daemon=True).start()
        made.run()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A server that listens and is announced, and begins to answer when it runs."""

    server: Any
    told: Running
    link: str
    bound: socket.socket
    meter: Meter | None = None
    """What counts its answers; None for the server of another process."""

    def retire(self, idle: float) -> None:
        """Returns when nobody has asked for `idle` seconds; the server then ends in order."""
        while self.meter is not None and (left := self.meter.last + idle - time.monotonic()) > 0:
            time.sleep(left)
        self.server.should_exit = True

    def run(self) -> None:
        """Answers until `server.should_exit` is set."""
        self.server.run(sockets=[self.bound])


@contextlib.contextmanager
def prepared(
    shop: Workshop,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    allow: Sequence[str] = (),
    hook: Hook | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Prepared]:
    """The lock is held, the socket listens, `serve.json` stands there; all of it is undone at the end."""
    check_installed()
    import uvicorn

    from metier.edge.web.app import build
    from metier.edge.web.desk import Desk
    from metier.edge.web.guard import Keys, Names

    home = Path(shop.config.home)
    with alone(home):
        given = environment.get("METIER_TOKEN", "")
        if given and len(given) < SHORTEST_TOKEN:
            raise ConfigError(f"METIER_TOKEN has {len(given)} characters; use at least {SHORTEST_TOKEN} random ones")
        token = home_token(home)
        with contextlib.closing(listen(host, port)) as bound:
            told = Running(host, bound.getsockname()[1], token, os.getpid(), time.time())
            desk = Desk(shop, Keys((token, given) if given else (token,)), told.address, hook)
            config = uvicorn.Config(
                build(desk, Names.of(host, told.port, allow)),
                http=protocol(), ws="none", lifespan="on", log_config=None, access_log=False, server_header=False,
                proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS, h11_max_incomplete_event_size=HEAD_BYTES,
            )  # fmt: skip
            with announced(home, told):
                link = f"{told.address}/enter?code={desk.keys.link()}"
                yield Prepared(uvicorn.Server(config), told, link, bound, desk.meter)


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """This process alone serves this home. Raises `MetierError` that says where the other one is."""
    import filelock

    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = filelock.FileLock(home / "serve.lock", timeout=0, mode=0o600)
        lock.acquire()
    except filelock.Timeout as error:
        other = _announced(home)
        where = f"at {other.address} (process {other.pid})" if other else "by a process that is just starting"
        raise MetierError(
            f"{home}: already served {where}; `metier serve --link` prints a link to it, or set METIER_HOME elsewhere"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{home}: cannot be written ({error.strerror}); set METIER_HOME to a folder of yours"
        ) from error
    try:
        yield
    finally:
        lock.release()


def running(home: Path) -> Running | None:
    """The server of this home, if one lives: its file is believed only while its lock is held."""
    import filelock

    if not (home / "serve.json").exists():
        return None
    try:
        with filelock.FileLock(home / "serve.lock", timeout=0, mode=0o600):
            return None  # nobody holds it: the file is what a crash left behind
    except filelock.Timeout:
        return _announced(home)
    except OSError:
        return None


def fresh_link(home: Path) -> str:
    """A fresh one-time link from the running server. Raises `MetierError` when none runs or it does not answer."""
    import urllib.error
    import urllib.request

    server = running(home)
    if server is None:
        raise MetierError(f"{home}: no server runs for this home; start one with: metier serve")
    request = urllib.request.Request(
        f"{server.address}/v1/link", data=b"", headers={"Authorization": f"Bearer {server.token}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy: the token is in it
    try:
        with direct.open(request, timeout=5) as response:
            return str(json.load(response)["link"])
    except (OSError, urllib.error.URLError, ValueError, KeyError) as error:
        raise MetierError(
            f"{server.address}: gave no link ({error}); stop process {server.pid} and start anew"
        ) from error


def home_token(home: Path) -> str:
    """The home's own token, made once and kept in `<home>/token` (0600); removing the file revokes it."""
    path = home / "token"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        held = path.read_text(encoding="ascii").strip()
        if len(held) >= SHORTEST_TOKEN:
            path.chmod(0o600)
            return held
    token = secrets.token_urlsafe(32)
    _write_private(path, token + "\n")
    return token


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigError` when the address is not ours or the port is taken."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, proto)
    except OSError as error:
        raise ConfigError(
            f"--host {host!r}: no such address ({error}); use 127.0.0.1, or one of this machine"
        ) from error
    try:
        if os.name == "posix":  # elsewhere this flag would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another with --port (0 takes any free one)"
        ) from error
    return bound


@contextlib.contextmanager
def announced(home: Path, told: Running) -> Iterator[None]:
    """`<home>/serve.json` says where this server is, as long as it is there."""
    path = home / "serve.json"
    _write_private(path, json.dumps(asdict(told)) + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _announced(home: Path) -> Running | None:
    try:
        return Running(**json.loads((home / "serve.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def stopping(server: Any) -> Iterator[None]:
    """SIGINT and SIGTERM end the server in order, once; then the process goes on to tidy up.

    uvicorn would raise the signal again after its own shutdown, and so end the process before `serve.json` is gone.
    """
    server.capture_signals = contextlib.nullcontext
    before: dict[signal.Signals, Any] = {}
    with contextlib.suppress(ValueError):  # not the main thread: whoever runs it there stops it by `should_exit`
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, server.handle_exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_private(path: Path, text: str) -> None:
    """The file holds `text`, whole and for its owner alone, from the moment it exists."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}); set METIER_HOME to a folder of yours"
        ) from error
