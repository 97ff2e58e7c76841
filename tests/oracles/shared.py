"""Tables and small functions of the oracles: the rules of the game in plain Python, which kernels are compared with.

The oracles are written from the rules, not from the kernels. The other modules of this package hold the rules by topic;
all of them work on one environment's arrays, given as a namespace ``s`` (see ``tests/parity/scenes.py``), and change it
in place where the rule changes the state. A new weapon is a row of ``GUNS`` and an entry in ``CARRIED``.
"""

from collections.abc import Mapping
from math import ceil, cos, floor, hypot, pi, sin
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

SCOUT, LIGHT, MEDIUM, HEAVY = range(4)
LASER, FLAMER, MISSILE, GAUSS, AUTOCANNON, PAINTER, SMOKE = range(7)
CD_LASER, CD_KINETIC, CD_LAUNCHER, CD_PAINTER, CD_AMS = range(5)
PRIMARY, SECONDARY, TERTIARY, SPECIAL = range(4)
AIR, SOLID, LAVA, WATER, DEBRIS_FIELD, SOLID_DEBRIS, DIRT, GLASS, REINFORCED, FOLIAGE = range(10)

NO_HEAT, NO_MISSILES, NO_EWAR, NO_PAINT = 1, 2, 4, 8
"""Bits of the mechanics that an episode may disable."""
DT = 0.05
GRAVITY = 9.81
DAMPING = 0.98


class Mech(NamedTuple):
    """A row of the class table."""

    size: tuple[float, float, float]
    speed: float
    yaw_rate: float
    jet: float
    hp: float
    leg_hp: float
    heat_cap: float
    dissipation: float
    tonnage: float
    noise: float
    wreck_solid: float
    rank: int

    @property
    def half(self) -> np.ndarray:
        return np.array(self.size, np.float32) / np.float32(2)

    @property
    def hit_radius(self) -> float:
        return max(self.size) / 2


MECHS = (
    Mech((1.2, 1.2, 1.8), 7.0, 1.8, 18.0, 60, 30, 75, 13, 20, 1.0, 0.1, 1),
    Mech((1.5, 1.5, 2.0), 6.8, 1.5, 16.0, 80, 40, 80, 12, 35, 1.5, 0.3, 1),
    Mech((2.5, 2.5, 3.0), 5.5, 1.0, 0.0, 150, 75, 100, 11, 55, 2.5, 0.6, 2),
    Mech((3.5, 3.5, 4.0), 2.5, 0.6, 0.0, 200, 100, 130, 10, 85, 4.0, 0.9, 3),
)
ROSTER = (HEAVY, MEDIUM, MEDIUM, LIGHT, SCOUT)


class Gun(NamedTuple):
    """A row of the weapon table; ``cooldown`` and ``life`` in ticks of 0.05 s."""

    range: float
    damage: float
    stability: float
    heat: float
    cooldown: int
    arc_deg: float
    timer: int
    speed: float = 0.0
    life: int = 0
    target_heat: float = 0.0
    own_sight: float = 0.0
    splash: float = 0.0
    flight: str = "beam"
    """beam, straight, ballistic or homing."""
    paints: bool = False
    suppresses: bool = False
    smoke: bool = False
    voxel_damage: Mapping[int, float] = MappingProxyType({})
    """Factor on the damage to voxels of a material."""

    @property
    def needs(self) -> int:
        return NO_MISSILES * (self.flight == "homing") | NO_PAINT * self.paints


