"""Terminal output and processor time of the dashboard on a real run: ``python -m tests.bench.followed_run RUN``.

The last ``WATCHED_S`` of the run's records are appended to a copy of it at the times at which they were written, with
heartbeats and progress as supervisor and trainer write them. Then nothing changes but the heartbeat. Prints one JSON
object per terminal size, bytes per second and fractions of a core. Not a test: run it on an idle machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from echelon.bench.dashboard import DashboardProcess
from echelon.files import atomic_write
from echelon.jobs.supervisor import HEARTBEAT_S
from echelon.runs import RunPaths

SIZES = ((80, 24), (160, 48))
WATCHED_S, REST_S, SETTLE_S = 60.0, 20.0, 4.0


@contextmanager
def copied(run: Path, home: Path) -> Iterator[tuple[RunPaths, list[tuple[float, bytes]]]]:
    """A copy of a run without its end, held like a supervisor does, and the removed lines with their times [s]."""
    paths = RunPaths(home / run.name)
    ignored = shutil.ignore_patterns("checkpoints", "replays", "*.lock", "proc.json", "exit.json")
    shutil.copytree(run, paths.root, ignore=ignored)
    lines = paths.metrics.read_bytes().splitlines(keepends=True)
    timed = [(json.loads(line)["time"], line) for line in lines]
    first = next(index for index, (when, _) in enumerate(timed) if when > timed[-1][0] - WATCHED_S)
    paths.metrics.write_bytes(b"".join(lines[:first]))
    handle = os.open(paths.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield paths, [(when - timed[-1][0] + WATCHED_S, line) for when, line in timed[first:]]
    finally:
        os.close(handle)


def feed(
    dashboard: DashboardProcess, paths: RunPaths, lines: list[tuple[float, bytes]], seconds: float
) -> dict[str, float]:
    """Append lines at their times and heartbeats for some seconds; return what the dashboard cost."""
    began, cpu, sent, pending = time.perf_counter(), dashboard.cpu_s(), 0, list(lines)
    heartbeat_at = 0.0
    while (now := time.perf_counter() - began) < seconds:
        if now >= heartbeat_at:
            atomic_write(paths.heartbeat, json.dumps({"time": time.time(), "pid": os.getpid()}), durable=False)
            heartbeat_at += HEARTBEAT_S
        while pending and pending[0][0] <= now:
            with open(paths.metrics, "ab") as file:
                file.write(pending[0][1])
            row = json.loads(pending.pop(0)[1])
            progress = {
                "time": time.time(),
                "phase": "training",
                "update": row["update"],
                "global_step": row["global_step"],
            }
            atomic_write(paths.progress, json.dumps(progress), durable=False)
        until = min([heartbeat_at, seconds, *(when for when, _ in pending[:1])])
        sent += dashboard.drain(max(0.001, until - now))
    return {"bytes_per_s": sent / seconds, "core": (dashboard.cpu_s() - cpu) / seconds}


def main(run: Path) -> None:
    for size in SIZES:
        with TemporaryDirectory() as folder, copied(run, Path(folder)) as (paths, lines):
            dashboard = DashboardProcess(Path(folder), paths.id, size=size)
            try:
                dashboard.drain(SETTLE_S)
                follows = feed(dashboard, paths, lines, WATCHED_S)
                rests = feed(dashboard, paths, [], REST_S)
            finally:
                dashboard.close()
        updates = sum(b'"kind":"update"' in line for _, line in lines)
        print(json.dumps({"size": size, "updates": updates, "follows": follows, "rests": rests}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
