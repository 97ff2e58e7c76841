"""A batch of battles: all arrays of all environments on one device, with their rules and their map bank.

It owns memory and the names kernels are bound by; what happens in a step is said by programs (``step``). Arrays are
reached by name: ``batch["hp"]`` is the whole Warp array, ``batch.numpy("hp")`` a numpy copy or view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.config import EnvConfig, require
from echelon.sim.arsenal import CHASSIS, Mechanic
from echelon.sim.backend import Backend, Program, Runner, resolve_device
from echelon.sim.overrides import Changes, runs_of, stock, with_changes
from echelon.sim.state import (
    EDIT_ROWS_PER_MECH,
    EDIT_VALUES,
    GROUPS,
    JOURNAL_DETAIL,
    JOURNAL_ROWS_PER_MECH,
    JOURNAL_VALUES,
    Field,
    all_fields,
    allocate,
    sizes,
)
from echelon.sim.tables import Figures, pack_rules


class Maps(Protocol):
    """Prepared maps, stacked; ``echelon.gen.bank.MapBank`` is one. B map, M mech, X Y Z voxels."""

    @property
    def material(self) -> NDArray[np.uint8]:
        """Material ids ``[B, Z, Y, X]``."""
        ...

    @property
    def move_plane(self) -> NDArray[np.uint64]:
        """Columns blocking mechs ``[B, Y, X]``."""
        ...

    @property
    def sight_plane(self) -> NDArray[np.uint64]:
        """Columns blocking sight ``[B, Y, X]``."""
        ...

    @property
    def shot_plane(self) -> NDArray[np.uint64]:
        """Columns stopping rounds ``[B, Y, X]``."""
        ...

    @property
    def size(self) -> NDArray[np.int32]:
        """Map sizes ``[B, 3]`` [vox]."""
        ...

    @property
    def zone(self) -> NDArray[np.float32]:
        """Zone centre x, y and radius ``[B, 3]`` [vox]."""
        ...

    @property
    def spawn(self) -> NDArray[np.float32]:
        """Box centres before jitter ``[B, M, 3]`` [vox]."""
        ...

    @property
    def num_packs(self) -> NDArray[np.int32]:
        """Packs per team that each map has spawns for ``[B]``."""
        ...

    @property
    def flow(self) -> NDArray[np.uint8]:
        """Next-step codes of the ways to the zone ``[B, R, Z + 1, Y, X]``, R footprint radii."""
        ...


def _map_tables(maps: Maps) -> dict[str, tuple[NDArray[Any], Any]]:
    """Return the device arrays of a bank: name to (values, type)."""
    tables = {
        "bank_material": (maps.material, wp.uint8),
        "bank_move": (maps.move_plane, wp.uint64),
        "bank_sight": (maps.sight_plane, wp.uint64),
        "bank_shot": (maps.shot_plane, wp.uint64),
        "bank_size": (maps.size, wp.vec3i),
        "bank_zone": (maps.zone, wp.vec3),
        "bank_spawn": (maps.spawn, wp.vec3),
        "bank_packs": (maps.num_packs, wp.int32),
    }
    return {name: (np.ascontiguousarray(values), dtype) for name, (values, dtype) in tables.items()}


def _ways(maps: Maps) -> NDArray[np.uint8]:
    """Return the next-step codes of a bank, maps and layers on one axis."""
    return np.ascontiguousarray(maps.flow.reshape(-1, *maps.flow.shape[2:]))


class Batch:
    """Arrays, rules and maps of ``num_envs`` environments of one configuration.

    ``changes`` says per environment which figures of the tables differ from the stock ones (``sim.figures``); those
    with equal figures are played together where they are neighbours.
    """

    def __init__(
        self,
        cfg: EnvConfig,
        num_envs: int,
        maps: Maps,
        *,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        first_env: int = 0,
        changes: Sequence[Changes] | None = None,
    ) -> None:
        self.cfg = cfg
        self.changes = [dict(own) for own in changes] if changes else [{}] * num_envs
        require(len(self.changes) == num_envs, "changes", len(self.changes), f"one set per environment, {num_envs}")
        self.num_envs = num_envs
        self.num_mechs = cfg.num_mechs
        self.device = resolve_device(device)
        self.lengths = sizes(cfg, num_envs)
        runs = runs_of(self.changes)
        self.backend = Backend(device=self.device, num_envs=num_envs, lengths=self.lengths, threads=threads, cuts=runs)
        self.fields: dict[str, Field] = {}
        self.add_fields(all_fields())
        self.backend.add_by_run("rules", {e: pack_rules(cfg, self.figures(e), self.device) for e in runs})
        self._add_maps(maps)
        self.add_fields({"every": Field(wp.int32, "E", "1 everywhere"), "chosen": Field(wp.int32, "E", "reset mask")})
        self["every"].fill_(1)
        self["forced_seed"].fill_(-1)
        self["forced_slot"].fill_(-1)
        self["packs"].fill_(cfg.num_packs)
        self["env_index"].assign(np.arange(first_env, first_env + num_envs, dtype=np.int32))
        self.keep_journal(())
        self.add_constant("sensor_range", np.ones(len(CHASSIS), dtype=np.float32), wp.float32)
        self.add_constant("paint_reports", np.ones(len(CHASSIS), dtype=np.int32), wp.int32)
        self.add_constant("run_seed", np.array([seed], dtype=np.uint32), wp.uint32)

    def __getitem__(self, name: str) -> wp.array:
        return self.backend.arrays[name]

    def figures(self, env: int) -> Figures:
        """Return the tables that an environment is played with."""
        changes = self.changes[env]
        return with_changes(self.cfg.physics, self.cfg.dt_sim, changes) if changes else stock(self.cfg.physics)

    def withhold(self, mechanics: Sequence[Mechanic]) -> None:
        """Have each environment's episodes, from the next on, go without these mechanics; one entry each."""
        self.set("withhold", np.array([int(own) for own in mechanics], np.int32))

    def add_fields(self, fields: Mapping[str, Field]) -> None:
        """Allocate further arrays whose first axis is the environment."""
        self.fields.update(fields)
        self.backend.add(allocate(fields, self.lengths, self.device), per_env=True)

    def add_constant(self, name: str, values: Any, dtype: Any) -> None:
        """Put an array that all environments share on the device."""
        self.backend.add({name: wp.array(values, dtype=dtype, device=self.device)}, per_env=False)

    def _add_maps(self, maps: Maps) -> None:
        self.maps = maps
        self.num_maps = len(maps.zone)
        for name, (values, dtype) in _map_tables(maps).items():
            self.add_constant(name, values, dtype)
        self.add_constant("bank_live", np.arange(self.num_maps, dtype=np.int32), wp.int32)
        self.add_constant("bank_live_count", np.array([self.num_maps], np.int32), wp.int32)

    def add_ways(self) -> None:
        """Put the maps' ways to the zone on the device: ``bank_flow`` [B * L, Z + 1, Y, X]."""
        self.add_constant("bank_flow", _ways(self.maps), wp.uint8)

    def replace_maps(self, maps: Maps) -> None:
        """Overwrite the map bank in place with maps of the same number and capacity."""
        for name, (values, _) in _map_tables(maps).items():
            if tuple(self[name].shape) != tuple(values.shape[: len(self[name].shape)]):
                raise ValueError(f"{name} has shape {tuple(values.shape)}, wanted {tuple(self[name].shape)}")
            self[name].assign(values)
        self.maps = maps
        if "bank_flow" in self.backend.arrays:
            self["bank_flow"].assign(_ways(maps))

    def put_map(self, place: int, maps: Maps) -> None:
        """Overwrite one place of the bank with the first of ``maps``, which have the bank's capacity."""
        for name, (values, _) in _map_tables(maps).items():
            self[name][place : place + 1].assign(values[:1])
        if "bank_flow" in self.backend.arrays:
            ways = _ways(maps)[: maps.flow.shape[1]]
            self["bank_flow"][place * len(ways) : (place + 1) * len(ways)].assign(ways)

    def draw_from(self, places: Sequence[int]) -> None:
        """Have resets draw their map from these places of the bank, each as often as the others."""
        self["bank_live"][: len(places)].assign(np.asarray(places, np.int32))
        self["bank_live_count"].assign(np.array([len(places)], np.int32))

    def capture(self, program: Program, progress: Callable[[str, int, int], None] | None = None) -> Runner:
        """Compile what ``program`` needs, then record it; see ``Backend.capture``."""
        self.backend.load(program, progress)
        return self.backend.capture(program)

    def keep_journal(self, envs: Sequence[int]) -> None:
        """Make room for the journal of ``envs``: ``journal`` [page, row, value and detail], ``journal_count`` [page].

        Page i is that of ``envs[i]``; ``page_open`` [page] is 1 until its episode ends. ``edit_log`` [page, row, 3] has
        tick, cell and new material of each voxel replaced, ``edit_count`` [page] how many; ``edit_page`` [E] says whose
        page is which, -1 where there is none.
        """
        self.backend.choose(envs)
        pages, rows = len(envs), JOURNAL_ROWS_PER_MECH * self.num_mechs
        shapes = {
            "journal": (pages, rows, JOURNAL_VALUES + JOURNAL_DETAIL),
            "journal_count": (pages,),
            "edit_log": (pages, EDIT_ROWS_PER_MECH * self.num_mechs, EDIT_VALUES),
            "edit_count": (pages,),
        }
        arrays = {name: wp.zeros(shape, dtype=wp.int32, device=self.device) for name, shape in shapes.items()}
        self.backend.add({**arrays, "page_open": wp.full(pages, 1, dtype=wp.int32, device=self.device)}, per_env=False)
        page_of = np.full(self.num_envs, -1, np.int32)
        page_of[list(envs)] = np.arange(pages)
        self.backend.add({"edit_page": wp.array(page_of, dtype=wp.int32, device=self.device)}, per_env=True)

    def numpy(self, name: str) -> NDArray[Any]:
        """Return an array as numpy: a view of the memory on the CPU, a copy from a GPU."""
        return self[name].numpy()

    def set(self, name: str, values: Any) -> None:
        """Overwrite a whole array from numpy values of the same shape."""
        array = self[name]
        array.assign(np.asarray(values))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays that carry over from one decision to the next, without the voxels."""
        skip = set(GROUPS["world"]) - {"map_slot", "size", "zone"}
        return {name: self.numpy(name).copy() for name in self.fields if name not in skip}

    def close(self) -> None:
        """Stop the shard threads."""
        self.backend.close()
