"""Oracle of upkeep, weapons and damage in plain Python."""

from math import atan2, cos, radians
from typing import NamedTuple

import numpy as np

from echelon.sim.random import StreamId, uniform01
from tests.oracles import shared as o
from tests.oracles.sensing import quality
from tests.oracles.world import sees, stamp_wrecks

REAR = 0.707
BY_LAVA, BY_DEBRIS = 1, 2


class Hit(NamedTuple):
    """One direct hit, before the damage pipeline."""

    shooter: int
    target: int
    weapon: int
    rear: bool
    leg: bool


class Splash(NamedTuple):
    """Splash of one explosion on one mech."""

    shooter: int
    target: int
    weapon: int
    centre: np.ndarray


def clock(s) -> None:
    s.tick += 1
    s.cloud_ticks[:] = np.maximum(0, s.cloud_ticks - 1)
    s.clouds = (s.cloud_ticks > 0).sum()


def upkeep(s) -> None:
    for m in o.living(s):
        s.cooldown[m] = np.maximum(0, s.cooldown[m] - 1)
        s.painted[m], s.suppressed[m] = max(0, s.painted[m] - 1), max(0, s.suppressed[m] - 1)
    for m in o.living(s):
        heat_and_hazards(s, m)
    for m in o.living(s):
        keep_balance(s, m)
    stamp_wrecks(s)


def felt(s, heat: float) -> float:
    """Return the heat that a mech absorbs: none where the heat mechanic is disabled."""
    return 0.0 if s.withheld & o.NO_HEAT else heat


def heat_and_hazards(s, m: int) -> None:
    mech, heat, damage, was_down = o.MECHS[s.chassis[m]], float(s.heat[m]), 0.0, o.is_shut_down(s, m)
    if not was_down:
        heat += felt(s, 3.0 * s.ecm[m] + 2.0 * s.eccm[m]) * o.DT
    if o.under(s, m) == o.LAVA:
        heat, damage = heat + felt(s, 40) * o.DT, damage + 5 * o.DT
    elif o.under(s, m) == o.WATER:
        heat = max(0.0, heat - 30 * o.DT)
    if o.under(s, m, 0.05) == o.DEBRIS_FIELD:
        heat, damage = heat + felt(s, 20) * o.DT, damage + 1.25 * o.DT
    if s.vent[m] and heat <= mech.heat_cap:
        heat -= 2 * mech.dissipation * o.DT
    s.heat[m] = max(0.0, heat - mech.dissipation * o.DT)
    note_shutdown(s, m)
    s.hp[m] -= damage
    s.took[m] += damage
    if s.hp[m] <= 0:
        kill(s, m, -1)
        s.hazard[m] = BY_LAVA if o.under(s, m) == o.LAVA else BY_DEBRIS


def note_shutdown(s, m: int) -> None:
    s.shutdowns[m] += o.is_shut_down(s, m) and not s.shutdown[m]
    s.shutdown[m] = o.is_shut_down(s, m)


def kill(s, m: int, by: int) -> None:
    s.alive[m], s.died[m], s.dying[m], s.killer[m] = 0, 1, 1, by


def keep_balance(s, m: int) -> None:
    if s.fallen[m] > 0:
        s.fallen[m] -= 1
        if s.fallen[m] == 0:
            s.stability[m] = 50
    elif s.stability[m] <= 0:
        s.fallen[m], s.vel[m] = o.ticks(3.0), 0
        s.knockdowns[m] += 1
    else:
        moving = np.linalg.norm(s.vel[m]) > 1
        k = max(0.1, 1 - 0.5 * o.is_legged(s, m) - 0.5 * moving - 0.75 * (s.suppressed[m] > 0))
        s.stability[m] = min(50 if o.is_legged(s, m) else 100, s.stability[m] + 10 * o.DT * k)


def bearing_error(s, m: int, j: int) -> float:
    d = s.pos[j].astype(float) - s.pos[m]
    return abs(o.wrap(atan2(d[1], d[0]) - s.yaw[m]))


