"""The acceptance vectors of the game: scenes with the values that they must give."""

from math import pi

import numpy as np
import pytest

from echelon.sim.arsenal import CHASSIS, Chassis, Weapon
from echelon.sim.world import Material
from tests.sim.flat_field import Field5v5

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
BLUE, MATE, RED, HOSTILE = 0, 1, 5, 6
"""Slots of two blue and two red mechs."""


@pytest.fixture(scope="module")
def built():
    """Ground with a ledge, a wall, a pond and a pane of glass, each in its own corner."""

    def edit(grid: np.ndarray) -> None:
        grid[0, 5:15, 10:20] = Material.SOLID
        grid[0:2, 20:30, 10:20] = Material.SOLID
        grid[0, 35:55, 5:55] = Material.WATER
        grid[0:4, 5:15, 40] = Material.GLASS

    return Field5v5(edit=edit)


def act(field: Field5v5, mech: int, **columns: float) -> None:
    """Set columns and read them, as a decision would."""
    field.act(mech, **columns)
    field.decide()


def hold(field: Field5v5, mech: int, *weapons: Weapon) -> None:
    """Hold the triggers of ``weapons`` and read them, as a decision would; no other weapon on them fires."""
    field.hold(mech, *weapons)
    field.decide()


def test_a1_movement_dropped_mech_falls_under_gravity_and_rests(field):
    field.place(BLUE, MEDIUM, 30, 30, z=6 + 1.5)
    field.tick()
    assert field["vel"][0, BLUE, 2] == pytest.approx(-0.48069, abs=1e-5)
    assert field["pos"][0, BLUE, 2] - 7.5 == pytest.approx(-0.02403, abs=1e-5)
    for _ in range(600):
        field.put("pos", (30, 30, 10), BLUE)
        field.tick()
    assert field["vel"][0, BLUE, 2] == pytest.approx(-24.03, abs=0.01)
    field.tick(40)
    rest = field["pos"][0, BLUE, 2]
    field.tick(20)
    assert 0 <= field["pos"][0, BLUE, 2] - 1.5 < 0.03 and rest - field["pos"][0, BLUE, 2] < 0.03


@pytest.mark.parametrize(("chassis", "reach"), [(SCOUT, 13.72), (LIGHT, 13.33), (MEDIUM, 10.78), (HEAVY, 4.90)])
def test_a2_movement_full_throttle_covers_class_distance(field, chassis, reach):
    field.place(BLUE, chassis, 20, 30)
    act(field, BLUE, forward=1)
    field.tick(40)
    assert field["pos"][0, BLUE, 0] - 20 == pytest.approx(reach, abs=0.005)
    assert field["pos"][0, BLUE, 1] == pytest.approx(30, abs=1e-4)


@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.5])
def test_a3_movement_forward_and_strafe_keep_speed_on_diagonal(field, yaw):
    field.place(BLUE, MEDIUM, 30, 30, yaw=yaw)
    act(field, BLUE, forward=1, strafe=1)
    field.tick(40)
    went = field["pos"][0, BLUE, :2] - 30
    assert np.hypot(*went) == pytest.approx(10.78, abs=0.005)
    assert np.arctan2(went[1], went[0]) == pytest.approx(yaw + pi / 4, abs=1e-3)


def test_a4_movement_jets_climb_until_ceiling(field):
    field.place(BLUE, SCOUT, 30, 30)
    act(field, BLUE, vertical=1)
    for _ in range(500):
        field.put("pos", (30, 30, 5), BLUE)
        field.tick()
    assert field["vel"][0, BLUE, 2] == pytest.approx(20.07, abs=0.01)
    field.tick(60)
    assert field["pos"][0, BLUE, 2] == pytest.approx(20 - 0.9, abs=1e-5)
    assert field["vel"][0, BLUE, 2] == 0


@pytest.mark.parametrize(("y", "top"), [(10, 1.0), (25, 0.0)])
def test_a5_movement_steps_up_one_voxel_and_stops_at_two(built, y, top):
    built.fresh()
    built.place(BLUE, HEAVY, 6, y)
    act(built, BLUE, forward=1)
    built.tick(80)
    x, _, z = built["pos"][0, BLUE]
    assert z - 2.0 == pytest.approx(top, abs=0.03)
    assert x > 12 if top else 10 - 1.75 - 0.13 < x <= 10 - 1.75


def test_movement_steps_up_once_per_tick():
    def edit(grid: np.ndarray) -> None:
        grid[0, 28:40, 30:40] = Material.SOLID
        grid[0:2, 30:40, 20:40] = Material.SOLID

    field = Field5v5(edit=edit)
    field.place(BLUE, SCOUT, 29.3, 29.3, yaw=pi / 4)
    act(field, BLUE, forward=1)
    field.tick()
    x, y, z = field["pos"][0, BLUE]
    assert (x > 29.5, y) == (True, pytest.approx(29.3)) and z == pytest.approx(0.9 + 1.1, abs=0.03)


