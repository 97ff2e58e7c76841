"""The pool of maps that a batch's resets draw from, and how maps are replaced while episodes run.

The map bank has more slots than maps in use. A new map goes into a slot that no running episode uses, and resets draw
only from live slots, so the map of a running episode never changes. Everything follows from seeds and from the state of
the episodes, never from time: a resumed run draws the same maps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EVAL_SEED_BASE, MIN_MAP_EDGE, EnvConfig
from echelon.config.checks import require_span
from echelon.gen.bank import MapBank, generate_maps, stack_maps_for
from echelon.gen.generate import GeneratedMap
from echelon.gen.map_sampling import MapPrefetcher, MapRanges, MapSpec, resized_world, sample_map_spec
from echelon.sim.batch import Batch
from echelon.sim.random import StreamId, draw_u32
from echelon.training.batch_options import Maps

RANGE_PARAMETERS = ("map_size_range", "packs_per_team_range")
"""Curriculum parameters that decide which maps are generated, each (smallest, largest)."""
PREFIX = "stock_"
"""Prefix of the names of saved arrays."""
NO_MAP = -1
"""Seed that marks an empty slot in saved arrays."""
MAPS_PER_WORKER = 64
"""Maps of the first pool for each process that generates them; fewer take less time than the process to start."""
REFRESHES_AHEAD = 2
"""Number of refreshes whose maps are prefetched, so that a busy machine causes no wait."""


def training_map_seed(seed: int, number: int) -> int:
    """Return the seed of a run's map by its number; all lie below the held-out seeds."""
    return draw_u32(seed, StreamId.MAP, 0, number, 1) % EVAL_SEED_BASE


class FixedMaps:
    """Maps of given seeds, each of which an environment plays on; nothing replaces them."""

    def __init__(self, cfg: EnvConfig, bank: MapBank) -> None:
        self.cfg, self.bank = cfg, bank
        self.ranges = MapRanges.of(cfg)

    def ranges_with(self, changes: Mapping[str, Any]) -> MapRanges:
        """Return the ranges after ``changes`` of ``RANGE_PARAMETERS``; raise ``ValueError`` for impossible ones."""
        size = changes.get("map_size_range", self.ranges.size)
        packs = changes.get("packs_per_team_range", self.ranges.packs)
        require_span(size, "map_size_range", MIN_MAP_EDGE, self.cfg.world.size_x)
        require_span(packs, "packs_per_team_range", 1, self.cfg.num_packs)
        ranges = MapRanges((int(size[0]), int(size[1])), (int(packs[0]), int(packs[1])))
        ranges.check(self.cfg)
        self._check_change(ranges)
        return ranges

    def _check_change(self, ranges: MapRanges) -> None:
        if ranges != self.ranges:
            raise ValueError(f"map ranges are {ranges.size} and {ranges.packs}, expected none with explicit seeds")

    def attach(self, batch: Batch) -> None:
        """Let the resets of ``batch``, which has the bank, draw from these maps."""

    def change(self, ranges: MapRanges) -> None:
        """Replace all maps by maps of other ranges; resets draw from these as soon as one has a slot."""

    def prefetch(self, changes: Mapping[str, Any] | None = None) -> None:
        """Start to generate the maps of the next refreshes, and those after ``changes`` of ``RANGE_PARAMETERS``."""

    def refresh(self, count: int) -> None:
        """Replace the oldest maps by the next ``count`` of the run's sequence; running episodes keep their maps."""

    def place_maps(self, *, all_reset: bool = False) -> None:
        """Put new maps that wait into slots that no episode uses; ``all_reset`` says that every episode starts."""

    def statistics(self) -> dict[str, Any]:
        """Return the map fields of ``EventUpdate``; empty with explicit seeds."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of an exact resume."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what ``state`` returned, among other arrays."""

    def close(self) -> None:
        """End the processes that generate maps."""


