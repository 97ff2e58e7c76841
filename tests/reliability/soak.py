"""Endurance: a training run, its server with 64 live viewers and a dashboard, for hours; memory must not grow.

``python -m tests.reliability.soak --minutes 120 [-- OPTIONS OF echelon train]``: a worker trains, matches of 200 mechs
grow chunk by chunk without end beside its recordings, every viewer follows all live matches as the page does, and a
dashboard draws the run in a terminal of 160x48. Every ten seconds the anonymous memory, descriptors and threads of each
process are appended to ``samples.jsonl`` in the home. At the end a JSON object is printed with the slopes of each
figure after the warm-up and in the last hour and their 95 % intervals; it exits with 1 where one of the last hour is
above noise.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import numpy as np

from echelon.jobs.launch import stop
from echelon.runs import RunPaths, read_json
from echelon.server.app import SERVER_FILE
from echelon.server.catalogue import OPEN_FILES, SCAN_INTERVAL_S
from echelon.server.responses import CACHE_BYTES
from tests.bench.serving import GrowingMatch, write_synthetic_match
from tests.jobs.conftest import process_identity, wait_for

VIEWERS = 64
COLUMNS, ROWS = 160, 48
SAMPLE_S, BLOCK_S = 10.0, 300.0
"""Time between samples and length of the blocks whose medians make the slope [s]."""
WARM_UP = 0.25
"""Fraction of the samples left out of the slopes: caches fill, allocators reach their size."""
CHUNKS, CHUNK_S = 60, 2.0
"""Chunks of a synthetic match, and the time between two, which is their playing time [s]."""
RECENT_MATCHES, SPARE_MATCHES = 4, 8
LAST_S = 3600.0
"""Length of the end of the run whose slopes decide [s]: what fills up once has filled before it."""
TOLERATED = {"anonymous_mib": 2.0, "descriptors": 1.0, "threads": 1.0}
"""Slope per hour below which a figure is flat, whatever its interval."""
LIMIT_S = 90.0
OPTIONS = ["--preset", "quickstart", "--minutes", "1000"]


def sample(pid: int) -> dict[str, float] | None:
    """Return anonymous memory [MiB], descriptors and threads of a process, or None once it has ended."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return {
            "anonymous_mib": int(status["RssAnon"].split()[0]) / 1024,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(status["Threads"]),
        }
    except (OSError, KeyError):
        return None


