"""Acceptance vectors of the weapons and devices, and their effects on mechs and walls."""

from dataclasses import replace

import numpy as np
import pytest

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS, WEAPONS, Chassis, Cooldown, Trigger, Weapon
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH, cloud_slots, round_slots
from echelon.sim.tables import STOCK_TABLES, GameTables, max_rounds
from echelon.sim.world import Material
from tests.sim.flat_field import Field5v5

BLUE, MATE, RED = 0, 1, 5
HALF_WALL = 30


def shoot(field: Field5v5, mech: int, *weapons: Weapon) -> None:
    field.hold(mech, *weapons)
    field.decide()
    field.tick()
    field.put("trigger", 0, mech)


def fly_until(field: Field5v5, name: str, mech: int, change: float, limit: int = 90) -> int:
    """Tick until an array entry has changed by at least ``change``; return the ticks."""
    before = float(field[name][0, mech])
    for n in range(limit):
        if abs(float(field[name][0, mech]) - before) >= change:
            return n
        field.tick()
    raise AssertionError(f"{name} of mech {mech} did not change within {limit} ticks")


def paint(field: Field5v5, target: int, by: int, ticks: int = 100) -> None:
    field.put("painted", ticks, target)
    field.put("painter", by, target)


@pytest.mark.parametrize("own_fire", [False, True])
def test_shutdown_is_immediate_by_own_fire_and_delayed_by_hits(field, own_fire):
    field.place(BLUE, Chassis.LIGHT, 20, 20)
    field.place(RED, Chassis.MEDIUM, 23, 20, yaw=np.pi)
    field.put("heat", 99.9, RED)
    field.act(RED, strafe=1.0)
    if own_fire:
        field.hold(RED, Weapon.LASER)
    shoot(field, BLUE, Weapon.FLAMER)
    moved = abs(float(field["vel"][0, RED, 1]))
    assert field["shutdown"][0, RED] == 1 and field["shutdowns"][0, RED] == 1
    assert (moved > 5.0) != own_fire, "a mech shut down by another moves in this tick"
    field.tick()
    assert field["shutdown"][0, RED] == 1 and field["shutdowns"][0, RED] == 1
    assert abs(float(field["vel"][0, RED, 1])) == pytest.approx(0.98 * moved, abs=1e-4), "it coasts"


def gauss_duel(field: Field5v5, target_yaw: float) -> None:
    field.place(BLUE, Chassis.HEAVY, 20, 20)
    field.place(RED, Chassis.MEDIUM, 30, 20, yaw=target_yaw)
    shoot(field, BLUE, Weapon.GAUSS)
    fly_until(field, "hp", RED, 1.0)


def test_a9_gauss_front_hits_knock_medium_down(field):
    gauss_duel(field, np.pi)
    assert field["hp"][0, RED] == pytest.approx(100.0)
    assert field["stability"][0, RED] == pytest.approx(40.0)
    field.put("stability", 40.0, RED)
    field.put("cooldown", 0, BLUE)
    shoot(field, BLUE, Weapon.GAUSS)
    fly_until(field, "hp", RED, 1.0)
    assert field["stability"][0, RED] == 0.0 and field["fallen"][0, RED] == 0
    field.tick()
    assert field["fallen"][0, RED] == 60
    field.tick(59)
    assert field["fallen"][0, RED] == 1
    field.tick()
    assert field["fallen"][0, RED] == 0 and field["stability"][0, RED] == pytest.approx(50.0)


def test_a10_gauss_rear_hit_is_scaled(field):
    gauss_duel(field, 0.0)
    assert 150.0 - field["hp"][0, RED] == pytest.approx(75.0)
    assert 100.0 - field["stability"][0, RED] == pytest.approx(90.0)


def explode(field: Field5v5, weapon: Weapon, at: tuple[float, float, float]) -> None:
    """Let a round of the red heavy strike a wall cell just past ``at``, moving along +x."""
    field.put("round_weapon", -1)
    field.put_round(RED, weapon, at, (20.0, 0.0, 0.0), target=9)
    field.tick()


def wall(material: np.ndarray) -> None:
    material[0:8, :, HALF_WALL : HALF_WALL + 2] = Material.SOLID


@pytest.fixture(scope="module")
def walled_field():
    return Field5v5(edit=wall)


