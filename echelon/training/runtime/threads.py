"""The thread budget of a training process, decided once for the simulator and torch together.

Both split their work over a few threads of our own, each of which runs its kernels serially: torch's own
thread pool would meet at a barrier after every operation, and one busy neighbour would stall them all. This
module loads no torch, so that a launcher can set the environment before it is loaded.
"""

from __future__ import annotations

import os


def thread_environment() -> dict[str, str]:
    """Return the variables a launcher sets before torch is loaded: serial kernels and passive waiting."""
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
    }


CORES_PER_MAP_MAKER = 8
"""Cores for each process that makes maps ahead; on fewer, one of low priority takes what is left."""


def map_worker_count(threads: int) -> int:
    """Return how many processes make maps ahead where ``threads`` train."""
    return max(1, threads // CORES_PER_MAP_MAKER)


def resolve_threads(threads: int, processes: int = 1) -> int:
    """Return how many threads to use: ``threads``, or where it is 0 all cores, shared by so many processes here."""
    if threads > 0:
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // processes)
