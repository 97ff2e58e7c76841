"""Runs kernels: binds parameters to arrays, splits environments over threads, captures graphs, times phases.

On the CPU Warp runs a kernel serially, so a program is captured once per shard of environments and each shard runs on
its thread; on CUDA there is one shard and one device graph. Environments never read each other, so results do
not depend on the split. This module knows no rule of the game.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any

import warp as wp

from echelon import machine
from echelon.files import open_standard_streams, write_fault
from echelon.sim.cpu_kernels import NativeProgram, copy_arguments_per_launch, run_launches
from echelon.sim.structs import OUT, Field, declaration_conflict, fields_of, is_array_struct

wp.config.log_level = wp.LOG_ERROR
copy_arguments_per_launch()


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a program: its kernel and its shape in letters (see ``echelon.sim.state``)."""

    kernel: Any
    dims: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """Array name (str) or constant of each parameter or struct field that is not bound to the array of its own name."""
    phase: str = ""
    block: int = 0
    """Threads of a block on CUDA; 0 takes ``BLOCK``, or ``NARROW_BLOCK`` for launches of one thread an environment."""

    def named(self, phase: str) -> "Launch":
        return replace(self, phase=f"{phase}.{self.phase}" if self.phase else phase)

    def block_on(self, device: str) -> int:
        """Return the threads of a block on a device, 1 on the CPU."""
        if device == "cpu":
            return CPU_BLOCK
        return self.block or (NARROW_BLOCK if len(self.dims) == 1 else BLOCK)


Program = Sequence[Launch]


def in_phase(phase: str, launches: Program) -> list[Launch]:
    return [launch.named(phase) for launch in launches]


NO_GPU_NOTICE = b"Could not find or load the NVIDIA CUDA driver"


def start_warp() -> None:
    """Initialise Warp without the line that its native code prints on machines without a GPU."""
    open_standard_streams()
    with TemporaryFile() as captured:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            wp.init()
        except OSError as error:
            fault = write_fault(f"kernel cache {str(error.filename)!r}", error)
            raise ValueError(f"{fault}; set WARP_CACHE_PATH to a folder that can be written") from error
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            captured.seek(0)
            for line in captured.readlines():
                if NO_GPU_NOTICE not in line:
                    os.write(2, line)


def resolve_device(name: str) -> str:
    """Return the Warp device name of auto, cpu, cuda or cuda:N; ``ValueError`` if there is no such device."""
    start_warp()
    if name == "auto":
        return "cuda:0" if wp.get_cuda_device_count() else "cpu"
    if name == "cuda":
        name = "cuda:0"
    available = ["cpu"] + [f"cuda:{i}" for i in range(wp.get_cuda_device_count())]
    if name not in available:
        raise ValueError(f"device {name!r} is not available, expected one of: auto, {', '.join(available)}")
    return name


Progress = Callable[[str, int, int], None]
"""Called with the name of a module that is ready, the number of ready modules and the number of all."""
CPU_BLOCK, BLOCK, NARROW_BLOCK = 1, 64, 32
"""Threads of a block: on the CPU, on CUDA, and on CUDA where a thread has a whole environment (docs/decisions/0032)."""
MS_PER_S = 1e3
LANES = "lanes"
"""Name of the kernel parameter that is bound to the length of the launch's last dimension."""


def variants_of(program: Program, device: str) -> list[tuple[Any, int]]:
    """Return the modules of a program, each with every block size of its launches: a module is compiled for each."""
    return list(dict.fromkeys((launch.kernel.module, launch.block_on(device)) for launch in program))


def load_modules(modules: Sequence[tuple[Any, int]], device: str, progress: Progress | None = None) -> None:
    """Compile modules for block sizes, or read them from Warp's cache, and load them; ``progress`` is called for each.

    Compilation releases the GIL, so threads compile in parallel.
    """
    ready = [(m, block) for m, block in modules if any(dim == block for _, dim in m.execs)]
    pending_modules = [variant for variant in modules if variant not in ready]
    # Longest sources first, so that none of them starts last.
    pending_modules.sort(key=lambda v: -sum(len(kernel.adj.source or "") for kernel in v[0].kernels.values()))
    if progress and modules:
        progress("kernels", len(ready), len(modules))
    with ThreadPoolExecutor(machine.cores(), thread_name_prefix="compile") as pool:
        pending = {
            pool.submit(wp.force_load, device, [m], block_dim=block, max_workers=0): m for m, block in pending_modules
        }
        try:
            for done, future in enumerate(as_completed(pending), start=len(ready) + 1):
                future.result()
                if progress:
                    progress(pending[future].name.rsplit(".", 1)[-1], done, len(modules))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    # Reload modules whose kernels changed since they were loaded.
    for block in {block for _, block in ready}:
        wp.force_load(device, [m for m, size in ready if size == block], block_dim=block, max_workers=0)


