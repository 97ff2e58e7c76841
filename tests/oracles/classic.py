"""Plain-Python reference of the classic observation layout."""

from math import floor, pi

import numpy as np

from tests.oracles import sensing as sense
from tests.oracles import shared as o
from tests.oracles.world import sees, smoked

SLOTS = 5
BINS = 16


def visible(s, m: int, j: int) -> bool:
    """Return whether m knows of j in partial mode; every class has the same radar."""
    if m == j or not s.alive[m] or not s.alive[j]:
        return False
    q = sense.quality(s, m)[0]
    hot = s.heat[j] / o.MECHS[s.chassis[j]].heat_cap > 0.80
    shines = o.hostile(s, m, j) and (hot or sense.emits(s, j)) and not smoked(s, m, j)
    near = o.distance(s.pos[m], s.pos[j]) <= 14 * q
    return bool(near or (o.painted_by_pack_of(s, m, j) and q >= 0.70) or shines or sees(s, m, j))


def contacts(s, m: int, seen=visible) -> list[int]:
    """Return the contacts: three friends, hostiles, then more friends; only hostiles with the filter."""

    def key(j: int):
        mech, d = o.MECHS[s.chassis[j]], np.float32(o.distance(s.pos[m], s.pos[j]))
        return [(d, j), (-mech.rank, d, j), (s.hp[j] / mech.hp, d, j)][int(s.sort_mode[m])]

    known = sorted((j for j in range(o.count(s)) if seen(s, m, j)), key=key)
    foes = [j for j in known if o.hostile(s, m, j)]
    if s.hostile_only[m]:
        return foes[:SLOTS]
    friends = [j for j in known if j not in foes]
    return (friends[:3] + foes[:1] + foes[1:] + friends[3:])[:SLOTS]


def telemetry(s) -> np.ndarray:
    """Return the telemetry map by x and y: 1 where anything in the bin blocks mechs."""
    blocked = o.MOVES[s.material].any(axis=0).T
    cuts = [np.linspace(0, s.size[axis], BINS + 1).astype(int) for axis in (0, 1)]
    out = np.zeros((BINS, BINS))
    for i in range(BINS):
        for j in range(BINS):
            out[i, j] = blocked[cuts[0][i] : cuts[0][i + 1], cuts[1][j] : cuts[1][j + 1]].any()
    return out


def turned(raster: np.ndarray, yaw: float) -> np.ndarray:
    """Return a raster [x, y] as [ahead, left], rotated to the quarter turn nearest to a heading."""
    return np.rot90(raster, -floor(yaw / (pi / 2) + 0.5))


def own_scalars(s, m: int, limit: int, win: float) -> list[float]:
    mech, side, down = o.MECHS[s.chassis[m]], int(s.team[m]), o.is_shut_down(s, m)
    q, jam, _ = sense.quality(s, m)
    targeted = any(o.hostile(s, m, j) and o.distance(s.pos[j], s.pos[m]) <= 8 and sees(s, m, j) for j in o.living(s))
    chased = o.is_chased(s, m)
    share, tons, width = s.heat[m] / mech.heat_cap, s.zone_tonnage, max(s.size[0], s.size[1])
    to_zone = o.heading_frame([s.zone[0] - s.pos[m][0], s.zone[1] - s.pos[m][1], 0 - s.pos[m][2]], s.yaw[m])
    own = np.zeros(3) if down else o.heading_frame(s.vel[m], s.yaw[m])
    return [
        targeted, s.was_hit[m], s.painted[m] > 0, down, share > 0.85,
        np.clip(s.hp[m] / mech.hp, 0, 1), np.clip(share / 2, 0, 1), np.clip(1 - share, 0, 1), 1 - s.stability[m] / 100,
        *o.heading_frame(s.hit_dir[m], s.yaw[m]), chased, q / 1.5, jam,
        s.ecm[m] and not down, s.eccm[m] and not down, s.suppressed[m] / 24, min(1, s.cooldown[m][o.CD_AMS] / 20),
        *np.clip(own / [7, 7, 10], -1, 1), *(min(1, s.cooldown[m][k] / full) for k, full in o.SHOWN_TIMERS),
        o.flat(to_zone) < s.zone[2], *(to_zone / width), s.zone[2] / width,
        (tons[side] - tons[1 - side]) / max(1e-9, tons.sum()),
        min(1, s.score[side] / win), min(1, s.score[1 - side] / win), s.decision / limit,
        *(s.sort_mode[m] == k for k in range(3)), s.hostile_only[m],
    ]  # fmt: skip


def target(s, m: int) -> list[float]:
    """Return the one-hot of the chosen slot, and whether its mech is alive."""
    locked = s.focus[m] >= 0 and s.alive[s.focus[m]]
    return [*(float(s.focus_slot[m] == k) for k in range(SLOTS)), float(locked)]


def row(s, m: int, *, limit: int = 240, win: float = 30.0, echo: bool = False) -> np.ndarray:
    """Return the observation of a mech, 549 columns, or 555 with its target; slots as in ``s.contact``."""
    width = SLOTS * 25 + 121 + BINS * BINS + 4 + 4 + 39 + 6 * echo
    if not s.alive[m]:
        return np.zeros(width)
    seen = np.zeros((SLOTS, 25))
    for k, j in enumerate(j for j in s.contact[m] if j >= 0):
        seen[k] = sense.contact_row(s, m, int(j))
    blocks = [
        seen, sense.local_map(s, m), turned(telemetry(s), s.yaw[m]), sense.acoustic(s, m),
        [s.chassis[m] == c for c in range(4)], own_scalars(s, m, limit, win), target(s, m) if echo else [],
    ]  # fmt: skip
    return np.concatenate([np.ravel(np.asarray(block, float)) for block in blocks])
