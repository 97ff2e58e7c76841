"""Files and large bodies: ranges, preconditions, files that shrink, and clients that read nothing."""

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
    NoRoomError,
    ResponseBody,
    ResponseCache,
    body_response,
    long_json_response,
)
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN
from tests.server.support import WAIT_S, connected, served, until

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
NEVER = "Sun, 06 Nov 99999999999999999999 08:49:37 GMT"


@pytest.fixture
def aged(home):
    os.utime(home / RUN / "replays" / NAME, ns=(0, MODIFIED_S * 10**9))
    return home


async def answer(client, headers, method="GET"):
    """Return status, body and headers; ``{tag}`` in a header is the entity tag of the file."""
    tag = (await client.head(FILE)).headers["ETag"]
    sent = {name: value.replace("{tag}", tag) for name, value in headers.items()}
    reply = await client.request(method, FILE, headers={"Accept-Encoding": "identity", **sent})
    return reply.status, await reply.read(), reply.headers


@pytest.mark.parametrize(("range_", "start", "end"), [("bytes=8-31", 8, 32), ("bytes=-5", SIZE - 5, SIZE)])
async def test_range_returns_its_bytes(range_, start, end, client):
    status, body, headers = await answer(client, {"Range": range_})
    assert (status, body) == (206, DATA[start:end])
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"


@pytest.mark.parametrize("range_", [f"bytes={SIZE}-", "bytes=" + "9" * 5000 + "-", "bytes=5-1", "bytes=\u00b2-3"])
async def test_range_that_is_invalid_or_outside_the_file_returns_416(range_, client):
    status, _, headers = await answer(client, {"Range": range_})
    assert (status, headers["Content-Range"]) == (416, f"bytes */{SIZE}")


@pytest.mark.parametrize("condition", ["{tag}", DATE, '"another"', "W/{tag}", LATER, EARLIER, "*", "yesterday"])
async def test_range_that_depends_on_a_condition_returns_the_whole_file(aged, condition, client):
    assert (await answer(client, {"Range": "bytes=8-31", "If-Range": condition}))[:2] == (200, DATA)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": "{tag}"}, 304), ({"If-None-Match": '"a"'}, 200), ({"If-Modified-Since": LATER}, 304),
        ({"If-Match": "{tag}"}, 200), ({"If-Match": '"a"'}, 412), ({"If-Unmodified-Since": EARLIER}, 412),
        ({"If-None-Match": "{tag}", "Range": "bytes=0-3"}, 304), ({"If-Match": '"a"', "Range": "bytes=0-3"}, 412),
        ({"If-Modified-Since": "yesterday"}, 200), ({"If-Modified-Since": NEVER}, 400),
        ({"If-Unmodified-Since": NEVER}, 400), ({"If-Modified-Since": NEVER.replace("08:", "9" * 20 + ":")}, 400),
    ],
)  # fmt: skip
async def test_preconditions_decide_between_file_and_status(aged, headers, status, client):
    found, body, _ = await answer(client, headers)
    assert found == status and (body == DATA) == (status == 200)


async def test_head_returns_the_headers_of_the_whole_file(aged, client):
    status, body, headers = await answer(client, {}, "HEAD")
    assert (status, body, headers["Content-Length"], headers["Last-Modified"]) == (200, b"", str(SIZE), DATE)
    assert "nosniff" in headers["X-Content-Type-Options"] and MATCH in headers["Content-Disposition"]


async def test_tag_changes_with_the_file(home, client):
    first = (await answer(client, {}))[2]["ETag"]
    os.utime(home / RUN / "replays" / NAME, ns=(0, 0))
    assert (await answer(client, {}))[2]["ETag"] != first


@pytest.fixture
def large_body(monkeypatch):
    body = ResponseBody(bytes(LARGE))
    monkeypatch.setattr(
        routes, "body_response", lambda request, *rest: body_response(request, body, BINARY, REVALIDATE)
    )


