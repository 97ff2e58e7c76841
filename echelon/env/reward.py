"""What agents are paid for: one row of ``TERMS`` per component, each a kernel that writes its own column.

A term's kernel gives the unweighted amount; its weight is the field of ``RewardConfig`` of the same name. To add one,
write a kernel, a row, and the weight. All components are reported; their weighted sum, mixed within the team by
``team_alpha`` and followed by the terminal component, is the reward.
"""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from echelon.config import EnvConfig, RewardConfig
from echelon.env.referee import in_zone
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import xy_length
from echelon.sim.state import Field

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

PBRS = wp.constant(0)
DECAY = wp.constant(1)
MODES = {"pbrs": 0, "decay": 1, "off": 2}


@wp.func
def teammates_inside(e: int, m: int, zone: wp.vec3, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3)) -> int:
    """Other living members of the team inside the zone."""
    n = int(0)
    for j in range(alive.shape[1]):
        if j != m and alive[e, j] == 1 and team[e, j] == team[e, m] and in_zone(zone, pos[e, j]):
            n += 1
    return n


@wp.func
def zone_distance(zone: wp.vec3, pos: wp.vec3, size: wp.vec3i) -> float:
    """Horizontal distance to the zone centre, in map widths."""
    return xy_length(wp.vec3(zone[0] - pos[0], zone[1] - pos[1], 0.0)) / float(wp.max(size[0], size[1]))


@wp.func
def zone_contested(tonnage: wp.vec2) -> bool:
    """Whether both teams stand in the zone."""
    return tonnage[0] > 0.0 and tonnage[1] > 0.0


@wp.func
def offense_factor(shape: wp.array(dtype=wp.float32), zone: wp.vec3, tonnage: wp.vec2, pos: wp.vec3) -> float:
    """Factor on fighting rewards inside a contested zone."""
    if zone_contested(tonnage) and in_zone(zone, pos):
        return shape[1]
    return 1.0


@wp.kernel
def store_potential(
    # world
    zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i),
    # rules
    reward_shape: wp.array(dtype=wp.float32),
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3),
    # state out
    potential: wp.array2d(dtype=wp.float32), near: wp.array2d(dtype=wp.float32),
):
    """Remember the approach potential and the distance before anyone moves."""
    e, m = wp.tid()
    d = zone_distance(zone[e], pos[e, m], size[e])
    near[e, m] = d
    potential[e, m] = -d * wp.pow(reward_shape[3], float(teammates_inside(e, m, zone[e], alive, team, pos)))


@wp.kernel
def term_approach(
    # world
    zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i),
    # rules
    reward_shape: wp.array(dtype=wp.float32), column: wp.int32,
    # state in
    acting: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), potential: wp.array2d(dtype=wp.float32), near: wp.array2d(dtype=wp.float32), over: wp.array(dtype=wp.int32), cut: wp.array(dtype=wp.int32),
    # out
    amounts: wp.array3d(dtype=wp.float32),
):
    """Approach shaping; potential-based it is gamma Phi(s') - Phi(s), with Phi 0 in terminal states (Ng, 1999)."""
    e, m = wp.tid()
    amount = float(0.0)
    if acting[e, m] == 1:
        d = zone_distance(zone[e], pos[e, m], size[e])
        crowd = wp.pow(reward_shape[3], float(teammates_inside(e, m, zone[e], alive, team, pos)))
        mode = int(reward_shape[4])
        if mode == PBRS:
            after = -d * crowd
            if alive[e, m] == 0 or (over[e] == 1 and cut[e] == 0):
                after = 0.0
            amount = reward_shape[0] * after - potential[e, m]
        elif mode == DECAY and not in_zone(zone[e], pos[e, m]):
            amount = (near[e, m] - d) * crowd
    amounts[e, m, column] = amount


