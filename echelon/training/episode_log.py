"""Records of the episodes that end in a rollout, kept on the device and read from there at once.

Shapes: ``E environment, S slot, W 32-bit word of a record``.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch import Tensor

from echelon.arena.episodes import COLUMNS, EpisodeRecord, episode_records, finished_episodes
from echelon.sim.batch import Batch
from echelon.sim.structs import numpy_layout
from echelon.training.map_pool import FixedMaps, MapPool
from echelon.training.runtime.devices import read


class LoggedEpisodes(NamedTuple):
    """What a log has: the records in order of step and environment, and their numbers."""

    records: list[EpisodeRecord]
    orders: list[int]
    """How many episodes had ended before in the same environment, per record."""
    counts: NDArray[np.int32]
    """Episodes that ended [E], also those without a record."""


class EpisodeLog:
    """Records of ended episodes: those of one step by ``pop``, or those of a rollout from the device by ``drain``."""

    def __init__(self, batch: Batch, learner_team: NDArray[np.int64], maps: FixedMaps) -> None:
        self._batch, self._team, self._maps = batch, learner_team, maps
        self._done_count = np.zeros(batch.num_envs, np.int32)

    def pop(self) -> list[EpisodeRecord]:
        """Return the episodes that ended since the last call, at most one per environment."""
        count = self._batch.numpy("done_count")
        ended = np.nonzero(count != self._done_count)[0]
        self._done_count = count.copy()
        return finished_episodes(self._batch, ended, self._team) if len(ended) else []

    def begin(self, slots: int) -> None:
        """Keep at most ``slots`` records per environment on the device between two calls of ``drain``.

        In an environment that ends more episodes the newest is the last.
        """
        batch, self.slots, envs = self._batch, slots, self._batch.num_envs
        views = {name: wp.to_torch(batch[f"done_{name}"]).view(envs, -1).view(torch.int32) for name in COLUMNS}
        self._views = views
        self._layouts = {name: numpy_layout(batch[f"done_{name}"]) for name in COLUMNS}
        self._over, self._map_slot = wp.to_torch(batch["over"]), wp.to_torch(batch["map_slot"])
        width = 1 + sum(view.shape[1] for view in views.values())
        device = self._over.device
        self._data = torch.zeros(envs * (2 + slots * width), dtype=torch.int32, device=device)
        self._counts, self._map_slots, rows = self._data.split((envs, envs, slots * envs * width))
        self._rows = rows.view(slots * envs, width)
        self._envs = torch.arange(envs, device=device)

    def store(self, step: Tensor) -> None:
        """Store the records of the episodes that ended in ``step [1]``; nothing is read from the device."""
        envs = len(self._envs)
        over = self._over > 0
        found = torch.cat([step.to(torch.int32).expand(envs, 1), *self._views.values()], 1)
        at = self._counts.clamp(max=self.slots - 1) * envs + self._envs
        self._rows.index_copy_(0, at, torch.where(over.unsqueeze(1), found, self._rows.index_select(0, at)))
        self._counts += self._over

    def drain(self) -> LoggedEpisodes:
        """Return what was stored since the last call, in one read of the device."""
        self._map_slots.copy_(self._map_slot)
        data, envs = read(self._data), len(self._envs)
        self._counts.zero_()
        counts, map_slots, rows = data[:envs], data[envs : 2 * envs], data[2 * envs :].reshape(self.slots, envs, -1)
        slot, env = np.nonzero(np.arange(self.slots)[:, None] < counts)
        order = np.lexsort((env, rows[slot, env, 0]))
        slot, env = slot[order], env[order]
        self._done_count = self._done_count + counts
        if isinstance(self._maps, MapPool):
            self._maps.known_in_use = set(map_slots.tolist())
        return LoggedEpisodes(
            episode_records(self._columns(rows[slot, env, 1:]), env, self._team), slot.tolist(), counts
        )

    def _columns(self, rows: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        """Return the columns of records ``rows [K, W - 1]`` by name, each in its own shape and type."""
        columns, first = {}, 0
        for name, view in self._views.items():
            (_, *shape), dtype = self._layouts[name]
            end = first + view.shape[1]
            columns[name] = np.ascontiguousarray(rows[:, first:end]).view(dtype).reshape(len(rows), *shape)
            first = end
        return columns
