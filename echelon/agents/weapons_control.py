# type: ignore
"""Weapons control: which weapons a scripted pilot fires, within its heat budget, and when it vents.

Rules follow columns of the weapon table: painters paint, homing weapons are launched, smoke is left to
``systems_control``, everything else is fired as a gun. A new weapon of these kinds needs no change here.
"""

import warp as wp

from echelon.actions import ActionIndex
from echelon.agents.levels import MissileUse, PaintUse, Skill
from echelon.agents.memory import Assignment, PilotMemory, Targets
from echelon.agents.steering import aim_error
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PACK, SHUT_DOWN, SIGHTED, PilotState, pilot_of, recall
from echelon.sim.arsenal import WEAPONS, Chassis, Guidance, Trigger
from echelon.sim.geometry import HALF_PI, arc_tan2, cos_sin, unit3, wrap_angle
from echelon.sim.kernels.fire import in_arc, muzzle_height
from echelon.sim.raycast import cast_ray
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Mechs, Rounds, Senses, World
from echelon.sim.tables import NUM_WEAPONS, Rules

# unrolled, the loops over weapons would be five times the machine code on CUDA, with all registers of a thread
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "max_unroll": 4})

VENT = wp.constant(int(ActionIndex.VENT))
TRIGGER_COLUMN = wp.constant(wp.vec4i(*[int(ActionIndex[t.name]) for t in Trigger if t != Trigger.NONE]))
"""Action column of each trigger bit."""
SCOUT = wp.constant(int(Chassis.SCOUT))
HITSCAN, BALLISTIC, HOMING = (wp.constant(int(g)) for g in (Guidance.HITSCAN, Guidance.BALLISTIC, Guidance.HOMING))
WEAPON_COUNT = wp.constant(NUM_WEAPONS)
_BY_DAMAGE_PER_HEAT = sorted(WEAPONS, key=lambda spec: -spec.damage / max(spec.heat, 1e-6))
BY_DAMAGE_PER_HEAT = wp.constant(
    wp.types.vector(length=NUM_WEAPONS, dtype=wp.int32)(*[int(spec.weapon) for spec in _BY_DAMAGE_PER_HEAT])
)
"""Weapon ids by damage per heat, best first."""
MISSILE_NEVER, _SIGHT, MISSILE_PAINT, AWAIT_PAINT, AVOID_AMS = (wp.constant(int(use)) for use in MissileUse)
PAINT_NEVER, PAINT_FOCUS = wp.constant(int(PaintUse.NEVER)), wp.constant(int(PaintUse.FOCUS))
BLAST_MARGIN = wp.constant(1.0)
"""Distance that pilots keep from the blast of their own rounds [vox]."""
PAINT_WAIT_S = wp.constant(2.0)
"""Longest wait of a launch for paint [s]."""
SCOUT_RANGE = wp.constant(12.0)
"""Distance of a scout from a target within which it may paint it soon [vox]."""
FRESH_PAINT_S = wp.constant(1.0)
"""Time left of paint that is not renewed [s]."""
AMS_RANGE = wp.constant(5.5)
"""Assumed range of hostile anti-missile systems [vox]."""


@wp.struct
class Shot:
    """A pilot's chance to fire at its target in this decision."""

    spot: wp.vec3
    """Position of the target [vox]."""
    distance: wp.float32
    """Distance of the target [vox]."""
    error: wp.float32
    """Angle between heading and perceived bearing of the target [rad]."""
    perceived: wp.bool
    """Whether the target is perceived, not only remembered."""
    sees: wp.bool
    """Whether there is a clear line of sight to it."""
    paint: wp.float32
    """Time left of own pack's paint on it [s]."""
    awaits_paint: wp.bool
    """Whether launches wait for paint."""


@wp.func
def homing_weapon(rules: Rules, c: int) -> int:
    found = int(-1)
    for w in range(WEAPON_COUNT):
        if rules.weapons[w].guidance == HOMING and rules.trigger_of[c, w] >= 0:
            found = w
    return found


