"""Connections that cost more than they may: half open, mute, greedy, deaf, too many; the others are served on."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager

import pytest

from echelon.server import routes
from echelon.server.app import listen, make_app, open_socket
from echelon.server.connections import Limits
from echelon.server.kept import Kept
from echelon.server.security import Access
from tests.server.conftest import GOLDEN, MATCH, RUN

WAIT_S = 30.0
"""Longest that a state is waited for."""
ASK = f"GET /api/v1/matches/{MATCH}/chunks/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@asynccontextmanager
async def served(home, **limits):
    """Give the port of a server with these limits, and its application."""
    bound = open_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = make_app(home, Access("127.0.0.1", port))
    stop = await listen(app, bound, Limits(**limits))
    try:
        yield port, app
    finally:
        await stop()


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
    """Answers pile up in no buffer of ours: the first ones fill the channel, the rest waits unasked."""

    async def work():
        async with served(home, burst=1e9) as (port, app):
            made = 0
            original = routes.answer_bytes

            def counted(*given):
                nonlocal made
                made += 1
                return original(*given)

            routes.answer_bytes = counted
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
                writer.transport.pause_reading()
                writer.write(ASK * 20_000)
                quiet, seen = 0, -1
                while quiet < 20:
                    quiet, seen = (quiet + 1, seen) if made == seen else (0, made)
                    await asyncio.sleep(0.05)
                writer.transport.abort()
                return made
            finally:
                routes.answer_bytes = original

    made = asyncio.run(work())
    assert 0 < made < 20_000


def test_a_connection_that_only_makes_mistakes_is_slowed_down_and_others_are_not(home):
    async def work():
        async with served(home, burst=5.0, rate_per_s=10.0) as (port, _):
            greedy, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 60)
            await asyncio.wait_for(greedy.readline(), WAIT_S)
            other, asking = await asyncio.open_connection("127.0.0.1", port)
            asking.write(ASK)
            status = await asyncio.wait_for(other.readline(), WAIT_S)
            # what the greedy one got by then is no more than its burst and what its mistakes leave
            writer.transport.pause_reading()
            got = len(greedy._buffer)
            writer.transport.abort()
            return status, got

    status, got = asyncio.run(work())
    assert b"200" in status and got < 60 * 300


def test_a_server_that_is_told_to_stop_says_goodbye_to_its_listeners(home):
    import aiohttp

    async def work():
        async with aiohttp.ClientSession() as session:
            async with served(home) as (port, app):
                socket = await session.ws_connect(f"http://127.0.0.1:{port}/api/v1/live")
                closing = asyncio.create_task(socket.receive())
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
