"""Long computations on one match: lists, other matches and other requests go on, and the work is shared and bounded."""

import asyncio
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from aiohttp import ClientSession

from echelon.replay import reader
from echelon.replay.codec import ReplayError
from echelon.replay.reader import Replay
from echelon.replay.validate import ChunkRef, Index
from echelon.server import catalogue, routes
from echelon.server.catalogue import ReplayCatalogue, match_id
from echelon.server.responses import RESPONSE_CACHE, ResponseBody, ResponseCache
from tests.replay.synthetic import write_match
from tests.server.conftest import MATCH, RUN
from tests.server.support import WAIT_S, served, until

CHUNKS = 6
MANY = 12
"""Requests that would fill the default pool of threads."""


@pytest.fixture(autouse=True)
def eager_scans(monkeypatch):
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 0.0)
    monkeypatch.setattr(routes, "SCAN_INTERVAL_S", 0.0)


def unclosed(home, name):
    """Write a match that was not closed; return its id."""
    write_match(home / RUN / "replays" / name, CHUNKS, closed=False)
    return match_id(RUN, name)


class Gate:
    """Lets calls of a method of ``Replay`` wait, those on files whose names begin with ``prefix``."""

    def __init__(self, monkeypatch, method, prefix="open"):
        self.entered, self.go = threading.Semaphore(0), threading.Event()
        self.calls = []
        original = getattr(Replay, method)

        def waiting(replay, *arguments):
            if replay.path.name.startswith(prefix):
                self.calls.append(replay.path.name)
                self.entered.release()
                assert self.go.wait(WAIT_S)
            return original(replay, *arguments)

        monkeypatch.setattr(Replay, method, waiting)


@contextmanager
def opened(gate):
    try:
        yield gate
    finally:
        gate.go.set()


async def entered(gate):
    async with asyncio.timeout(WAIT_S):
        while not gate.entered.acquire(blocking=False):
            await asyncio.sleep(0.01)


async def status_of(client, path):
    return (await asyncio.wait_for(client.get(path), WAIT_S)).status


@pytest.mark.parametrize("change", ["deleted", "closed"])
async def test_lists_do_not_wait_for_the_timeline_of_a_match_that_changes(home, monkeypatch, change, client):
    ident, path = unclosed(home, "open.ecr"), home / RUN / "replays" / "open.ecr"
    with opened(Gate(monkeypatch, "chunk")) as gate:
        index = asyncio.create_task(client.get(f"/api/v1/matches/{ident}/index"))
        await entered(gate)
        path.unlink()
        if change == "closed":
            write_match(path, CHUNKS)
        listed = await (await asyncio.wait_for(client.get("/api/v1/matches"), WAIT_S)).json()
        assert listed["total"] == (1 if change == "deleted" else 2) and not index.done()
        for part in ("/index", "/chunks/0"):
            assert await status_of(client, f"/api/v1/matches/{MATCH}{part}") == 200
    assert (await index).status == 200, "what was begun on an open file is finished"


async def test_lists_do_not_wait_for_many_timelines(home, monkeypatch, client):
    idents = [unclosed(home, f"open-{n}.ecr") for n in range(MANY)]
    with opened(Gate(monkeypatch, "chunk")) as gate:
        asked = [asyncio.create_task(client.get(f"/api/v1/matches/{ident}/index")) for ident in idents]
        asked += [asyncio.create_task(client.get(f"/api/v1/matches/{idents[0]}/chunks/{n}")) for n in range(CHUNKS)]
        await entered(gate)
        for path in ("/api/v1/matches", "/api/v1/runs", "/api/v1/healthz"):
            assert await status_of(client, path) == 200
    assert {reply.status for reply in await asyncio.gather(*asked)} == {200}


