"""Maps of seeds: size and packs sampled within configured ranges, and their generation ahead of need.

The map of a seed depends only on the seed and the ranges, not on when or where it is generated: a map that is not ready
is waited for or generated in place. Background processes have low priority and exit with their parent.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait

from echelon.config import MIN_MAP_EDGE, EnvConfig, WorldConfig
from echelon.config.checks import require_span
from echelon.gen.cache import cached_map, load_map, map_path
from echelon.gen.generate import GeneratedMap, check_world_fits, generate
from echelon.sim.random import Stream, StreamId

SAMPLING_SUBSTREAM = 1
"""Sub-stream of a map's seed for sampling size and packs."""
Span = tuple[int, int]
"""Minimum and maximum, both included."""


@dataclass(frozen=True)
class MapSpec:
    """A map to be generated: everything that it depends on."""

    world: WorldConfig
    seed: int
    num_packs: int
    zone_radius_vox: float
    cache: bool = True
    """Whether to use the disk cache."""

    def load_cached(self) -> GeneratedMap | None:
        if not self.cache:
            return None
        path = map_path(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)
        return load_map(path)

    def generate(self) -> GeneratedMap:
        function = cached_map if self.cache else generate
        return function(self.world, self.seed, num_packs=self.num_packs, zone_radius_vox=self.zone_radius_vox)


@dataclass(frozen=True)
class MapRanges:
    """Ranges of map size and packs in a batch."""

    size: Span
    """Edge along x [vox]; the edge along y keeps its ratio."""
    packs: Span
    """Packs per team."""

    @classmethod
    def of(cls, cfg: EnvConfig) -> "MapRanges":
        """Return the ranges of a configuration; without ranges, size and packs are fixed."""
        edge, packs = cfg.world.size_x, cfg.num_packs
        size_range, packs_range = cfg.map_size_range or (edge, edge), cfg.packs_per_team_range or (packs, packs)
        return cls((size_range[0], size_range[1]), (packs_range[0], packs_range[1]))

    def check(self, cfg: EnvConfig) -> None:
        """Raise ``ValueError`` for a range that is reversed, exceeds the capacity of ``cfg``, or is too small."""
        require_span(self.size, "map_size_range", MIN_MAP_EDGE, cfg.world.size_x)
        require_span(self.packs, "packs_per_team_range", 1, cfg.num_packs)
        check_world_fits(resized_world(cfg.world, self.size[0]), self.packs[1])


def resized_world(world: WorldConfig, edge: int) -> WorldConfig:
    size_y = max(MIN_MAP_EDGE, round(edge * world.size_y / world.size_x))
    return replace(world, size_x=edge, size_y=size_y)


def sample_map_spec(cfg: EnvConfig, seed: int, ranges: MapRanges) -> MapSpec:
    """Return the specification of a seed's map, with size and packs sampled within ``ranges``."""
    draws = Stream(seed, StreamId.MAP, entity=SAMPLING_SUBSTREAM)
    edge, packs = draws.integers(*ranges.size), draws.integers(*ranges.packs)
    return MapSpec(resized_world(cfg.world, edge), seed, packs, cfg.zone_radius_vox)


NICENESS = 10
"""Nice value of the worker processes; they still get about a tenth of a core that training fills."""


class MapPrefetcher:
    """Generates maps ahead in ``workers`` processes; without workers, maps are generated when taken."""

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self.stalls = 0
        """Calls of ``take`` that had to wait for a map."""
        self.waited_s = 0.0
        """Total waiting time [s]."""
        self._pool: ProcessPoolExecutor | None = None
        self._pending: dict[MapSpec, Future[GeneratedMap]] = {}

    def prefetch(self, specs: Sequence[MapSpec]) -> None:
        """Start generating these maps, unless already started."""
        if not self.workers or not specs:
            return
        if self._pool is None:
            # spawn, because the parent may have threads of torch and Warp
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=_init_worker)
        for spec in specs:
            if spec not in self._pending:
                self._pending[spec] = self._pool.submit(spec.generate)

    def take(self, specs: Sequence[MapSpec]) -> list[GeneratedMap]:
        """Return these maps in their order, waiting for those that are not ready."""
        began, waited = time.perf_counter(), False
        maps = []
        for spec in specs:
            future = self._pending.pop(spec, None)
            cached = spec.load_cached() if future is None else None
            waited |= cached is None and (future is None or not future.done())
            maps.append(cached or self._result(spec, future))
        if waited:
            self.stalls += 1
            self.waited_s += time.perf_counter() - began
        return maps

    def _result(self, spec: MapSpec, future: Future[GeneratedMap] | None) -> GeneratedMap:
        """Return the map of a pending future, or generate it in this process."""
        if future is None:
            return spec.generate()
        try:
            return future.result()
        except BrokenProcessPool:
            # a worker was killed: generate here; the next ``prefetch`` starts new workers
            self._shut_down()
            return spec.generate()

    def cancel(self) -> None:
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    def close(self) -> None:
        self.cancel()
        self._shut_down()

    def _shut_down(self) -> None:
        self._pending.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _init_worker() -> None:
    """Set up a worker process: low priority, interrupts ignored, exit with the parent."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