class MapPool(FixedMaps):
    """Maps in use, from the sequence of a run's seed, and slots for new ones; ``used`` counts the maps of the sequence.

    Where maps are prefetched, up to ``workers`` processes generate the first ones of a large pool too.
    """

    def __init__(
        self,
        cfg: EnvConfig,
        seed: int,
        options: Maps,
        *,
        workers: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.cfg, self.seed = cfg, seed
        self.ranges = MapRanges.of(cfg)
        self.ranges.check(cfg)
        self.prefetcher = MapPrefetcher(options.workers)
        bank, count = options.bank, options.count
        self.count = bank.count if bank else count
        self.used, self._per_refresh = self.count, options.per_refresh
        # before the bank is made, so that the worker processes start in the meantime
        self.prefetch()
        specs: list[MapSpec] = [] if bank else self._specs(0, count)
        workers = min(workers, count // MAPS_PER_WORKER) if self.prefetcher.workers else 0
        maps = [] if bank else generate_maps(specs, workers=workers, progress=progress)
        self.bank = bank or stack_maps_for(cfg, maps, slots=count + max(1, min(options.spare, count)))
        self.specs: list[MapSpec | None] = [*specs, *([None] * (self.bank.count - len(specs)))]
        """Map of each slot; None for an empty slot or a map of a given bank."""
        self.live = list(range(self.count))
        """Slots that resets draw from, oldest first."""
        self.known_in_use: set[int] | None = None
        """Slots that running episodes use, where the caller has read them and no episode has begun since."""
        self._pending: list[tuple[MapSpec, GeneratedMap]] = []
        self._replace_all = False

    def attach(self, batch: Batch) -> None:
        self._batch = batch
        batch.draw_maps_from(self.live)

    def _check_change(self, ranges: MapRanges) -> None:
        pass

    def change(self, ranges: MapRanges) -> None:
        ranges.check(self.cfg)
        if ranges == self.ranges:
            return
        self.ranges = ranges
        specs = self._specs(0, self.count)
        self._pending = list(zip(specs, self.prefetcher.take(specs), strict=True))
        self.prefetcher.cancel()
        self._replace_all, self.used = True, self.count
        self.prefetch()
        self._place_pending()

    def prefetch(self, changes: Mapping[str, Any] | None = None) -> None:
        ranges = self.ranges_with(changes or {})
        if ranges != self.ranges:
            self.prefetcher.prefetch(self._specs(0, self.count, ranges))
        self.prefetcher.prefetch(self._specs(self.used, REFRESHES_AHEAD * self._per_refresh))

    def refresh(self, count: int) -> None:
        specs = self._specs(self.used, count)
        self._pending += zip(specs, self.prefetcher.take(specs), strict=True)
        self.used += count
        self.prefetch()
        self._place_pending()

    def place_maps(self, *, all_reset: bool = False) -> None:
        """Place as ``FixedMaps.place_maps`` says; the slots in use, known from a read of the device, become unknown."""
        self._place_pending(all_reset=all_reset)
        self.known_in_use = None

    def _place_pending(self, *, all_reset: bool = False) -> None:
        if not self._pending:
            return
        taken = set() if all_reset else self._slots_in_use()
        if not self._replace_all:
            taken |= set(self.live)
        free = [slot for slot in range(len(self.specs)) if slot not in taken]
        if free and self._replace_all:
            self.live, self._replace_all = [], False
        for slot, (spec, generated) in zip(free, self._pending, strict=False):
            self._batch.replace_map(slot, stack_maps_for(self.cfg, [generated]))
            self.specs[slot] = spec
            self.live.append(slot)
        del self._pending[: len(free)]
        surplus = len(self.live) - self.count
        if not free and (self._replace_all or len(self.live) == len(self.specs)):
            # every slot is in use: draw from fewer, so that some become free as episodes end
            surplus = max(surplus, len(self.live) - 1 if self._replace_all else min(1, len(self.live) - 1))
        del self.live[: max(0, surplus)]
        self._batch.draw_maps_from(self.live)

    def _slots_in_use(self) -> set[int]:
        if self.known_in_use is not None:
            return set(self.known_in_use)
        started = self._batch.numpy("episode") > 0
        return set(self._batch.numpy("map_slot")[started].tolist())

    def _specs(self, first: int, count: int, ranges: MapRanges | None = None) -> list[MapSpec]:
        numbers = range(first, first + count)
        return [sample_map_spec(self.cfg, training_map_seed(self.seed, i), ranges or self.ranges) for i in numbers]

    def statistics(self) -> dict[str, Any]:
        stalls, waited_s = self.prefetcher.stalls, self.prefetcher.waited_s
        return {"maps_used": self.used, "map_stalls": stalls, "map_wait_s": waited_s}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the pool as arrays; slots and pending maps are rows of seed, edge and packs."""
        stalls = self.prefetcher.stalls
        counters = [self.used, int(self._replace_all), stalls, *self.ranges.size, *self.ranges.packs]
        state = {
            "places": np.array([_row(spec) for spec in self.specs], np.int64).reshape(-1, 3),
            "due": np.array([_row(spec) for spec, _ in self._pending], np.int64).reshape(-1, 3),
            "live": np.array(self.live, np.int64),
            "counters": np.array(counters, np.int64),
        }
        return {PREFIX + name: values for name, values in state.items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore what ``state`` returned, generating the maps that are not in their slots.

        Raises ``ValueError`` for a pool with another number of slots.
        """
        if f"{PREFIX}places" not in state:
            return
        self.known_in_use = None
        rows = state[f"{PREFIX}places"].tolist()
        if len(rows) != len(self.specs):
            raise ValueError(f"checkpoint has a bank of {len(rows)} map slots, this run has {len(self.specs)}")
        used, replace_all, stalls, *ends = state[f"{PREFIX}counters"].tolist()
        self.ranges = MapRanges((ends[0], ends[1]), (ends[2], ends[3]))
        saved = [self._spec(row) for row in rows]
        changed = [slot for slot, spec in enumerate(saved) if spec is not None and spec != self.specs[slot]]
        generated_maps = generate_maps([spec for slot in changed if (spec := saved[slot])])
        for slot, generated in zip(changed, generated_maps, strict=True):
            self._batch.replace_map(slot, stack_maps_for(self.cfg, [generated]))
            self.specs[slot] = saved[slot]
        pending = [spec for row in state[f"{PREFIX}due"].tolist() if (spec := self._spec(row))]
        self._pending = list(zip(pending, generate_maps(pending), strict=True)) if pending else []
        self.live = state[f"{PREFIX}live"].tolist()
        self.used, self._replace_all, self.prefetcher.stalls = used, bool(replace_all), stalls
        self.prefetch()
        self._batch.draw_maps_from(self.live)

    def _spec(self, row: Sequence[int]) -> MapSpec | None:
        seed, edge, packs = row
        if seed == NO_MAP:
            return None
        return MapSpec(resized_world(self.cfg.world, edge), seed, packs, self.cfg.zone_radius_vox)

    def close(self) -> None:
        self.prefetcher.close()


def _row(spec: MapSpec | None) -> tuple[int, int, int]:
    return (NO_MAP, 0, 0) if spec is None else (spec.seed, spec.world.size_x, spec.num_packs)
