# type: ignore
"""Collision avoidance: the commanded velocity of a pilot, and its escape when it gets stuck.

A pilot tests whether its box fits one step away, among the terrain as it is now and the mechs it knows of. It follows
an obstacle on one side until it has passed. A pilot that commands movement and makes no progress escapes in the
direction with most free space and does not pursue hostiles for a while.
"""

import warp as wp

from echelon.agents.levels import JetUse, Skill, StuckRecovery
from echelon.agents.memory import Assignment, Avoidance, MovementPlan, PilotMemory
from echelon.agents.targets import DIRECTIONS, ESCAPE_DRAW, FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PilotState, pilot_of, recall
from echelon.nav.waypoints import unit2
from echelon.sim.geometry import boxes_overlap, cos_sin
from echelon.sim.kernels.motion import WIDEST_HALF, world_free
from echelon.sim.rng import STREAM_AGENT, uniform01
from echelon.sim.state import Episode, Mechs, World
from echelon.sim.tables import Rules

# unrolled, the nested loops over directions, steps and near mechs would take minutes to compile for CUDA
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "max_unroll": 2})

FREE_DIRECTION = wp.constant(int(StuckRecovery.FREE_DIRECTION))
JET_OBSTACLES = wp.constant(int(JetUse.OBSTACLES))
STEP = wp.constant(1.0)
"""Length of a tested step [vox]; at most the width of the smallest mech, so that no wall is stepped over."""
LEAST_THROTTLE = wp.constant(0.1)
"""Throttle below which a pilot does not avoid obstacles."""
DETOUR_S = wp.constant(1.5)
"""Time for which a pilot keeps to one side after it last met the obstacle [s]."""
CHANGE_SIDE_S = wp.constant(2.0)
"""Distance lost on one side of an obstacle at which the other side is tried [s of full speed]."""
OTHER_SIDE_S = wp.constant(3.5)
"""Time for which a pilot stays on that other side without meeting the obstacle, enough to regain the loss [s]."""
CLEARANCE = wp.constant(1.5)
"""Gap that pilots keep to friends [vox]."""
MAX_NEAR = wp.constant(12)
NearMechs = wp.types.matrix(shape=(12, 5), dtype=wp.float32)
"""Known mechs near a pilot, one a row: position [vox], class at CLASS_AT, and relation at RELATION_AT, ABSENT after the
last row.
"""
ABSENT, FRIEND, HOSTILE = wp.constant(0.0), wp.constant(1.0), wp.constant(2.0)
CLASS_AT, RELATION_AT = wp.constant(3), wp.constant(4)
JUMP_HEIGHT = wp.constant(6)
"""Height up to which jets lift a mech over an obstacle, and to which pilots fly [vox]."""
BLOCKED, JUMP = wp.constant(-1.0), wp.constant(-2.0)
"""Special turns of a detour: no free direction, and straight on by jets."""
STUCK_VOX, STUCK_S = wp.constant(1.0), wp.constant(2.5)
"""A pilot within this distance of an earlier position [vox] after this time of commanded movement [s] is stuck."""
MOVING_THROTTLE = wp.constant(0.2)
"""Throttle from which movement counts as commanded."""
ESCAPE_S = wp.constant(1.25)
"""Duration of an escape [s]."""
CALM_S = wp.constant(3.0)
"""Time for which a pilot does not pursue hostiles after an escape [s]."""
ESCAPE_STEPS = wp.constant(3)
"""Steps of free space that are tested in each direction of an escape."""
MAX_TURN = wp.constant(7)
"""Turn that a detour never reaches [eighths of a full turn]."""
EIGHTH_TURN = wp.constant(0.7853981633974483)
PATH_WEIGHT, PUSH_WEIGHT, RANDOM_WEIGHT = wp.constant(1.0), wp.constant(1.0), wp.constant(0.5)
"""Weights of the path to the zone, the direction pushed in vain and chance in the choice of an escape [steps]."""
TOLERANCE = wp.constant(1.0e-4)
"""Slack of comparisons of summed times [s]."""


@wp.struct
class Body:
    """A mech among the obstacles near it."""

    e: wp.int32
    """Environment."""
    half: wp.vec3
    """Half size of its box [vox]."""
    near: NearMechs
    """Known mechs near it."""


