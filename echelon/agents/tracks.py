"""What scripted pilots know: since when a mech is seen by whom, where it was then, and where it was last seen.

Everything here follows from ``visible``, the result of the sensing kernels, so that no level can know more than its
senses, its pack's or its team's gave. Times are decisions of the episode.
"""

# ruff: noqa: E501
import warp as wp

from echelon.agents.levels import Knowledge, Skill
from echelon.config import PACK_SIZE

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

OWN_SIGHT, OWN, TEAM = (wp.constant(int(Knowledge.OWN_SIGHT)), wp.constant(int(Knowledge.OWN)), wp.constant(int(Knowledge.TEAM)))
PACK = wp.constant(PACK_SIZE)
"""Mechs of a pack lie side by side: those of track row p are p * PACK and the next."""
UNKNOWN = wp.constant(-1)
"""Age of a mech that a pilot does not know of."""


@wp.kernel
def keep_history(
    # state in
    decision: wp.array(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3),
    # state out
    past_pos: wp.array3d(dtype=wp.vec3), past_vel: wp.array3d(dtype=wp.vec3),
):
    """Remember where a mech is now, in a ring of decisions."""
    e, m = wp.tid()
    slot = decision[e] % past_pos.shape[2]
    past_pos[e, m, slot] = pos[e, m]
    past_vel[e, m, slot] = vel[e, m]


@wp.kernel
def notice(
    # state in
    decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8),
    # state out
    noticed: wp.array3d(dtype=wp.int32),
):
    """Keep the decision since which a mech has seen each hostile without a break, -1 for one it does not see."""
    e, m = wp.tid()
    now = decision[e]
    for j in range(alive.shape[1]):
        since = noticed[e, m, j]
        if alive[e, m] == 0 or team[e, j] == team[e, m] or visible[e, m, j] == wp.uint8(0):
            since = -1
        elif since < 0 or now == 0:
            since = now
        noticed[e, m, j] = since


@wp.kernel
def share_tracks(
    # state in
    decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), hp: wp.array2d(dtype=wp.float32), noticed: wp.array3d(dtype=wp.int32),
    # state out
    track_since: wp.array3d(dtype=wp.int32), track_seen: wp.array3d(dtype=wp.int32), track_pos: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3), track_hp: wp.array3d(dtype=wp.float32),
):
    """Pool what a pack's members see: since when a hostile is in sight, and where it was last."""
    e, p = wp.tid()
    now = decision[e]
    half = track_since.shape[1] / 2
    side = p / half
    for j in range(alive.shape[1]):
        if now == 0:
            track_seen[e, p, j] = -1
        since = int(-1)
        if team[e, j] != side:
            for m in range(p * PACK, (p + 1) * PACK):
                if alive[e, m] == 1:
                    mine = noticed[e, m, j]
                    if mine >= 0 and (since < 0 or mine < since):
                        since = mine
        before = track_since[e, p, j]
        if since >= 0 and before >= 0 and now > 0:
            since = wp.min(since, before)
        track_since[e, p, j] = since
        if since >= 0:
            track_seen[e, p, j] = now
            track_pos[e, p, j] = pos[e, j]
            track_vel[e, p, j] = vel[e, j]
            track_hp[e, p, j] = hp[e, j]


@wp.func
def known_row(s: Skill, e: int, m: int, j: int, now: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), noticed: wp.array3d(dtype=wp.int32), track_since: wp.array3d(dtype=wp.int32), track_seen: wp.array3d(dtype=wp.int32)) -> wp.vec2i:
    """Age of what a pilot knows of hostile j, 0 while in sight and -1 for nothing, and the track row it is from."""
    if s.knowledge <= OWN:
        since = noticed[e, m, j]
        if since >= 0 and now - since >= s.delay:
            return wp.vec2i(0, -1)
        return wp.vec2i(UNKNOWN, -1)
    half = track_since.shape[1] / 2
    first = team[e, m] * half + pack[e, m]
    last = first + 1
    if s.knowledge == TEAM:
        first = team[e, m] * half
        last = first + half
    age = int(UNKNOWN)
    row = int(-1)
    for p in range(first, last):
        since = track_since[e, p, j]
        seen = track_seen[e, p, j]
        if since >= 0:
            if now - since >= s.delay:
                return wp.vec2i(0, p)
        elif seen >= 0 and now - seen <= s.memory and (age < 0 or now - seen < age):
            age = now - seen
            row = p
    return wp.vec2i(age, row)


@wp.func
def known_pos(s: Skill, e: int, j: int, now: int, known: wp.vec2i, past_pos: wp.array3d(dtype=wp.vec3), track_pos: wp.array3d(dtype=wp.vec3)) -> wp.vec3:
    """Where a pilot believes hostile j to be."""
    if known[0] == 0:
        return past_pos[e, j, (now - s.delay) % past_pos.shape[2]]
    return track_pos[e, known[1], j]


@wp.func
def known_vel(s: Skill, e: int, j: int, now: int, known: wp.vec2i, past_vel: wp.array3d(dtype=wp.vec3), track_vel: wp.array3d(dtype=wp.vec3)) -> wp.vec3:
    """How a pilot believes hostile j to move."""
    if known[0] == 0:
        return past_vel[e, j, (now - s.delay) % past_vel.shape[2]]
    return track_vel[e, known[1], j]


@wp.func
def known_hp(e: int, j: int, known: wp.vec2i, hp: wp.array2d(dtype=wp.float32), track_hp: wp.array3d(dtype=wp.float32)) -> float:
    """Hit points a pilot believes hostile j to have."""
    if known[0] == 0:
        return hp[e, j]
    return track_hp[e, known[1], j]
