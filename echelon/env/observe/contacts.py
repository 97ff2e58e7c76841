"""Fills the contact rows of both layouts from the slots: what is in sight as the suite reads it, the rest as last seen.

Below full fidelity hull, heat, stability and velocity are read with noise from a stream of the pair's own; a remembered
reading stays what it was. In the suite layout column ``valid`` is the confidence in the track and the class columns are
probabilities. A filled row's confidence is never 0; position uncertainty and age have no columns of their own.
"""

# ruff: noqa: E501
import warp as wp

from echelon.env import layout
from echelon.env.display import FALLEN, LEGGED, PAINTER_SHIFT, Display, confidence, known_age, sensor_view, status_bits
from echelon.env.observe.kernels import CONTACT_DIM, bit, longest
from echelon.sim.geometry import arc_tan2, clamp_unit, cos_sin, to_heading, xy_length
from echelon.sim.rng import STREAM_DISPLAY, bell, drawn, keyed
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CONTACTS_AT = wp.constant(layout.offset("contacts"))
ROUND_SPEED = wp.constant(40.0)
"""Speed of the ballistic round that the lead hint is for [vox/s]."""
PITCH_SCALE = wp.constant(0.785398163)
"""Pitch at which the lead hint saturates [rad]."""
NEAR = wp.constant(0.1)
SLOW = wp.constant(0.5)
CLASSES = wp.constant(4)
LEAST_CONFIDENCE = wp.constant(0.01)
SIGNED_SPAN = wp.constant(2.0)
"""Width of the range of a column in [-1, 1]."""
DRAWS, DRAW_BODY, DRAW_VELOCITY = wp.constant(8), wp.constant(0), wp.constant(3)
"""Draws of a viewer and decision for each other mech, and the first of three for body and velocity."""


@wp.func
def lead_pitch(rules: Rules, r: wp.vec3) -> float:
    """Pitch of a ballistic shot at a target at relative position r, as a share of the scale."""
    d = xy_length(r)
    if d <= NEAR:
        return 0.0
    t = d / ROUND_SPEED
    return clamp_unit(arc_tan2(r[2] + 0.5 * rules.gravity * t * t, d) / PITCH_SCALE)


@wp.func
def closing_rate(r: wp.vec3, rv: wp.vec3, pace: float) -> float:
    """Speed of approach as a share of the scale; 0 for what is right here."""
    distance = wp.length(r)
    if distance <= NEAR:
        return 0.0
    return clamp_unit(-wp.dot(rv, r) / (distance * pace))


@wp.func
def crossing(r: wp.vec3, v: wp.vec3) -> float:
    """1 for a target moving across the line of sight, 0 for one moving along it or standing."""
    speed = wp.length(v)
    distance = wp.length(r)
    if speed <= SLOW or distance <= NEAR:
        return 0.0
    return wp.max(0.0, 1.0 - wp.abs(wp.dot(r, v) / (speed * distance)))


@wp.func
def class_share(d: Display, sure: float, mine: bool) -> float:
    """Probability of one class: its own share of certainty and an even part of the rest; even below the least certainty."""
    if sure < d.certainty:
        return 1.0 / float(CLASSES)
    return sure * bit(mine) + (1.0 - sure) / float(CLASSES)


@wp.func
def painted_for(e: int, m: int, by: int, team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32)) -> bool:
    """Whether a painter, -1 none, is of m's pack."""
    if by < 0:
        return False
    return team[e, by] == team[e, m] and pack[e, by] == pack[e, m]


@wp.struct
class Track:
    """What a viewer knows of a contact: as it is in sight, else as last seen."""

    age: int
    """Decisions since it was seen."""
    pos: wp.vec3
    vel: wp.vec3
    body: wp.vec4
    """Heading, hit points, heat and stability."""
    marks: int


@wp.func
def track_of(
    d: Display, view: wp.vec4, e: int, m: int, j: int, now: int, alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_vel: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4), trace_marks: wp.array3d(dtype=wp.int32),
) -> Track:
    """The track that m has of a contact in one of its slots."""
    track = Track()
    track.age = wp.max(0, known_age(d, view, e, m, j, now, alive, visible, seen))
    if track.age > 0:
        k = (now - track.age) % trace_pos.shape[1]
        track.pos = trace_pos[e, k, j]
        track.vel = trace_vel[e, k, j]
        track.body = trace_body[e, k, j]
        track.marks = trace_marks[e, k, j]
        return track
    track.pos = pos[e, j]
    track.vel = vel[e, j]
    track.body = wp.vec4(yaw[e, j], hp[e, j], heat[e, j], stability[e, j])
    track.marks = status_bits(fallen[e, j], leg_hp[e, j], painted[e, j], painter[e, j])
    return track