@wp.kernel
def term_zone(
    # world
    zone: wp.array(dtype=wp.vec3),
    # rules
    column: wp.int32,
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), zone_tick: wp.array(dtype=wp.vec2),
    # out
    amounts: wp.array3d(dtype=wp.float32),
):
    """The team's zone tick, for mechs inside."""
    e, m = wp.tid()
    amount = float(0.0)
    if alive[e, m] == 1 and in_zone(zone[e], pos[e, m]):
        amount = zone_tick[e][team[e, m]]
    amounts[e, m, column] = amount


@wp.kernel
def term_damage(
    # world
    zone: wp.array(dtype=wp.vec3),
    # rules
    reward_shape: wp.array(dtype=wp.float32), column: wp.int32,
    # state in
    pos: wp.array2d(dtype=wp.vec3), zone_tonnage: wp.array(dtype=wp.vec2), dealt: wp.array2d(dtype=wp.float32),
    # out
    amounts: wp.array3d(dtype=wp.float32),
):
    """Damage dealt to hostiles."""
    e, m = wp.tid()
    amounts[e, m, column] = dealt[e, m] * offense_factor(reward_shape, zone[e], zone_tonnage[e], pos[e, m])


@wp.kernel
def term_count(
    # world
    zone: wp.array(dtype=wp.vec3),
    # rules
    reward_shape: wp.array(dtype=wp.float32), column: wp.int32,
    # state in
    pos: wp.array2d(dtype=wp.vec3), zone_tonnage: wp.array(dtype=wp.vec2), counted: wp.array2d(dtype=wp.int32),
    # out
    amounts: wp.array3d(dtype=wp.float32),
):
    """A number of deeds, kills or assists."""
    e, m = wp.tid()
    amounts[e, m, column] = float(counted[e, m]) * offense_factor(reward_shape, zone[e], zone_tonnage[e], pos[e, m])


@wp.kernel
def term_death(
    # world
    zone: wp.array(dtype=wp.vec3),
    # rules
    reward_shape: wp.array(dtype=wp.float32), column: wp.int32,
    # state in
    pos: wp.array2d(dtype=wp.vec3), zone_tonnage: wp.array(dtype=wp.vec2), died: wp.array2d(dtype=wp.int32),
    # out
    amounts: wp.array3d(dtype=wp.float32),
):
    """Own death, cheaper inside a contested zone."""
    e, m = wp.tid()
    factor = float(1.0)
    if zone_contested(zone_tonnage[e]) and in_zone(zone[e], pos[e, m]):
        factor = reward_shape[2]
    amounts[e, m, column] = float(died[e, m]) * factor


@wp.kernel
def combine_terms(
    # rules
    weights: wp.array(dtype=wp.float32), terminal_pay: wp.array(dtype=wp.float32), team_alpha: wp.array(dtype=wp.float32),
    # state in
    present: wp.array2d(dtype=wp.int32), acting: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), over: wp.array(dtype=wp.int32), winner: wp.array(dtype=wp.int32), amounts: wp.array3d(dtype=wp.float32),
    # out
    reward: wp.array2d(dtype=wp.float32), terms: wp.array3d(dtype=wp.float32),
):
    """Weigh the terms, mix them within the team, and add the terminal component for every member."""
    e, m = wp.tid()
    count = weights.shape[0]
    own = float(0.0)
    for i in range(count):
        part = float(acting[e, m]) * weights[i] * amounts[e, m, i]
        terms[e, m, i] = part
        own += part
    alpha = team_alpha[0]
    if alpha < 1.0 and acting[e, m] == 1:
        total = float(0.0)
        members = float(0.0)
        for j in range(acting.shape[1]):
            if acting[e, j] == 1 and team[e, j] == team[e, m]:
                members += 1.0
                for i in range(count):
                    total += weights[i] * amounts[e, j, i]
        own = alpha * own + (1.0 - alpha) * total / members
    final = float(0.0)
    if over[e] == 1 and present[e, m] == 1:
        side = int(1)
        if winner[e] == team[e, m]:
            side = 0
        elif winner[e] == 2:
            side = 2
        final = terminal_pay[side]
    terms[e, m, count] = final
    reward[e, m] = own + final


