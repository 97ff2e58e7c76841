"""The WebSocket of play sessions: passes messages between a browser and the session's local socket.

The server reads the first message alone, for its version and token; it never reads another and loads nothing of the
simulator. A server with sessions of its own gives each browser another one, by a cookie. Limits of a client's messages
are kept here, so that a flood does not reach the session. A frame is fetched from the session when the browser has
taken the one before it.
"""

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web

from echelon import play_protocol as protocol
from echelon.files import error_text
from echelon.play_channel import ChannelError, connect, packet, read_packet, read_token
from echelon.runs import RunPaths, list_runs
from echelon.server.connections import Connection
from echelon.server.live import KEY, PING_INTERVAL_S

COOKIE = "echelon_play_{port}"
"""Cookie with the token; cookies are sent to every port of a host."""
PILOT_COOKIE, PILOT = "echelon_pilot_{port}", re.compile(r"[\w-]{16,64}", re.ASCII)
"""Cookie that tells browsers apart where each one has its own session."""
HELLO_TIMEOUT_S = 5.0
"""Time within which a client sends its first message [s]."""
MAX_CLIENTS = 16
"""Channels with a token at the same time."""
MAX_WAITING = 64
"""Channels that have not sent a token yet. The oldest one is closed for another, so that none keeps a pilot out."""
MAX_MESSAGE = 1 << 16
"""Longest message that is answered by an error; a longer one closes the channel [bytes]."""
MAX_REFUSED = 600
"""Messages above the rate within ten seconds that close the channel."""
REFUSED_S = 10.0
RETRY_S = 1.0
REVIVE_S, MOST_REVIVE_S = 30.0, 3600.0
"""Least time between two starts of a session [s], which doubles up to the second until one lives for ``STEADY_S``."""
STEADY_S = 300.0
LOG = logging.getLogger(__name__)
Revive = Callable[[RunPaths], RunPaths | None]
"""Starts another session in place of one that has crashed; returns None for one that lives or was stopped."""
Another = Callable[[], RunPaths]
"""Starts a further session; ``ValueError`` in words where as many run as may."""
CLOSE_TOKEN, CLOSE_SESSION, CLOSE_BUSY, CLOSE_FLOOD = 4401, 4404, 4409, 4429


class TooFast(Exception):
    """A client floods the channel."""


class Rate:
    """Counts a client's messages; a burst of a second is allowed."""

    def __init__(self, now: float) -> None:
        self._allowed, self._at = float(protocol.MAX_CLIENT_RATE), now
        self._refused, self._since = 0, now

    def admit(self, now: float) -> bool:
        """Whether a message may pass; ``TooFast`` once too many may not."""
        limit = protocol.MAX_CLIENT_RATE
        self._allowed, self._at = min(limit, self._allowed + (now - self._at) * limit), now
        if self._allowed >= 1.0:
            self._allowed -= 1.0
            return True
        if now - self._since > REFUSED_S:
            self._refused, self._since = 0, now
        self._refused += 1
        if self._refused > MAX_REFUSED:
            raise TooFast
        return False

    @property
    def is_first_refusal(self) -> bool:
        """Whether the last message was the first refused one of its ten seconds."""
        return self._refused == 1


@dataclass
class BrowserSession:
    """A browser's session, open channels, and when the last one was closed [s]."""

    session: RunPaths
    channels: int = 0
    left: float = 0.0


