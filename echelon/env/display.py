# type: ignore
"""Display rules and contact memory: which mechs an observer knows of, and how certain it is of them.

Sensing sets who is visible. This module stores how every mech was in the last environment steps, so that a contact out
of sight can be observed as last seen. ``quota_allocation`` and ``suite_allocation`` assign contact slots by it, and
``observe.contacts`` writes the rows. The classic layout has no contact memory and exact readings.
"""

from dataclasses import replace
from math import cos
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from echelon.config import DisplayConfig, EnvConfig
from echelon.env import layout
from echelon.env.layout import MAX_CONTACTS
from echelon.env.suites import (
    COMBAT_SUITES,
    SUITE_OF_CLASS,
    CombatSuiteSpec,
    FillRule,
    SuiteType,
    build_suite_descriptor,
)
from echelon.sim.arsenal import CHASSIS
from echelon.sim.backend import Launch, in_phase
from echelon.sim.state import CONTACT_SLOTS, Episode, Mechs, Senses, Tracks
from echelon.sim.structs import Field, array_struct, record, record_of

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CLASS_SUITES = tuple(SUITE_OF_CLASS[spec.chassis.name.lower()] for spec in CHASSIS)
"""Suite of each chassis."""
SUITE_ABLATIONS = {
    "own": (0, 1, 2, 3),
    "swapped": (3, 2, 1, 0),
    "scout": (0,) * 4,
    "light": (1,) * 4,
    "medium": (2,) * 4,
    "heavy": (3,) * 4,
}
"""Chassis whose suite each chassis gets, by value of ``env.display.suites``."""
CONTACT_COST, ICON_COST, STATUS_COST = 5, 2, 8
"""Attention points of a contact slot, and of a squad row without and with status."""
THREAT_WEIGHTS = (0.5, 0.7, 1.0, 1.5)
"""Threat of each chassis, in the mass gauges and in the sort order of threats."""
MIN_PRIORITY_SHARE = wp.constant(0.01)
"""Least share of its sort priority that a known track keeps."""
FALLEN, LEGGED, PAINTER_SHIFT = wp.constant(1), wp.constant(2), wp.constant(2)
"""Bits of ``trace_marks``; the painter is stored above them."""


@array_struct
class Suites:
    """Suite of each chassis, ablations applied; H is the chassis."""

    suite_slots = Field(wp.int32, "H", "contact slots")
    suite_alerts = Field(wp.int32, "H", "1 if an alert takes slot 0")
    alert_slots = Field(wp.int32, "H", "contact slots during an alert")
    squad_slots = Field(wp.int32, "H", "squad rows")
    squad_detail = Field(wp.int32, "H", "0 icon, 1 status, 2 full")
    suite_fidelity = Field(wp.float32, "H", "1 gives exact readings of contacts")
    descriptors = Field(wp.float32, "HV", "descriptor columns")
    slot_rule = Field(wp.int32, "HN", "FillRule of each contact slot")
    threat = Field(wp.float32, "H", "threat weight of the chassis")


@record_of(DisplayConfig)
class DisplayRules:
    """The numeric options of ``DisplayConfig``, off where the layout or an oracle display has no use for them."""

    memory: wp.int32
    """Environment steps for which a contact out of sight is remembered."""
    dt: wp.float32
    """Seconds per environment step."""
    better: wp.float32
    """Factor by which a contact must be better to take the slot of another."""
    aim_cos: wp.float32
    """Cosine of ``aim_cone_rad``."""
    vel_scale_xy: wp.float32
    vel_scale_z: wp.float32
    heat_scale: wp.float32
    """Heat over capacity that reads 1."""
    loudest: wp.float32
    """Acoustic level that reads 1."""


@wp.struct
class Viewer:
    """An observer in one environment step, with the quality of its sensors."""

    env: int
    mech: int
    step: int
    """Environment steps since the episode began."""
    confidence: float
    """Confidence in a contact in sight, 0 to 1."""
    class_confidence: float
    """Confidence in the class of a contact, 0 to 1."""
    added_age: float
    """Seconds that bad sensors add to the age of a track."""
    memory: float
    """Environment steps for which this observer remembers a contact."""


def suites(cfg: EnvConfig) -> list[CombatSuiteSpec]:
    by_class = [COMBAT_SUITES[s] for s in CLASS_SUITES]
    return [by_class[i] for i in SUITE_ABLATIONS[cfg.display.suites]]


