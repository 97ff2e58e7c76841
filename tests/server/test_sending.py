"""Files and large bodies: ranges, preconditions, files that shrink, and clients that read nothing."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import threading
import weakref
from email.utils import formatdate
from functools import partial

import pytest

from echelon.server import responses, routes
from echelon.server.connections import Connection
from echelon.server.responses import (
    BINARY,
    REVALIDATE,
    SLICE_BYTES,
    Body,
    NoRoomError,
    ResponseCache,
    body_response,
    long_json_response,
)
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN
from tests.server.test_connections import WAIT_S, connected, served, until

FILE = f"/api/v1/matches/{MATCH}/file"
DATA = GOLDEN.read_bytes()
SIZE = len(DATA)
LARGE = 8 * 2**20
"""Bytes that no socket buffer of a test takes."""
CLIENTS = 4
HEAD_BYTES = 2048
"""Most bytes of the headers of a response."""
MODIFIED_S = 1_700_000_000
DATE, EARLIER, LATER = (formatdate(MODIFIED_S + add, usegmt=True) for add in (0, -1, 1))


@pytest.fixture
def aged(home):
    os.utime(home / RUN / "replays" / NAME, ns=(0, MODIFIED_S * 10**9))
    return home


def answer(ask, headers, method="GET"):
    """Return status, body and headers; ``{tag}`` in a header is the entity tag of the file."""

    async def work(client):
        tag = (await client.head(FILE)).headers["ETag"]
        sent = {name: value.replace("{tag}", tag) for name, value in headers.items()}
        reply = await client.request(method, FILE, headers={"Accept-Encoding": "identity", **sent})
        return reply.status, await reply.read(), reply.headers

    return ask(work)


@pytest.mark.parametrize(("range_", "start", "end"), [("bytes=8-31", 8, 32), ("bytes=-5", SIZE - 5, SIZE)])
def test_range_returns_its_bytes(ask, range_, start, end):
    status, body, headers = answer(ask, {"Range": range_})
    assert (status, body) == (206, DATA[start:end])
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"


@pytest.mark.parametrize("range_", [f"bytes={SIZE}-", "bytes=" + "9" * 5000 + "-", "bytes=5-1", "bytes=\u00b2-3"])
def test_range_that_is_invalid_or_outside_the_file_returns_416(ask, range_):
    status, _, headers = answer(ask, {"Range": range_})
    assert (status, headers["Content-Range"]) == (416, f"bytes */{SIZE}")


@pytest.mark.parametrize("condition", ["{tag}", DATE, '"another"', "W/{tag}", LATER, EARLIER, "*", "yesterday"])
def test_range_that_depends_on_a_condition_returns_the_whole_file(ask, aged, condition):
    assert answer(ask, {"Range": "bytes=8-31", "If-Range": condition})[:2] == (200, DATA)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": "{tag}"}, 304), ({"If-None-Match": '"a"'}, 200), ({"If-Modified-Since": LATER}, 304),
        ({"If-Match": "{tag}"}, 200), ({"If-Match": '"a"'}, 412), ({"If-Unmodified-Since": EARLIER}, 412),
        ({"If-None-Match": "{tag}", "Range": "bytes=0-3"}, 304), ({"If-Match": '"a"', "Range": "bytes=0-3"}, 412),
        ({"If-Modified-Since": "yesterday"}, 200),
    ],
)  # fmt: skip
def test_preconditions_decide_between_file_and_status(ask, aged, headers, status):
    found, body, _ = answer(ask, headers)
    assert found == status and (body == DATA) == (status == 200)


def test_head_returns_the_headers_of_the_whole_file(ask, aged):
    status, body, headers = answer(ask, {}, "HEAD")
    assert (status, body, headers["Content-Length"], headers["Last-Modified"]) == (200, b"", str(SIZE), DATE)
    assert "nosniff" in headers["X-Content-Type-Options"] and MATCH in headers["Content-Disposition"]


def test_tag_changes_with_the_file(ask, home):
    first = answer(ask, {})[2]["ETag"]
    os.utime(home / RUN / "replays" / NAME, ns=(0, 0))
    assert answer(ask, {})[2]["ETag"] != first


def request_of(path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n".encode()


def test_file_that_shrinks_while_it_is_sent_closes_the_connection(home):
    path = home / RUN / "replays" / NAME
    with open(path, "ab") as file:
        file.write(bytes(LARGE))

    async def work():
        async with served(home, socket_bytes=8192) as (port, _):
            reader, writer = await connected(port, socket_bytes=8192)
            writer.transport.pause_reading()
            writer.write(request_of(FILE) + request_of("/api/v1/healthz"))
            await asyncio.sleep(0.2)
            os.truncate(path, SIZE)
            writer.transport.resume_reading()
            return await asyncio.wait_for(reader.read(), WAIT_S)

    head, _, body = asyncio.run(work()).partition(b"\r\n\r\n")
    assert b"content-length: %d" % (SIZE + LARGE) in head.lower() and len(body) < SIZE + LARGE
    assert body.startswith(DATA[:100]) and b"HTTP/1.1" not in body


@pytest.mark.parametrize("path", [f"/api/v1/matches/{MATCH}/chunks/0", f"{FILE}?world=1"])
def test_unread_response_takes_a_few_slices_and_leaves_nothing(home, monkeypatch, path):
    with open(home / RUN / "replays" / NAME, "ab") as file:
        file.write(bytes(LARGE))
    found: list[weakref.ref] = []
    connections: list[Connection] = []

    body = Body(bytes(LARGE))
    monkeypatch.setattr(
        routes, "body_response", lambda request, *rest: body_response(request, body, BINARY, REVALIDATE)
    )
    monkeypatch.setattr(routes, "embed_world", lambda replay: bytes(LARGE))
    original = Connection.begin_request
    monkeypatch.setattr(Connection, "begin_request", lambda c: connections.append(c) or original(c))
    finish = Connection.finish_response

    async def recorded(connection, request, response, start):
        found.extend((weakref.ref(response), weakref.ref(request.writer)))
        return await finish(connection, request, response, start)

    monkeypatch.setattr(Connection, "finish_response", recorded)

    async def work():
        async with served(home, socket_bytes=8192) as (port, _):
            before = asyncio.all_tasks()
            clients = [await connected(port, socket_bytes=8192) for _ in range(CLIENTS)]
            for _, writer in clients:
                writer.transport.pause_reading()
                writer.write(request_of(path))
            await until(lambda: len(connections) == CLIENTS and all(c.writing_paused for c in connections))
            buffered = [c.transport.get_write_buffer_size() for c in connections]
            found.extend(weakref.ref(c.transport) for c in connections)
            connections.clear()
            gc.disable()
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: not asyncio.all_tasks() - before)
            await asyncio.sleep(0.05)
            return buffered

    try:
        buffered = asyncio.run(work())
        assert max(buffered) <= 5 * SLICE_BYTES + HEAD_BYTES and len(found) == 3 * CLIENTS
        assert [ref() for ref in found if ref() is not None] == []
    finally:
        gc.enable()


def test_large_json_is_compressed_in_slices(ask, monkeypatch):
    rows = list(range(100_000))

    async def work(client):
        monkeypatch.setattr(
            routes, "long_json_response", lambda request, _: long_json_response(request, {"rows": rows})
        )
        plain = await client.get("/api/v1/runs", headers={"Accept-Encoding": "identity"})
        packed = await client.get("/api/v1/runs", headers={"Accept-Encoding": "gzip"})
        tags = {"If-None-Match": plain.headers["ETag"], "Accept-Encoding": "identity"}
        again = await client.get("/api/v1/runs", headers=tags)
        return await plain.json(), await packed.json(), packed.headers["Content-Encoding"], again.status

    assert ask(work) == ({"rows": rows}, {"rows": rows}, "gzip", 304)


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Media types of a built viewer's files by path; each file has compressed twins, and their content names them."""
    (tmp_path / "assets").mkdir()
    files = {"index.html": "text/html", "assets/a.js": "text/javascript", "assets/b.woff2": "font/woff2"}
    for name in files:
        (tmp_path / name).write_text(name)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(f"{name} gz".encode()))
        (tmp_path / f"{name}.br").write_bytes(f"{name} br".encode())
    monkeypatch.setattr(routes, "STATIC", tmp_path)
    return files


