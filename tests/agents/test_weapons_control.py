"""Weapons control of scripted pilots: every weapon of the arsenal is fired by some level."""

import numpy as np
import pytest

from echelon.agents.heuristic import script_of
from echelon.agents.levels import LEVELS
from echelon.agents.weapons_control import BY_DAMAGE_PER_HEAT
from echelon.sim.arsenal import CHASSIS, WEAPONS, Chassis, Weapon, WeaponSpec
from tests.env.battle import Battle

X, Y = 8.0, 30.0
DECISIONS = 12


def fires(battle: Battle, weapon: WeaponSpec, chassis: Chassis, skill: str) -> bool:
    """Whether a damaged pilot under fire fires a weapon at a painted target in front of it, within range."""
    bit = 1 << int(weapon.weapon)
    battle.fresh()
    spot = X + min(0.8 * (weapon.own_sight_vox or weapon.range_vox), 40.0)
    battle.place(0, chassis, X, Y)
    battle.place(5, Chassis.MEDIUM, spot, Y, yaw=np.pi)
    battle.put("script", script_of(skill), 0)
    spec = CHASSIS[chassis]
    for _ in range(DECISIONS):
        battle.put("pos", (X, Y, spec.size[2] / 2), 0)
        battle.put("pos", (spot, Y, CHASSIS[Chassis.MEDIUM].size[2] / 2), 5)
        battle.put("yaw", 0.0, 0)
        battle.put("hp", 0.3 * spec.hp, 0)
        battle.put("was_hit", 1, 0)
        battle.put("hp", CHASSIS[Chassis.MEDIUM].hp, 5)
        battle.put("heat", 0.0)
        battle.put("cooldown", 0)
        battle.observe()
        battle.step()
        if int(battle["fired"][0, 0]) & bit:
            return True
    return False


@pytest.mark.parametrize("weapon", WEAPONS, ids=lambda spec: spec.weapon.name.lower())
def test_every_weapon_is_fired_by_some_pilot(field, weapon):
    carriers = [spec.chassis for spec in CHASSIS if weapon.weapon in spec.carries]
    assert carriers, f"no chassis carries {weapon.weapon.name}: add it to a row of CHASSIS in echelon/sim/arsenal.py"
    silent = [c for c in carriers if not any(fires(field, weapon, c, skill) for skill in ("expert", *LEVELS))]
    assert not silent, (
        f"no scripted pilot of {[c.name for c in silent]} ever fires {weapon.weapon.name}: add a rule for it to "
        "wants_to_fire in echelon/agents/weapons_control.py, or try another timer"
    )


def test_weapon_order_by_damage_per_heat_covers_every_weapon():
    assert sorted(int(w) for w in BY_DAMAGE_PER_HEAT) == [int(w) for w in Weapon]
    ratio = [WEAPONS[int(w)].damage / WEAPONS[int(w)].heat for w in BY_DAMAGE_PER_HEAT]
    assert ratio == sorted(ratio, reverse=True)
