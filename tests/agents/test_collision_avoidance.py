"""Collision avoidance at walls, pockets and other mechs: pilots pass, escape or wait."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.actions import ActionIndex
from echelon.agents import levels
from echelon.agents.heuristic import install, script_of
from echelon.agents.levels import LEVELS, StuckRecovery
from echelon.sim.arsenal import CHASSIS, Chassis
from tests.env.battle import Battle

FREE_DIRECTION_LEVELS = [name for name, level in LEVELS.items() if level.stuck_recovery == StuckRecovery.FREE_DIRECTION]
PURSUING_LEVELS = [name for name, level in LEVELS.items() if level.pursues_unseen]
VENT = int(ActionIndex.VENT)
MIDDLE = 30


def pocket(grid: np.ndarray) -> None:
    """Build a pocket open to the west, in the zone, between a pilot and the hostile it pursues."""
    grid[0:8, 20:41, 33:35] = 1
    grid[0:8, 20:22, 24:34] = 1
    grid[0:8, 39:41, 24:34] = 1


def pursue(skill: str, chassis: Chassis, seconds: float = 20.0) -> np.ndarray:
    battle = Battle(edit=pocket, pilots=install)
    battle.empty()
    battle.place(0, chassis, 28, MIDDLE)
    battle.place(5, Chassis.HEAVY, 39, MIDDLE, yaw=np.pi)
    battle.batch["script"].fill_(0)
    battle.batch["weapon_prob"].fill_(0.0)
    battle.put("script", script_of(skill), 0)
    battle.observe()
    positions = []
    for _ in range(round(seconds / 0.25)):
        battle.put("hp", CHASSIS[chassis].hp, 0)
        battle.step()
        positions.append(battle["pos"][0, 0].copy())
    battle.close()
    return np.array(positions)


@pytest.mark.parametrize("skill", PURSUING_LEVELS)
@pytest.mark.parametrize("chassis", [Chassis.LIGHT, Chassis.MEDIUM, Chassis.HEAVY])
def test_pilot_escapes_pocket_between_it_and_target(skill, chassis):
    positions = pursue(skill, chassis)
    for start in range(len(positions) - 22):
        stay = positions[start : start + 22]
        near_target = np.linalg.norm(stay[-1, :2] - (39, MIDDLE)) < 12 and stay[-1, 0] > 35
        assert near_target or np.ptp(stay, axis=0).max() > 1.0, f"stayed at {stay[0]} for 5 s from decision {start}"


@pytest.mark.parametrize("skill", FREE_DIRECTION_LEVELS)
def test_enclosed_pilot_does_not_move(skill):
    def cell(grid: np.ndarray) -> None:
        grid[0:16, 27:34, 7:14] = 1
        grid[0:16, 29:32, 9:12] = 0

    battle = Battle(edit=cell, pilots=install)
    battle.empty()
    battle.place(0, Chassis.MEDIUM, 10.5, 30.5)
    battle.batch["script"].fill_(0)
    battle.put("script", script_of(skill), 0)
    battle.observe()
    for _ in range(20):
        battle.step()
        assert np.hypot(*battle["pilot_desired"][0, 0]) > 0.5
        assert not battle["actions"][0, 0, :2].any()
    battle.close()


def test_pilot_walks_around_obstacle_missing_from_flow_field():
    battle = Battle(pilots=install)
    battle.empty()
    battle.place(0, Chassis.MEDIUM, 5, MIDDLE)
    plane = battle["move_plane"].copy()
    plane[0, 26:35, 12:15] |= np.uint64(0b1111)
    battle.batch.set("move_plane", plane)
    battle.batch["script"].fill_(0)
    battle.put("script", script_of("medium"), 0)
    battle.observe()
    for _ in range(40):
        battle.step()
    zone = battle["zone"][0]
    assert np.linalg.norm(battle["pos"][0, 0][:2] - zone[:2]) < zone[2]
    battle.close()


@pytest.mark.parametrize("skill", FREE_DIRECTION_LEVELS)
def test_detour_changes_side_at_dead_end(skill):
    battle = Battle(pilots=install)
    battle.empty()
    battle.place(0, Chassis.HEAVY, 15, MIDDLE)
    plane = battle["move_plane"].copy()
    plane[0, 26:36, 18:20] |= np.uint64(0b1111)
    plane[0, 34:36, 0:20] |= np.uint64(0b1111)
    battle.batch.set("move_plane", plane)
    battle.batch["script"].fill_(0)
    battle.put("script", script_of(skill), 0)
    battle.observe()
    sides, furthest_back = set(), 15.0
    for _ in range(100):
        battle.step()
        sides.add(float(np.sign(battle["pilot_detour_s"][0, 0])))
        furthest_back = min(furthest_back, float(battle["pos"][0, 0, 0]))
    zone = battle["zone"][0]
    assert sides >= {1.0, -1.0} and furthest_back > 8.0, (sides, furthest_back)
    assert np.linalg.norm(battle["pos"][0, 0][:2] - zone[:2]) < zone[2], battle["pos"][0, 0]
    battle.close()


@pytest.mark.parametrize(("skill", "patrols"), [("easy", False), *((name, True) for name in FREE_DIRECTION_LEVELS)])
def test_pilot_without_target_circles_contested_zone(skill, patrols):

    def block(grid: np.ndarray) -> None:
        grid[0:10, 28:33, 28:33] = 1

    battle = Battle(edit=block, pilots=install)
    battle.empty()
    battle.batch.set("zone", np.array([[30.5, 30.5, 8.0]], np.float32))
    battle.place(0, Chassis.MEDIUM, 25.5, 30.5)
    battle.place(5, Chassis.MEDIUM, 35.5, 30.5)
    battle.batch["script"].fill_(0)
    battle.put("script", script_of(skill), 0)
    around = []
    for _ in range(24):
        battle.put("hp", 150.0, 0)
        battle.put("pos", (35.5, 30.5, 1.5), 5)
        battle.observe()
        battle.batch["visible"].zero_()
        battle.step()
        around.append(battle["pos"][0, 0, :2] - 30.5)
    angles = np.unwrap([np.arctan2(y, x) for x, y in around])
    assert (abs(angles[-1] - angles[0]) > np.pi / 2) == patrols, np.round(angles, 2)
    battle.close()


@pytest.mark.parametrize(
    ("skill", "heat", "vents"),
    [
        ("easy", 75.0, False),
        ("medium", 45.0, False),
        ("medium", 55.0, True),
        ("hard", 45.0, True),
        ("expert", 5.0, True),
    ],
)
def test_vent_while_firing_above_level_threshold(skill, heat, vents):
    battle = Battle(pilots=install)
    battle.empty()
    battle.place(0, Chassis.MEDIUM, 20, MIDDLE)
    battle.place(5, Chassis.HEAVY, 26, MIDDLE, yaw=np.pi)
    battle.batch["script"].fill_(0)
    battle.batch["weapon_prob"].fill_(1.0)
    battle.put("script", script_of(skill), 0)
    both = []
    for _ in range(12):
        battle.put("heat", heat, 0)
        battle.put("hp", 200.0, 5)
        battle.put("hp", 150.0, 0)
        battle.put("cooldown", 0)
        battle.put("pos", (20, MIDDLE, 1.5), 0)
        battle.observe()
        battle.step()
        action = battle["actions"][0, 0]
        if action[[4, 6, 7]].any():
            both.append(bool(action[VENT]))
    battle.close()
    assert both and all(v == vents for v in both)


def test_packed_levels_carry_stuck_recovery():
    assert FREE_DIRECTION_LEVELS == ["medium", "hard", "expert"]
    rows = levels.pack_levels(0.25)
    assert [row.stuck_recovery for row in rows] == [int(level.stuck_recovery) for level in LEVELS.values()]