@pytest.mark.parametrize(
    ("taken", "coding", "suffix"),
    [("identity", None, ""), ("", None, ""), ("gzip", "gzip", " gz"),
     ("gzip, deflate, br", "br", " br"), ("zstd", None, "")],
)  # fmt: skip
def test_static_files_are_served_in_an_accepted_coding(ask, built, taken, coding, suffix):
    async def work(client):
        replies = {}
        for name in built:
            path = f"/{name}".replace("/index.html", "/")
            async with client.get(path, headers={"Accept-Encoding": taken}, auto_decompress=False) as reply:
                assert reply.headers.get("Content-Encoding") == coding and reply.headers["Vary"] == "Accept-Encoding"
                assert int(reply.headers["Content-Length"]) == len(body := await reply.read())
                replies[name] = gzip.decompress(body) if coding == "gzip" else body, reply.content_type
        return replies

    assert ask(work) == {name: (f"{name}{suffix}".encode(), kind) for name, kind in built.items()}


def test_compressed_twins_have_other_tags_and_no_address(ask, built):
    async def work(client):
        codings = [{"Accept-Encoding": coding} for coding in ("identity", "gzip", "br")]
        get = partial(client.get, "/assets/a.js", auto_decompress=False)
        replies = [await get(headers=coding) for coding in codings]
        tags = [reply.headers["ETag"] for reply in replies]
        again = await get(headers={**codings[2], "If-None-Match": tags[2]})
        other = await get(headers={**codings[0], "If-None-Match": tags[2]})
        twin = await client.get("/assets/a.js.br")
        caching = [reply.headers["Cache-Control"] for reply in replies]
        return len(set(tags)), again.status, other.status, twin.status, ["immutable" in value for value in caching]

    assert ask(work) == (3, 304, 200, 404, [True] * 3)


