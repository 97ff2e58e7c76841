# type: ignore
"""Ego, descriptor and panel columns of the suite layout: an observer's own state and its display.

One thread per mech writes its own row. Sound levels come in four quadrants around the heading; the own velocity is
zero during shutdown.
"""

import warp as wp

from echelon.env import layout
from echelon.env.display import DisplayRules, Suites
from echelon.env.observe.helpers import ObsRows, as_flag, clear_columns, longest_side, put, row_index
from echelon.env.referee import in_zone
from echelon.sim.arsenal import Cooldown, Weapon
from echelon.sim.episode_draws import time_limit, winning_score
from echelon.sim.geometry import clamp_unit, cos_sin, natural_log, to_heading
from echelon.sim.kernels.fire import HOMING
from echelon.sim.scan import next_hostile_in_sight, next_round
from echelon.sim.state import ROUNDS_PER_MECH, Controls, Episode, Mechs, Rounds, Senses, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

EGO_AT = wp.constant(layout.offset("ego"))
EGO_DIM = wp.constant(layout.EGO_DIM)
DESCRIPTOR_AT = wp.constant(layout.offset("descriptor"))
DESCRIPTOR_DIM = wp.constant(layout.SUITE_DESCRIPTOR_DIM)
PANEL_AT = wp.constant(layout.offset("panel"))
PANEL_DIM = wp.constant(layout.PANEL_DIM)
EGO = layout.position(layout.EGO, layout.offset("ego"))
PANEL = layout.position(layout.PANEL, layout.offset("panel"))
FULL_MASS = wp.constant(5.0)
"""Sum of threat weights that fills the threat and friendly mass gauges."""
DISPLAY_MODES = wp.constant(5.0)
MAX_DETAIL = wp.constant(2.0)
LOW_HULL = wp.constant(0.25)
HIGH_HEAT = wp.constant(0.9)
LOW_STABILITY = wp.constant(20.0)
LASER, MISSILE = wp.constant(int(Weapon.LASER)), wp.constant(int(Weapon.MISSILE))
PAINTER, KINETIC = wp.constant(int(Weapon.PAINTER)), wp.constant(int(Cooldown.KINETIC))


@wp.func
def cooldown_share(rules: Rules, mechs: Mechs, e: int, m: int, w: int) -> float:
    """Return the cooldown left of the timer of weapon ``w`` as a share of the weapon's own cooldown, 0 to 1."""
    ticks = mechs.cooldown[e, m, rules.weapons[w].cooldown]
    return wp.min(1.0, float(ticks) / float(rules.weapons[w].cooldown_ticks))


@wp.func
def timer_share(rules: Rules, mechs: Mechs, e: int, m: int, k: int) -> float:
    """Return the cooldown left of timer ``k`` as a share of the longest that a carried weapon sets, 0 to 1."""
    return wp.min(1.0, float(mechs.cooldown[e, m, k]) / float(rules.timer_ticks[k]))


@wp.func
def zone_lead(tonnage: wp.vec2, side: int) -> float:
    """Return the tonnage balance in the zone from one team's view, -1 to 1."""
    total = tonnage[0] + tonnage[1]
    if total <= 0.0:
        return 0.0
    return (tonnage[side] - tonnage[1 - side]) / total


@wp.func
def loudness(rules: Rules, mechs: Mechs, senses: Senses, e: int, m: int, j: int, r: wp.vec3) -> float:
    """Return how loud mech j at relative position ``r`` is to mech m; terrain and smoke between them muffle it."""
    loud = mechs.noise[e, j] / (1.0 + wp.dot(r, r))
    if senses.sight[e, m, j] != wp.uint8(1):
        loud *= rules.acoustic_occlusion
    return loud


@wp.func
def log_scale(loud: wp.vec4, loudest: float) -> wp.vec4:
    """Return four acoustic levels on a logarithmic scale, each 0 to 1; ``loudest`` reads 1."""
    scaled = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for i in range(4):
        scaled[i] = wp.min(1.0, natural_log(1.0 + loud[i]) / natural_log(1.0 + loudest))
    return scaled


