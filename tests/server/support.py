"""A server with limits of its own, and connections to it."""

import asyncio
import socket
from contextlib import asynccontextmanager

from echelon.server.app import listen, make_app, open_socket
from echelon.server.connections import Limits
from echelon.server.security import Access

WAIT_S = 30.0
"""Most time to wait for a state [s]."""


@asynccontextmanager
async def served(home, socket_bytes=0, **limits):
    """Yield port and application of a server with these limits and this size of its send buffer [bytes]."""
    bound = open_socket("127.0.0.1", 0)
    if socket_bytes:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_bytes)
    port = bound.getsockname()[1]
    app = make_app(home, Access("127.0.0.1", port))
    stop = await listen(app, bound, Limits(**limits))
    try:
        yield port, app
    finally:
        await stop()


async def connected(port, socket_bytes):
    """Return reader and writer of a connection with this size of its receive buffer [bytes]."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, socket_bytes)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=made)


async def until(state):
    """Wait until ``state`` returns true."""
    async with asyncio.timeout(WAIT_S):
        while not state():
            await asyncio.sleep(0.01)