def memory_decisions(cfg: EnvConfig) -> int:
    """Return for how many steps contacts are remembered; 0 in the classic layout and with an oracle display."""
    if cfg.obs_layout == "classic" or cfg.display.oracle:
        return 0
    return int(cfg.display.memory_s / cfg.dt_act + 1e-6)


def allocates_by_suite(cfg: EnvConfig) -> bool:
    """Whether each suite's own rules assign its contact slots (``env.display.fill=suite``)."""
    return cfg.obs_layout == "suite" and cfg.display.fill == "suite"


def display_rules(cfg: EnvConfig) -> Any:
    options = cfg.display
    if cfg.obs_layout == "classic":
        options = replace(options, keeps_slots=False, oracle=False, noise=0.0, degrades=False)
    elif options.oracle:
        options = replace(options, noise=0.0, degrades=False)
    return record(
        DisplayRules,
        options,
        memory=memory_decisions(cfg),
        dt=cfg.dt_act,
        better=1.0 + options.margin,
        aim_cos=cos(options.aim_cone_rad),
        vel_scale_xy=cfg.obs_norm.vel_scale_xy,
        vel_scale_z=cfg.obs_norm.vel_scale_z,
        heat_scale=cfg.obs_norm.heat_max_ratio,
        loudest=max(c.max_speed * c.noise_mass for c in CHASSIS) * (cfg.num_mechs - 1),
    )


