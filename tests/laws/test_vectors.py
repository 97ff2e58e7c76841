"""Acceptance cases that need a map, a navigation graph or many mechs."""

import numpy as np
import pytest

from echelon.nav.field import zone_field
from echelon.nav.graph import RADII
from echelon.sim.world import Material
from tests.env.battle import Battle
from tests.laws.configs import RandomActions
from tests.laws.invariants import HALF
from tests.parity.scenes import clutter
from tests.sim.flat_field import Field5v5
from tests.state_hash import state_hash

CLEARANCE = 4


def two_levels(step: int) -> np.ndarray:
    """Return a map whose right side is three steps higher than its left, each ``step`` voxels high."""
    grid = np.zeros((20, 40, 60), np.uint8)
    grid[0] = Material.DIRT
    for k in range(1, 4):
        grid[: k * step, :, 10 + 8 * k :] = Material.SOLID
    return grid


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize(("step", "connected"), [(1, True), (2, False)])
def test_a27_navigation_graph_climbs_one_voxel_steps_only(radius, step, connected):
    field = zone_field(two_levels(step), zone=(50.0, 20.0, 5.0), radius=radius, clearance=CLEARANCE)
    assert field.reaches(5.5, 20.5, 0.0) is connected
    assert field.reaches(50.5, 20.5, 3.0 * step)


@pytest.mark.parametrize(("step", "top"), [(1, 3.0), (2, 0.0)])
@pytest.mark.parametrize("chassis", [0, 2, 3])
def test_mechs_climb_exactly_the_stairs_of_the_graph(step, top, chassis):
    field = Field5v5(edit=lambda grid: np.copyto(grid, two_levels(step)[:, :40, :40]), size=40)
    field.place(0, chassis, 6, 20)
    field.act(0, forward=1)
    field.run(72)
    assert field["pos"][0, 0, 2] - HALF[chassis][2] == pytest.approx(top, abs=0.05)


def hashes_under_random_actions(envs: int, index: int, decisions: int) -> list[str]:
    """Return the hashes of the battle of seed 1 at index ``index`` of a batch, under the same random actions."""
    made = Battle(envs=envs, edit=clutter(np.random.default_rng(2), 15), size=24, threads=2, seed=0)
    seeds = np.arange(100, 100 + envs, dtype=np.int32)
    seeds[index] = 1
    made.batch.set("forced_seed", seeds)
    made.engine.reset()
    random_actions, others = RandomActions(made.cfg, 1, 7), RandomActions(made.cfg, envs, 8)
    found = []
    for _ in range(decisions):
        actions = others.draw("uniform")
        actions[index] = random_actions.draw("duel")[0]
        made.step(actions)
        found.append(state_hash(made.batch, index))
    return found


@pytest.mark.long
def test_battle_is_identical_alone_and_in_a_batch_of_4096():
    alone = hashes_under_random_actions(1, 0, 3)
    assert hashes_under_random_actions(4096, 2777, 3) == alone and len(set(alone)) == 3