class PlayGate:
    """Admits browsers to the play sessions of a runs folder.

    With ``another``, the token of the session that is kept admits each browser to a session of its own.
    """

    def __init__(self, home: Path, another: Another | None = None) -> None:
        self._home, self._another = home, another
        self._kept: RunPaths | None = None
        self._pilots: dict[str, BrowserSession] = {}
        self._starting = asyncio.Lock()
        self._clients: set[web.WebSocketResponse] = set()
        self._waiting: dict[web.WebSocketResponse, web.Request] = {}
        self._keeper: asyncio.Task[None] | None = None

    def keep(self, paths: RunPaths, revive: Revive = lambda paths: None) -> None:
        """Hold a connection to a session while the server runs, so that it waits for its first client.

        Where it cannot be reached, ``revive`` may start another one; it returns None to let it be.
        """
        self._keeper = asyncio.get_running_loop().create_task(self._keep(paths, revive))

    async def _keep(self, paths: RunPaths, revive: Revive) -> None:
        """Stay connected to a session, without a request, and to the one that takes its place."""
        clock = asyncio.get_running_loop().time
        tried, pause = -REVIVE_S, REVIVE_S
        while True:
            since, self._kept = clock(), paths
            with contextlib.suppress(ChannelError, OSError):
                reader, writer = await connect(paths)
                try:
                    await read_packet(reader)
                finally:
                    writer.close()
            await asyncio.sleep(RETRY_S)
            if clock() - since > STEADY_S:
                pause = REVIVE_S
            if clock() - tried < pause:
                continue
            try:
                other = await asyncio.to_thread(revive, paths)
            except (OSError, ValueError) as error:
                LOG.warning("no other play session was started: %s", error_text(error))
                other = paths
            if other is not None:
                paths, tried, pause = other, clock(), min(2.0 * pause, MOST_REVIVE_S)

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        clients = [*self._clients, *self._waiting]
        await asyncio.gather(*(s.close(code=WSCloseCode.GOING_AWAY) for s in clients), return_exceptions=True)

    async def join(self, request: web.Request) -> web.StreamResponse:
        if not KEY.fullmatch(request.headers.get("Sec-WebSocket-Key", "")):
            raise web.HTTPBadRequest()
        # browsers always send it, and the middleware has compared it
        if request.headers.get("Origin") is None:
            raise web.HTTPForbidden()
        if len(self._waiting) >= MAX_WAITING:
            self._close_oldest()
        socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE, compress=False, heartbeat=PING_INTERVAL_S)
        pilot = request.cookies.get(PILOT_COOKIE.format(port=request.url.port), "")
        if self._another and not PILOT.fullmatch(pilot):
            pilot = secrets.token_urlsafe(16)
            name = PILOT_COOKIE.format(port=request.url.port)
            socket.set_cookie(name, pilot, httponly=True, samesite="Strict")
        self._waiting[socket] = request  # before anything is awaited, so that clients who arrive together are counted
        try:
            await socket.prepare(request)
            if isinstance(request.protocol, Connection):
                request.protocol.channel = True
            await self._serve(request, socket, pilot)
        finally:
            self._waiting.pop(socket, None)
            self._clients.discard(socket)
            await socket.close()
        return socket

    def _close_oldest(self) -> None:
        oldest = next(iter(self._waiting))
        transport = self._waiting.pop(oldest).transport
        if transport is not None:
            transport.abort()

    def _admit(self, socket: web.WebSocketResponse) -> bool:
        """Count a channel whose token is right; return whether there is room for it."""
        self._waiting.pop(socket, None)
        if len(self._clients) >= MAX_CLIENTS:
            return False
        self._clients.add(socket)
        return True

    async def _serve(self, request: web.Request, socket: web.WebSocketResponse, name: str) -> None:
        first = await self._hello(request, socket)
        if first is None:
            return
        hello, data = first
        running = await asyncio.to_thread(self._sessions)
        token = hello.token or request.cookies.get(COOKIE.format(port=request.url.port), "")
        paths = await asyncio.to_thread(_session, running, token)
        if running and paths is None:
            await _refuse(socket, "token", "the token fits no session; open the address that it printed", "hello")
            await socket.close(code=CLOSE_TOKEN)
            return
        if paths is None:
            await _refuse(socket, "session", "no play session runs; start one: echelon play", "hello")
            await socket.close(code=CLOSE_SESSION)
            return
        if not self._admit(socket):
            await _refuse(socket, "busy", f"the server has {MAX_CLIENTS} channels, expected fewer; try later", "hello")
            await socket.close(code=CLOSE_BUSY)
            return
        try:
            pilot = await self._pilot(name, paths)
        except ValueError as error:
            await _refuse(socket, "busy", error_text(error), "hello")
            await socket.close(code=CLOSE_BUSY)
            return
        pilot.channels += 1
        try:
            await self._pass(socket, pilot.session, data)
        finally:
            pilot.channels -= 1
            pilot.left = asyncio.get_running_loop().time()

    async def _pilot(self, name: str, session: RunPaths) -> BrowserSession:
        """Return the pilot of a channel to a session.

        Of the kept session each browser that comes is another pilot: the first one has it, others get further ones. It
        is free again when its pilot has been gone for as long as seats are held.
        """
        if self._another is None or self._kept is None or session.root != self._kept.root:
            return BrowserSession(session)
        async with self._starting:
            now = asyncio.get_running_loop().time()
            for key, each in list(self._pilots.items()):
                is_gone = key != name and not each.channels and now - each.left > protocol.SEAT_HOLD_S
                if is_gone or not each.session.play_socket.exists():
                    del self._pilots[key]
            if name not in self._pilots:
                is_taken = any(each.session.root == session.root for each in self._pilots.values())
                own = await asyncio.to_thread(self._another) if is_taken else session
                self._pilots[name] = BrowserSession(own, left=now)
            return self._pilots[name]

    async def _pass(self, socket: web.WebSocketResponse, session: RunPaths, data: bytes) -> None:
        """Pass messages between a browser and its session, the first one first, until either ends."""
        try:
            reader, writer = await connect(session)
        except ChannelError:
            await _refuse(socket, "session", "the session has ended; start another one: echelon play", "hello")
            await socket.close(code=CLOSE_SESSION)
            return
        writer.write(packet(data))
        inward = asyncio.create_task(_pass_in(socket, writer))
        outward = asyncio.create_task(_pass_out(socket, reader, writer))
        try:
            await asyncio.wait((inward, outward), return_when=asyncio.FIRST_COMPLETED)
            if inward.done() and isinstance(inward.exception(), TooFast):
                await socket.close(code=CLOSE_FLOOD)
        finally:
            for task in (inward, outward):
                task.cancel()
            await asyncio.gather(inward, outward, return_exceptions=True)
            writer.close()

    async def _hello(self, request: web.Request, socket: web.WebSocketResponse) -> tuple[protocol.Hello, bytes] | None:
        """Return a client's first message and its bytes, without the token; None for one that is refused."""
        with contextlib.suppress(asyncio.TimeoutError):
            message = await socket.receive(timeout=HELLO_TIMEOUT_S)
            if message.type is not WSMsgType.BINARY:
                await _refuse(socket, "message", "message is no binary msgpack map", "")
                return None
            try:
                hello = protocol.parse_client(message.data)
            except protocol.MessageError as error:
                await _refuse(socket, "message", str(error), error.kind)
                return None
            if not isinstance(hello, protocol.Hello):
                await _refuse(socket, "message", "the first message is of another type, expected hello", "")
                return None
            if hello.version != protocol.PLAY_VERSION:
                text = f"version is {hello.version}, expected {protocol.PLAY_VERSION}; reload the page"
                await _refuse(socket, "version", text, "hello")
                return None
            return hello, protocol.pack(hello.model_copy(update={"token": ""}))
        return None

    def _sessions(self) -> list[RunPaths]:
        """Return the sessions that listen, or did before they were killed."""
        return [run for run in list_runs(self._home) if run.play_socket.exists()]


