"""Build and run the server: access rules, routes, live notices, listening socket."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import re
import signal
import socket
from collections.abc import Callable, Coroutine
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from aiohttp import web

import echelon
from echelon.arena.store import league_path
from echelon.files import atomic_write, reason_of
from echelon.runs import RunPaths, read_json, runs_home
from echelon.server import connections, routes
from echelon.server.catalogue import ReplayCatalogue, home_hash
from echelon.server.listing import LISTING, Listing, add_pools
from echelon.server.live import NoticeHub
from echelon.server.play import Another, PlayGate, Revive
from echelon.server.responses import CATALOGUE, LEAGUE, RESPONSE_CACHE, ResponseCache
from echelon.server.security import ACCESS, WILDCARDS, Access, access_middleware
from echelon.state_files import parse_json

DEFAULT_PORT = 8400
PORT_ATTEMPTS = 20
SERVER_FILE = ".server.json"
"""File in the home folder with the address and process id of its server."""
LOG = logging.getLogger(__name__)
HEALTH_TIMEOUT_S = 1.0  # of the health request to a server that may already run
HEALTH_BYTES = 1 << 16
"""Bytes read of an answer to it."""
LOCAL_HOST = "127.0.0.1"
LOCAL_URL = re.compile(rf"http://{re.escape(LOCAL_HOST)}:(?P<port>[0-9]{{1,5}})/")
"""Addresses that the file may name; any other is not asked, nor opened in a browser."""
BACKLOG = 128
"""Length of the queue of connections not accepted yet."""
SHUTDOWN_TIMEOUT_S = 2.0
"""Time that running requests get to finish at shutdown [s]."""


class PortTakenError(ValueError):
    """The requested port is in use."""


def make_app(
    home: Path | str | None,
    access: Access,
    league: Path | None = None,
    *,
    play: RunPaths | None = None,
    revive: Revive = lambda paths: None,
    another: Another | None = None,
) -> web.Application:
    """Return the application over the runs of ``home`` and their league, or over the league at ``league``.

    With ``play``, a session that it keeps company, browsers may join the play sessions of ``home``; ``revive`` may
    start another one in its place, and ``another`` a further one for each browser.
    """
    app = web.Application(middlewares=[connections.paced, access_middleware(access)], client_max_size=1)
    app[ACCESS] = access
    app[CATALOGUE] = ReplayCatalogue(home)
    app[LEAGUE] = league or league_path(home)
    app[RESPONSE_CACHE] = ResponseCache()
    app[LISTING] = Listing(app[CATALOGUE])
    app[routes.HUB] = NoticeHub(app[LISTING])
    add_pools(app)
    if play is not None:
        app[routes.PLAY] = PlayGate(runs_home(home), another)
        app.on_startup.append(lambda app: _keep_session(app, play, revive))
    for path, handler in routes.ROUTES:
        app.router.add_get(path, handler)
    app.router.add_get("/", routes.page)
    app.router.add_get("/{path:.+}", routes.asset)
    app.on_shutdown.append(_shutdown)
    return app


async def _keep_session(app: web.Application, play: RunPaths, revive: Revive) -> None:
    app[routes.PLAY].keep(play, revive)


async def _shutdown(app: web.Application) -> None:
    await app[routes.HUB].stop()
    if routes.PLAY in app:
        await app[routes.PLAY].stop()
    app[CATALOGUE].close()


def open_socket(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; without a port, on the first free one from ``DEFAULT_PORT`` up.

    Raises ``PortTakenError`` for a port in use, ``ValueError`` for an address that this machine does not have.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    candidates = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + PORT_ATTEMPTS), 0]
    for candidate in candidates:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, candidate))
            bound.listen(BACKLOG)
            return bound
        except OSError as error:
            bound.close()
            if isinstance(error, socket.gaierror):
                raise ValueError(f"address {host!r} is unknown, expected one of this machine; try 127.0.0.1") from None
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(f"address {host!r} does not belong to this machine") from None
            if port is not None and error.errno != errno.EADDRINUSE:
                reason = reason_of(error)
                raise ValueError(f"port {port} of {host} cannot be opened: {reason}; try a larger one") from None
    raise PortTakenError(f"port {port} of {host} is in use, expected a free one; omit --port to pick one automatically")


def address(access: Access, fragment: str = "", *, here: bool = False) -> str:
    """Return the address for other machines, or ``here``, for this one, of a server on every interface."""
    host = f"[{access.host}]" if ":" in access.host else access.host
    if access.host in WILDCARDS:
        host = LOCAL_HOST if here else own_address()
    token = f"?token={access.token}" if access.token else ""
    return f"http://{host}:{access.port}/{token}{fragment}"


def own_address() -> str:
    """Return the address of this machine in its network, which needs no name server; without a network its name."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("192.0.2.1", 9))  # nothing is sent
        return str(route.getsockname()[0])
    return socket.gethostname()


