# type: ignore
"""Blocks of the classic layout alone: sound, own class and the 39 self scalars.

One thread per mech writes its own row; a dead mech's columns are zero.
"""

import warp as wp

from echelon.env import layout
from echelon.env.display import DisplayRules
from echelon.env.observe import ego
from echelon.env.observe.helpers import ObsRows, as_flag, longest_side, put, row_index
from echelon.env.referee import in_zone
from echelon.sim.arsenal import Cooldown
from echelon.sim.episode_draws import time_limit, winning_score
from echelon.sim.geometry import clamp_unit, cos_sin, to_heading
from echelon.sim.state import Controls, Episode, Mechs, Rounds, Senses, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SELF = layout.position(layout.self_features())
SELF_DIM = wp.constant(len(layout.self_features()))
CLASSES = wp.constant(len(layout.CLASSES))
QUADRANTS = wp.constant(len(layout.ACOUSTIC))
CRITICAL_HEAT = wp.constant(0.85)
AMS_TIMER = wp.constant(int(Cooldown.AMS))
CLOSEST, BIGGEST, DAMAGED = (wp.constant(i) for i in range(3))
"""Values of ``sort_mode``."""


@wp.kernel
def write_self_senses(
    rules: Rules,
    display: DisplayRules,
    mechs: Mechs,
    hit_dir: wp.array2d(dtype=wp.vec3),
    was_hit: wp.array2d(dtype=wp.int32),
    rounds: Rounds,
    senses: Senses,
    acoustic_at: wp.int32,
    hull_at: wp.int32,
    self_at: wp.int32,
    rows_out: ObsRows,
):
    """Write sound, own class, hits, warnings and sensor quality; zero all three blocks for a dead mech."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    for i in range(CLASSES):
        put(row, hull_at + i, as_flag(mechs.alive[e, m] == 1 and mechs.chassis[e, m] == i))
    if mechs.alive[e, m] == 0:
        for i in range(QUADRANTS):
            put(row, acoustic_at + i, 0.0)
        for i in range(SELF_DIM):
            put(row, self_at + i, 0.0)
        return
    cs = cos_sin(mechs.yaw[e, m])
    levels = ego.quadrant_levels(rules, mechs, senses, e, m, cs, display.loudest)
    for i in range(QUADRANTS):
        put(row, acoustic_at + i, levels[i])
    hit = to_heading(hit_dir[e, m], cs)
    put(row, self_at + SELF.targeted, as_flag(ego.is_targeted(rules, mechs, senses, e, m)))
    put(row, self_at + SELF.under_fire, float(was_hit[e, m]))
    put(row, self_at + SELF.painted, as_flag(mechs.painted[e, m] > 0))
    put(row, self_at + SELF.hit_ahead, clamp_unit(hit[0]))
    put(row, self_at + SELF.hit_left, clamp_unit(hit[1]))
    put(row, self_at + SELF.hit_up, clamp_unit(hit[2]))
    inbound = ego.missile_inbound(rules, e, m, mechs.team, rounds.round_weapon, rounds.round_target)
    put(row, self_at + SELF.missile_inbound, as_flag(inbound))
    put(row, self_at + SELF.sensor_quality, senses.quality[e, m] / rules.quality_max)
    put(row, self_at + SELF.jam, senses.jam[e, m])


@wp.kernel
def write_self_state(
    rules: Rules, display: DisplayRules, mechs: Mechs, controls: Controls, self_at: wp.int32, rows_out: ObsRows
):
    """Write the mech's condition, velocity and cooldowns, after ``write_self_senses``."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0 or mechs.alive[e, m] == 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    c = mechs.chassis[e, m]
    heat = mechs.heat[e, m] / rules.chassis[c].heat_cap
    running = float(1 - mechs.shutdown[e, m])
    overheated = mechs.shutdown[e, m] == 1 or mechs.heat[e, m] > rules.chassis[c].heat_cap
    put(row, self_at + SELF.shutdown, as_flag(overheated))
    put(row, self_at + SELF.critical_heat, as_flag(heat > CRITICAL_HEAT))
    put(row, self_at + SELF.hull, wp.clamp(mechs.hp[e, m] / rules.chassis[c].hp, 0.0, 1.0))
    put(row, self_at + SELF.heat, wp.clamp(heat / display.heat_scale, 0.0, 1.0))
    put(row, self_at + SELF.heat_headroom, wp.clamp(1.0 - heat, 0.0, 1.0))
    put(row, self_at + SELF.stability_risk, 1.0 - mechs.stability[e, m] / rules.max_stability)
    put(row, self_at + SELF.ecm, running * float(controls.ecm[e, m]))
    put(row, self_at + SELF.eccm, running * float(controls.eccm[e, m]))
    put(row, self_at + SELF.suppressed, float(mechs.suppressed[e, m]) / float(rules.suppressed_ticks))
    ams = float(mechs.cooldown[e, m, AMS_TIMER]) / float(wp.max(1, rules.ams_ticks))
    put(row, self_at + SELF.ams_cooldown, wp.min(1.0, ams))
    vel = running * to_heading(mechs.vel[e, m], cos_sin(mechs.yaw[e, m]))
    put(row, self_at + SELF.vel_ahead, clamp_unit(vel[0] / display.vel_scale_xy))
    put(row, self_at + SELF.vel_left, clamp_unit(vel[1] / display.vel_scale_xy))
    put(row, self_at + SELF.vel_up, clamp_unit(vel[2] / display.vel_scale_z))
    put(row, self_at + SELF.laser_cooldown, ego.cooldown_share(rules, mechs, e, m, ego.LASER))
    put(row, self_at + SELF.missile_cooldown, ego.cooldown_share(rules, mechs, e, m, ego.MISSILE))
    put(row, self_at + SELF.kinetic_cooldown, ego.timer_share(rules, mechs, e, m, ego.KINETIC))
    put(row, self_at + SELF.painter_cooldown, ego.cooldown_share(rules, mechs, e, m, ego.PAINTER))


