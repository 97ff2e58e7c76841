"""Benchmark scenes of the dashboard: time to first paint, output of a live run, and loading of a long run.

The dashboard runs as a process on a 160x48 pty whose output is read like a terminal does; this module writes the runs.
"""

import fcntl
import json
import math
import os
import pty
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from echelon.bench import Measure
from echelon.files import atomic_write
from echelon.runs import HOME_VARIABLE, RunPaths
from echelon.telemetry.events import EventEpisodes, EventEval, EventStart, EventUpdate
from echelon.telemetry.latest import read_latest
from echelon.telemetry.lines import to_json
from echelon.telemetry.log import EventLog
from echelon.telemetry.snapshot import read_snapshot

COLUMNS, ROWS = 160, 48
RUNS = 300
UPDATES = 300
LONG_UPDATES = 500_000
EVAL_EVERY = 50
LIVE_HZ = 2.0
LIVE_UPDATES = 20
STEPS_PER_UPDATE = 18_000
SECONDS_PER_UPDATE = 1.25
SETTLE_S = 1.0
TIMEOUT_S = 30.0


def synthetic_update(number: int, planned: int, rng: random.Random) -> EventUpdate:
    """Return a synthetic update event of a learning run, with noise on every value."""
    skill = 1 / (1 + math.exp(-(number / planned - 0.35) * 9))
    return EventUpdate(
        update=number,
        global_step=number * STEPS_PER_UPDATE,
        episodes=number * 26,
        elapsed_s=number * SECONDS_PER_UPDATE,
        steps_per_s=14_300 + 420 * rng.gauss(0, 1),
        avg_return=0.4 + 2.6 * skill + 0.25 * rng.gauss(0, 1),
        win_rate=min(1.0, max(0.0, 0.7 * skill + 0.06 * rng.gauss(0, 1))),
        pg_loss=-0.004 + 0.003 * rng.gauss(0, 1),
        vf_loss=0.12 + 0.02 * abs(rng.gauss(0, 1)),
        entropy=15.6 - 5.2 * number / planned + 0.12 * rng.gauss(0, 1),
        approx_kl=0.0075 + 0.0018 * rng.gauss(0, 1),
        clipfrac=0.11 + 0.015 * rng.gauss(0, 1),
        grad_norm=0.42 + 0.06 * abs(rng.gauss(0, 1)),
        grad_norm_max=0.75 + 0.25 * abs(rng.gauss(0, 1)),
        max_grad_norm=0.5,
        explained_variance=0.93 + 0.015 * rng.gauss(0, 1),
        lr=1e-3 * (1 - number / planned),
        phases_s={"env": 0.40, "forward": 0.30, "update": 0.54},
        reward_terms={"zone": 0.2 + skill, "damage": 0.2 + 0.5 * skill, "death": -0.2},
    )


def write_run(home: Path, name: str, updates: int, *, ended: bool) -> RunPaths:
    """Write a run folder with ``updates`` updates and an evaluation every ``EVAL_EVERY``."""
    paths, rng = RunPaths(home / name), random.Random(updates)
    for folder in (paths.log, paths.control):
        folder.mkdir(parents=True)
    spec = {"kind": "train", "config": {"preset": "quickstart"}, "created": time.time(), "host": socket.gethostname()}
    atomic_write(paths.spec, json.dumps(spec), durable=False)
    with open(paths.metrics, "w", encoding="utf-8") as file:
        file.write(to_json(EventStart(device="cpu", total_steps=2 * updates * STEPS_PER_UPDATE)) + "\n")
        for number in range(1, updates + 1):
            event = synthetic_update(number, 2 * updates, rng)
            step = event.global_step
            file.write(to_json(event) + "\n")
            file.write(to_json(EventEpisodes(update=number, global_step=step, count=26, wins=13, losses=13)) + "\n")
            if number % EVAL_EVERY == 0:
                evaluation = EventEval(
                    update=number, global_step=step, opponent="heuristic:easy", episodes=80, win_rate=event.win_rate
                )
                file.write(to_json(evaluation) + "\n")
    paths.log_worker.write_text("start device=cpu\n")
    if ended:
        atomic_write(paths.exit, json.dumps({"code": 0, "update": updates}), durable=False)
    return paths


