# type: ignore
"""Movement phase of a tick: rotation, throttle, jets, gravity, collision with step-up, map bounds, noise, landings.

Mechs move one after another in a random order, each against the new positions of those moved before it. On a CPU one
thread per environment does so (``move``). Where a mech can touch no other within the tick the order does not matter, so
on CUDA each of those has a thread, and one thread per environment then moves the others in order (``accelerate`` to
``move_near``), with equal results. Mechs do not push each other and may stand on each other.
"""

import warp as wp

from echelon.sim.arsenal import CHASSIS
from echelon.sim.geometry import boxes_overlap, cos_sin, wrap_angle
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.rng import STREAM_ORDER, below, draw_u32
from echelon.sim.scan import next_near
from echelon.sim.state import Controls, Episode, Events, Mechs, Paths, World
from echelon.sim.tables import Rules
from echelon.sim.world import Hazard

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

TOUCH = wp.constant(0.01)
"""Margin of a mech in the broad phase [vox], larger than any rounding error of a position."""
WIDEST_HALF = wp.constant(max(max(spec.size[:2]) for spec in CHASSIS) / 2.0)
"""Half width of the widest chassis [vox]."""
BY_CRASH = wp.constant(int(Hazard.CRASH))
ALL_BITS = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))


@wp.func
def last_cell(top: float) -> int:
    return int(wp.ceil(top)) - 1


@wp.func
def world_free(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, c: wp.vec3, h: wp.vec3) -> bool:
    """Whether a box overlaps neither bedrock nor a voxel set in ``plane``; cells outside the grid are free."""
    low = c - h
    top = c + h
    if low[2] < 0.0:
        return False
    x0 = wp.max(0, int(wp.floor(low[0])))
    y0 = wp.max(0, int(wp.floor(low[1])))
    z0 = int(wp.floor(low[2]))
    x1 = wp.min(size[0] - 1, last_cell(top[0]))
    y1 = wp.min(size[1] - 1, last_cell(top[1]))
    z1 = wp.min(size[2] - 1, last_cell(top[2]))
    if z0 > z1:
        return True
    band = (ALL_BITS >> wp.uint64(63 - z1 + z0)) << wp.uint64(z0)
    hit = wp.uint64(0)
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            hit = hit | plane[e, y, x]
    return (hit & band) == wp.uint64(0)


@wp.func
def mechs_free(
    rules: Rules, mechs: Mechs, e: int, m: int, near: wp.vec2i, old: wp.vec3, c: wp.vec3, h: wp.vec3
) -> bool:
    """Whether a box moved from ``old`` to ``c`` overlaps no living mech of ``near``, or leaves the overlap."""
    for j in range(near[0], near[1]):
        if j != m and mechs.alive[e, j] == 1:
            p = mechs.pos[e, j]
            hj = rules.chassis[mechs.chassis[e, j]].half
            if boxes_overlap(c, h, p, hj):
                if not boxes_overlap(old, h, p, hj):
                    return False
                if wp.length_sq(c - p) < wp.length_sq(old - p):
                    return False
    return True


@wp.func
def neighbours(rules: Rules, mechs: Mechs, e: int, m: int, h: wp.vec3, reach: wp.vec2) -> wp.vec2i:
    """Return the index range [first, end) of the living mechs that a step of ``reach`` [vox] may touch."""
    at = mechs.pos[e, m]
    count = mechs.alive.shape[1]
    widest = wp.vec2(h[0] + WIDEST_HALF + reach[0], h[1] + WIDEST_HALF + reach[1])
    first = count
    end = int(0)
    j = next_near(mechs.pos, e, 0, count, at, widest)
    while j < count:
        if j != m and mechs.alive[e, j] == 1:
            p = mechs.pos[e, j]
            hj = rules.chassis[mechs.chassis[e, j]].half
            if wp.abs(p[0] - at[0]) < h[0] + hj[0] + reach[0] and wp.abs(p[1] - at[1]) < h[1] + hj[1] + reach[1]:
                first = wp.min(first, j)
                end = j + 1
        j = next_near(mechs.pos, e, j + 1, count, at, widest)
    return wp.vec2i(first, end)


@wp.func
def reach_of(size: wp.vec3i, p: wp.vec3, h: wp.vec3, step: wp.vec3) -> wp.vec2:
    """Return half edges x, y about ``p`` of the area that a box may enter by ``step``, clamped to the map [vox]."""
    inside = clamp_to_map(size, p, h)
    return wp.vec2(
        h[0] + wp.abs(step[0]) + wp.abs(inside[0] - p[0]) + TOUCH,
        h[1] + wp.abs(step[1]) + wp.abs(inside[1] - p[1]) + TOUCH,
    )


@wp.func
def fits(
    rules: Rules, world: World, mechs: Mechs, e: int, m: int, near: wp.vec2i, old: wp.vec3, c: wp.vec3, h: wp.vec3
) -> bool:
    """Whether a box can move from ``old`` to ``c`` without hitting the map or a mech of ``near``."""
    if not world_free(world.move_plane, e, world.size[e], c, h):
        return False
    return mechs_free(rules, mechs, e, m, near, old, c, h)


