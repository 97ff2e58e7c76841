"""Exact state of one match between two environment steps, as a STATE record of a replay has it.

It has every array that a step reads before it writes it: mechs, rounds and smoke, clocks and seeds, contact memory and
its delays, memory of scripted pilots, running sums of rewards, orders where a mech has one, and voxels as differences
to the map. What a reset writes (roster, map, zone), what sensing computes again, arrays within a tick and settings of
the batch are not in it.

A file can contain any values, and kernels index arrays by them. ``load_match_state`` therefore checks every array
against ``INTEGERS`` and ``POSITIONS`` before it changes anything.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.actions import Order
from echelon.env.engine_state import (
    EDITS,
    TERMS,
    EngineStateMismatch,
    StatefulEngine,
    place_terms,
    voxel_edits,
    write_voxels,
)
from echelon.env.observe import orders, telemetry_map
from echelon.sim.arsenal import WEAPONS, Guidance
from echelon.sim.state import Blasts, Hits, Paths, Senses, Tracks, World
from echelon.sim.structs import fields_of
from echelon.sim.world import MATERIALS, Hazard

ROSTER = ("present", "team", "pack", "chassis")
"""Written by a reset and never again."""
SETTINGS = (
    "env_index", "episode", "forced_seed", "forced_slot", "withhold", "packs", "every", "chosen", "row_of",
    "opponent_row_of", "script", "crew", "weapon_prob", "pilot_episode", "pilot_decision",
)  # fmt: skip
"""Settings of the batch; those of the match are in the replay's header."""
REWRITTEN = (
    "actions", "value", "order", "order_goal", "aim", "ams_shot", "amounts", "terms", "reward", "bad_obs", "timed_out",
)  # fmt: skip
"""Arrays that a step writes before it reads them."""
INITIAL = {"winner": -1, "order_mech": -1, "order_since": -1}
"""Values before the first step that are not 0 and not written by a reset."""
LAST_EPISODE = "done_"
"""Prefix of the statistics of the last finished episode."""
OMITTED = frozenset(
    {*fields_of(World), *fields_of(Hits), *fields_of(Blasts), *fields_of(Paths)}
    | (fields_of(Senses).keys() - {"seen"})
    | {*ROSTER, *SETTINGS, *REWRITTEN, *telemetry_map.FIELDS}
)
"""Arrays of an engine that are not in the state of a match."""

MECH, FLAG, COUNT, BITS = "mech", "flag", "count", "bits"
COUNT_LIMIT = 2**24
"""Upper bound of ticks, steps and counts, above the longest match."""
VALUE_LIMIT = 1e6
"""Largest magnitude of a real number."""
EDGE_MARGIN, MECH_MARGIN = 1.0, -0.25
"""Distance outside the map at which a position may lie, and the centre of a mech [vox]."""
INTEGERS: Mapping[str, str | tuple[int, int]] = {
    **dict.fromkeys(("painter", "focus", "contact", "round_target", "assist_to", "killer", "pack_mark"), MECH),
    **dict.fromkeys(("pack_focus", "pilot_target", "order_mech"), MECH),
    **dict.fromkeys(("shutdown", "alive", "vent", "ecm", "eccm", "hostile_only", "acting", "died", "dying"), FLAG),
    **dict.fromkeys(("was_hit", "shutdown_due", "over", "ended", "terminated", "truncated"), FLAG),
    **dict.fromkeys(("pilot_sees", "pilot_hops"), FLAG),
    **dict.fromkeys(("fallen", "cooldown", "painted", "suppressed", "tick", "decision", "round_age"), COUNT),
    **dict.fromkeys(("cloud_ticks", "clouds", "seen", "kills", "assists", "assist_tick", "intercepts"), COUNT),
    **dict.fromkeys(("bad_actions", "knockdowns", "shutdowns", "engaged", "past_seen", "watch_since"), COUNT),
    **dict.fromkeys(("watch_last", "pack_focus_since", "pilot_target_since", "pilot_age", "known_since"), COUNT),
    **dict.fromkeys(("heard_at", "order_since"), COUNT),
    **dict.fromkeys(("trigger", "withheld", "fired", "overflow"), BITS),
    "round_weapon": (-1, len(WEAPONS) - 1),
    "focus_slot": (-1, 4),
    "sort_mode": (0, 2),
    "hazard": (0, max(Hazard)),
    "winner": (-1, 2),
    "order_kind": (0, max(Order)),
    "reason": (0, 3),
    "pilot_phase": (0, 2),
    "pilot_turn": (-8, 8),
}
"""Content of each array of signed integers: indices of mechs (-1 none), a kind of number, or smallest and largest."""
MARKED_PAINTERS = {"trace_marks": 4, "past_marks": 8}
"""Arrays of bits plus this factor times the index of a mech plus one."""
POSITIONS = frozenset(
    (
        "pos", "round_pos", "cloud_pos", "trace_pos", "past_pos", "track_pos", "pilot_pos", "pilot_spot",
        "pilot_anchor", "order_place",
    )
)  # fmt: skip
"""Positions of things on the map [vox]."""
HOMING = [spec.guidance == Guidance.HOMING for spec in WEAPONS]