class Backend:
    """Arrays of one batch by name, and the machinery that runs programs over them.

    A kernel parameter is bound by name (an array or constant) or by type (a struct of arrays, see
    ``echelon.sim.structs``). Arrays in ``per_env`` have the environment as first axis; each shard gets a view of them.
    A shard never spans a boundary of ``cuts``: constants added by ``add_per_group`` differ between the groups of
    environments that begin there.
    """

    def __init__(
        self, *, device: str, num_envs: int, lengths: Mapping[str, int], threads: int = 0, cuts: Sequence[int] = ()
    ) -> None:
        self.device = device
        self.lengths = dict(lengths)
        self.arrays: dict[str, Any] = {}
        self.fields: dict[str, Field] = {}
        """Declarations of the arrays that were added with one."""
        self._bound: dict[str, Field] = {}
        self._aliases: set[str] = set()
        self.per_env: set[str] = set()
        self._per_group: dict[str, Mapping[int, Any]] = {}
        self._selected: dict[tuple[int, int], dict[str, Any]] = {}
        self._structs: dict[tuple[Any, ...], Any] = {}
        count = (threads or machine.cores()) if device == "cpu" else 1
        count = max(1, min(count, num_envs))
        edges = sorted({num_envs * i // count for i in range(count + 1)} | set(cuts))
        self.shards = list(pairwise(edges))
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="sim") if count > 1 else None

    def add(self, arrays: Mapping[str, Any], *, per_env: bool, fields: Mapping[str, Field] | None = None) -> None:
        """Register ``arrays`` by name; with ``per_env`` their first axis is the environment.

        An array may be replaced under its declaration in ``fields``, or without one; ``ValueError`` for another.
        """
        fields = fields or {}
        for name in (arrays.keys() & self.arrays.keys()) - self._aliases:
            if self.fields.get(name) is not fields.get(name):
                raise declaration_conflict(name, self.fields.get(name), fields.get(name))
        self._aliases -= arrays.keys()
        self.fields.update(fields)
        self.arrays.update(arrays)
        self._structs.clear()
        if per_env:
            self.per_env.update(arrays)

    def add_alias(self, name: str, of: str) -> None:
        """Bind ``name`` to the array ``of`` until an array of that name is added."""
        self.add({name: self.arrays[of]}, per_env=of in self.per_env)
        self._aliases.add(name)

    def add_per_group(self, name: str, constants: Mapping[int, Any]) -> None:
        """Register a constant per group of environments, keyed by the first environment of each group."""
        self._per_group[name] = constants
        self._structs.clear()

    def select_envs(self, envs: Sequence[int]) -> None:
        """Select the environments that launches over letter ``J`` cover, through two arrays.

        ``journal_env`` [J] is the environment within its shard, ``journal_page`` [J] its index in ``envs``.
        """
        self._structs.clear()
        for low, high in self.shards:
            inside = [(env - low, page) for page, env in enumerate(envs) if low <= env < high]
            columns = {"journal_env": 0, "journal_page": 1}
            self._selected[low, high] = {
                name: wp.array([row[i] for row in inside], dtype=wp.int32, device=self.device)
                for name, i in columns.items()
            }

    def _length(self, letter: str, shard: tuple[int, int]) -> int:
        if letter == "E":
            return shard[1] - shard[0]
        if letter == "J":
            return len(self._selected[shard]["journal_env"])
        return self.lengths[letter]

    def bind(self, launch: Launch, shard: tuple[int, int]) -> tuple[tuple[int, ...], list[Any]]:
        """Return the launch dimensions and the value of each kernel parameter for one shard of environments."""
        values = []
        user = f"kernel {launch.kernel.key}"
        dims = tuple(self._length(c, shard) for c in launch.dims)
        for argument in launch.kernel.adj.args:
            name = argument.label.removesuffix(OUT)
            value = dims[-1] if name == LANES else launch.given.get(name, name)
            if is_array_struct(argument.type):
                value = self._struct(argument.type, shard, user, launch.given)
            elif isinstance(value, str):
                value = self.array(value, shard, user)
            values.append(value)
        return dims, values

    def array(self, name: str, shard: tuple[int, int], user: str = "the caller") -> Any:
        """Return the array or constant ``name`` of one shard; the ``KeyError`` of a missing one names ``user``."""
        low, high = shard
        selected = self._selected.get(shard, {})
        if name in selected:
            return selected[name]
        if name in self._per_group:
            groups = self._per_group[name]
            return groups[max(first for first in groups if first <= low)]
        if name not in self.arrays:
            raise KeyError(f"{user} needs array {name!r}, which this batch does not have; add it with Batch.add_fields")
        return self.arrays[name][low:high] if name in self.per_env else self.arrays[name]

    def _struct(self, kind: Any, shard: tuple[int, int], user: str, given: Mapping[str, Any]) -> Any:
        """Return the instance of struct ``kind`` with the arrays of one shard; equal ones are shared."""
        fields = fields_of(kind)
        renamed = {name: given[name] for name in given if name in fields}
        key = (kind, shard, *renamed.items())
        if key not in self._structs:
            instance = kind()
            for name, row in fields.items():
                of = renamed.get(name, name)
                if of == name:
                    declared = self.fields.get(name) or self._bound.setdefault(name, row)
                    if declared is not row:
                        raise declaration_conflict(name, declared, row)
                setattr(instance, name, self.array(of, shard, f"struct {kind.key} of {user}"))
            self._structs[key] = instance
        return self._structs[key]

    def load(self, program: Program, progress: Progress | None = None) -> None:
        modules = variants_of(program, self.device)
        if self.device == "cpu":
            modules.append((run_launches.module, CPU_BLOCK))
        load_modules(modules, self.device, progress)

    def capture(self, program: Program) -> "Runner":
        """Capture ``program`` once per shard; running it allocates nothing and copies nothing to the host."""
        self.load(program)
        return Runner([self._capture_shard(program, shard) for shard in self.shards], self._pool)

    def _capture_shard(self, program: Program, shard: tuple[int, int]) -> Callable[[], None]:
        bound = [(launch, *self.bind(launch, shard)) for launch in program]
        bound = [row for row in bound if all(row[1])]
        if self.device == "cpu":
            return NativeProgram([self._launch(*row, record_cmd=True) for row in bound], bound)

        def launch_all() -> None:
            for row in bound:
                self._launch(*row)

        # on a separate stream: CUDA's default stream cannot be captured
        with wp.ScopedStream(wp.Stream(self.device)):
            wp.capture_begin(device=self.device)
            try:
                launch_all()
            finally:
                graph = wp.capture_end(device=self.device)
        return CudaGraph(graph, launch_all, self.device)

    def _launch(self, launch: Launch, dims: tuple[int, ...], values: list[Any], record_cmd: bool = False) -> Any:
        block = launch.block_on(self.device)
        return wp.launch(
            launch.kernel, dim=dims, inputs=values, device=self.device, block_dim=block, record_cmd=record_cmd
        )

    def timed(self, program: Program, into: dict[str, float], clock: Callable[[], float] = time.perf_counter) -> None:
        """Run ``program`` launch by launch in this thread; add the seconds of each to ``into[phase.kernel]``.

        On CUDA a graph runs all launches, with an event after each, so that no launch waits for the host.
        """
        if self.device != "cpu":
            for launch, seconds in zip(program, self._timed_by_events(program), strict=True):
                key = f"{launch.phase}.{launch.kernel.key}"
                into[key] = into.get(key, 0.0) + seconds
            return
        for launch in program:
            key = f"{launch.phase}.{launch.kernel.key}"
            for shard in self.shards:
                dims, values = self.bind(launch, shard)
                if not all(dims):
                    continue
                command = self._launch(launch, dims, values, record_cmd=True)
                wp.synchronize_device(self.device)
                start = clock()
                command.launch()
                wp.synchronize_device(self.device)
                into[key] = into.get(key, 0.0) + clock() - start

    def _timed_by_events(self, program: Program) -> list[float]:
        (shard,) = self.shards
        bound = [(launch, *self.bind(launch, shard)) for launch in program]
        events = [wp.Event(self.device, enable_timing=True) for _ in range(len(bound) + 1)]
        with wp.ScopedStream(wp.Stream(self.device)):
            with wp.ScopedCapture(self.device) as capture:
                wp.record_event(events[0])
                for (launch, dims, values), event in zip(bound, events[1:], strict=True):
                    if all(dims):
                        self._launch(launch, dims, values)
                    wp.record_event(event)
            assert capture.graph is not None
            wp.capture_launch(capture.graph)
            wp.synchronize_device(self.device)
        return [wp.get_event_elapsed_time(*pair) / MS_PER_S for pair in pairwise(events)]

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(wait=True)


@dataclass(frozen=True)
class CudaGraph:
    """A captured CUDA graph, and the function that launches its kernels and has the values they use."""

    graph: Any
    launch_all: Callable[[], None]
    device: str

    def __call__(self) -> None:
        """Replay the graph; within a capture of the device's stream its kernels become part of that graph."""
        if wp.get_stream(self.device).is_capturing:
            self.launch_all()
        else:
            wp.capture_launch(self.graph)


class Runner:
    """A captured program; calling it runs all shards and waits for them."""

    def __init__(self, shards: Sequence[Callable[[], None]], pool: ThreadPoolExecutor | None) -> None:
        self._shards = shards
        self._pool = pool

    def __call__(self) -> None:
        """Run every shard; an exception of a shard thread is raised here with its traceback."""
        if self._pool is None:
            for run in self._shards:
                run()
            return
        pending = [self._pool.submit(run) for run in self._shards[1:]]
        self._shards[0]()
        for future in pending:
            future.result()
