"""Connection limits: idle, malformed, flooding, unread and too many connections, and the response cache."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import weakref
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web

from echelon.server import live, routes
from echelon.server.app import listen, make_app, open_socket
from echelon.server.connections import Connection, Limits
from echelon.server.responses import Body, ResponseCache
from echelon.server.security import Access
from tests.server.conftest import MATCH

WAIT_S = 30.0
"""Most time to wait for a state [s]."""
REQUEST = f"GET /api/v1/matches/{MATCH}/chunks/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


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


async def read_answer(reader):
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
    (size,) = (int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length"))
    return await asyncio.wait_for(reader.readexactly(size), WAIT_S)


def test_idle_connection_is_closed(home):
    async def work():
        async with served(home, idle_s=0.2) as (port, _):
            mute = await asyncio.open_connection("127.0.0.1", port)
            slow = await asyncio.open_connection("127.0.0.1", port)
            slow[1].write(b"GET / HTTP/1.1\r\nHost: 127.0")
            return [await asyncio.wait_for(reader.read(), WAIT_S) for reader, _ in (mute, slow)]

    assert asyncio.run(work()) == [b"", b""]


def test_connection_limit_drops_idle_connections_first(home):
    async def work():
        async with served(home, connections=8) as (port, _):
            mute = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            status = await asyncio.wait_for(reader.readline(), WAIT_S)
            # the last few idle connections may still be open, the first were dropped
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(mute[0][0].readexactly(1), WAIT_S)
            for _, one in mute:
                one.close()
            return status

    assert b"200" in asyncio.run(work())


def test_malformed_http_returns_json_error_without_echo(home):
    async def work():
        async with served(home) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01secret garbage\r\n\r\n")
            return await asyncio.wait_for(reader.read(), WAIT_S)

    head, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0] and b"secret" not in body
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize("value", [b"100-continue", b"more", b"\xb9"])
def test_expectations_are_ignored(home, value):
    async def work():
        lines = []
        async with served(home) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for path in (b"/api/v1/healthz", b"/nowhere"):
                writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: " + value + b"\r\n\r\n")
                lines.append(await asyncio.wait_for(reader.readline(), WAIT_S))
                await read_answer(reader)
        return lines

    found, missing = asyncio.run(work())
    assert b" 200 " in found and b" 404 " in missing


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (b"/" + b"a" * 20_000, b"", b" 4"),
        (b"/", b"X: " + b"a" * 20_000 + b"\r\n", b" 4"),
        (b"/", b"".join(b"X%d: 1\r\n" % n for n in range(500)), b" 4"),
        (b"/", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b" 4"),
        (
            b"/api/v1/live",
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: \xff\xfe\r\n",
            b" 400",
        ),
        (b"/", b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxxx", b" 413"),
    ],
    ids=["long line", "long header", "many headers", "two lengths", "key of a live channel", "wrong encoding"],
)
def test_oversized_ambiguous_and_malformed_requests_are_rejected_without_a_trace(home, caplog, path, headers, status):
    async def work():
        async with served(home) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n")
            line = await asyncio.wait_for(reader.readline(), WAIT_S)
            writer.close()
            return line

    with caplog.at_level("INFO"):
        assert status in asyncio.run(work())[:12] and not [record for record in caplog.records if record.exc_info]


def test_client_that_does_not_read_pauses_responses(home, monkeypatch):
    asked = 2_000

    async def work():
        async with served(home, socket_bytes=8192) as (port, _):
            started_responses = []
            original = routes.body_response

            def recorded(request, *arguments):
                started_responses.append((request.protocol, request.protocol.writing_paused))
                return original(request, *arguments)

            monkeypatch.setattr(routes, "body_response", recorded)
            reader, writer = await connected(port, socket_bytes=8192)
            writer.transport.pause_reading()
            writer.write(REQUEST * (asked - 1) + REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await until(lambda: started_responses and started_responses[0][0].writing_paused)
            before = len(started_responses)
            writer.transport.resume_reading()
            everything = await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            return before, [paused for _, paused in started_responses], everything.count(b"HTTP/1.1 200")

    before, paused, answers = asyncio.run(work())
    assert 0 < before < asked == answers == len(paused) and not any(paused)


def test_aborted_connection_leaves_no_tasks(home, monkeypatch):
    async def work():
        async with served(home, socket_bytes=8192) as (port, _):
            connections, original = [], Connection.begin_request
            monkeypatch.setattr(Connection, "begin_request", lambda c: connections.append(c) or original(c))
            before = asyncio.all_tasks()
            _, writer = await connected(port, socket_bytes=8192)
            writer.transport.pause_reading()
            writer.write(REQUEST * 2_000)
            await until(lambda: connections and connections[0].writing_paused)
            assert asyncio.all_tasks() - before
            writer.transport.abort()
            await until(lambda: not asyncio.all_tasks() - before)

    asyncio.run(work())


@pytest.mark.parametrize("end", ["client", "idle", "dropped"])
def test_closed_connection_leaves_nothing_in_memory(home, monkeypatch, end):
    async def work():
        async with served(home, connections=4, idle_s=0.1 if end == "idle" else WAIT_S) as (port, _):
            transports, original = [], Connection.connection_made

            def recorded(connection, transport):
                transports.append(weakref.ref(transport))
                original(connection, transport)

            monkeypatch.setattr(Connection, "connection_made", recorded)
            gc.disable()
            try:
                clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
                await until(lambda: len(transports) == 4)
                if end == "client":
                    for _, writer in clients:
                        writer.transport.abort()
                if end == "dropped":
                    clients += [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
                await until(lambda: not any(ref() for ref in transports[:4]))
            finally:
                gc.enable()

    asyncio.run(work())


def test_served_connection_outlives_silent_ones(home):
    async def work():
        async with served(home, connections=8) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(REQUEST)
                assert b" 200 " in await asyncio.wait_for(reader.readline(), WAIT_S)
                await read_answer(reader)
                mute = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await asyncio.wait_for(mute[0][0].readexactly(1), WAIT_S)
            for _, one in mute:
                one.close()

    asyncio.run(work())


def test_live_channel_survives_unanswered_pings(home, monkeypatch):
    monkeypatch.setattr(live, "PING_INTERVAL_S", 0.01)

    async def work():
        async with aiohttp.ClientSession() as session, served(home) as (port, app):
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
            for _ in range(20):
                assert (await channel.receive(timeout=WAIT_S)).type is aiohttp.WSMsgType.PING
            (listener,) = app[routes.HUB].listeners
            listener.enqueue({"type": "chunk", "id": "a"})
            while (message := await channel.receive(timeout=WAIT_S)).type is aiohttp.WSMsgType.PING:
                pass
            await channel.close()
            return message.json()

    assert asyncio.run(work()) == {"type": "chunk", "id": "a"}


def test_live_channel_closes_after_silence(home, monkeypatch):
    monkeypatch.setattr(live, "SILENCE_TIMEOUT_S", 0.05)

    async def work():
        async with aiohttp.ClientSession() as session, served(home) as (port, app):
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
            message = await channel.receive(timeout=WAIT_S)
            await until(lambda: not app[routes.HUB].listeners)
            return message.type

    assert asyncio.run(work()) is aiohttp.WSMsgType.CLOSE


def test_wait_closed_answers_pings_and_counts_pongs():
    class Peer:
        """Sends three pongs and a ping, then nothing."""

        def __init__(self):
            self.messages = [*[web.WSMsgType.PONG] * 3, web.WSMsgType.PING]
            self.waits, self.answered = [], []

        async def receive(self, timeout):
            self.waits.append(timeout)
            if not self.messages:
                raise TimeoutError
            return aiohttp.WSMessage(self.messages.pop(0), b"x", None)

        async def pong(self, data):
            self.answered.append(data)

    peer = Peer()
    asyncio.run(live.wait_closed(peer))
    assert peer.waits == [live.SILENCE_TIMEOUT_S] * 5 and peer.answered == [b"x"]


def test_live_channel_drops_large_input_unread(home):
    ping = b"\x89\x80" + bytes(4)
    rows = ["GET /api/v1/live HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"]
    rows += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}==", "", ""]

    async def work():
        async with served(home) as (port, app):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write("\r\n".join(rows).encode())
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
            await until(lambda: app[routes.HUB].listeners)
            writer.write(ping * 2)
            assert await asyncio.wait_for(reader.readexactly(4), WAIT_S) == b"\x8a\x00" * 2
            writer.write(ping * 10_000)
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
            await until(lambda: not app[routes.HUB].listeners)

    asyncio.run(work())


def test_wait_closed_returns_on_ping_flood():
    class Peer:
        """Pings for ever."""

        answered = 0

        async def receive(self, timeout):
            return aiohttp.WSMessage(aiohttp.WSMsgType.PING, b"", None)

        async def pong(self, data):
            self.answered += 1

    peer = Peer()
    asyncio.run(asyncio.wait_for(live.wait_closed(peer), WAIT_S))
    assert peer.answered == live.MAX_PINGS


def test_shutdown_closes_live_channels(home):
    async def work():
        async with aiohttp.ClientSession() as session:
            async with served(home) as (port, app):
                channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live")
                closing = asyncio.create_task(channel.receive())
                while not app[routes.HUB].listeners:
                    await asyncio.sleep(0.01)
            message = await asyncio.wait_for(closing, WAIT_S)
            return message.type, message.data

    kind, code = asyncio.run(work())
    assert kind == aiohttp.WSMsgType.CLOSE and code == aiohttp.WSCloseCode.GOING_AWAY


def test_response_cache_computes_once_per_key_and_evicts():
    async def work():
        made = []
        cache = ResponseCache(max_bytes=10)

        async def make(body):
            made.append(body)
            await asyncio.sleep(0)
            return Body(body)

        same = await asyncio.gather(*(cache.get("a", lambda: make(b"1234")) for _ in range(64)))
        await cache.get("b", lambda: make(b"12345678"))  # evicts the first
        await cache.get("a", lambda: make(b"1234"))
        return made, {body.data for body in same}, cache.size

    made, same, size = asyncio.run(work())
    assert made == [b"1234", b"12345678", b"1234"] and same == {b"1234"} and size <= 10


def test_response_cache_retries_after_failure():
    async def work():
        cache = ResponseCache()

        async def answer(body):
            if not body:
                raise ValueError("not now")
            return Body(body)

        with pytest.raises(ValueError, match="not now"):
            await cache.get("a", lambda: answer(b""))
        return (await cache.get("a", lambda: answer(b"now"))).data

    assert asyncio.run(work()) == b"now"


def test_channels_opened_at_once_are_counted_one_by_one(home, monkeypatch):
    monkeypatch.setattr(live, "MAX_CLIENTS", 4)

    async def status(session, port):
        try:
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live")
        except aiohttp.WSServerHandshakeError as error:
            return error.status, None
        return 101, channel

    async def go():
        async with served(home) as (port, _), aiohttp.ClientSession() as session:
            answers = await asyncio.gather(*(status(session, port) for _ in range(16)))
            for _, channel in answers:
                if channel is not None:
                    await channel.close()
            return sorted(code for code, _ in answers)

    assert asyncio.run(go()) == [101] * 4 + [503] * 12
