"""Faults of motion: collision, steering, stepping up, landings."""

from tests.kernel_mutants.mutant import Kernel, Mutant

MOTION = Kernel(
    "echelon.sim.kernels.motion",
    (
        "parity/test_combat.py::test_movement_matches_oracle",
        "parity/test_combat.py::test_movement_matches_oracle_with_slow_clock_and_high_gravity",
        "parity/test_combat.py::test_landings_match_oracle",
        "parity/test_combat.py::test_landing_shock_matches_oracle_at_limits",
    ),
    (
        Mutant("a box touches the cell that its face meets", "int(wp.ceil(top)) - 1", "int(wp.floor(top))"),
        Mutant("a mech on bedrock is inside it", "if low[2] < 0.0:", "if low[2] <= 0.0:"),
        Mutant(
            "the first column under a box is free",
            "wp.max(0, int(wp.floor(low[0])))",
            "wp.max(0, int(wp.floor(low[0])) + 1)",
        ),
        Mutant("the last row of the map is free", "wp.min(size[1] - 1, last_cell", "wp.min(size[1] - 2, last_cell"),
        Mutant("the head passes through voxels", "last_cell(top[2]))", "last_cell(top[2]) - 1)"),
        Mutant("a voxel above the head blocks", "wp.uint64(63 - z1 + z0)", "wp.uint64(62 - z1 + z0)"),
        Mutant(
            "wrecked mechs block",
            "in range(near[0], near[1]):\n        if j != m and mechs.alive[e, j] == 1:",
            "in range(near[0], near[1]):\n        if j != m:",
        ),
        Mutant("mechs that overlap never part", "if not boxes_overlap(old, h, p, hj):", "if h[0] > 0.0:"),
        Mutant(
            "mechs that overlap only approach",
            "wp.length_sq(c - p) < wp.length_sq",
            "wp.length_sq(c - p) > wp.length_sq",
        ),
        Mutant("the last neighbour is passed through", "end = j + 1\n        j =", "end = j\n        j ="),
        Mutant(
            "only the last neighbour is tested",
            "first = wp.min(first, j)\n                end = j + 1\n        j =",
            "first = j\n                end = j + 1\n        j =",
        ),
        Mutant("a mech that the step reaches is passed through", "hj[0] + reach[0]", "hj[0]"),
        Mutant(
            "glass lets mechs through and foliage does not",
            "world_free(world.move_plane",
            "world_free(world.sight_plane",
        ),
        Mutant("the sideways part of a step is lost", "v[axis] = amount", "v[axis] = wp.where(axis == 1, 0.0, amount)"),
        Mutant("the diagonal is faster", "if n > 1.0:", "if n > 2.0:"),
        Mutant("leg loss spares the jets", "jet *= rules.legged_jet", "jet *= 1.0"),
        Mutant(
            "legs lost in water slow less", "if water:\n        speed *=", "if water and not legged:\n        speed *="
        ),
        Mutant("strafe goes to the right", "(cs[0] * f - cs[1] * s) * speed", "(cs[0] * f + cs[1] * s) * speed"),
        Mutant(
            "gravity rests while jets burn",
            "(jet - rules.gravity) * rules.dt",
            "wp.where(jet > 0.0, jet, -rules.gravity) * rules.dt",
        ),
        Mutant("the ceiling is that of the centre", "float(size[2]) - h[2])", "float(size[2]))"),
        Mutant("the border is that of the centre", "wp.clamp(p[0], h[0],", "wp.clamp(p[0], 0.0,"),
        Mutant("the order is the same every tick", "STREAM_ORDER, tick, i, 0)", "STREAM_ORDER, 0, i, 0)"),
        Mutant("the order is no fair shuffle", "0), i + 1)", "0), wp.max(1, i))"),
        Mutant("a falling mech steps up", "return wp.abs(vz) < rules.step_max_vz", "return vz < rules.step_max_vz"),
        Mutant("a mech standing under high gravity does not step up", "-vz <= 2.0 * fall)", "-vz <= 0.5 * fall)"),
        Mutant("a mech steps up twice a tick", "if axis < 2 and not stepped and climbs", "if axis < 2 and climbs"),
        Mutant(
            "a mech steps up into another",
            "if fits(rules, world, mechs, e, m, near, p, raised, h):",
            "if world_free(world.move_plane, e, world.size[e], raised, h):",
        ),
        Mutant("a mech under the ceiling keeps rising", "v[2] = wp.min(v[2], 0.0)", "v[2] = wp.max(v[2], 0.0)"),
        Mutant("a bump of the head is a landing", "landing = wp.max(0.0, -v[2])", "landing = wp.abs(v[2])"),
        Mutant("a wall does not stop", "mechs_out.vel[e, m] = v\n    return", "mechs_out.vel[e, m] = v_in\n    return"),
        Mutant(
            "hits of this tick already stop a mech",
            "if mechs.shutdown[e, m] == 1 and events.shutdown_due[e, m] == 0:",
            "if mechs.shutdown[e, m] == 1:",
        ),
        Mutant(
            "a mech that is shut down floats", "v[2] = v[2] - rules.gravity * rules.dt", "v[2] = v[2] - 0.0 * rules.dt"
        ),
        Mutant(
            "a fallen mech acts one tick early",
            "if mechs.fallen[e, m] > 0:\n            d",
            "if mechs.fallen[e, m] > 1:\n            d",
        ),
        Mutant("headings grow without bound", "wrap_angle(mechs_out.yaw[e, m] + d[3]", "(mechs_out.yaw[e, m] + d[3]"),
        Mutant(
            "water is looked up at the centre", "- rules.chassis[c].half[2]\n", "- 0.0 * rules.chassis[c].half[2]\n"
        ),
        Mutant(
            "mechs move in the order of their index",
            "m = mechs.order[e, i]\n        if mechs.alive[e, m] == 0",
            "m = i\n        if mechs.alive[e, m] == 0",
        ),
        Mutant("a mech may not enter what it moves into", "h[0] + wp.abs(step[0]) +", "h[0] +"),
        Mutant("the reach is that of no step", "half, v * rules.dt)", "half, 0.0 * v)"),
        Mutant("the last mech near is passed through", "end = j + 1\n    paths", "end = j\n    paths"),
        Mutant("noise is that of the throttle", "wp.length(mechs.vel[e, m]) *", "wp.length(v) *"),
        Mutant("mechs side by side ignore each other", "near[1] == 0", "near[1] >= 0"),
        Mutant("a mech with others near stays", "near[1] > 0", "near[1] > 99"),
        Mutant(
            "a sliding fallen mech is heard",
            "if mechs.fallen[e, m] > 0:\n        loud",
            "if mechs.fallen[e, m] < 0:\n        loud",
        ),
        Mutant(
            "every landing counts from speed 0",
            "rules.landing_shock * excess",
            "rules.landing_shock * events.landing_speed[e, m]",
        ),
        Mutant(
            "standing mechs are damaged too",
            "if mechs.fallen[e, m] == 0:\n        return",
            "if mechs.fallen[e, m] < 0:\n        return",
        ),
        Mutant("a crash at 0 hit points is survived", "if mechs_out.hp[e, m] <= 0.0:", "if mechs_out.hp[e, m] < 0.0:"),
        Mutant(
            "crash damage is not counted as taken",
            "events_out.took[e, m] + rules.landing_crash * excess",
            "events_out.took[e, m]",
        ),
        Mutant("a crash has no name", "events_out.hazard[e, m] = BY_CRASH", "events_out.hazard[e, m] = 0"),
        Mutant("wrecks lose stability", "if mechs_out.alive[e, m] == 0 or excess <= 0.0:", "if excess <= 0.0:"),
    ),
)
