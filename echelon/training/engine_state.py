"""Exact state of an engine: all arrays that persist between steps, and the voxels that differ from the bank's maps.

The columns of reward terms are saved with their names, so that a state fits an engine with more terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.env.engine import Engine
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, STOPS_SHOT, bit_plane
from echelon.training.runtime.process_group import ProcessGroup

EDITS = ("edit_env", "edit_cell", "edit_material", "edit_hp")
TERMS = "term_names"
"""Names of the columns of the reward terms in a saved state, as UTF-8, separated by line feeds."""
FIRST_TERMS = ("approach", "zone", "damage", "kill", "assist", "death", "terminal")
"""Those of states saved without names."""
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
    state[TERMS] = np.frombuffer("\n".join(engine.term_names).encode(), np.uint8)
    return state


class EngineStateMismatch(ValueError):
    """A saved engine state does not fit this engine: other tables, another version or other maps."""


def place_terms(engine: Engine, state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
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


def require_fit(engine: Engine, state: dict[str, NDArray[Any]]) -> None:
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


def load_engine_state(engine: Engine, state: dict[str, NDArray[Any]]) -> None:
    """Restore a saved state, rebuild the voxels and observe again; observations go to row 0.

    Raises ``EngineStateMismatch`` for a state that does not fit, before anything changes.
    """
    state = place_terms(engine, state)
    require_fit(engine, state)
    batch = engine.batch
    for name, values in state.items():
        if name not in EDITS:
            batch.set(name, values)
    material = batch.numpy("bank_material")[state["map_slot"]].copy()
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


def restore_episodes(env: Any, state: dict[str, NDArray[Any]], group: ProcessGroup) -> str:
    """Restore the running episodes of a rank's ``env``; return why new ones begin instead, the same on every rank."""
    notice = ""
    try:
        env.load_state_dict(state)
    except EngineStateMismatch as error:
        notice = f"new episodes begin: {error}"
    return next(filter(None, group.all_gather(notice)), "")
