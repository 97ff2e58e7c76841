"""Phases 6 and 7 of a tick: rotation, throttle, jets, gravity, collision with step-up, bounds, noise, and landings.

One thread per environment moves its living mechs one after another in a random order, so each sees where the
earlier ones went. Nothing is pushed, and mechs may stand on each other.
"""

# ruff: noqa: E501
import warp as wp

from echelon.sim.geometry import boxes_overlap, cos_sin, wrap_angle
from echelon.sim.kernels.upkeep import WATER, foot_material
from echelon.sim.rng import STREAM_ORDER, below, draw_u32
from echelon.sim.tables import Rules
from echelon.sim.world import Hazard

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

TOUCH = wp.constant(0.01)
"""Slack of the broad phase [vox]: more than rounding can move a box."""
BY_CRASH = wp.constant(int(Hazard.CRASH))
ALL_BITS = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))


@wp.func
def last_cell(top: float) -> int:
    """Highest cell index that a box reaching up to ``top`` covers."""
    return int(wp.ceil(top)) - 1


@wp.func
def world_free(plane: wp.array3d(dtype=wp.uint64), e: int, size: wp.vec3i, c: wp.vec3, h: wp.vec3) -> bool:
    """Whether a box touches neither bedrock nor a blocking voxel; outside the grid is free."""
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
    rules: Rules, alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3), e: int, m: int, near: wp.vec2i, old: wp.vec3, c: wp.vec3, h: wp.vec3,
) -> bool:
    """Whether a box moved from ``old`` to ``c`` overlaps no other living mech, except while drawing apart."""
    for j in range(near[0], near[1]):
        if j != m and alive[e, j] == 1:
            p = pos[e, j]
            hj = rules.half[chassis[e, j]]
            if boxes_overlap(c, h, p, hj):
                if not boxes_overlap(old, h, p, hj):
                    return False
                if wp.length_sq(c - p) < wp.length_sq(old - p):
                    return False
    return True


@wp.func
def neighbours(
    rules: Rules, alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3), e: int, m: int, h: wp.vec3, reach: wp.vec2,
) -> wp.vec2i:
    """First index, and the one after the last, of the living mechs that a step of ``reach`` [vox] might touch."""
    x = pos[e, m][0]
    y = pos[e, m][1]
    first = int(alive.shape[1])
    end = int(0)
    for j in range(alive.shape[1]):
        if j != m and alive[e, j] == 1:
            p = pos[e, j]
            hj = rules.half[chassis[e, j]]
            if wp.abs(p[0] - x) < h[0] + hj[0] + reach[0]:
                if wp.abs(p[1] - y) < h[1] + hj[1] + reach[1]:
                    first = wp.min(first, j)
                    end = j + 1
    return wp.vec2i(first, end)


@wp.func
def fits(
    rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3), e: int, m: int, near: wp.vec2i, old: wp.vec3, c: wp.vec3, h: wp.vec3,
) -> bool:
    """Whether a box can move from ``old`` to ``c``; of the other mechs only the near ones are asked about."""
    if not world_free(plane, e, size, c, h):
        return False
    return mechs_free(rules, alive, chassis, pos, e, m, near, old, c, h)


@wp.func
def steer(rules: Rules, c: int, legged: bool, water: bool, drive: wp.vec4, cs: wp.vec2, vz: float) -> wp.vec3:
    """Velocity [vox/s] that throttles, jets and gravity give, before damping."""
    f = drive[0]
    s = drive[1]
    n = wp.sqrt(f * f + s * s)
    if n > 1.0:
        f = f / n
        s = s / n
    speed = rules.max_speed[c]
    jet = drive[2] * rules.max_jet[c]
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
    """Keep a box centre inside the sides and under the ceiling."""
    return wp.vec3(
        wp.clamp(p[0], h[0], float(size[0]) - h[0]),
        wp.clamp(p[1], h[1], float(size[1]) - h[1]),
        wp.min(p[2], float(size[2]) - h[2]),
    )


@wp.func
def along(axis: int, amount: float) -> wp.vec3:
    """Vector of length ``amount`` along an axis."""
    v = wp.vec3(0.0, 0.0, 0.0)
    v[axis] = amount
    return v


@wp.func
def shuffle(order: wp.array2d(dtype=wp.int32), e: int, n: int, seed: wp.uint32, tick: int):
    """Fill ``order`` with a random permutation of 0 .. n-1 (Fisher and Yates)."""
    for i in range(n):
        j = below(draw_u32(seed, STREAM_ORDER, tick, i, 0), i + 1)
        order[e, i] = order[e, j]
        order[e, j] = i


@wp.func
def climbs(rules: Rules, vz: float) -> bool:
    """Whether a mech of this vertical speed may step up: slow, or at rest, which is what up to two ticks' fall looks like."""
    falls = rules.damping * rules.gravity * rules.dt
    return wp.abs(vz) < rules.step_max_vz or (rules.step_max_vz > 0.0 and vz <= 0.0 and -vz <= 2.0 * falls)