@pytest.mark.parametrize("files", [1, 32])
def test_reading_a_match_does_not_wait_for_another_that_is_evicted(home, monkeypatch, files):
    monkeypatch.setattr(catalogue, "OPEN_FILES", files)
    unclosed(home, "open.ecr")
    found = ReplayCatalogue(home)
    matches = {match.path.name: match for match in found.matches()}
    busy, other = matches.pop("open.ecr"), matches.popitem()[1]
    with ThreadPoolExecutor(2) as pool, opened(Gate(monkeypatch, "timeline")) as gate:
        first = pool.submit(found.read, busy, lambda replay: (replay, replay.timeline()))
        assert gate.entered.acquire(timeout=WAIT_S)
        assert pool.submit(found.read, other, lambda replay: len(replay.chunks)).result(WAIT_S) > 1
        gate.go.set()
        replay, _ = first.result(WAIT_S)
        assert replay.closed == (files == 1), "the last user closes an evicted file"
    found.close()
    assert replay.closed


def test_lists_do_not_wait_for_a_scan_of_another_thread(home, monkeypatch):
    found = ReplayCatalogue(home)
    assert len(found.matches()) == 1
    unclosed(home, "open.ecr")
    with ThreadPoolExecutor(2) as pool, opened(Gate(monkeypatch, "_scan")) as gate:
        scan = pool.submit(found.matches)
        assert gate.entered.acquire(timeout=WAIT_S)
        assert len(pool.submit(found.matches).result(WAIT_S)) == 1
        gate.go.set()
        assert len(scan.result(WAIT_S)) == 2


async def test_requests_share_the_timeline_of_a_match(home, monkeypatch, client):
    ident = unclosed(home, "open.ecr")
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    decoded = []
    original = Replay.chunk
    monkeypatch.setattr(Replay, "chunk", lambda replay, n: decoded.append(n) or original(replay, n))
    paths = [f"/api/v1/matches/{ident}/index"] * MANY
    replies = [await reply.json() for reply in await asyncio.gather(*map(client.get, paths))]
    assert all(reply == replies[0] for reply in replies) and len(replies[0]["chunks"]) == CHUNKS
    assert decoded == list(range(CHUNKS))


async def test_timeline_of_a_deleted_match_ends_at_its_next_step(home, monkeypatch, client):
    ident, path = unclosed(home, "open.ecr"), home / RUN / "replays" / "open.ecr"
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    with opened(Gate(monkeypatch, "chunk")) as gate:
        index = asyncio.create_task(client.get(f"/api/v1/matches/{ident}/index"))
        await entered(gate)
        path.unlink()
        await status_of(client, "/api/v1/matches")
        gate.go.set()
        assert (await index).status == 404 and len(gate.calls) == 1 < CHUNKS


def test_damaged_chunk_ends_the_timeline_of_an_unclosed_match(home):
    ident, path = unclosed(home, "open.ecr"), home / RUN / "replays" / "open.ecr"
    found = ReplayCatalogue(home)
    match = found.find(ident)
    assert match is not None
    found.read(match, Replay.refresh)
    with Replay(path) as replay:
        at = replay.chunks[2].offset + 40
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xff\xff\xff")
    with pytest.raises(ReplayError, match="damaged"):
        found.read(match, Replay.timeline)


async def test_timelines_take_turns_and_end_with_their_last_client(home, monkeypatch):
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    steps = []
    original = Replay.extend_timeline
    monkeypatch.setattr(Replay, "extend_timeline", lambda r: steps.append(r.path.name) or original(r))
    idents = [unclosed(home, f"open-{n:02}.ecr") for n in range(20)]
    async with served(home) as (port, application), ClientSession(f"http://127.0.0.1:{port}") as client:
        await (await client.get("/api/v1/matches")).read()
        with opened(Gate(monkeypatch, "chunk")) as gate:
            asked = [asyncio.create_task(client.get(f"/api/v1/matches/{i}/index")) for i in idents]
            await entered(gate)
            pending = application[RESPONSE_CACHE]._pending
            await until(lambda: len(pending) == len(idents))
            for task in asked[:-1]:
                task.cancel()
            await until(lambda: len(pending) == 1)
            gate.go.set()
            assert (await asyncio.wait_for(asked[-1], WAIT_S)).status == 200
            others = [name for name in steps if name != "open-19.ecr"]
    assert len(others) == 1, "the step that had begun ends, others are not begun"


