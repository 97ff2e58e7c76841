"""Fills the ego, descriptor and panel columns of ``observe``: what a pilot knows of itself and of its display.

One thread per mech writes its own row. Sound comes in four quadrants around the heading; own velocity is hidden
while shut down.
"""

# ruff: noqa: E501
import warp as wp

from echelon.env import layout
from echelon.env.display import Display
from echelon.env.observe.kernels import PANEL_AT, PANEL_SQUAD, bit
from echelon.env.referee import in_zone
from echelon.sim.geometry import clamp_unit, cos_sin, to_heading
from echelon.sim.kernels.fire import HOMING
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

EGO_AT = wp.constant(layout.offset("ego"))
EGO_DIM = wp.constant(len(layout.EGO))
DESCRIPTOR_AT = wp.constant(layout.offset("descriptor"))
DESCRIPTOR_DIM = wp.constant(len(layout.DESCRIPTOR))
PANEL_DIM = wp.constant(len(layout.PANEL))
THREAT_SPAN = wp.constant(5.0)
"""Class weight that fills the threat and friendly mass gauges."""
DISPLAY_MODES = wp.constant(5.0)
LOW_HULL = wp.constant(0.25)
HIGH_HEAT = wp.constant(0.9)
LOW_STABILITY = wp.constant(20.0)
LASER, MISSILE, GAUSS, PAINTER = wp.constant(0), wp.constant(2), wp.constant(3), wp.constant(5)


@wp.func
def cooldown_share(rules: Rules, ticks: int, w: int) -> float:
    """Cooldown left as a share of weapon w's own."""
    return wp.min(1.0, float(ticks) / float(rules.weapon_cooldown_ticks[w]))


@wp.func
def zone_lead(tonnage: wp.vec2, side: int) -> float:
    """Tonnage balance in the zone from one side's view, -1 to 1."""
    total = tonnage[0] + tonnage[1]
    if total <= 0.0:
        return 0.0
    return (tonnage[side] - tonnage[1 - side]) / total


@wp.func
def loudness(rules: Rules, e: int, m: int, j: int, r: wp.vec3, noise: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8)) -> float:
    """How loud j at relative position r is to m; walls and smoke between them muffle it."""
    loud = noise[e, j] / (1.0 + wp.dot(r, r))
    if sight[e, m, j] != wp.uint8(1):
        loud *= rules.acoustic_occlusion
    return loud


@wp.func
def gauge(loud: wp.vec4, acoustic_ref: float) -> wp.vec4:
    """Summed loudness of four directions on a logarithmic scale, each 0 to 1."""
    out = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for i in range(4):
        out[i] = wp.min(1.0, wp.log(1.0 + loud[i]) / wp.log(1.0 + acoustic_ref))
    return out


@wp.func
def hear(
    rules: Rules, e: int, m: int, cs: wp.vec2, acoustic_ref: float, alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), noise: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8),
) -> wp.vec4:
    """Loudness of the front-left, front-right, rear-left and rear-right quadrants, each 0 to 1."""
    sum4 = wp.vec4(0.0, 0.0, 0.0, 0.0)
    for j in range(alive.shape[1]):
        if j != m and alive[e, j] == 1 and noise[e, j] > 0.0:
            r = pos[e, j] - pos[e, m]
            rel = to_heading(r, cs)
            quadrant = int(0)
            if rel[0] <= 0.0:
                quadrant = 2
            if rel[1] < 0.0:
                quadrant += 1
            sum4[quadrant] = sum4[quadrant] + loudness(rules, e, m, j, r, noise, sight)
    return gauge(sum4, acoustic_ref)


@wp.func
def is_targeted(rules: Rules, e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), sight: wp.array3d(dtype=wp.uint8)) -> bool:
    """Whether some hostile close by has sight to this mech."""
    for j in range(alive.shape[1]):
        if alive[e, j] == 1 and team[e, j] != team[e, m] and sight[e, m, j] == wp.uint8(1):
            if wp.length(pos[e, j] - pos[e, m]) <= rules.targeted_range:
                return True
    return False