def running_server(home: Path | str | None) -> str | None:
    """Return the URL of a server that already serves ``home`` on this machine, else None.

    Only the port is taken from the file: whatever else it or the server at that port holds, no other host is asked.
    """
    url = (read_json(runs_home(home) / SERVER_FILE) or {}).get("url")
    found = LOCAL_URL.fullmatch(url) if isinstance(url, str) else None
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        return None
    try:
        with contextlib.closing(HTTPConnection(LOCAL_HOST, int(found["port"]), timeout=HEALTH_TIMEOUT_S)) as server:
            server.request("GET", "/api/v1/healthz")
            health = parse_json(server.getresponse().read(HEALTH_BYTES))
    except (OSError, ValueError, HTTPException):
        return None
    expected = {"version": echelon.__version__, "home": home_hash(runs_home(home))}
    same = isinstance(health, dict) and all(health.get(name) == value for name, value in expected.items())
    return f"http://{LOCAL_HOST}:{int(found['port'])}/" if same else None


def serve(
    home: Path | str | None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    embed_origin: str = "",
    allowed_hosts: tuple[str, ...] = (),
    league: Path | None = None,
    play: RunPaths | None = None,
    revive: Revive = lambda paths: None,
    another: Another | None = None,
    ready: Callable[[Access], None] = lambda access: None,
) -> None:
    """Serve until interrupted; ``ready`` is called with the access rules once the port is open.

    ``allowed_hosts`` are further names of this server in Host and Origin headers, such as that of a proxy. With
    ``play``, a session, browsers may join play sessions; ``revive`` and ``another`` as of ``make_app``. Without, the
    server only reads.
    """
    bound = open_socket(host, port)
    access = Access.create(host, bound.getsockname()[1], embed_origin=embed_origin, extra_hosts=allowed_hosts)
    app = make_app(home, access, league, play=play, revive=revive, another=another)
    asyncio.run(_serve(app, bound, access, runs_home(home), ready))


async def _serve(
    app: web.Application, bound: socket.socket, access: Access, home: Path, ready: Callable[[Access], None]
) -> None:
    stop_serving = await listen(app, bound)
    server_file = home / SERVER_FILE
    if not access.token and home.is_dir():
        try:
            atomic_write(server_file, json.dumps({"url": address(access), "pid": os.getpid()}), durable=False)
        except OSError as error:  # a full or read-only disk can be served
            LOG.warning("%s cannot be written, commands do not find this server: %s", SERVER_FILE, reason_of(error))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    ready(access)
    try:
        await stop.wait()
    finally:
        with contextlib.suppress(OSError):
            if (read_json(server_file) or {}).get("pid") == os.getpid():
                server_file.unlink(missing_ok=True)
        await stop_serving()


async def listen(
    app: web.Application, bound: socket.socket, limits: connections.Limits = connections.LIMITS
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Serve ``app`` on a listening socket within connection limits; return the coroutine function that stops it."""
    limits = connections.within_descriptors(limits)
    connections.set_stall_timeout(bound, limits)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S, handler_cancellation=True)
    await runner.setup()
    assert runner.server is not None
    bound.setblocking(False)
    bound.listen(BACKLOG)
    accepting = asyncio.create_task(
        connections.accept_connections(connections.ConnectionFactory(runner.server, limits), bound)
    )

    async def stop() -> None:
        accepting.cancel()
        await asyncio.wait([accepting])
        bound.close()
        await runner.cleanup()

    return stop
