"""Room to move: from the movement a pilot wants to one that its mech can make, and a way out where it cannot.

What a pilot feels for is the world as it stands now, wrecks and rubble included, one step of its own box away. It
follows what stands in its way on one side until it is past. Who pushes all the time and gets nowhere looks for the
freest direction, goes there, and does not press the hunt for a while.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import JetUse, Skill, StuckRecovery
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import recall
from echelon.nav.waypoints import unit2
from echelon.sim.arsenal import CHASSIS
from echelon.sim.geometry import boxes_overlap, cos_sin
from echelon.sim.kernels.motion import world_free
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

FREE_DIRECTION = wp.constant(int(StuckRecovery.FREE_DIRECTION))
OBSTACLES = wp.constant(int(JetUse.OBSTACLES))
FEELER = wp.constant(1.0)
"""How far a pilot feels for room [vox]; no more than the smallest mech's width, so that no wall is stepped over."""
LEAST_WISH = wp.constant(0.1)
"""Throttle below which a pilot does not feel for room."""
DETOUR_S = wp.constant(1.5)
"""How long a pilot keeps to one side after it last felt the obstacle [s]."""
LEAVE_S = wp.constant(2.0)
"""Way lost on one side of an obstacle, in seconds of full throttle against the wish, at which a pilot tries the other."""
OTHER_SIDE_S = wp.constant(3.5)
"""How long it then keeps to that side though it feels no obstacle [s]: to go back what it lost, and past."""
ELBOWS = wp.constant(1.5)
"""Room that pilots leave between their mech and the next [vox]."""
WIDEST = wp.constant(max(max(spec.size[:2]) for spec in CHASSIS) / 2.0)
MOST_BESIDE = wp.constant(12)
Beside = wp.types.matrix(shape=(12, 5), dtype=wp.float32)
"""The mechs that a pilot keeps clear of, the few that may stand within reach of one: where it knows them to be, their
class, and what they are to it, 0 after the last."""
NOBODY, FRIEND, HOSTILE = wp.constant(0.0), wp.constant(1.0), wp.constant(2.0)
CLASS_AT, SIDE_AT = wp.constant(3), wp.constant(4)
HOP_VOX = wp.constant(6)
"""Height up to which jets lead over an obstacle [vox]."""
NO_ROOM = wp.constant(-1.0)
"""Who is walled in by others waits."""
OVER = wp.constant(-2.0)
"""Straight on, by jets."""
STAY_VOX, STAY_S = wp.constant(1.0), wp.constant(2.5)
"""Who pushes on, and after so long [s] is still within this distance of where it was [vox], looks for a way out."""
PUSHES = wp.constant(0.2)
"""Throttle from which a pilot wants to move."""
ESCAPE_S = wp.constant(1.25)
CALM_S = wp.constant(3.0)
"""Time for which a pilot does not hunt after an escape [s]."""
ESCAPE_STEPS = wp.constant(3)
DIRECTIONS, MOST_TURN = wp.constant(8), wp.constant(7)
"""Directions that a pilot tells apart, and eighths of a turn that it never reaches on its way past an obstacle."""
EIGHTH_TURN = wp.constant(0.7853981633974483)
WAY_COUNTS, PUSH_COUNTS, WHIM = wp.constant(1.0), wp.constant(1.0), wp.constant(0.5)
"""What the way to the zone, the direction pushed in vain, and chance count in the choice of a way out [steps]."""