def test_client_that_takes_too_long_is_disconnected(home, monkeypatch):
    monkeypatch.setattr(responses, "SEND_S", 0.05)
    body = Body(bytes(LARGE))
    monkeypatch.setattr(
        routes, "body_response", lambda request, *rest: body_response(request, body, BINARY, REVALIDATE)
    )

    async def work():
        async with served(home, socket_bytes=8192) as (port, app):
            before = asyncio.all_tasks()
            reader, writer = await connected(port, socket_bytes=8192)
            writer.transport.pause_reading()
            writer.write(request_of(f"/api/v1/matches/{MATCH}/chunks/0"))
            await until(lambda: asyncio.all_tasks() - before)
            await asyncio.sleep(0.3)
            writer.transport.resume_reading()
            return len(await asyncio.wait_for(reader.read(), WAIT_S))

    assert asyncio.run(work()) < LARGE


def test_body_is_hashed_once_on_a_thread_and_counts_until_nothing_refers_to_it(monkeypatch):
    hashed = []
    digest = responses.hashlib.sha256
    monkeypatch.setattr(responses.hashlib, "sha256", lambda data: hashed.append(threading.get_ident()) or digest(data))

    async def work():
        cache = ResponseCache(max_bytes=100, max_total=LARGE)
        body = await cache.get("world", lambda: asyncio.to_thread(Body, bytes(LARGE)))
        totals = [cache.total, cache.size]
        with pytest.raises(NoRoomError):
            await cache.admit(lambda: pytest.fail("computed"))
        del body
        await until(lambda: cache.total == 0)  # the thread may keep its result for a moment
        return totals

    assert asyncio.run(work()) == [LARGE, 0]
    assert len(hashed) == 1 and hashed[0] != threading.get_ident()
