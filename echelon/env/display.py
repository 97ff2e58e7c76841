"""The display manager's rules and memory: what a viewer still knows of whom, and how sure it is.

Sensing says who is visible; this keeps since when, and how every mech was in the last decisions, so that a contact lost
from sight can be shown as last seen and never as it is. ``contacts`` fills the slots from it, ``observe_contacts`` shows
them. The classic layout has no display manager: its memory is 0 and its readings are true.
"""

# ruff: noqa: E501
from __future__ import annotations

from math import cos
from typing import Any

import numpy as np
import warp as wp

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.layout import MAX_CONTACTS
from echelon.env.suites import COMBAT_SUITES, CombatSuiteSpec, SuiteType, build_suite_descriptor
from echelon.sim.backend import Launch, in_phase

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

CLASS_SUITES = (
    SuiteType.SCOUT_RECON,
    SuiteType.LIGHT_SKIRMISH,
    SuiteType.MEDIUM_ASSAULT,
    SuiteType.HEAVY_FIRE_SUPPORT,
)
"""Suite of each chassis."""
SWAPS = {"own": (0, 1, 2, 3), "swapped": (3, 2, 1, 0), "scout": (0,) * 4, "light": (1,) * 4, "medium": (2,) * 4, "heavy": (3,) * 4}
"""Whose suite each chassis has, by the name of the ablation."""
CONTACT_POINTS, ICON_POINTS, STATUS_POINTS = 5, 2, 8
"""What a contact and a squad row without and with status cost of the attention budget."""
FADE_FLOOR = wp.constant(0.01)
"""Least share of its priority that a track keeps while it is known."""
FALLEN, LEGGED, PAINTER_SHIFT = wp.constant(1), wp.constant(2), wp.constant(2)


@wp.struct
class Display:
    """What does not change of a display during play."""

    memory: int
    """Decisions that a contact is shown unseen."""
    memory_s: float
    dt: float
    """Seconds per decision."""
    keeps: int
    margin: float
    """Factor by which a contact must be better."""
    noise: float
    certainty: float
    quality_age: float
    jam_age: float
    jam_confidence: float
    jam_class: float
    eccm_most: float
    eccm_confidence: float
    eccm_class: float
    faint: float
    collision_s: float
    aim_cos: float
    reactor_heat: float
    low_stability: float
    degrades: int
    alerts: int
    scope: int
    descriptor: int
    oracle: int


def suites(cfg: EnvConfig) -> list[CombatSuiteSpec]:
    """Return the suite of each chassis, ablations applied."""
    own = [COMBAT_SUITES[s] for s in CLASS_SUITES]
    return [own[i] for i in SWAPS[cfg.display.suites]]


def memory_decisions(cfg: EnvConfig) -> int:
    """Return how many decisions a contact is shown unseen; 0 in the classic layout and where all is shown anyway."""
    if cfg.obs_layout == "classic" or cfg.display.oracle:
        return 0
    return int(cfg.display.memory_s / cfg.dt_act + 1e-6)


def pack(cfg: EnvConfig) -> Any:
    """Return the rules of this configuration's displays as the device has them."""
    dials, made = cfg.display, Display()
    managed = cfg.obs_layout == "suite"
    made.memory = memory_decisions(cfg)
    made.dt = cfg.dt_act
    made.margin = 1.0 + dials.margin
    made.keeps = int(managed and dials.keeps_slots)
    made.noise = dials.noise if managed and not dials.oracle else 0.0
    made.degrades = int(managed and dials.degrades and not dials.oracle)
    made.alerts = int(dials.alerts)
    made.scope = int(dials.scope)
    made.descriptor = int(dials.descriptor)
    made.oracle = int(managed and dials.oracle)
    made.certainty = dials.class_certainty
    made.quality_age = dials.quality_age_s
    made.aim_cos = cos(dials.aim_cone_rad)
    made.jam_age = dials.jam_age_s
    for name in ("memory_s", "jam_confidence", "jam_class", "eccm_most", "eccm_confidence", "eccm_class", "faint",
                 "collision_s", "reactor_heat", "low_stability"):  # fmt: skip
        setattr(made, name, getattr(dials, name))
    return made