def _session(running: list[RunPaths], token: str) -> RunPaths | None:
    """Return the session of a token, compared in constant time; None without one."""
    given = token.encode(errors="surrogateescape")
    fits = [run for run in running if hmac.compare_digest(given, (read_token(run) or "\0").encode())]
    return fits[0] if token and fits else None


async def _pass_in(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Pass a browser's messages to its session; ``TooFast`` for a flood."""
    clock = asyncio.get_running_loop().time
    rate = Rate(clock())
    while True:
        message = await socket.receive()
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            return
        if not rate.admit(clock()):
            if rate.is_first_refusal:
                await _refuse(socket, "rate", f"messages above {protocol.MAX_CLIENT_RATE} a second are dropped", "")
        elif message.type is WSMsgType.TEXT:
            await _refuse(socket, "message", "message is a text, expected a binary msgpack map", "")
        elif len(message.data) > protocol.MAX_CLIENT_BYTES:
            text = f"message has {len(message.data)} bytes, expected at most {protocol.MAX_CLIENT_BYTES}"
            await _refuse(socket, "message", text, "")
        elif not message.data:
            await _refuse(socket, "message", "message is empty, expected a msgpack map", "")
        else:
            writer.write(packet(message.data))
            await writer.drain()


async def _pass_out(socket: web.WebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass a session's messages to its browser, and ask for a frame whenever the browser has taken the last."""
    with contextlib.suppress(ChannelError, ConnectionError):
        writer.write(packet(b""))
        while True:
            await socket.send_bytes(await read_packet(reader))
            writer.write(packet(b""))


async def _refuse(socket: web.WebSocketResponse, code: str, text: str, kind: str) -> None:
    problem = protocol.Problem(code=code, text=text, re=kind, id=-1)  # type: ignore[arg-type]
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(protocol.pack(problem))