@wp.func
def quadrant_levels(rules: Rules, mechs: Mechs, senses: Senses, e: int, m: int, cs: wp.vec2, loudest: float) -> wp.vec4:
    """Return the acoustic levels front left, front right, rear left and rear right of a mech, each 0 to 1."""
    total = wp.vec4(0.0, 0.0, 0.0, 0.0)
    p = mechs.pos[e, m]
    for j in range(mechs.alive.shape[1]):
        if j != m and mechs.alive[e, j] == 1 and mechs.noise[e, j] > 0.0:
            r = mechs.pos[e, j] - p
            rel = to_heading(r, cs)
            quadrant = int(0)
            if rel[0] <= 0.0:
                quadrant = 2
            if rel[1] < 0.0:
                quadrant += 1
            total[quadrant] = total[quadrant] + loudness(rules, mechs, senses, e, m, j, r)
    return log_scale(total, loudest)


@wp.func
def is_targeted(rules: Rules, mechs: Mechs, senses: Senses, e: int, m: int) -> bool:
    p = mechs.pos[e, m]
    j = next_hostile_in_sight(mechs.alive, mechs.team, senses.sight, e, m, 0)
    while j < mechs.alive.shape[1]:
        if wp.length(mechs.pos[e, j] - p) <= rules.targeted_vox:
            return True
        j = next_hostile_in_sight(mechs.alive, mechs.team, senses.sight, e, m, j + 1)
    return False


@wp.func
def missile_inbound(
    rules: Rules,
    e: int,
    m: int,
    team: wp.array2d(dtype=wp.int32),
    round_weapon: wp.array3d(dtype=wp.int32),
    round_target: wp.array3d(dtype=wp.int32),
) -> bool:
    slots = team.shape[1] * ROUNDS_PER_MECH
    slot = next_round(round_weapon, e, 0, slots)
    while slot < slots:
        j = slot // ROUNDS_PER_MECH
        s = slot - j * ROUNDS_PER_MECH
        homing = rules.weapons[round_weapon[e, j, s]].guidance == HOMING
        if homing and round_target[e, j, s] == m and team[e, j] != team[e, m]:
            return True
        slot = next_round(round_weapon, e, slot + 1, slots)
    return False


@wp.kernel
def write_ego_senses(
    rules: Rules,
    display: DisplayRules,
    mechs: Mechs,
    hit_dir: wp.array2d(dtype=wp.vec3),
    was_hit: wp.array2d(dtype=wp.int32),
    rounds: Rounds,
    senses: Senses,
    rows_out: ObsRows,
):
    """Clear the ego columns, then write sound, hits, warnings and sensor quality."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    clear_columns(row, EGO_AT, EGO_DIM)
    if mechs.alive[e, m] == 0:
        return
    cs = cos_sin(mechs.yaw[e, m])
    levels = float(display.scope) * quadrant_levels(rules, mechs, senses, e, m, cs, display.loudest)
    put(row, EGO.noise_front_left, levels[0])
    put(row, EGO.noise_front_right, levels[1])
    put(row, EGO.noise_rear_left, levels[2])
    put(row, EGO.noise_rear_right, levels[3])
    put(row, EGO.targeted, as_flag(is_targeted(rules, mechs, senses, e, m)))
    put(row, EGO.under_fire, float(was_hit[e, m]))
    put(row, EGO.painted, as_flag(mechs.painted[e, m] > 0))
    hit = to_heading(hit_dir[e, m], cs)
    put(row, EGO.hit_ahead, clamp_unit(hit[0]))
    put(row, EGO.hit_left, clamp_unit(hit[1]))
    inbound = missile_inbound(rules, e, m, mechs.team, rounds.round_weapon, rounds.round_target)
    put(row, EGO.missile_inbound, as_flag(inbound))
    put(row, EGO.sensor_quality, senses.quality[e, m] / rules.quality_max)
    put(row, EGO.jam, senses.jam[e, m])


@wp.kernel
def write_ego_state(
    rules: Rules,
    display: DisplayRules,
    world: World,
    episode: Episode,
    mechs: Mechs,
    controls: Controls,
    rows_out: ObsRows,
):
    """Write the mech's condition, the zone, the score and the time, after ``write_ego_senses``."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0 or mechs.alive[e, m] == 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    c = mechs.chassis[e, m]
    side = mechs.team[e, m]
    cs = cos_sin(mechs.yaw[e, m])
    put(row, EGO.hull, wp.clamp(mechs.hp[e, m] / rules.chassis[c].hp, 0.0, 1.0))
    put(row, EGO.heat, wp.clamp(mechs.heat[e, m] / (rules.chassis[c].heat_cap * display.heat_scale), 0.0, 1.0))
    put(row, EGO.stability_risk, 1.0 - mechs.stability[e, m] / rules.max_stability)
    running = 1 - mechs.shutdown[e, m]
    put(row, EGO.ewar, float(running * (controls.eccm[e, m] - controls.ecm[e, m])))
    put(row, EGO.suppressed, float(mechs.suppressed[e, m]) / float(rules.suppressed_ticks))
    vel = float(running) * to_heading(mechs.vel[e, m], cs)
    put(row, EGO.vel_ahead, clamp_unit(vel[0] / display.vel_scale_xy))
    put(row, EGO.vel_left, clamp_unit(vel[1] / display.vel_scale_xy))
    put(row, EGO.vel_up, clamp_unit(vel[2] / display.vel_scale_z))
    put(row, EGO.laser_cooldown, cooldown_share(rules, mechs, e, m, LASER))
    put(row, EGO.missile_cooldown, cooldown_share(rules, mechs, e, m, MISSILE))
    put(row, EGO.kinetic_cooldown, timer_share(rules, mechs, e, m, KINETIC))
    put(row, EGO.painter_cooldown, cooldown_share(rules, mechs, e, m, PAINTER))
    pos = mechs.pos[e, m]
    zone = world.zone[e]
    to_zone = to_heading(wp.vec3(zone[0] - pos[0], zone[1] - pos[1], 0.0), cs) / longest_side(world.size[e])
    put(row, EGO.in_zone, as_flag(in_zone(zone, pos)))
    put(row, EGO.zone_ahead, to_zone[0])
    put(row, EGO.zone_left, to_zone[1])
    put(row, EGO.zone_control, zone_lead(episode.zone_tonnage[e], side))
    goal = winning_score(rules, episode.seed[e])
    put(row, EGO.my_score, wp.min(1.0, episode.score[e][side] / goal))
    put(row, EGO.enemy_score, wp.min(1.0, episode.score[e][1 - side] / goal))
    put(row, EGO.time, float(episode.decision[e]) / float(time_limit(rules, episode.seed[e])))
    put(row, EGO.display_mode, float(controls.sort_mode[e, m] + 3 * controls.hostile_only[e, m]) / DISPLAY_MODES)


