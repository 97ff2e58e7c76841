# type: ignore
"""Perception history of mechs and packs, and what a pilot knows of a hostile.

The history records the results of the sensing kernels once a decision. ``recall`` reads it as of the reaction delay ago
and is the only source of what a pilot knows of hostiles, so no level can use more than its own senses, or those of its
pack or team, gave it at that time.
"""

import warp as wp

from echelon.agents.levels import Knowledge, Skill
from echelon.agents.memory import PilotMemory
from echelon.sim.state import PACK, Episode, Mechs, Senses
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

OWN_SIGHT, OWN, TEAM = (wp.constant(int(k)) for k in (Knowledge.OWN_SIGHT, Knowledge.OWN, Knowledge.TEAM))
UNKNOWN = wp.constant(-1)
"""Age of a track without information."""
SEEN, NEAR, SIGHTED = wp.constant(1), wp.constant(2), wp.constant(4)
"""Bits of ``past_look``: perceived at all, in radar range or sight, with a clear line of sight."""
FALLEN, SHUT_DOWN, DEAD, PAINTER_UNIT = wp.constant(1), wp.constant(2), wp.constant(4), wp.constant(8)
"""Bits of ``past_marks``; PAINTER_UNIT times the index of the last painter plus one is added to them."""


@wp.struct
class PilotState:
    """The pilot of a mech in one decision."""

    env: wp.int32
    mech: wp.int32
    now: wp.int32
    """The decision."""
    entry: wp.int32
    """Entry of the rings with what it perceived last, -1 if its history is shorter than its reaction delay."""
    skill: Skill


@wp.struct
class Track:
    """What a pilot knows of a hostile."""

    age: wp.int32
    """Decisions since it was perceived, beyond the reaction delay; UNKNOWN without information."""
    pos: wp.vec3
    """Position when it was last perceived [vox]."""
    vel: wp.vec3
    """Velocity then [vox/s]."""
    hp: wp.float32
    """Hit points then."""
    yaw: wp.float32
    """Heading then [rad]."""
    marks: wp.int32
    """Bits of ``past_marks`` while it is perceived, else 0."""
    sees: wp.int32
    """1 if the pilot itself has a clear line of sight."""
    paint: wp.float32
    """Ticks of own pack's paint left, 0 without paint."""


@wp.func_native(
    """
    const wp::int32* living = &wp::index(alive, e, 0);
    const wp::int32* side = &wp::index(team, e, 0);
    const wp::vec3* p = &wp::index(pos, e, 0);
    const wp::uint8* known = &wp::index(visible, e, m, 0);
    const wp::uint8* clear = &wp::index(sight, e, m, 0);
    wp::uint8* look = &wp::index(past_look, e, m, 0, slot);
    const wp::int32 end = alive.shape[1], own = living[m] == 1 ? side[m] : -1, step = past_look.shape[3];
    const wp::vec3 at = p[m];
    for (wp::int32 j = 0; j < end; ++j) {
        const float x = p[j][0] - at[0], y = p[j][1] - at[1], z = p[j][2] - at[2];
        const bool perceived = (own >= 0) & (known[j] != 0) & (side[j] != own) & (living[j] == 1);
        const bool sighted = clear[j] == 1;
        const bool near = sighted | (wp::sqrt(x * x + y * y + z * z) <= radar);
        look[j * step] = perceived ? 1 + 2 * near + 4 * sighted : 0;
    }
    """
)
def look_at_hostiles(
    alive: wp.array2d(dtype=wp.int32),
    team: wp.array2d(dtype=wp.int32),
    pos: wp.array2d(dtype=wp.vec3),
    visible: wp.array3d(dtype=wp.uint8),
    sight: wp.array3d(dtype=wp.uint8),
    e: int,
    m: int,
    radar: float,
    slot: int,
    past_look: wp.array4d(dtype=wp.uint8),
):
    """Set entry ``slot`` of the row of mech m to the bits SEEN, NEAR and SIGHTED of every hostile, 0 for others."""
    ...


@wp.kernel
def record_perception(
    rules: Rules,
    sensor_range: wp.array[wp.float32],
    decision: wp.array(dtype=wp.int32),
    mechs: Mechs,
    senses: Senses,
    perception: PilotMemory,
    perception_out: PilotMemory,
):
    """Record how a mech perceives every hostile in this decision."""
    e, m = wp.tid()
    slot = decision[e] % perception.past_look.shape[3]
    radar = rules.radar_vox * senses.quality[e, m] * sensor_range[mechs.chassis[e, m]]
    look_at_hostiles(
        mechs.alive, mechs.team, mechs.pos, senses.visible, senses.sight, e, m, radar, slot, perception_out.past_look
    )


