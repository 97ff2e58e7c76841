"""What scripted pilots know: what mechs and packs perceived, kept by decision, so that each pilot reads it as old as
its reaction is slow.

Everything here follows from ``visible`` and ``sight``, the results of the sensing kernels, so that no level can know more
than its senses, its pack's or its team's gave. What a pilot does about a hostile follows from ``recall`` alone: where
it was, how it moved and in what state, whether there was sight and whether it lived, all of them at one decision, that of
the reaction delay ago. Times are decisions of the episode.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import Knowledge, Skill
from echelon.config import PACK_SIZE
from echelon.sim.kernels.sensing import CLEAR
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

OWN_SIGHT, OWN, TEAM = (wp.constant(int(Knowledge.OWN_SIGHT)), wp.constant(int(Knowledge.OWN)), wp.constant(int(Knowledge.TEAM)))
PACK = wp.constant(PACK_SIZE)
"""Mechs of a pack lie side by side: those of track row p are p * PACK and the next."""
UNKNOWN = wp.constant(-1)
"""Age of a mech that a pilot does not know of."""
SEEN, NEAR, SIGHTED = wp.constant(1), wp.constant(2), wp.constant(4)
"""Bits of a look: by any channel, by own sight or radar, with a clear line of sight."""
FALLEN, SHUT_DOWN, DEAD, PAINTER_AT = wp.constant(1), wp.constant(2), wp.constant(4), wp.constant(8)
"""Bits of a mech's marks; above them is who painted it last, plus one."""


@wp.struct
class Track:
    """What a pilot believes of a hostile."""

    age: wp.int32
    """Decisions since it was perceived, beyond the reaction delay; 0 while it is, UNKNOWN of one not known of."""
    pos: wp.vec3
    vel: wp.vec3
    hp: wp.float32
    yaw: wp.float32
    """Heading [rad]; as hit points, it is that of when it was perceived last."""
    marks: wp.int32
    """Whether it is down; 0 while it is not perceived."""
    sees: wp.int32
    """1 with a clear line of sight of the pilot's own."""
    paint: wp.float32
    """Ticks for which its own pack's paint would last, 0 without."""


@wp.kernel
def record_perception(
    # rules
    rules: Rules, sensor_range: wp.array(dtype=wp.float32),
    # state in
    decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), quality: wp.array2d(dtype=wp.float32), visible: wp.array3d(dtype=wp.uint8), sight: wp.array3d(dtype=wp.uint8),
    # state out
    past_look: wp.array4d(dtype=wp.uint8),
):
    """Keep how a mech perceives every hostile now, in a ring of decisions."""
    e, m = wp.tid()
    slot = decision[e] % past_look.shape[3]
    for j in range(alive.shape[1]):
        look = int(0)
        if alive[e, m] == 1 and alive[e, j] == 1 and team[e, j] != team[e, m] and visible[e, m, j] != wp.uint8(0):
            look = SEEN
            if sight[e, m, j] == CLEAR:
                look += SIGHTED
            if sight[e, m, j] == CLEAR or wp.length(pos[e, j] - pos[e, m]) <= rules.radar * quality[e, m] * sensor_range[chassis[e, m]]:
                look += NEAR
        past_look[e, m, j, slot] = wp.uint8(look)


@wp.kernel
def update_tracks(
    # state in
    decision: wp.array(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3),
    # state out
    watch_since: wp.array2d(dtype=wp.int32), watch_last: wp.array2d(dtype=wp.int32), past_seen: wp.array4d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
):
    """Pool what a pack's members see: when a hostile was in sight last, as of every decision of the ring.

    How it was then is in the other rings; what leaves them is kept if that was the last that was seen of it. Decisions at
    which nobody watched are no past: what is known begins anew after them.
    """
    e, p = wp.tid()
    now = decision[e]
    depth = past_seen.shape[3]
    slot = now % depth
    last = watch_last[e, p]
    anew = now == 0 or (last != now and last != now - 1)
    for j in range(past_seen.shape[2]):
        if past_seen[e, p, j, slot] == now - depth:
            track_pos[e, p, j] = past_pos[e, j, slot]
            track_vel[e, p, j] = past_vel[e, j, slot]
            track_body[e, p, j] = past_body[e, j, slot]
        seen = int(-1)
        if not anew:
            seen = past_seen[e, p, j, (now - 1) % depth]
        for m in range(p * PACK, (p + 1) * PACK):
            if (int(past_look[e, m, j, slot]) & SEEN) != 0:
                seen = now
        past_seen[e, p, j, slot] = seen
    watch_last[e, p] = now
    if anew:
        watch_since[e, p] = now


