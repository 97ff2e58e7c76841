"""Exact state of an engine: all arrays that persist between steps, and the voxels that differ from the bank's maps.

The columns of reward terms are saved with their names, so that a state fits an engine with more terms.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from echelon.sim.batch import Batch
from echelon.sim.state import TRACKS
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, STOPS_SHOT, bit_plane

EDITS = ("edit_env", "edit_cell", "edit_material", "edit_hp")
TERMS = "term_names"
"""Names of the columns of the reward terms in a saved state, as UTF-8, separated by line feeds."""
FIRST_TERMS = ("approach", "zone", "damage", "kill", "assist", "death", "terminal")
"""Those of states saved without names."""
PLANES = (("move_plane", BLOCKS_MOVE), ("sight_plane", BLOCKS_SIGHT), ("shot_plane", STOPS_SHOT))


class StatefulEngine(Protocol):
    """Interface of an engine whose state is saved, implemented by ``echelon.env.engine.Engine``."""

    batch: Batch
    num_envs: int
    num_mechs: int
    term_names: tuple[str, ...]
    own_fields: frozenset[str]
    """Names of the arrays per environment that it declares."""

    def set_row(self, row: int) -> None: ...

    def run(self, name: str) -> None: ...


def save_engine_state(engine: StatefulEngine) -> dict[str, NDArray[Any]]:
    """Return the state of every environment, with its voxel edits since the reset.

    The past of dead mechs is 0, since nobody reads it.
    """
    batch = engine.batch
    state = batch.state_dict()
    for name in TRACKS:
        state[name].swapaxes(1, 2)[state["alive"] == 0] = 0
    state["team_alpha"] = batch.numpy("team_alpha").copy()
    edits = [voxel_edits(batch, env) for env in range(batch.num_envs)]
    state["edit_env"] = np.concatenate([np.full(len(cell), e, np.int32) for e, (cell, _, _) in enumerate(edits)])
    for name, parts in zip(EDITS[1:], zip(*edits, strict=True), strict=True):
        state[name] = np.concatenate(parts)
    state[TERMS] = np.frombuffer("\n".join(engine.term_names).encode(), np.uint8)
    return state


def voxel_edits(batch: Batch, env: int) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint16]]:
    """Return the flat cell, material and hit points of each voxel of an environment that differs from its map."""
    material, hp, slot = (batch.row(name, env) for name in ("material", "voxel_hp", "map_slot"))
    base = batch.row("bank_material", int(slot))
    cell = np.flatnonzero((material != base) | (hp != MATERIAL_HP[base]))
    return cell.astype(np.int64), material.reshape(-1)[cell], hp.reshape(-1)[cell]


class EngineStateMismatch(ValueError):
    """A saved engine state does not fit this engine: other tables, another version or other maps."""


def place_terms(engine: StatefulEngine, state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a saved state whose columns of reward terms are those of the engine, 0 for terms that it lacks.

    Raises ``EngineStateMismatch`` for a saved term that the engine does not have.
    """
    state = dict(state)
    encoded = state.pop(TERMS, None)
    saved = FIRST_TERMS if encoded is None else tuple(encoded.tobytes().decode(errors="replace").split("\n"))
    unknown = [name for name in saved if name not in engine.term_names]
    if unknown:
        raise EngineStateMismatch(
            f"engine state has reward term {unknown[0]!r}, expected one of {', '.join(engine.term_names)}; "
            "only new episodes can begin"
        )
    columns = [engine.term_names.index(name) for name in saved]
    for name in [name for name, field in engine.batch.fields.items() if field.shape.endswith("R") and name in state]:
        values = state[name]
        if values.shape[-1:] != (len(set(saved)),):
            raise EngineStateMismatch(
                f"engine state has array {name!r} of shape {values.shape}, expected a column for each of its "
                f"{len(saved)} reward terms; only new episodes can begin"
            )
        state[name] = np.zeros((*values.shape[:-1], len(engine.term_names)), values.dtype)
        state[name][..., columns] = values
    return state


def require_fit(engine: StatefulEngine, state: dict[str, NDArray[Any]]) -> None:
    """Raise ``EngineStateMismatch`` unless the engine can continue from a saved state."""
    batch = engine.batch
    advice = "it was saved with other tables or by another version; only new episodes can begin"
    for name, values in state.items():
        if name in EDITS:
            continue
        if name not in batch.backend.arrays:
            raise EngineStateMismatch(f"engine state has array {name!r}, which this version does not have; {advice}")
        try:
            batch.require_layout(name, values)
        except ValueError as error:
            raise EngineStateMismatch(f"engine state does not fit: {error}; {advice}") from error
    slots, sizes = state["map_slot"], batch.numpy("bank_size")
    if not (np.all((slots >= 0) & (slots < len(sizes))) and np.array_equal(sizes[slots], state["size"])):
        raise EngineStateMismatch("engine state has maps of other sizes than the map bank; only new episodes can begin")


def load_engine_state(engine: StatefulEngine, state: dict[str, NDArray[Any]]) -> None:
    """Restore a saved state, rebuild the voxels and observe again; observations go to row 0.

    Raises ``EngineStateMismatch`` for a state that does not fit, before anything changes.
    """
    state = place_terms(engine, state)
    require_fit(engine, state)
    batch = engine.batch
    for name, values in state.items():
        if name not in EDITS:
            batch.set(name, values)
    write_voxels(batch, *(state[name] for name in EDITS))
    engine.set_row(0)
    engine.run("observe")


def write_voxels(batch: Batch, env: NDArray[Any], cell: NDArray[Any], material: NDArray[Any], hp: NDArray[Any]) -> None:
    """Write the maps in play with these edits: environment, flat cell, material and hit points of each."""
    grids = batch.numpy("bank_material")[batch.numpy("map_slot")].copy()
    left = MATERIAL_HP[grids]
    at = env.astype(np.int64) * len(grids[0].reshape(-1)) + cell
    grids.reshape(-1)[at] = material
    left.reshape(-1)[at] = hp
    batch.set("material", grids)
    batch.set("voxel_hp", left)
    for name, materials in PLANES:
        batch.set(name, np.stack([bit_plane(grid, materials) for grid in grids]))
