"""The tables of the arsenal and the materials match those of the oracles."""

import numpy as np
import pytest

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, ROSTER, WEAPONS, Guidance, Weapon
from echelon.sim.state import ROUNDS_PER_MECH
from echelon.sim.tables import STOCK_TABLES, duration_ticks, life_ticks, pack_rules
from echelon.sim.world import BLOCKS_MOVE, BLOCKS_SIGHT, MATERIAL_HP, MATERIALS, STOPS_SHOT
from tests.oracles import shared as o

ORACLE_FILE = "tests/oracles/shared.py"


@pytest.mark.parametrize("index", range(4))
def test_chassis_table_matches_oracle(index):
    spec, row = CHASSIS[index], o.MECHS[index]
    assert (spec.size, spec.max_speed, spec.max_yaw_rate, spec.max_jet) == (row.size, row.speed, row.yaw_rate, row.jet)
    assert (spec.hp, spec.leg_hp) == (row.hp, row.leg_hp)
    assert (spec.heat_cap, spec.dissipation) == (row.heat_cap, row.dissipation)
    assert (spec.tonnage, spec.noise_mass, spec.wreck_solid) == (row.tonnage, row.noise, row.wreck_solid)
    assert (spec.sort_rank, spec.hit_radius) == (row.rank, row.hit_radius)
    assert {int(w): int(t) for w, t in spec.carries.items()} == o.CARRIED[index]
    assert spec.has_ams == (index == o.HEAVY) and spec.has_ewar == (index == o.SCOUT)


@pytest.mark.parametrize("weapon", Weapon, ids=lambda weapon: weapon.name.lower())
def test_weapon_table_matches_oracle(weapon):
    assert weapon in o.GUNS, f"add a row for {weapon.name} to GUNS and an entry to CARRIED in {ORACLE_FILE}"
    spec, row = WEAPONS[weapon], o.GUNS[weapon]
    flight = {"beam": Guidance.HITSCAN, "straight": Guidance.LINEAR, "ballistic": Guidance.BALLISTIC}
    assert spec.guidance == flight.get(row.flight, Guidance.HOMING)
    assert (spec.paints, spec.suppresses, spec.bursts_smoke) == (row.paints, row.suppresses, row.smoke)
    assert dict(spec.voxel_damage) == dict(row.voxel_damage) and int(spec.needs) == row.needs
    assert (spec.range_vox, spec.damage, spec.stability, spec.heat) == (row.range, row.damage, row.stability, row.heat)
    assert (spec.arc_deg, int(spec.cooldown), spec.speed_vox_s) == (row.arc_deg, row.timer, row.speed)
    assert duration_ticks(spec.cooldown_s, o.DT) == row.cooldown
    assert life_ticks(spec.life_s, o.DT) == row.life
    assert (spec.target_heat, spec.own_sight_vox, spec.splash_vox) == (row.target_heat, row.own_sight, row.splash)
    assert spec.splash_scale == (0.5 if row.splash else 0.0)


def test_roster_matches_oracle():
    assert tuple(int(c) for c in ROSTER) == o.ROSTER


def test_material_table_matches_oracle():
    assert np.array_equal(BLOCKS_MOVE, o.MOVES) and np.array_equal(BLOCKS_SIGHT, o.SIGHT)
    assert np.array_equal(STOPS_SHOT, o.SHOTS) and np.array_equal(MATERIAL_HP, o.VOXEL_HP)
    assert [m.destructible for m in MATERIALS] == o.DESTRUCTIBLE.tolist()


def test_durations_are_packed_as_ticks():
    rules = pack_rules(EnvConfig(), STOCK_TABLES, "cpu")
    assert (rules.painted_ticks, rules.suppressed_ticks, rules.fallen_ticks) == (100, 24, 60)
    assert rules.max_decisions == 240 and rules.score_to_win == 30 and rules.dt_act == 0.25


@pytest.mark.parametrize("dt", [0.05, 0.025, 0.1])
def test_round_slots_hold_every_round_in_flight(dt):
    for carried in o.CARRIED.values():
        need = 0
        for weapon in carried:
            spec = WEAPONS[weapon]
            if spec.speed_vox_s and weapon not in o.HOMING:
                need += -(-(life_ticks(spec.life_s, dt) + 1) // duration_ticks(spec.cooldown_s, dt))
        assert need <= ROUNDS_PER_MECH
