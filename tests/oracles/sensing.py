"""Plain-Python rules of sensing: sensor quality, visibility, sound, contact slots, and the observation row."""

from math import atan2, cos, floor, log, pi, sin

import numpy as np

from tests.oracles import shared as o
from tests.oracles.world import sees, smoked

CONTACT_SLOTS = (20, 10, 6, 5)
RANGE_FACTOR = (1.5, 1.2, 1.0, 0.8)
SQUAD_SLOTS = (4, 9, 9, 4)
SQUAD_DETAIL = (0, 1, 1, 0)
MASS = (0.5, 0.7, 1.0, 1.5)
DESCRIPTORS = (
    (1, 0, 0, 0, 0, 0, 1.0, 1.0, 0.8, 0.0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0, 0.5, 4 / 7, 0.6, 0.5, 0, 0, 1, 1),
    (0, 0, 1, 0, 0, 0, 0.3, 2 / 7, 0.7, 0.5, 0, 0, 1, 1),
    (0, 0, 0, 1, 0, 0, 0.25, 0.0, 1.0, 0.0, 0, 0, 1, 0),
)


def emits(s, m: int) -> bool:
    return bool((s.ecm[m] or s.eccm[m]) and not o.is_shut_down(s, m))


def quality(s, m: int) -> tuple[float, float, float]:
    """Return the sensor quality of a mech, and the jamming and the friendly ECCM that make it."""
    if not s.alive[m] or o.is_shut_down(s, m):
        return 0.25, 0.0, 0.0
    jam = aid = 0.0
    for j in o.living(s):
        strength = max(0.0, 1 - o.distance(s.pos[j], s.pos[m]) / 50)
        if o.hostile(s, m, j) and s.ecm[j] and emits(s, j):
            jam = max(jam, strength)
        if not o.hostile(s, m, j) and j != m and s.eccm[j] and emits(s, j):
            aid = max(aid, strength)
    return float(np.clip(1 - 0.85 * jam + 0.65 * aid, 0.25, 1.5)), jam, aid


def visible(s, m: int, j: int) -> bool:
    """Return whether m may know of j, in partial mode."""
    if m == j or not s.alive[m] or not s.alive[j]:
        return False
    q = quality(s, m)[0]
    radar = o.distance(s.pos[m], s.pos[j]) <= 14 * q * RANGE_FACTOR[s.chassis[m]]
    paint = o.painted_by_pack_of(s, m, j) and q >= 0.70
    bloom = s.heat[j] / o.MECHS[s.chassis[j]].heat_cap > 0.80
    shines = o.hostile(s, m, j) and (bloom or emits(s, j)) and not smoked(s, m, j)
    return bool(paint or radar or shines or sees(s, m, j))


def contacts(s, m: int, seen=visible) -> list[int]:
    """Return the mechs in the contact slots, in order."""
    slots = CONTACT_SLOTS[s.chassis[m]]

    def key(j: int):
        d = np.float32(o.distance(s.pos[m], s.pos[j]))
        first = {0: 0.0, 1: -o.MECHS[s.chassis[j]].rank, 2: s.hp[j] / o.MECHS[s.chassis[j]].hp}[int(s.sort_mode[m])]
        return first, d, j

    known = sorted((j for j in range(o.count(s)) if seen(s, m, j)), key=key)
    foes = [j for j in known if o.hostile(s, m, j)]
    friends = [] if s.hostile_only[m] else [j for j in known if not o.hostile(s, m, j)]
    chosen = friends[:3] + foes[:1]
    chosen += foes[1:] + friends[3:]
    return chosen[:slots]


def acoustic(s, m: int) -> list[float]:
    """Return the sound in the front-left, front-right, rear-left and rear-right quadrant."""
    sums = [0.0] * 4
    for j in o.living(s):
        if j == m or s.noise[j] <= 0:
            continue
        d = s.pos[j].astype(float) - s.pos[m]
        loud = s.noise[j] / (1 + d @ d) * (1.0 if sees(s, m, j) else 0.20)
        b = o.wrap(atan2(d[1], d[0]) - s.yaw[m])
        sums[(0 if abs(b) < pi / 2 else 2) + (0 if b >= 0 else 1)] += loud
    return [min(1.0, log(1 + x) / log(1 + 13.75 * (o.count(s) - 1))) for x in sums]


