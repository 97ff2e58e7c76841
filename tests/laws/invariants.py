"""What must hold of every battle after every decision, whatever was asked of it.

``Watch`` looks at the arrays of an engine, keeps what the last decision left, and says which laws the next one broke.
It checks the game from outside, with plain numpy, and knows no rule of combat beyond what cannot be otherwise.
"""

from __future__ import annotations

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
"""Depth to which boxes may meet [vox]: the rounding of positions."""
MONEY = 5e-3
"""Slack of sums of damage, relative to what was dealt."""
ROUND_FIELDS = ("round_pos", "round_vel")
"""Written only while a round flies."""
NOT_ALWAYS_WRITTEN = frozenset(("splash", "hit_damage", "hit_stability", "blast_pos", *ROUND_FIELDS))
"""Scratch that is meaningless where its mask is not set."""


@dataclass
class Watch:
    """The laws of one engine whose every mech is observed in row order and that does not reset itself."""

    engine: Engine
    rows: np.ndarray
    """Observations ``[E * M, D]``, as attached."""
    slow_every: int = 4
    """Voxels are compared only in each of so many decisions."""
    decisions: int = 0
    last: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        batch = self.engine.batch
        self.see = {name: batch.numpy(name) for name in batch.fields}
        names = (*STATE, *SENSES, *CONTROLS, *EVENTS)
        floats = [n for n in names if n not in NOT_ALWAYS_WRITTEN and self.see[n].dtype == np.float32]
        self.floats = [*floats, "reward", "terms"]
        table = layout.columns(self.engine.cfg)
        self.low = np.array([row.low for row in table], np.float32) - np.float32(1e-5)
        self.high = np.array([row.high for row in table], np.float32) + np.float32(1e-5)
        self.remember()

    def remember(self) -> None:
        """Take the state as it stands for lawful: what the next decision is compared with."""
        self.last = {n: self.see[n].copy() for n in ("alive", "hp", "score", "tick", "decision", "ended")}
        self.debris = self.hazardous()

    def hazardous(self) -> np.ndarray:
        """Whether a map holds anything that hurts whoever stands on it ``[E]``."""
        kinds = self.see["material"]
        return ((kinds == Material.LAVA) | (kinds == Material.DEBRIS_FIELD)).any(axis=(1, 2, 3))

    def check(self) -> None:
        """Raise ``AssertionError`` naming every law that the last decision broke, with an example of each."""
        broken = [f"{law.__name__}: {what}" for law in LAWS for what in law(self)]
        if self.decisions % self.slow_every == 0:
            broken += [f"{law.__name__}: {what}" for law in SLOW_LAWS for what in law(self)]
        assert not broken, f"after decision {self.see['decision'].tolist()}: " + "; ".join(broken)
        self.decisions += 1
        self.remember()

    @property
    def living(self) -> np.ndarray:
        """Mechs that live ``[E, M]``."""
        return self.see["alive"] == 1

    @property
    def half(self) -> np.ndarray:
        """Half sizes ``[E, M, 3]`` [vox]."""
        return HALF[self.see["chassis"]]


Law = Callable[[Watch], Iterator[str]]


def wrong(bad: np.ndarray, **values: np.ndarray) -> Iterator[str]:
    """Yield one example of where ``bad`` is set, with the values there."""
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        shown = ", ".join(f"{name}={value[at[: value.ndim]].tolist()}" for name, value in values.items())
        yield f"{int(bad.sum())} times, first at {at}: {shown}"


def every_number_is_finite(w: Watch) -> Iterator[str]:
    for name in w.floats:
        values = w.see[name]
        if not np.isfinite(values).all():
            yield from wrong(~np.isfinite(values), **{name: values})
    flying = w.see["round_weapon"] >= 0
    for name in ROUND_FIELDS:
        yield from wrong(flying & ~np.isfinite(w.see[name]).all(axis=-1), **{name: w.see[name]})


def positions_are_on_the_map(w: Watch) -> Iterator[str]:
    pos, size, half = w.see["pos"], w.see["size"][:, None].astype(np.float32), w.half
    out = (pos < half - TOUCH) | (pos > size - half + TOUCH)
    yield from wrong(out.any(axis=-1) & w.living, pos=pos, chassis=w.see["chassis"])
    yaw = w.see["yaw"]
    yield from wrong((np.abs(yaw) > np.pi + 1e-5) & w.living, yaw=yaw)