def may_aim(s, m: int, j: int, weapon: int) -> bool:
    gun, d = o.GUNS[weapon], s.pos[j].astype(float) - s.pos[m]
    far = float(np.linalg.norm(d))
    in_arc = o.flat(d) < 1e-7 or d @ o.ahead(s.yaw[m]) >= cos(radians(gun.arc_deg / 2)) * o.flat(d)
    if not o.hostile(s, m, j) or far > gun.range or not in_arc:
        return False
    if gun.flight == "homing" and o.painted_by_pack_of(s, m, j) and quality(s, m)[0] >= 0.70:
        return True
    return far <= (gun.own_sight or gun.range) and sees(s, m, j)


def aimed_target(s, m: int, weapon: int) -> int:
    """Return the focus target if the weapon locks on it, else the nearest hostile it locks on, else -1."""
    candidates = [(j != s.focus[m], o.distance(s.pos[j], s.pos[m]), j) for j in o.living(s) if may_aim(s, m, j, weapon)]
    return min(candidates)[2] if candidates else -1


def kinetic_target(s, m: int, weapon: int) -> int:
    """Return the focus target within 0.2 rad, else the nearest hostile within 0.1 rad, else -1; no sight test."""
    near = [j for j in o.living(s) if o.hostile(s, m, j) and o.distance(s.pos[j], s.pos[m]) <= o.GUNS[weapon].range]
    if s.focus[m] in near and bearing_error(s, m, s.focus[m]) < 0.2:
        return int(s.focus[m])
    candidates = [(o.distance(s.pos[j], s.pos[m]), j) for j in near if bearing_error(s, m, j) < 0.1]
    return min(candidates)[1] if candidates else -1


def from_behind(travel, target_yaw: float) -> bool:
    return o.flat(travel) >= 1e-6 and float(np.asarray(travel, float) @ o.ahead(target_yaw)) / o.flat(travel) > REAR


def weapons_phase(s) -> list[Hit]:
    """Fire all triggered weapons: update heat, cooldowns and rounds; return the hitscan hits."""
    hits: list[Hit] = []
    for m in o.living(s):
        for weapon, gun in o.GUNS.items():
            trigger = o.CARRIED[s.chassis[m]].get(weapon)
            if trigger is None or not s.trigger[m] >> trigger & 1:
                continue
            if s.fallen[m] or o.is_shut_down(s, m) or s.cooldown[m][gun.timer] or s.withheld & gun.needs:
                continue
            target = -1
            if gun.flight in ("beam", "homing"):
                target = aimed_target(s, m, weapon)
                if target < 0:
                    continue
            if weapon in o.HITSCAN:
                hits.append(hitscan_hit(s, m, target, weapon))
            else:
                launch(s, m, weapon, target)
            s.heat[m] += felt(s, gun.heat)
            s.cooldown[m][gun.timer] = gun.cooldown
            s.fired[m] |= 1 << weapon
    return hits


def hitscan_hit(s, m: int, target: int, weapon: int) -> Hit:
    half_z = float(o.MECHS[s.chassis[target]].half[2])
    u = uniform01(int(s.seed), StreamId.COMBAT, int(s.tick), m, weapon)
    height = s.pos[target][2] + 0.5 * (2 * u - 1) * half_z
    leg = height < s.pos[target][2] - half_z + 0.3 * 2 * half_z
    return Hit(m, target, weapon, from_behind(s.pos[target] - s.pos[m], s.yaw[target]), bool(leg))


def unit(v) -> np.ndarray:
    return np.asarray(v, float) / np.linalg.norm(v)


def launch(s, m: int, weapon: int, target: int) -> None:
    """Put a round of the weapon into the first free slot; only homing rounds are given a target."""
    gun = o.GUNS[weapon]
    here, half_z, direction = s.pos[m].astype(float), float(o.MECHS[s.chassis[m]].half[2]), o.ahead(s.yaw[m])
    if gun.flight == "homing":
        muzzle = here + [0, 0, half_z + 0.5]
        direction = unit(unit(s.pos[target] - here) + [0, 0, 0.5])
    elif gun.smoke:
        muzzle, target = here + [0, 0, half_z], int(s.focus[m])
        if target >= 0 and not s.alive[target]:
            target = -1
        toward = (s.pos[target] - here) * [1, 1, 0]
        if target >= 0 and o.distance(s.pos[target], here) <= gun.range and o.flat(toward) > 1e-7:
            direction = unit(toward)
    else:
        muzzle, target = here + [0, 0, 0.8 * half_z], kinetic_target(s, m, weapon)
        if target >= 0:
            t = o.distance(s.pos[target], muzzle) / gun.speed
            drop = 0.5 * o.GRAVITY * t * t if gun.flight == "ballistic" else 0.0
            direction = unit(s.pos[target] - muzzle + [0, 0, drop])
    slot = int(np.flatnonzero(s.round_weapon[m] < 0)[0])
    s.round_weapon[m, slot], s.round_age[m, slot], s.round_target[m, slot] = weapon, 0, target
    s.round_pos[m, slot], s.round_vel[m, slot] = muzzle, direction * gun.speed