def test_movement_at_border_does_not_enter_adjacent_wall():
    def edit(grid: np.ndarray) -> None:
        grid[0:3, 30:40, 1:3] = Material.SOLID

    field = Field5v5(edit=edit)
    field.place(BLUE, SCOUT, 0.6, 29, yaw=pi / 2)
    act(field, BLUE, forward=0.75, strafe=0.66)
    field.tick(40)
    assert field["pos"][0, BLUE, :2].tolist() == [pytest.approx(0.6), pytest.approx(29.3, abs=0.3)]


@pytest.mark.parametrize(("y", "speed"), [(31, 2.156), (45, 1.294)])
def test_a6_movement_leg_loss_and_water_reduce_speed(built, y, speed):
    built.fresh()
    built.place(BLUE, MEDIUM, 24, y)
    built.put("leg_hp", 0.0, BLUE)
    act(built, BLUE, forward=1)
    built.tick(20)
    assert built["pos"][0, BLUE, 0] - 24 == pytest.approx(speed, abs=0.005)


def test_a7_laser_held_fires_17_shots_in_ten_seconds(field):
    field.place(BLUE, HEAVY, 30, 30)
    field.place(RED, HEAVY, 36, 30)
    hold(field, BLUE, Weapon.LASER)
    shots = []
    for tick in range(1, 201):
        field.put("heat", 0.0)
        field.put("hp", 200.0, RED)
        field.tick()
        if field["hp"][0, RED] < 200:
            shots.append(tick)
    assert shots == [1 + 12 * k for k in range(17)]


def test_a7_laser_tenth_of_hits_strikes_legs():
    field = Field5v5(envs=400, seed=3)
    field.place(BLUE, HEAVY, 30, 30)
    field.place(RED, HEAVY, 36, 30, yaw=pi)
    hold(field, BLUE, Weapon.LASER)
    legs = shots = 0
    for _ in range(10):
        for name, value in (("heat", 0.0), ("hp", 200.0), ("leg_hp", 100.0)):
            field.put(name, value)
        field.reload(BLUE, Weapon.LASER)
        field.tick()
        shots += (field["hp"][:, RED] < 200).sum()
        legs += (field["leg_hp"][:, RED] < 100).sum()
    assert shots == 4000 and legs / shots == pytest.approx(0.10, abs=0.02)


def test_a8_laser_rear_hit_on_painted_target_deals_23_1(field):
    seen = set()
    for _ in range(60):
        field.place(BLUE, HEAVY, 30, 30)
        field.place(RED, HEAVY, 36, 30)
        field.put("heat", 0.0)
        field.reload(BLUE, Weapon.LASER)
        field.put("painted", 50, RED)
        field.put("painter", MATE, RED)
        hold(field, BLUE, Weapon.LASER)
        field.tick()
        seen.add((round(200 - float(field["hp"][0, RED]), 3), round(100 - float(field["leg_hp"][0, RED]), 3)))
        assert field["dealt"][0, BLUE] == pytest.approx(200 - field["hp"][0, RED], abs=1e-4)
    assert seen == {(23.1, 0.0), (11.55, 23.1)}
    assert field["heat"][0, RED] == pytest.approx(6, abs=1e-5)


def test_voxel_damage_factor_scales_damage_to_its_material():
    def edit(grid: np.ndarray) -> None:
        grid[2, 30, 36] = Material.SOLID

    field = Field5v5(edit=edit)
    factors = field.batch.backend.array("rules", field.batch.backend.shards[0]).voxel_damage
    values = factors.numpy()
    values[Weapon.AUTOCANNON, Material.SOLID] = 2.5
    factors.assign(values)
    field.place(BLUE, MEDIUM, 32, 30.5)
    hold(field, BLUE, Weapon.AUTOCANNON)
    field.tick(30)
    left = int(field["voxel_hp"][0, 2, 30, 36])
    assert left < 100 and left % 20 == 0


@pytest.mark.parametrize(
    ("condition", "rate"), [("", 10), ("moving", 5), ("moving suppressed", 1), ("legged moving suppressed", 1)]
)
def test_a14_stability_regenerates_at_rate_after_penalties(field, condition, rate):
    field.place(BLUE, MEDIUM, 20, 30)
    field.put("stability", 30.0, BLUE)
    field.put("suppressed", 60 * ("suppressed" in condition), BLUE)
    field.put("leg_hp", -1.0 if "legged" in condition else 75.0, BLUE)
    act(field, BLUE, forward=float("moving" in condition))
    field.tick()
    start = field["stability"][0, BLUE]
    field.tick(20)
    assert field["stability"][0, BLUE] - start == pytest.approx(rate, abs=0.01)


def test_a15_heat_of_laser_and_autocannon_shuts_medium_down_after_1_8_seconds(field):
    field.place(BLUE, MEDIUM, 30, 30)
    field.place(RED, HEAVY, 36, 30)
    hold(field, BLUE, Weapon.LASER, Weapon.AUTOCANNON)
    ticks = 0
    while not field["shutdown"][0, BLUE] and ticks < 100:
        field.put("hp", 200.0, RED)
        field.tick()
        ticks += 1
    assert ticks * 0.05 == pytest.approx(1.8, abs=0.2)
    fired, heat = field["cooldown"][0, BLUE].copy(), field["heat"][0, BLUE]
    field.tick()
    assert (field["cooldown"][0, BLUE] <= fired).all() and field["heat"][0, BLUE] < heat, "fired while shut down"