@wp.func
def shown_mass(suites: Suites, mechs: Mechs, controls: Controls, e: int, m: int, hostile: bool) -> float:
    total = float(0.0)
    for k in range(controls.contact.shape[2]):
        j = controls.contact[e, m, k]
        if j >= 0 and (mechs.team[e, j] != mechs.team[e, m]) == hostile:
            total += suites.threat[mechs.chassis[e, j]]
    return wp.min(1.0, total / FULL_MASS)


@wp.kernel
def write_descriptor_and_panel(
    rules: Rules,
    display: DisplayRules,
    suites: Suites,
    mechs: Mechs,
    controls: Controls,
    was_hit: wp.array2d(dtype=wp.int32),
    rows_out: ObsRows,
):
    """Write the suite descriptor and the panel, except ``panel.squad``; intel and orders are always 0."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    c = mechs.chassis[e, m]
    living = float(mechs.alive[e, m])
    for i in range(DESCRIPTOR_DIM):
        put(row, DESCRIPTOR_AT + i, living * float(display.descriptor) * suites.descriptors[c, i])
    for i in range(PANEL_DIM):
        if PANEL_AT + i != PANEL.squad:
            put(row, PANEL_AT + i, 0.0)
    if mechs.alive[e, m] == 0:
        return
    shown = int(0)
    for k in range(controls.contact.shape[2]):
        shown += wp.where(controls.contact[e, m, k] >= 0, 1, 0)
    low = mechs.hp[e, m] < LOW_HULL * rules.chassis[c].hp or mechs.stability[e, m] < LOW_STABILITY
    hot = mechs.heat[e, m] > HIGH_HEAT * rules.chassis[c].heat_cap
    slots = float(wp.max(1, suites.suite_slots[c]))  # an attention budget may leave none, and an alert costs nothing
    put(row, PANEL.contacts, wp.min(1.0, float(shown) / slots))
    put(row, PANEL.threat_mass, shown_mass(suites, mechs, controls, e, m, True))
    put(row, PANEL.friendly_mass, shown_mass(suites, mechs, controls, e, m, False))
    put(row, PANEL.alert, float(display.alerts) * as_flag(low or hot or was_hit[e, m] == 1))
    put(row, PANEL.detail, float(suites.squad_detail[c]) / MAX_DETAIL)
