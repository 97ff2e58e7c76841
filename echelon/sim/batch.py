"""A batch of environments: all their arrays on one device, with their rules and their map bank.

The batch owns the memory and the names by which kernels are bound; programs (``step``) define what a step does. Arrays
are accessed by name: ``batch["hp"]`` is the Warp array of all environments, ``batch.numpy("hp")`` a numpy copy or view.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.config import EnvConfig, require
from echelon.sim import state
from echelon.sim.arsenal import CHASSIS, Mechanic
from echelon.sim.backend import Backend, Program, Runner, resolve_device
from echelon.sim.overrides import Overrides, apply_overrides, override_groups
from echelon.sim.structs import Field, allocate, fields_of, numpy_layout
from echelon.sim.tables import STOCK_TABLES, GameTables, pack_rules


class PreparedMaps(Protocol):
    """Prepared maps, stacked, such as ``echelon.gen.bank.MapBank``. B maps, M mechs, X Y Z voxels."""

    @property
    def material(self) -> NDArray[np.uint8]:
        """Material ids ``[B, Z, Y, X]``."""
        ...

    @property
    def move_plane(self) -> NDArray[np.uint64]: ...

    @property
    def sight_plane(self) -> NDArray[np.uint64]: ...

    @property
    def shot_plane(self) -> NDArray[np.uint64]: ...

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
        """Packs per team that each map has spawn points for ``[B]``."""
        ...

    @property
    def flow(self) -> NDArray[np.uint8]:
        """Flow fields to the zone as next-step codes ``[B, R, Z + 1, Y, X]``, R footprint radii."""
        ...


def _map_tables(maps: PreparedMaps) -> dict[str, tuple[NDArray[Any], Any]]:
    """Return the arrays of a ``MapArrays`` that hold maps by name, each with its element type."""
    tables = {
        "bank_material": maps.material,
        "bank_move": maps.move_plane,
        "bank_sight": maps.sight_plane,
        "bank_shot": maps.shot_plane,
        "bank_size": maps.size,
        "bank_zone": maps.zone,
        "bank_spawn": maps.spawn,
        "bank_packs": maps.num_packs,
    }
    types = fields_of(state.MapArrays)
    return {name: (np.ascontiguousarray(values), types[name].dtype) for name, values in tables.items()}


def _flow_fields(maps: PreparedMaps) -> NDArray[np.uint8]:
    """Return the flow fields of a map bank ``[B * R, Z + 1, Y, X]``."""
    return np.ascontiguousarray(maps.flow.reshape(-1, *maps.flow.shape[2:]))


class Batch:
    """Arrays, rules and maps of ``num_envs`` environments of one configuration.

    ``changes`` has the parameter overrides of each environment (``echelon.sim.overrides``). Neighbouring environments
    with equal overrides share one ``Rules``.
    """

    def __init__(
        self,
        cfg: EnvConfig,
        num_envs: int,
        maps: PreparedMaps,
        *,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        first_env: int = 0,
        changes: Sequence[Overrides] | None = None,
    ) -> None:
        self.cfg = cfg
        self.changes = [dict(overrides) for overrides in changes] if changes else [{}] * num_envs
        require(len(self.changes) == num_envs, "changes", len(self.changes), f"one set per environment, {num_envs}")
        self.num_envs = num_envs
        self.num_mechs = cfg.num_mechs
        self.device = resolve_device(device)
        self.lengths = {**state.sizes(cfg, num_envs), **state.lanes(self.device, cfg.num_mechs)}
        groups = override_groups(self.changes)
        self.backend = Backend(
            device=self.device, num_envs=num_envs, lengths=self.lengths, threads=threads, cuts=groups
        )
        self.add_fields(state.all_fields())
        self.backend.add_per_group("rules", {e: pack_rules(cfg, self.tables(e), self.device) for e in groups})
        self._add_maps(maps)
        self.add_fields(
            {
                "every": Field(wp.int32, "E", "1 in every environment"),
                "chosen": Field(wp.int32, "E", "1 in the environments to reset"),
            }
        )
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

    def tables(self, env: int) -> GameTables:
        """Return the game tables of an environment, its overrides applied."""
        changes = self.changes[env]
        return apply_overrides(self.cfg.dt_sim, changes) if changes else STOCK_TABLES

    def disable_mechanics(self, mechanics: Sequence[Mechanic]) -> None:
        """Disable mechanics from each environment's next episode on; one entry per environment."""
        self.set("withhold", np.array([int(disabled) for disabled in mechanics], np.int32))

    @property
    def fields(self) -> Mapping[str, Field]:
        """Declarations of the arrays whose first axis is the environment, by name."""
        return self.backend.fields

    def add_fields(self, fields: Mapping[str, Field]) -> None:
        """Allocate further arrays whose first axis is the environment; ``ValueError`` for a name declared elsewhere.

        Arrays that the batch has under the same declaration stay.
        """
        new = {name: row for name, row in fields.items() if self.fields.get(name) is not row}
        self.backend.add(allocate(new, self.lengths, self.device), per_env=True, fields=new)

    def add_constant(self, name: str, values: Any, dtype: Any) -> None:
        """Allocate an array that all environments share."""
        self.backend.add({name: wp.array(values, dtype=dtype, device=self.device)}, per_env=False)

    def _add_maps(self, maps: PreparedMaps) -> None:
        self.maps = maps
        self.num_maps = len(maps.zone)
        for name, (values, dtype) in _map_tables(maps).items():
            self.add_constant(name, values, dtype)
        self.add_constant("bank_live", np.arange(self.num_maps, dtype=np.int32), wp.int32)
        self.add_constant("bank_live_count", np.array([self.num_maps], np.int32), wp.int32)

    def add_flow_fields(self) -> None:
        """Allocate the flow fields of the maps to the zone: ``bank_flow`` [B * R, Z + 1, Y, X]."""
        self.add_constant("bank_flow", _flow_fields(self.maps), wp.uint8)

    def replace_all_maps(self, maps: PreparedMaps) -> None:
        """Overwrite the map bank in place with equally many maps of the same capacity."""
        for name, (values, _) in _map_tables(maps).items():
            if tuple(self[name].shape) != tuple(values.shape[: len(self[name].shape)]):
                raise ValueError(f"{name} has shape {tuple(values.shape)}, expected {tuple(self[name].shape)}")
            self[name].assign(values)
        self.maps = maps
        if "bank_flow" in self.backend.arrays:
            self["bank_flow"].assign(_flow_fields(maps))

    def replace_map(self, index: int, maps: PreparedMaps) -> None:
        """Overwrite map ``index`` of the bank with the first of ``maps``, which have the bank's capacity."""
        for name, (values, _) in _map_tables(maps).items():
            self[name][index : index + 1].assign(values[:1])
        if "bank_flow" in self.backend.arrays:
            layers = _flow_fields(maps)[: maps.flow.shape[1]]
            self["bank_flow"][index * len(layers) : (index + 1) * len(layers)].assign(layers)

    def draw_maps_from(self, indices: Sequence[int]) -> None:
        """Let resets draw their map uniformly from these maps of the bank."""
        self["bank_live"][: len(indices)].assign(np.asarray(indices, np.int32))
        self["bank_live_count"].assign(np.array([len(indices)], np.int32))

    def capture(self, program: Program, progress: Callable[[str, int, int], None] | None = None) -> Runner:
        self.backend.load(program, progress)
        return self.backend.capture(program)

    def keep_journal(self, envs: Sequence[int]) -> None:
        """Allocate the ``Journal`` of the environments to record; page i is that of ``envs[i]``."""
        self.backend.select_envs(envs)
        lengths = {
            "G": len(envs),
            "R": state.JOURNAL_ROWS_PER_MECH * self.num_mechs,
            "V": state.JOURNAL_VALUES + state.JOURNAL_DETAIL,
            "T": state.EDIT_ROWS_PER_MECH * self.num_mechs,
            "U": state.EDIT_VALUES,
        }
        pages = {name: field for name, field in fields_of(state.Journal).items() if field.shape.startswith("G")}
        self.backend.add(allocate(pages, lengths, self.device), per_env=False)
        self["page_open"].fill_(1)
        page_of = np.full(self.num_envs, -1, np.int32)
        page_of[list(envs)] = np.arange(len(envs))
        self.backend.add({"edit_page": wp.array(page_of, dtype=wp.int32, device=self.device)}, per_env=True)

    def numpy(self, name: str) -> NDArray[Any]:
        """Return an array as numpy: a view of the memory on the CPU, a copy from a GPU."""
        return self[name].numpy()

    def row(self, name: str, index: int) -> NDArray[Any]:
        """Return an entry of an array's first axis as numpy: a view of the memory on the CPU, a copy from a GPU."""
        array = self[name]
        if self.device == "cpu" or not array.size:
            return array.numpy()[index]
        return array[index : index + 1].numpy()[0]

    def set(self, name: str, values: Any) -> None:
        """Overwrite a whole array from numpy values; ``ValueError`` for another shape or element type."""
        self.require_layout(name, values)
        self[name].assign(np.asarray(values))

    def require_layout(self, name: str, values: Any) -> None:
        """Raise ``ValueError`` unless ``values`` have the shape and element type of array ``name``."""
        values, (shape, dtype) = np.asarray(values), numpy_layout(self[name])
        if values.shape != shape or values.dtype != dtype:
            found = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"array {name!r} is {found}, expected {dtype} of shape {shape}")

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays that carry over from one decision to the next, without the voxel map."""
        skip = set(state.GROUPS["world"]) - {"map_slot", "size", "zone"}
        return {name: self.numpy(name).copy() for name in self.fields if name not in skip}

    def close(self) -> None:
        self.backend.close()
