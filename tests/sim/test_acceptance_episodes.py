"""The acceptance vectors that take whole decisions and real maps: zone, ends, determinism and spawns."""

import numpy as np
import pytest

from echelon.agents.heuristic import install, script_of
from echelon.config import WorldConfig
from echelon.gen.bank import build_bank
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle
from tests.oracles.shared import MECHS
from tests.oracles.world import box_free, overlap
from tests.parity.scenes import clutter, snapshot
from tests.sim.flat_field import Field5v5
from tests.state_hash import state_hash

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis


@pytest.fixture(scope="module")
def battle():
    return Battle()


def test_a17_zone_contested_scores_by_tonnage(battle):
    battle.engine.reset()
    battle.empty()
    battle.place(0, MEDIUM, 30, 30)
    battle.place(1, SCOUT, 33, 33)
    battle.place(5, HEAVY, 26, 26)
    battle.step()
    assert battle["zone_tick"][0] == pytest.approx((0.25, 0.296875), abs=1e-6)
    assert battle["score"][0] == pytest.approx((0.0625, 0.07421875), abs=1e-6)
    assert battle["zone_tonnage"][0].tolist() == [75, 85]


def test_a18_zone_held_alone_wins_after_120_decisions(battle):
    battle.engine.reset()
    battle.empty()
    battle.place(0, SCOUT, 30, 30)
    battle.place(5, SCOUT, 5, 5)
    for _ in range(119):
        battle.step()
    assert battle["over"][0] == 0 and battle["score"][0].tolist() == [29.75, 0]
    battle.step()
    assert battle["over"][0] == 1 and battle["winner"][0] == 0 and battle["done_length"][0] == 120


def play(*, seeds: list[int], threads: int, decisions: int = 50) -> list[list[str]]:
    """Return the state hash after every tenth environment step of battles between scripted pilots, by environment."""
    made = Battle(envs=len(seeds), edit=clutter(np.random.default_rng(2), 40), size=36, threads=threads, pilots=install)
    made.batch["script"].fill_(script_of("hard"))
    made.batch.set("forced_seed", np.array(seeds, np.int32))
    made.engine.reset()
    hashes = [[state_hash(made.batch, e)] for e in range(len(seeds))]
    for decision in range(1, decisions + 1):
        made.step()
        for e, row in enumerate(hashes if decision % 10 == 0 else ()):
            row.append(state_hash(made.batch, e))
    assert made["died"].sum() + (made["alive"] == 0).sum() > 0 or len(seeds) < 8, "no shot was fired"
    return hashes


@pytest.fixture(scope="module")
def many():
    return play(seeds=list(range(100, 116)), threads=1)


def test_a25_state_hash_is_independent_of_threads(many):
    assert play(seeds=list(range(100, 116)), threads=2) == many


@pytest.mark.parametrize("place", [0, 15])
def test_a25_state_hash_is_independent_of_batch_size(many, place):
    assert play(seeds=[100 + place], threads=1) == [many[place]]


def test_a25_state_hash_is_independent_of_environment_index(many):
    assert play(seeds=[115, 100, 107], threads=1) == [many[15], many[0], many[7]]


def test_a25_state_hash_differs_between_seeds(many):
    assert len({row[-1] for row in many}) == 16


def test_state_hash_changes_with_every_kind_of_state(battle):
    battle.engine.reset()
    seen = {state_hash(battle.batch, 0)}
    for name in ("pos", "heat", "cooldown", "round_weapon", "material", "voxel_hp", "score", "tick"):
        values = battle[name].copy()
        values.flat[1 % values.size] += 1
        battle.batch.set(name, values)
        seen.add(state_hash(battle.batch, 0))
    assert len(seen) == 9


@pytest.mark.parametrize(("packs", "edge"), [(1, 64), (3, 64), (5, 80)])
def test_a26_reset_places_mechs_apart_and_free_to_move(packs, edge):
    world = WorldConfig(size_x=edge, size_y=edge, size_z=20)
    bank = build_bank(world, range(4), num_packs=packs, zone_radius_vox=7.5)
    field = Field5v5(envs=4, size=edge, maps=bank, num_packs=packs, own_maps=True)
    field.play("reset", list)
    for e in range(4):
        s = snapshot(field, e)
        half = [MECHS[c].half for c in s.chassis]
        for m in range(len(half)):
            assert s.alive[m] and box_free(s, s.pos[m], half[m]), f"mech {m} stands in a wall on map {e}"
            overlapping = [j for j in range(m) if overlap(s.pos[m], half[m], s.pos[j], half[j])]
            assert not overlapping, f"mechs {m} and {overlapping} overlap on map {e}"
    start, reach = field["pos"].copy(), np.zeros((4, 10 * packs))
    for yaw in np.linspace(-3, 3, 8):
        field.play("reset", list)
        field.put("pos", start)
        field.put("yaw", yaw)
        actions = np.zeros(field["actions"].shape, np.float32)
        actions[..., 0] = 1
        field.batch.set("actions", actions)
        field.run(4)
        reach = np.maximum(reach, np.linalg.norm((field["pos"] - start)[..., :2], axis=-1))
    assert reach.min() > 0.5