@pytest.mark.parametrize(("helped", "quality", "radar"), [(0, 0.32, 4.48), (1, 0.905, 12.67)])
def test_a16_sensing_jamming_and_eccm_set_quality_and_radar(field, helped, quality, radar):
    field.place(BLUE, MEDIUM, 30, 30)
    field.place(HOSTILE, SCOUT, 40, 30, z=1.5)
    field.place(MATE, SCOUT, 30, 35, z=1.5)
    field.put("ecm", 1, HOSTILE)
    field.put("eccm", helped, MATE)
    field.sense()
    assert field["quality"][0, BLUE] == pytest.approx(quality, abs=1e-4)
    assert 14 * field["quality"][0, BLUE] == pytest.approx(radar, abs=0.01)


def test_a19_damage_two_mechs_kill_each_other_in_one_phase(field):
    field.place(BLUE, MEDIUM, 30, 30)
    field.place(RED, MEDIUM, 36, 30, yaw=pi)
    field.put("hp", 1.0)
    hold(field, BLUE, Weapon.LASER)
    hold(field, RED, Weapon.LASER)
    field.tick()
    assert not field["alive"].any()
    assert field["kills"][0, BLUE] == field["kills"][0, RED] == 1
    assert (field["killer"][0, BLUE], field["killer"][0, RED]) == (RED, BLUE)


def test_a22_sight_from_inside_foliage_is_clear_over_open_ground():
    def edit(grid: np.ndarray) -> None:
        grid[0:3, 30, 20] = grid[0:3, 30, 30] = Material.FOLIAGE
        grid[0:3, 40, 20] = grid[0:3, 40, 25] = Material.FOLIAGE

    field = Field5v5(edit=edit)
    field.place(BLUE, MEDIUM, 20.5, 30.5)
    field.place(RED, MEDIUM, 30.5, 30.5)
    field.place(MATE, MEDIUM, 20.5, 40.5)
    field.place(HOSTILE, MEDIUM, 30.5, 40.5)
    field.sense()
    assert field["sight"][0, BLUE, RED] and field["sight"][0, RED, BLUE]
    assert not field["sight"][0, MATE, HOSTILE], "foliage between them should hide them"


def test_a23_glass_is_transparent_blocks_mechs_and_stops_two_rounds():
    def edit(grid: np.ndarray) -> None:
        grid[0:8, 10:50, 34] = Material.GLASS

    field = Field5v5(edit=edit)
    field.place(BLUE, MEDIUM, 30, 30.5)
    field.place(RED, HEAVY, 38, 30.5)
    field.sense()
    assert field["sight"][0, BLUE, RED]
    act(field, BLUE, forward=1)
    field.tick(60)
    assert field["pos"][0, BLUE, 0] <= 34 - 1.25
    field.act(BLUE, forward=0)
    hold(field, BLUE, Weapon.AUTOCANNON)
    holes = []
    for _ in range(40):
        field.put("heat", 0.0)
        field.tick()
        holes.append((int((field["material"][0, :, :, 34] == Material.AIR).sum()), float(field["hp"][0, RED])))
    through = next(i for i, (_, hp) in enumerate(holes) if hp < 200)
    assert holes[through - 1][0] >= 1 and field["voxel_hp"][0, :, 30, 34].min() == 0
    assert max(count for count, hp in holes if hp == 200) >= 1, "a round hit the heavy before the pane broke"


@pytest.mark.parametrize("chassis", Chassis)
def test_a24_wreck_depends_on_mech_and_box_not_on_seed(chassis):
    field = Field5v5(envs=8)
    field.batch.set("seed", np.arange(8, dtype=np.uint32) * 7919)
    kinds = []
    for k in range(6):
        for m in range(10):
            field.place(m, chassis, 4.3 + 5.1 * m, 6.4 + 8 * k)
        field.put("alive", 0)
        field.put("dying", 1)
        field.tick()
        cells = field["material"][:, 1, int(6.4 + 8 * k)]
        assert (cells == cells[0]).all(), "wrecks differ between seeds"
        kinds += [cells[0, int(4.3 + 5.1 * m)] for m in range(10)]
    solid = np.mean(np.array(kinds) == Material.SOLID_DEBRIS)
    assert set(kinds) <= {Material.SOLID_DEBRIS, Material.DEBRIS_FIELD}
    assert solid == pytest.approx(CHASSIS[chassis].wreck_solid, abs=0.25)
    debris = field["voxel_hp"][field["material"] == Material.DEBRIS_FIELD]
    assert (debris == 50).all()


def test_triggers_without_weapon_have_no_effect(field):
    field.place(BLUE, SCOUT, 30, 30)
    field.place(RED, HEAVY, 34, 30)
    act(field, BLUE, tertiary=1)
    field.tick(5)
    assert field["heat"][0, BLUE] == 0 and not field["cooldown"][0, BLUE].any()
    assert field["fired"][0, BLUE] & (1 << Weapon.GAUSS) == 0