@wp.func
def steer(rules: Rules, c: int, legged: bool, water: bool, drive: wp.vec4, cs: wp.vec2, vz: float) -> wp.vec3:
    """Return the velocity [vox/s] from throttles, jets and gravity, before damping."""
    f = drive[0]
    s = drive[1]
    n = wp.sqrt(f * f + s * s)
    if n > 1.0:
        f = f / n
        s = s / n
    speed = rules.chassis[c].max_speed
    jet = drive[2] * rules.chassis[c].max_jet
    if legged:
        speed *= rules.legged_speed
        jet *= rules.legged_jet
    if water:
        speed *= rules.water_speed
    return wp.vec3(
        (cs[0] * f - cs[1] * s) * speed, (cs[1] * f + cs[0] * s) * speed, vz + (jet - rules.gravity) * rules.dt
    )


@wp.func
def clamp_to_map(size: wp.vec3i, p: wp.vec3, h: wp.vec3) -> wp.vec3:
    return wp.vec3(
        wp.clamp(p[0], h[0], float(size[0]) - h[0]),
        wp.clamp(p[1], h[1], float(size[1]) - h[1]),
        wp.min(p[2], float(size[2]) - h[2]),
    )


@wp.func
def along(axis: int, amount: float) -> wp.vec3:
    v = wp.vec3(0.0, 0.0, 0.0)
    v[axis] = amount
    return v


@wp.func
def shuffle(e: int, n: int, seed: wp.uint32, tick: int, mechs_out: Mechs):
    """Fill ``order`` with a random permutation of 0 .. n-1 (Fisher-Yates)."""
    for i in range(n):
        j = below(draw_u32(seed, STREAM_ORDER, tick, i, 0), i + 1)
        mechs_out.order[e, i] = mechs_out.order[e, j]
        mechs_out.order[e, j] = i


@wp.func
def climbs(rules: Rules, vz: float) -> bool:
    """Whether a mech of vertical speed ``vz`` may step up: slow, or standing.

    Gravity acts before the collision test, so a standing mech falls at up to two ticks' acceleration.
    """
    fall = rules.damping * rules.gravity * rules.dt
    return wp.abs(vz) < rules.step_max_vz or (rules.step_max_vz > 0.0 and vz <= 0.0 and -vz <= 2.0 * fall)


@wp.func
def displace(
    rules: Rules, world: World, mechs: Mechs, e: int, m: int, near: wp.vec2i, v_in: wp.vec3, mechs_out: Mechs
) -> float:
    """Move one mech axis by axis with at most one step-up; write position and velocity, return its landing speed."""
    h = rules.chassis[mechs.chassis[e, m]].half
    p = mechs_out.pos[e, m]
    v = v_in
    stepped = bool(False)
    landing = float(0.0)
    for axis in range(3):
        desired = p + along(axis, v[axis] * rules.dt)
        # Clamped before the test: a box outside the map could slide past a corner and be clamped back into a wall.
        target = clamp_to_map(world.size[e], desired, h)
        if fits(rules, world, mechs_out, e, m, near, p, target, h):
            p = target
            if axis == 2 and target[2] < desired[2]:
                v[2] = wp.min(v[2], 0.0)
        else:
            moved = bool(False)
            if axis < 2 and not stepped and climbs(rules, v[2]):
                raised = clamp_to_map(world.size[e], target + wp.vec3(0.0, 0.0, rules.step_height_vox), h)
                if fits(rules, world, mechs_out, e, m, near, p, raised, h):
                    p = raised
                    moved = True
                    stepped = True
            if not moved:
                if axis == 2:
                    landing = wp.max(0.0, -v[2])
                v[axis] = 0.0
    mechs_out.pos[e, m] = p
    mechs_out.vel[e, m] = v
    return landing


@wp.func
def propelled(
    rules: Rules, world: World, mechs: Mechs, controls: Controls, events: Events, e: int, m: int, mechs_out: Mechs
) -> wp.vec3:
    """Turn a mech and return its velocity before collisions [vox/s]."""
    c = mechs.chassis[e, m]
    v = mechs_out.vel[e, m]
    if mechs.shutdown[e, m] == 1 and events.shutdown_due[e, m] == 0:
        v[2] = v[2] - rules.gravity * rules.dt
    else:
        d = controls.drive[e, m]
        if mechs.fallen[e, m] > 0:
            d = wp.vec4(0.0, 0.0, 0.0, 0.0)
        mechs_out.yaw[e, m] = wrap_angle(mechs_out.yaw[e, m] + d[3] * rules.chassis[c].max_yaw_rate * rules.dt)
        foot = mechs_out.pos[e, m][2] - rules.chassis[c].half[2]
        water = foot_material(world.material, e, world.size[e], mechs_out.pos[e, m], foot) == WATER
        v = steer(rules, c, mechs.leg_hp[e, m] <= 0.0, water, d, cos_sin(mechs_out.yaw[e, m]), v[2])
    return v * rules.damping


