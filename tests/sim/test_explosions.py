"""Ends of rounds: explosions, smoke, kills and their credit."""

import numpy as np
import pytest

from echelon.sim.arsenal import Chassis, Weapon
from echelon.sim.world import Material
from tests.sim.flat_field import Field5v5

BLUE, MATE, RED, RED_MATE = 0, 1, 5, 6
EDGE = 60


def clouds(field: Field5v5) -> list[tuple[float, float, float]]:
    return [(float(p[0]), float(p[1]), float(p[2])) for p in field["cloud_pos"][0][field["cloud_ticks"][0] > 0]]


def test_smoke_round_bursts_at_wall():
    def wall(grid: np.ndarray) -> None:
        grid[0:8, :, 30] = Material.SOLID

    field = Field5v5(edit=wall)
    field.put_round(BLUE, Weapon.SMOKE, (29.5, 20.5, 2.5), (15.0, 0.0, 0.0))
    field.tick()
    assert clouds(field) == [pytest.approx((30.0, 20.5, 2.5), abs=1e-3)] and clouds(field)[0][0] < 30
    assert field["clouds"][0] == 1 and (field["round_weapon"] < 0).all()
    assert field["voxel_hp"][0, 2, 20, 30] == 100


def test_smoke_round_bursts_at_hostile_without_damage(field):
    field.place(RED, Chassis.MEDIUM, 20, 20)
    field.put_round(BLUE, Weapon.SMOKE, (18.3, 20.4, 1.9), (15.0, 0.0, 0.0))
    field.tick()
    assert clouds(field) == [pytest.approx((20.0, 20.0, 1.5), abs=0.05)]
    assert field["hp"][0, RED] == 150.0 and field["was_hit"][0, RED] == 0


@pytest.mark.parametrize(
    ("pos", "vel", "burst"),
    [
        ((EDGE - 0.3, 20.0, 3.0), (15.0, 0.0, 0.0), (EDGE, 20.0, 3.0)),
        ((0.3, 20.0, 3.0), (-15.0, 0.0, 0.0), (0.0, 20.0, 3.0)),
        ((30.0, 20.0, 19.8), (0.0, 0.0, 15.0), (30.0, 20.0, 20.0)),
        ((30.0, 20.0, 0.2), (0.0, 0.0, -15.0), (30.0, 20.0, 0.0)),
    ],
)
def test_round_leaving_map_bursts_at_border(field, pos, vel, burst):
    field.put_round(BLUE, Weapon.SMOKE, pos, vel)
    field.tick()
    (centre,) = clouds(field)
    assert centre == pytest.approx(burst, abs=1e-3)
    assert all(0 <= c <= n for c, n in zip(centre, (EDGE, EDGE, 20), strict=True))
    assert (field["round_weapon"] < 0).all()


def test_smoke_fired_under_ceiling_stays_inside_map(field):
    field.place(BLUE, Chassis.SCOUT, 30, 30, z=19.1)
    field.act(BLUE, special=1.0)
    field.decide()
    field.tick(3)
    assert all(0 <= c <= n for c, n in zip(clouds(field)[0], (EDGE, EDGE, 20), strict=True))


def test_explosion_damages_shooter_but_not_struck_mech(field):
    field.place(BLUE, Chassis.HEAVY, 20, 20)
    field.place(RED, Chassis.SCOUT, 22.4, 20, z=2.0)
    field.put_round(BLUE, Weapon.MISSILE, (21.9, 20.0, 2.0), (12.0, 0.0, 0.0), target=RED)
    field.tick()
    assert field["hp"][0, RED] == pytest.approx(60 - 40 * 1.5), "the direct hit, and no splash on top"
    assert field["kills"][0, BLUE] == 1
    assert field["hp"][0, BLUE] == pytest.approx(180.0) and field["stability"][0, BLUE] == pytest.approx(92.5)
    assert field["dealt_friendly"][0, BLUE] == pytest.approx(20.0) and field["dealt"][0, BLUE] == pytest.approx(60.0)
    assert field["hit_dir"][0, BLUE] == pytest.approx((1.0, 0.0, 0.0), abs=1e-3)


def test_mech_killed_by_round_does_not_fire_in_same_tick(field):
    field.place(BLUE, Chassis.MEDIUM, 20, 20)
    field.place(RED, Chassis.MEDIUM, 26, 20, yaw=np.pi)
    field.put("hp", 5.0, RED)
    field.put_round(BLUE, Weapon.AUTOCANNON, (24.0, 20.0, 1.5), (25.0, 0.0, 0.0))
    field.act(RED, primary=1.0)
    field.decide()
    field.tick()
    assert field["alive"][0, RED] == 0 and field["fired"][0, RED] == 0 and field["hp"][0, BLUE] == 150.0
