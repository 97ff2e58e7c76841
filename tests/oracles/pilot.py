"""Plain-Python rules of action decoding, of the ``legacy`` baseline, and of stuck detection."""

from __future__ import annotations

from math import atan2, degrees, pi

import numpy as np

from echelon.sim.random import StreamId, uniform01
from tests.oracles.shared import (
    CARRIED,
    GUNS,
    HEAVY,
    HITSCAN,
    HOMING,
    MECHS,
    NO_EWAR,
    PAINTERS,
    SCOUT,
    SMOKES,
    WATER,
    ahead,
    count,
    distance,
    flat,
    hostile,
    is_legged,
    is_shut_down,
    left,
    living,
    painted_by_pack_of,
    under,
    wrap,
)
from tests.oracles.world import sight

PRIMARY, VENT, SECONDARY, TERTIARY, SPECIAL = 4, 5, 6, 7, 8
COLUMN = {0: PRIMARY, 1: SECONDARY, 2: TERTIARY, 3: SPECIAL}


def decode_action(action: np.ndarray) -> np.ndarray:
    """Return an action as applied: non-finite entries are 0, clipped to [-1, 1], in steps of 1/127."""
    finite = np.where(np.isfinite(action), action, 0.0).astype(np.float32)
    return np.rint(np.clip(finite, -1, 1) * np.float32(127)) / np.float32(127)


def read_actions(s, switched: bool = True) -> None:
    """Set the controls of a decision from ``s.actions``; ``switched`` enables the optional features."""
    s.acting[:] = s.alive
    s.bad_actions[:] = (~np.isfinite(s.actions)).sum(axis=1)
    for m in range(count(s)):
        a = decode_action(s.actions[m]) * s.alive[m]
        s.drive[m], s.vent[m] = a[:4], a[VENT] > 0
        s.trigger[m] = sum((a[column] > 0) << bit for bit, column in COLUMN.items())
        s.message[m] = a[18:] * switched
        s.focus[m], s.focus_slot[m], s.ecm[m], s.eccm[m] = -1, -1, 0, 0
        if not s.alive[m] or not switched:
            continue
        slot = int(np.argmax(a[9:14]))
        target = int(s.contact[m][slot])
        if a[9 + slot] > 0 and target >= 0 and s.alive[target] and hostile(s, m, target):
            s.focus[m], s.focus_slot[m] = target, slot
        if s.chassis[m] == SCOUT and not s.withheld & NO_EWAR:
            half = 64 / 127  # decoded 0.5
            s.eccm[m], s.ecm[m] = a[SECONDARY] > half + 1e-4, 0 < a[SECONDARY] <= half + 1e-4
        s.sort_mode[m], s.hostile_only[m] = int(np.argmax(a[14:17])), a[17] > 0


def legacy_weapons(s, m: int, j: int) -> set[int]:
    """Return the weapons that the baseline fires at mech ``j``: homing ones by lock, others within range and a cone."""
    d = distance(s.pos[j], s.pos[m])
    delta = s.pos[j].astype(float) - s.pos[m]
    e = degrees(abs(wrap(atan2(delta[1], delta[0]) - s.yaw[m])))
    sees, painted = sight(s, m, j), painted_by_pack_of(s, m, j)
    fired = set()
    for weapon in CARRIED[int(s.chassis[m])].keys() - SMOKES:
        gun = GUNS[weapon]
        if weapon in HOMING:
            fires = e <= 90 and ((sees and d <= gun.own_sight) or (painted and d <= gun.range))
        else:
            cone = 30 if weapon in PAINTERS or gun.stability > 0 else 60
            fires = d <= gun.range and e <= cone and (sees or weapon not in HITSCAN)
        fired |= {weapon} if fires else set()
    return fired


def legacy(s, m: int, weapon_prob: float, width: int = 26) -> np.ndarray:
    """Return the baseline's action outside its unstick manoeuvre."""
    a = np.zeros(width)
    hostiles = [(distance(s.pos[j], s.pos[m]), j) for j in living(s) if hostile(s, m, j)]
    if not s.alive[m] or not hostiles:
        return a
    enemy, j = min(hostiles)
    chassis, yaw, cap = int(s.chassis[m]), float(s.yaw[m]), MECHS[s.chassis[m]].heat_cap
    pos = s.pos[m].astype(float)
    goal = np.array([s.zone[0], s.zone[1], pos[2]], float)
    to_zone = flat(goal - pos)
    middle = np.mean([s.pos[k] for k in living(s) if s.team[k] == s.team[m]], axis=0)
    if to_zone < 2 * s.zone[2] and flat(middle - pos) > 15 and enemy > 20:
        goal = (goal + middle) / 2
    path = (goal - pos) * [1, 1, 0]
    path /= max(flat(path), 1e-7)
    forward, strafe, inside = path @ ahead(yaw), path @ left(yaw), to_zone < s.zone[2]
    if enemy < 5.5 and not (chassis == HEAVY and inside):
        forward = -0.3
    else:
        strafe *= 0.25
    a[0], a[1] = np.array([forward, strafe]) * (0.5 if inside else 1.0)
    delta = s.pos[j].astype(float) - pos
    a[3] = np.clip(wrap(atan2(delta[1], delta[0]) - yaw) / (pi / 3), -1, 1)
    hot = s.heat[m] > 0.75 * cap
    a[VENT] = hot
    remaining = uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, 1) < weapon_prob
    if not hot and remaining:
        for weapon in legacy_weapons(s, m, j):
            a[COLUMN[CARRIED[chassis][weapon]]] = 1
    if chassis == SCOUT:
        a[SECONDARY] = 0.25 if s.heat[m] < 0.7 * cap else 0.75
    shown = s.contact[m][:5].tolist()
    if j in shown:
        a[9 + shown.index(j)] = 1
    a[14], a[17] = 1, 1
    return a


def is_without_progress(s, m: int, moved: float, throttle: float, dt_act: float) -> bool:
    """Return whether a mech that commanded ``throttle`` and moved ``moved`` [vox] in a decision made no progress."""
    speed = 0.98 * MECHS[s.chassis[m]].speed * min(1.0, throttle)
    speed *= (0.4 if is_legged(s, m) else 1) * (0.6 if under(s, m) == WATER else 1)
    able = throttle >= 0.2 and not s.fallen[m] and not is_shut_down(s, m)
    return bool(able and moved / dt_act < 0.25 * speed)