@wp.func
def ams_reloads(rules: Rules, mechs: Mechs, rounds: Rounds, e: int, m: int, spot: wp.vec3, arrival_s: float) -> bool:
    """Return whether an anti-missile system at ``spot`` has just fired at a friendly missile at time ``arrival_s``."""
    for k in range(mechs.team.shape[1]):
        if mechs.team[e, k] == mechs.team[e, m]:
            for i in range(rounds.round_weapon.shape[2]):
                w = rounds.round_weapon[e, k, i]
                if w >= 0 and rules.weapons[wp.max(w, 0)].guidance == HOMING:
                    d = wp.length(rounds.round_pos[e, k, i] - spot)
                    shot_s = wp.max(0.0, d - AMS_RANGE) / rules.weapons[w].speed_vox_s
                    if shot_s <= arrival_s and arrival_s < shot_s + float(rules.ams_ticks) * rules.dt:
                        return True
    return False


@wp.func
def ams_protects(
    rules: Rules, pilot: PilotState, mechs: Mechs, rounds: Rounds, perception: PilotMemory, spot: wp.vec3, speed: float
) -> bool:
    """Return whether a perceived hostile near ``spot`` can likely shoot down a missile of this speed [vox/s]."""
    e = pilot.env
    m = pilot.mech
    for j in range(mechs.team.shape[1]):
        if mechs.team[e, j] != mechs.team[e, m] and rules.chassis[mechs.chassis[e, j]].has_ams == 1:
            track = recall(pilot, mechs, perception, j)
            if track.age == 0 and (track.marks & SHUT_DOWN) == 0 and wp.length(track.pos - spot) <= AMS_RANGE:
                arrival_s = wp.max(0.0, wp.length(track.pos - mechs.pos[e, m]) - AMS_RANGE) / speed
                if not ams_reloads(rules, mechs, rounds, e, m, track.pos, arrival_s):
                    return True
    return False


