"""Golden battles and worlds: hashes that change only when the game does.

``just golden`` writes the current hashes; CHANGELOG then names the intended change. Maps of four biomes have their own
hashes in ``tests/gen``.
"""

import hashlib
import json

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.config import EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.gen.bank import stack_maps
from echelon.gen.biomes import BIOMES
from echelon.gen.generate import generate
from echelon.gen.recipe import GENERATOR_VERSION
from echelon.version import SIM_VERSION
from tests.golden import FOLDER, assert_golden_json
from tests.state_hash import state_hash

pytestmark = pytest.mark.golden

GOLDEN = FOLDER / "battles.json"
BATTLE_NOTE = "and raise SIM_VERSION in echelon/version.py, and describe the change of the game in CHANGELOG.md"
VERSIONS = FOLDER / "sim_versions.json"
"""Sha256 of the golden battles of every simulation version."""
MAP_NOTE = "and raise GENERATOR_VERSION in echelon/gen/recipe.py"
DECISIONS = (120, 240)
PILOTS = ("easy", "hard")
SEEDS = (3, 2**30)
CFG = EnvConfig(world=WorldConfig(size_x=60, size_y=60))
SMALL = WorldConfig(size_x=48, size_y=40, size_z=20)
OTHER_SIZES = ((36, 30, 16), (64, 80, 64), pytest.param((200, 200, 20), marks=pytest.mark.long))


def fight(pilot: str) -> dict[str, dict[str, str]]:
    """Return the state hash of each seed's battle after each of ``DECISIONS`` steps."""
    made = [generate(CFG.world, seed, num_packs=1, zone_radius_vox=CFG.zone_radius_vox) for seed in SEEDS]
    engine = Engine(CFG, len(SEEDS), stack_maps(made), autoreset=False, pilots=heuristic.install)
    engine.batch.set("forced_seed", np.array(SEEDS, np.int32))
    engine.batch.set("forced_slot", np.arange(len(SEEDS), dtype=np.int32))
    engine.batch["script"].fill_(heuristic.script_of(pilot))
    engine.reset()
    found: dict[str, dict[str, str]] = {str(seed): {} for seed in SEEDS}
    for decision in range(1, max(DECISIONS) + 1):
        engine.step()
        if decision in DECISIONS:
            for e, seed in enumerate(SEEDS):
                found[str(seed)][str(decision)] = state_hash(engine.batch, e)
    assert (engine.batch.numpy("alive") == 0).any(), "a golden battle must be fought"
    engine.close()
    return found


def world_hash(biome: str, world: WorldConfig = SMALL) -> str:
    return generate(world, 1, num_packs=1, zone_radius_vox=5.0, biome=biome).hashes["materials"]


@pytest.mark.parametrize("pilot", PILOTS)
def test_golden_battle_hashes_are_unchanged(pilot):
    assert_golden_json(GOLDEN, fight(pilot), section=f"battles of {pilot}", note=BATTLE_NOTE)


def test_simulation_version_is_raised_with_the_golden_battles():
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    battles = json.dumps([stored[f"battles of {pilot}"] for pilot in PILOTS], sort_keys=True)
    versions = json.loads(VERSIONS.read_text(encoding="utf-8")) if VERSIONS.exists() else {}
    current = {str(SIM_VERSION): hashlib.sha256(battles.encode()).hexdigest()}
    assert (current | versions)[str(SIM_VERSION)] == current[str(SIM_VERSION)], (
        f"golden battles differ from those of simulation version {SIM_VERSION}: "
        "raise SIM_VERSION in echelon/version.py, then run `just golden`"
    )
    assert_golden_json(VERSIONS, versions | current)


def test_golden_world_hashes_are_unchanged_for_every_biome():
    current = {biome: world_hash(biome) for biome in BIOMES}
    assert_golden_json(GOLDEN, current, section="worlds", note=MAP_NOTE)
    assert_golden_json(GOLDEN, GENERATOR_VERSION, section="generator_version")


@pytest.mark.parametrize("size", OTHER_SIZES, ids=str)
def test_golden_world_hashes_are_unchanged_for_every_size(size):
    world = WorldConfig(size_x=size[0], size_y=size[1], size_z=size[2])
    current = {biome: world_hash(biome, world) for biome in BIOMES}
    assert len(set(current.values())) == len(BIOMES), "no two biomes are alike"
    assert_golden_json(GOLDEN, current, section=f"worlds of {'x'.join(map(str, size))}", note=MAP_NOTE)
