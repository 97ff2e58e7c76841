"""Puts the server together and runs it: access rules, routes, live notices, and one line about a taken port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web

import echelon
from echelon.arena.store import league_path
from echelon.runs import atomic_write, read_json, runs_home
from echelon.server import routes
from echelon.server.catalogue import Catalogue, mark_of
from echelon.server.connections import LIMITS, Door, Limits, give_up_stalled, paced
from echelon.server.live import Hub
from echelon.server.response_cache import Kept
from echelon.server.responses import CATALOGUE, KEPT, LEAGUE
from echelon.server.security import Access, guard

DEFAULT_PORT = 8400
PORT_TRIES = 20
NOTE = ".server.json"
"""File in the home folder that tells where its server listens."""
ASK_S = 1.0
BACKLOG = 128
"""Connections that wait to be accepted."""
LAST_WORDS_S = 2.0
"""How long answers under way may take once the server is told to stop [s]."""


class PortTakenError(ValueError):
    """The port that was asked for belongs to somebody else."""


def make_app(home: Path | str | None, access: Access, league: Path | None = None) -> web.Application:
    """Return the application over the runs of ``home`` and their league, or the league at another place."""
    app = web.Application(middlewares=[paced, guard(access)], client_max_size=1)
    app[CATALOGUE] = Catalogue(home)
    app[LEAGUE] = league or league_path(home)
    app[KEPT] = Kept()
    app[routes.HUB] = Hub(app[CATALOGUE])
    for path, handler in routes.ROUTES:
        app.router.add_get(path, handler)
    app.router.add_get("/", routes.page)
    app.router.add_get("/{path:.+}", routes.asset)
    app.on_shutdown.append(_stop)
    return app


async def _stop(app: web.Application) -> None:
    await app[routes.HUB].stop()
    app[CATALOGUE].close()


def open_socket(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; without a port the first free one from ``DEFAULT_PORT``.

    Raises ``PortTakenError`` for a port in use, ``ValueError`` for an address that is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + PORT_TRIES), 0]
    for candidate in wanted:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, candidate))
            made.listen(BACKLOG)
            return made
        except OSError as error:
            made.close()
            if isinstance(error, socket.gaierror) or error.errno == 99:
                raise ValueError(f"address {host!r} is not one of this machine") from None
    raise PortTakenError(f"port {port} of {host} is in use, wanted a free one; leave --port out to have one picked")


def address(access: Access, fragment: str = "") -> str:
    """Return the address to open, with its token where one is asked for."""
    host = f"[{access.host}]" if ":" in access.host else access.host
    host = {"0.0.0.0": socket.gethostname(), "[::]": socket.gethostname()}.get(host, host)
    token = f"?token={access.token}" if access.token else ""
    return f"http://{host}:{access.port}/{token}{fragment}"


def running_server(home: Path | str | None) -> str | None:
    """Return the address of a server that already serves ``home`` on this machine."""
    note = read_json(runs_home(home) / NOTE)
    if not note or not str(note.get("url", "")).startswith("http://127.0.0.1:"):
        return None
    try:
        with urllib.request.urlopen(f"{note['url']}api/v1/healthz", timeout=ASK_S) as reply:
            found = json.loads(reply.read(65536))
    except (OSError, ValueError):
        return None
    same = found.get("version") == echelon.__version__ and found.get("home") == mark_of(runs_home(home))
    return str(note["url"]) if same else None


def serve(
    home: Path | str | None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    embed_origin: str = "",
    league: Path | None = None,
    ready: Callable[[Access], None] = lambda access: None,
) -> None:
    """Serve until interrupted; ``ready`` is told the access rules once the port is open."""
    bound = open_socket(host, port)
    access = Access.create(host, bound.getsockname()[1], embed_origin=embed_origin)
    asyncio.run(_serve(make_app(home, access, league), bound, access, runs_home(home), ready))


async def _serve(
    app: web.Application, bound: socket.socket, access: Access, home: Path, ready: Callable[[Access], None]
) -> None:
    stop_serving = await listen(app, bound)
    note = home / NOTE
    if not access.token and home.is_dir():
        atomic_write(note, json.dumps({"url": address(access), "pid": os.getpid()}), durable=False)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    ready(access)
    try:
        await stop.wait()
    finally:
        if (read_json(note) or {}).get("pid") == os.getpid():
            note.unlink(missing_ok=True)
        await stop_serving()


async def listen(
    app: web.Application, bound: socket.socket, limits: Limits = LIMITS
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Answer on a listening socket within the limits of connections; return what ends it."""
    give_up_stalled(bound, limits)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=LAST_WORDS_S)
    await runner.setup()
    assert runner.server is not None
    bound.setblocking(False)
    server = await asyncio.get_running_loop().create_server(Door(runner.server, limits), sock=bound, backlog=BACKLOG)

    async def stop() -> None:
        server.close()
        await runner.cleanup()

    return stop