def _slots(cfg: EnvConfig, spec: CombatSuiteSpec, alerts: int = 0) -> int:
    """Return a suite's contact slots while ``alerts`` of them are taken by alerts, which cost no attention."""
    if cfg.display.oracle:
        return MAX_CONTACTS
    if not cfg.display.attention:
        return spec.visual_contact_slots
    row = STATUS_POINTS if spec.squad_detail_level else ICON_POINTS
    left = cfg.display.attention - row * spec.squad_position_slots
    return min(spec.visual_contact_slots, max(0, left) // CONTACT_POINTS + alerts)


def constants(cfg: EnvConfig) -> dict[str, tuple[Any, Any]]:
    """Return what differs by chassis: array name to (values, type)."""
    specs = suites(cfg)
    if cfg.obs_layout == "classic":
        same = len(specs) * [1]
        by_layout = {
            "suite_slots": ([layout.CLASSIC_SLOTS * i for i in same], wp.int32),
            "sensor_range": (same, wp.float32),
            "suite_alerts": ([0 * i for i in same], wp.int32),
            "alert_slots": ([layout.CLASSIC_SLOTS * i for i in same], wp.int32),
            "paint_reports": (same, wp.int32),
        }
    else:
        forced = [cfg.display.alerts and s.suite == SuiteType.HEAVY_FIRE_SUPPORT for s in specs]
        received = [cfg.display.reports and s.receives_painted_targets for s in specs]
        by_layout = {
            "suite_slots": ([_slots(cfg, s) for s in specs], wp.int32),
            "sensor_range": ([s.sensor_range_mult for s in specs], wp.float32),
            "suite_alerts": ([int(f) for f in forced], wp.int32),
            "alert_slots": ([_slots(cfg, s, alerts=1) for s in specs], wp.int32),
            "paint_reports": ([int(r) for r in received], wp.int32),
        }
    squad = [[s.squad_position_slots, s.squad_detail_level] for s in specs]
    return {
        **by_layout,
        "suite_squad": (np.array(squad, np.int32), wp.int32),
        "suite_fidelity": ([s.sensor_fidelity for s in specs], wp.float32),
        "descriptors": (np.array([build_suite_descriptor(s) for s in specs], np.float32), wp.float32),
    }


def begun(cfg: EnvConfig, fresh: str) -> list[Launch]:
    """Return the launches that forget everything where array ``fresh`` says so."""
    return in_phase("display", [Launch(clear_tracks, "EM", {"fresh": fresh})]) if memory_decisions(cfg) else []


def kept(cfg: EnvConfig, fresh: str) -> list[Launch]:
    """Return the launches that take note of what is seen where array ``fresh`` says so."""
    return in_phase("display", [Launch(store_tracks, "EM", {"fresh": fresh})]) if memory_decisions(cfg) else []


@wp.func
def sensor_view(d: Display, quality: float, jam: float, aid: float) -> wp.vec4:
    """What sensors make of a contact in sight: confidence, that in its class, age added [s], decisions it is remembered."""
    if d.degrades == 0:
        return wp.vec4(1.0, 1.0, 0.0, float(d.memory))
    sound = wp.min(quality, 1.0)
    restored = aid * wp.min(jam, d.eccm_most)
    sure = wp.clamp(sound * (1.0 - d.jam_confidence * jam) + d.eccm_confidence * restored, 0.0, 1.0)
    kind = wp.clamp(sound * (1.0 - d.jam_class * jam) + d.eccm_class * restored, 0.0, 1.0)
    extra = d.quality_age * (1.0 - sound) + d.jam_age * jam
    left = wp.floor((d.memory_s - extra) / d.dt + 1.0e-4)
    return wp.vec4(sure, kind, extra, wp.min(left, float(d.memory)))


@wp.func
def priority_share(d: Display, view: wp.vec4, age: int) -> float:
    """Share of its priority that a track of this age keeps, before it is faint."""
    if d.degrades == 0 and age == 0:
        return 1.0
    return wp.max(FADE_FLOOR, 1.0 - (float(age) * d.dt + view[2]) / wp.max(d.memory_s, d.dt))


@wp.func
def confidence(d: Display, view: wp.vec4, age: int) -> float:
    """Confidence in a track; that of one out of sight fades with its age."""
    if age == 0:
        return view[0]
    return view[0] * priority_share(d, view, age)


@wp.func
def known_age(
    d: Display, view: wp.vec4, e: int, m: int, j: int, now: int, alive: wp.array2d(dtype=wp.int32), visible: wp.array3d(dtype=wp.uint8), seen: wp.array3d(dtype=wp.int32),
) -> int:
    """Decisions since m last saw j: 0 in sight, -1 for one it does not know of."""
    if visible[e, m, j] == wp.uint8(1):
        return 0
    if d.oracle == 1 and j != m and alive[e, j] == 1:
        return 0
    if d.memory > 0 and alive[e, j] == 1:
        since = seen[e, m, j]
        age = now - since
        if since >= 0 and age > 0 and float(age) <= view[3]:
            return age
    return -1


@wp.func
def status_bits(fallen: int, leg_hp: float, painted: int, painter: int) -> int:
    """What one sees of a mech besides numbers, as bits: fallen, legged, and above them one more than its painter."""
    marks = int(0)
    if fallen > 0:
        marks += FALLEN
    if leg_hp <= 0.0:
        marks += LEGGED
    if painted > 0:
        marks += (painter + 1) << PAINTER_SHIFT
    return marks


@wp.kernel
def clear_tracks(
    # state in
    fresh: wp.array(dtype=wp.int32),
    # state out
    trace_pos: wp.array3d(dtype=wp.vec3), trace_vel: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4), trace_marks: wp.array3d(dtype=wp.int32),
):
    """Begin an episode without a past."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    for k in range(trace_marks.shape[1]):
        trace_pos[e, k, m] = wp.vec3(0.0, 0.0, 0.0)
        trace_vel[e, k, m] = wp.vec3(0.0, 0.0, 0.0)
        trace_body[e, k, m] = wp.vec4(0.0, 0.0, 0.0, 0.0)
        trace_marks[e, k, m] = 0


@wp.kernel
def store_tracks(
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), vel: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), hp: wp.array2d(dtype=wp.float32), leg_hp: wp.array2d(dtype=wp.float32), heat: wp.array2d(dtype=wp.float32), stability: wp.array2d(dtype=wp.float32), fallen: wp.array2d(dtype=wp.int32), painted: wp.array2d(dtype=wp.int32), painter: wp.array2d(dtype=wp.int32),
    # state out
    trace_pos: wp.array3d(dtype=wp.vec3), trace_vel: wp.array3d(dtype=wp.vec3), trace_body: wp.array3d(dtype=wp.vec4), trace_marks: wp.array3d(dtype=wp.int32),
):
    """Note how a living mech is now, for those who lose sight of it; twice in a decision changes nothing."""
    e, m = wp.tid()
    if fresh[e] == 0 or alive[e, m] == 0:
        return
    now = decision[e]
    k = now % trace_marks.shape[1]
    trace_pos[e, k, m] = pos[e, m]
    trace_vel[e, k, m] = vel[e, m]
    trace_body[e, k, m] = wp.vec4(yaw[e, m], hp[e, m], heat[e, m], stability[e, m])
    trace_marks[e, k, m] = status_bits(fallen[e, m], leg_hp[e, m], painted[e, m], painter[e, m])
