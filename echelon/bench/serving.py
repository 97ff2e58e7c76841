"""The replay server under load: viewers of a live match of 200 mechs, with and without somebody who means it harm.

The server is a process of its own, as a user starts it, and so is the hostile client. A made-up match grows chunk by
chunk; each viewer keeps the live channel open and pulls index and chunk at every notice, all at once. What counts is
how long a chunk takes from asking to its last byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import numpy as np

from echelon.bench.attack import attack
from echelon.replay.header import name_tables
from echelon.replay.reader import Replay
from echelon.replay.schema import SCHEMA_MAJOR, SCHEMA_MINOR
from echelon.replay.writer import MatchWriter, world_payload

VIEWERS = 64
MECHS, EDGE, HEIGHT = 200, 200, 20
STRIDE, FRAME_TICKS, HZ = 8, 5, 20
CHUNKS = 40
"""Of the made-up match; half are played calmly, half under attack."""
EVERY_S = 0.5
"""Time between chunks, four times as fast as play [s]."""
JOIN_S, LAST_S = 60.0, 60.0
"""Longest that viewers may take to join, and the last chunk to reach them all [s]."""
RUN = "20260101-000000-bench-calm-otter"
KIB = 1024


def made_up_match(path: Path, chunks: int = CHUNKS) -> None:
    """Write a match of 200 mechs that wander; its chunks are as large as those of a fierce one."""
    rng = np.random.default_rng(0)
    roster = [
        {
            "team": m * 2 // MECHS,
            "pack": m // 5,
            "chassis": m % 4,
            "name": f"{'BR'[m * 2 // MECHS]}{m}",
            "present": True,
        }
        for m in range(MECHS)
    ]
    header = {
        "schema": [SCHEMA_MAJOR, SCHEMA_MINOR], "created": 0.0, "echelon": "bench", "tick_hz": HZ,
        "frame_ticks": FRAME_TICKS, "chunk_ticks": STRIDE * FRAME_TICKS, "mechs": MECHS,
        "teams": [{"name": "Blue"}, {"name": "Red"}], "seed": 0, "map_seed": 0, "env": 0, "run": RUN, "update": 0,
        "global_step": 0, "duration_s": 60.0, "score_to_win": 30.0, "zone": [100.0, 100.0, 10.0], "roster": roster,
        **name_tables(), "config": {},
    }  # fmt: skip
    writer = MatchWriter(path, header, world_payload(np.zeros((HEIGHT, EDGE, EDGE), np.uint8)))
    count, width = chunks * STRIDE + 1, writer.layout.width
    rows = np.full((count, width), 1000, np.int64)
    for name, part in writer.layout.parts.items():
        step = 20 if name in ("x", "y") else 2
        walk = rng.integers(-step, step + 1, (count, part.stop - part.start)).cumsum(axis=0)
        rows[:, part] = walk % (EDGE * 16 if name in ("x", "y") else 100)
    rows[:, 0] = np.arange(count) * FRAME_TICKS
    rows[:, writer.layout.parts["flags"]] = 1
    for n in range(chunks):
        writer.chunk(rows[n * STRIDE : (n + 1) * STRIDE + 1], {})
    writer.close(winner=0, reason="elimination")


class Growing:
    """A finished match that is given away chunk by chunk."""

    def __init__(self, whole: Path, live: Path) -> None:
        self.data, self.live = whole.read_bytes(), live
        with Replay(whole) as replay:
            self.ends = [c.offset + c.length for c in replay.chunks]
        self.given = 0
        live.write_bytes(self.data[: self.ends[0]])

    def give(self) -> int:
        """Append the next chunk and return its number."""
        self.given += 1
        with open(self.live, "ab") as file:
            file.write(self.data[self.ends[self.given - 1] : self.ends[self.given]])
        return self.given


async def view(
    session: aiohttp.ClientSession, base: str, ident: str, joined: asyncio.Semaphore, took: list[float]
) -> None:
    """Follow the match as a viewer does, and note how long each chunk takes [s]."""
    match = f"{base}api/v1/matches/{ident}"
    seen = 0
    async with session.ws_connect(f"{base}api/v1/live") as socket:
        async for message in socket:
            notice = json.loads(message.data)
            async with session.get(f"{match}/index") as reply:
                await reply.read()
            for number in range(seen, notice["chunks"]):
                began = time.perf_counter()
                async with session.get(f"{match}/chunks/{number}") as reply:
                    body = await reply.read()
                    if reply.status != 200 or not body:
                        raise RuntimeError(f"chunk {number} was answered {reply.status}")
                took.append(time.perf_counter() - began)
            if not seen:
                joined.release()
            seen = max(seen, notice["chunks"])


async def watched(base: str, ident: str, growing: Growing, chunks: int) -> tuple[list[float], float]:
    """Have all viewers follow ``chunks`` more chunks; return how long each chunk took, and how long it all took [s]."""
    took: list[float] = []
    joined = asyncio.Semaphore(0)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        viewers = [asyncio.create_task(view(session, base, ident, joined, took)) for _ in range(VIEWERS)]
        async with asyncio.timeout(JOIN_S):
            for _ in viewers:
                await joined.acquire()
        took.clear()
        began = time.perf_counter()
        for _ in range(chunks):
            growing.give()
            await asyncio.sleep(EVERY_S)
        until = began + chunks * EVERY_S + LAST_S
        while len(took) < chunks * VIEWERS:
            await asyncio.sleep(EVERY_S / 10)
            if (gone := [task for task in viewers if task.done()]) or time.perf_counter() > until:
                why = f": {gone[0].exception()!r}" if gone else ""
                raise RuntimeError(
                    f"{len(took)} chunks of {chunks * VIEWERS} arrived, {len(gone)} viewers gave up{why}"
                )
        seconds = time.perf_counter() - began
        for task in viewers:
            task.cancel()
        await asyncio.gather(*viewers, return_exceptions=True)
    return took, seconds


@contextlib.contextmanager
def server_load() -> Iterator[Any]:
    """64 live viewers of a 200-mech match, calm and beside a hostile client: chunk latency and memory."""
    with TemporaryDirectory(prefix="echelon-bench-") as folder:
        home = Path(folder)
        replays = home / RUN / "replays"
        replays.mkdir(parents=True)
        (home / RUN / "spec.json").write_text("{}")
        made_up_match(home / "whole.ecr")
        command = [sys.executable, "-m", "echelon_cli.main", "serve", "--json"]
        environment = {**os.environ, "ECHELON_HOME": folder, "PYTHONUNBUFFERED": "1"}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert server.stdout is not None
            base = json.loads(server.stdout.readline())["url"]
            yield lambda: measure(home, base, server.pid)
        finally:
            server.terminate()
            server.wait()


def measure(home: Path, base: str, server: int) -> dict[str, Any]:
    """Measure both halves once."""
    replays = home / RUN / "replays"
    # a name of its own: for a second, a server tells of a file what it knew of the last one of that name
    live = replays / f"live-{time.monotonic_ns()}.ecr"
    growing = Growing(home / "whole.ecr", live)
    ident = found(base, live.name)
    calm, seconds = asyncio.run(watched(base, ident, growing, CHUNKS // 2 - 1))
    before = peak_mib(server)
    hostile = multiprocessing.get_context("spawn").Process(target=attack, args=(base, ident), daemon=True)
    hostile.start()
    try:
        attacked, _ = asyncio.run(watched(base, ident, growing, CHUNKS // 2 - 1))
    finally:
        hostile.terminate()
        hostile.join()
    live.unlink()
    return {
        "per_s": len(calm) / seconds,
        "unit": "chunks",
        **{f"calm_p{p}_ms": float(np.percentile(calm, p)) * 1e3 for p in (50, 99)},
        **{f"attacked_p{p}_ms": float(np.percentile(attacked, p)) * 1e3 for p in (50, 99)},
        "peak_mib": before,
        "attacked_peak_mib": peak_mib(server),
    }


def found(base: str, name: str) -> str:
    """Return the id of the match in a file, once the server has seen it."""
    until = time.monotonic() + JOIN_S
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{base}api/v1/matches") as reply:
            rows = json.loads(reply.read())["matches"]
        if own := [row["id"] for row in rows if row["file"] == name]:
            return str(own[0])
        time.sleep(EVERY_S)
    raise RuntimeError("the server does not find the match")


def peak_mib(pid: int) -> float:
    """Return the most memory a process has had [MiB]; nothing where the system does not say."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / KIB
    return float("nan")
