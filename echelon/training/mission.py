"""Missions: orders as numbers, and how shaping, objective and outcome are weighed while training goes on.

Pure functions of plain numbers; nothing in training asks them yet. A mission is a verb with four parameters and a
place; it is judged by its own success, so that both teams may succeed. Progress runs from 0 to 1 over the planned
training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from echelon.config.ranges import require

VERBS = ("assault", "hold", "overwatch", "flank", "suppress", "scout", "stage")
PARAMETERS = ("risk", "loss_appetite", "time_pressure", "grouping")
PLACE_COLUMNS = 4
EMBEDDING_DIM = len(VERBS) + len(PARAMETERS) + PLACE_COLUMNS
DISTANCE_SCALE_VOX = 200.0
"""Distance to the target that fills its column [vox]."""

SCOUT_SHARES = (0.6, 0.4)
"""Of detections and terrain in the success of a scout."""
ASSAULT_SHARES = (0.7, 0.3)
"""Of capture and survivors in that of an assault."""
HOLD_SHARES = (0.6, 0.4)
"""Of retention and the attacker's attrition in that of a hold."""
SHAPING_FLOOR = 0.05
"""Least weight of shaping, from ``SHAPING_END`` on."""
SHAPING_END = 0.75
"""Progress at which shaping reaches its floor."""
QUARTER = 0.25
"""Length of a phase in progress."""
TERMINAL_START = 0.5
"""Progress at which the outcome begins to count."""
CASUALTY_FACTOR = 0.5
"""On the success of a team that lost more than its order accepts."""
LATE_FACTOR = 0.8
"""On the success of a team that took longer than its order allows."""
PARTS = {
    "survival": ("shaping", 0.3),
    "damage": ("shaping", 0.2),
    "heat": ("shaping", 0.1),
    "cohesion": ("shaping", 0.1),
    "zone": ("objective", 0.5),
    "progress": ("objective", 0.3),
    "success": ("terminal", 1.0),
}
"""What is paid for: the weight it follows and its share of that."""
PACK_WEIGHTS = {"heavy": 2.0, "medium": 1.0, "light": 0.7, "scout": 0.5}
LEAST_WHOLE = 1e-8
"""Denominators up to this count as nothing."""
PACK_UNIT = 10.0
"""Weight of a whole pack equivalent."""


@dataclass(frozen=True, kw_only=True)
class VerbGate:
    """Which shaping a verb lets through, 0 none to 1 all."""

    damage: float
    survival: float
    stealth: float
    detection: float
    suppression: float
    zone_progress: float
    resources: float


VERB_GATES: dict[str, VerbGate] = {
    verb: VerbGate(
        damage=damage,
        survival=survival,
        stealth=stealth,
        detection=detection,
        suppression=suppression,
        zone_progress=zone,
        resources=resources,
    )
    for verb, damage, survival, stealth, detection, suppression, zone, resources in (
        ("assault", 1.0, 0.5, 0.0, 0.0, 0.2, 1.0, 0.3),
        ("hold", 0.5, 1.0, 0.0, 0.3, 0.3, 0.0, 0.5),
        ("overwatch", 0.7, 0.8, 0.3, 0.5, 0.8, 0.0, 0.4),
        ("flank", 0.3, 0.7, 1.0, 0.2, 0.0, 0.5, 0.6),
        ("suppress", 0.2, 0.5, 0.0, 0.3, 1.0, 0.0, 0.3),
        ("scout", 0.0, 1.0, 0.8, 1.0, 0.0, 0.3, 0.7),
        ("stage", 0.0, 1.0, 0.5, 0.3, 0.0, 0.8, 1.0),
    )
}


@dataclass(frozen=True, kw_only=True)
class Order:
    """One team's mission as an agent is told of it."""

    verb: str
    risk: float
    """0 to 1, as the three below."""
    loss_appetite: float
    time_pressure: float
    grouping: float

    def __post_init__(self) -> None:
        require(self.verb in VERBS, "order.verb", self.verb, f"one of {', '.join(VERBS)}")
        for name in PARAMETERS:
            require(0.0 <= getattr(self, name) <= 1.0, f"order.{name}", getattr(self, name), "0 to 1")


