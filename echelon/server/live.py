"""Live notices over WebSockets: which matches changed, never the data itself.

One task polls the catalogue while clients are connected. The queue of a client holds only the newest notice per match,
so that a slow client delays no other; a new client first receives a notice of every live match.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from echelon.server.catalogue import Match
from echelon.server.connections import Connection
from echelon.server.listing import Listing

POLL_S = 0.5
"""Time between polls of the catalogue [s]."""
PING_INTERVAL_S = 20.0
"""Time between pings [s]."""
SILENCE_TIMEOUT_S = 120.0
"""Time without any message, pongs included, after which a client is disconnected [s].

Several pings long, since a client that downloads over a slow line answers late; the stall timeout detects dead hosts.
"""
MAX_PINGS = 20
"""Most pings or pongs from a client within ``PING_INTERVAL_S``; each is answered at once, so a flood is cut off."""
LOG = logging.getLogger(__name__)
MAX_CLIENTS = 256
KEY = re.compile("[A-Za-z0-9+/]{22}==")
"""Key of a WebSocket handshake, 16 bytes in base64; aiohttp fails on other characters than ASCII."""
MAX_MESSAGE = 1024
"""Longest message from a client [bytes]; clients have nothing to send, so that a longer one closes the channel."""


class Listener:
    """The notice queue of one client: the newest notice per match."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[str, Any]] = {}
        self.ready = asyncio.Event()

    def enqueue(self, notice: dict[str, Any]) -> None:
        queued = self.waiting.pop(notice["id"], None)
        if queued is not None and queued["type"] == "match" and notice["type"] == "chunk":
            notice = {**notice, "type": "match"}
        self.waiting[notice["id"]] = notice
        self.ready.set()


class NoticeHub:
    """Polls the catalogue while clients are connected and queues notices for them."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.listeners: dict[Listener, web.WebSocketResponse] = {}
        self._task: asyncio.Task[None] | None = None

    async def join(self, request: web.Request) -> web.StreamResponse:
        if not KEY.fullmatch(request.headers.get("Sec-WebSocket-Key", "")):
            raise web.HTTPBadRequest()
        if len(self.listeners) >= MAX_CLIENTS:
            raise web.HTTPServiceUnavailable()
        socket = web.WebSocketResponse(autoping=False, max_msg_size=MAX_MESSAGE, compress=False)
        listener = Listener()
        self.listeners[listener] = socket  # before anything is awaited, so that clients who arrive together are counted
        try:
            await self._serve(request, socket, listener)
        finally:
            self.listeners.pop(listener, None)
        return socket

    async def _serve(self, request: web.Request, socket: web.WebSocketResponse, listener: Listener) -> None:
        """Send notices of live matches, then of every change, until the client disconnects."""
        await socket.prepare(request)
        if isinstance(request.protocol, Connection):
            request.protocol.channel = True
        matches, whole = await self.listing.get()
        for match in matches:
            if match.live:
                listener.enqueue(notice_of(match, "match"))
        if self._task is None:
            seen = {match.id: notice_state(match) for match in matches}
            self._task = asyncio.create_task(self._watch(seen if whole else None))
        talk = asyncio.gather(send_notices(socket, listener), ping_loop(socket))
        try:
            await wait_closed(socket)
        finally:
            talk.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await talk
            await socket.close()

    async def stop(self) -> None:
        sockets = list(self.listeners.values())
        await asyncio.gather(*(s.close(code=WSCloseCode.GOING_AWAY) for s in sockets), return_exceptions=True)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _watch(self, seen: Mapping[str, tuple[int, bool]] | None) -> None:
        """Notify clients of changes since ``seen``, the state that the first of them joined at.

        None stands for a part of the matches: when all are known, a notice of the first makes pages load the list.
        """
        while self.listeners:
            try:
                matches, whole = await self.listing.get()
            except Exception:  # notices go on, whatever a poll ran into
                LOG.exception("a poll of the matches failed")
            else:
                if seen is not None or whole:
                    now = {match.id: notice_state(match) for match in matches}
                    self._notify(matches if seen is not None else matches[:1], seen or {})
                    seen = now
            await asyncio.sleep(POLL_S)
        self._task = None

    def _notify(self, matches: Iterable[Match], seen: Mapping[str, tuple[int, bool]]) -> None:
        """Queue a notice for each match that is not as ``seen`` at the last poll."""
        for match in matches:
            before, now = seen.get(match.id), notice_state(match)
            if before == now:
                continue
            kind = "match" if before is None else "ended" if not match.live else "chunk"
            for listener in self.listeners:
                listener.enqueue(notice_of(match, kind))


def notice_state(match: Match) -> tuple[int, bool]:
    """Return the number of chunks and whether the match is live; a change triggers a notice."""
    return match.summary["chunks"], match.live


def notice_of(match: Match, kind: str) -> dict[str, Any]:
    """Return a notice of type ``match`` for a new match, ``chunk`` for a longer one, or ``ended``."""
    return {"type": kind, "id": match.id, "chunks": match.summary["chunks"], "tick1": match.summary["ticks"]}


async def send_notices(socket: web.WebSocketResponse, listener: Listener) -> None:
    while True:
        await listener.ready.wait()
        listener.ready.clear()
        while listener.waiting:
            ident = next(iter(listener.waiting))
            await socket.send_json(listener.waiting.pop(ident))


async def ping_loop(socket: web.WebSocketResponse) -> None:
    """Ping the client every ``PING_INTERVAL_S`` and send a message: a page sees no pings, silence is a loss to it."""
    while True:
        await asyncio.sleep(PING_INTERVAL_S)
        await socket.ping()
        await socket.send_str("{}")


async def wait_closed(socket: web.WebSocketResponse) -> None:
    """Return when the client leaves, sends data, floods pings, or is silent for ``SILENCE_TIMEOUT_S``; answer pings."""
    clock = asyncio.get_running_loop().time
    started, received = clock(), 0
    with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
        while True:
            message = await socket.receive(timeout=SILENCE_TIMEOUT_S)
            if message.type not in (WSMsgType.PING, WSMsgType.PONG):
                return
            if clock() - started > PING_INTERVAL_S:
                started, received = clock(), 0
            received += 1
            if received > MAX_PINGS:
                return
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