@wp.func
def displace(
    rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, alive: wp.array2d(dtype=wp.int32),
    chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), e: int, m: int, v_in: wp.vec3,
) -> float:
    """Move one mech axis by axis with at most one step-up, write its position and velocity, return its landing speed."""
    h = rules.half[chassis[e, m]]
    p = pos[e, m]
    v = v_in
    stepped = bool(False)
    landing = float(0.0)
    reach = wp.vec2(wp.abs(v[0]) * rules.dt + TOUCH, wp.abs(v[1]) * rules.dt + TOUCH)
    near = neighbours(rules, alive, chassis, pos, e, m, h, reach)
    for axis in range(3):
        wanted = p + along(axis, v[axis] * rules.dt)
        # Clamped before the test: a box that was let outside could slide past a corner and be put back into a wall.
        target = clamp_to_map(size, wanted, h)
        if fits(rules, plane, size, alive, chassis, pos, e, m, near, p, target, h):
            p = target
            if axis == 2 and target[2] < wanted[2]:
                v[2] = wp.min(v[2], 0.0)
        else:
            moved = bool(False)
            if axis < 2 and not stepped and climbs(rules, v[2]):
                raised = clamp_to_map(size, target + wp.vec3(0.0, 0.0, rules.step_height), h)
                if fits(rules, plane, size, alive, chassis, pos, e, m, near, p, raised, h):
                    p = raised
                    moved = True
                    stepped = True
            if not moved:
                if axis == 2:
                    landing = wp.max(0.0, -v[2])
                v[axis] = 0.0
    pos[e, m] = p
    vel[e, m] = v
    return landing


@wp.kernel
def move(
    # rules
    rules: Rules,
    # world
    move_plane: wp.array3d(dtype=wp.uint64), material: wp.array4d(dtype=wp.uint8), size: wp.array(dtype=wp.vec3i),
    # state in
    alive: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), leg_hp: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), shutdown_due: wp.array2d(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), tick: wp.array(dtype=wp.int32),
    # controls
    drive: wp.array2d(dtype=wp.vec4),
    # state out
    pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), noise: wp.array2d(dtype=wp.float32), order: wp.array2d(dtype=wp.int32),
    # events
    landing_speed: wp.array2d(dtype=wp.float32),
):
    """Turn and move every living mech of an environment, in a random order drawn afresh each tick."""
    e = wp.tid()
    n = alive.shape[1]
    shuffle(order, e, n, seed[e], tick[e])
    for i in range(n):
        m = order[e, i]
        if alive[e, m] == 0:
            continue
        c = chassis[e, m]
        v = vel[e, m]
        if shutdown[e, m] == 1 and shutdown_due[e, m] == 0:
            v[2] = v[2] - rules.gravity * rules.dt
        else:
            d = drive[e, m]
            if fallen[e, m] > 0:
                d = wp.vec4(0.0, 0.0, 0.0, 0.0)
            yaw[e, m] = wrap_angle(yaw[e, m] + d[3] * rules.max_yaw_rate[c] * rules.dt)
            foot = pos[e, m][2] - rules.half[c][2]
            water = foot_material(material, e, size[e], pos[e, m], foot) == WATER
            v = steer(rules, c, leg_hp[e, m] <= 0.0, water, d, cos_sin(yaw[e, m]), v[2])
        landing_speed[e, m] = displace(rules, move_plane, size[e], alive, chassis, pos, vel, e, m, v * rules.damping)
        loud = wp.length(vel[e, m]) * rules.noise_mass[c]
        if fallen[e, m] > 0:
            loud = 0.0
        noise[e, m] = loud


@wp.kernel
def land(
    # rules
    rules: Rules,
    # state in
    fallen: wp.array2d(dtype=wp.int32), landing_speed: wp.array2d(dtype=wp.float32),
    # state out
    alive: wp.array2d(dtype=wp.int32), hp: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32),
    # events
    took: wp.array2d(dtype=wp.float32), died: wp.array2d(dtype=wp.int32), dying: wp.array2d(dtype=wp.int32), hazard: wp.array2d(dtype=wp.int32),
):
    """Shake a mech that came down hard; who was knocked down in the air is damaged too, and nobody is credited."""
    e, m = wp.tid()
    hard = landing_speed[e, m] - rules.landing_free_speed
    if alive[e, m] == 0 or hard <= 0.0:
        return
    stability[e, m] = wp.max(0.0, stability[e, m] - rules.landing_shock * hard)
    if fallen[e, m] == 0:
        return
    hp[e, m] = hp[e, m] - rules.landing_crash * hard
    took[e, m] = took[e, m] + rules.landing_crash * hard
    if hp[e, m] <= 0.0:
        alive[e, m] = 0
        died[e, m] = 1
        dying[e, m] = 1
        hazard[e, m] = BY_CRASH
