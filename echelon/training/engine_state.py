"""Exact state of an engine: all arrays that persist between steps, and the voxels that differ from the bank's maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.env.engine import Engine
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, STOPS_SHOT, bit_plane

EDITS = ("edit_env", "edit_cell", "edit_material", "edit_hp")
PLANES = (("move_plane", BLOCKS_MOVE), ("sight_plane", BLOCKS_SIGHT), ("shot_plane", STOPS_SHOT))


def save_engine_state(engine: Engine) -> dict[str, NDArray[Any]]:
    """Return the state of every environment, with its voxel edits since the reset."""
    batch = engine.batch
    state = batch.state_dict()
    state["team_alpha"] = batch.numpy("team_alpha").copy()
    bank = batch.numpy("bank_material")
    slots = batch.numpy("map_slot")
    material = batch.numpy("material")
    hp = batch.numpy("voxel_hp")
    envs: list[NDArray[Any]] = []
    cells: list[NDArray[Any]] = []
    for e, slot in enumerate(slots):
        base = bank[slot]
        changed = np.flatnonzero((material[e] != base) | (hp[e] != MATERIAL_HP[base]))
        envs.append(np.full(len(changed), e, np.int32))
        cells.append(changed.astype(np.int64))
    env, cell = np.concatenate(envs), np.concatenate(cells)
    flat = len(material[0].reshape(-1))
    at = env.astype(np.int64) * flat + cell
    state["edit_env"], state["edit_cell"] = env, cell
    state["edit_material"] = material.reshape(-1)[at]
    state["edit_hp"] = hp.reshape(-1)[at]
    return state


def load_engine_state(engine: Engine, state: dict[str, NDArray[Any]]) -> None:
    """Restore a saved state, rebuild the voxels and observe again; observations go to row 0."""
    batch = engine.batch
    arrays = {name: values for name, values in state.items() if name not in EDITS}
    for name, values in arrays.items():
        if name not in batch.backend.arrays:
            raise ValueError(f"engine state has array {name!r}, which does not exist in this version")
        batch.set(name, values)
    material = batch.numpy("bank_material")[arrays["map_slot"]].copy()
    hp = MATERIAL_HP[material]
    flat = len(material[0].reshape(-1))
    at = state["edit_env"].astype(np.int64) * flat + state["edit_cell"]
    material.reshape(-1)[at] = state["edit_material"]
    hp.reshape(-1)[at] = state["edit_hp"]
    batch.set("material", material)
    batch.set("voxel_hp", hp)
    for name, materials in PLANES:
        batch.set(name, np.stack([bit_plane(grid, materials) for grid in material]))
    engine.set_row(0)
    engine.run("observe")