@wp.func
def jitter(sd: float, key: wp.uint32, draw: int) -> wp.vec3:
    """Three readings' noise; exact for a deviation of 0."""
    if sd == 0.0:
        return wp.vec3(0.0, 0.0, 0.0)
    return sd * wp.vec3(bell(drawn(key, draw)), bell(drawn(key, draw + 1)), bell(drawn(key, draw + 2)))


@wp.kernel
def write_contacts(
    # rules
    rules: Rules, display: Display, obs_scale: wp.array(dtype=wp.float32), suite_fidelity: wp.array(dtype=wp.float32), rows: wp.int32, mask_at: wp.int32,
    # world
    size: wp.array(dtype=wp.vec3i),
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), seed: wp.array(dtype=wp.uint32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), team: wp.array2d(dtype=wp.int32), pack: wp.array2d(dtype=wp.int32), chassis: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32), contact: wp.array3d(dtype=wp.int32), quality: wp.array2d(dtype=wp.float32), jam: wp.array2d(dtype=wp.float32), aid: wp.array2d(dtype=wp.float32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32), trace_pos: wp.array3d(dtype=wp.vec3), trace_vel: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4), trace_marks: wp.array3d(dtype=wp.int32),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write the contact rows, and their mask where the layout has one (``mask_at`` -1: none)."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    cs = cos_sin(yaw[e, m])
    edge = longest(size[e])
    view = sensor_view(display, quality[e, m], jam[e, m], aid[e, m])
    pace = wp.vec3(2.0 * obs_scale[0], 2.0 * obs_scale[0], obs_scale[1])
    sd = display.noise * (1.0 - suite_fidelity[chassis[e, m]])
    now_key = keyed(seed[e], STREAM_DISPLAY, decision[e], m)
    for k in range(rows):
        at = CONTACTS_AT + k * CONTACT_DIM
        j = contact[e, m, k]
        if mask_at >= 0:
            obs[t, n, mask_at + k] = bit(j < 0 or alive[e, m] == 0)
        if j < 0 or alive[e, m] == 0:
            for i in range(CONTACT_DIM):
                obs[t, n, at + i] = 0.0
            continue
        c = chassis[e, j]
        track = track_of(display, view, e, m, j, decision[e], alive, pos, vel, yaw, hp, leg_hp, heat, stability, fallen, painted, painter, visible, seen, trace_pos, trace_vel, trace_body, trace_marks)
        key = now_key
        if track.age > 0:
            key = keyed(seed[e], STREAM_DISPLAY, decision[e] - track.age, m)
        r = to_heading(track.pos - pos[e, m], cs)
        own = to_heading(vel[e, m], cs)
        rv = to_heading(track.vel, cs) - own + wp.cw_mul(jitter(SIGNED_SPAN * sd, key, j * DRAWS + DRAW_VELOCITY), pace)
        body = wp.vec3(track.body[1] / rules.max_hp[c], track.body[2] / (rules.heat_cap[c] * obs_scale[2]), track.body[3] / rules.max_stability)
        body += jitter(sd, key, j * DRAWS + DRAW_BODY)
        facing = cos_sin(track.body[0] - yaw[e, m])
        for i in range(3):
            obs[t, n, at + i] = r[i] / edge
            obs[t, n, at + 3 + i] = clamp_unit(rv[i] / pace[i])
            obs[t, n, at + 8 + i] = wp.clamp(body[i], 0.0, 1.0)
        obs[t, n, at + 6] = facing[1]
        obs[t, n, at + 7] = facing[0]
        obs[t, n, at + 11] = bit((track.marks & FALLEN) != 0)
        obs[t, n, at + 12] = bit((track.marks & LEGGED) != 0)
        obs[t, n, at + 13] = bit(team[e, j] == team[e, m])
        obs[t, n, at + 14] = bit(team[e, j] != team[e, m])
        obs[t, n, at + 15] = 0.0
        for i in range(CLASSES):
            obs[t, n, at + 16 + i] = class_share(display, view[1], c == i)
        obs[t, n, at + 20] = bit(painted_for(e, m, (track.marks >> PAINTER_SHIFT) - 1, team, pack))
        obs[t, n, at + 21] = wp.max(LEAST_CONFIDENCE, confidence(display, view, track.age))
        obs[t, n, at + 22] = lead_pitch(rules, r)
        obs[t, n, at + 23] = closing_rate(r, rv, pace[0])
        obs[t, n, at + 24] = crossing(r, rv + own)