def request_of(path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n".encode()


async def test_file_that_shrinks_while_it_is_sent_closes_the_connection(home):
    path = home / RUN / "replays" / NAME
    with open(path, "ab") as file:
        file.write(bytes(LARGE))
    async with served(home, socket_bytes=8192) as (port, _):
        reader, writer = await connected(port, socket_bytes=8192)
        writer.transport.pause_reading()
        writer.write(request_of(FILE) + request_of("/api/v1/healthz"))
        await asyncio.sleep(0.2)
        os.truncate(path, SIZE)
        writer.transport.resume_reading()
        head, _, body = (await asyncio.wait_for(reader.read(), WAIT_S)).partition(b"\r\n\r\n")
    assert b"content-length: %d" % (SIZE + LARGE) in head.lower() and len(body) < SIZE + LARGE
    assert body.startswith(DATA[:100]) and b"HTTP/1.1" not in body


@pytest.mark.parametrize("path", [f"/api/v1/matches/{MATCH}/chunks/0", f"{FILE}?world=1"])
@pytest.mark.usefixtures("large_body")
async def test_unread_response_takes_a_few_slices_and_leaves_nothing(home, monkeypatch, path):
    found: list[weakref.ref] = []
    connections: list[Connection] = []
    monkeypatch.setattr(routes, "embed_world", lambda replay: bytes(LARGE))
    original = Connection.begin_request
    monkeypatch.setattr(Connection, "begin_request", lambda c: connections.append(c) or original(c))
    finish = Connection.finish_response

    async def recorded(connection, request, response, start):
        found.extend((weakref.ref(response), weakref.ref(request.writer)))
        return await finish(connection, request, response, start)

    monkeypatch.setattr(Connection, "finish_response", recorded)
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
        try:
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: not asyncio.all_tasks() - before)
            await asyncio.sleep(0.05)
            assert [ref() for ref in found if ref() is not None] == []
        finally:
            gc.enable()
        assert max(buffered) <= 5 * SLICE_BYTES + HEAD_BYTES and len(found) == 3 * CLIENTS


async def test_large_json_is_compressed_in_slices(monkeypatch, client):
    rows = list(range(100_000))
    monkeypatch.setattr(routes, "long_json_response", lambda request, _: long_json_response(request, {"rows": rows}))
    plain = await client.get("/api/v1/runs", headers={"Accept-Encoding": "identity"})
    packed = await client.get("/api/v1/runs", headers={"Accept-Encoding": "gzip"})
    tags = {"If-None-Match": plain.headers["ETag"], "Accept-Encoding": "identity"}
    assert (await client.get("/api/v1/runs", headers=tags)).status == 304
    assert await plain.json() == await packed.json() == {"rows": rows}
    assert packed.headers["Content-Encoding"] == "gzip"


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
async def test_static_files_are_served_in_an_accepted_coding(built, taken, coding, suffix, client):
    replies = {}
    for name in built:
        path = f"/{name}".replace("/index.html", "/")
        async with client.get(path, headers={"Accept-Encoding": taken}, auto_decompress=False) as reply:
            assert reply.headers.get("Content-Encoding") == coding and reply.headers["Vary"] == "Accept-Encoding"
            assert int(reply.headers["Content-Length"]) == len(body := await reply.read())
            replies[name] = gzip.decompress(body) if coding == "gzip" else body, reply.content_type
    assert replies == {name: (f"{name}{suffix}".encode(), kind) for name, kind in built.items()}


async def test_compressed_twins_have_other_tags_and_no_address(built, client):
    codings = [{"Accept-Encoding": coding} for coding in ("identity", "gzip", "br")]
    get = partial(client.get, "/assets/a.js", auto_decompress=False)
    replies = [await get(headers=coding) for coding in codings]
    tags = [reply.headers["ETag"] for reply in replies]
    assert len(set(tags)) == 3 and all("immutable" in reply.headers["Cache-Control"] for reply in replies)
    assert (await get(headers={**codings[2], "If-None-Match": tags[2]})).status == 304
    assert (await get(headers={**codings[0], "If-None-Match": tags[2]})).status == 200
    assert (await client.get("/assets/a.js.br")).status == 404


@pytest.mark.usefixtures("large_body")
async def test_client_that_takes_too_long_is_disconnected(home, monkeypatch):
    monkeypatch.setattr(responses, "SEND_S", 0.05)
    async with served(home, socket_bytes=8192) as (port, _):
        before = asyncio.all_tasks()
        reader, writer = await connected(port, socket_bytes=8192)
        writer.transport.pause_reading()
        writer.write(request_of(f"/api/v1/matches/{MATCH}/chunks/0"))
        await until(lambda: asyncio.all_tasks() - before)
        await asyncio.sleep(0.3)
        writer.transport.resume_reading()
        assert len(await asyncio.wait_for(reader.read(), WAIT_S)) < LARGE


async def test_body_is_hashed_once_on_a_thread_and_counts_until_nothing_refers_to_it(monkeypatch):
    hashed = []
    digest = responses.hashlib.sha256
    monkeypatch.setattr(responses.hashlib, "sha256", lambda data: hashed.append(threading.get_ident()) or digest(data))
    cache = ResponseCache(max_bytes=100, max_total=LARGE)
    body = await cache.get("world", lambda: asyncio.to_thread(ResponseBody, bytes(LARGE)))
    assert (cache.total, cache.size) == (LARGE, 0)
    with pytest.raises(NoRoomError):
        await cache.admit(lambda: pytest.fail("computed"))
    del body
    await until(lambda: cache.total == 0)  # the thread may keep its result for a moment
    assert len(hashed) == 1 and hashed[0] != threading.get_ident()