async def test_timelines_of_many_matches_take_turns(home, monkeypatch, client):
    monkeypatch.setattr(reader, "STEP_BYTES", 0)
    steps = []
    original = Replay.chunk
    monkeypatch.setattr(Replay, "chunk", lambda r, n: steps.append(r.path.name) or original(r, n))
    idents = [unclosed(home, f"open-{n:02}.ecr") for n in range(20)]
    await client.get("/api/v1/matches")
    replies = await asyncio.gather(*(client.get(f"/api/v1/matches/{i}/index") for i in idents))
    assert {reply.status for reply in replies} == {200}
    assert set(steps[: 2 * len(idents)]) == {f"open-{n:02}.ecr" for n in range(20)}, (
        "each had a step before any two more"
    )
    assert len(steps) == CHUNKS * len(idents)


async def test_body_is_computed_again_after_its_last_request_has_gone():
    cache, started, cancelled = ResponseCache(), [], []

    async def compute():
        started.append(1)
        try:
            await asyncio.sleep(WAIT_S if len(started) == 1 else 0)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return ResponseBody(b"body")

    first, second = (asyncio.create_task(cache.get("k", compute)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(started), len(cancelled)) == (1, 0)
    second.cancel()
    await asyncio.sleep(0)
    assert (await cache.get("k", compute)).data == b"body"
    assert (len(started), len(cancelled)) == (2, 1)


async def test_requests_of_unknown_matches_hold_no_thread_during_a_scan(home, monkeypatch, client):
    await client.get("/api/v1/matches")
    unclosed(home, "open.ecr")
    with opened(Gate(monkeypatch, "_scan")) as gate:
        scan = asyncio.create_task(client.get("/api/v1/matches"))
        await entered(gate)
        unknown = [asyncio.create_task(client.get(f"/api/v1/matches/{n:016x}")) for n in range(MANY)]
        known = asyncio.create_task(client.get(f"/api/v1/matches/{match_id(RUN, 'open.ecr')}"))
        await asyncio.sleep(0.05)
        paths = (f"/api/v1/matches/{MATCH}/file", f"/api/v1/matches/{MATCH}/chunks/0", "/api/v1/matches")
        assert [await status_of(client, path) for path in paths] == [200] * 3
        assert not any(task.done() for task in (scan, known, *unknown))
    assert {(await task).status for task in unknown} == {404} and (await known).status == 200


def test_largest_contents_of_open_replays_are_closed_above_their_budget(home, monkeypatch):
    sizes = {f"open-{n}.ecr": 100 if n % 2 else 1 for n in range(8)}
    for name in sizes:
        unclosed(home, name)
    monkeypatch.setattr(Replay, "memory", property(lambda replay: sizes.get(replay.path.name, 1)))
    monkeypatch.setattr(catalogue, "OPEN_BYTES", 250)
    found, seen = ReplayCatalogue(home), {}
    for match in sorted(found.matches(), key=lambda match: match.path.name):
        seen[match.path.name] = found.read(match, lambda replay: replay)
        assert sum(sizes.get(name, 1) for name, replay in seen.items() if not replay.closed) <= 250
    still = {name for name, replay in seen.items() if not replay.closed}
    assert len([name for name in still if name in sizes and sizes[name] > 1]) == 2
    assert {name for name, size in sizes.items() if size == 1} <= still
    found.close()


def test_estimate_of_chunks_and_index_is_near_what_they_take(home):
    rows = 20_000
    with Replay(home / RUN / "replays" / "eval-0001-blue.ecr") as replay:
        before = replay.memory
        tracemalloc.start()
        replay.index = Index(
            [], None, None, [], {"series": (rows, bytes(18 * rows)), "markers": (rows, bytes(9 * rows))}
        )
        replay.chunks = [ChunkRef(*row) for row in (1000 + np.arange(4 * rows).reshape(rows, 4)).tolist()]
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert 0.8 * taken < replay.memory < before + 1.3 * taken