def rounds_and_smoke_are_on_the_map(w: Watch) -> Iterator[str]:
    size = w.see["size"][:, None, None].astype(np.float32)
    for name, live in (("round_pos", w.see["round_weapon"] >= 0), ("cloud_pos", w.see["cloud_ticks"] > 0)):
        pos = w.see[name]
        out = ((pos < -TOUCH) | (pos > size + TOUCH)).any(axis=-1)
        if name == "round_pos":  # a muzzle is above the box, and a box may touch the ceiling
            out &= w.see["round_age"] > 0
        yield from wrong(out & live, **{name: pos})


def living_mechs_do_not_overlap(w: Watch) -> Iterator[str]:
    pos, half, alive = w.see["pos"], w.half, w.living
    gap = np.abs(pos[:, :, None] - pos[:, None]) - (half[:, :, None] + half[:, None])
    depth = -gap.max(axis=-1)
    both = alive[:, :, None] & alive[:, None]
    both &= ~np.eye(alive.shape[1], dtype=bool)
    yield from wrong((depth > TOUCH) & both, depth=depth)


def nothing_counts_below_zero(w: Watch) -> Iterator[str]:
    for name in TIMERS:
        if w.see[name].min() < 0:
            yield from wrong(w.see[name] < 0, **{name: w.see[name]})
    flying = w.see["round_weapon"] >= 0
    yield from wrong(flying & (w.see["round_age"] < 0), round_age=w.see["round_age"])


def hit_points_agree_with_life(w: Watch) -> Iterator[str]:
    hp, kind = w.see["hp"], w.see["chassis"]
    yield from wrong((hp > HP[kind] + 1e-3) | (w.see["leg_hp"] > LEG_HP[kind] + 1e-3), hp=hp)
    yield from wrong(w.living & (hp <= 0), hp=hp)
    yield from wrong(~w.living & (w.see["present"] == 1) & (hp > 0), hp=hp)
    yield from wrong(w.living & (w.see["present"] == 0), hp=hp)


def stability_is_a_share_of_its_top(w: Watch) -> Iterator[str]:
    physics, value = w.engine.cfg.physics, w.see["stability"]
    top = max(physics.max_stability, physics.legged_max_stability, physics.stand_up_stability)
    yield from wrong((value < 0) | (value > top + 1e-3), stability=value)


def shutdown_follows_heat(w: Watch) -> Iterator[str]:
    cap = np.array([c.heat_cap for c in CHASSIS], np.float32)[w.see["chassis"]]
    down, heat = w.see["shutdown"] == 1, w.see["heat"]
    restart = w.engine.cfg.physics.shutdown_restart
    yield from wrong(w.living & down & (heat <= cap * min(1.0, restart) - 1e-3), heat=heat)


def the_dead_stay_dead(w: Watch) -> Iterator[str]:
    yield from wrong((w.last["alive"] == 0) & w.living, hp=w.see["hp"])
    died = (w.last["alive"] == 1) & ~w.living
    yield from wrong(died != (w.see["died"] == 1), died=w.see["died"], alive=w.see["alive"])


def damage_taken_is_hit_points_lost(w: Watch) -> Iterator[str]:
    lost, took = w.last["hp"] - w.see["hp"], w.see["took"]
    yield from wrong(np.abs(lost - took) > MONEY * (1 + took), lost=lost, took=took)


def damage_is_dealt_by_somebody_or_the_ground(w: Watch) -> Iterator[str]:
    cfg, took = w.engine.cfg, w.see["took"].sum(axis=1)
    dealt = w.see["dealt"].sum(axis=1) + w.see["dealt_friendly"].sum(axis=1)
    hazard, slack = took - dealt, MONEY * (1 + took)
    yield from wrong(hazard < -slack, took=took, dealt=dealt)
    if cfg.physics.landing:
        return
    wrecks = (w.see["died"] == 1).any(axis=1)
    hurts = w.debris | w.hazardous() | wrecks
    most = (cfg.physics.lava_damage_s + cfg.physics.debris_damage_s) * cfg.dt_act * w.last["alive"].sum(axis=1)
    yield from wrong(hazard > np.where(hurts, most, 0.0) + slack, took=took, dealt=dealt)


