"""Thread budget of a training process, shared by the simulator and torch.

Both divide their work over a few threads that run serial kernels: torch's own thread pool synchronizes after every
operation, and one busy core would stall all threads. This module does not import torch, so that a launcher can set
the environment before torch is loaded.
"""

from __future__ import annotations

import os


def thread_environment() -> dict[str, str]:
    """Return the environment variables to set before torch is loaded: serial kernels and passive waiting."""
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
    }


CORES_PER_MAP_WORKER = 8
"""Cores per process that prefetches maps; with fewer cores there is one, of low priority."""


def map_worker_count(threads: int) -> int:
    """Return the number of processes that prefetch maps beside ``threads`` training threads."""
    return max(1, threads // CORES_PER_MAP_WORKER)


def resolve_threads(threads: int, processes: int = 1) -> int:
    """Return ``threads``, or if it is 0 the number of cores divided by ``processes``."""
    if threads > 0:
        return threads
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // processes)
