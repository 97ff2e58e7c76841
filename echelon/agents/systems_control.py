"""What a scripted pilot does besides moving and shooting: EWAR, smoke, display and target preference."""

# ruff: noqa: E501
import warp as wp

from echelon.actions import HOSTILE_ONLY, OBS_CTRL_START, TARGET_START, ActionIndex
from echelon.agents.legacy import ECCM_ON, ECM_ON, TARGET_SLOTS
from echelon.agents.levels import EwarUse, Skill, SmokeUse
from echelon.agents.routes import REACH
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PACK, recall
from echelon.env.observe.ego import missile_inbound
from echelon.env.referee import in_zone
from echelon.nav.waypoints import AHEAD, shortest_layer, waypoint
from echelon.sim.arsenal import Chassis, Weapon
from echelon.sim.geometry import cos_sin
from echelon.sim.raycast import sight_clear
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

SECONDARY, SPECIAL = wp.constant(int(ActionIndex.SECONDARY)), wp.constant(int(ActionIndex.SPECIAL))
SORT_AT, FILTER_AT, TARGET_AT = wp.constant(OBS_CTRL_START), wp.constant(HOSTILE_ONLY), wp.constant(TARGET_START)
SCOUT = wp.constant(int(Chassis.SCOUT))
_E_ECM, E_COOL, E_AIDS, E_SILENT = (wp.constant(int(x)) for x in list(EwarUse)[1:])
S_DEFENSIVE, S_COVERING = wp.constant(int(SmokeUse.DEFENSIVE)), wp.constant(int(SmokeUse.SCREENING))
SMOKE_W = wp.constant(int(Weapon.SMOKE))
HOT_EWAR, POOR_QUALITY = wp.constant(0.7), wp.constant(0.7)
SMOKE_HURT = wp.constant(0.35)
SMOKE_SIGHT = wp.constant(20.0)
"""A hostile in sight within this range is worth a screen [vox]."""
COVER_CELLS, COVER_STEP = wp.constant(8), wp.constant(2)
"""Cells of the way ahead among which cover is near, and how many apart it is looked for."""
MATES_LINE = wp.constant(3.0)
"""No smoke bursts within this distance of a packmate's line of sight to its target [vox]."""


@wp.func
def emits(s: Skill, rules: Rules, heat_share: float, pack_quality: float, contact: bool) -> float:
    """EWAR column of a scout."""
    if s.ewar == 0 or (s.ewar == E_SILENT and not contact):
        return 0.0
    if s.ewar == E_COOL and heat_share > HOT_EWAR:
        return ECCM_ON
    if s.ewar >= E_AIDS and pack_quality < POOR_QUALITY:
        return ECCM_ON
    return ECM_ON


@wp.func
def pack_quality(e: int, m: int, alive: wp.array2d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32)) -> float:
    """Mean sensor quality of a pilot's living packmates, 1 without any."""
    total = float(0.0)
    n = float(0.0)
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and alive[e, k] == 1:
            total += quality[e, k]
            n += 1.0
    return wp.where(n > 0.0, total / wp.max(n, 1.0), 1.0)


@wp.func
def gap(point: wp.vec3, a: wp.vec3, b: wp.vec3) -> float:
    """Distance of a point from a segment [vox]."""
    along = b - a
    t = wp.clamp(wp.dot(point - a, along) / wp.max(1.0e-6, wp.dot(along, along)), 0.0, 1.0)
    return wp.length(point - a - along * t)