def embed(order: Order, distance_vox: float, bearing_rad: float, complexity: float) -> list[float]:
    """Return an order as ``EMBEDDING_DIM`` numbers in [-1, 1]: verb, parameters, and where its target lies.

    ``complexity`` is the share of solid voxels in the target zone; distances beyond the scale are cut.
    """
    verb = [float(order.verb == name) for name in VERBS]
    parameters = [float(getattr(order, name)) for name in PARAMETERS]
    distance = min(max(distance_vox / DISTANCE_SCALE_VOX, 0.0), 1.0)
    return [*verb, *parameters, distance, math.sin(bearing_rad), math.cos(bearing_rad), min(max(complexity, 0.0), 1.0)]


def phase_at(progress: float) -> int:
    """Return the phase, 1 mechanics, 2 objective, 3 execution, 4 outcome."""
    return min(4, 1 + int(progress / QUARTER))


def shaping_weight(progress: float) -> float:
    """Return the weight of shaping: from 1 linearly to its floor."""
    return max(SHAPING_FLOOR, 1.0 - progress * (1.0 - SHAPING_FLOOR) / SHAPING_END)


def objective_weight(progress: float) -> float:
    """Return the weight of the objective: up in the first quarter, down in the third, then nothing."""
    if progress < QUARTER:
        return progress / QUARTER
    if progress < 2 * QUARTER:
        return 1.0
    return max(0.0, (3 * QUARTER - progress) / QUARTER)


def terminal_weight(progress: float) -> float:
    """Return the weight of the outcome: nothing in the first half, then linearly to 1."""
    return max(0.0, (progress - TERMINAL_START) / (1.0 - TERMINAL_START))


def raw_weights(progress: float) -> dict[str, float]:
    """Return the weight of each part before scaling."""
    levels = {
        "shaping": shaping_weight(progress),
        "objective": objective_weight(progress),
        "terminal": terminal_weight(progress),
    }
    return {name: share * levels[level] for name, (level, share) in PARTS.items()}


def weights(progress: float) -> dict[str, float]:
    """Return the weight of each part, which sum to 1 at every progress."""
    raw = raw_weights(progress)
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()}


def gated(verb: str, shaping: Mapping[str, float]) -> dict[str, float]:
    """Return shaping weights as the verb lets them through, scaled so that their sum stays; all 0 if none passes."""
    require(verb in VERB_GATES, "verb", verb, f"one of {', '.join(VERBS)}")
    known = {f.name for f in fields(VerbGate)}
    for name in shaping:
        require(name in known, "shaping component", name, f"one of {', '.join(sorted(known))}")
    passed = {name: weight * getattr(VERB_GATES[verb], name) for name, weight in shaping.items()}
    scale = safe_ratio(sum(shaping.values()), sum(passed.values()), default=0.0)
    return {name: weight * scale for name, weight in passed.items()}


def success_of_scout(detected: int, enemies: int, terrain_share: float) -> float:
    """Return the success of a scout: detections (all of none is all) and terrain covered."""
    detections, terrain = SCOUT_SHARES
    return detections * safe_ratio(detected, enemies, default=1.0) + terrain * terrain_share


def success_of_assault(captured: float, casualty_ratio: float) -> float:
    """Return the success of an assault: share captured, and survivors."""
    capture, survivors = ASSAULT_SHARES
    return capture * captured + survivors * (1.0 - casualty_ratio)


def success_of_hold(retained: float, attacker_attrition: float) -> float:
    """Return the success of a hold: share of time retained, and what it cost the attacker."""
    retention, attrition = HOLD_SHARES
    return retention * retained + attrition * attacker_attrition


def judged(success: float, order: Order, casualty_ratio: float, time_share: float) -> float:
    """Return success after what was lost beyond the order's appetite and time taken beyond its budget (1)."""
    costly = CASUALTY_FACTOR if casualty_ratio > order.loss_appetite else 1.0
    late = LATE_FACTOR if time_share > 1.0 else 1.0
    return success * costly * late


def terminal_reward(success: float) -> float:
    """Return the outcome's reward in [-1, 1] for a success in [0, 1]."""
    return 2.0 * success - 1.0


def pack_equivalent(counts: Mapping[str, int]) -> float:
    """Return how many packs a force of so many mechs of each class is worth."""
    for name in counts:
        require(name in PACK_WEIGHTS, "mech class", name, f"one of {', '.join(PACK_WEIGHTS)}")
    return sum(PACK_WEIGHTS[name] * count for name, count in counts.items()) / PACK_UNIT


def safe_ratio(part: float, whole: float, default: float) -> float:
    """Return ``part / whole``, or ``default`` where there is next to nothing to divide by."""
    return default if whole <= LEAST_WHOLE else part / whole