def test_a11_missile_splash_reaches_its_radius(walled_field):
    field = walled_field.fresh()
    centre = HALF_WALL - 1e-4
    field.place(BLUE, Chassis.SCOUT, centre - 2.4, 20, z=0.9)
    field.place(MATE, Chassis.SCOUT, centre - 2.6, 23, z=0.9)
    field.place(RED, Chassis.HEAVY, 10, 50)
    explode(field, Weapon.MISSILE, (HALF_WALL - 0.4, 20.0, 0.9))
    assert 60.0 - field["hp"][0, BLUE] == pytest.approx(20.0)
    assert 100.0 - field["stability"][0, BLUE] == pytest.approx(7.5, abs=1e-3)
    assert field["hp"][0, MATE] == 60.0 and field["dealt"][0, RED] == pytest.approx(20.0)


def test_a12_splash_is_stopped_by_walls_and_damages_them(walled_field):
    field = walled_field.fresh()
    field.place(BLUE, Chassis.SCOUT, HALF_WALL + 2.7, 20.5, z=1.5)
    field.place(RED, Chassis.HEAVY, 10, 50)
    explode(field, Weapon.MISSILE, (HALF_WALL - 0.4, 20.5, 1.5))
    assert field["hp"][0, BLUE] == 60.0
    hp = field["voxel_hp"][0]
    assert hp[1, 20, HALF_WALL] == 100 - 40 - 20
    assert hp[1, 21, HALF_WALL] == 80 and hp[3, 20, HALF_WALL] == 80
    assert hp[1, 23, HALF_WALL] == 100


def test_a13_solid_voxel_breaks_after_two_gauss_or_thirteen_autocannon_rounds(walled_field):
    field = walled_field.fresh()
    field.place(RED, Chassis.HEAVY, 10, 50)
    for left in (25, 0):
        explode(field, Weapon.GAUSS, (HALF_WALL - 0.4, 20.5, 1.5))
        assert field["voxel_hp"][0, 1, 20, HALF_WALL] == left
    assert field["material"][0, 1, 20, HALF_WALL] == Material.AIR
    for _ in range(12):
        explode(field, Weapon.AUTOCANNON, (HALF_WALL - 0.4, 40.5, 1.5))
    assert field["material"][0, 1, 40, HALF_WALL] == Material.SOLID
    explode(field, Weapon.AUTOCANNON, (HALF_WALL - 0.4, 40.5, 1.5))
    assert field["material"][0, 1, 40, HALF_WALL] == Material.AIR


def test_a20_point_defence_stops_six_of_ten_missiles():
    envs = 1000
    field = Field5v5(envs=envs, seed=4)
    field.put("alive", 0)
    field.place(BLUE, Chassis.HEAVY, 20, 20)
    field.place(RED, Chassis.HEAVY, 45, 20, yaw=np.pi)
    field.put_round(RED, Weapon.MISSILE, (25.0, 20.0, 3.0), (-12.0, 0.0, 0.0), target=BLUE)
    field.tick()
    stopped = float((field["round_weapon"][:, RED, 0] < 0).mean())
    assert 0.55 <= stopped <= 0.65
    assert (field["cooldown"][:, BLUE, Cooldown.AMS] == 20).all()
    assert (field["intercepts"][:, BLUE] == (field["round_weapon"][:, RED, 0] < 0)).all()


def test_a21_smoke_round_bursts_at_end_of_flight_and_blocks_sight(field):
    field.place(BLUE, Chassis.SCOUT, 10, 30)
    shoot(field, BLUE, Weapon.SMOKE)
    field.tick(27)
    assert field["clouds"][0] == 1
    assert field["cloud_pos"][0, BLUE, 0][0] == pytest.approx(29.5, abs=0.01)
    field.place(MATE, Chassis.MEDIUM, 22, 30)
    field.place(RED, Chassis.MEDIUM, 42, 30)
    field.place(RED + 1, Chassis.MEDIUM, 35, 30)
    field.sense()
    assert field["sight"][0, MATE, RED] == 2 and field["visible"][0, MATE, RED] == 0
    assert field["visible"][0, MATE, RED + 1] == 1, "radar sees through smoke"
    paint(field, RED, BLUE)
    field.sense()
    assert field["visible"][0, MATE, RED] == 1, "own paint shows through smoke"
    field.put("painted", 0, RED)
    field.put("heat", 95.0, RED)
    field.sense()
    assert field["visible"][0, MATE, RED] == 0, "thermal bloom does not"
    field.tick(199)
    assert field["clouds"][0] == 1
    field.tick()
    assert field["clouds"][0] == 0