@wp.func
def advance(
    rules: Rules,
    world: World,
    mechs: Mechs,
    e: int,
    m: int,
    near: wp.vec2i,
    v: wp.vec3,
    mechs_out: Mechs,
    events_out: Events,
):
    """Move a mech with velocity ``v`` and set its landing speed and noise."""
    events_out.landing_speed[e, m] = displace(rules, world, mechs, e, m, near, v, mechs_out)
    loud = wp.length(mechs_out.vel[e, m]) * rules.chassis[mechs.chassis[e, m]].noise_mass
    if mechs.fallen[e, m] > 0:
        loud = 0.0
    mechs_out.noise[e, m] = loud


@wp.kernel
def move(
    rules: Rules,
    world: World,
    mechs: Mechs,
    episode: Episode,
    controls: Controls,
    events: Events,
    mechs_out: Mechs,
    events_out: Events,
):
    """Turn and move every living mech of an environment, in a new random order each tick."""
    e = wp.tid()
    n = mechs.alive.shape[1]
    shuffle(e, n, episode.seed[e], episode.tick[e], mechs_out)
    for i in range(n):
        m = mechs_out.order[e, i]
        if mechs.alive[e, m] == 0:
            continue
        v = propelled(rules, world, mechs, controls, events, e, m, mechs_out)
        reach = wp.vec2(wp.abs(v[0]) * rules.dt + TOUCH, wp.abs(v[1]) * rules.dt + TOUCH)
        near = neighbours(rules, mechs_out, e, m, rules.chassis[mechs.chassis[e, m]].half, reach)
        advance(rules, world, mechs, e, m, near, v, mechs_out, events_out)


@wp.kernel
def accelerate(
    rules: Rules, world: World, mechs: Mechs, controls: Controls, events: Events, mechs_out: Mechs, paths_out: Paths
):
    """Turn every living mech, set its velocity before collisions and the area that it may enter in the tick."""
    e, m = wp.tid()
    if mechs.alive[e, m] == 0:
        return
    v = propelled(rules, world, mechs, controls, events, e, m, mechs_out)
    mechs_out.vel[e, m] = v
    half = rules.chassis[mechs.chassis[e, m]].half
    paths_out.path_reach[e, m] = reach_of(world.size[e], mechs.pos[e, m], half, v * rules.dt)


@wp.kernel
def find_near(alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), paths: Paths, paths_out: Paths):
    """Find the living mechs that each living mech may touch in the tick; the range ends at 0 if there are none."""
    e, m = wp.tid()
    if alive[e, m] == 0:
        return
    p = pos[e, m]
    r = paths.path_reach[e, m]
    first = int(alive.shape[1])
    end = int(0)
    for j in range(alive.shape[1]):
        if j != m and alive[e, j] == 1:
            q = pos[e, j]
            rj = paths.path_reach[e, j]
            if wp.abs(q[0] - p[0]) < r[0] + rj[0] and wp.abs(q[1] - p[1]) < r[1] + rj[1]:
                first = wp.min(first, j)
                end = j + 1
    paths_out.path_near[e, m] = wp.vec2i(first, end)


@wp.kernel
def move_apart(rules: Rules, world: World, mechs: Mechs, paths: Paths, mechs_out: Mechs, events_out: Events):
    """Move every living mech that touches no other in the tick."""
    e, m = wp.tid()
    near = paths.path_near[e, m]
    if mechs.alive[e, m] == 1 and near[1] == 0:
        advance(rules, world, mechs, e, m, near, mechs.vel[e, m], mechs_out, events_out)


@wp.kernel
def move_near(
    rules: Rules, world: World, mechs: Mechs, episode: Episode, paths: Paths, mechs_out: Mechs, events_out: Events
):
    """Move the other living mechs of an environment, in a new random order each tick."""
    e = wp.tid()
    n = mechs.alive.shape[1]
    shuffle(e, n, episode.seed[e], episode.tick[e], mechs_out)
    for i in range(n):
        m = mechs_out.order[e, i]
        near = paths.path_near[e, m]
        if mechs.alive[e, m] == 1 and near[1] > 0:
            advance(rules, world, mechs, e, m, near, mechs.vel[e, m], mechs_out, events_out)


@wp.kernel
def land(rules: Rules, mechs: Mechs, events: Events, mechs_out: Mechs, events_out: Events):
    """Reduce the stability of a mech that lands hard, and its hit points if it had fallen; no mech is credited."""
    e, m = wp.tid()
    excess = events.landing_speed[e, m] - rules.landing_free_speed
    if mechs_out.alive[e, m] == 0 or excess <= 0.0:
        return
    mechs_out.stability[e, m] = wp.max(0.0, mechs_out.stability[e, m] - rules.landing_shock * excess)
    if mechs.fallen[e, m] == 0:
        return
    mechs_out.hp[e, m] = mechs_out.hp[e, m] - rules.landing_crash * excess
    events_out.took[e, m] = events_out.took[e, m] + rules.landing_crash * excess
    if mechs_out.hp[e, m] <= 0.0:
        mechs_out.alive[e, m] = 0
        events_out.died[e, m] = 1
        events_out.dying[e, m] = 1
        events_out.hazard[e, m] = BY_CRASH