State = dict[str, NDArray[Any]]


def state_names(engine: StatefulEngine) -> list[str]:
    """Return the names of an engine's arrays that the state of a match has."""
    return sorted(name for name in engine.own_fields - OMITTED if not name.startswith(LAST_EPISODE))


def clear_match_state(engine: StatefulEngine, envs: NDArray[np.bool_] | None = None) -> None:
    """Clear the state of environments that a reset follows, all or where ``envs`` is set.

    A match does not read what another left behind, but its recorded states would contain it.
    """
    batch = engine.batch
    for name in state_names(engine):
        initial = INITIAL.get(name, 0)
        if envs is None:
            batch[name].fill_(initial)
            continue
        values = batch.numpy(name)
        values[envs] = initial
        if batch.device != "cpu":
            batch.set(name, values)


def save_match_state(engine: StatefulEngine, env: int) -> State:
    """Return a copy of the state of one environment between two steps, without the axis of environments."""
    batch = engine.batch
    state = {name: batch.row(name, env).copy() for name in state_names(engine)}
    _drop_unread_traces(state)
    if not state["order_kind"].any():
        for name in orders.GIVEN:
            del state[name]
    state |= dict(zip(EDITS[1:], voxel_edits(batch, env), strict=True))
    state[TERMS] = np.frombuffer("\n".join(engine.term_names).encode(), np.uint8)
    return state


def _drop_unread_traces(state: State) -> None:
    """Zero the past of a mech except at the steps in which another one last saw it: nothing else is read of it."""
    if "trace_marks" not in state:
        return
    depth, mechs = state["trace_marks"].shape
    last, now = state["seen"], int(state["decision"])
    read = np.zeros((depth, mechs), bool)
    m, j = np.nonzero((last >= 0) & (last > now - depth))
    read[last[m, j] % depth, j] = True
    for name in fields_of(Tracks):
        state[name][~read] = 0


def load_match_state(engine: StatefulEngine, state: Mapping[str, NDArray[Any]]) -> None:
    """Give the state of one match to every environment and observe it; observations go to row 0.

    The environments have been reset to the match's map and roster. Raises ``EngineStateMismatch`` for a state that does
    not fit or has impossible values, before anything changes.
    """
    batch, count = engine.batch, engine.num_envs
    edits = [state.get(name) for name in EDITS[1:]]
    no_orders = {name: np.full_like(batch.row(name, 0), INITIAL.get(name, 0)) for name in orders.GIVEN}
    state = {**no_orders, **state}
    tiled = {name: np.repeat(np.asarray(v)[None], count, axis=0) for name, v in state.items() if name not in EDITS}
    if TERMS in tiled:
        tiled[TERMS] = tiled[TERMS][0]
    tiled = place_terms(engine, tiled)
    _check_arrays(engine, tiled)
    cell, material, hp = _checked_edits(engine, *edits)
    for name, values in tiled.items():
        batch.set(name, values)
    env = np.repeat(np.arange(count, dtype=np.int64), len(cell))
    write_voxels(batch, env, *(np.tile(part, count) for part in (cell, material, hp)))
    if "telemetry" in batch.fields:
        batch.capture(telemetry_map.reset_launches("every"))()
    engine.set_row(0)
    engine.run("observe")