def apply_hits(s, hits: list[Hit], splashes: list[Splash] | None = None) -> None:
    """Apply the hits of a phase together: all read the state before it; deaths are resolved at the end."""
    shares: dict[int, dict[int, float]] = {m: {} for m in range(len(s.alive))}
    assisted: set[int] = set()
    before = {m: (int(s.painted[m]), int(s.painter[m])) for m in shares}
    for by in range(len(s.alive)):
        for hit in (h for h in hits if h.shooter == by):
            direct_hit(s, hit, before[hit.target], shares, assisted)
        for splash in (x for x in splashes or [] if x.shooter == by):
            apply_splash(s, splash, shares)
    for m in assisted:
        s.assists[before[m][1]] += 1
        s.assist_tick[m] = s.tick + o.ticks(1.0)
    for m in o.living(s):
        s.hp[m] -= sum(shares[m].values())
        s.took[m] += sum(shares[m].values())
        for by, body in shares[m].items():
            (s.dealt if o.hostile(s, by, m) else s.dealt_friendly)[by] += body
    for m in o.living(s):
        # Heat from own fire shuts a mech down at once, heat from hits of others from the next tick.
        given = sum(felt(s, o.GUNS[hit.weapon].target_heat) for hit in hits if hit.target == m)
        own = s.heat[m] - given <= o.MECHS[s.chassis[m]].heat_cap
        s.shutdown_due[m] = o.is_shut_down(s, m) and not s.shutdown[m] and own
        note_shutdown(s, m)
        if s.hp[m] <= 0:
            # The kill goes to the hostile with the largest share, to a friend only without any hostile.
            by = max(shares[m], key=lambda k: (o.hostile(s, k, m), shares[m][k], -k))
            kill(s, m, by)
            s.kills[by] += o.hostile(s, by, m)


def direct_hit(s, hit: Hit, paint: tuple[int, int], shares: dict, assisted: set[int]) -> None:
    """Apply a direct hit; ``paint`` is (ticks, painter) of the target before the phase."""
    gun, m, by = o.GUNS[hit.weapon], hit.target, hit.shooter
    helped = paint[0] > 0 and paint[1] >= 0 and painted_pack(s, paint[1], by)
    body = gun.damage * (1.5 if hit.rear else 1.0) * (1.1 if helped else 1.0)
    if gun.paints:
        s.painted[m], s.painter[m] = o.ticks(5.0), by
    if body > 0:
        if helped and paint[1] != by and s.tick >= s.assist_tick[m]:
            assisted.add(m)
        if hit.leg:
            s.leg_hp[m] -= body
            body *= 0.5
        shares[m][by] = shares[m].get(by, 0.0) + body
        record_hit(s, m, s.pos[by])
    s.heat[m] += felt(s, gun.target_heat)
    in_flight = hit.weapon not in o.HITSCAN
    s.stability[m] = max(0.0, s.stability[m] - gun.stability * (1.5 if hit.rear and in_flight else 1.0))
    if gun.suppresses:
        s.suppressed[m] = max(s.suppressed[m], o.ticks(1.2))


def apply_splash(s, splash: Splash, shares: dict) -> None:
    gun, m, by = o.GUNS[splash.weapon], splash.target, splash.shooter
    shares[m][by] = shares[m].get(by, 0.0) + gun.damage * 0.5
    s.stability[m] = max(0.0, s.stability[m] - gun.stability * 0.5)
    record_hit(s, m, splash.centre)


def record_hit(s, m: int, source) -> None:
    """Record that a mech was hit from ``source``."""
    s.was_hit[m] = 1
    if o.distance(source, s.pos[m]) >= 0.1:
        s.hit_dir[m] = unit(source - s.pos[m].astype(float))


def painted_pack(s, painter: int, shooter: int) -> bool:
    return bool(s.team[painter] == s.team[shooter] and s.pack[painter] == s.pack[shooter])
