"""The launches of the simulator in order: reading actions, a tick, sensing and a reset.

``echelon.env`` joins them to an environment step. Every numbered phase
finishes for all mechs of an environment before the next begins.
"""

from typing import Any

from echelon.sim.backend import Launch, in_phase
from echelon.sim.kernels import controls, damage, fire, journal, motion, projectiles, sensing, spawn, terrain, upkeep

ENV = "E"
MECH = "EM"
RECORDED = "J"
PAIRS = "EMI"
"""Threads that share the pairs of a mech."""
COLUMNS = "EL"
"""Threads that share the voxel columns of an environment."""


def read_actions() -> list[Launch]:
    """Return the launches that turn action vectors into controls and clear the counters of the step."""
    return in_phase(
        "controls",
        [
            Launch(controls.clear_decision, MECH),
            Launch(controls.read_motion, MECH),
            Launch(controls.read_choices, MECH),
        ],
    )


MOVES = {
    False: [Launch(motion.move, ENV)],
    True: [
        Launch(motion.accelerate, MECH),
        Launch(motion.find_near, MECH),
        Launch(motion.move_apart, MECH),
        Launch(motion.move_near, ENV),
    ],
}
"""Launches that move mechs, by whether they are spread over more threads; the results are equal."""


def tick(*, recorded: bool = False, landing: bool = False, spread: bool = False) -> list[Launch]:
    """Return the launches of a tick: clock, upkeep, projectiles, weapons, movement; each phase resolves its deaths.

    ``recorded`` adds the launches that write the journal; they do not change the battle. ``landing`` adds the shock of
    hard landings. ``spread`` chooses the launches for CUDA where they differ.
    """

    def recording(*kernels: Any) -> list[Launch]:
        return in_phase("journal", [Launch(kernel, RECORDED) for kernel in kernels]) if recorded else []

    hits = [Launch(damage.apply_hits, MECH), Launch(damage.resolve_deaths, MECH), Launch(damage.credit_hits, MECH)]
    rounds = [
        Launch(projectiles.defend, ENV),
        *recording(journal.record_defence),
        Launch(projectiles.guide, MECH),
        Launch(projectiles.fly, MECH),
        Launch(projectiles.burst_smoke, ENV),
        Launch(damage.compute_splash, PAIRS),
    ]
    shots = [Launch(sensing.sense_for_launch, MECH), Launch(fire.choose_targets, MECH), Launch(fire.fire_weapons, MECH)]
    wrecks = [Launch(terrain.stamp_wrecks, COLUMNS), Launch(terrain.clear_dying, MECH)]
    falls = [Launch(motion.land, MECH), *recording(journal.record_deaths), *wrecks] if landing else []
    return in_phase(
        "tick",
        [
            *in_phase("clock", [Launch(upkeep.clock, ENV)]),
            *in_phase(
                "upkeep",
                [
                    Launch(upkeep.timers, MECH),
                    Launch(upkeep.thermals, MECH),
                    Launch(upkeep.balance, MECH),
                    *recording(journal.record_deaths),
                    *wrecks,
                ],
            ),
            *in_phase(
                "projectiles",
                [
                    *rounds,
                    *hits,
                    *recording(journal.record_hits, journal.record_impacts),
                    Launch(terrain.damage_terrain, COLUMNS),
                    *wrecks,
                ],
            ),
            *in_phase(
                "weapons",
                [*shots, *recording(journal.record_launches), *hits, *recording(journal.record_hits), *wrecks],
            ),
            *in_phase("movement", [*MOVES[spread], *falls]),
        ],
    )


def sense(fresh: str) -> list[Launch]:
    given = {"fresh": fresh}
    return in_phase(
        "sensing",
        [
            Launch(sensing.sense_quality, MECH, given),
            Launch(sensing.sense_sight, PAIRS, given),
            Launch(sensing.sense_visible, MECH, given),
        ],
    )


def reset(fresh: str) -> list[Launch]:
    given = {"fresh": fresh}
    return in_phase(
        "reset",
        [
            Launch(spawn.begin_episode, ENV, given),
            Launch(spawn.load_map, "EY", given),
            Launch(spawn.place_mechs, MECH, given),
            Launch(spawn.fresh_mechs, MECH, given),
        ],
    )
