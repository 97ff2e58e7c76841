# type: ignore
"""Rewards: one row of ``TERMS`` per reward term, each with a kernel that measures its unweighted amount.

To add a term, write a kernel and a row of ``TERMS`` here, and the weight of the same name in ``RewardConfig``
(``echelon/config/reward.py``); an environment takes further terms as its option. The kernel takes structs and arrays of
the batch by name and writes ``amounts_out[e, m, column]``; its docstring is the term's description. Every mech that is
present is paid, dead or alive: the kernel of a term for the living alone reads ``mechs.alive`` or ``events.acting``.

The weighted sum of the terms, mixed within the team by ``team_alpha``, plus the terminal reward is the reward of a
mech. The reward of a dead mech belongs to the return of its last living step: advantages discount it through the steps
between. Every term is measured and reported, also with weight 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from echelon.config import EnvConfig, RewardConfig
from echelon.env.observe.orders import Orders, obedience
from echelon.env.referee import DRAW, StepOutcome, in_zone
from echelon.nav.waypoints import FlowFields
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import power, xy_length
from echelon.sim.scan import count_mates_in_circle
from echelon.sim.state import Episode, Events, Mechs, World
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

PBRS = wp.constant(0)
DECAY = wp.constant(1)
APPROACH_MODES = {"pbrs": 0, "decay": 1, "off": 2}


@wp.struct
class RewardRules:
    """Reward options of a configuration other than the weights."""

    gamma: float
    contested_offense: float
    contested_death: float
    teammate_decay: float
    approach_mode: int
    limit_is_terminal: int
    win: float
    loss: float
    draw: float


@array_struct
class Rewards:
    """Rewards of the current environment step; R is the reward term."""

    potential = Field(wp.float32, "EM", "approach potential at the start of the step")
    near = Field(wp.float32, "EM", "distance to the zone at the start of the step [map edges]")
    amounts = Field(wp.float32, "EMR", "unweighted amount of each term")
    terms = Field(wp.float32, "EMR", "weighted amount of each term, terminal last")
    reward = Field(wp.float32, "EM", "reward")


FIELDS = fields_of(Rewards)


@wp.func
def zone_distance(zone: wp.vec3, pos: wp.vec3, size: wp.vec3i) -> float:
    """Return the horizontal distance to the zone centre [map edges]."""
    return xy_length(wp.vec3(zone[0] - pos[0], zone[1] - pos[1], 0.0)) / float(wp.max(size[0], size[1]))


@wp.func
def zone_contested(tonnage: wp.vec2) -> bool:
    return tonnage[0] > 0.0 and tonnage[1] > 0.0


@wp.func
def offense_factor(rules: RewardRules, world: World, episode: Episode, mechs: Mechs, e: int, m: int) -> float:
    """Return the factor of damage, kill and assist: ``contested_offense`` inside a contested zone, else 1."""
    if zone_contested(episode.zone_tonnage[e]) and in_zone(world.zone[e], mechs.pos[e, m]):
        return rules.contested_offense
    return 1.0


@wp.kernel
def store_potential(reward_rules: RewardRules, world: World, mechs: Mechs, rewards_out: Rewards):
    """Store the approach potential and the distance to the zone before the step is played."""
    e, m = wp.tid()
    d = zone_distance(world.zone[e], mechs.pos[e, m], world.size[e])
    mates = count_mates_in_circle(mechs.pos, mechs.alive, mechs.team, e, m, world.zone[e])
    rewards_out.near[e, m] = d
    rewards_out.potential[e, m] = -d * power(reward_rules.teammate_decay, mates)


@wp.kernel
def term_approach(
    reward_rules: RewardRules,
    world: World,
    mechs: Mechs,
    events: Events,
    outcome: StepOutcome,
    rewards: Rewards,
    column: wp.int32,
    amounts_out: wp.array3d(dtype=wp.float32),
):
    """Approach to the zone: gamma Phi(s') - Phi(s) with Phi 0 in terminal states (Ng, 1999), or plain distance.

    The state at the time limit is terminal unless the learner bootstraps from it.
    """
    e, m = wp.tid()
    amount = float(0.0)
    if events.acting[e, m] == 1:
        zone = world.zone[e]
        d = zone_distance(zone, mechs.pos[e, m], world.size[e])
        mates = count_mates_in_circle(mechs.pos, mechs.alive, mechs.team, e, m, zone)
        crowd = power(reward_rules.teammate_decay, mates)
        if reward_rules.approach_mode == PBRS:
            after = -d * crowd
            ends = outcome.over[e] == 1 and (outcome.timed_out[e] == 0 or reward_rules.limit_is_terminal == 1)
            if mechs.alive[e, m] == 0 or ends:
                after = 0.0
            amount = reward_rules.gamma * after - rewards.potential[e, m]
        elif reward_rules.approach_mode == DECAY and not in_zone(zone, mechs.pos[e, m]):
            amount = (rewards.near[e, m] - d) * crowd
    amounts_out[e, m, column] = amount


@wp.kernel
def term_zone(
    world: World, episode: Episode, mechs: Mechs, column: wp.int32, amounts_out: wp.array3d(dtype=wp.float32)
):
    e, m = wp.tid()
    amount = float(0.0)
    if mechs.alive[e, m] == 1 and in_zone(world.zone[e], mechs.pos[e, m]):
        amount = episode.zone_tick[e][mechs.team[e, m]]
    amounts_out[e, m, column] = amount


@wp.kernel
def term_zone_lead(episode: Episode, mechs: Mechs, column: wp.int32, amounts_out: wp.array3d(dtype=wp.float32)):
    """Zone tick of the team minus that of the hostile team, for mechs anywhere, also dead: the change of the lead."""
    e, m = wp.tid()
    team = mechs.team[e, m]
    amounts_out[e, m, column] = episode.zone_tick[e][team] - episode.zone_tick[e][1 - team]


@wp.kernel
def term_damage(
    reward_rules: RewardRules,
    world: World,
    episode: Episode,
    mechs: Mechs,
    events: Events,
    column: wp.int32,
    amounts_out: wp.array3d(dtype=wp.float32),
):
    e, m = wp.tid()
    amounts_out[e, m, column] = events.dealt[e, m] * offense_factor(reward_rules, world, episode, mechs, e, m)


@wp.kernel
def term_count(
    reward_rules: RewardRules,
    world: World,
    episode: Episode,
    mechs: Mechs,
    counted: wp.array2d(dtype=wp.int32),
    column: wp.int32,
    amounts_out: wp.array3d(dtype=wp.float32),
):
    e, m = wp.tid()
    amounts_out[e, m, column] = float(counted[e, m]) * offense_factor(reward_rules, world, episode, mechs, e, m)


@wp.kernel
def term_death(
    reward_rules: RewardRules,
    world: World,
    episode: Episode,
    mechs: Mechs,
    events: Events,
    column: wp.int32,
    amounts_out: wp.array3d(dtype=wp.float32),
):
    """Own death; ``contested_death`` scales it inside a contested zone."""
    e, m = wp.tid()
    factor = float(1.0)
    if zone_contested(episode.zone_tonnage[e]) and in_zone(world.zone[e], mechs.pos[e, m]):
        factor = reward_rules.contested_death
    amounts_out[e, m, column] = float(events.died[e, m]) * factor


@wp.kernel
def term_obey(
    rules: Rules,
    flow: FlowFields,
    world: World,
    mechs: Mechs,
    orders: Orders,
    column: wp.int32,
    amounts_out: wp.array3d(dtype=wp.float32),
):
    """Obedience to the order of a living mech (``obedience``), with the goal at the start of the step."""
    e, m = wp.tid()
    amount = float(0.0)
    if mechs.alive[e, m] == 1:
        amount = obedience(rules, flow, world, mechs, orders, e, m)
    amounts_out[e, m, column] = amount


@wp.func
def terminal_reward(rules: RewardRules, winner: int, team: int) -> float:
    """Return the terminal reward of a mech of ``team``."""
    if winner == team:
        return rules.win
    if winner == DRAW:
        return rules.draw
    return rules.loss


@wp.kernel
def combine_terms(
    reward_rules: RewardRules,
    weights: wp.array(dtype=wp.float32),
    team_alpha: wp.array(dtype=wp.float32),
    mechs: Mechs,
    outcome: StepOutcome,
    rewards: Rewards,
    rewards_out: Rewards,
):
    """Weight the terms, mix them within the team, and add the terminal reward, for every member, dead or alive."""
    e, m = wp.tid()
    count = weights.shape[0]
    own = float(0.0)
    for i in range(count):
        term = float(mechs.present[e, m]) * weights[i] * rewards.amounts[e, m, i]
        rewards_out.terms[e, m, i] = term
        own += term
    alpha = team_alpha[0]
    if alpha < 1.0 and mechs.present[e, m] == 1:
        total = float(0.0)
        members = float(0.0)
        for j in range(mechs.team.shape[1]):
            if mechs.present[e, j] == 1 and mechs.team[e, j] == mechs.team[e, m]:
                members += 1.0
                for i in range(count):
                    total += weights[i] * rewards.amounts[e, j, i]
        own = alpha * own + (1.0 - alpha) * total / members
    terminal = float(0.0)
    if outcome.over[e] == 1 and mechs.present[e, m] == 1:
        terminal = terminal_reward(reward_rules, outcome.winner[e], mechs.team[e, m])
    rewards_out.terms[e, m, count] = terminal
    rewards_out.reward[e, m] = own + terminal


@dataclass(frozen=True)
class Term:
    """One reward term: its name, which is also that of its weight, and the kernel that measures it."""

    name: str
    kernel: Any
    given: tuple[tuple[str, str], ...] = ()
    """Arrays bound to kernel parameters of another name: (parameter, array)."""
    weight: float | None = None
    """Weight of a term that ``RewardConfig`` does not have."""


TERMS: tuple[Term, ...] = (
    Term("approach", term_approach),
    Term("zone", term_zone),
    Term("damage", term_damage),
    Term("kill", term_count, (("counted", "kills"),)),
    Term("assist", term_count, (("counted", "assists"),)),
    Term("death", term_death),
    Term("zone_lead", term_zone_lead),
    Term("obey", term_obey),
)
TERMINAL = "terminal"
TERM_NAMES: tuple[str, ...] = (*(term.name for term in TERMS), TERMINAL)


def term_names(terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the reward columns of ``terms``, the terminal reward last; ``ValueError`` for a name that occurs twice."""
    names = (*(term.name for term in terms), TERMINAL)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"reward term {name!r} exists already, expected a name other than {', '.join(TERM_NAMES)}")
    return names