@wp.func
def near_mechs(rules: Rules, pilot: PilotState, mechs: Mechs, perception: PilotMemory, reach: float) -> NearMechs:
    """Return the mechs whose boxes may be within ``reach`` [vox] of the pilot's: friends and perceived hostiles."""
    e = pilot.env
    m = pilot.mech
    found = NearMechs()
    n = int(0)
    p = mechs.pos[e, m]
    limit = rules.chassis[mechs.chassis[e, m]].half[0] + WIDEST_HALF + reach
    team = mechs.team[e, m]
    for j in range(mechs.alive.shape[1]):
        if j == m or n == MAX_NEAR:
            continue
        friend = mechs.team[e, j] == team
        if not friend and pilot.entry < 0:
            continue
        at = mechs.pos[e, j]
        if not friend:
            at = perception.past_pos[e, j, pilot.entry]
        if wp.abs(at[0] - p[0]) >= limit or wp.abs(at[1] - p[1]) >= limit:
            continue
        relation = wp.where(mechs.alive[e, j] == 1, FRIEND, ABSENT)
        if not friend:
            track = recall(pilot, mechs, perception, j)
            relation = wp.where(track.age == 0, HOSTILE, ABSENT)
        if relation != ABSENT:
            found[n, 0] = at[0]
            found[n, 1] = at[1]
            found[n, 2] = at[2]
            found[n, CLASS_AT] = float(mechs.chassis[e, j])
            found[n, RELATION_AT] = relation
            n += 1
    return found


@wp.func
def fits(rules: Rules, world: World, body: Body, old: wp.vec3, c: wp.vec3) -> bool:
    """Return whether a box moved from ``old`` to ``c`` is free of terrain and mechs, by the rules of motion."""
    if not world_free(world.move_plane, body.e, world.size[body.e], c, body.half):
        return False
    for i in range(MAX_NEAR):
        if body.near[i, RELATION_AT] == ABSENT:
            return True
        p = wp.vec3(body.near[i, 0], body.near[i, 1], body.near[i, 2])
        other = rules.chassis[int(body.near[i, CLASS_AT])].half
        if boxes_overlap(c, body.half, p, other):
            if not boxes_overlap(old, body.half, p, other) or wp.length_sq(c - p) < wp.length_sq(old - p):
                return False
    return True


@wp.func
def step_to(rules: Rules, world: World, body: Body, p: wp.vec3, u: wp.vec2) -> wp.vec3:
    """Return the position after a step from ``p`` along ``u``, level or one step up [vox]; z < 0 if it is blocked."""
    size = world.size[body.e]
    h = body.half
    level = p + wp.vec3(u[0] * STEP, u[1] * STEP, 0.0)
    if level[0] < h[0] or level[1] < h[1] or level[0] > float(size[0]) - h[0] or level[1] > float(size[1]) - h[1]:
        return wp.vec3(0.0, 0.0, -1.0)
    if fits(rules, world, body, p, level):
        return level
    rise = wp.vec3(0.0, 0.0, rules.step_height_vox)
    if world_free(world.move_plane, body.e, size, p + rise, h) and fits(rules, world, body, p, level + rise):
        return level + rise
    return wp.vec3(0.0, 0.0, -1.0)


@wp.func
def turned(u: wp.vec2, angle: float) -> wp.vec2:
    cs = cos_sin(angle)
    return wp.vec2(u[0] * cs[0] - u[1] * cs[1], u[0] * cs[1] + u[1] * cs[0])


@wp.func
def keep_clear(rules: Rules, body: Body, p: wp.vec3, velocity: wp.vec2) -> wp.vec2:
    """Return the velocity, pushed away from friends that are too near; at most full speed."""
    pushed = velocity
    for i in range(MAX_NEAR):
        if body.near[i, RELATION_AT] == FRIEND:
            dx = p[0] - body.near[i, 0]
            dy = p[1] - body.near[i, 1]
            gap = body.half[0] + CLEARANCE + rules.chassis[int(body.near[i, CLASS_AT])].half[0]
            share = 1.0 - wp.sqrt(dx * dx + dy * dy) / gap
            if share > 0.0:
                pushed += unit2(dx, dy) * share
    return pushed / wp.max(1.0, wp.length(pushed))


@wp.func
def is_free(rules: Rules, world: World, body: Body, p: wp.vec3, u: wp.vec2, eighths: int) -> bool:
    """Return whether a step from ``p`` along ``u``, turned by ``eighths`` of a full turn, is free."""
    return step_to(rules, world, body, p, turned(u, float(eighths) * EIGHTH_TURN))[2] > 0.0


