"""The maps that a batch's resets draw from: which are live, and how others take their place while battles go on.

A bank has more places than maps in use. A map that comes in goes to a place that nobody plays on, and only live
places are drawn by resets, so no battle ever loses the ground under its feet. All of it follows from seeds and from
the state of the battles, never from time: a run that is resumed draws the same maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EVAL_SEED_BASE, EnvConfig
from echelon.gen.bank import MapBank, generate_maps, stack_maps_for
from echelon.gen.generate import GeneratedMap
from echelon.gen.map_sampling import MapRanges, MapSpec, resized_world, sample_map_spec
from echelon.gen.prefetch import MapPrefetcher
from echelon.sim.batch import Batch
from echelon.sim.random import StreamId, draw_u32

PREFIX = "stock_"
"""How the names of saved arrays begin."""
NO_MAP = -1
REFRESHES_AHEAD = 2
"""How many refreshes' maps are made ahead, so that a machine busy for a while keeps nobody waiting."""


def training_map_seed(seed: int, number: int) -> int:
    """Return the seed of a run's map by its number; all lie below the held-out stream."""
    return draw_u32(seed, StreamId.MAP, 0, number, 1) % EVAL_SEED_BASE


class MapPool:
    """``count`` maps in use at a time, of the sequence of a run's seed, and ``spare`` places for further ones.

    A refresh is expected to take in ``more`` maps, which are made ahead. ``used`` counts the sequence.
    """

    def __init__(
        self,
        cfg: EnvConfig,
        seed: int,
        count: int,
        *,
        spare: int = 1,
        more: int = 0,
        supply: MapPrefetcher | None = None,
        bank: MapBank | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.cfg, self.seed = cfg, seed
        self.ranges = MapRanges.of(cfg)
        self.ranges.check(cfg)
        self.supply = supply or MapPrefetcher()
        self.count = bank.count if bank else count
        self.used, self._more = self.count, more
        # First of all, so that the processes are there by the time the batch is.
        self.prefetch()
        orders: list[MapSpec] = [] if bank else self._orders(0, count)
        self.bank = bank or stack_maps_for(cfg, generate_maps(orders, progress=progress), places=count + max(1, spare))
        self.orders: list[MapSpec | None] = [*orders, *([None] * (self.bank.count - len(orders)))]
        """What is in each place; None where nothing is, or a map from outside."""
        self.live = list(range(self.count))
        """Places that resets draw from, oldest first."""
        self._due: list[tuple[MapSpec, GeneratedMap]] = []
        self._stale = False

    @property
    def pending(self) -> bool:
        """Whether maps wait for a place."""
        return bool(self._due)

    def serve(self, batch: Batch) -> None:
        """Have the resets of ``batch``, which holds the bank, draw from this stock."""
        self._batch = batch
        batch.draw_from(self.live)

    def change(self, ranges: MapRanges) -> None:
        """Replace all maps by those of other ranges; resets draw from these as soon as one has found a place."""
        ranges.check(self.cfg)
        if ranges == self.ranges:
            return
        self.ranges = ranges
        orders = self._orders(0, self.count)
        self._due = list(zip(orders, self.supply.take(orders), strict=True))
        self.supply.cancel()
        self._stale, self.used = True, self.count
        self.prefetch()
        self.tend()

    def prefetch(self, ranges: MapRanges | None = None) -> None:
        """Begin to make the maps of the next refreshes, and those of other ``ranges``, before they are asked for."""
        if ranges is not None and ranges != self.ranges:
            self.supply.prefetch(self._orders(0, self.count, ranges))
        self.supply.prefetch(self._orders(self.used, REFRESHES_AHEAD * self._more))

    def refresh(self, more: int) -> None:
        """Let the next ``more`` maps of the sequence take the place of the oldest, and begin to make those after."""
        orders = self._orders(self.used, more)
        self._due += zip(orders, self.supply.take(orders), strict=True)
        self.used += more
        self.prefetch()
        self.tend()

    def tend(self, *, all_begin: bool = False) -> None:
        """Put maps that wait into places nobody plays on; ``all_begin`` says that every episode is about to begin."""
        if not self._due:
            return
        taken = set() if all_begin else self._in_play()
        if not self._stale:
            taken |= set(self.live)
        free = [place for place in range(len(self.orders)) if place not in taken]
        if free and self._stale:
            self.live, self._stale = [], False
        for place, (order, made) in zip(free, self._due, strict=False):
            self._batch.put_map(place, stack_maps_for(self.cfg, [made]))
            self.orders[place] = order
            self.live.append(place)
        del self._due[: len(free)]
        surplus = len(self.live) - self.count
        if not free and (self._stale or len(self.live) == len(self.orders)):
            # Every place is played on: draw from fewer, so that some fall free as episodes end.
            surplus = max(surplus, len(self.live) - 1 if self._stale else min(1, len(self.live) - 1))
        del self.live[: max(0, surplus)]
        self._batch.draw_from(self.live)

    def _in_play(self) -> set[int]:
        begun = self._batch.numpy("episode") > 0
        return set(self._batch.numpy("map_slot")[begun].tolist())

    def _orders(self, first: int, count: int, ranges: MapRanges | None = None) -> list[MapSpec]:
        numbers = range(first, first + count)
        return [sample_map_spec(self.cfg, training_map_seed(self.seed, i), ranges or self.ranges) for i in numbers]

    def figures(self) -> dict[str, Any]:
        """Return what a run reports of its maps."""
        return {"maps_used": self.used, "map_stalls": self.supply.stalls, "map_wait_s": self.supply.waited_s}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return which maps are where, as arrays: places and maps that are due are rows of seed, edge and packs."""
        counters = [self.used, int(self._stale), self.supply.stalls, *self.ranges.size, *self.ranges.packs]
        state = {
            "places": np.array([_row(order) for order in self.orders], np.int64).reshape(-1, 3),
            "due": np.array([_row(order) for order, _ in self._due], np.int64).reshape(-1, 3),
            "live": np.array(self.live, np.int64),
            "counters": np.array(counters, np.int64),
        }
        return {PREFIX + name: values for name, values in state.items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Put back what ``state`` gave, making the maps that are not at their places.

        Raises ``ValueError`` for a stock of another number of places.
        """
        if f"{PREFIX}places" not in state:
            return
        rows = state[f"{PREFIX}places"].tolist()
        if len(rows) != len(self.orders):
            raise ValueError(f"checkpoint has a bank of {len(rows)} places for maps, this run has {len(self.orders)}")
        used, stale, stalls, *ends = state[f"{PREFIX}counters"].tolist()
        self.ranges = MapRanges((ends[0], ends[1]), (ends[2], ends[3]))
        wanted = [self._order(row) for row in rows]
        moved = [p for p, order in enumerate(wanted) if order is not None and order != self.orders[p]]
        for place, made in zip(moved, generate_maps([o for p in moved if (o := wanted[p])]), strict=True):
            self._batch.put_map(place, stack_maps_for(self.cfg, [made]))
            self.orders[place] = wanted[place]
        due = [order for row in state[f"{PREFIX}due"].tolist() if (order := self._order(row))]
        self._due = list(zip(due, generate_maps(due), strict=True)) if due else []
        self.live = state[f"{PREFIX}live"].tolist()
        self.used, self._stale, self.supply.stalls = used, bool(stale), stalls
        self.prefetch()
        self._batch.draw_from(self.live)

    def _order(self, row: Sequence[int]) -> MapSpec | None:
        seed, edge, packs = row
        if seed == NO_MAP:
            return None
        return MapSpec(resized_world(self.cfg.world, edge), seed, packs, self.cfg.zone_radius_vox)

    def close(self) -> None:
        """End the processes that make maps ahead."""
        self.supply.close()


def _row(order: MapSpec | None) -> tuple[int, int, int]:
    return (NO_MAP, 0, 0) if order is None else (order.seed, order.world.size_x, order.num_packs)