@wp.func
def burst_at(rules: Rules, p: wp.vec3, target: int, spot: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Where a pilot expects its smoke to burst: at its target, or as far ahead as the round flies."""
    reach = rules.weapon_range[SMOKE_W]
    if target >= 0 and wp.length(spot - p) <= reach:
        return spot
    return p + wp.vec3(cs[0] * reach, cs[1] * reach, 0.0)


@wp.func
def blinds_mate(e: int, m: int, burst: wp.vec3, crew: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), pilot_target: wp.array2d(dtype=wp.int32), pilot_sees: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3)) -> bool:
    """Whether smoke would come between a packmate and the target it sees."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and alive[e, k] == 1 and crew[e, k] >= FIRST_LEVEL_SCRIPT:
            if pilot_target[e, k] >= 0 and pilot_sees[e, k] == 1 and gap(burst, pos[e, k], pilot_spot[e, k]) <= MATES_LINE:
                return True
    return False


@wp.func
def nearest_in_sight(
    s: Skill, e: int, m: int, now: int, p: wp.vec3, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> wp.vec4:
    """Where the nearest hostile is that a pilot has in sight, and its distance [vox]; far away for none."""
    found = wp.vec4(0.0, 0.0, 0.0, 1.0e9)
    for j in range(team.shape[1]):
        if team[e, j] != team[e, m]:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            d = wp.length(known.pos - p)
            if known.sees == 1 and d < found[3]:
                found = wp.vec4(known.pos[0], known.pos[1], known.pos[2], d)
    return found


@wp.func
def cover_near(
    plane: wp.array3d(dtype=wp.uint64), bank_flow: wp.array4d(dtype=wp.uint8), flow_step: wp.array2d(dtype=wp.int32), e: int, layer: int, size: wp.vec3i, p: wp.vec3, foot: float, eye: wp.vec3,
) -> bool:
    """Whether the way to the zone leads out of the sight of ``eye`` soon."""
    for i in range(COVER_STEP, COVER_CELLS + 1, COVER_STEP):
        ahead = waypoint(bank_flow, flow_step, layer, size, p, foot, i)
        if ahead[2] != AHEAD:
            return False
        if not sight_clear(plane, e, size, eye, wp.vec3(ahead[0], ahead[1], p[2])):
            return True
    return False


@wp.func
def defends(s: Skill, hurt: bool, hit: bool, chased: bool, is_painted: bool) -> bool:
    """Whether a pilot wants smoke between itself and a target in its sight."""
    return s.smoke >= S_DEFENSIVE and ((hit and hurt) or (chased and is_painted))


@wp.kernel
def control_systems(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # state in
    script: wp.array2d(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), heat: wp.array2d(dtype=wp.float32), quality: wp.array2d(dtype=wp.float32), contact: wp.array3d(dtype=wp.int32), pilot_target: wp.array2d(dtype=wp.int32),
    # out
    actions: wp.array3d(dtype=wp.float32),
):
    """Write what a pilot emits and shows, and whom it prefers."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT or alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    c = chassis[e, m]
    j = pilot_target[e, m]
    actions[e, m, SORT_AT] = 1.0
    actions[e, m, FILTER_AT] = 1.0
    if rules.has_ewar[c] == 1:
        share = heat[e, m] / rules.heat_cap[c]
        actions[e, m, SECONDARY] = emits(s, rules, share, pack_quality(e, m, alive, quality), j >= 0)
    if j >= 0 and s.requests_target == 1:
        for k in range(TARGET_SLOTS):
            if contact[e, m, k] == j:
                actions[e, m, TARGET_AT + k] = 1.0


@wp.kernel
def deploy_smoke(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill), flow_step: wp.array2d(dtype=wp.int32),
    # world
    sight_plane: wp.array3d(dtype=wp.uint64), bank_flow: wp.array4d(dtype=wp.uint8), map_slot: wp.array(dtype=wp.int32), size: wp.array(dtype=wp.vec3i), zone: wp.array(dtype=wp.vec3),
    # state in
    script: wp.array2d(dtype=wp.int32), crew: wp.array2d(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), painted: wp.array2d(dtype=wp.int32), was_hit: wp.array2d(dtype=wp.int32), round_weapon: wp.array3d(dtype=wp.int32), round_target: wp.array3d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), pilot_target: wp.array2d(dtype=wp.int32), pilot_sees: wp.array2d(dtype=wp.int32), pilot_spot: wp.array2d(dtype=wp.vec3),
    # out
    actions: wp.array3d(dtype=wp.float32),
):
    """Throw smoke: the hurt and the hunted at what they see, and those whom a hostile out of their own reach sees in the open."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT or alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    j = pilot_target[e, m]
    if s.smoke == 0:
        return
    c = chassis[e, m]
    p = pos[e, m]
    sees = j >= 0 and pilot_sees[e, m] == 1
    chased = missile_inbound(rules, e, m, team, round_weapon, round_target)
    wants = sees and defends(s, hp[e, m] < SMOKE_HURT * rules.max_hp[c], was_hit[e, m] == 1, chased, painted[e, m] > 0)
    if not wants and s.smoke >= S_COVERING and not in_zone(zone[e], p):
        eye = nearest_in_sight(s, e, m, decision[e], p, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
        if eye[3] <= SMOKE_SIGHT and eye[3] > REACH[c]:
            foot = p[2] - rules.half[c][2]
            wants = not cover_near(sight_plane, bank_flow, flow_step, e, shortest_layer(map_slot[e], c), size[e], p, foot, wp.vec3(eye[0], eye[1], eye[2]))
    if wants and not blinds_mate(e, m, burst_at(rules, p, j, pilot_spot[e, m], cos_sin(yaw[e, m])), crew, alive, pos, pilot_target, pilot_sees, pilot_spot):
        actions[e, m, SPECIAL] = 1.0
