"""Oracle of space in plain Python: rays, boxes, movement, landings, wrecks and voxel damage."""

from math import ceil, floor, inf, sqrt

import numpy as np

from echelon.sim.random import StreamId, draw_u32, mix
from tests.oracles import shared as o

STEP = np.float32(1.1)
F = np.float32


Cell = tuple[int, int, int]


def cast(blocks: np.ndarray, start, end, include_end: bool = False) -> Cell | None:
    """Return the cell that blocks the segment, None if it is clear; a cell outside the grid means that it left."""
    found = trace(blocks, start, end, include_end)
    return found[0] if found else None


def trace(blocks: np.ndarray, start, end, include_end: bool = False) -> tuple[Cell, float] | None:
    """Return the cell that blocks the segment and its distance [vox], or None; ``blocks`` is bool [z, y, x]."""
    start, end = [float(v) for v in start], [float(v) for v in end]
    size = blocks.shape[::-1]
    length = sqrt(sum((b - a) ** 2 for a, b in zip(start, end, strict=True)))
    if length <= 1e-9:
        return None
    cell, last = [floor(v) for v in start], [floor(v) for v in end]

    def within() -> bool:
        return all(0 <= c < n for c, n in zip(cell, size, strict=True))

    def blocked() -> bool:
        return bool(blocks[cell[2], cell[1], cell[0]])

    if cell == last:
        return (tuple(cell), 0.0) if include_end and (not within() or blocked()) else None
    u = [(b - a) / length for a, b in zip(start, end, strict=True)]
    face = [inf] * 3
    for i in range(3):
        if abs(u[i]) > 1e-9:
            face[i] = (cell[i] + (u[i] > 0) - start[i]) / u[i]
    for _ in range(int(2 * length) + sum(size) + 2):
        axis = 0 if face[0] < face[1] and face[0] < face[2] else (1 if face[1] < face[2] else 2)
        travelled = face[axis]
        if travelled > length + 1e-3:
            return None
        cell[axis] += 1 if u[axis] > 0 else -1
        face[axis] += 1 / abs(u[axis])
        at_end = cell == last
        if at_end and not include_end:
            return None
        if not within() or blocked():
            return tuple(cell), travelled
        if at_end:
            return None
    return (-1, -1, -1), length


def sight(s, i: int, j: int) -> bool:
    """Return the terrain sight between two mechs, cast from the lower to the higher index."""
    a, b = min(i, j), max(i, j)
    return cast(o.SIGHT[s.material], s.pos[a], s.pos[b]) is None


def nearest_on(start, path, point) -> float:
    """Return the parameter in [0, 1] of the point of start + t * path that is closest to ``point``."""
    return float(np.clip((point - start) @ path / max(path @ path, 1e-9), 0, 1))


def smoked(s, i: int, j: int) -> bool:
    start, path = s.pos[i].astype(float), s.pos[j].astype(float) - s.pos[i]
    if np.linalg.norm(path) < 3e-5:
        return False
    centres = s.cloud_pos[s.cloud_ticks > 0].astype(float)
    return any(np.linalg.norm(start + nearest_on(start, path, c) * path - c) <= 4.0 for c in centres)


def sees(s, i: int, j: int) -> bool:
    """Return the sight between two mechs: no terrain and no smoke."""
    return sight(s, i, j) and not smoked(s, i, j)


def span(low, top, limit: int) -> range:
    """Return the cells of the grid that an interval touches; faces do not count."""
    return range(max(0, floor(low)), min(limit, ceil(top)))


def overlap(a, half_a, b, half_b) -> bool:
    return all(a[i] - half_a[i] < b[i] + half_b[i] and a[i] + half_a[i] > b[i] - half_b[i] for i in range(3))


def box_free(s, centre, half) -> bool:
    low, top = centre - half, centre + half
    if low[2] < 0:
        return False
    xs, ys, zs = (span(low[i], top[i], int(s.size[i])) for i in range(3))
    return not any(o.MOVES[s.material[z, y, x]] for z in zs for y in ys for x in xs)


def others_free(s, m: int, old, new) -> bool:
    half = o.MECHS[s.chassis[m]].half
    for j in o.living(s):
        their = o.MECHS[s.chassis[j]].half
        if j == m or not overlap(new, half, s.pos[j], their):
            continue
        drawing_apart = np.sum((new - s.pos[j]) ** 2) >= np.sum((old - s.pos[j]) ** 2)
        if not (overlap(old, half, s.pos[j], their) and drawing_apart):
            return False
    return True


def bounded(s, centre, half) -> np.ndarray:
    size = np.array(s.size, F)
    out = np.minimum(centre, size - half)
    out[:2] = np.maximum(out[:2], half[:2])
    return out


