"""Who is connected: how many at most, for how long without asking, and how much one of them may ask.

Everybody may come from loopback through one tunnel, so limits count connections and not addresses. Where there are too
many, those go first that never asked for anything that was there, then those that have asked nothing for longest. What
the peer no longer takes is given up by the system.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from echelon.server.security import problem


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What connections may cost."""

    connections: int = 512
    """Open at a time; two for each live viewer of the most that are admitted."""
    idle_s: float = 30.0
    """Time that a connection may take for a whole request, and between two [s]."""
    stalled_s: int = 30
    """Time after which what a peer does not take is given up [s]."""
    rate_per_s: float = 100.0
    """Requests of one connection that are answered at once, in the long run [1/s]."""
    burst: float = 300.0
    """Requests of one connection that are answered at once after a pause; a viewer's start takes fewer."""
    mistake: float = 10.0
    """Requests that one refused request counts as."""
    look_s: float = 0.05
    """Time between looks whether a connection takes more [s]."""
    said_bytes: int = 4096
    """What a live channel's peer may say at once: an answer to a ping is a few bytes, and nothing else is due."""
    header_bytes: int = 8192
    headers: int = 64


LIMITS = Limits()
LOG = logging.getLogger(__name__)


class Connection(web.RequestHandler):
    """One connection: what it is doing, since when, and how much it has asked lately."""

    __slots__ = ("answered", "answering", "asked", "channel", "limits", "since", "spent")

    def __init__(self, server: web.Server, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server, loop=loop, access_log=LOG, keepalive_timeout=limits.idle_s, max_headers=limits.headers,
            max_line_size=limits.header_bytes, max_field_size=limits.header_bytes,
        )  # fmt: skip
        self.limits = limits
        self.answered = self.answering = self.channel = False
        self.since = self.asked = loop.time()
        self.spent = 0.0

    def begin(self) -> float:
        """A whole request has come; return how long it must wait so that others are not kept waiting [s]."""
        now = asyncio.get_running_loop().time()
        self.spent = max(0.0, self.spent - (now - self.asked) * self.limits.rate_per_s) + 1.0
        self.answering, self.asked, self.since = True, now, now
        return max(0.0, self.spent - self.limits.burst) / self.limits.rate_per_s

    def end(self, refused: bool) -> None:
        """The request is answered; one that had to be refused costs more."""
        self.answering, self.answered, self.since = False, not refused, asyncio.get_running_loop().time()
        self.spent += self.limits.mistake * refused

    def data_received(self, data: bytes) -> None:
        """Take what has come; a live channel by which a lot comes at once is dropped before any of it is looked at."""
        if self.channel and len(data) > self.limits.said_bytes:
            abort(self)
        else:
            super().data_received(data)

    @property
    def patience(self) -> tuple[bool, bool, bool, float]:
        """What it is kept for: live channels longest, then answers under way, then who got one, then who asked last."""
        return self.channel, self.answering, self.answered, self.since

    def log_exception(self, *args: Any, **more: Any) -> None:
        """Log what went wrong, but for what follows from the peer's being gone."""
        if self.transport is not None and not self.transport.is_closing():
            super().log_exception(*args, **more)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no HTTP with a problem that repeats nothing of it; only our own faults are logged."""
        if status < web.HTTPInternalServerError.status_code:
            answer = problem(status, "Bad request", "the request is not HTTP as it should be")
            answer.force_close()
            return answer
        return super().handle_error(request, status, exc, message)


class Door:
    """Makes connections for an asyncio server and closes the least useful ones where there are too many."""

    def __init__(self, server: web.Server, limits: Limits = LIMITS) -> None:
        self.server, self.limits = server, limits

    def __call__(self) -> Connection:
        self._make_room()
        return Connection(self.server, self.limits, asyncio.get_running_loop())

    def _make_room(self) -> None:
        here = [c for c in self.server.connections if isinstance(c, Connection) and c.transport is not None]
        for victim in sorted(here, key=lambda c: c.patience)[: max(0, len(here) - self.limits.connections + 1)]:
            abort(victim)


def abort(connection: Connection) -> None:
    """Drop a connection and what is on its way to it."""
    transport, connection.transport = connection.transport, None
    if isinstance(transport, asyncio.Transport):
        transport.abort()


def give_up_stalled(bound: socket.socket, limits: Limits = LIMITS) -> None:
    """Have the system end accepted connections whose peer takes nothing, where it can."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.stalled_s * 1000)


@web.middleware
async def paced(request: web.Request, handler: Any) -> web.StreamResponse:
    """Answer a connection no faster than it may ask, and note what it is doing."""
    connection = request.protocol
    if not isinstance(connection, Connection):
        return await handler(request)
    loop = asyncio.get_running_loop()
    due = connection.begin() + loop.time()
    # who does not read what was asked for gets no more of it; who left while that was so stays paused for ever
    while connection.transport is not None and ((wait := due - loop.time()) > 0 or connection.writing_paused):
        await asyncio.sleep(min(wait, connection.limits.look_s) if wait > 0 else connection.limits.look_s)
    if connection.transport is None:
        raise ConnectionResetError("whoever asked is gone")
    refused = True
    try:
        response = await handler(request)
        refused = response.status >= web.HTTPBadRequest.status_code
        return response
    finally:
        connection.end(refused)
