"""Oracle of rounds in flight in plain Python: point defence, guidance, impacts, explosions and smoke."""

from math import ceil, floor
from typing import NamedTuple

import numpy as np

from echelon.sim.random import StreamId, uniform01
from tests.oracles import shared as o
from tests.oracles.combat import Hit, Splash, apply_hits, from_behind, unit
from tests.oracles.world import Cell, cast, damage_voxel, nearest_on, stamp_wrecks, trace


class End(NamedTuple):
    """The end of a round: its place, and what it struck."""

    owner: int
    weapon: int
    centre: np.ndarray
    struck: int = -1
    cell: Cell | None = None
    expired: bool = False


def rounds_phase(s) -> None:
    """Projectile phase of a tick; all hits are collected before any state changes."""
    defend(s)
    hits: list[Hit] = []
    ends: list[End] = []
    blocks = o.SHOTS[s.material]
    for m in range(o.count(s)):
        for slot in np.flatnonzero(s.round_weapon[m] >= 0):
            guide(s, m, slot)
            end = fly(s, m, slot, blocks)
            if end is None:
                continue
            ends.append(end)
            if end.struck >= 0 and end.weapon not in o.SMOKES:
                hits.append(struck_mech(s, end, s.round_pos[m, slot], s.round_vel[m, slot]))
            s.round_weapon[m, slot] = -1
    blasts = [end for end in ends if o.GUNS[end.weapon].splash and not end.expired]
    splashes = [splash for end in blasts for splash in blast(s, end)]
    for end in ends:
        if end.weapon in o.SMOKES:
            spread_smoke(s, end)
    apply_hits(s, hits, splashes)
    for end in ends:
        if end.cell and all(0 <= c < n for c, n in zip(end.cell, s.size, strict=True)):
            damage_voxel(s, *end.cell, end.weapon, o.GUNS[end.weapon].damage)
    for end in blasts:
        damage_sphere(s, end.centre, end.weapon)
    stamp_wrecks(s)


def defend(s) -> None:
    """Every ready heavy in range shoots at a homing round until one hits; a shot starts a cooldown of 1 s."""
    slots = s.round_weapon.shape[1]
    for m in range(o.count(s)):
        for slot in np.flatnonzero(np.isin(s.round_weapon[m], list(o.HOMING))):
            if s.round_age[m, slot] + 1 > o.GUNS[int(s.round_weapon[m, slot])].life:
                continue
            for j in o.living(s):
                ready = s.chassis[j] == o.HEAVY and not o.is_shut_down(s, j) and s.cooldown[j][o.CD_AMS] == 0
                friend = s.team[j] == s.team[s.round_target[m, slot]]
                if not ready or not friend or o.distance(s.pos[j], s.round_pos[m, slot]) > 5.5:
                    continue
                s.cooldown[j][o.CD_AMS] = o.ticks(1.0)
                if uniform01(int(s.seed), StreamId.COMBAT, int(s.tick), j, 64 + slots * m + int(slot)) < 0.60:
                    s.round_weapon[m, slot] = -1
                    s.intercepts[j] += 1
                    break


def guide(s, m: int, slot: int) -> None:
    weapon, target, v = int(s.round_weapon[m, slot]), int(s.round_target[m, slot]), s.round_vel[m, slot].astype(float)
    gun = o.GUNS[weapon]
    if gun.flight == "ballistic":
        s.round_vel[m, slot] = v - [0, 0, o.GRAVITY * o.DT]
    elif gun.flight == "homing" and s.alive[target]:
        to_target = s.pos[target].astype(float) - s.round_pos[m, slot]
        if np.linalg.norm(to_target) > 0.1:
            turned = v * (1 - 4 * o.DT) + unit(to_target) * gun.speed * 4 * o.DT
            s.round_vel[m, slot] = unit(turned) * gun.speed


def fly(s, m: int, slot: int, blocks: np.ndarray) -> End | None:
    """Age and move one round; return how it ended, None while it flies. It stops at a mech that it strikes."""
    weapon = int(s.round_weapon[m, slot])
    start, v = s.round_pos[m, slot].astype(float), s.round_vel[m, slot].astype(float)
    s.round_age[m, slot] += 1
    if s.round_age[m, slot] > o.GUNS[weapon].life:
        return End(m, weapon, start, expired=True)
    step = v * o.DT
    candidates = []
    for j in o.living(s):
        t = nearest_on(start, step, s.pos[j])
        if o.hostile(s, m, j) and o.distance(start + t * step, s.pos[j]) <= o.MECHS[s.chassis[j]].hit_radius:
            candidates.append((t, j))
    t, target = min(candidates) if candidates else (1.0, -1)
    wall = trace(blocks, start, start + t * step, include_end=True)
    if wall is not None:
        back = max(0.0, wall[1] - 1e-4 * float(np.linalg.norm(step)))
        return End(m, weapon, np.clip(start + unit(step) * back, 0, s.size), cell=wall[0])
    s.round_pos[m, slot] = start + t * step
    return End(m, weapon, s.pos[target].astype(float), struck=target) if target >= 0 else None


def struck_mech(s, end: End, at, v) -> Hit:
    size = o.MECHS[s.chassis[end.struck]].size
    leg = at[2] < s.pos[end.struck][2] - size[2] / 2 + 0.3 * size[2]
    return Hit(end.owner, end.struck, end.weapon, from_behind(v, s.yaw[end.struck]), bool(leg))


def blast(s, end: End) -> list[Splash]:
    """Return the splash on every mech in range and sight, also friends and the shooter, but not the struck mech."""
    return [
        Splash(end.owner, j, end.weapon, end.centre)
        for j in o.living(s)
        if j != end.struck
        and o.distance(s.pos[j], end.centre) <= o.GUNS[end.weapon].splash
        and cast(o.SIGHT[s.material], end.centre, s.pos[j]) is None
    ]


def damage_sphere(s, centre, weapon: int) -> None:
    radius, damage = o.GUNS[weapon].splash, o.GUNS[weapon].damage * 0.5
    low = [max(0, floor(c - radius)) for c in centre]
    top = [min(int(n), ceil(c + radius)) for c, n in zip(centre, s.size, strict=True)]
    for x, y, z in np.ndindex(*(max(0, b - a) for a, b in zip(low, top, strict=True))):
        cell = np.array([x, y, z]) + low
        if o.distance(cell + 0.5, centre) <= radius:
            damage_voxel(s, *cell, weapon, damage)


def spread_smoke(s, end: End) -> None:
    slot = int(np.flatnonzero(s.cloud_ticks[end.owner] == 0)[0])
    s.cloud_ticks[end.owner, slot], s.cloud_pos[end.owner, slot] = o.ticks(10.0), end.centre
    s.clouds = (s.cloud_ticks > 0).sum()