@wp.func
def scout_near(mechs: Mechs, e: int, m: int, spot: wp.vec3) -> bool:
    """Return whether a living scout of the pack is near enough to ``spot`` to paint a target there."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if mechs.alive[e, k] == 1 and mechs.chassis[e, k] == SCOUT:
            if wp.length(mechs.pos[e, k] - spot) <= SCOUT_RANGE:
                return True
    return False


@wp.func
def bearing_error(p: wp.vec3, spot: wp.vec3, yaw: float, bias: float) -> float:
    """Return the angle between a heading and the perceived bearing of ``spot``, which is off by ``bias`` [rad]."""
    return wp.abs(wrap_angle(arc_tan2(spot[1] - p[1], spot[0] - p[0]) + bias - yaw))


@wp.func
def too_close(rules: Rules, w: int, d: float) -> bool:
    """Return whether the blast of weapon w at distance d [vox] would reach the pilot."""
    return rules.weapons[w].splash_vox > 0.0 and d < rules.weapons[w].splash_vox + BLAST_MARGIN


@wp.func
def fires_gun(rules: Rules, skill: Skill, shot: Shot, w: int) -> bool:
    """Return whether a pilot fires a hitscan, linear or ballistic weapon at its target."""
    if shot.distance > rules.weapons[w].range_vox or too_close(rules, w, shot.distance):
        return False
    if rules.weapons[w].guidance == HITSCAN:
        return shot.sees and cos_sin(shot.error)[0] >= rules.weapons[w].arc_cos
    if shot.error > skill.cone or not shot.perceived:
        return False
    if rules.weapons[w].guidance != BALLISTIC:
        return True
    return shot.sees or skill.needs_sight == 0


@wp.func
def muzzle_blocked(rules: Rules, skill: Skill, world: World, e: int, w: int, c: int, p: wp.vec3, spot: wp.vec3) -> bool:
    """Return whether terrain close to the muzzle stops a round that chassis c at ``p`` fires at ``spot``."""
    muzzle = p + wp.vec3(0.0, 0.0, muzzle_height(rules, w, rules.chassis[c].half[2]))
    direction = unit3(spot - muzzle)
    if rules.weapons[w].guidance == HOMING:
        direction = unit3(unit3(spot - p) + wp.vec3(0.0, 0.0, rules.loft))
    end = muzzle + direction * skill.muzzle_clearance_vox
    return cast_ray(world.shot_plane, e, world.size[e], muzzle, end, True)[0] >= 0.0


@wp.func
def any_target_in_arc(rules: Rules, pilot: PilotState, mechs: Mechs, perception: PilotMemory, w: int) -> bool:
    """Return whether any hostile in sight is in the range and arc of a hitscan weapon."""
    if pilot.entry < 0:
        return False
    e = pilot.env
    m = pilot.mech
    cs = cos_sin(mechs.yaw[e, m])
    for j in range(mechs.team.shape[1]):
        sighted = (int(perception.past_look[e, m, j, pilot.entry]) & SIGHTED) != 0
        if sighted and mechs.team[e, j] != mechs.team[e, m]:
            track = recall(pilot, mechs, perception, j)
            delta = track.pos - mechs.pos[e, m]
            in_range = track.sees == 1 and wp.length(delta) <= rules.weapons[w].range_vox
            if in_range and in_arc(delta, cs, rules.weapons[w].arc_cos):
                return True
    return False


@wp.func
def launches(rules: Rules, skill: Skill, shot: Shot, w: int, quality: float) -> bool:
    """Return whether a pilot with this sensor quality launches homing weapon w at its target."""
    if skill.missiles == MISSILE_NEVER or shot.error > HALF_PI or too_close(rules, w, shot.distance):
        return False
    painted = shot.paint > 0.0 and quality >= rules.paint_quality
    if skill.missiles >= MISSILE_PAINT and painted and shot.distance <= rules.weapons[w].range_vox:
        return True
    return shot.sees and shot.distance <= rules.weapons[w].sight_range_vox and not shot.awaits_paint


@wp.func
def paints(rules: Rules, skill: Skill, shot: Shot, w: int) -> bool:
    if skill.paint == PAINT_NEVER or not shot.sees or shot.distance > rules.weapons[w].range_vox:
        return False
    if skill.paint == PAINT_FOCUS and shot.paint > FRESH_PAINT_S:
        return False
    return cos_sin(shot.error)[0] >= rules.weapons[w].arc_cos


@wp.func
def wants_to_fire(
    rules: Rules,
    pilot: PilotState,
    world: World,
    mechs: Mechs,
    senses: Senses,
    rounds: Rounds,
    perception: PilotMemory,
    shot: Shot,
    w: int,
) -> bool:
    e = pilot.env
    m = pilot.mech
    skill = pilot.skill
    wants = bool(False)
    if rules.weapons[w].paints == 1:
        wants = paints(rules, skill, shot, w)
    elif rules.weapons[w].guidance == HOMING:
        wants = launches(rules, skill, shot, w, senses.quality[e, m])
        if wants and skill.missiles == AVOID_AMS:
            speed = rules.weapons[w].speed_vox_s
            wants = not ams_protects(rules, pilot, mechs, rounds, perception, shot.spot, speed)
    else:
        wants = fires_gun(rules, skill, shot, w)
        if not wants and skill.fires_at_any_target == 1 and rules.weapons[w].guidance == HITSCAN:
            wants = any_target_in_arc(rules, pilot, mechs, perception, w)
    if wants and skill.muzzle_clearance_vox > 0.0 and rules.weapons[w].guidance != HITSCAN:
        wants = not muzzle_blocked(rules, skill, world, e, w, mechs.chassis[e, m], mechs.pos[e, m], shot.spot)
    return wants


@wp.func
def shot_at_target(
    rules: Rules, skill: Skill, episode: Episode, mechs: Mechs, targets: Targets, e: int, m: int
) -> Shot:
    """Return the shot of a pilot that has a target, without waiting for paint."""
    shot = Shot()
    p = mechs.pos[e, m]
    bias = aim_error(skill, episode.seed[e], m, float(episode.tick[e]) * rules.dt)
    shot.spot = targets.pilot_spot[e, m]
    shot.distance = wp.length(shot.spot - p)
    shot.error = bearing_error(p, shot.spot, mechs.yaw[e, m], bias)
    shot.perceived = targets.pilot_age[e, m] == 0
    shot.sees = targets.pilot_sees[e, m] == 1
    shot.paint = targets.pilot_paint[e, m] * rules.dt
    return shot


@wp.func
def wait_for_paint(
    rules: Rules,
    skill: Skill,
    episode: Episode,
    mechs: Mechs,
    targets: Targets,
    e: int,
    m: int,
    shot: Shot,
    targets_out: Targets,
) -> bool:
    """Return whether launches wait for a scout to paint the target, and update the time waited.

    The time counts only while the launcher is ready, and starts again with a new target.
    """
    w = homing_weapon(rules, mechs.chassis[e, m])
    if w < 0:
        return False
    waits = skill.missiles >= AWAIT_PAINT and shot.sees and not (shot.paint > 0.0)
    waits = waits and scout_near(mechs, e, m, shot.spot)
    since = targets.pilot_target_since[e, m]
    waited_s = wp.where(since < episode.decision[e], targets.pilot_wait_s[e, m], 0.0)
    awaits = waits and waited_s < PAINT_WAIT_S
    ready = mechs.cooldown[e, m, rules.weapons[w].cooldown] <= rules.ticks_per_decision
    if awaits and ready:
        waited_s = waited_s + rules.dt_act
    targets_out.pilot_wait_s[e, m] = wp.where(waits, waited_s, 0.0)
    return awaits


@wp.kernel
def control_weapons(
    rules: Rules,
    skills: wp.array[Skill],
    world: World,
    episode: Episode,
    mechs: Mechs,
    senses: Senses,
    rounds: Rounds,
    assignment: Assignment,
    perception: PilotMemory,
    targets: Targets,
    actions_out: wp.array3d[wp.float32],
    targets_out: Targets,
):
    """Write a pilot's triggers, in its order of weapons as far as its heat limit allows, and its vent column."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT or mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    c = mechs.chassis[e, m]
    cap = rules.chassis[c].heat_cap
    heat = mechs.heat[e, m]
    planned = float(heat)
    draw = uniform01(episode.seed[e], STREAM_AGENT, episode.tick[e], m, 1)
    pulls_trigger = draw < assignment.weapon_prob[e] * skill.trigger_prob
    hot = heat > skill.vent_above * cap
    fired = bool(False)
    if targets.pilot_target[e, m] >= 0 and pulls_trigger and not hot:
        pilot = pilot_of(skill, mechs, perception, e, m, episode.decision[e])
        shot = shot_at_target(rules, skill, episode, mechs, targets, e, m)
        shot.awaits_paint = wait_for_paint(rules, skill, episode, mechs, targets, e, m, shot, targets_out)
        for i in range(WEAPON_COUNT):
            w = wp.where(skill.best_damage_per_heat_first == 1, BY_DAMAGE_PER_HEAT[i], i)
            trigger = rules.trigger_of[c, w]
            if trigger < 0 or rules.weapons[w].bursts_smoke == 1:
                continue
            ready = mechs.cooldown[e, m, rules.weapons[w].cooldown] <= rules.ticks_per_decision
            affordable = planned + rules.weapons[w].heat <= skill.heat_limit * cap
            if not ready or not affordable:
                continue
            if wants_to_fire(rules, pilot, world, mechs, senses, rounds, perception, shot, w):
                actions_out[e, m, TRIGGER_COLUMN[trigger]] = 1.0
                planned += rules.weapons[w].heat
                fired = True
                if rules.weapons[w].guidance == HOMING:
                    targets_out.pilot_wait_s[e, m] = 0.0
    if hot or heat > wp.where(fired, skill.vent_firing_above, skill.vent_idle_above) * cap:
        actions_out[e, m, VENT] = 1.0