def _check_arrays(engine: StatefulEngine, state: State) -> None:
    """Raise ``EngineStateMismatch`` unless every array has the engine's layout and possible values."""
    names = set(state_names(engine))
    if missing := sorted(names - state.keys()):
        raise EngineStateMismatch(f"match state has no array {missing[0]!r}, which this engine needs")
    for name in [name for name in state if name not in names]:
        del state[name]
    size = engine.batch.numpy("size").max(axis=0)
    for name, values in state.items():
        try:
            engine.batch.require_layout(name, values)
        except ValueError as error:
            raise EngineStateMismatch(f"match state does not fit: {error}") from error
    for name, values in state.items():
        low, high = _bounds(engine, name, values, size)
        possible = (values >= low) & (values <= high)
        if name == "round_pos":  # a slot without a round keeps where the last one left the map
            possible |= (state["round_weapon"] < 0)[..., None] & (np.abs(values) <= VALUE_LIMIT)
        if values.size and not possible.all():
            raise EngineStateMismatch(f"match state has impossible values in array {name!r}")
    weapon, target = state["round_weapon"], state["round_target"]
    if (np.array([*HOMING, False])[weapon] & (target < 0)).any():
        raise EngineStateMismatch("match state has a homing round without a target")


def _bounds(engine: StatefulEngine, name: str, values: NDArray[Any], size: NDArray[Any]) -> tuple[Any, Any]:
    """Return the smallest and largest value of an array; vectors have bounds per component."""
    if values.dtype.kind == "f":
        if name in POSITIONS:
            margin = MECH_MARGIN if name == "pos" else EDGE_MARGIN
            return -margin, size.astype(np.float32) + margin
        return -VALUE_LIMIT, VALUE_LIMIT
    if values.dtype.kind != "i":
        return 0, np.iinfo(values.dtype).max
    if (factor := MARKED_PAINTERS.get(name)) is not None:
        return 0, factor * (engine.num_mechs + 1) - 1
    kind = INTEGERS.get(name, COUNT)
    limits = {MECH: (-1, engine.num_mechs - 1), FLAG: (0, 1), COUNT: (-1, COUNT_LIMIT), BITS: (0, 2**16 - 1)}
    return limits[kind] if isinstance(kind, str) else kind


def _checked_edits(engine: StatefulEngine, cell: Any, material: Any, hp: Any) -> tuple[NDArray[Any], ...]:
    """Return cells, materials and hit points of edits; ``EngineStateMismatch`` for cells outside the map."""
    dtypes = (np.int64, np.uint8, np.uint16)
    parts = tuple(np.asarray(part) for part in (cell, material, hp))
    if any(part.dtype != dtype for part, dtype in zip(parts, dtypes, strict=True)):
        raise EngineStateMismatch("match state has no voxel edits, or of another element type")
    if any(part.shape != (len(parts[0]),) for part in parts):
        raise EngineStateMismatch("match state has voxel edits of unequal length")
    _, z, y, x = engine.batch["material"].shape
    at = np.unravel_index(np.clip(parts[0], 0, z * y * x - 1), (z, y, x))
    limits = engine.batch.numpy("size").min(axis=0)[::-1]
    inside = (parts[0] >= 0) & (parts[0] < z * y * x)
    inside &= np.all([index < limit for index, limit in zip(at, limits, strict=True)], axis=0)
    if not inside.all() or (parts[1] >= len(MATERIALS)).any():
        raise EngineStateMismatch("match state has voxel edits outside the map or of unknown materials")
    return parts