def steered(s, m: int) -> np.ndarray:
    mech, v = o.MECHS[s.chassis[m]], s.vel[m].astype(float)
    if o.is_shut_down(s, m) and not s.shutdown_due[m]:
        return (v - [0, 0, o.GRAVITY * o.DT]) * o.DAMPING
    f, side, up, turn = s.drive[m].astype(float) if not s.fallen[m] else np.zeros(4)
    s.yaw[m] = o.wrap(s.yaw[m] + turn * mech.yaw_rate * o.DT)
    n = max(1.0, sqrt(f * f + side * side))
    speed = mech.speed * (0.4 if o.is_legged(s, m) else 1) * (0.6 if o.under(s, m) == o.WATER else 1)
    jet = mech.jet * (0.5 if o.is_legged(s, m) else 1)
    planar = (o.ahead(s.yaw[m]) * f + o.left(s.yaw[m]) * side) / n * speed
    return np.array([planar[0], planar[1], v[2] + (up * jet - o.GRAVITY) * o.DT]) * o.DAMPING


def climbs(vz: float) -> bool:
    """Return whether a mech may step up: slow, or standing, which is falling at up to two ticks of gravity."""
    return abs(vz) < 1 or -2 * o.DAMPING * o.GRAVITY * o.DT <= vz <= 0


def move_mech(s, m: int) -> None:
    s.landing_speed[m] = 0
    half = o.MECHS[s.chassis[m]].half
    v = steered(s, m).astype(F)
    p, stepped = s.pos[m].copy(), False

    def free(centre) -> bool:
        return box_free(s, centre, half) and others_free(s, m, p, centre)

    for axis in range(3):
        expected = p.copy()
        expected[axis] += v[axis] * F(o.DT)
        target = bounded(s, expected, half)
        raised = bounded(s, target + np.array([0, 0, STEP], F), half)
        if free(target):
            p = target
            if axis == 2 and target[2] < expected[2]:
                v[2] = min(v[2], 0)
        elif axis < 2 and not stepped and climbs(v[2]) and free(raised):
            p, stepped = raised, True
        else:
            s.landing_speed[m] = max(0, -v[2]) if axis == 2 else 0
            v[axis] = 0
    s.pos[m], s.vel[m] = p, v
    s.noise[m] = 0 if s.fallen[m] else np.linalg.norm(v) * o.MECHS[s.chassis[m]].noise


def order_of(seed: int, tick: int, n: int) -> list[int]:
    """Return the movement order of a tick: an inside-out shuffle."""
    order: list[int] = []
    for i in range(n):
        j = (draw_u32(seed, StreamId.ORDER, tick, i, 0) * (i + 1)) >> 32
        order.append(i)
        order[j], order[i] = i, order[j]
    return order


def move_all(s) -> None:
    s.order[:] = order_of(int(s.seed), int(s.tick), o.count(s))
    for m in s.order:
        if s.alive[m]:
            move_mech(s, m)


def land_all(s) -> None:
    """Landings above 6 vox/s reduce stability, and damage mechs that had fallen."""
    for m in o.living(s):
        excess = max(0, s.landing_speed[m] - 6)
        s.stability[m] = max(0, s.stability[m] - 5 * excess)
        if s.fallen[m]:
            s.hp[m] -= excess
            s.took[m] += excess
        if s.hp[m] <= 0:
            s.alive[m], s.died[m], s.dying[m], s.hazard[m] = 0, 1, 1, 3
    stamp_wrecks(s)


def set_cell(s, x: int, y: int, z: int, kind: int) -> None:
    s.material[z, y, x] = kind
    s.voxel_hp[z, y, x] = o.VOXEL_HP[kind]


def damage_voxel(s, x: int, y: int, z: int, weapon: int, damage: float) -> None:
    kind = int(s.material[z, y, x])
    if not o.DESTRUCTIBLE[kind]:
        return
    amount = int(damage * o.GUNS[weapon].voxel_damage.get(kind, 1.0))
    if s.voxel_hp[z, y, x] > amount:
        s.voxel_hp[z, y, x] -= amount
    else:
        set_cell(s, x, y, z, o.DIRT if z == 0 else o.AIR)


def wreck_kind(m: int, chassis: int, low, top) -> int:
    """Return the material of a wreck, from a hash of mech, class and the six box bounds."""
    h = mix((m + 1) & 0xFFFFFFFF)
    h = mix(h ^ (chassis + 1))
    for a, b in zip(low, top, strict=True):
        h = mix(h ^ (a & 0xFFFFFFFF))
        h = mix(h ^ (b & 0xFFFFFFFF))
    return o.SOLID_DEBRIS if (h >> 8) / 2**24 < o.MECHS[chassis].wreck_solid else o.DEBRIS_FIELD


def stamp_wrecks(s) -> None:
    for m in np.flatnonzero(s.dying):
        s.dying[m] = 0
        half = o.MECHS[s.chassis[m]].half
        low, top = s.pos[m] - half, s.pos[m] + half
        kind = wreck_kind(int(m), int(s.chassis[m]), [floor(v) for v in low], [ceil(v) - 1 for v in top])
        xs, ys, zs = (span(low[i], top[i], int(s.size[i])) for i in range(3))
        for z, y, x in ((z, y, x) for z in zs for y in ys for x in xs):
            centre, cube = np.array([x, y, z], F) + F(0.5), np.full(3, 0.5, F)
            stands = any(overlap(centre, cube, s.pos[j], o.MECHS[s.chassis[j]].half) for j in o.living(s))
            if s.material[z, y, x] in (o.AIR, o.DIRT) and not stands:
                set_cell(s, x, y, z, kind)
