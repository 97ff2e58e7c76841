"""Connection limits: number of connections, idle time, and no response while a client does not read.

All clients may arrive from loopback through one tunnel, so limits count connections, not addresses. Above the limit,
connections without a successful request are dropped first, then those idle for longest. The operating system drops
connections whose peer stops reading.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import RawRequestMessage

try:
    import resource
except ImportError:  # Windows has no limit of descriptors
    resource = None

from echelon.files import reason_of
from echelon.server.catalogue import OPEN_FILES, is_exhausted
from echelon.server.security import ProblemResponse, exhausted_problem


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of connections and of their requests."""

    connections: int = 512
    """Most open connections: two for each of the live viewers admitted at most."""
    idle_s: float = 30.0
    """Time a connection may take to send a whole request, and between two requests [s]."""
    stall_timeout_s: int = 30
    """Time after which data that the peer does not acknowledge drops the connection [s]."""
    poll_s: float = 0.05
    """Time between checks whether a connection accepts more data [s]."""
    max_channel_bytes: int = 4096
    """Most bytes that a live channel may receive at once: clients send nothing but answers to pings."""
    header_bytes: int = 8192
    headers: int = 64


LIMITS = Limits()
RESERVED_DESCRIPTORS = OPEN_FILES + 64
"""Descriptors for replays and other files that connections leave free."""
ACCEPT_PAUSE_S = 1.0
"""Time until a failed accept is tried again [s]."""
LOG = logging.getLogger(__name__)


class Connection(web.RequestHandler):
    """One connection with its state."""

    __slots__ = ("busy", "carrier", "channel", "limits", "served", "since")

    def __init__(self, server: web.Server, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server, loop=loop, access_log=LOG, keepalive_timeout=limits.idle_s, max_headers=limits.headers,
            max_line_size=limits.header_bytes, max_field_size=limits.header_bytes, auto_decompress=False,
        )  # fmt: skip
        self.limits = limits
        self.served = self.busy = self.channel = False
        self.since = loop.time()
        self.carrier: asyncio.BaseTransport | None = None
        """The transport, also when the connection is being dropped."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.carrier = transport
        super().connection_made(transport)

    def begin_request(self) -> None:
        self.busy, self.since = True, asyncio.get_running_loop().time()

    def end_request(self, served: bool) -> None:
        self.busy, self.served, self.since = False, served, asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        """Parse received data; drop a live channel that receives too much at once, without parsing it."""
        if self.channel and len(data) > self.limits.max_channel_bytes:
            abort(self)
        else:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection so that nothing of it stays in memory until a full garbage collection.

        An exception for the response that waits for its client would refer to the frames that it passes through, and
        they to it; the next write fails in any case. The transport of asyncio refers to itself by its callback.
        """
        super().connection_lost(None)
        getattr(self.carrier, "__dict__", {}).pop("_read_ready_cb", None)
        self.carrier = None

    @property
    def keep_priority(self) -> tuple[bool, bool, bool, float]:
        """Sort key of dropping, lowest first: live channels last, before them busy, served and recent connections."""
        return self.channel, self.busy, self.served, self.since

    def log_exception(self, *args: Any, **more: Any) -> None:
        """Log an exception unless the peer has closed the connection."""
        if self.transport is not None and not self.transport.is_closing():
            super().log_exception(*args, **more)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer malformed HTTP with a problem that does not echo it; only server errors are logged."""
        if status < web.HTTPInternalServerError.status_code:
            response = ProblemResponse(status, "Bad request", "the request is not valid HTTP")
            response.force_close()
            return response
        if is_exhausted(exc):
            return exhausted_problem()
        return super().handle_error(request, status, exc, message)


class ConnectionFactory:
    """Protocol factory of the asyncio server; drops the least useful connections above the limit."""

    def __init__(self, server: web.Server, limits: Limits = LIMITS) -> None:
        self.server, self.limits = server, limits
        server.request_factory = without_expectation(server.request_factory)

    def __call__(self) -> Connection:
        self._drop_excess()
        return Connection(self.server, self.limits, asyncio.get_running_loop())

    def _drop_excess(self) -> None:
        current = [c for c in self.server.connections if isinstance(c, Connection) and c.transport is not None]
        excess = max(0, len(current) - self.limits.connections + 1)
        for connection in sorted(current, key=lambda c: c.keep_priority)[:excess]:
            abort(connection)


def without_expectation(make: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    """Return a request factory that drops the header Expect, which a server without request bodies need not meet.

    aiohttp answers others than 100-continue before any middleware, and fails on values that are not UTF-8.
    """

    def request(message: RawRequestMessage, *rest: Any) -> web.BaseRequest:
        if hdrs.EXPECT in message.headers:
            headers = message.headers.copy()
            headers.popall(hdrs.EXPECT)
            message = message._replace(headers=type(message.headers)(headers))
        return make(message, *rest)

    return request


def within_descriptors(limits: Limits) -> Limits:
    """Return limits whose connections fit into the descriptors that the process may open."""
    if resource is None:
        return limits
    available = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if available == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=max(1, min(limits.connections, available - RESERVED_DESCRIPTORS)))


async def accept_connections(factory: ConnectionFactory, bound: socket.socket) -> None:
    """Accept connections of a listening socket until cancelled; without free descriptors, pause with one warning.

    asyncio's own server tries again for every connection of its queue at once, and once more after it was closed.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = await loop.sock_accept(bound)
        except ConnectionAbortedError:
            continue
        except OSError as error:
            advice = "; raise the limit with `ulimit -n`" if is_exhausted(error) else ""
            LOG.warning("new connections wait: %s%s", reason_of(error), advice)
            await asyncio.sleep(ACCEPT_PAUSE_S)
            continue
        accepted.setblocking(False)
        try:
            await loop.connect_accepted_socket(factory, accepted)
        except OSError:  # the peer left before its first byte
            accepted.close()


def abort(connection: Connection) -> None:
    transport, connection.transport = connection.transport, None
    if isinstance(transport, asyncio.Transport):
        transport.abort()


def set_stall_timeout(bound: socket.socket, limits: Limits = LIMITS) -> None:
    """Let the operating system drop accepted connections whose peer stops reading, where it supports that."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.stall_timeout_s * 1000)


@web.middleware
async def paced(request: web.Request, handler: Any) -> web.StreamResponse:
    """Start no response while the peer does not read, and track the state of the connection."""
    connection = request.protocol
    if not isinstance(connection, Connection):
        return await handler(request)
    connection.begin_request()
    while connection.transport is not None and connection.writing_paused:
        await asyncio.sleep(connection.limits.poll_s)
    if connection.transport is None:
        raise ConnectionResetError("the client closed the connection")
    served = False
    try:
        response = await handler(request)
        served = response.status < web.HTTPBadRequest.status_code
        return response
    finally:
        connection.end_request(served)
