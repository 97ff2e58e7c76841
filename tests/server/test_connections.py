"""Connections that cost more than they may: half open, mute, greedy, deaf, too many; the others are served on."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web

from echelon.server import live, routes
from echelon.server.app import listen, make_app, open_socket
from echelon.server.connections import Connection, Limits
from echelon.server.response_cache import Kept
from echelon.server.security import Access
from tests.server.conftest import GOLDEN, MATCH, RUN

WAIT_S = 30.0
"""Longest that a state is waited for."""
ASK = f"GET /api/v1/matches/{MATCH}/chunks/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@asynccontextmanager
async def served(home, socket_bytes=0, **limits):
    """Give the port of a server with these limits, and its application; the system may keep so many bytes to send."""
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
    """Return reader and writer of a connection for which the system keeps no more than so many bytes to read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, socket_bytes)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=made)


async def until(state):
    """Wait for a state."""
    async with asyncio.timeout(WAIT_S):
        while not state():
            await asyncio.sleep(0.01)


async def read_answer(reader):
    """Read the rest of an answer whose first line was read."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
    (size,) = (int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length"))
    return await asyncio.wait_for(reader.readexactly(size), WAIT_S)


def test_a_connection_that_never_asks_is_closed(home):
    async def work():
        async with served(home, idle_s=0.2) as (port, _):
            mute = await asyncio.open_connection("127.0.0.1", port)
            slow = await asyncio.open_connection("127.0.0.1", port)
            slow[1].write(b"GET / HTTP/1.1\r\nHost: 127.0")
            return [await asyncio.wait_for(reader.read(), WAIT_S) for reader, _ in (mute, slow)]

    assert asyncio.run(work()) == [b"", b""]


def test_the_least_useful_connection_makes_room_for_a_new_one(home):
    async def work():
        async with served(home, connections=8) as (port, _):
            mute = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK)
            status = await asyncio.wait_for(reader.readline(), WAIT_S)
            # the last few that never asked may still be there, the first were dropped
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(mute[0][0].readexactly(1), WAIT_S)
            for _, one in mute:
                one.close()
            return status

    assert b"200" in asyncio.run(work())


def test_what_is_no_http_is_refused_in_json_that_repeats_nothing(home):
    async def work():
        async with served(home) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01secret garbage\r\n\r\n")
            return await asyncio.wait_for(reader.read(), WAIT_S)

    head, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0] and b"secret" not in body
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(b"X%d: 1\r\n" % n for n in range(500)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["long line", "long header", "many headers", "two lengths"],
)
def test_oversized_and_ambiguous_requests_are_refused(home, request_):
    async def work():
        async with served(home) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_)
            return await asyncio.wait_for(reader.readline(), WAIT_S)

    assert b" 4" in asyncio.run(work())[:12]


def test_who_asks_without_reading_gets_no_more_until_he_reads(home):
    """Answers pile up in no buffer of ours: none is begun while the channel is full, and all come once it is read."""
    asked = 2_000

    async def work():
        async with served(home, burst=1e9, socket_bytes=8192) as (port, _):
            begun = []
            original = routes.answer_bytes

            def noted(request, *given):
                begun.append((request.protocol, request.protocol.writing_paused))
                return original(request, *given)

            routes.answer_bytes = noted
            try:
                reader, writer = await connected(port, socket_bytes=8192)
                writer.transport.pause_reading()
                writer.write(ASK * (asked - 1) + ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                await until(lambda: begun and begun[0][0].writing_paused)
                before = len(begun)
                writer.transport.resume_reading()
                everything = await asyncio.wait_for(reader.read(), WAIT_S)
                writer.close()
                return before, [paused for _, paused in begun], everything.count(b"HTTP/1.1 200")
            finally:
                routes.answer_bytes = original

    before, paused, answers = asyncio.run(work())
    assert 0 < before < asked == answers == len(paused) and not any(paused)


def test_who_leaves_without_having_read_leaves_nothing_behind(home):
    async def work():
        async with served(home, burst=1e9, socket_bytes=8192) as (port, _):
            connections = []
            original = Connection.begin

            def noted(connection):
                connections.append(connection)
                return original(connection)

            Connection.begin = noted
            try:
                before = asyncio.all_tasks()
                _, writer = await connected(port, socket_bytes=8192)
                writer.transport.pause_reading()
                writer.write(ASK * 2_000)
                await until(lambda: connections and connections[0].writing_paused)
                assert asyncio.all_tasks() - before
                writer.transport.abort()
                await until(lambda: not asyncio.all_tasks() - before)
            finally:
                Connection.begin = original

    asyncio.run(work())


def test_a_connection_that_only_makes_mistakes_is_slowed_down_and_others_are_not(home):
    """What is over the allowance waits for longer than any test runs, so that nothing depends on how fast this is."""

    async def work():
        async with served(home, burst=5.0, rate_per_s=1e-3) as (port, _):
            greedy, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 8)
            first = await asyncio.wait_for(greedy.readline(), WAIT_S)
            other, asking = await asyncio.open_connection("127.0.0.1", port)
            asking.write(ASK * 5)
            for _ in range(5):
                assert b" 200 " in await asyncio.wait_for(other.readuntil(b"\r\n"), WAIT_S)
                await read_answer(other)
            await read_answer(greedy)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(greedy.readline(), 0.2)
            writer.transport.abort()
            return first

    assert b" 404 " in asyncio.run(work())


def test_what_a_connection_may_ask_grows_back_with_time_and_mistakes_cost_more():
    async def work():
        loop, now = asyncio.get_running_loop(), [0.0]
        loop.time = lambda: now[0]
        limits = Limits(burst=5.0, rate_per_s=10.0, mistake=10.0)
        connection = Connection(web.Server(lambda request: None), limits, loop)
        waits = []
        for at in (0, 0, 0, 0, 0, 0, 1, 1, 1, 100):
            now[0] = at
            waits.append(connection.begin())
            connection.end(refused=len(waits) == 8)
        del loop.time
        return waits

    waits = asyncio.run(work())
    assert waits == pytest.approx([0, 0, 0, 0, 0, 0.1, 0, 0, 0.8, 0])


def test_who_was_answered_keeps_his_place_among_those_who_never_asked(home):
    async def work():
        async with served(home, connections=8) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(ASK)
                assert b" 200 " in await asyncio.wait_for(reader.readline(), WAIT_S)
                await read_answer(reader)
                mute = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await asyncio.wait_for(mute[0][0].readexactly(1), WAIT_S)
            for _, one in mute:
                one.close()

    asyncio.run(work())


def test_a_viewer_too_busy_to_answer_pings_keeps_its_channel(home, monkeypatch):
    """Who pulls chunks over a slow line answers late; the channel is there when it comes back."""
    monkeypatch.setattr(live, "BEAT_S", 0.01)

    async def work():
        async with aiohttp.ClientSession() as session, served(home) as (port, app):
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
            for _ in range(20):
                assert (await channel.receive(timeout=WAIT_S)).type is aiohttp.WSMsgType.PING
            (listener,) = app[routes.HUB].listeners
            listener.tell({"type": "chunk", "id": "a"})
            while (message := await channel.receive(timeout=WAIT_S)).type is aiohttp.WSMsgType.PING:
                pass
            await channel.close()
            return message.json()

    assert asyncio.run(work()) == {"type": "chunk", "id": "a"}


def test_a_client_that_never_answers_is_given_up(home, monkeypatch):
    monkeypatch.setattr(live, "QUIET_S", 0.05)

    async def work():
        async with aiohttp.ClientSession() as session, served(home) as (port, app):
            channel = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live", autoping=False)
            message = await channel.receive(timeout=WAIT_S)
            await until(lambda: not app[routes.HUB].listeners)
            return message.type

    assert asyncio.run(work()) is aiohttp.WSMsgType.CLOSE


def test_an_answered_ping_is_a_sign_of_life_and_a_ping_is_answered():
    class Peer:
        """Pongs, asks once, and is silent."""

        def __init__(self):
            self.says = [*[web.WSMsgType.PONG] * 3, web.WSMsgType.PING]
            self.waits, self.answered = [], []

        async def receive(self, timeout):
            self.waits.append(timeout)
            if not self.says:
                raise TimeoutError
            return aiohttp.WSMessage(self.says.pop(0), b"x", None)

        async def pong(self, data):
            self.answered.append(data)

    peer = Peer()
    asyncio.run(live.until_gone(peer))
    assert peer.waits == [live.QUIET_S] * 5 and peer.answered == [b"x"]


def test_a_channel_by_which_a_lot_comes_at_once_is_dropped_unread(home):
    """Taking apart so many frames would keep everybody else waiting."""
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


def test_a_client_that_only_pings_is_given_up():
    class Peer:
        """Pings without an end."""

        answered = 0

        async def receive(self, timeout):
            return aiohttp.WSMessage(aiohttp.WSMsgType.PING, b"", None)

        async def pong(self, data):
            self.answered += 1

    peer = Peer()
    asyncio.run(asyncio.wait_for(live.until_gone(peer), WAIT_S))
    assert peer.answered == live.PINGS


def test_a_server_that_is_told_to_stop_says_goodbye_to_its_listeners(home):
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


def test_one_answer_is_made_for_all_who_wait_for_it():
    async def work():
        made = []
        kept = Kept(most=10)

        def make(body):
            made.append(body)
            return body

        same = await asyncio.gather(*(kept.get("a", lambda: make(b"1234")) for _ in range(64)))
        await kept.get("b", lambda: make(b"12345678"))  # pushes the first out
        await kept.get("a", lambda: make(b"1234"))
        return made, set(same), kept.size

    made, same, size = asyncio.run(work())
    assert made == [b"1234", b"12345678", b"1234"] and same == {b"1234"} and size <= 10


def test_what_cannot_be_made_is_tried_again():
    async def work():
        kept = Kept()

        def fail():
            raise ValueError("not now")

        with pytest.raises(ValueError, match="not now"):
            await kept.get("a", fail)
        return await kept.get("a", lambda: b"now")

    assert asyncio.run(work()) == b"now"


def test_a_match_that_is_replaced_is_not_answered_from_what_was_kept(ask, home):
    """Another file under the same name has another inode, so that nothing of the old one is given."""

    async def work(client):
        first = await (await client.get(f"/api/v1/matches/{MATCH}/index")).json()
        path = home / RUN / "replays" / "eval-0001-blue.ecr"
        shutil.copy(GOLDEN.with_name("smoke.ecr"), path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        while True:
            second = await (await client.get(f"/api/v1/matches/{MATCH}/index")).json()
            if second != first:
                break
            await asyncio.sleep(0.1)
        chunk = await (await client.get(f"/api/v1/matches/{MATCH}/chunks/0")).read()
        return second, chunk

    from echelon.replay.reader import Replay

    second, chunk = ask(work)
    with Replay(GOLDEN.with_name("smoke.ecr")) as replay:
        assert [c[:2] for c in second["chunks"]] == [[c.tick0, c.tick1] for c in replay.chunks]
        assert chunk == replay.chunk_bytes(0)