def contact_row(s, m: int, j: int) -> list[float]:
    mech, longest = o.MECHS[s.chassis[j]], max(s.size)
    r, rv = s.pos[j].astype(float) - s.pos[m], s.vel[j].astype(float) - s.vel[m]
    d, speed, v = float(np.linalg.norm(r)), float(np.linalg.norm(s.vel[j])), o.heading_frame(rv, s.yaw[m])
    drop = 0.5 * o.GRAVITY * (o.flat(r) / 40) ** 2
    pitch = atan2(r[2] + drop, o.flat(r)) / (pi / 4) if o.flat(r) > 0.1 else 0.0
    along = abs(r @ s.vel[j]) / (d * speed) if speed > 0.5 and d > 0.1 else 1.0
    return [
        *(o.heading_frame(r, s.yaw[m]) / longest),
        *np.clip(v / [14, 14, 10], -1, 1),
        sin(s.yaw[j] - s.yaw[m]), cos(s.yaw[j] - s.yaw[m]),
        *np.clip([s.hp[j] / mech.hp, s.heat[j] / (2 * mech.heat_cap), s.stability[j] / 100], 0, 1),
        s.fallen[j] > 0, o.is_legged(s, j), not o.hostile(s, m, j), o.hostile(s, m, j), 0,
        *(s.chassis[j] == c for c in range(4)),
        o.painted_by_pack_of(s, m, j), 1, np.clip(pitch, -1, 1),
        np.clip(-(rv @ r) / d / 14, -1, 1) if d > 0.1 else 0, 1 - along,
    ]  # fmt: skip


def squad(s, m: int) -> list[int]:
    """Return the squadmates shown: packmates in roster order, then the rest of the team by distance."""
    mates = [j for j in range(o.count(s)) if j != m and s.present[j] and not o.hostile(s, m, j)]
    near = [j for j in mates if s.pack[j] == s.pack[m]]
    rest = sorted((j for j in mates if j not in near), key=lambda j: (np.float32(o.distance(s.pos[j], s.pos[m])), j))
    return (near + rest)[: min(12, SQUAD_SLOTS[s.chassis[m]])]


def squad_row(s, m: int, j: int) -> list[float]:
    mech, detail, lives = o.MECHS[s.chassis[j]], SQUAD_DETAIL[s.chassis[m]], s.alive[j]
    r = o.heading_frame(s.pos[j].astype(float) - s.pos[m], s.yaw[m])
    row = [r[1] / o.flat(r), r[0] / o.flat(r), np.linalg.norm(r) / max(s.size), lives] + [0.0] * 6
    if detail >= 1:
        has_target = s.focus[j] >= 0 and s.alive[s.focus[j]]
        row[4:8] = [s.hp[j] / mech.hp * lives, min(1, s.heat[j] / (2 * mech.heat_cap)) * lives,
                    bool(s.engaged[j] > 0 or has_target) * lives, s.chassis[j] / 3]  # fmt: skip
    if detail >= 2:
        first = [w for w, trigger in o.CARRIED[s.chassis[j]].items() if trigger == o.PRIMARY][0]
        row[8:] = [s.stability[j] / 100 * lives, (s.cooldown[j][o.GUNS[first].timer] == 0) * lives]
    return row