def _weight_of(cfg: RewardConfig, term: Term) -> float:
    if term.weight is not None:
        return term.weight
    if not hasattr(cfg, term.name):
        raise ValueError(f"reward term {term.name!r} has no weight; add a Finite field of that name to RewardConfig")
    return float(getattr(cfg, term.name))


def reward_rules(cfg: EnvConfig) -> Any:
    rules = RewardRules()
    rules.gamma = cfg.gamma
    for name in ("contested_offense", "contested_death", "teammate_decay", "win", "loss", "draw"):
        setattr(rules, name, getattr(cfg.reward, name))
    rules.limit_is_terminal = int(not cfg.truncation_bootstraps)
    rules.approach_mode = APPROACH_MODES[cfg.reward.approach_mode]
    return rules


def constants(cfg: EnvConfig, terms: Sequence[Term]) -> dict[str, tuple[Any, Any]]:
    """Return the reward arrays that a curriculum may change during training: name to (values, dtype)."""
    return {
        "weights": (np.array([_weight_of(cfg.reward, term) for term in terms], np.float32), wp.float32),
        "team_alpha": (np.array([cfg.reward.team_alpha], np.float32), wp.float32),
    }


def reward_launches(terms: Sequence[Term]) -> list[Launch]:
    launches = [Launch(t.kernel, "EM", {"column": i, **dict(t.given)}) for i, t in enumerate(terms)]
    return in_phase("reward", [*launches, Launch(combine_terms, "EM")])
