"""Benchmark scenes of scaling over cores: processes, each pinned to a core, that simulate or train one policy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from echelon.bench import Measure

WORKER = "echelon.bench.pinned"
READY = "ready"
SIMULATE, TRAIN = "simulate", "train"


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def counts(available: int) -> list[int]:
    """Return the numbers of processes to measure: powers of two up to the number of cores, and that number."""
    return sorted({2**n for n in range(available.bit_length()) if 2**n <= available} | {available})


def rank_environments(count: int) -> list[dict[str, str]]:
    """Return the variables, torchrun's, by which each process knows its rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    return [{**shared, **sizes, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def rate_of(kind: str, pinned: Sequence[int]) -> float:
    """Return the sum of the rates of processes that run at the same time, one per core of ``pinned``."""
    command = [sys.executable, "-P", "-m", WORKER, kind]
    environments = rank_environments(len(pinned))
    processes = [
        subprocess.Popen(
            [*command, str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **rank}
        )
        for core, rank in zip(pinned, environments, strict=True)
    ]
    try:
        for process in processes:
            if READY not in _line(process):
                raise RuntimeError(f"a process that measures {kind!r} ended before it was ready")
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        return sum(json.loads(_line(process))["per_s"] for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def measured(kind: str, unit: str) -> dict[str, Any]:
    """Return the rate on all cores, the rate per number of processes, and the efficiency against one process."""
    available = cores()
    rates = {count: rate_of(kind, available[:count]) for count in counts(len(available))}
    most = max(rates)
    efficiency = rates[most] / (most * rates[1])
    by_count = {f"processes_{count}": rate for count, rate in rates.items()}
    return {"per_s": rates[most], "unit": unit, **by_count, "efficiency": efficiency}


@contextmanager
def scaling() -> Iterator[Measure]:
    """Simulation by 1, 2, 4 and more processes, each pinned to a core with 32 environments, 5v5 with observations."""
    yield lambda: measured(SIMULATE, "agent-steps")


@contextmanager
def scaling_train() -> Iterator[Measure]:
    """Training of one quickstart policy by 1, 2, 4 and more ranks, each pinned to a core with 64 environments."""
    yield lambda: measured(TRAIN, "learner agent-steps")
