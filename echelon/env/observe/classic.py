"""Fills what only the classic layout has: telemetry map, sound, own class, the 39 self scalars and the chosen target.

One thread per mech writes its own row; a dead mech's columns are zero. The telemetry map is shown turned by the quarter
nearest to the heading, so that every bin is seen whole and ``ahead`` means the same in all maps of a row.
"""

# ruff: noqa: E501
import warp as wp

from echelon.env import layout
from echelon.env.observe.ego import (
    GAUSS,
    LASER,
    MISSILE,
    PAINTER,
    cooldown_share,
    hear,
    is_targeted,
    missile_inbound,
    zone_lead,
)
from echelon.env.observe.kernels import bit, has_target
from echelon.env.referee import in_zone
from echelon.sim.arsenal import Cooldown
from echelon.sim.geometry import HALF_PI, clamp_unit, cos_sin, to_heading
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SIDE = wp.constant(layout.TELEMETRY_SIDE)
CRITICAL_HEAT = wp.constant(0.85)
AMS_TIMER = wp.constant(int(Cooldown.AMS))
CLASSES = wp.constant(4)
SORT_MODES = wp.constant(3)
TARGET_SLOTS = wp.constant(layout.CLASSIC_SLOTS)
SELF_DIM = wp.constant(39)


@wp.kernel
def write_telemetry(
    # rules
    telemetry_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), yaw: wp.array2d(dtype=wp.float32), telemetry: wp.array2d(dtype=wp.uint8),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the telemetry map, rows from rear to front, columns from right to left."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    quarter = int(wp.floor(yaw[e, m] / HALF_PI + 0.5)) & 3
    living = float(alive[e, m])
    for i in range(SIDE):
        for j in range(SIDE):
            x = i
            y = j
            if quarter == 1:
                x = SIDE - 1 - j
                y = i
            if quarter == 2:
                x = SIDE - 1 - i
                y = SIDE - 1 - j
            if quarter == 3:
                x = j
                y = SIDE - 1 - i
            obs[t, n, telemetry_at + i * SIDE + j] = living * float(telemetry[e, x * SIDE + y])


@wp.kernel
def write_self_senses(
    # rules
    rules: Rules, obs_scale: wp.array(dtype=wp.float32), acoustic_at: wp.int32, hull_at: wp.int32, self_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), noise: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write sound, own class and what the mech notices of others: self scalars 0-2 and 9-14; zero all for the dead."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    for i in range(CLASSES):
        obs[t, n, acoustic_at + i] = 0.0
        obs[t, n, hull_at + i] = bit(alive[e, m] == 1 and chassis[e, m] == i)
    if alive[e, m] == 0:
        for i in range(SELF_DIM):
            obs[t, n, self_at + i] = 0.0
        return
    cs = cos_sin(yaw[e, m])
    sound = hear(rules, e, m, cs, obs_scale[3], alive, pos, noise, sight)
    for i in range(4):
        obs[t, n, acoustic_at + i] = sound[i]
    hit = to_heading(hit_dir[e, m], cs)
    obs[t, n, self_at] = bit(is_targeted(rules, e, m, alive, team, pos, sight))
    obs[t, n, self_at + 1] = float(was_hit[e, m])
    obs[t, n, self_at + 2] = bit(painted[e, m] > 0)
    for i in range(3):
        obs[t, n, self_at + 9 + i] = clamp_unit(hit[i])
    obs[t, n, self_at + 12] = bit(missile_inbound(rules, e, m, team, round_weapon, round_target))
    obs[t, n, self_at + 13] = quality[e, m] / rules.quality_max
    obs[t, n, self_at + 14] = jam[e, m]


