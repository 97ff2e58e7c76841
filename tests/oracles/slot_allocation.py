"""Plain-Python reference of contact slots by suite rules."""

from math import cos, inf

import numpy as np

from tests.oracles import display
from tests.oracles.shared import MISSILE, ahead, count, distance, flat, hostile, painted_by_pack_of

AIM_COS = cos(0.35)
MASS = (0.5, 0.7, 1.0, 1.5)
SCOUT, LIGHT, MEDIUM, HEAVY = range(4)
ROWS = {
    SCOUT: 4 * ["threat"] + 9 * ["newest"] + 7 * ["sorted"],
    LIGHT: 3 * ["aiming"] + 4 * ["friends"] + 3 * ["objective"],
    MEDIUM: 3 * ["allies"] + 3 * ["rest"],
    HEAVY: ["alert"] + 3 * ["fire_line"] + ["designated"],
}
FRIENDLY, ANYBODY = ("friends", "allies"), ("rest", "sorted", "newest")
THREATS = ("threat", "aiming", "fire_line")


def share(s, m: int, j: int) -> float:
    weight = max(0.01, 1 - (display.age(s, m, j) * display.DECISION_S + display.view(s, m)[2]) / display.MEMORY_S)
    return weight * (0.1 if display.confidence(s, m, j) < 0.1 - 1e-6 else 1.0)


def aims_at(s, m: int, j: int) -> bool:
    chased = MISSILE in s.round_weapon[j][s.round_target[j] == m]
    away = (s.pos[m] - s.pos[j]).astype(float)
    faces = display.age(s, m, j) == 0 and away @ ahead(s.yaw[j]) >= AIM_COS * flat(away)
    return bool(chased or (s.painted[m] > 0 and s.painter[m] == j) or faces)


def slot_key(s, rule: str, m: int, j: int, alerted: int | None) -> tuple[float, ...] | None:
    """Return the group and sort key of j under a rule, None if the rule rejects it."""
    age = display.age(s, m, j)
    if age is None or (rule == "alert" and j != alerted):
        return None
    if rule == "alert":
        return (0.0, 0.0, 0.0)
    foe = hostile(s, m, j)
    if (not foe and s.hostile_only[m]) or (rule not in ANYBODY and foe == (rule in FRIENDLY)):
        return None
    at = display.known(s, m, j)["pos"].astype(float)
    d, weight = distance(at, s.pos[m]), share(s, m, j)
    if rule == "newest":
        return (0.0, float(s.decision - s.known_since[m, j]), d)
    if rule == "friends":
        mates = [k for k in range(count(s)) if k // 5 == m // 5 and s.alive[k]]
        return (float(j != mates[0]), d / weight, 0.0)
    if rule == "objective":
        return (0.0, float(np.hypot(*(at[:2] - s.zone[:2]))) / weight, d)
    if rule == "designated":
        group = 0.0 if s.focus[m] == j else 1.0 if s.painted[j] > 0 and painted_by_pack_of(s, m, j) else None
        return None if group is None else (group, d / weight, 0.0)
    if (rule == "fire_line" and (age or s.sight[m, j] != 1)) or (rule == "aiming" and not aims_at(s, m, j)):
        return None
    if rule in THREATS:
        return (0.0, d / weight / MASS[s.chassis[j]], d)
    return (float(rule == "rest" and not foe), *display.key(s, m, j))


def precedes(a: tuple[float, ...], b: tuple[float, ...], margin: float = display.MARGIN) -> bool:
    return a[0] < b[0] or (a[0] == b[0] and display.precedes(a[1:], b[1:], margin))


def settle_slots(
    s, rule: str, indices: list[int], filled: dict[int, int], before: list[int], m: int, alerted: int | None
) -> None:
    """Fill the slots ``indices`` in place."""
    accepted = {j: slot_key(s, rule, m, j, alerted) for j in range(count(s)) if j != m}
    accepted = {j: key for j, key in accepted.items() if key is not None}
    for k in indices:
        if before[k] in accepted and before[k] not in filled.values():
            filled[k] = before[k]
    while True:
        out = [j for j in accepted if j not in filled.values()]
        if not out:
            return
        best = out[0]
        for j in out[1:]:
            best = j if precedes(accepted[j], accepted[best], 1.0) else best
        free = [k for k in indices if k not in filled]
        if free:
            filled[free[0]] = best
            continue
        worst: tuple[tuple[float, ...], int] = ((-inf, 0.0, 0.0), -1)
        for j, k in sorted((filled[k], k) for k in indices):
            worst = worst if worst[1] >= 0 and precedes(accepted[j], worst[0], 1.0) else (accepted[j], k)
        if worst[1] < 0 or not precedes(accepted[best], worst[0]):
            return
        filled[worst[1]] = best


def fill(s, m: int, before: list[int]) -> list[int]:
    """Return the 20 contact slots of m after those of ``before``, -1 for none."""
    filled: dict[int, int] = {}
    rules = ROWS[int(s.chassis[m])]
    if not s.alive[m]:
        return [-1] * 20
    alerted = display.alerted_contact(s, m)
    for rule in dict.fromkeys(rules):
        if rule != "rest":
            settle_slots(s, rule, [k for k, r in enumerate(rules) if r == rule], filled, before, m, alerted)
    settle_slots(s, "rest", [k for k in range(len(rules)) if k not in filled], filled, before, m, alerted)
    return [filled.get(k, -1) for k in range(20)]