def missile_at(field: Field5v5, distance: float, *, painted: bool, quality: float = 1.0) -> bool:
    """Return whether a heavy launches a missile at a target at ``distance`` [vox]."""
    field.fresh()
    field.place(BLUE, Chassis.HEAVY, 5, 30)
    field.place(MATE, Chassis.SCOUT, 5, 50)
    field.place(RED, Chassis.MEDIUM, 5 + distance, 30)
    if painted:
        paint(field, RED, MATE)
    if quality < 1.0:
        field.place(RED + 1, Chassis.SCOUT, 5, 30 + 50 * quality)
        field.put("ecm", 1, RED + 1)
        shoot_ecm(field)
    else:
        shoot(field, BLUE, Weapon.MISSILE)
    return bool((field["round_weapon"][0, BLUE] == int(Weapon.MISSILE)).any())


def shoot_ecm(field: Field5v5) -> None:
    field.hold(BLUE, Weapon.MISSILE)
    field.act(RED + 1, secondary=0.25)
    field.decide()
    field.tick()


def test_missile_locks_by_sight_near_and_by_paint_far(open_field):
    assert missile_at(open_field, 11.9, painted=False)
    assert not missile_at(open_field, 12.5, painted=False)
    assert missile_at(open_field, 49.0, painted=True)
    assert not missile_at(open_field, 49.0, painted=True, quality=0.3)


def test_two_weapons_on_one_trigger_and_timer_raise_one_line_error():
    carries = {Weapon.GAUSS: Trigger.TERTIARY, Weapon.AUTOCANNON: Trigger.TERTIARY}
    message = "trigger TERTIARY of HEAVY fires GAUSS and AUTOCANNON, which share timer KINETIC: expected one"
    with pytest.raises(ValueError, match=message):
        replace(CHASSIS[Chassis.HEAVY], carries=carries)
    assert replace(CHASSIS[Chassis.HEAVY], carries={**carries, Weapon.AUTOCANNON: Trigger.PRIMARY})


def test_voxel_damage_of_hitscan_weapon_raises_one_line_error():
    message = "voxel_damage of LASER is .*, expected none: hitscan weapons damage no voxels; try LINEAR"
    with pytest.raises(ValueError, match=message):
        replace(WEAPONS[Weapon.LASER], voxel_damage={Material.GLASS: 2.0})
    assert replace(WEAPONS[Weapon.AUTOCANNON], voxel_damage={Material.GLASS: 2.0})


def with_row(weapon: Weapon, **columns: float) -> GameTables:
    return replace(STOCK_TABLES, weapons=tuple(replace(w, **columns) if w.weapon == weapon else w for w in WEAPONS))


def test_slots_of_a_mech_follow_the_tables():
    dt = EnvConfig().dt_sim
    assert (round_slots(STOCK_TABLES, dt), cloud_slots(STOCK_TABLES, dt)) == (ROUNDS_PER_MECH, CLOUDS_PER_MECH)
    slow = with_row(Weapon.MISSILE, life_s=30.0)
    assert round_slots(slow, dt) == max(max_rounds(slow, mech, dt) for mech in CHASSIS) >= 601 / 60
    assert cloud_slots(with_row(Weapon.SMOKE, cooldown_s=1.0), dt) >= 10
    assert round_slots(replace(STOCK_TABLES, chassis=(replace(CHASSIS[0], carries={}),) * 2), dt) == 4
    with pytest.raises(ValueError, match="rounds in flight of one mech is .*, expected at most 31"):
        round_slots(with_row(Weapon.GAUSS, life_s=999.0), dt)


def test_weapons_never_overflow_round_or_cloud_slots():
    field = Field5v5(envs=8)
    field.put("alive", 0)
    for mech, chassis in enumerate((Chassis.HEAVY, Chassis.MEDIUM, Chassis.MEDIUM, Chassis.LIGHT, Chassis.SCOUT)):
        field.place(mech, chassis, 8 + 8 * mech, 20, yaw=np.pi / 2)
        field.place(5 + mech, chassis, 8 + 8 * mech, 38, yaw=-np.pi / 2)
        for side in (mech, 5 + mech):
            field.act(side, primary=1, secondary=1, tertiary=1, special=1)
    for _ in range(100):
        field.put("heat", 0.0)
        field.put("hp", 1e6)
        field.run(1)
    assert not field["overflow"].any()