@wp.func
def missile_inbound(
    rules: Rules, e: int, m: int, team: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32),
) -> bool:
    """Whether a living missile homes on this mech."""
    for j in range(team.shape[1]):
        if team[e, j] != team[e, m]:
            for s in range(ROUNDS_PER_MECH):
                w = round_weapon[e, j, s]
                if w >= 0 and round_target[e, j, s] == m and rules.weapon_guidance[wp.max(w, 0)] == HOMING:
                    return True
    return False


@wp.kernel
def write_ego_senses(
    # rules
    rules: Rules, display: Display, obs_scale: wp.array(dtype=wp.float32),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), noise: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8), painted: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32), hit_dir: wp.array2d(dtype=wp.vec3), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write what the mech hears and feels: ego columns 0-6 and 10-14."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    for i in range(EGO_DIM):
        obs[t, n, EGO_AT + i] = 0.0
    if alive[e, m] == 0:
        return
    cs = cos_sin(yaw[e, m])
    loud = hear(rules, e, m, cs, obs_scale[3], alive, pos, noise, sight)
    for i in range(4):
        obs[t, n, EGO_AT + i] = float(display.scope) * loud[i]
    obs[t, n, EGO_AT + 4] = bit(is_targeted(rules, e, m, alive, team, pos, sight))
    obs[t, n, EGO_AT + 5] = float(was_hit[e, m])
    obs[t, n, EGO_AT + 6] = bit(painted[e, m] > 0)
    hit = to_heading(hit_dir[e, m], cs)
    obs[t, n, EGO_AT + 10] = clamp_unit(hit[0])
    obs[t, n, EGO_AT + 11] = clamp_unit(hit[1])
    obs[t, n, EGO_AT + 12] = bit(missile_inbound(rules, e, m, team, round_weapon, round_target))
    obs[t, n, EGO_AT + 13] = quality[e, m] / rules.quality_max
    obs[t, n, EGO_AT + 14] = jam[e, m]


@wp.kernel
def write_ego_state(
    # rules
    rules: Rules, obs_scale: wp.array(dtype=wp.float32),
    # world
    zone: wp.array(dtype=wp.vec3), size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32), suppressed: wp.array2d(dtype=wp.int32), cooldown: wp.array3d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32), zone_tonnage: wp.array(dtype=wp.vec2), score: wp.array(dtype=wp.vec2), decision: wp.array(dtype=wp.int32), sort_mode: wp.array2d(dtype=wp.int32), hostile_only: wp.array2d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the mech's condition and its place in the match: ego columns 7-9 and 15-31."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0 or alive[e, m] == 0:
        return
    t = obs_row[0]
    c = chassis[e, m]
    side = team[e, m]
    cs = cos_sin(yaw[e, m])
    obs[t, n, EGO_AT + 7] = wp.clamp(hp[e, m] / rules.max_hp[c], 0.0, 1.0)
    obs[t, n, EGO_AT + 8] = wp.clamp(heat[e, m] / (rules.heat_cap[c] * obs_scale[2]), 0.0, 1.0)
    obs[t, n, EGO_AT + 9] = 1.0 - stability[e, m] / rules.max_stability
    running = 1 - shutdown[e, m]
    obs[t, n, EGO_AT + 15] = float(running * (eccm[e, m] - ecm[e, m]))
    obs[t, n, EGO_AT + 16] = float(suppressed[e, m]) / float(rules.suppressed_ticks)
    v = float(running) * to_heading(vel[e, m], cs)
    obs[t, n, EGO_AT + 17] = clamp_unit(v[0] / obs_scale[0])
    obs[t, n, EGO_AT + 18] = clamp_unit(v[1] / obs_scale[0])
    obs[t, n, EGO_AT + 19] = clamp_unit(v[2] / obs_scale[1])
    obs[t, n, EGO_AT + 20] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[LASER]], LASER)
    obs[t, n, EGO_AT + 21] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[MISSILE]], MISSILE)
    obs[t, n, EGO_AT + 22] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[GAUSS]], GAUSS)
    obs[t, n, EGO_AT + 23] = cooldown_share(rules, cooldown[e, m, rules.weapon_cooldown[PAINTER]], PAINTER)
    obs[t, n, EGO_AT + 24] = bit(in_zone(zone[e], pos[e, m]))
    width = float(wp.max(size[e][0], size[e][1]))
    way = to_heading(wp.vec3(zone[e][0] - pos[e, m][0], zone[e][1] - pos[e, m][1], 0.0), cs) / width
    obs[t, n, EGO_AT + 25] = way[0]
    obs[t, n, EGO_AT + 26] = way[1]
    obs[t, n, EGO_AT + 27] = zone_lead(zone_tonnage[e], side)
    obs[t, n, EGO_AT + 28] = wp.min(1.0, score[e][side] / rules.score_to_win)
    obs[t, n, EGO_AT + 29] = wp.min(1.0, score[e][1 - side] / rules.score_to_win)
    obs[t, n, EGO_AT + 30] = float(decision[e]) / float(rules.max_decisions)
    obs[t, n, EGO_AT + 31] = float(sort_mode[e, m] + 3 * hostile_only[e, m]) / DISPLAY_MODES


