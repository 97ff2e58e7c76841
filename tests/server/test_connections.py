"""Connection limits: idle, malformed, flooding, unread and too many connections, and the response cache."""

import asyncio
import gc
import json
import weakref
from contextlib import suppress

import aiohttp
import pytest

from echelon.server import live, routes
from echelon.server.connections import Connection
from echelon.server.responses import ResponseBody, ResponseCache
from tests.server.conftest import MATCH
from tests.server.support import WAIT_S, connected, served, until

REQUEST = f"GET /api/v1/matches/{MATCH}/chunks/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


async def read_answer(reader):
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
    (size,) = (int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length"))
    return await asyncio.wait_for(reader.readexactly(size), WAIT_S)


async def test_idle_connection_is_closed(home):
    async with served(home, idle_s=0.2) as (port, _):
        mute = await asyncio.open_connection("127.0.0.1", port)
        slow = await asyncio.open_connection("127.0.0.1", port)
        slow[1].write(b"GET / HTTP/1.1\r\nHost: 127.0")
        assert [await asyncio.wait_for(reader.read(), WAIT_S) for reader, _ in (mute, slow)] == [b"", b""]


async def test_connection_limit_drops_idle_connections_first(home):
    async with served(home, connections=8) as (port, _):
        mute = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert b"200" in await asyncio.wait_for(reader.readline(), WAIT_S)
        # the last few idle connections may still be open, the first were dropped
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(mute[0][0].readexactly(1), WAIT_S)
        for _, one in mute:
            one.close()


async def test_malformed_http_returns_json_error_without_echo(home):
    async with served(home) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01secret garbage\r\n\r\n")
        head, _, body = (await asyncio.wait_for(reader.read(), WAIT_S)).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0] and b"secret" not in body
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize("value", [b"100-continue", b"more", b"\xb9"])
async def test_expectations_are_ignored(home, value):
    async with served(home) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path, status in ((b"/api/v1/healthz", b" 200 "), (b"/nowhere", b" 404 ")):
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: " + value + b"\r\n\r\n")
            assert status in await asyncio.wait_for(reader.readline(), WAIT_S)
            await read_answer(reader)


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
async def test_oversized_ambiguous_and_malformed_requests_are_rejected(home, caplog, path, headers, status):
    caplog.set_level("INFO")
    async with served(home) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n")
        assert status in (await asyncio.wait_for(reader.readline(), WAIT_S))[:12]
        writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_client_that_does_not_read_pauses_responses(home, monkeypatch):
    asked = 2_000
    async with served(home, socket_bytes=8192) as (port, _):
        started = []
        original = routes.body_response

        def recorded(request, *arguments):
            started.append((request.protocol, request.protocol.writing_paused))
            return original(request, *arguments)

        monkeypatch.setattr(routes, "body_response", recorded)
        reader, writer = await connected(port, socket_bytes=8192)
        writer.transport.pause_reading()
        writer.write(REQUEST * (asked - 1) + REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await until(lambda: started and started[0][0].writing_paused)
        before = len(started)
        writer.transport.resume_reading()
        everything = await asyncio.wait_for(reader.read(), WAIT_S)
        writer.close()
    assert 0 < before < asked == everything.count(b"HTTP/1.1 200") == len(started)
    assert not any(paused for _, paused in started)


@pytest.mark.parametrize("end", ["client", "idle", "dropped"])
async def test_closed_connection_leaves_nothing_in_memory(home, monkeypatch, end):
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


async def test_served_connection_outlives_silent_ones(home):
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


async def test_live_channel_survives_unanswered_pings(home, monkeypatch):
    monkeypatch.setattr(live, "PING_INTERVAL_S", 0.01)
    async with aiohttp.ClientSession() as session, served(home) as (port, app):
        channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
        heard = {(await channel.receive(timeout=WAIT_S)).type for _ in range(20)}
        assert heard == {aiohttp.WSMsgType.PING, aiohttp.WSMsgType.TEXT}, "pages do not see pings"
        (listener,) = app[routes.HUB].listeners
        listener.enqueue({"type": "chunk", "id": "a"})
        while (message := await channel.receive(timeout=WAIT_S)).data in (b"", "{}"):
            pass
        await channel.close()
        assert message.json() == {"type": "chunk", "id": "a"}


async def test_live_channel_closes_after_silence(home, monkeypatch):
    monkeypatch.setattr(live, "SILENCE_TIMEOUT_S", 0.05)
    async with aiohttp.ClientSession() as session, served(home) as (port, app):
        channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
        message = await channel.receive(timeout=WAIT_S)
        await until(lambda: not app[routes.HUB].listeners)
        assert message.type is aiohttp.WSMsgType.CLOSE


async def test_live_channel_drops_large_input_unread(home):
    ping = b"\x89\x80" + bytes(4)
    rows = ["GET /api/v1/live HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"]
    rows += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}==", "", ""]
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


@pytest.mark.parametrize("kind", [aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG])
async def test_wait_closed_returns_on_a_flood(kind):
    class Peer:
        answered = 0

        async def receive(self, timeout):
            return aiohttp.WSMessage(kind, b"", None)

        async def pong(self, data):
            self.answered += 1

    peer = Peer()
    await asyncio.wait_for(live.wait_closed(peer), WAIT_S)
    assert peer.answered == (live.MAX_PINGS if kind is aiohttp.WSMsgType.PING else 0)


async def test_shutdown_closes_live_channels(home):
    async with aiohttp.ClientSession() as session:
        async with served(home) as (port, app):
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live")
            closing = asyncio.create_task(channel.receive())
            while not app[routes.HUB].listeners:
                await asyncio.sleep(0.01)
        message = await asyncio.wait_for(closing, WAIT_S)
    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)


async def test_response_cache_computes_once_per_key_and_evicts():
    made = []
    cache = ResponseCache(max_bytes=10)

    async def make(body):
        made.append(body)
        await asyncio.sleep(0)
        return ResponseBody(body)

    same = await asyncio.gather(*(cache.get("a", lambda: make(b"1234")) for _ in range(64)))
    await cache.get("b", lambda: make(b"12345678"))  # evicts the first
    await cache.get("a", lambda: make(b"1234"))
    assert made == [b"1234", b"12345678", b"1234"]
    assert {body.data for body in same} == {b"1234"} and cache.size <= 10


async def test_response_cache_retries_after_failure():
    cache = ResponseCache()

    async def answer(body):
        if not body:
            raise ValueError("not now")
        return ResponseBody(body)

    with pytest.raises(ValueError, match="not now"):
        await cache.get("a", lambda: answer(b""))
    assert (await cache.get("a", lambda: answer(b"now"))).data == b"now"


async def test_channels_opened_at_once_are_counted_one_by_one(home, monkeypatch):
    monkeypatch.setattr(live, "MAX_CLIENTS", 4)
    async with served(home) as (port, _), aiohttp.ClientSession() as session:
        asked = [session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live") for _ in range(16)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [answer.status for answer in answers if isinstance(answer, aiohttp.WSServerHandshakeError)]
        assert refused == [503] * 12
