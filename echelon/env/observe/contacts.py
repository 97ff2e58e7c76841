# type: ignore
"""Contact rows of both layouts: contacts in sight as they are, contacts out of sight as last seen.

Below full sensor fidelity, hull, heat, stability and velocity are read with noise from a random stream of the pair of
mechs; the reading of a remembered contact does not change. In the suite layout ``valid`` is the confidence in the
track, never 0 in a filled row, and the class columns are probabilities.
"""

import warp as wp

from echelon.env import layout
from echelon.env.display import (
    FALLEN,
    LEGGED,
    PAINTER_SHIFT,
    DisplayRules,
    Viewer,
    confidence,
    known_age,
    make_viewer,
    status_bits,
)
from echelon.env.observe.helpers import ObsRows, as_flag, clear_columns, longest_edge, put, row_index
from echelon.sim.geometry import arc_tan2, clamp_unit, cos_sin, to_heading, xy_length
from echelon.sim.rng import STREAM_DISPLAY, bell, drawn, keyed
from echelon.sim.state import Episode, Mechs, Senses, Tracks, World
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CONTACT = layout.position(layout.CONTACT)
CONTACT_DIM = wp.constant(layout.CONTACT_DIM)
CONTACTS_AT = wp.constant(layout.offset("contacts"))
MASK_AT = wp.constant(layout.offset("contact_mask"))
MASKED_ROWS = wp.constant(layout.MAX_CONTACTS)
"""Contact rows of the suite layout, which has a mask; the classic layout has fewer rows and none."""
CLASSES = wp.constant(len(layout.CLASSES))
ROUND_SPEED = wp.constant(40.0)
"""Speed of the ballistic round that ``lead_pitch`` assumes [vox/s]."""
PITCH_SCALE = wp.constant(0.785398163)
"""Pitch at which ``lead_pitch`` saturates [rad]."""
NEAR = wp.constant(0.1)
SLOW = wp.constant(0.5)
LEAST_CONFIDENCE = wp.constant(0.01)
SIGNED_SPAN = wp.constant(2.0)
"""Width of the range of a column in [-1, 1]."""
DRAWS, DRAW_BODY, DRAW_VELOCITY = wp.constant(8), wp.constant(0), wp.constant(3)
"""Random draws of an observer and step per other mech, and the first of three draws for body and velocity."""


@wp.func
def lead_pitch(rules: Rules, r: wp.vec3) -> float:
    """Return the pitch of a ballistic shot at relative position ``r`` as a share of PITCH_SCALE, -1 to 1."""
    d = xy_length(r)
    if d <= NEAR:
        return 0.0
    t = d / ROUND_SPEED
    return clamp_unit(arc_tan2(r[2] + 0.5 * rules.gravity * t * t, d) / PITCH_SCALE)


@wp.func
def closing_rate(r: wp.vec3, rv: wp.vec3, pace: float) -> float:
    """Return the speed of approach as a share of ``pace``, -1 to 1; 0 for a contact at the same position."""
    distance = wp.length(r)
    if distance <= NEAR:
        return 0.0
    return clamp_unit(-wp.dot(rv, r) / (distance * pace))


@wp.func
def crossing(r: wp.vec3, v: wp.vec3) -> float:
    """Return 1 for a contact moving across the line of sight, 0 for one moving along it or standing."""
    speed = wp.length(v)
    distance = wp.length(r)
    if speed <= SLOW or distance <= NEAR:
        return 0.0
    return wp.max(0.0, 1.0 - wp.abs(wp.dot(r, v) / (speed * distance)))


@wp.func
def class_share(d: DisplayRules, sure: float, is_class: bool) -> float:
    """Return the probability of one class: even shares, plus the certainty for the true class."""
    if sure < d.class_certainty:
        return 1.0 / float(CLASSES)
    return sure * as_flag(is_class) + (1.0 - sure) / float(CLASSES)


@wp.func
def painter_is_packmate(mechs: Mechs, e: int, m: int, painter: int) -> bool:
    """Whether a painter, -1 for none, is of the pack of mech m."""
    if painter < 0:
        return False
    return mechs.team[e, painter] == mechs.team[e, m] and mechs.pack[e, painter] == mechs.pack[e, m]


@wp.struct
class ContactTrack:
    """State of a contact as the observer knows it: current in sight, else as last seen."""

    age: int
    """Environment steps since it was seen."""
    pos: wp.vec3
    vel: wp.vec3
    body: wp.vec4
    """Heading, hit points, heat and stability."""
    status: int
    """Bits of ``status_bits``."""


@wp.func
def track_of(d: DisplayRules, viewer: Viewer, mechs: Mechs, senses: Senses, tracks: Tracks, j: int) -> ContactTrack:
    e = viewer.env
    track = ContactTrack()
    track.age = wp.max(0, known_age(d, viewer, mechs, senses, j))
    if track.age > 0:
        k = (viewer.step - track.age) % tracks.trace_pos.shape[1]
        track.pos = tracks.trace_pos[e, k, j]
        track.vel = tracks.trace_vel[e, k, j]
        track.body = tracks.trace_body[e, k, j]
        track.status = tracks.trace_marks[e, k, j]
        return track
    track.pos = mechs.pos[e, j]
    track.vel = mechs.vel[e, j]
    track.body = wp.vec4(mechs.yaw[e, j], mechs.hp[e, j], mechs.heat[e, j], mechs.stability[e, j])
    track.status = status_bits(mechs, e, j)
    return track


@wp.func
def jitter(sd: float, key: wp.uint32, draw: int) -> wp.vec3:
    """Return the noise of three readings with standard deviation ``sd``; exact 0 for an ``sd`` of 0."""
    if sd == 0.0:
        return wp.vec3(0.0, 0.0, 0.0)
    return sd * wp.vec3(bell(drawn(key, draw)), bell(drawn(key, draw + 1)), bell(drawn(key, draw + 2)))


