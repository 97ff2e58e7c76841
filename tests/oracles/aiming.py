"""Plain-Python rules for the columns at the end of the suite layout."""

from math import atan2, cos, exp, hypot, sin

import numpy as np

from tests.oracles.shared import CARRIED, GUNS, MECHS, wrap

RANGE, MOST = 15.0, 8.0
STEPS = [(dx, dy, rise) for dx, dy in ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
         for rise in (-2, -1, 0, 1)]  # fmt: skip
"""Step (dx, dy, dk) of each flow code; the next code is the zone, 255 no path."""
GOAL, NO_PATH = 32, 255
LAYER = (0, 0, 0, 1)
"""Flow field of each class: that of a footprint radius of 1 cell, of 2 for the heavy."""


def ranged(d: float) -> float:
    return min(MOST, d / RANGE)


def aim_row(s, m: int, j: int, contact: np.ndarray) -> list[float]:
    """Return the columns of the contact j, whose row of the core is ``contact``."""
    r = np.asarray(contact[:3], float) * max(s.size)
    d, bearing = float(np.linalg.norm(r)), atan2(r[1], r[0])
    fine = np.clip(5 * sin(bearing), -1, 1) if abs(bearing) < np.pi / 2 else 0.0
    guns = [GUNS[w] for w in CARRIED[s.chassis[m]] if GUNS[w].damage > 0]
    reach = max((gun.own_sight or gun.range for gun in guns), default=0.0)
    pack = [i for i in range(m - m % 5, m - m % 5 + 5) if i != m and s.alive[i] and s.focus[i] == j]
    return [ranged(d), exp(-d / 8), sin(bearing), cos(bearing), fine, d <= reach, s.focus[m] == j, len(pack) / 4]


def path(s, m: int, flow: np.ndarray) -> tuple[float, float]:
    """Return the world bearing of the path of m to the zone, and its length [vox]; ``flow`` is ``[L, Z + 1, Y, X]``."""
    p, zone = s.pos[m].astype(float), s.zone.astype(float)
    field = flow[LAYER[s.chassis[m]]]
    cell = [min(max(int(p[0]), 0), s.size[0] - 1), min(max(int(p[1]), 0), s.size[1] - 1)]
    foot = int(max(0.0, p[2] - MECHS[s.chassis[m]].half[2] + 0.01))
    below = [k for k in range(min(foot, len(field) - 1) + 1) if field[k, cell[1], cell[0]] != NO_PATH]
    x, y, k = (*cell, max(below, default=0))
    cells, straight = [], (zone[0] - p[0], zone[1] - p[1])
    while len(cells) < 32 and field[k, y, x] < GOAL:
        dx, dy, dk = STEPS[field[k, y, x]]
        x, y, k = x + dx, y + dy, k + dk
        cells.append((x, y, k, hypot(dx, dy)))
    if not cells:
        return atan2(straight[1], straight[0]), hypot(*straight)
    length = sum(step for *_, step in cells) + hypot(zone[0] - x - 0.5, zone[1] - y - 0.5)
    ahead = straight
    if len(cells) >= 4 and field[cells[3][2], cells[3][1], cells[3][0]] != GOAL:
        ahead = (cells[3][0] + 0.5 - p[0], cells[3][1] + 0.5 - p[1])
    return atan2(ahead[1], ahead[0]), length


def course(s, m: int, flow: np.ndarray) -> list[float]:
    dx, dy = s.zone[0] - float(s.pos[m][0]), s.zone[1] - float(s.pos[m][1])
    to_zone = wrap(atan2(dy, dx) - s.yaw[m])
    bearing, length = path(s, m, flow)
    along = wrap(bearing - s.yaw[m])
    return [ranged(hypot(dx, dy)), sin(to_zone), cos(to_zone), ranged(float(s.zone[2])), sin(along), cos(along),
            ranged(length)]  # fmt: skip


def row(s, m: int, flow: np.ndarray, core: np.ndarray) -> np.ndarray:
    """Return the columns of the end blocks, which follow the row ``core``."""
    aim = np.zeros((20, 8))
    if not s.alive[m]:
        return np.zeros(aim.size + 7)
    for k in np.flatnonzero(s.contact[m] >= 0):
        aim[k] = aim_row(s, m, int(s.contact[m][k]), core[25 * k : 25 * k + 25])
    return np.concatenate([aim.ravel(), course(s, m, flow)])