@wp.func
def can_jump_over(rules: Rules, world: World, body: Body, p: wp.vec3, u: wp.vec2) -> bool:
    """Return whether jets lead over the obstacle along ``u``: it is low enough, and the space up to there is free."""
    for i in range(2, JUMP_HEIGHT + 1):
        above = p + wp.vec3(0.0, 0.0, float(i))
        if not world_free(world.move_plane, body.e, world.size[body.e], above, body.half):
            return False
        if fits(rules, world, body, above, above + wp.vec3(u[0] * STEP, u[1] * STEP, 0.0)):
            return True
    return False


@wp.func
def detour(rules: Rules, world: World, body: Body, p: wp.vec3, u: wp.vec2, memory: wp.vec3, jets: bool) -> wp.vec3:
    """Return the detour around the obstacle along ``u``, and ``memory`` that of the decision before.

    A detour is the time left on its side [s], positive on the left; its turn [eighths of a full turn], JUMP or BLOCKED;
    and the distance lost on it [s of full speed]. The first turn is the smallest that is free. Later turns keep to that
    side and turn back only as far as is free, so the pilot follows a wall around its corners. After too much lost
    distance the other side is tried.
    """
    if jets and not is_free(rules, world, body, p, u, 0):
        if can_jump_over(rules, world, body, p, u):
            return wp.vec3(memory[0], JUMP, memory[2])
    side_s = memory[0]
    turn = int(memory[1])
    lost_s = memory[2]
    if turn > 0 and lost_s >= CHANGE_SIDE_S - TOLERANCE:
        side_s = -wp.sign(side_s) * OTHER_SIDE_S
        turn = 0
        lost_s = 0.0
    if turn == 0 or side_s == 0.0:
        if is_free(rules, world, body, p, u, 0):
            return wp.vec3(side_s, 0.0, lost_s)
        for i in range(1, MAX_TURN):
            if side_s >= 0.0 and is_free(rules, world, body, p, u, i):
                return wp.vec3(DETOUR_S, float(i), lost_s)
            if side_s <= 0.0 and is_free(rules, world, body, p, u, -i):
                return wp.vec3(-DETOUR_S, float(i), lost_s)
        return wp.vec3(-side_s, BLOCKED, lost_s)
    side = int(wp.sign(side_s))
    for i in range(wp.max(0, turn - 2), MAX_TURN):
        if is_free(rules, world, body, p, u, i * side):
            return wp.vec3(DETOUR_S * float(side), float(i), lost_s)
    return wp.vec3(-DETOUR_S * float(side), BLOCKED, lost_s)


@wp.func
def distance_lost(memory: wp.vec3, moved_s: float) -> float:
    """Return the distance lost on a detour after ``moved_s`` of commanded movement [s of full speed]."""
    if memory[0] == 0.0:
        return 0.0
    if memory[1] < 0.0:
        return memory[2]
    return wp.max(0.0, memory[2] - moved_s * cos_sin(memory[1] * EIGHTH_TURN)[0])


@wp.func
def escape_direction(
    rules: Rules, world: World, body: Body, p: wp.vec3, path: wp.vec2, push: wp.vec2, seed: wp.uint32, tick: int, m: int
) -> wp.vec2:
    """Return the unit vector with most free steps, preferring ``path`` and avoiding ``push``, the direction tried."""
    best = -push
    best_score = float(-1.0e9)
    for i in range(DIRECTIONS):
        cs = cos_sin(float(i) * EIGHTH_TURN)
        u = wp.vec2(cs[0], cs[1])
        at = p
        steps = int(0)
        for _ in range(ESCAPE_STEPS):
            if at[2] > 0.0:
                at = step_to(rules, world, body, at, u)
                if at[2] > 0.0:
                    steps += 1
        if steps > 0:
            score = float(steps) + PATH_WEIGHT * wp.dot(u, path) - PUSH_WEIGHT * wp.dot(u, push)
            score += RANDOM_WEIGHT * uniform01(seed, STREAM_AGENT, tick, m, ESCAPE_DRAW + i)
            if score > best_score:
                best = u
                best_score = score
    return best


@wp.func
def track_progress(
    rules: Rules, mechs: Mechs, avoidance: Avoidance, e: int, m: int, first: bool, avoidance_out: Avoidance
):
    """Add this decision to the time without progress, or restart it where the mech moved or could not."""
    p = mechs.pos[e, m]
    dt = rules.dt_act
    move = avoidance.pilot_move[e, m]
    moved = wp.length(p - avoidance.pilot_anchor[e, m]) > STUCK_VOX or wp.length(move) < MOVING_THROTTLE
    if first or moved or mechs.fallen[e, m] > 0 or mechs.shutdown[e, m] == 1:
        avoidance_out.pilot_anchor[e, m] = p
        avoidance_out.pilot_stay_s[e, m] = 0.0
        avoidance_out.pilot_push[e, m] = wp.vec2(0.0, 0.0)
    else:
        avoidance_out.pilot_stay_s[e, m] = avoidance.pilot_stay_s[e, m] + dt
        avoidance_out.pilot_push[e, m] = avoidance.pilot_push[e, m] + move * dt