@wp.kernel
def record_history(
    # state in
    decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), shutdown: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32),
    # state out
    past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32),
):
    """Remember how a mech is now, in a ring of decisions."""
    e, m = wp.tid()
    slot = decision[e] % past_pos.shape[2]
    past_pos[e, m, slot] = pos[e, m]
    past_vel[e, m, slot] = vel[e, m]
    past_body[e, m, slot] = wp.vec3(hp[e, m], yaw[e, m], float(painted[e, m]))
    marks = (painter[e, m] + 1) * PAINTER_AT
    if fallen[e, m] > 0:
        marks += FALLEN
    if shutdown[e, m] == 1:
        marks += SHUT_DOWN
    if alive[e, m] == 0:
        marks += DEAD
    past_marks[e, m, slot] = marks


@wp.func
def paint_of(e: int, m: int, body: wp.vec3, marks: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32)) -> float:
    """Ticks for which paint by the pack of m lasts on a mech in such a state, 0 without."""
    by = marks / PAINTER_AT - 1
    if by < 0 or team[e, by] != team[e, m] or pack[e, by] != pack[e, m]:
        return 0.0
    return body[2]


@wp.func
def recall(
    s: Skill, e: int, m: int, j: int, now: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), watch_since: wp.array2d(dtype=wp.int32), past_look: wp.array4d(dtype=wp.uint8), past_seen: wp.array4d(dtype=wp.int32), past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3), past_body: wp.array3d(dtype=wp.vec3), past_marks: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_body: wp.array3d(dtype=wp.vec3),
) -> Track:
    """What a pilot believes of hostile j, from its level's senses, memory and reaction."""
    known = Track()
    known.age = UNKNOWN
    depth = past_pos.shape[2]
    then = now - s.delay
    half = watch_since.shape[1] / 2
    own = team[e, m] * half + pack[e, m]
    if then < watch_since[e, own]:
        return known
    slot = then % depth
    if (past_marks[e, j, slot] & DEAD) != 0:
        return known
    look = int(past_look[e, m, j, slot])
    seen = int(-1)
    row = own
    if s.knowledge <= OWN:
        if (look & wp.where(s.knowledge == OWN_SIGHT, NEAR, SEEN)) != 0:
            seen = then
    else:
        first = wp.where(s.knowledge == TEAM, team[e, m] * half, own)
        for p in range(first, wp.where(s.knowledge == TEAM, first + half, own + 1)):
            if past_seen[e, p, j, slot] > seen:
                seen = past_seen[e, p, j, slot]
                row = p
    if seen < 0 or then - seen > s.memory:
        return known
    known.age = then - seen
    known.paint = paint_of(e, m, past_body[e, j, slot], past_marks[e, j, slot], team, pack)
    if known.age == 0:
        known.marks = past_marks[e, j, slot]
        if (look & SIGHTED) != 0:
            known.sees = 1
    if seen > now - depth:
        known.pos = past_pos[e, j, seen % depth]
        known.vel = past_vel[e, j, seen % depth]
        known.hp = past_body[e, j, seen % depth][0]
        known.yaw = past_body[e, j, seen % depth][1]
    else:
        known.pos = track_pos[e, row, j]
        known.vel = track_vel[e, row, j]
        known.hp = track_body[e, row, j][0]
        known.yaw = track_body[e, row, j][1]
    return known
