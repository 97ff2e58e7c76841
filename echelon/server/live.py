"""Live notices: what changed, never the data itself.

One task looks at the catalogue while anybody listens. Each client keeps only the newest notice per match, so a slow one
delays nobody and catches up at once; late joiners first hear of every match still played.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from echelon.server.catalogue import Catalogue, Match
from echelon.server.connections import Connection

LOOK_S = 0.5
"""Time between looks at the run folders [s]."""
BEAT_S = 20.0
"""Time between pings [s]."""
QUIET_S = 120.0
"""Time without a word, of which an answer to a ping is one, after which a client is given up [s].

Many beats, since who pulls a lot over a slow line answers late; a host that is gone is told by what it does not take.
"""
PINGS = 20
"""Pings of a client within a beat after which it is given up: what is answered at once could be asked for at once."""
MAX_CLIENTS = 256
MAX_MESSAGE = 1024
"""Clients have nothing to say; longer messages close the channel."""


class Listener:
    """One client: the notices that wait for it, newest per match."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[str, Any]] = {}
        self.ready = asyncio.Event()

    def tell(self, notice: dict[str, Any]) -> None:
        """Put a notice in line, in place of an older one of the same match."""
        kept = self.waiting.pop(notice["id"], None)
        if kept is not None and kept["type"] == "match" and notice["type"] == "chunk":
            notice = {**notice, "type": "match"}
        self.waiting[notice["id"]] = notice
        self.ready.set()


class Hub:
    """Watches the catalogue while there are listeners."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.listeners: dict[Listener, web.WebSocketResponse] = {}
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[str, tuple[int, bool]] = {}

    async def join(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket until it closes."""
        if len(self.listeners) >= MAX_CLIENTS:
            raise web.HTTPServiceUnavailable()
        socket = web.WebSocketResponse(autoping=False, max_msg_size=MAX_MESSAGE, compress=False)
        await socket.prepare(request)
        if isinstance(request.protocol, Connection):
            request.protocol.channel = True
        listener = Listener()
        for match in await asyncio.to_thread(self.catalogue.matches):
            if match.live:
                listener.tell(notice_of(match, "match"))
        self.listeners[listener] = socket
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        talk = asyncio.gather(send_all(socket, listener), beat(socket))
        try:
            await until_gone(socket)
        finally:
            self.listeners.pop(listener, None)
            talk.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await talk
            await socket.close()
        return socket

    async def stop(self) -> None:
        """End the watching task, and say goodbye to everybody."""
        everybody = list(self.listeners.values())
        await asyncio.gather(*(s.close(code=WSCloseCode.GOING_AWAY) for s in everybody), return_exceptions=True)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _watch(self) -> None:
        self._seen = {m.id: state_of(m) for m in await asyncio.to_thread(self.catalogue.matches)}
        while True:
            await asyncio.sleep(LOOK_S)
            if not self.listeners:
                self._task = None
                return
            for match in await asyncio.to_thread(self.catalogue.matches):
                before, now = self._seen.get(match.id), state_of(match)
                if before == now:
                    continue
                self._seen[match.id] = now
                kind = "match" if before is None else "ended" if not match.live else "chunk"
                for listener in self.listeners:
                    listener.tell(notice_of(match, kind))


def state_of(match: Match) -> tuple[int, bool]:
    """Return what a change of a match shows in."""
    return match.summary["chunks"], match.live


def notice_of(match: Match, kind: str) -> dict[str, Any]:
    """Return a notice: ``match`` for a new one, ``chunk`` for more of it, ``ended``."""
    return {"type": kind, "id": match.id, "chunks": match.summary["chunks"], "tick1": match.summary["ticks"]}


async def send_all(socket: web.WebSocketResponse, listener: Listener) -> None:
    """Send what waits, whenever something does."""
    while True:
        await listener.ready.wait()
        listener.ready.clear()
        while listener.waiting:
            ident = next(iter(listener.waiting))
            await socket.send_json(listener.waiting.pop(ident))


async def beat(socket: web.WebSocketResponse) -> None:
    """Ask for a sign of life every ``BEAT_S``."""
    while True:
        await asyncio.sleep(BEAT_S)
        await socket.ping()


async def until_gone(socket: web.WebSocketResponse) -> None:
    """Return once the client leaves, says what it must not, or too much, or has been silent for ``QUIET_S``."""
    clock = asyncio.get_running_loop().time
    begun, heard = clock(), 0
    with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
        while True:
            message = await socket.receive(timeout=QUIET_S)
            if message.type not in (WSMsgType.PING, WSMsgType.PONG):
                return
            if clock() - begun > BEAT_S:
                begun, heard = clock(), 0
            heard += 1
            if heard > PINGS:
                return
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