def ego(s, m: int, limit: int, win: float) -> list[float]:
    """Return the 32 ego columns; ``limit`` decisions and a score of ``win`` end the episode."""
    mech, side, down = o.MECHS[s.chassis[m]], int(s.team[m]), o.is_shut_down(s, m)
    q, jam, _ = quality(s, m)
    targeted = any(
        o.hostile(s, m, j) and o.distance(s.pos[j], s.pos[m]) <= 8 and sees(s, m, j) for j in o.living(s)
    )  # fmt: skip
    chased = o.is_chased(s, m)
    own, tons = o.heading_frame(s.vel[m], s.yaw[m]) * (not down), s.zone_tonnage
    to_zone = np.array([s.zone[0] - s.pos[m][0], s.zone[1] - s.pos[m][1], 0.0])
    return [
        *acoustic(s, m), targeted, s.was_hit[m], s.painted[m] > 0,
        max(0, s.hp[m] / mech.hp), min(1, s.heat[m] / (2 * mech.heat_cap)), 1 - s.stability[m] / 100,
        *o.heading_frame(s.hit_dir[m], s.yaw[m])[:2], chased, q / 1.5, jam,
        0 if down else int(s.eccm[m]) - int(s.ecm[m]), s.suppressed[m] / 24,
        *np.clip(own / [7, 7, 10], -1, 1),
        *(min(1, s.cooldown[m][k] / full) for k, full in o.SHOWN_TIMERS),
        o.flat(to_zone) < s.zone[2], *(o.heading_frame(to_zone, s.yaw[m])[:2] / max(s.size[0], s.size[1])),
        (tons[side] - tons[1 - side]) / max(1e-9, tons.sum()),
        min(1, s.score[side] / win), min(1, s.score[1 - side] / win), s.decision / limit,
        (s.sort_mode[m] + 3 * s.hostile_only[m]) / 5,
    ]  # fmt: skip


def panel(s, m: int) -> list[float]:
    mech, shown = o.MECHS[s.chassis[m]], [int(j) for j in s.contact[m] if j >= 0]
    mass = [sum(MASS[s.chassis[j]] for j in shown if o.hostile(s, m, j) == side) for side in (True, False)]
    alert = s.was_hit[m] or s.hp[m] < 0.25 * mech.hp or s.heat[m] > 0.9 * mech.heat_cap or s.stability[m] < 20
    lives = sum(int(s.alive[j]) for j in squad(s, m))
    return [len(shown) / CONTACT_SLOTS[s.chassis[m]], 0, 0, lives / 12, min(1, mass[0] / 5), min(1, mass[1] / 5),
            bool(alert), SQUAD_DETAIL[s.chassis[m]] / 2]  # fmt: skip


def local_map(s, m: int) -> list[float]:
    """Return 11 by 11 cells around the mech, turned to its heading: 1 where walking is blocked or outside."""
    low = o.MOVES[s.material[:4]].any(axis=0)
    cells = []
    for i in range(-5, 6):
        for j in range(-5, 6):
            x = floor(s.pos[m][0] + cos(s.yaw[m]) * i - sin(s.yaw[m]) * j)
            y = floor(s.pos[m][1] + sin(s.yaw[m]) * i + cos(s.yaw[m]) * j)
            inside = 0 <= x < s.size[0] and 0 <= y < s.size[1]
            cells.append(float(not inside or low[y, x]))
    return cells


def row(s, m: int, *, limit: int = 240, win: float = 30.0, shown=contact_row) -> np.ndarray:
    """Return the columns before the end blocks: core and local map; slots as in ``s.contact``."""
    contact = np.zeros((20, 25)), np.ones(20)
    mates = np.zeros((12, 10)), np.ones(12)
    rest = np.zeros(32 + 14 + 8 + 121)
    if s.alive[m]:
        for k in np.flatnonzero(s.contact[m] >= 0):
            contact[0][k], contact[1][k] = shown(s, m, int(s.contact[m][k])), 0
        for k, j in enumerate(squad(s, m)):
            mates[0][k], mates[1][k] = squad_row(s, m, j), 0
        blocks = [ego(s, m, limit, win), DESCRIPTORS[s.chassis[m]], panel(s, m), local_map(s, m)]
        rest = np.concatenate([np.asarray(b, float) for b in blocks])
    return np.concatenate([contact[0].ravel(), contact[1], mates[0].ravel(), mates[1], rest])