@dataclass(frozen=True)
class Term:
    """One reward component: name (also of its weight) and the kernel that measures it."""

    name: str
    kernel: Any
    given: tuple[tuple[str, str], ...] = ()


TERMS: tuple[Term, ...] = (
    Term("approach", term_approach),
    Term("zone", term_zone),
    Term("damage", term_damage),
    Term("kill", term_count, (("counted", "kills"),)),
    Term("assist", term_count, (("counted", "assists"),)),
    Term("death", term_death),
)
TERM_NAMES: tuple[str, ...] = (*(t.name for t in TERMS), "terminal")

ADDED_WEIGHTS: dict[str, float] = {}
"""Weights of the terms that were added in this process; the others' are in ``RewardConfig``."""


def add_term(term: Term, weight: float) -> None:
    """Pay for one more thing in every environment made from now on in this process.

    The term is measured, mixed within the team, reported and shown like those of ``TERMS``. Its kernel is given arrays of
    the batch by its parameters' names and writes the unweighted amount into ``amounts[e, m, column]``.
    """
    global TERMS, TERM_NAMES
    if term.name in TERM_NAMES:
        raise ValueError(f"reward term {term.name!r} exists already, wanted a name other than {', '.join(TERM_NAMES)}")
    TERMS = (*TERMS, term)
    TERM_NAMES = (*(t.name for t in TERMS), "terminal")
    ADDED_WEIGHTS[term.name] = weight


def remove_term(name: str) -> None:
    """Take back a term that ``add_term`` added; environments already made keep it."""
    global TERMS, TERM_NAMES
    if name not in ADDED_WEIGHTS:
        raise ValueError(f"reward term {name!r} was not added, wanted one of: {', '.join(ADDED_WEIGHTS) or 'none were'}")
    TERMS = tuple(t for t in TERMS if t.name != name)
    TERM_NAMES = (*(t.name for t in TERMS), "terminal")
    del ADDED_WEIGHTS[name]


def weight_of(cfg: RewardConfig, name: str) -> float:
    """Return the weight of a term."""
    return ADDED_WEIGHTS[name] if name in ADDED_WEIGHTS else float(getattr(cfg, name))


FIELDS: dict[str, Field] = {
    "potential": Field(wp.float32, "EM", "approach potential at the decision's start"),
    "near": Field(wp.float32, "EM", "distance to the zone at the decision's start, in map widths"),
    "amounts": Field(wp.float32, "EMR", "unweighted amount of each term"),
    "terms": Field(wp.float32, "EMR", "weighted amount of each term, terminal last"),
    "reward": Field(wp.float32, "EM", "reward of the decision"),
}


def constants(cfg: EnvConfig) -> dict[str, tuple[Any, Any]]:
    """Return the device constants of the reward: name to (values, type)."""
    r = cfg.reward
    return {
        "reward_shape": (
            np.array(
                [cfg.gamma, r.contested_offense, r.contested_death, r.teammate_decay, MODES[r.approach_mode]],
                np.float32,
            ),
            wp.float32,
        ),
        "weights": (np.array([weight_of(r, t.name) for t in TERMS], np.float32), wp.float32),
        "terminal_pay": (np.array([r.win, r.loss, r.draw], np.float32), wp.float32),
        "team_alpha": (np.array([r.team_alpha], np.float32), wp.float32),
    }


def before() -> list[Launch]:
    """What the reward needs to know before a decision is played."""
    return in_phase("reward", [Launch(store_potential, "EM")])


def after() -> list[Launch]:
    """Measure every term and sum them up, after the referee's call."""
    launches = [Launch(t.kernel, "EM", {"column": i, **dict(t.given)}) for i, t in enumerate(TERMS)]
    return in_phase("reward", [*launches, Launch(combine_terms, "EM")])
