"""What mechs can know at the end of a decision: sensor quality, sight between every pair, and who is visible.

Sight is cast once per pair, from the lower to the higher index, and shared both ways. ``fresh`` masks the
environments to look at, so the same kernels serve final observations and resets.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.arsenal import Guidance
from echelon.sim.raycast import sight_clear, smoke_blocks
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


CLEAR = wp.constant(wp.uint8(1))
SMOKED = wp.constant(wp.uint8(2))
HOMING = wp.constant(int(Guidance.HOMING))


@wp.func
def emission(rules: Rules, distance: float) -> float:
    """Strength of an emitter at a distance, 1 at its centre and 0 at its reach."""
    return wp.max(0.0, 1.0 - distance / rules.ewar_range)


@wp.func
def quality_of(
    rules: Rules, e: int, m: int, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), shutdown: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
) -> wp.vec3:
    """Sensor quality of a mech, and the strength of the hostile ECM and of the friendly ECCM that make it."""
    if alive[e, m] == 0 or shutdown[e, m] == 1:
        return wp.vec3(rules.quality_min, 0.0, 0.0)
    jamming = float(0.0)
    aid = float(0.0)
    for j in range(alive.shape[1]):
        if (j != m or rules.own_eccm == 1) and alive[e, j] == 1 and shutdown[e, j] == 0 and ecm[e, j] + eccm[e, j] > 0:
            strength = emission(rules, wp.length(pos[e, j] - pos[e, m]))
            if team[e, j] != team[e, m] and ecm[e, j] == 1:
                jamming = wp.max(jamming, strength)
            if team[e, j] == team[e, m] and eccm[e, j] == 1:
                aid = wp.max(aid, strength)
    q = 1.0 - rules.ecm_weight * jamming + rules.eccm_weight * aid
    return wp.vec3(wp.clamp(q, rules.quality_min, rules.quality_max), jamming, aid)


@wp.kernel
def sense_quality(
    # rules
    rules: Rules,
    # state in
    fresh: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), shutdown: wp.array2d(dtype=wp.int32),
    # controls
    ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # state out
    quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), aid: wp.array2d(dtype=wp.float32),
):
    """What every mech's sensors are worth at the end of a decision."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    found = quality_of(rules, e, m, alive, team, pos, shutdown, ecm, eccm)
    quality[e, m] = found[0]
    jam[e, m] = found[1]
    aid[e, m] = found[2]


@wp.kernel
def sense_for_launch(
    # rules
    rules: Rules,
    # state in
    alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), shutdown: wp.array2d(dtype=wp.int32),
    # controls
    trigger: wp.array2d(dtype=wp.int32), ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # state out
    quality: wp.array2d(dtype=wp.float32),
):
    """Sensor quality within a tick, where a missile's lock asks for it: of mechs that hold a homing weapon's trigger."""
    e, m = wp.tid()
    for w in range(NUM_WEAPONS):
        t = rules.trigger_of[chassis[e, m], w]
        if rules.weapon_guidance[w] == HOMING and t >= 0 and (trigger[e, m] & (1 << wp.max(t, 0))) != 0:
            quality[e, m] = quality_of(rules, e, m, alive, team, pos, shutdown, ecm, eccm)[0]


@wp.kernel
def sense_sight(
    # rules
    rules: Rules,
    # world
    sight_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), clouds: wp.array(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3),
    # state out
    sight: wp.array3d(dtype=wp.uint8),
):
    """Sight between this mech and every one of higher index: terrain first, then smoke."""
    e, i = wp.tid()
    if fresh[e] == 0:
        return
    sight[e, i, i] = CLEAR
    for j in range(i + 1, alive.shape[1]):
        seen = wp.uint8(0)
        if alive[e, i] == 1 and alive[e, j] == 1:
            if sight_clear(sight_plane, e, size[e], pos[e, i], pos[e, j]):
                seen = CLEAR
                if smoke_blocks(clouds[e], cloud_ticks, cloud_pos, e, rules.smoke_radius, pos[e, i], pos[e, j]):
                    seen = SMOKED
        sight[e, i, j] = seen
        sight[e, j, i] = seen


@wp.func
def own_pack_paint(
    e: int, m: int, j: int, painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32),
) -> bool:
    """Whether j is painted by the pack of m."""
    by = painter[e, j]
    if painted[e, j] == 0 or by < 0:
        return False
    return team[e, by] == team[e, m] and pack[e, by] == pack[e, m]


@wp.kernel
def sense_visible(
    # rules
    rules: Rules, sensor_range: wp.array(dtype=wp.float32), paint_reports: wp.array(dtype=wp.int32),
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), heat: wp.array2d(dtype=wp.float32), shutdown: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), sight: wp.array3d(dtype=wp.uint8), quality: wp.array2d(dtype=wp.float32), clouds: wp.array(dtype=wp.int32), cloud_ticks: wp.array3d(dtype=wp.int32), cloud_pos: wp.array3d(dtype=wp.vec3),
    # controls
    ecm: wp.array2d(dtype=wp.int32), eccm: wp.array2d(dtype=wp.int32),
    # state out
    visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32),
):
    """Which living others this mech may know of, and since when: paint, radar, thermal bloom, emissions or sight."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    for j in range(alive.shape[1]):
        known = bool(False)
        if j != m and alive[e, m] == 1 and alive[e, j] == 1:
            q = quality[e, m]
            known = rules.full_observation == 1 or sight[e, m, j] == CLEAR
            if not known:
                known = wp.length(pos[e, j] - pos[e, m]) <= rules.radar * q * sensor_range[chassis[e, m]]
            if not known and q >= rules.paint_quality and paint_reports[chassis[e, m]] == 1:
                known = own_pack_paint(e, m, j, painted, painter, team, pack)
            if not known and team[e, j] != team[e, m]:
                emits = shutdown[e, j] == 0 and ecm[e, j] + eccm[e, j] > 0
                if emits or heat[e, j] > rules.bloom_heat * rules.heat_cap[chassis[e, j]]:
                    known = not smoke_blocks(clouds[e], cloud_ticks, cloud_pos, e, rules.smoke_radius, pos[e, m], pos[e, j])
        if known:
            visible[e, m, j] = wp.uint8(1)
            seen[e, m, j] = decision[e]
        else:
            visible[e, m, j] = wp.uint8(0)