@wp.func
def mechs_beside(
    rules: Rules, s: Skill, e: int, m: int, now: int, reach: float, alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> Beside:
    """The mechs whose boxes may be within ``reach`` [vox] of a mech's own: friends, and the hostiles that it perceives."""
    found = Beside()
    n = int(0)
    p = pos[e, m]
    most = rules.half[chassis[e, m]][0] + WIDEST + reach
    for j in range(alive.shape[1]):
        if j == m or n == MOST_BESIDE:
            continue
        at = pos[e, j]
        side = wp.where(alive[e, j] == 1, FRIEND, NOBODY)
        if team[e, j] != team[e, m]:
            known = recall(s, e, m, j, now, team, pack, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
            at = known.pos
            side = wp.where(known.age == 0, HOSTILE, NOBODY)
        if side != NOBODY and wp.abs(at[0] - p[0]) < most and wp.abs(at[1] - p[1]) < most:
            found[n, 0] = at[0]
            found[n, 1] = at[1]
            found[n, 2] = at[2]
            found[n, CLASS_AT] = float(chassis[e, j])
            found[n, SIDE_AT] = side
            n += 1
    return found


@wp.func
def fits(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, e: int, near: Beside, old: wp.vec3, c: wp.vec3, h: wp.vec3) -> bool:
    """Whether a box moved from ``old`` to ``c`` has room among voxels and mechs, as the rules of motion have it."""
    if not world_free(plane, e, size, c, h):
        return False
    for i in range(MOST_BESIDE):
        if near[i, SIDE_AT] == NOBODY:
            return True
        p = wp.vec3(near[i, 0], near[i, 1], near[i, 2])
        hj = rules.half[int(near[i, CLASS_AT])]
        if boxes_overlap(c, h, p, hj):
            if not boxes_overlap(old, h, p, hj) or wp.length_sq(c - p) < wp.length_sq(old - p):
                return False
    return True


@wp.func
def stride(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, h: wp.vec3, e: int, near: Beside, p: wp.vec3, u: wp.vec2) -> wp.vec3:
    """Where a stride from ``p`` along ``u`` leads, level or a step up [vox]; below the map where there is no room."""
    level = p + wp.vec3(u[0] * FEELER, u[1] * FEELER, 0.0)
    if level[0] < h[0] or level[1] < h[1] or level[0] > float(size[0]) - h[0] or level[1] > float(size[1]) - h[1]:
        return wp.vec3(0.0, 0.0, -1.0)
    if fits(rules, plane, size, e, near, p, level, h):
        return level
    rise = wp.vec3(0.0, 0.0, rules.step_height)
    if world_free(plane, e, size, p + rise, h) and fits(rules, plane, size, e, near, p, level + rise, h):
        return level + rise
    return wp.vec3(0.0, 0.0, -1.0)


@wp.func
def turned(u: wp.vec2, angle: float) -> wp.vec2:
    """A direction turned counter-clockwise [rad]."""
    cs = cos_sin(angle)
    return wp.vec2(u[0] * cs[0] - u[1] * cs[1], u[0] * cs[1] + u[1] * cs[0])


@wp.func
def elbow_room(rules: Rules, half_x: float, p: wp.vec3, near: Beside, wish: wp.vec2) -> wp.vec2:
    """The wish, pushed away from friends that stand too near; at most full throttle."""
    moved = wish
    for i in range(MOST_BESIDE):
        if near[i, SIDE_AT] == FRIEND:
            dx = p[0] - near[i, 0]
            dy = p[1] - near[i, 1]
            share = 1.0 - wp.sqrt(dx * dx + dy * dy) / (half_x + ELBOWS + rules.half[int(near[i, CLASS_AT])][0])
            if share > 0.0:
                moved += unit2(dx, dy) * share
    return moved / wp.max(1.0, wp.length(moved))


@wp.func
def free(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, h: wp.vec3, e: int, near: Beside, p: wp.vec3, u: wp.vec2, eighths: int) -> bool:
    """Whether there is room a stride from ``p`` along ``u`` turned by so many eighths of a full turn."""
    return stride(rules, plane, size, h, e, near, p, turned(u, float(eighths) * EIGHTH_TURN))[2] > 0.0


@wp.func
def hops(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, h: wp.vec3, e: int, near: Beside, p: wp.vec3, u: wp.vec2) -> bool:
    """Whether jets lead over what stands in the way along ``u``: it is low enough, and there is room up to there."""
    for i in range(2, HOP_VOX + 1):
        above = p + wp.vec3(0.0, 0.0, float(i))
        if not world_free(plane, e, size, above, h):
            return False
        if fits(rules, plane, size, e, near, above, above + wp.vec3(u[0] * FEELER, u[1] * FEELER, 0.0), h):
            return True
    return False


@wp.func
def past(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, h: wp.vec3, e: int, near: Beside, p: wp.vec3, u: wp.vec2, memory: wp.vec3, jets: bool) -> wp.vec3:
    """How to get past what stands in the way along ``u``: side and time left on it [s], eighths of a turn, OVER or NO_ROOM, way lost [s].

    The first turn is the smallest with room; from then on the pilot keeps to its side and turns back only as far as
    there is room, so it follows a wall around its corners. Who has lost too much of its way so begins anew on the other
    side.
    """
    if jets and not free(rules, plane, size, h, e, near, p, u, 0):
        if hops(rules, plane, size, h, e, near, p, u):
            return wp.vec3(memory[0], OVER, memory[2])
    k = int(memory[1])
    kept = memory[0]
    lost = memory[2]
    if k > 0 and lost >= LEAVE_S - 1.0e-4:
        kept = -wp.sign(kept) * OTHER_SIDE_S
        k = 0
        lost = 0.0
    if k == 0 or kept == 0.0:
        if free(rules, plane, size, h, e, near, p, u, 0):
            return wp.vec3(kept, 0.0, lost)
        for i in range(1, MOST_TURN):
            if kept >= 0.0 and free(rules, plane, size, h, e, near, p, u, i):
                return wp.vec3(DETOUR_S, float(i), lost)
            if kept <= 0.0 and free(rules, plane, size, h, e, near, p, u, -i):
                return wp.vec3(-DETOUR_S, float(i), lost)
        return wp.vec3(-kept, NO_ROOM, lost)
    side = int(wp.sign(kept))
    for i in range(wp.max(0, k - 2), MOST_TURN):
        if free(rules, plane, size, h, e, near, p, u, i * side):
            return wp.vec3(DETOUR_S * float(side), float(i), lost)
    return wp.vec3(-DETOUR_S * float(side), NO_ROOM, lost)


@wp.func
def way_lost(memory: wp.vec3, asked_s: float) -> float:
    """Way lost on a detour [s of full throttle] after so much movement [s of full throttle] in its direction."""
    if memory[0] == 0.0:
        return 0.0
    if memory[1] < 0.0:
        return memory[2]
    return wp.max(0.0, memory[2] - asked_s * cos_sin(memory[1] * EIGHTH_TURN)[0])


@wp.func
def way_out(rules: Rules, plane: wp.array3d(dtype=wp.uint64), size: wp.vec3i, h: wp.vec3, e: int, m: int, near: Beside, p: wp.vec3, way: wp.vec2, push: wp.vec2, seed: wp.uint32, tick: int) -> wp.vec2:
    """Unit vector of the direction with most room, rather toward the zone than where pushing was in vain."""
    best = -push
    best_score = float(-1.0e9)
    for i in range(DIRECTIONS):
        cs = cos_sin(float(i) * EIGHTH_TURN)
        u = wp.vec2(cs[0], cs[1])
        place = p
        steps = int(0)
        for _ in range(ESCAPE_STEPS):
            if place[2] > 0.0:
                place = stride(rules, plane, size, h, e, near, place, u)
                if place[2] > 0.0:
                    steps += 1
        if steps > 0:
            score = float(steps) + WAY_COUNTS * wp.dot(u, way) - PUSH_COUNTS * wp.dot(u, push)
            score += WHIM * uniform01(seed, STREAM_AGENT, tick, m, 48 + i)
            if score > best_score:
                best = u
                best_score = score
    return best


@wp.kernel
def avoid_collisions(
    # rules
    rules: Rules, skills: wp.array(dtype=Skill),
    # world
    move_plane: wp.array3d(dtype=wp.uint64), size: wp.array(dtype=wp.vec3i),
    # state in
    script: wp.array2d(dtype=wp.int32), decision: wp.array(dtype=wp.int32), tick: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), pilot_wish: wp.array2d(dtype=wp.vec2), pilot_way: wp.array2d(dtype=wp.vec2),
    # state out
    pilot_move: wp.array2d(dtype=wp.vec2), pilot_anchor: wp.array2d(dtype=wp.vec3), pilot_stay_s: wp.array2d(dtype=wp.float32), pilot_push: wp.array2d(dtype=wp.vec2), pilot_detour_s: wp.array2d(dtype=wp.float32), pilot_turn: wp.array2d(dtype=wp.int32), pilot_lost_s: wp.array2d(dtype=wp.float32), pilot_escape: wp.array2d(dtype=wp.vec2), pilot_escape_s: wp.array2d(dtype=wp.float32), pilot_hops: wp.array2d(dtype=wp.int32),
):
    """Turn a pilot's wish into a movement with room for it, or into an escape."""
    e, m = wp.tid()
    if script[e, m] < FIRST_LEVEL_SCRIPT or alive[e, m] == 0:
        return
    s = skills[script[e, m] - FIRST_LEVEL_SCRIPT]
    dt = rules.dt_act
    p = pos[e, m]
    h = rules.half[chassis[e, m]]
    now = decision[e]
    if s.stuck_recovery != FREE_DIRECTION:
        pilot_move[e, m] = pilot_wish[e, m]
        return
    left = wp.where(now == 0, -CALM_S, wp.max(-CALM_S, pilot_escape_s[e, m] - dt))
    moved = wp.length(p - pilot_anchor[e, m]) > STAY_VOX or wp.length(pilot_move[e, m]) < PUSHES
    if now == 0 or moved or fallen[e, m] > 0 or shutdown[e, m] == 1:
        pilot_anchor[e, m] = p
        pilot_stay_s[e, m] = 0.0
        pilot_push[e, m] = wp.vec2(0.0, 0.0)
    else:
        pilot_stay_s[e, m] = pilot_stay_s[e, m] + dt
        pilot_push[e, m] = pilot_push[e, m] + pilot_move[e, m] * dt
    lost = pilot_stay_s[e, m] >= STAY_S - 1.0e-4
    if now == 0 or lost:
        pilot_detour_s[e, m] = 0.0
        pilot_turn[e, m] = 0
        pilot_lost_s[e, m] = 0.0
    if lost:
        left = ESCAPE_S
        near = mechs_beside(rules, s, e, m, now, FEELER * float(ESCAPE_STEPS), alive, team, pack, chassis, pos, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
        pilot_escape[e, m] = way_out(rules, move_plane, size[e], h, e, m, near, p, pilot_way[e, m], unit2(pilot_push[e, m][0], pilot_push[e, m][1]), seed[e], tick[e])
        pilot_stay_s[e, m] = 0.0
        pilot_push[e, m] = wp.vec2(0.0, 0.0)
    pilot_escape_s[e, m] = left
    pilot_hops[e, m] = 0
    if left > 0.0:
        pilot_move[e, m] = pilot_escape[e, m]
        return
    near = mechs_beside(rules, s, e, m, now, ELBOWS, alive, team, pack, chassis, pos, watch_since, past_look, past_seen, past_pos, past_vel, past_body, past_marks, track_pos, track_vel, track_body)
    wish = elbow_room(rules, h[0], p, near, pilot_wish[e, m])
    n = wp.length(wish)
    memory = wp.vec3(wp.sign(pilot_detour_s[e, m]) * wp.max(0.0, wp.abs(pilot_detour_s[e, m]) - dt), float(pilot_turn[e, m]), pilot_lost_s[e, m])
    if n > LEAST_WISH:
        jets = s.jets >= OBSTACLES and rules.max_jet[chassis[e, m]] > 0.0
        memory = past(rules, move_plane, size[e], h, e, near, p, wish / n, memory, jets)
        wish = wp.where(memory[1] == NO_ROOM, wp.vec2(0.0, 0.0), turned(wish, wp.max(0.0, memory[1]) * EIGHTH_TURN * wp.sign(memory[0])))
    pilot_hops[e, m] = wp.where(memory[1] == OVER, 1, 0)
    pilot_lost_s[e, m] = way_lost(memory, wp.where(n > LEAST_WISH, n * dt, 0.0))
    pilot_detour_s[e, m] = memory[0]
    pilot_turn[e, m] = wp.max(0, int(memory[1]))
    pilot_move[e, m] = wish
