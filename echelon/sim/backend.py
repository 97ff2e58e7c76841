"""Runs kernels: binds parameters to arrays by name, splits environments over threads, captures graphs, times phases.

On the CPU Warp runs a kernel serially, so a program is captured once per shard of environments and the shards run
on a thread each; on CUDA there is one shard and the graph is the device's. Environments never read each other, so
results cannot depend on the split. This module knows no game rule.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any

import warp as wp

from echelon.sim.structs import OUT, fields_of, is_array_struct, mentioned_names

wp.config.log_level = wp.LOG_ERROR


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a program: its kernel, its shape in letters, and parameters that differ from their names."""

    kernel: Any
    dims: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """Parameter name to array name (str) or constant."""
    phase: str = ""

    def named(self, phase: str) -> Launch:
        """Return the same launch filed under ``phase``."""
        return Launch(self.kernel, self.dims, self.given, f"{phase}.{self.phase}" if self.phase else phase)


Program = Sequence[Launch]


def in_phase(phase: str, launches: Program) -> list[Launch]:
    """File ``launches`` under ``phase`` of the timing tree."""
    return [launch.named(phase) for launch in launches]


NO_GPU_NOTICE = b"Could not find or load the NVIDIA CUDA driver"


def start_warp() -> None:
    """Initialise Warp, holding back the one line that its native code prints on machines without a GPU."""
    with TemporaryFile() as caught:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught.readlines():
                if NO_GPU_NOTICE not in line:
                    os.write(2, line)


def resolve_device(name: str) -> str:
    """Return a Warp device name for auto, cpu, cuda or cuda:N; ``ValueError`` if it is not there."""
    start_warp()
    if name == "auto":
        return "cuda:0" if wp.get_cuda_device_count() else "cpu"
    if name == "cuda":
        name = "cuda:0"
    have = ["cpu"] + [f"cuda:{i}" for i in range(wp.get_cuda_device_count())]
    if name not in have:
        raise ValueError(f"device {name!r} does not exist here, wanted one of: auto, {', '.join(have)}")
    return name


def default_threads() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


Progress = Callable[[str, int, int], None]
"""Told the name of the module that is ready, how many are, and how many there are."""
BLOCK = {True: 1, False: 256}
"""Threads of a block, by whether the device is a CPU."""


def load_modules(modules: Sequence[Any], device: str, progress: Progress | None = None) -> None:
    """Compile modules, or read them from Warp's cache, and load them; ``progress`` hears of each that is ready.

    Compiling releases Python's lock, so threads do it side by side, and none waits for another.
    """
    block = BLOCK[device == "cpu"]
    ready = [m for m in modules if any(dim == block for _, dim in m.execs)]
    rest = [m for m in modules if m not in ready]
    # Long sources first: whoever begins with the longest at the end waits for it alone.
    rest.sort(key=lambda m: -sum(len(kernel.adj.source or "") for kernel in m.kernels.values()))
    if progress and modules:
        progress("kernels", len(ready), len(modules))
    with ThreadPoolExecutor(default_threads(), thread_name_prefix="compile") as pool:
        pending = {pool.submit(wp.force_load, device, [m], block_dim=block, max_workers=0): m for m in rest}
        try:
            for done, future in enumerate(as_completed(pending), start=len(ready) + 1):
                future.result()
                if progress:
                    progress(pending[future].name.rsplit(".", 1)[-1], done, len(modules))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    # What was loaded before may have been changed since; that is noticed here.
    if ready:
        wp.force_load(device, ready, block_dim=block, max_workers=0)