def _slots(cfg: EnvConfig, spec: CombatSuiteSpec, alerts: int = 0) -> int:
    """Return the contact slots of a suite while ``alerts`` slots are taken by alerts, which cost no attention."""
    if cfg.obs_layout == "classic":
        return layout.CLASSIC_SLOTS
    if cfg.display.oracle:
        return MAX_CONTACTS
    if not cfg.display.attention:
        return spec.visual_contact_slots
    row = STATUS_COST if spec.squad_detail_level else ICON_COST
    points_left = cfg.display.attention - row * spec.squad_position_slots
    return min(spec.visual_contact_slots, max(0, points_left) // CONTACT_COST + alerts)


def slot_rules(cfg: EnvConfig) -> NDArray[np.int32]:
    """Return the ``FillRule`` of each contact slot by chassis ``[4, CONTACT_SLOTS]``; REST beyond a suite's row."""
    rules = np.full((len(CLASS_SUITES), CONTACT_SLOTS), int(FillRule.REST), np.int32)
    for c, spec in enumerate(suites(cfg)):
        row = np.repeat([int(rule) for rule, _ in spec.fill], [slots for _, slots in spec.fill])
        rules[c, : len(row)] = row
    return rules


def constants(cfg: EnvConfig) -> dict[str, tuple[Any, Any]]:
    """Return the arrays that differ by chassis, those of ``Suites`` and two of sensing: name to (values, dtype)."""
    specs = suites(cfg)
    managed = cfg.obs_layout == "suite"
    alerted = [managed and cfg.display.alerts and s.suite == SuiteType.HEAVY_FIRE_SUPPORT for s in specs]
    reports = [not managed or (cfg.display.reports and s.receives_painted_targets) for s in specs]
    return {
        "suite_slots": ([_slots(cfg, s) for s in specs], wp.int32),
        "alert_slots": ([_slots(cfg, s, alerts=1) for s in specs], wp.int32),
        "suite_alerts": ([int(a) for a in alerted], wp.int32),
        "paint_reports": ([int(r) for r in reports], wp.int32),
        "sensor_range": ([s.sensor_range_mult if managed else 1.0 for s in specs], wp.float32),
        "squad_slots": ([s.squad_position_slots for s in specs], wp.int32),
        "squad_detail": ([s.squad_detail_level for s in specs], wp.int32),
        "suite_fidelity": ([s.sensor_fidelity for s in specs], wp.float32),
        "descriptors": (np.array([build_suite_descriptor(s) for s in specs], np.float32), wp.float32),
        "slot_rule": (slot_rules(cfg), wp.int32),
        "threat": (list(THREAT_WEIGHTS), wp.float32),
    }


def reset_launches(cfg: EnvConfig, fresh: str) -> list[Launch]:
    return in_phase("display", [Launch(clear_tracks, "EM", {"fresh": fresh})]) if memory_decisions(cfg) else []


def update_launches(cfg: EnvConfig, fresh: str) -> list[Launch]:
    """Return the launches that store the current state of all mechs in the environments that ``fresh`` marks."""
    return in_phase("display", [Launch(store_tracks, "EM", {"fresh": fresh})]) if memory_decisions(cfg) else []


@wp.func
def make_viewer(d: DisplayRules, senses: Senses, e: int, m: int, step: int) -> Viewer:
    """Return the observer ``m`` with what its sensor quality and jamming make of contacts."""
    viewer = Viewer()
    viewer.env = e
    viewer.mech = m
    viewer.step = step
    viewer.confidence = 1.0
    viewer.class_confidence = 1.0
    viewer.added_age = 0.0
    viewer.memory = float(d.memory)
    if d.degrades == 1:
        jam = senses.jam[e, m]
        quality = wp.min(senses.quality[e, m], 1.0)
        restored = senses.aid[e, m] * wp.min(jam, d.eccm_most)
        sure = quality * (1.0 - d.jam_confidence * jam) + d.eccm_confidence * restored
        viewer.confidence = wp.clamp(sure, 0.0, 1.0)
        sure_class = quality * (1.0 - d.jam_class * jam) + d.eccm_class * restored
        viewer.class_confidence = wp.clamp(sure_class, 0.0, 1.0)
        viewer.added_age = d.quality_age_s * (1.0 - quality) + d.jam_age_s * jam
        memory = wp.floor((d.memory_s - viewer.added_age) / d.dt + 1.0e-4)
        viewer.memory = wp.min(memory, float(d.memory))
    return viewer


@wp.func
def priority_share(d: DisplayRules, viewer: Viewer, age: int) -> float:
    """Return the share of its sort priority that a track of this age [steps] keeps, before the faint limit."""
    if d.degrades == 0 and age == 0:
        return 1.0
    return wp.max(MIN_PRIORITY_SHARE, 1.0 - (float(age) * d.dt + viewer.added_age) / wp.max(d.memory_s, d.dt))


@wp.func
def confidence(d: DisplayRules, viewer: Viewer, age: int) -> float:
    """Return the confidence in a track of this age [steps], 0 to 1; it fades while the contact is out of sight."""
    if age == 0:
        return viewer.confidence
    return viewer.confidence * priority_share(d, viewer, age)


@wp.func
def known_age(d: DisplayRules, viewer: Viewer, mechs: Mechs, senses: Senses, j: int) -> int:
    """Return the steps since the observer last saw mech j: 0 in sight, -1 unknown."""
    e = viewer.env
    m = viewer.mech
    if senses.visible[e, m, j] == wp.uint8(1):
        return 0
    if d.oracle == 1 and j != m and mechs.alive[e, j] == 1:
        return 0
    if d.memory > 0 and mechs.alive[e, j] == 1:
        last_seen = senses.seen[e, m, j]
        age = viewer.step - last_seen
        if last_seen >= 0 and age > 0 and float(age) <= viewer.memory:
            return age
    return -1


@wp.func
def status_bits(mechs: Mechs, e: int, m: int) -> int:
    """Return the visible flags of a mech as ``trace_marks`` stores them: fallen, legged, painter + 1."""
    bits = int(0)
    if mechs.fallen[e, m] > 0:
        bits += FALLEN
    if mechs.leg_hp[e, m] <= 0.0:
        bits += LEGGED
    if mechs.painted[e, m] > 0:
        bits += (mechs.painter[e, m] + 1) << PAINTER_SHIFT
    return bits


@wp.kernel
def clear_tracks(fresh: wp.array(dtype=wp.int32), tracks_out: Tracks):
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    for k in range(tracks_out.trace_marks.shape[1]):
        tracks_out.trace_pos[e, k, m] = wp.vec3(0.0, 0.0, 0.0)
        tracks_out.trace_vel[e, k, m] = wp.vec3(0.0, 0.0, 0.0)
        tracks_out.trace_body[e, k, m] = wp.vec4(0.0, 0.0, 0.0, 0.0)
        tracks_out.trace_marks[e, k, m] = 0


@wp.kernel
def store_tracks(episode: Episode, mechs: Mechs, fresh: wp.array(dtype=wp.int32), tracks_out: Tracks):
    """Store the current state of a living mech; a second launch in the same step changes nothing."""
    e, m = wp.tid()
    if fresh[e] == 0 or mechs.alive[e, m] == 0:
        return
    k = episode.decision[e] % tracks_out.trace_marks.shape[1]
    body = wp.vec4(mechs.yaw[e, m], mechs.hp[e, m], mechs.heat[e, m], mechs.stability[e, m])
    tracks_out.trace_pos[e, k, m] = mechs.pos[e, m]
    tracks_out.trace_vel[e, k, m] = mechs.vel[e, m]
    tracks_out.trace_body[e, k, m] = body
    tracks_out.trace_marks[e, k, m] = status_bits(mechs, e, m)