def slope(seconds: np.ndarray, values: np.ndarray) -> list[float] | None:
    """Return the slope of the medians of blocks and the ends of its 95 % interval [1/h]; None for few blocks."""
    blocks = (seconds - seconds[0]) // BLOCK_S
    x = np.array([np.mean(seconds[blocks == block]) for block in np.unique(blocks)]) / 3600.0
    y = np.array([np.median(values[blocks == block]) for block in np.unique(blocks)])
    if len(x) < 4:
        return None
    (estimate, _), covariance = np.polyfit(x, y, 1, cov=True)
    half = 2.0 * np.sqrt(covariance[0, 0])
    return [round(float(value), 2) for value in (estimate, estimate - half, estimate + half)]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return first and last value, slopes and verdict of every figure of every process."""
    figures: dict[str, Any] = {}
    for process in sorted({name for row in rows for name in row["processes"]}):
        own = [(row["t"], row["processes"][process]) for row in rows if row["processes"].get(process)]
        own = own[int(len(own) * WARM_UP) :]
        seconds = np.array([t for t, _ in own])
        last = seconds >= seconds[-1] - LAST_S
        for name, tolerated in TOLERATED.items():
            values = np.array([value[name] for _, value in own])
            in_last_hour = slope(seconds[last], values[last])
            figures[f"{process} {name}"] = {
                "first": round(float(np.median(values[:30])), 1),
                "last": round(float(np.median(values[-30:])), 1),
                "per_hour": slope(seconds, values),
                "per_hour_in_last_hour": in_last_hour,
                "flat": in_last_hour is not None and (in_last_hour[1] <= 0.0 or in_last_hour[0] <= tolerated),
            }
    return figures


class Dashboard:
    """``echelon dash`` in a pseudo terminal whose output is read and dropped."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.pid, terminal = pty.fork()
        if not self.pid:
            argv = [sys.executable, "-m", "echelon_cli.main", "dash"]
            os.execvpe(argv[0], argv, {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.terminal, self.received = terminal, 0
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.terminal, 65536):
                self.received += len(data)

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


async def follow(session: aiohttp.ClientSession, base: str) -> None:
    """Follow all live matches as the viewer does until cancelled."""
    seen: dict[str, int] = {}
    async with session.ws_connect(f"{base}api/v1/live") as socket:
        async for message in socket:
            notice = json.loads(message.data)
            match = f"{base}api/v1/matches/{notice['id']}"
            async with session.get(f"{match}/index") as reply:
                await reply.read()
            first = seen.setdefault(notice["id"], max(0, notice.get("chunks", 0) - 1))
            for number in range(first, notice.get("chunks", 0)):
                async with session.get(f"{match}/chunks/{number}") as reply:
                    await reply.read()
                    if reply.status == 404:  # pruned meanwhile
                        break
                    assert reply.status == 200, f"chunk {number} was answered with {reply.status}"
            seen[notice["id"]] = max(first, notice.get("chunks", 0))


async def grow_matches(replays: Path, finished: Path) -> None:
    """Let one match after another grow at its playing speed; keep the newest few."""
    written: list[Path] = []
    while True:
        written.append(replays / f"soak-{len(written):05d}.ecr")
        match = GrowingMatch(finished, written[-1])
        for _ in range(CHUNKS - 1):
            await asyncio.sleep(CHUNK_S)
            match.append_chunk()
        written[-1].write_bytes(match.data)
        for old in written[:-RECENT_MATCHES]:
            old.unlink(missing_ok=True)


async def fill_caches(session: aiohttp.ClientSession, base: str, replays: Path, finished: Path) -> None:
    """Let the server open as many finished matches and answer as many chunks as its caches hold."""
    copies = max(OPEN_FILES, CACHE_BYTES // finished.stat().st_size) + SPARE_MATCHES
    for number in range(copies):
        shutil.copyfile(finished, replays / f"finished-{number:03d}.ecr")
    await asyncio.sleep(2 * SCAN_INTERVAL_S)
    async with session.get(f"{base}api/v1/matches?limit={copies}") as reply:
        ids = [match["id"] for match in (await reply.json())["matches"]]
    for ident in ids:
        for number in range(CHUNKS):
            async with session.get(f"{base}api/v1/matches/{ident}/chunks/{number}") as reply:
                await reply.read()


async def watch(home: Path, run: RunPaths, base: str, pids: dict[str, int], minutes: float, finished: Path) -> None:
    """Let viewers follow while samples are taken for some minutes."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await fill_caches(session, base, run.replays, finished)
        until = time.time() + 60.0 * minutes
        viewers = [asyncio.create_task(follow(session, base)) for _ in range(VIEWERS)]
        growing = asyncio.create_task(grow_matches(run.replays, finished))
        with open(home / "samples.jsonl", "a") as file:
            while time.time() < until:
                await asyncio.sleep(SAMPLE_S)
                ended = [task for task in [*viewers, growing] if task.done()]
                assert not ended, f"{len(ended)} viewers ended: {ended[0].exception()!r}"
                async with session.get(f"{base}api/v1/matches") as reply:
                    assert reply.status == 200
                    await reply.read()
                row = {"t": time.time(), "processes": {name: sample(pid) for name, pid in pids.items()}}
                file.write(json.dumps(row) + "\n")
                file.flush()
        for task in [*viewers, growing]:
            task.cancel()
        await asyncio.gather(*viewers, growing, return_exceptions=True)


def soak(home: Path, minutes: float, options: list[str]) -> dict[str, Any]:
    """Run everything in ``home`` for some minutes; return the figures."""
    environment = {**os.environ, "ECHELON_HOME": str(home)}
    main = [sys.executable, "-m", "echelon_cli.main"]
    argv = [*main, "train", "--detach", "--json", *options]
    started = subprocess.run(argv, env=environment, capture_output=True, check=True, text=True)
    run = RunPaths(home / json.loads(started.stdout.splitlines()[-1])["id"])
    wait_for(lambda: process_identity(run, "worker"), LIMIT_S)
    pids = {name: (read_json(run.processes) or {})[name]["pid"] for name in ("worker", "supervisor")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([*main, "serve"], env=environment, **quiet)
    dashboard = Dashboard(environment)
    try:
        base = wait_for(lambda: (read_json(home / SERVER_FILE) or {}).get("url"), LIMIT_S)
        run.replays.mkdir(exist_ok=True)
        finished = home / "finished.ecr"
        write_synthetic_match(finished, CHUNKS)
        wait_for(lambda: dashboard.received > COLUMNS * ROWS, LIMIT_S)
        dashboard.press("\r")
        pids |= {"server": server.pid, "dashboard": dashboard.pid}
        asyncio.run(watch(home, run, base, pids, minutes, finished))
    finally:
        dashboard.close()
        server.terminate()
        with contextlib.suppress(OSError):
            stop(run)
    samples = [json.loads(line) for line in (home / "samples.jsonl").read_text().splitlines()]
    return {"minutes": minutes, "viewers": VIEWERS, "figures": summary(samples)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("options", nargs="*", help="options of `echelon train`, after --")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="echelon-soak-") as temporary:
        result = soak(Path(temporary), options.minutes, options.options or OPTIONS)
    print(json.dumps(result, indent=1))
    return not all(figure["flat"] for figure in result["figures"].values())


if __name__ == "__main__":
    sys.exit(main())