@wp.struct
class ContactFrame:
    """The observer's frame and scales for its contact columns."""

    pos: wp.vec3
    yaw: float
    heading: wp.vec2
    """Cosine and sine of the yaw."""
    vel: wp.vec3
    """Velocity in the heading frame [vox/s]."""
    pace: wp.vec3
    """Relative velocity that reads 1 [vox/s]."""
    edge: float
    """Longest edge of the map [vox]."""
    noise: float
    """Standard deviation of readings, as a share of their range."""


@wp.func
def write_contact(
    rules: Rules,
    d: DisplayRules,
    viewer: Viewer,
    frame: ContactFrame,
    mechs: Mechs,
    track: ContactTrack,
    j: int,
    key: wp.uint32,
    at: int,
    row_out: wp.array(dtype=wp.float32),
):
    """Write the columns of the contact j from column ``at`` on."""
    e = viewer.env
    m = viewer.mech
    c = mechs.chassis[e, j]
    r = to_heading(track.pos - frame.pos, frame.heading)
    vel_noise = wp.cw_mul(jitter(SIGNED_SPAN * frame.noise, key, j * DRAWS + DRAW_VELOCITY), frame.pace)
    rv = to_heading(track.vel, frame.heading) - frame.vel + vel_noise
    body = wp.vec3(
        track.body[1] / rules.chassis[c].hp,
        track.body[2] / (rules.chassis[c].heat_cap * d.heat_scale),
        track.body[3] / rules.max_stability,
    )
    body += jitter(frame.noise, key, j * DRAWS + DRAW_BODY)
    facing = cos_sin(track.body[0] - frame.yaw)
    put(row_out, at + CONTACT.ahead, r[0] / frame.edge)
    put(row_out, at + CONTACT.left, r[1] / frame.edge)
    put(row_out, at + CONTACT.up, r[2] / frame.edge)
    put(row_out, at + CONTACT.vel_ahead, clamp_unit(rv[0] / frame.pace[0]))
    put(row_out, at + CONTACT.vel_left, clamp_unit(rv[1] / frame.pace[1]))
    put(row_out, at + CONTACT.vel_up, clamp_unit(rv[2] / frame.pace[2]))
    put(row_out, at + CONTACT.yaw_sin, facing[1])
    put(row_out, at + CONTACT.yaw_cos, facing[0])
    put(row_out, at + CONTACT.hull, wp.clamp(body[0], 0.0, 1.0))
    put(row_out, at + CONTACT.heat, wp.clamp(body[1], 0.0, 1.0))
    put(row_out, at + CONTACT.stability, wp.clamp(body[2], 0.0, 1.0))
    put(row_out, at + CONTACT.fallen, as_flag((track.status & FALLEN) != 0))
    put(row_out, at + CONTACT.legged, as_flag((track.status & LEGGED) != 0))
    put(row_out, at + CONTACT.friendly, as_flag(mechs.team[e, j] == mechs.team[e, m]))
    put(row_out, at + CONTACT.hostile, as_flag(mechs.team[e, j] != mechs.team[e, m]))
    put(row_out, at + CONTACT.neutral, 0.0)
    for i in range(CLASSES):
        put(row_out, at + CONTACT.scout + i, class_share(d, viewer.class_confidence, c == i))
    painter = (track.status >> PAINTER_SHIFT) - 1
    put(row_out, at + CONTACT.painted, as_flag(painter_is_packmate(mechs, e, m, painter)))
    put(row_out, at + CONTACT.valid, wp.max(LEAST_CONFIDENCE, confidence(d, viewer, track.age)))
    put(row_out, at + CONTACT.lead_pitch, lead_pitch(rules, r))
    put(row_out, at + CONTACT.closing, closing_rate(r, rv, frame.pace[0]))
    put(row_out, at + CONTACT.crossing, crossing(r, rv + frame.vel))


@wp.kernel
def write_contacts(
    rules: Rules,
    display: DisplayRules,
    suite_fidelity: wp.array(dtype=wp.float32),
    world: World,
    episode: Episode,
    mechs: Mechs,
    contact: wp.array3d(dtype=wp.int32),
    senses: Senses,
    tracks: Tracks,
    contact_rows: wp.int32,
    rows_out: ObsRows,
):
    """Write ``contact_rows`` contact rows, and in the suite layout their mask."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    step = episode.decision[e]
    viewer = make_viewer(display, senses, e, m, step)
    frame = ContactFrame()
    frame.pos = mechs.pos[e, m]
    frame.yaw = mechs.yaw[e, m]
    frame.heading = cos_sin(frame.yaw)
    frame.vel = to_heading(mechs.vel[e, m], frame.heading)
    frame.pace = wp.vec3(2.0 * display.vel_scale_xy, 2.0 * display.vel_scale_xy, display.vel_scale_z)
    frame.edge = longest_edge(world.size[e])
    frame.noise = display.noise * (1.0 - suite_fidelity[mechs.chassis[e, m]])
    for k in range(contact_rows):
        at = CONTACTS_AT + k * CONTACT_DIM
        j = contact[e, m, k]
        empty = j < 0 or mechs.alive[e, m] == 0
        if contact_rows == MASKED_ROWS:
            put(row, MASK_AT + k, as_flag(empty))
        if empty:
            clear_columns(row, at, CONTACT_DIM)
        else:
            track = track_of(display, viewer, mechs, senses, tracks, j)
            key = keyed(episode.seed[e], STREAM_DISPLAY, step - track.age, m)
            write_contact(rules, display, viewer, frame, mechs, track, j, key, at, row)
