"""Benchmark scene ``server-load``: chunk latency of the replay server for 64 viewers of a live match of 200 mechs.

The server runs in a process of its own, as ``echelon serve`` starts it. A synthetic match grows chunk by chunk; each
viewer keeps the live channel open and fetches the index and the new chunks at every notice. The latency is the time
from the request of a chunk to its last byte.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import numpy as np

from echelon.replay.header import TeamInfo, header_tables
from echelon.replay.reader import Replay
from echelon.replay.schema import SCHEMA_MAJOR, SCHEMA_MINOR
from echelon.replay.writer import MatchWriter, world_payload

VIEWERS = 64
MECHS, EDGE, HEIGHT = 200, 200, 20
STRIDE, FRAME_TICKS, HZ = 8, 5, 20
CHUNKS = 20
"""Chunks of the synthetic match."""
CHUNK_INTERVAL_S = 0.5
"""Time between chunks, a quarter of their playing time [s]."""
JOIN_TIMEOUT_S = 60.0
"""Time limit for all viewers to join [s]."""
DELIVERY_TIMEOUT_S = 60.0
"""Time limit for the last chunk to reach all viewers [s]."""
SENSING = {"radar": [30.0] * 4, "ewar": 20.0, "ecm": 1.0, "eccm": 1.0, "own_eccm": True, "quality": [0.2, 2.0]}
RUN = "20260101-000000-bench-calm-otter"
KIB = 1024


def write_synthetic_match(path: Path, chunks: int = CHUNKS) -> None:
    """Write a match of 200 mechs on random walks; its chunks are as large as those of intense combat."""
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
        "schema": [SCHEMA_MAJOR, SCHEMA_MINOR], "created": 0.0, "echelon": "bench", "sim_version": 0, "tick_hz": HZ,
        "frame_ticks": FRAME_TICKS, "chunk_ticks": STRIDE * FRAME_TICKS, "mechs": MECHS,
        "teams": [TeamInfo(name=name).to_header() for name in ("Blue", "Red")], "seed": 0, "map_seed": 0, "env": 0,
        "run": RUN, "update": 0, "global_step": 0, "duration_s": 60.0, "score_to_win": 30.0,
        "zone": [100.0, 100.0, 10.0], "roster": roster, "cloud": {"radius": 4.0, "life_s": 10.0}, "sensing": SENSING,
        "without": [], "changes": {}, **header_tables(), "config": {},
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


class GrowingMatch:
    """A copy of a finished match that is appended to chunk by chunk."""

    def __init__(self, finished: Path, live: Path) -> None:
        self.data, self.live = finished.read_bytes(), live
        with Replay(finished) as replay:
            self.chunk_ends = [c.offset + c.length for c in replay.chunks]
        self.appended = 0
        live.write_bytes(self.data[: self.chunk_ends[0]])

    def append_chunk(self) -> int:
        """Append the next chunk and return its number."""
        self.appended += 1
        with open(self.live, "ab") as file:
            file.write(self.data[self.chunk_ends[self.appended - 1] : self.chunk_ends[self.appended]])
        return self.appended


async def follow_match(
    session: aiohttp.ClientSession, base: str, match_id: str, joined: asyncio.Semaphore, latencies: list[float]
) -> None:
    """Follow the match as a viewer does and append the latency of each chunk [s]."""
    match = f"{base}api/v1/matches/{match_id}"
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
                        raise RuntimeError(f"chunk {number} was answered with status {reply.status}, expected 200")
                latencies.append(time.perf_counter() - began)
            if not seen:
                joined.release()
            seen = max(seen, notice["chunks"])


async def measure_viewers(base: str, match_id: str, match: GrowingMatch, chunks: int) -> tuple[list[float], float]:
    """Let all viewers follow ``chunks`` further chunks; return the latency of each chunk and the total time [s]."""
    latencies: list[float] = []
    joined = asyncio.Semaphore(0)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        viewers = [
            asyncio.create_task(follow_match(session, base, match_id, joined, latencies)) for _ in range(VIEWERS)
        ]
        async with asyncio.timeout(JOIN_TIMEOUT_S):
            for _ in viewers:
                await joined.acquire()
        latencies.clear()
        began = time.perf_counter()
        for _ in range(chunks):
            match.append_chunk()
            await asyncio.sleep(CHUNK_INTERVAL_S)
        deadline = began + chunks * CHUNK_INTERVAL_S + DELIVERY_TIMEOUT_S
        while len(latencies) < chunks * VIEWERS:
            await asyncio.sleep(CHUNK_INTERVAL_S / 10)
            if (ended := [task for task in viewers if task.done()]) or time.perf_counter() > deadline:
                reason = f": {ended[0].exception()!r}" if ended else ""
                raise RuntimeError(
                    f"{len(latencies)} of {chunks * VIEWERS} chunks arrived, {len(ended)} viewers ended early{reason}"
                )
        seconds = time.perf_counter() - began
        for task in viewers:
            task.cancel()
        await asyncio.gather(*viewers, return_exceptions=True)
    return latencies, seconds


@dataclass(frozen=True)
class ServerUnderTest:
    """A running ``echelon serve`` and its home folder with one synthetic match."""

    home: Path
    base: str
    """URL of the server."""
    pid: int

    def measure(self) -> dict[str, Any]:
        """Let the viewers follow one live match; return rate, latency percentiles and peak memory."""
        # a new name each time: for up to a second the server answers from its cache of a file of the same name
        live = self.home / RUN / "replays" / f"live-{time.monotonic_ns()}.ecr"
        match = GrowingMatch(self.home / "whole.ecr", live)
        latencies, seconds = asyncio.run(measure_viewers(self.base, self.match_id(live.name), match, CHUNKS - 1))
        live.unlink()
        return {
            "per_s": len(latencies) / seconds,
            "unit": "chunks",
            **{f"calm_p{p}_ms": float(np.percentile(latencies, p)) * 1e3 for p in (50, 99)},
            "peak_mib": peak_mib(self.pid),
        }

    def match_id(self, file: str) -> str:
        """Return the id of the match in a replay file, once the server lists it."""
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"{self.base}api/v1/matches") as reply:
                rows = json.loads(reply.read())["matches"]
            if found := [row["id"] for row in rows if row["file"] == file]:
                return str(found[0])
            time.sleep(CHUNK_INTERVAL_S)
        raise RuntimeError(f"match of file {file!r} is not listed by the server after {JOIN_TIMEOUT_S:g} s")


@contextlib.contextmanager
def start_server() -> Iterator[ServerUnderTest]:
    """Start a server on a new home folder with one finished synthetic match."""
    with TemporaryDirectory(prefix="echelon-bench-") as folder:
        home = Path(folder)
        (home / RUN / "replays").mkdir(parents=True)
        (home / RUN / "spec.json").write_text("{}")
        write_synthetic_match(home / "whole.ecr")
        command = [sys.executable, "-m", "echelon_cli.main", "serve", "--json"]
        environment = {**os.environ, "ECHELON_HOME": folder, "PYTHONUNBUFFERED": "1"}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert server.stdout is not None
            yield ServerUnderTest(home, json.loads(server.stdout.readline())["url"], server.pid)
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def server_load() -> Iterator[Any]:
    """64 live viewers of a 200-mech match: chunk latency and peak memory of the server."""
    with start_server() as server:
        yield server.measure


def peak_mib(pid: int) -> float:
    """Return the peak resident memory of a process [MiB]; NaN where the system does not report it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / KIB
    return float("nan")
