# type: ignore
"""Sensing at the end of a decision: sensor quality, line of sight between every pair of mechs, and visibility.

Sight is cast once per pair, from the lower to the higher index, and holds in both directions. ``fresh`` masks the
environments to process, so the same kernels serve final observations and resets.
"""

import warp as wp

from echelon.sim.arsenal import Guidance
from echelon.sim.kernels.fire import is_painted_for
from echelon.sim.raycast import sight_clear, smoke_blocks
from echelon.sim.scan import next_nonzero, next_unseen, see_directly
from echelon.sim.state import Controls, Mechs, Senses, Smoke, World
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


CLEAR = wp.constant(wp.uint8(1))
SMOKED = wp.constant(wp.uint8(2))
HOMING = wp.constant(int(Guidance.HOMING))


@wp.func
def emission(rules: Rules, distance: float) -> float:
    """Return the strength of an emitter at a distance: 1 at the emitter, 0 at its range and beyond."""
    return wp.max(0.0, 1.0 - distance / rules.ewar_vox)


@wp.func
def quality_of(rules: Rules, mechs: Mechs, controls: Controls, e: int, m: int) -> wp.vec3:
    if mechs.alive[e, m] == 0 or mechs.shutdown[e, m] == 1:
        return wp.vec3(rules.quality_min, 0.0, 0.0)
    jamming = float(0.0)
    aid = float(0.0)
    j = next_nonzero(controls.ecm, controls.eccm, e, 0)
    while j < mechs.alive.shape[1]:
        if (j != m or rules.own_eccm == 1) and mechs.alive[e, j] == 1 and mechs.shutdown[e, j] == 0:
            strength = emission(rules, wp.length(mechs.pos[e, j] - mechs.pos[e, m]))
            if mechs.team[e, j] != mechs.team[e, m] and controls.ecm[e, j] == 1:
                jamming = wp.max(jamming, strength)
            if mechs.team[e, j] == mechs.team[e, m] and controls.eccm[e, j] == 1:
                aid = wp.max(aid, strength)
        j = next_nonzero(controls.ecm, controls.eccm, e, j + 1)
    q = 1.0 - rules.ecm_weight * jamming + rules.eccm_weight * aid
    return wp.vec3(wp.clamp(q, rules.quality_min, rules.quality_max), jamming, aid)


@wp.kernel
def sense_quality(rules: Rules, mechs: Mechs, controls: Controls, fresh: wp.array(dtype=wp.int32), senses_out: Senses):
    """Compute the sensor quality of every mech at the end of a decision."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    found = quality_of(rules, mechs, controls, e, m)
    senses_out.quality[e, m] = found[0]
    senses_out.jam[e, m] = found[1]
    senses_out.aid[e, m] = found[2]


@wp.kernel
def sense_for_launch(rules: Rules, mechs: Mechs, controls: Controls, senses_out: Senses):
    """Compute the sensor quality within a tick, for mechs that hold the trigger of a homing weapon."""
    e, m = wp.tid()
    launches = bool(False)
    for w in range(NUM_WEAPONS):
        t = rules.trigger_of[mechs.chassis[e, m], w]
        if rules.weapons[w].guidance == HOMING and t >= 0 and (controls.trigger[e, m] & (1 << wp.max(t, 0))) != 0:
            launches = True
    if launches:
        senses_out.quality[e, m] = quality_of(rules, mechs, controls, e, m)[0]


@wp.kernel
def sense_sight(
    rules: Rules,
    world: World,
    mechs: Mechs,
    smoke: Smoke,
    fresh: wp.array(dtype=wp.int32),
    lanes: int,
    senses_out: Senses,
):
    """Compute the sight between this mech and the next half of the others, in a cycle: terrain first, then smoke.

    So every mech has as many pairs, which ``lanes`` threads share; each pair is cast from its lower index.
    """
    e, m, lane = wp.tid()
    if fresh[e] == 0:
        return
    n = mechs.alive.shape[1]
    if lane == 0:
        senses_out.sight[e, m, m] = CLEAR
    last = n // 2
    if 2 * last == n and m >= last:
        last = last - 1  # the mech opposite has this pair
    for k in range(lane + 1, last + 1, lanes):
        i = m
        j = m + k
        if j >= n:
            i = j - n
            j = m
        seen = wp.uint8(0)
        if mechs.alive[e, i] == 1 and mechs.alive[e, j] == 1:
            if sight_clear(world.sight_plane, e, world.size[e], mechs.pos[e, i], mechs.pos[e, j]):
                seen = CLEAR
                if smoke_blocks(smoke, e, rules.smoke_radius_vox, mechs.pos[e, i], mechs.pos[e, j]):
                    seen = SMOKED
        senses_out.sight[e, i, j] = seen
        senses_out.sight[e, j, i] = seen


@wp.kernel
def sense_visible(
    rules: Rules,
    mechs: Mechs,
    decision: wp.array(dtype=wp.int32),
    smoke: Smoke,
    controls: Controls,
    senses: Senses,
    sensor_range: wp.array(dtype=wp.float32),
    paint_reports: wp.array(dtype=wp.int32),
    fresh: wp.array(dtype=wp.int32),
    senses_out: Senses,
):
    """Compute which living mechs this mech detects: by sight, radar, paint, emissions or thermal bloom."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    step = decision[e]
    full = rules.full_observation
    see_directly(mechs.alive, senses.sight, full, e, m, step, senses_out.visible, senses_out.seen)
    if mechs.alive[e, m] == 0:
        return
    p = mechs.pos[e, m]
    team = mechs.team[e, m]
    q = senses.quality[e, m]
    radar = rules.radar_vox * q * sensor_range[mechs.chassis[e, m]]
    reported = q >= rules.paint_quality and paint_reports[mechs.chassis[e, m]] == 1
    n = mechs.alive.shape[1]
    j = next_unseen(mechs.alive, senses_out.visible, e, m, 0)
    while j < n:
        if j != m:
            known = wp.length(mechs.pos[e, j] - p) <= radar
            if not known and reported:
                known = is_painted_for(mechs, e, m, j)
            if not known and mechs.team[e, j] != team:
                emits = mechs.shutdown[e, j] == 0 and controls.ecm[e, j] + controls.eccm[e, j] > 0
                if emits or mechs.heat[e, j] > rules.bloom_heat * rules.chassis[mechs.chassis[e, j]].heat_cap:
                    known = not smoke_blocks(smoke, e, rules.smoke_radius_vox, p, mechs.pos[e, j])
            if known:
                senses_out.visible[e, m, j] = wp.uint8(1)
                senses_out.seen[e, m, j] = step
        j = next_unseen(mechs.alive, senses_out.visible, e, m, j + 1)