@wp.kernel
def update_tracks(episode: Episode, perception: PilotMemory, perception_out: PilotMemory):
    """Record at which decision a pack last perceived each hostile, as of this decision.

    The state of a hostile then is in the other rings; an entry about to be overwritten is copied to the track of the
    pack if it is the last perception. A decision that was not recorded ends the history, which begins again after it.
    """
    e, p = wp.tid()
    now = episode.decision[e]
    depth = perception.past_seen.shape[3]
    slot = now % depth
    last = perception.watch_last[e, p]
    restart = now == 0 or (last != now and last != now - 1)
    for j in range(perception.past_seen.shape[2]):
        if perception.past_seen[e, p, j, slot] == now - depth:
            perception_out.track_pos[e, p, j] = perception.past_pos[e, j, slot]
            perception_out.track_vel[e, p, j] = perception.past_vel[e, j, slot]
            perception_out.track_body[e, p, j] = perception.past_body[e, j, slot]
        seen = int(-1)
        if not restart:
            seen = perception.past_seen[e, p, j, (now - 1) % depth]
        for m in range(p * PACK, (p + 1) * PACK):
            if (int(perception.past_look[e, m, j, slot]) & SEEN) != 0:
                seen = now
        perception_out.past_seen[e, p, j, slot] = seen
    perception_out.watch_last[e, p] = now
    if restart:
        perception_out.watch_since[e, p] = now


@wp.kernel
def record_history(episode: Episode, mechs: Mechs, perception: PilotMemory, perception_out: PilotMemory):
    e, m = wp.tid()
    slot = episode.decision[e] % perception.past_pos.shape[2]
    perception_out.past_pos[e, m, slot] = mechs.pos[e, m]
    perception_out.past_vel[e, m, slot] = mechs.vel[e, m]
    perception_out.past_body[e, m, slot] = wp.vec3(mechs.hp[e, m], mechs.yaw[e, m], float(mechs.painted[e, m]))
    marks = (mechs.painter[e, m] + 1) * PAINTER_UNIT
    if mechs.fallen[e, m] > 0:
        marks += FALLEN
    if mechs.shutdown[e, m] == 1:
        marks += SHUT_DOWN
    if mechs.alive[e, m] == 0:
        marks += DEAD
    perception_out.past_marks[e, m, slot] = marks


@wp.func
def pack_row(mechs: Mechs, perception: PilotMemory, e: int, m: int) -> int:
    return mechs.team[e, m] * (perception.watch_since.shape[1] / 2) + mechs.pack[e, m]


@wp.func
def paint_left(mechs: Mechs, e: int, m: int, body: wp.vec3, marks: int) -> float:
    """Return the ticks of paint by the pack of m in a recorded state, 0 without paint."""
    by = marks / PAINTER_UNIT - 1
    if by < 0 or mechs.team[e, by] != mechs.team[e, m] or mechs.pack[e, by] != mechs.pack[e, m]:
        return 0.0
    return body[2]


@wp.func
def pilot_of(skill: Skill, mechs: Mechs, perception: PilotMemory, e: int, m: int, now: int) -> PilotState:
    then = now - skill.delay
    pilot = PilotState()
    pilot.env = e
    pilot.mech = m
    pilot.now = now
    pilot.skill = skill
    pilot.entry = -1
    if then >= perception.watch_since[e, pack_row(mechs, perception, e, m)]:
        pilot.entry = then % perception.past_pos.shape[2]
    return pilot


@wp.func
def recall(pilot: PilotState, mechs: Mechs, perception: PilotMemory, j: int) -> Track:
    """Return what a pilot knows of hostile j, by the knowledge, memory and reaction delay of its level."""
    track = Track()
    track.age = UNKNOWN
    slot = pilot.entry
    if slot < 0:
        return track
    e = pilot.env
    m = pilot.mech
    skill = pilot.skill
    depth = perception.past_pos.shape[2]
    then = pilot.now - skill.delay
    half = perception.watch_since.shape[1] / 2
    own = pack_row(mechs, perception, e, m)
    if (perception.past_marks[e, j, slot] & DEAD) != 0:
        return track
    look = int(perception.past_look[e, m, j, slot])
    seen = int(-1)
    row = own
    if skill.knowledge <= OWN:
        if (look & wp.where(skill.knowledge == OWN_SIGHT, NEAR, SEEN)) != 0:
            seen = then
    else:
        first = wp.where(skill.knowledge == TEAM, mechs.team[e, m] * half, own)
        for p in range(first, wp.where(skill.knowledge == TEAM, first + half, own + 1)):
            if perception.past_seen[e, p, j, slot] > seen:
                seen = perception.past_seen[e, p, j, slot]
                row = p
    if seen < 0 or then - seen > skill.memory:
        return track
    track.age = then - seen
    track.paint = paint_left(mechs, e, m, perception.past_body[e, j, slot], perception.past_marks[e, j, slot])
    if track.age == 0:
        track.marks = perception.past_marks[e, j, slot]
        if (look & SIGHTED) != 0:
            track.sees = 1
    if seen > pilot.now - depth:
        track.pos = perception.past_pos[e, j, seen % depth]
        track.vel = perception.past_vel[e, j, seen % depth]
        track.hp = perception.past_body[e, j, seen % depth][0]
        track.yaw = perception.past_body[e, j, seen % depth][1]
    else:
        track.pos = perception.track_pos[e, row, j]
        track.vel = perception.track_vel[e, row, j]
        track.hp = perception.track_body[e, row, j][0]
        track.yaw = perception.track_body[e, row, j][1]
    return track
