"""Collision avoidance at walls, pockets and other mechs: pilots pass, escape or wait."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from echelon.agents.heuristic import install, script_of
from echelon.agents.levels import LEVELS, StuckRecovery
from echelon.sim.arsenal import CHASSIS, Chassis
from tests.env.battle import Battle
from tests.sim.flat_field import Edit

FREE_DIRECTION_LEVELS = [name for name, level in LEVELS.items() if level.stuck_recovery == StuckRecovery.FREE_DIRECTION]
PURSUING_LEVELS = [name for name, level in LEVELS.items() if level.pursues_unseen]
MIDDLE = 30


def flown_by(
    skills: Sequence[str], chassis: Chassis, x: float, y: float, *, edit: Edit | None = None, plane: Edit | None = None
) -> Battle:
    """Return a battle per skill, which flies mech 0; ``plane`` blocks movement where the flow field leads through."""
    battle = Battle(envs=len(skills), edit=edit, pilots=install)
    battle.fresh()
    battle.place(0, chassis, x, y)
    if plane:
        blocked = battle["move_plane"].copy()
        for env in range(len(skills)):
            plane(blocked[env])
        battle.batch.set("move_plane", blocked)
    battle.put("script", np.array([script_of(skill) for skill in skills]), 0)
    battle.observe()
    return battle


def away_from_zone(battle: Battle) -> np.ndarray:
    """Distance of mech 0 from the edge of the zone in each battle [vox], negative inside."""
    zone = battle["zone"]
    return np.linalg.norm(battle["pos"][:, 0, :2] - zone[:, :2], axis=-1) - zone[:, 2]


def test_pilot_escapes_pocket_between_it_and_target():
    cases = list(product(PURSUING_LEVELS, (Chassis.LIGHT, Chassis.MEDIUM, Chassis.HEAVY)))

    def pocket(grid: np.ndarray) -> None:
        """Build a pocket open to the west, in the zone, between a pilot and the hostile it pursues."""
        grid[0:8, 20:41, 33:35] = 1
        grid[0:8, 20:22, 24:34] = 1
        grid[0:8, 39:41, 24:34] = 1

    positions = []
    battle = flown_by([skill for skill, _ in cases], Chassis.LIGHT, 28, MIDDLE, edit=pocket)
    for env, (_, chassis) in enumerate(cases):
        battle.place(0, chassis, 28, MIDDLE, env=env)
    battle.place(5, Chassis.HEAVY, 39, MIDDLE, yaw=np.pi)
    battle.batch["weapon_prob"].fill_(0.0)
    battle.observe()
    for _ in range(80):
        battle.put("hp", [CHASSIS[chassis].hp for _, chassis in cases], 0)
        battle.step()
        positions.append(battle["pos"][:, 0].copy())
    for case, path in zip(cases, np.swapaxes(positions, 0, 1), strict=True):
        for start in range(len(path) - 22):
            stay = path[start : start + 22]
            near_target = np.linalg.norm(stay[-1, :2] - (39, MIDDLE)) < 12 and stay[-1, 0] > 35
            moves = near_target or np.ptp(stay, axis=0).max() > 1.0
            assert moves, f"{case} stayed at {stay[0]} for 5 s from decision {start}"


def test_enclosed_pilot_does_not_move():
    def cell(grid: np.ndarray) -> None:
        grid[0:16, 27:34, 7:14] = 1
        grid[0:16, 29:32, 9:12] = 0

    battle = flown_by(FREE_DIRECTION_LEVELS, Chassis.MEDIUM, 10.5, 30.5, edit=cell)
    for _ in range(20):
        battle.step()
        assert (np.linalg.norm(battle["pilot_desired"][:, 0], axis=-1) > 0.5).all()
        assert not battle["actions"][:, 0, :2].any()


def test_pilot_walks_around_obstacle_missing_from_flow_field():
    def wall(plane: np.ndarray) -> None:
        plane[26:35, 12:15] |= np.uint64(0b1111)

    battle = flown_by(["medium"], Chassis.MEDIUM, 5, MIDDLE, plane=wall)
    for _ in range(40):
        battle.step()
    assert away_from_zone(battle)[0] < 0


def test_detour_changes_side_at_dead_end():
    def corner(plane: np.ndarray) -> None:
        plane[26:36, 18:20] |= np.uint64(0b1111)
        plane[34:36, 0:20] |= np.uint64(0b1111)

    battle = flown_by(FREE_DIRECTION_LEVELS, Chassis.HEAVY, 15, MIDDLE, plane=corner)
    sides, columns = [], []
    for _ in range(100):
        battle.step()
        sides.append(np.sign(battle["pilot_detour_s"][:, 0]))
        columns.append(battle["pos"][:, 0, 0].copy())
    both = (np.array(sides) == 1).any(axis=0) & (np.array(sides) == -1).any(axis=0)
    assert both.all() and np.min(columns) > 8.0
    assert (away_from_zone(battle) < 0).all(), battle["pos"][:, 0]


def test_only_skilled_pilots_without_target_circle_contested_zone():
    def block(grid: np.ndarray) -> None:
        grid[0:10, 28:33, 28:33] = 1

    around = []
    battle = flown_by(["easy", *FREE_DIRECTION_LEVELS], Chassis.MEDIUM, 25.5, 30.5, edit=block)
    battle.put("zone", 30.5, slice(0, 2))
    battle.put("zone", 8.0, 2)
    battle.place(5, Chassis.MEDIUM, 35.5, 30.5)
    for _ in range(24):
        battle.put("hp", 150.0, 0)
        battle.put("pos", (35.5, 30.5, 1.5), 5)
        battle.observe()
        battle.batch["visible"].zero_()
        battle.step()
        around.append(battle["pos"][:, 0, :2] - 30.5)
    angles = np.unwrap(np.arctan2(*np.array(around).T[::-1]), axis=-1)
    assert (np.abs(angles[:, -1] - angles[:, 0]) > np.pi / 2).tolist() == [False, True, True, True]
