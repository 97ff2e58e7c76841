"""Invariants of every battle after every environment step, for any actions.

``InvariantChecker`` compares the arrays of an engine with those of the previous step, in plain numpy, and reports every
violated invariant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from echelon.env import layout
from echelon.env.engine import Engine
from echelon.sim.arsenal import CHASSIS
from echelon.sim.state import CONTROLS, EVENTS, SENSES, STATE
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, STOPS_SHOT, Material, bit_plane

HALF = np.array([c.size for c in CHASSIS], np.float32) / 2
HP = np.array([c.hp for c in CHASSIS], np.float32)
LEG_HP = np.array([c.leg_hp for c in CHASSIS], np.float32)
TIMERS = ("cooldown", "painted", "suppressed", "fallen", "cloud_ticks", "noise", "heat", "clouds", "took", "dealt",
          "dealt_friendly", "kills", "assists", "intercepts", "knockdowns", "shutdowns", "tick",
          "decision")  # fmt: skip
PLANES = (("move_plane", BLOCKS_MOVE), ("sight_plane", BLOCKS_SIGHT), ("shot_plane", STOPS_SHOT))
TOUCH = 1e-3
"""Largest overlap of boxes [vox], from rounding of positions."""
DAMAGE_TOLERANCE = 5e-3
"""Tolerance of sums of damage, relative to the damage dealt."""
ROUND_FIELDS = ("round_pos", "round_vel")
"""Written only while a round flies."""
NOT_ALWAYS_WRITTEN = frozenset(("splash", "hit_damage", "hit_stability", "blast_pos", *ROUND_FIELDS))
"""Scratch arrays that are undefined where their mask is not set."""


@dataclass
class InvariantChecker:
    """Checks one engine that observes every mech in row order and has no automatic reset."""

    engine: Engine
    rows: np.ndarray
    """Observations ``[E * M, D]``, as attached."""
    slow_every: int = 4
    """Steps between two comparisons of voxels."""
    decisions: int = 0
    last: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        batch = self.engine.batch
        self.arrays = {name: batch.numpy(name) for name in batch.fields}
        names = (*STATE, *SENSES, *CONTROLS, *EVENTS)
        floats = [n for n in names if n not in NOT_ALWAYS_WRITTEN and self.arrays[n].dtype == np.float32]
        self.floats = [*floats, "reward", "terms"]
        table = layout.columns(self.engine.cfg)
        self.low = np.array([row.low for row in table], np.float32) - np.float32(1e-5)
        self.high = np.array([row.high for row in table], np.float32) + np.float32(1e-5)
        self.store()

    def store(self) -> None:
        """Store the current state, with which the next step is compared."""
        self.last = {n: self.arrays[n].copy() for n in ("alive", "hp", "score", "tick", "decision", "ended")}
        self.debris = self.hazardous()

    def hazardous(self) -> np.ndarray:
        """Whether a map has material that damages mechs standing on it ``[E]``."""
        kinds = self.arrays["material"]
        return ((kinds == Material.LAVA) | (kinds == Material.DEBRIS_FIELD)).any(axis=(1, 2, 3))

    def check(self) -> None:
        """Raise ``AssertionError`` naming every invariant violated by the last step, with an example each."""
        broken = [f"{invariant.__name__}: {what}" for invariant in INVARIANTS for what in invariant(self)]
        if self.decisions % self.slow_every == 0:
            broken += [f"{invariant.__name__}: {what}" for invariant in SLOW_INVARIANTS for what in invariant(self)]
        assert not broken, f"after decision {self.arrays['decision'].tolist()}: " + "; ".join(broken)
        self.decisions += 1
        self.store()

    @property
    def alive_mechs(self) -> np.ndarray:
        """Living mechs ``[E, M]``."""
        return self.arrays["alive"] == 1

    @property
    def half(self) -> np.ndarray:
        """Half sizes ``[E, M, 3]`` [vox]."""
        return HALF[self.arrays["chassis"]]


Invariant = Callable[[InvariantChecker], Iterator[str]]


def violation(bad: np.ndarray, **values: np.ndarray) -> Iterator[str]:
    """Yield one example of an entry where ``bad`` is set, with the values there."""
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        shown = ", ".join(f"{name}={value[at[: value.ndim]].tolist()}" for name, value in values.items())
        yield f"{int(bad.sum())} times, first at {at}: {shown}"


def all_numbers_are_finite(w: InvariantChecker) -> Iterator[str]:
    for name in w.floats:
        values = w.arrays[name]
        if not np.isfinite(values).all():
            yield from violation(~np.isfinite(values), **{name: values})
    flying = w.arrays["round_weapon"] >= 0
    for name in ROUND_FIELDS:
        yield from violation(flying & ~np.isfinite(w.arrays[name]).all(axis=-1), **{name: w.arrays[name]})


def positions_are_on_the_map(w: InvariantChecker) -> Iterator[str]:
    pos, size, half = w.arrays["pos"], w.arrays["size"][:, None].astype(np.float32), w.half
    out = (pos < half - TOUCH) | (pos > size - half + TOUCH)
    yield from violation(out.any(axis=-1) & w.alive_mechs, pos=pos, chassis=w.arrays["chassis"])
    yaw = w.arrays["yaw"]
    yield from violation((np.abs(yaw) > np.pi + 1e-5) & w.alive_mechs, yaw=yaw)


def rounds_and_smoke_are_on_the_map(w: InvariantChecker) -> Iterator[str]:
    size = w.arrays["size"][:, None, None].astype(np.float32)
    for name, live in (("round_pos", w.arrays["round_weapon"] >= 0), ("cloud_pos", w.arrays["cloud_ticks"] > 0)):
        pos = w.arrays[name]
        out = ((pos < -TOUCH) | (pos > size + TOUCH)).any(axis=-1)
        if name == "round_pos":  # a muzzle is above the box, and a box may touch the ceiling
            out &= w.arrays["round_age"] > 0
        yield from violation(out & live, **{name: pos})


def living_mechs_do_not_overlap(w: InvariantChecker) -> Iterator[str]:
    pos, half, alive = w.arrays["pos"], w.half, w.alive_mechs
    gap = np.abs(pos[:, :, None] - pos[:, None]) - (half[:, :, None] + half[:, None])
    depth = -gap.max(axis=-1)
    both = alive[:, :, None] & alive[:, None]
    both &= ~np.eye(alive.shape[1], dtype=bool)
    yield from violation((depth > TOUCH) & both, depth=depth)


def counters_are_not_negative(w: InvariantChecker) -> Iterator[str]:
    for name in TIMERS:
        if w.arrays[name].min() < 0:
            yield from violation(w.arrays[name] < 0, **{name: w.arrays[name]})
    flying = w.arrays["round_weapon"] >= 0
    yield from violation(flying & (w.arrays["round_age"] < 0), round_age=w.arrays["round_age"])


def hit_points_agree_with_life(w: InvariantChecker) -> Iterator[str]:
    hp, kind = w.arrays["hp"], w.arrays["chassis"]
    yield from violation((hp > HP[kind] + 1e-3) | (w.arrays["leg_hp"] > LEG_HP[kind] + 1e-3), hp=hp)
    yield from violation(w.alive_mechs & (hp <= 0), hp=hp)
    yield from violation(~w.alive_mechs & (w.arrays["present"] == 1) & (hp > 0), hp=hp)
    yield from violation(w.alive_mechs & (w.arrays["present"] == 0), hp=hp)


def stability_is_a_share_of_its_top(w: InvariantChecker) -> Iterator[str]:
    physics, value = w.engine.batch.tables(0).physics, w.arrays["stability"]
    top = max(physics.max_stability, physics.legged_max_stability, physics.stand_up_stability)
    yield from violation((value < 0) | (value > top + 1e-3), stability=value)


def shutdown_follows_heat(w: InvariantChecker) -> Iterator[str]:
    cap = np.array([c.heat_cap for c in CHASSIS], np.float32)[w.arrays["chassis"]]
    down, heat = w.arrays["shutdown"] == 1, w.arrays["heat"]
    restart = w.engine.batch.tables(0).physics.shutdown_restart
    yield from violation(w.alive_mechs & down & (heat <= cap * min(1.0, restart) - 1e-3), heat=heat)


def dead_mechs_stay_dead(w: InvariantChecker) -> Iterator[str]:
    yield from violation((w.last["alive"] == 0) & w.alive_mechs, hp=w.arrays["hp"])
    died = (w.last["alive"] == 1) & ~w.alive_mechs
    yield from violation(died != (w.arrays["died"] == 1), died=w.arrays["died"], alive=w.arrays["alive"])


def damage_taken_is_hit_points_lost(w: InvariantChecker) -> Iterator[str]:
    lost, took = w.last["hp"] - w.arrays["hp"], w.arrays["took"]
    yield from violation(np.abs(lost - took) > DAMAGE_TOLERANCE * (1 + took), lost=lost, took=took)


def damage_is_dealt_by_mechs_or_hazards(w: InvariantChecker) -> Iterator[str]:
    cfg, took = w.engine.cfg, w.arrays["took"].sum(axis=1)
    dealt = w.arrays["dealt"].sum(axis=1) + w.arrays["dealt_friendly"].sum(axis=1)
    hazard, slack = took - dealt, DAMAGE_TOLERANCE * (1 + took)
    yield from violation(hazard < -slack, took=took, dealt=dealt)
    if cfg.landing:
        return
    wrecks = (w.arrays["died"] == 1).any(axis=1)
    hurts = w.debris | w.hazardous() | wrecks
    physics = w.engine.batch.tables(0).physics
    most = (physics.lava_damage_s + physics.debris_damage_s) * cfg.dt_act * w.last["alive"].sum(axis=1)
    yield from violation(hazard > np.where(hurts, most, 0.0) + slack, took=took, dealt=dealt)


def kills_are_deaths_of_the_other_side(w: InvariantChecker) -> Iterator[str]:
    half = w.engine.cfg.team_size
    kills, died = w.arrays["kills"], w.arrays["died"]
    for own, other in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        k, d = kills[:, own].sum(axis=1), died[:, other].sum(axis=1)
        yield from violation(k > d, kills=k, deaths=d)


def scores_rise_at_most_with_time(w: InvariantChecker) -> Iterator[str]:
    gain = w.arrays["score"] - w.last["score"]
    ended = w.last["ended"][:, None] == 1
    yield from violation((gain < 0) | (gain > w.engine.cfg.dt_act * 1.0001 + 1e-4), gain=gain)
    yield from violation(ended & (gain != 0), gain=gain)
    tick = w.arrays["zone_tick"]
    yield from violation((tick < 0) | (tick > 1 + 1e-6), zone_tick=tick)


def ticks_advance_every_step(w: InvariantChecker) -> Iterator[str]:
    ticks = w.arrays["tick"] - w.last["tick"]
    yield from violation(ticks != w.engine.cfg.decision_repeat, ticks=ticks)


def done_flags_are_set_once_and_never_both(w: InvariantChecker) -> Iterator[str]:
    both = (w.arrays["terminated"] == 1) & (w.arrays["truncated"] == 1)
    yield from violation(both, terminated=w.arrays["terminated"])
    yield from violation((w.arrays["over"] == 1) & (w.last["ended"] == 1), over=w.arrays["over"])
    yield from violation((w.arrays["truncated"] == 1) & ~w.alive_mechs, truncated=w.arrays["truncated"])


def observations_keep_their_bounds(w: InvariantChecker) -> Iterator[str]:
    bad = ~((w.rows >= w.low) & (w.rows <= w.high))  # not-a-number is neither
    yield from violation(bad, obs=w.rows)


def no_pool_overflows(w: InvariantChecker) -> Iterator[str]:
    yield from violation(w.arrays["overflow"] != 0, overflow=w.arrays["overflow"])


def no_mech_is_inside_terrain(w: InvariantChecker) -> Iterator[str]:
    solid, pos, half, size = w.arrays["material"], w.arrays["pos"], w.half, w.arrays["size"]
    for e, m in np.argwhere(w.alive_mechs):
        low = np.floor(pos[e, m] - half[e, m] + TOUCH).astype(int)
        top = np.minimum(np.ceil(pos[e, m] + half[e, m] - TOUCH).astype(int), size[e])
        low = np.maximum(low, 0)
        cells = solid[e, low[2] : top[2], low[1] : top[1], low[0] : top[0]]
        if BLOCKS_MOVE[cells].any():
            yield f"env {e} mech {m} at {pos[e, m].tolist()}"
            return


def planes_and_hit_points_agree_with_materials(w: InvariantChecker) -> Iterator[str]:
    for e, grid in enumerate(w.arrays["material"]):
        for name, has in PLANES:
            yield from violation(bit_plane(grid, has) != w.arrays[name][e], plane=w.arrays[name][e])
        full, left = MATERIAL_HP[grid], w.arrays["voxel_hp"][e]
        yield from violation((left > full) | ((full > 0) & (left == 0)), hp=left, material=grid)


INVARIANTS: tuple[Invariant, ...] = (
    all_numbers_are_finite,
    positions_are_on_the_map,
    rounds_and_smoke_are_on_the_map,
    living_mechs_do_not_overlap,
    counters_are_not_negative,
    hit_points_agree_with_life,
    stability_is_a_share_of_its_top,
    shutdown_follows_heat,
    dead_mechs_stay_dead,
    damage_taken_is_hit_points_lost,
    damage_is_dealt_by_mechs_or_hazards,
    kills_are_deaths_of_the_other_side,
    scores_rise_at_most_with_time,
    ticks_advance_every_step,
    done_flags_are_set_once_and_never_both,
    observations_keep_their_bounds,
    no_pool_overflows,
)
SLOW_INVARIANTS: tuple[Invariant, ...] = (no_mech_is_inside_terrain, planes_and_hit_points_agree_with_materials)