@wp.kernel
def write_self_state(
    # rules
    rules: Rules, obs_scale: wp.array(dtype=wp.float32), self_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32), suppressed: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the mech's condition: self scalars 3-8 and 15-25."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0 or alive[e, m] == 0:
        return
    t = obs_row[0]
    c = chassis[e, m]
    share = heat[e, m] / rules.heat_cap[c]
    running = float(1 - shutdown[e, m])
    obs[t, n, self_at + 3] = bit(shutdown[e, m] == 1 or heat[e, m] > rules.heat_cap[c])
    obs[t, n, self_at + 4] = bit(share > CRITICAL_HEAT)
    obs[t, n, self_at + 5] = wp.clamp(hp[e, m] / rules.max_hp[c], 0.0, 1.0)
    obs[t, n, self_at + 6] = wp.clamp(share / obs_scale[2], 0.0, 1.0)
    obs[t, n, self_at + 7] = wp.clamp(1.0 - share, 0.0, 1.0)
    obs[t, n, self_at + 8] = 1.0 - stability[e, m] / rules.max_stability
    obs[t, n, self_at + 15] = running * float(ecm[e, m])
    obs[t, n, self_at + 16] = running * float(eccm[e, m])
    obs[t, n, self_at + 17] = float(suppressed[e, m]) / float(rules.suppressed_ticks)
    obs[t, n, self_at + 18] = wp.min(1.0, float(cooldown[e, m, AMS_TIMER]) / float(wp.max(1, rules.ams_ticks)))
    v = running * to_heading(vel[e, m], cos_sin(yaw[e, m]))
    obs[t, n, self_at + 19] = clamp_unit(v[0] / obs_scale[0])
    obs[t, n, self_at + 20] = clamp_unit(v[1] / obs_scale[0])
    obs[t, n, self_at + 21] = clamp_unit(v[2] / obs_scale[1])
    obs[t, n, self_at + 22] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[LASER]], LASER)
    obs[t, n, self_at + 23] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[MISSILE]], MISSILE)
    obs[t, n, self_at + 24] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[GAUSS]], GAUSS)
    obs[t, n, self_at + 25] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[PAINTER]], PAINTER)


@wp.kernel
def write_self_match(
    # rules
    rules: Rules, self_at: wp.int32,
    # world
    zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), zone_tonnage: wp.array(dtype=wp.vec2), score: wp.array(dtype=wp.vec2), decision: wp.array(dtype=wp.int32), sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the mech's place in the match and its display settings: self scalars 26-38."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0 or alive[e, m] == 0:
        return
    t = obs_row[0]
    side = team[e, m]
    width = float(wp.max(size[e][0], size[e][1]))
    p = pos[e, m]
    way = to_heading(wp.vec3(zone[e][0] - p[0], zone[e][1] - p[1], -p[2]), cos_sin(yaw[e, m])) / width
    obs[t, n, self_at + 26] = bit(in_zone(zone[e], p))
    for i in range(3):
        obs[t, n, self_at + 27 + i] = way[i]
    obs[t, n, self_at + 30] = zone[e][2] / width
    obs[t, n, self_at + 31] = zone_lead(zone_tonnage[e], side)
    obs[t, n, self_at + 32] = wp.min(1.0, score[e][side] / rules.score_to_win)
    obs[t, n, self_at + 33] = wp.min(1.0, score[e][1 - side] / rules.score_to_win)
    obs[t, n, self_at + 34] = float(decision[e]) / float(rules.max_decisions)
    for i in range(SORT_MODES):
        obs[t, n, self_at + 35 + i] = bit(sort_mode[e, m] == i)
    obs[t, n, self_at + 38] = bit(hostile_only[e, m] == 1)


@wp.kernel
def write_target(
    # rules
    target_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), focus: wp.array2d(dtype=wp.int32), focus_slot: wp.array2d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write which contact slot the last action chose as target, and whether that target lives."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    for i in range(TARGET_SLOTS):
        obs[t, n, target_at + i] = bit(alive[e, m] == 1 and focus_slot[e, m] == i)
    obs[t, n, target_at + TARGET_SLOTS] = bit(alive[e, m] == 1 and has_target(e, m, focus, alive))