GUNS = {
    LASER: Gun(8.0, 14, 0, 22, 12, 120, CD_LASER, target_heat=6),
    FLAMER: Gun(4.5, 4, 0, 10, 3, 90, CD_KINETIC, target_heat=15),
    MISSILE: Gun(50.0, 40, 15, 45, 60, 180, CD_LAUNCHER, 12.0, 83, own_sight=12.0, splash=2.5, flight="homing"),
    GAUSS: Gun(20.0, 50, 60, 15, 80, 360, CD_KINETIC, 40.0, 10, splash=1.5, flight="ballistic"),
    AUTOCANNON: Gun(12.0, 8, 5, 6, 4, 360, CD_KINETIC, 25.0, 9, flight="straight", suppresses=True),
    PAINTER: Gun(10.0, 0, 0, 5, 20, 60, CD_PAINTER, paints=True),
    SMOKE: Gun(20.0, 0, 0, 10, 100, 360, CD_LAUNCHER, 15.0, 26, flight="straight", smoke=True),
}
CARRIED = {
    SCOUT: {PAINTER: PRIMARY, SMOKE: SPECIAL},
    LIGHT: {FLAMER: PRIMARY, LASER: SECONDARY, PAINTER: TERTIARY, SMOKE: SPECIAL},
    MEDIUM: {LASER: PRIMARY, AUTOCANNON: TERTIARY, PAINTER: TERTIARY, SMOKE: SPECIAL},
    HEAVY: {LASER: PRIMARY, MISSILE: SECONDARY, GAUSS: TERTIARY, SMOKE: SPECIAL},
}
SHOWN_TIMERS = (
    (CD_LASER, GUNS[LASER].cooldown),
    (CD_LAUNCHER, GUNS[MISSILE].cooldown),
    (CD_KINETIC, max(GUNS[w].cooldown for guns in CARRIED.values() for w in guns if GUNS[w].timer == CD_KINETIC)),
    (CD_PAINTER, GUNS[PAINTER].cooldown),
)
"""Timers that a mech observes of itself, with the ticks that read 1."""
HITSCAN = {w for w, gun in GUNS.items() if gun.flight == "beam"}
BALLISTIC = {w for w, gun in GUNS.items() if gun.flight == "ballistic"}
HOMING = {w for w, gun in GUNS.items() if gun.flight == "homing"}
PAINTERS = {w for w, gun in GUNS.items() if gun.paints}
SMOKES = {w for w, gun in GUNS.items() if gun.smoke}

MOVES = np.array([0, 1, 0, 0, 1, 1, 0, 1, 1, 0], bool)
SIGHT = np.array([0, 1, 0, 0, 1, 1, 0, 0, 1, 1], bool)
SHOTS = MOVES | SIGHT
VOXEL_HP = np.array([0, 100, 0, 0, 50, 200, 0, 10, 1000, 1])
DESTRUCTIBLE = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1], bool)


def ticks(seconds: float, dt: float = DT) -> int:
    return ceil(seconds / dt - 1e-6)


def life(seconds: float, dt: float = DT) -> int:
    return floor(seconds / dt + 1e-6)


def wrap(angle: float) -> float:
    return (angle + pi) % (2 * pi) - pi


def ahead(yaw: float) -> np.ndarray:
    return np.array([cos(yaw), sin(yaw), 0.0])


def left(yaw: float) -> np.ndarray:
    return np.array([-sin(yaw), cos(yaw), 0.0])


def heading_frame(v, yaw: float) -> np.ndarray:
    """Return a world vector in the frame (ahead, left, up) of heading ``yaw``."""
    v = np.asarray(v, float)
    return np.array([v @ ahead(yaw), v @ left(yaw), v[2]])


def distance(a, b) -> float:
    return float(np.linalg.norm(np.asarray(a, float) - np.asarray(b, float)))


def flat(v) -> float:
    return hypot(float(v[0]), float(v[1]))


def count(s) -> int:
    return len(s.alive)


def living(s) -> list[int]:
    return [m for m in range(count(s)) if s.alive[m]]


def hostile(s, a: int, b: int) -> bool:
    return bool(s.team[a] != s.team[b])


def is_chased(s, m: int) -> bool:
    """Return whether a hostile's missile flies at m."""
    return any(hostile(s, m, j) and MISSILE in s.round_weapon[j][s.round_target[j] == m] for j in range(count(s)))


def same_pack(s, a: int, b: int) -> bool:
    return bool(s.team[a] == s.team[b] and s.pack[a] == s.pack[b])


def is_shut_down(s, m: int) -> bool:
    return bool(s.heat[m] > MECHS[s.chassis[m]].heat_cap)


def is_legged(s, m: int) -> bool:
    return bool(s.leg_hp[m] <= 0)


def painted_by_pack_of(s, viewer: int, target: int) -> bool:
    return bool(s.painted[target] > 0 and s.painter[target] >= 0 and same_pack(s, s.painter[target], viewer))


def material_at(s, x: int, y: int, z: int) -> int:
    """Return the material of a cell, SOLID outside the map."""
    if not (0 <= x < s.size[0] and 0 <= y < s.size[1] and 0 <= z < s.size[2]):
        return SOLID
    return int(s.material[z, y, x])


def under(s, m: int, gap: float = 0.0) -> int:
    """Return the material at the feet of a mech, or ``gap`` [vox] below them, in the column of its centre."""
    x, y, z = s.pos[m]
    foot = z - MECHS[s.chassis[m]].half[2] - np.float32(gap)
    return material_at(s, floor(x), floor(y), floor(foot))