@wp.kernel
def write_self_match(
    rules: Rules, world: World, episode: Episode, mechs: Mechs, controls: Controls, self_at: wp.int32, rows_out: ObsRows
):
    """Write the zone, score, time and display controls, after ``write_self_senses``."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0 or mechs.alive[e, m] == 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    side = mechs.team[e, m]
    edge = longest_side(world.size[e])
    zone = world.zone[e]
    pos = mechs.pos[e, m]
    to_zone = to_heading(wp.vec3(zone[0] - pos[0], zone[1] - pos[1], -pos[2]), cos_sin(mechs.yaw[e, m])) / edge
    put(row, self_at + SELF.in_zone, as_flag(in_zone(zone, pos)))
    put(row, self_at + SELF.zone_ahead, to_zone[0])
    put(row, self_at + SELF.zone_left, to_zone[1])
    put(row, self_at + SELF.zone_up, to_zone[2])
    put(row, self_at + SELF.zone_radius, zone[2] / edge)
    put(row, self_at + SELF.zone_control, ego.zone_lead(episode.zone_tonnage[e], side))
    goal = winning_score(rules, episode.seed[e])
    put(row, self_at + SELF.my_score, wp.min(1.0, episode.score[e][side] / goal))
    put(row, self_at + SELF.enemy_score, wp.min(1.0, episode.score[e][1 - side] / goal))
    put(row, self_at + SELF.time, float(episode.decision[e]) / float(time_limit(rules, episode.seed[e])))
    mode = controls.sort_mode[e, m]
    put(row, self_at + SELF.sort_closest, as_flag(mode == CLOSEST))
    put(row, self_at + SELF.sort_biggest, as_flag(mode == BIGGEST))
    put(row, self_at + SELF.sort_damaged, as_flag(mode == DAMAGED))
    put(row, self_at + SELF.hostile_only, as_flag(controls.hostile_only[e, m] == 1))