def kills_are_deaths_of_the_other_side(w: Watch) -> Iterator[str]:
    half = w.engine.cfg.team_size
    kills, died = w.see["kills"], w.see["died"]
    for mine, theirs in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        k, d = kills[:, mine].sum(axis=1), died[:, theirs].sum(axis=1)
        yield from wrong(k > d, kills=k, deaths=d)


def scores_only_rise_and_only_in_time(w: Watch) -> Iterator[str]:
    gain = w.see["score"] - w.last["score"]
    ended = w.last["ended"][:, None] == 1
    yield from wrong((gain < 0) | (gain > w.engine.cfg.dt_act * 1.0001 + 1e-4), gain=gain)
    yield from wrong(ended & (gain != 0), gain=gain)
    tick = w.see["zone_tick"]
    yield from wrong((tick < 0) | (tick > 1 + 1e-6), zone_tick=tick)


def the_clock_runs(w: Watch) -> Iterator[str]:
    ticks = w.see["tick"] - w.last["tick"]
    yield from wrong(ticks != w.engine.cfg.decision_repeat, ticks=ticks)


def ends_are_told_once_and_apart(w: Watch) -> Iterator[str]:
    both = (w.see["terminated"] == 1) & (w.see["truncated"] == 1)
    yield from wrong(both, terminated=w.see["terminated"])
    yield from wrong((w.see["over"] == 1) & (w.last["ended"] == 1), over=w.see["over"])
    yield from wrong((w.see["truncated"] == 1) & ~w.living, truncated=w.see["truncated"])


def observations_keep_their_bounds(w: Watch) -> Iterator[str]:
    bad = ~((w.rows >= w.low) & (w.rows <= w.high))  # not-a-number is neither
    yield from wrong(bad, obs=w.rows)


def no_pool_overflows(w: Watch) -> Iterator[str]:
    yield from wrong(w.see["overflow"] != 0, overflow=w.see["overflow"])


def nobody_stands_in_a_wall(w: Watch) -> Iterator[str]:
    solid, pos, half, size = w.see["material"], w.see["pos"], w.half, w.see["size"]
    for e, m in np.argwhere(w.living):
        low = np.floor(pos[e, m] - half[e, m] + TOUCH).astype(int)
        top = np.minimum(np.ceil(pos[e, m] + half[e, m] - TOUCH).astype(int), size[e])
        low = np.maximum(low, 0)
        cells = solid[e, low[2] : top[2], low[1] : top[1], low[0] : top[0]]
        if BLOCKS_MOVE[cells].any():
            yield f"env {e} mech {m} at {pos[e, m].tolist()}"
            return


def planes_and_hit_points_agree_with_materials(w: Watch) -> Iterator[str]:
    for e, grid in enumerate(w.see["material"]):
        for name, has in PLANES:
            yield from wrong(bit_plane(grid, has) != w.see[name][e], plane=w.see[name][e])
        full, left = MATERIAL_HP[grid], w.see["voxel_hp"][e]
        yield from wrong((left > full) | ((full > 0) & (left == 0)), hp=left, material=grid)


LAWS: tuple[Law, ...] = (
    every_number_is_finite, positions_are_on_the_map, rounds_and_smoke_are_on_the_map, living_mechs_do_not_overlap,
    nothing_counts_below_zero, hit_points_agree_with_life, stability_is_a_share_of_its_top, shutdown_follows_heat,
    the_dead_stay_dead, damage_taken_is_hit_points_lost, damage_is_dealt_by_somebody_or_the_ground,
    kills_are_deaths_of_the_other_side, scores_only_rise_and_only_in_time, the_clock_runs, ends_are_told_once_and_apart,
    observations_keep_their_bounds, no_pool_overflows,
)  # fmt: skip
SLOW_LAWS: tuple[Law, ...] = (nobody_stands_in_a_wall, planes_and_hit_points_agree_with_materials)