class DashboardProcess:
    """A dashboard process on a pty; ``text`` is its output so far."""

    def __init__(self, home: Path, *words: str, **environment: str) -> None:
        self.terminal, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.began = time.perf_counter()
        self.text = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "echelon_cli.main", "dash", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, HOME_VARIABLE: str(home), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment},
        )
        os.close(slave)

    def drain(self, seconds: float) -> int:
        """Read output for ``seconds`` and return the number of bytes; ``OSError`` where there is no more."""
        before, until = len(self.text), time.perf_counter() + seconds
        while (remaining := until - time.perf_counter()) > 0:
            if select.select([self.terminal], [], [], remaining)[0]:
                try:
                    self.text += os.read(self.terminal, 65536)
                except OSError:
                    if len(self.text) == before:
                        raise
                    break
        return len(self.text) - before

    def until(self, words: bytes) -> float:
        """Wait for ``words`` in the output and return the time since the start [s]."""
        while words not in self.text:
            if time.perf_counter() - self.began > TIMEOUT_S:
                raise ValueError(f"dashboard did not show {words.decode()!r} within {TIMEOUT_S:g} s")
            self.drain(0.005)
        return time.perf_counter() - self.began

    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@contextmanager
def first_paint() -> Iterator[Measure]:
    """Time from the command to the displayed list of 300 runs, 160x48."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(RUNS):
            write_run(Path(folder), f"20260101-{number:06d}-quickstart-calm-fox", UPDATES, ended=True)

        def measure() -> dict[str, Any]:
            dashboard = DashboardProcess(Path(folder))
            try:
                seconds = dashboard.until(f"{RUNS} runs".encode())
            finally:
                dashboard.close()
            return {"per_s": 1 / seconds, "unit": "first pictures", "seconds": seconds}

        yield measure


@contextmanager
def live() -> Iterator[Measure]:
    """Terminal output for a run with two updates per second, all charts, 160x48; and output at rest."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write_run(Path(folder), "20260101-120000-quickstart-calm-fox", UPDATES, ended=False)
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)  # held like a supervisor does, so that the run counts as alive
        rng, number = random.Random(1), UPDATES

        def measure() -> dict[str, Any]:
            nonlocal number
            dashboard = DashboardProcess(Path(folder), paths.id)
            try:
                dashboard.until(b"steps/s")
                dashboard.drain(SETTLE_S)
                at_rest = dashboard.drain(SETTLE_S)
                began, cpu, sent = time.perf_counter(), dashboard.cpu_s(), 0
                with EventLog(paths.metrics) as log:
                    for _ in range(LIVE_UPDATES):
                        number += 1
                        log.append(synthetic_update(number, 2 * UPDATES, rng))
                        sent += dashboard.drain(1 / LIVE_HZ)
                seconds = time.perf_counter() - began
                busy = (dashboard.cpu_s() - cpu) / seconds
            finally:
                dashboard.close()
            return {"per_s": sent / seconds, "unit": "bytes", "bytes_at_rest": at_rest, "cpu_share": busy}

        try:
            yield measure
        finally:
            os.close(lock)


@contextmanager
def long_run() -> Iterator[Measure]:
    """Time to latest state and complete history of a run with a million records."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write_run(Path(folder), "20260101-120000-quickstart-calm-fox", LONG_UPDATES, ended=False)

        def measure() -> dict[str, Any]:
            began = time.perf_counter()
            newest = read_latest(paths.metrics)
            state_s = time.perf_counter() - began
            exact = read_snapshot(paths.metrics)
            whole_s = time.perf_counter() - began
            assert newest.update == exact.update
            memory = psutil.Process().memory_info().rss / 2**20
            return {
                "per_s": 2 * LONG_UPDATES / whole_s,
                "unit": "records",
                "newest_state_s": state_s,
                "memory_mb": memory,
            }

        yield measure
