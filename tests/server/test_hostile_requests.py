"""Random HTTP requests and WebSocket frames: only declared answers, no traceback, and the server serves on."""

import asyncio
import logging
import random
import re
from contextlib import suppress

import pytest

from echelon.server import live
from tests.server.conftest import MATCH
from tests.server.support import WAIT_S, served

REQUESTS, FRAMES = 200, 50
AT_ONCE = 250
"""Requests that are open at the same time, so that those without an answer wait together."""
QUIET_S = 2.0
"""Time without data after which a client leaves [s]."""
IDLE_S = 1.0
"""Time after which the server closes a connection that sends no request [s]."""
ALL_REQUESTS, ALL_FRAMES = 50_000, 10_000
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
DECLARED = set(b"100 101 200 206 303 304 400 403 404 405 412 413 416 421 422".split())
"""Status codes that a server with free descriptors may answer with."""
SOUND = b"GET /api/v1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
METHODS = (b"GET", b"HEAD", b"POST", b"OPTIONS", b"CONNECT", b"TRACE", b"get", b"G\x00T", b"", b"X" * 9000)
PATHS = (
    b"/", b"/api/v1/matches", f"/api/v1/matches/{MATCH}".encode(), f"/api/v1/matches/{MATCH}/index".encode(),
    f"/api/v1/matches/{MATCH}/chunks/0".encode(), f"/api/v1/matches/{MATCH}/chunks/999999".encode(),
    f"/api/v1/matches/{MATCH}/file".encode(), f"/api/v1/matches/{MATCH}/file?world=1".encode(), b"/api/v1/live",
    b"/api/v1/worlds/" + b"0" * 64, b"/api/v1/league", b"/api/v1/league?before=-1&outcome=%00",
    b"/../../etc/passwd", b"/%2e%2e/%2e%2e", b"/%ff%fe", b"//", b"*", b"http://evil.example/", b"/" + b"a" * 9000,
    b"\xff",
)  # fmt: skip
QUERIES = (
    b"", b"?limit=99999999999999", b"?offset=-1", b"?run=%00", b"?live=\xc2\xb2", b"?" + b"a=b&" * 500, b"?token=%ff",
)  # fmt: skip
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/9.9", b"HTTP/1.1.1", b"", b"ICY")
HEADERS = (
    b"Host: 127.0.0.1", b"Host: evil.example", b"Host:", b"Host: [::1", b"Content-Length: 5", b"Content-Length: -5",
    b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked", b"Range: bytes=0-10", b"Range: bytes=-",
    b"Range: bytes=9999999-", b"Range: bytes=5-1", b"If-None-Match: *", b'If-None-Match: "',
    b"Cookie: echelon_token=\xff", b"Content-Encoding: gzip", b"Sec-WebSocket-Key: \xff\xfe",
    b"If-Modified-Since: Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
    b"Cookie: " + b"a=b; " * 1000, b"Origin: null", b"Origin: http://127.0.0.1", b"Upgrade: websocket",
    b"Connection: Upgrade", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 99", b"Sec-WebSocket-Key: x",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", b"Accept-Encoding: gzip, br;q=nan", b"If-Range: \xff", b" folded",
    b"No colon", b": empty", b"A\x00: b", b"X: " + b"a" * 9000, b"Expect: 100-continue",
    b"Expect: \xb9", b"Expect: more",
    b"If-Modified-Since: yesterday", b"Range: bytes=0-1,4-5", b"Range: bytes=-" + b"9" * 5000, b'If-Range: "x"',
    b"If-Match: *", b'If-Match: W/"x", "', b"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
)  # fmt: skip
UPGRADE = (
    b"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def hostile_request(draws: random.Random) -> bytes:
    """Return a request of parts that each may be wrong, sometimes cut or changed in a byte."""
    headers = [b"Host: 127.0.0.1"] * (draws.random() < 0.8) + draws.sample(HEADERS, draws.randrange(5))
    method = b"GET" if draws.random() < 0.7 else draws.choice(METHODS)
    version = b"HTTP/1.1" if draws.random() < 0.9 else draws.choice(VERSIONS)
    line = b" ".join((method, draws.choice(PATHS) + draws.choice(QUERIES), version))
    data = b"\r\n".join((line, *headers, b"", b"")) + draws.choice((b"", b"", b"5\r\nabcde\r\n0\r\n\r\n", b"\x00" * 50))
    if draws.random() < 0.2:
        at = draws.randrange(len(data))
        data = data[:at] + bytes([draws.randrange(256)]) + data[at + 1 :]
    return data[: draws.randrange(len(data))] if draws.random() < 0.05 else data


def hostile_frames(draws: random.Random) -> bytes:
    """Return one to three WebSocket frames with any flags, opcode, length and mask."""
    data = b""
    for _ in range(draws.randrange(1, 4)):
        body = draws.choice((b"", b"{", b"[" * 900, b'{"type":"chunk"}', b"\xff\xfe", b"\x80" * 100, bytes(1500)))
        first = draws.choice((0x80, 0, 0xF0)) | draws.choice((0, 1, 2, 3, 8, 9, 10, 15))
        length = draws.choice((len(body), len(body), 0, 125))
        claim = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big")
        claim = draws.choice((claim, claim, claim, b"\xff" + (2**63).to_bytes(8, "big"), b"\x05"))
        data += bytes([first]) + claim + bytes(4) + body
    return data


async def exchange(port: int, data: bytes, wait_s: float = QUIET_S) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = b""
    with suppress(TimeoutError, ConnectionError):
        while data := await asyncio.wait_for(reader.read(2**16), wait_s):
            answer += data
    writer.transport.abort()
    return answer


async def attack(home, requests: int, frames: int) -> set[bytes]:
    """Send random requests and frames; return the status codes answered."""
    statuses: set[bytes] = set()
    async with served(home, idle_s=IDLE_S) as (port, _):
        cases = [hostile_request(random.Random(seed)) for seed in range(requests)]
        cases += [UPGRADE + hostile_frames(random.Random(seed)) for seed in range(frames)]
        for first in range(0, len(cases), AT_ONCE):
            batch = cases[first : first + AT_ONCE]
            for data, answer in zip(
                batch, await asyncio.gather(*(exchange(port, data) for data in batch)), strict=True
            ):
                if found := STATUS.match(answer):
                    statuses.add(found[1])
                assert b"Traceback" not in answer and b"evil.example" not in answer, data[:200]
        for data in (SOUND, SOUND.replace(b"/healthz", f"/matches/{MATCH}/chunks/0".encode())):
            assert b" 200 " in (await exchange(port, data, WAIT_S)).splitlines()[0]
    return statuses


@pytest.mark.parametrize(
    ("requests", "frames"), [(REQUESTS, FRAMES), pytest.param(ALL_REQUESTS, ALL_FRAMES, marks=pytest.mark.fuzz)]
)
async def test_random_requests_get_only_declared_answers(home, caplog, monkeypatch, requests, frames):
    monkeypatch.setattr(live, "SILENCE_TIMEOUT_S", IDLE_S)
    with caplog.at_level(logging.WARNING):
        statuses = await attack(home, requests, frames)
    assert statuses <= DECLARED and {b"200", b"400", b"404", b"421"} <= statuses
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