@wp.func
def shown_mass(e: int, m: int, hostile: bool, threat: wp.array(dtype=wp.float32), contact: wp.array3d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32)) -> float:
    """Class weight of the shown hostiles or friends, as a share of a full gauge."""
    total = float(0.0)
    for k in range(contact.shape[2]):
        j = contact[e, m, k]
        if j >= 0 and (team[e, j] != team[e, m]) == hostile:
            total += threat[chassis[e, j]]
    return wp.min(1.0, total / THREAT_SPAN)


@wp.kernel
def write_descriptor_and_panel(
    # rules
    rules: Rules, display: Display, descriptors: wp.array2d(dtype=wp.float32), threat: wp.array(dtype=wp.float32), suite_slots: wp.array(dtype=wp.int32), suite_squad: wp.array2d(dtype=wp.int32),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), was_hit: wp.array2d(dtype=wp.int32), contact: wp.array3d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the suite descriptor and the panel gauges but the squad's; intel and orders are empty streams here."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    c = chassis[e, m]
    living = float(alive[e, m])
    for i in range(DESCRIPTOR_DIM):
        obs[t, n, DESCRIPTOR_AT + i] = living * float(display.descriptor) * descriptors[c, i]
    for i in range(PANEL_DIM):
        if i != PANEL_SQUAD:
            obs[t, n, PANEL_AT + i] = 0.0
    if alive[e, m] == 0:
        return
    shown = int(0)
    for k in range(contact.shape[2]):
        shown += wp.where(contact[e, m, k] >= 0, 1, 0)
    low = hp[e, m] < LOW_HULL * rules.max_hp[c] or stability[e, m] < LOW_STABILITY
    hot = heat[e, m] > HIGH_HEAT * rules.heat_cap[c]
    room = float(wp.max(1, suite_slots[c]))  # attention may leave none, and an alert costs nothing
    obs[t, n, PANEL_AT] = wp.min(1.0, float(shown) / room)
    obs[t, n, PANEL_AT + 4] = shown_mass(e, m, True, threat, contact, team, chassis)
    obs[t, n, PANEL_AT + 5] = shown_mass(e, m, False, threat, contact, team, chassis)
    obs[t, n, PANEL_AT + 6] = float(display.alerts) * bit(low or hot or was_hit[e, m] == 1)
    obs[t, n, PANEL_AT + 7] = float(suite_squad[c, 1]) / 2.0