class Backend:
    """Arrays of one batch and the machinery that runs programs over them.

    ``arrays`` maps a name to an array or a constant; names in ``per_env`` have the environment as first axis and are
    handed to each shard as a view of its part. A shard ends at the latest where ``cuts`` says that an environment
    begins a run of its own: constants may differ from run to run.
    """

    def __init__(
        self, *, device: str, num_envs: int, lengths: Mapping[str, int], threads: int = 0, cuts: Sequence[int] = ()
    ) -> None:
        self.device = device
        self.lengths = dict(lengths)
        self.arrays: dict[str, Any] = {}
        self.per_env: set[str] = set()
        self._by_run: dict[str, Mapping[int, Any]] = {}
        self._chosen: dict[tuple[int, int], dict[str, Any]] = {}
        self._mentioned: dict[Any, frozenset[str]] = {}
        wanted = (threads or default_threads()) if device == "cpu" else 1
        count = max(1, min(wanted, num_envs))
        edges = sorted({num_envs * i // count for i in range(count + 1)} | set(cuts))
        self.shards = list(pairwise(edges))
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="sim") if count > 1 else None

    def add(self, arrays: Mapping[str, Any], *, per_env: bool) -> None:
        """Make ``arrays`` known by name; ``per_env`` says that their first axis is the environment."""
        self.arrays.update(arrays)
        if per_env:
            self.per_env.update(arrays)

    def add_by_run(self, name: str, constants: Mapping[int, Any]) -> None:
        """Make a constant known that differs from run to run, by the environment with which each begins."""
        self._by_run[name] = constants

    def choose(self, envs: Sequence[int]) -> None:
        """Let programs launch over a few environments: letter ``J``, with their places in two arrays.

        ``journal_env`` [J] is the environment within its shard, ``journal_page`` [J] its place in ``envs``.
        """
        for low, high in self.shards:
            inside = [(env - low, page) for page, env in enumerate(envs) if low <= env < high]
            columns = {"journal_env": 0, "journal_page": 1}
            self._chosen[low, high] = {
                name: wp.array([row[i] for row in inside], dtype=wp.int32, device=self.device)
                for name, i in columns.items()
            }

    def _length(self, letter: str, shard: tuple[int, int]) -> int:
        if letter == "E":
            return shard[1] - shard[0]
        if letter == "J":
            return len(self._chosen[shard]["journal_env"])
        return self.lengths[letter]

    def _bind(self, launch: Launch, shard: tuple[int, int]) -> tuple[tuple[int, ...], list[Any]]:
        """Return the launch dimensions and the value of each kernel parameter for one shard of environments."""
        values = []
        structs = {}
        for argument in launch.kernel.adj.args:
            name = argument.label.removesuffix(OUT)
            value = launch.given.get(name, name)
            if is_array_struct(argument.type):
                if argument.type not in structs:
                    structs[argument.type] = self._struct(argument.type, shard, launch.kernel)
                value = structs[argument.type]
            elif isinstance(value, str):
                value = self._array(value, shard, f"kernel {launch.kernel.key}")
            values.append(value)
        return tuple(self._length(c, shard) for c in launch.dims), values

    def _array(self, name: str, shard: tuple[int, int], user: str) -> Any:
        """Return the array or constant ``name`` of one shard; ``KeyError`` names ``user`` where there is none."""
        low, high = shard
        chosen = self._chosen.get(shard, {})
        if name in chosen:
            return chosen[name]
        if name in self._by_run:
            return self._by_run[name][max(first for first in self._by_run[name] if first <= low)]
        if name not in self.arrays:
            raise KeyError(f"{user} needs array {name!r}, which this batch does not have; add it with Batch.add_fields")
        return self.arrays[name][low:high] if name in self.per_env else self.arrays[name]

    def _struct(self, kind: Any, shard: tuple[int, int], kernel: Any) -> Any:
        """Return an instance of struct ``kind`` with the arrays of one shard that ``kernel`` uses.

        The rest stay empty: replaying a program on the CPU relocates every array of every launch, about 5 ns each.
        """
        if kernel not in self._mentioned:
            self._mentioned[kernel] = mentioned_names(kernel)
        instance = kind()
        for name in fields_of(kind):
            if name in self._mentioned[kernel]:
                setattr(instance, name, self._array(name, shard, f"struct {kind.key} of kernel {kernel.key}"))
        return instance

    def load(self, program: Program, progress: Progress | None = None) -> None:
        """Compile and load every module of ``program`` now, as many at a time as there are cores."""
        modules = list(dict.fromkeys(launch.kernel.module for launch in program))
        load_modules(modules, self.device, progress)

    def capture(self, program: Program) -> Runner:
        """Record ``program`` once per shard; running it afterwards allocates nothing and reads nothing back."""
        self.load(program)
        graphs = []
        keep = []
        for shard in self.shards:
            bound = [(launch, *self._bind(launch, shard)) for launch in program]
            wp.capture_begin(device=self.device)
            try:
                for launch, dims, values in bound:
                    if all(dims):
                        wp.launch(launch.kernel, dim=dims, inputs=values, device=self.device)
            finally:
                graphs.append(wp.capture_end(device=self.device))
            keep.append(bound)
        return Runner(graphs, self._pool, keep)

    def timed(self, program: Program, into: dict[str, float]) -> None:
        """Run ``program`` launch by launch in this thread and add each one's seconds to ``into[phase.kernel]``."""
        for launch in program:
            key = f"{launch.phase}.{launch.kernel.key}"
            for shard in self.shards:
                dims, values = self._bind(launch, shard)
                if not all(dims):
                    continue
                command = wp.launch(launch.kernel, dim=dims, inputs=values, device=self.device, record_cmd=True)
                assert command is not None
                wp.synchronize_device(self.device)
                start = time.perf_counter()
                command.launch()
                wp.synchronize_device(self.device)
                into[key] = into.get(key, 0.0) + time.perf_counter() - start

    def close(self) -> None:
        """Stop the shard threads."""
        if self._pool:
            self._pool.shutdown(wait=True)


class Runner:
    """A captured program; call it to run all shards and wait for them."""

    def __init__(self, graphs: list[Any], pool: ThreadPoolExecutor | None, keep: list[Any]) -> None:
        self._graphs = graphs
        self._pool = pool
        self._keep = keep

    def __call__(self) -> None:
        """Run every shard; an exception in a shard thread is raised here with its traceback."""
        if self._pool is None:
            for graph in self._graphs:
                wp.capture_launch(graph)
            return
        pending = [self._pool.submit(wp.capture_launch, graph) for graph in self._graphs[1:]]
        wp.capture_launch(self._graphs[0])
        for future in pending:
            future.result()
