"""Hostile client of the replay server, run in parallel until it is ended.

It opens half-open and silent connections, requests data without reading it, sends garbage, oversized frames and floods
of pings on the live channel, path traversals, foreign hosts and origins, and floods of ranges and unknown ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

INCOMPLETE, UNREAD = 300, 24
"""Connections with an incomplete request, and connections that do not read responses."""
CONNECTIONS_PER_KIND = 4
"""Parallel connections of each other kind."""
PIPELINED = 200
"""Requests sent at once by a connection that does not read responses."""
PING, PINGS = b"\x89\x80" + bytes(4), 100_000
"""An empty ping with a zero mask, and the number sent at once."""
HUGE = 8 * 2**20
"""Bytes of an oversized frame."""
PAUSE_S = 0.02
PATHS = (
    "/../../../etc/passwd",
    "/api/v1/matches/..%2f..%2fetc%2fpasswd",
    "/%00",
    "//evil.example/",
    "/assets/..%2fapp.py",
)


async def attack_all(host: str, port: int, match: str) -> None:
    """Attack until cancelled."""
    draws = random.Random(0)

    def request(path: str, *headers: str, host_header: str = f"{host}:{port}") -> bytes:
        return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host_header}", *headers, "", ""]).encode()

    upgrade = request(
        "/api/v1/live", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )  # fmt: skip
    file, index = f"/api/v1/matches/{match}/file", f"/api/v1/matches/{match}/index"

    async def incomplete(send: Send) -> None:
        await send(b"GET / HTTP/1.1\r\nHost: x", read=0)
        await asyncio.sleep(draws.uniform(0, 60))

    async def unread(send: Send) -> None:
        await send(request(index) * PIPELINED + request(file) * PIPELINED, read=0)
        await asyncio.sleep(draws.uniform(0, 60))

    async def garbage(send: Send) -> None:
        await send(os.urandom(draws.randrange(1, 4096)), read=1)

    async def frames(send: Send) -> None:
        await send(upgrade, read=1)
        await send(os.urandom(4096), read=1)

    async def pings(send: Send) -> None:
        await send(upgrade, read=1)
        await send(PING * PINGS, read=1)

    async def huge(send: Send) -> None:
        await send(upgrade, read=1)
        await send(b"\x82\xff" + HUGE.to_bytes(8, "big") + bytes(4) + bytes(HUGE), read=1)

    async def paths(send: Send) -> None:
        await send(b"".join(request(path) for path in PATHS) * 10, read=1)

    async def foreign(send: Send) -> None:
        await send(request("/", host_header="evil.example") + request("/", "Origin: http://evil.example"), read=1)

    async def ranges(send: Send) -> None:
        await send(b"".join(request(file, f"Range: bytes={n}-{n}") for n in range(PIPELINED)), read=1)

    async def unknown(send: Send) -> None:
        await send(b"".join(request(f"/api/v1/matches/{n:016x}") for n in range(20)), read=1)

    kinds = [garbage, frames, pings, huge, paths, foreign, ranges, unknown] * CONNECTIONS_PER_KIND
    await asyncio.gather(*(_repeat(host, port, act) for act in [incomplete] * INCOMPLETE + [unread] * UNREAD + kinds))


Send = Callable[..., Awaitable[None]]


async def _repeat(host: str, port: int, act: Callable[[Send], Awaitable[None]]) -> None:
    """Connect and act in an endless loop."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            reader, writer = await asyncio.open_connection(host, port, limit=1024)

            async def send(
                data: bytes, *, read: int, to: asyncio.StreamWriter = writer, by: asyncio.StreamReader = reader
            ) -> None:
                to.write(data)
                if read:
                    async with asyncio.timeout(1.0):
                        await to.drain()
                        await by.read(read)

            try:
                await act(send)
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


def attack(base: str, match: str) -> None:
    """Attack the server at URL ``base`` and its match ``match`` until the process is ended."""
    parts = urlsplit(base)
    asyncio.run(attack_all(str(parts.hostname), int(parts.port or 80), match))