@wp.func
def follow_detour(
    rules: Rules,
    skill: Skill,
    world: World,
    body: Body,
    mechs: Mechs,
    avoidance: Avoidance,
    e: int,
    m: int,
    desired: wp.vec2,
    avoidance_out: Avoidance,
):
    p = mechs.pos[e, m]
    dt = rules.dt_act
    velocity = keep_clear(rules, body, p, desired)
    n = wp.length(velocity)
    side_s = avoidance.pilot_detour_s[e, m]
    left_s = wp.sign(side_s) * wp.max(0.0, wp.abs(side_s) - dt)
    memory = wp.vec3(left_s, float(avoidance.pilot_turn[e, m]), avoidance.pilot_lost_s[e, m])
    if n > LEAST_THROTTLE:
        jets = skill.jets >= JET_OBSTACLES and rules.chassis[mechs.chassis[e, m]].max_jet > 0.0
        memory = detour(rules, world, body, p, velocity / n, memory, jets)
        around = turned(velocity, wp.max(0.0, memory[1]) * EIGHTH_TURN * wp.sign(memory[0]))
        velocity = wp.where(memory[1] == BLOCKED, wp.vec2(0.0, 0.0), around)
    avoidance_out.pilot_hops[e, m] = wp.where(memory[1] == JUMP, 1, 0)
    avoidance_out.pilot_lost_s[e, m] = distance_lost(memory, wp.where(n > LEAST_THROTTLE, n * dt, 0.0))
    avoidance_out.pilot_detour_s[e, m] = memory[0]
    avoidance_out.pilot_turn[e, m] = wp.max(0, int(memory[1]))
    avoidance_out.pilot_move[e, m] = velocity


@wp.kernel
def avoid_collisions(
    rules: Rules,
    skills: wp.array[Skill],
    world: World,
    episode: Episode,
    mechs: Mechs,
    assignment: Assignment,
    perception: PilotMemory,
    plan: MovementPlan,
    avoidance: Avoidance,
    avoidance_out: Avoidance,
):
    """Set the commanded velocity of a pilot: the desired one, a detour around an obstacle, or an escape."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT or mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    now = episode.decision[e]
    if skill.stuck_recovery != FREE_DIRECTION:
        avoidance_out.pilot_move[e, m] = plan.pilot_desired[e, m]
        return
    pilot = pilot_of(skill, mechs, perception, e, m, now)
    escape_s = wp.where(now == 0, -CALM_S, wp.max(-CALM_S, avoidance.pilot_escape_s[e, m] - rules.dt_act))
    track_progress(rules, mechs, avoidance, e, m, now == 0, avoidance_out)
    stuck = avoidance.pilot_stay_s[e, m] >= STUCK_S - TOLERANCE
    if now == 0 or stuck:
        avoidance_out.pilot_detour_s[e, m] = 0.0
        avoidance_out.pilot_turn[e, m] = 0
        avoidance_out.pilot_lost_s[e, m] = 0.0
    body = Body()
    body.e = e
    body.half = rules.chassis[mechs.chassis[e, m]].half
    if stuck:
        escape_s = ESCAPE_S
        body.near = near_mechs(rules, pilot, mechs, perception, STEP * float(ESCAPE_STEPS))
        push = avoidance.pilot_push[e, m]
        avoidance_out.pilot_escape[e, m] = escape_direction(
            rules,
            world,
            body,
            mechs.pos[e, m],
            plan.pilot_way[e, m],
            unit2(push[0], push[1]),
            episode.seed[e],
            episode.tick[e],
            m,
        )
        avoidance_out.pilot_stay_s[e, m] = 0.0
        avoidance_out.pilot_push[e, m] = wp.vec2(0.0, 0.0)
    avoidance_out.pilot_escape_s[e, m] = escape_s
    avoidance_out.pilot_hops[e, m] = 0
    if escape_s > 0.0:
        avoidance_out.pilot_move[e, m] = avoidance.pilot_escape[e, m]
        return
    body.near = near_mechs(rules, pilot, mechs, perception, CLEARANCE)
    follow_detour(rules, skill, world, body, mechs, avoidance, e, m, plan.pilot_desired[e, m], avoidance_out)
