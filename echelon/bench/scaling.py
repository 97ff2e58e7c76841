"""Benchmark scene of scaling over cores: processes that simulate at the same time, each pinned to a core."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from echelon.bench import Measure

WORKER = "echelon.bench.pinned"
READY = "ready"


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def counts(available: int) -> list[int]:
    """Return the numbers of processes to measure: powers of two up to the number of cores, and that number."""
    return sorted({2**n for n in range(available.bit_length()) if 2**n <= available} | {available})


def rate_of(pinned: Sequence[int]) -> float:
    """Return the sum of the rates of processes that run at the same time, one per core of ``pinned``."""
    command = [sys.executable, "-P", "-m", WORKER]
    processes = [
        subprocess.Popen([*command, str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for core in pinned
    ]
    try:
        for process in processes:
            if READY not in _line(process):
                raise RuntimeError("a process that measures ended before it was ready")
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        return sum(float(_line(process)) for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


@contextmanager
def scaling() -> Iterator[Measure]:
    """Simulation by 1, 2, 4 and more processes, each pinned to a core with 32 environments, 5v5 with observations."""

    def measure() -> dict[str, Any]:
        available = cores()
        rates = {count: rate_of(available[:count]) for count in counts(len(available))}
        most = max(rates)
        by_count = {f"processes_{count}": rate for count, rate in rates.items()}
        return {"per_s": rates[most], "unit": "agent-steps", **by_count, "efficiency": rates[most] / (most * rates[1])}

    yield measure
