"""Map sizes and pack counts across the allowed range: battles keep the invariants and the memory budget."""

import numpy as np
import pytest

from echelon.agents.levels import script_of
from echelon.config import EnvConfig, WorldConfig
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.vec_env import VectorEnv
from tests.laws.invariants import InvariantChecker

STEPS = 30
MAX_ENV_BYTES = 1_000_000
MANY_ENVS = 4096
ONE_GPU_BYTES = 8 * 2**30
"""Memory of a small GPU; the batch may use all but ``LEARNER_BYTES``."""
LEARNER_BYTES = 2 * 2**30
MOST_MAPS = 8
SIZES = (
    ((20, 20, 16), 1),
    ((20, 20, 64), 1),
    ((57, 41, 33), 3),
    ((120, 64, 48), 6),
    ((200, 200, 16), 10),
    ((200, 200, 64), 2),
)


def battle(size: tuple[int, int, int], packs: int, envs: int, **ranges) -> VectorEnv:
    world = WorldConfig(size_x=size[0], size_y=size[1], size_z=size[2])
    cfg = EnvConfig(world=world, num_packs=packs, **ranges)
    env = VectorEnv(
        envs,
        cfg,
        sides=Sides("both"),
        maps=Maps(min(envs, MOST_MAPS)),
        pilots=Pilots(weapon_prob=1.0),
        episodes=Episodes(autoreset=False),
    )
    env.engine.batch["script"].fill_(script_of("medium"))
    return env


def fight(env: VectorEnv) -> None:
    """Play ``STEPS`` environment steps and check every invariant after each."""
    env.reset()
    places = env.engine.batch.numpy("pos").copy()
    checker = InvariantChecker(env.engine, env.rows.obs[0].numpy(), slow_every=STEPS // 2)
    for _ in range(STEPS):
        env.step()
        checker.check()
    moved = np.linalg.norm(env.engine.batch.numpy("pos") - places, axis=-1)
    assert moved.max() > 1.0 and moved[~env.results.present.numpy()].max(initial=0.0) == 0.0


@pytest.mark.parametrize(("size", "packs"), SIZES)
def test_battles_of_every_size_keep_the_invariants(size, packs):
    with battle(size, packs, 2) as env:
        fight(env)
        assert (env.engine.batch.numpy("size") == size).all() and env.results.present.all()


def test_mixed_size_batch_keeps_the_invariants():
    with battle((80, 70, 24), 3, 6, map_size_range=(40, 80), packs_per_team_range=(1, 3)) as env:
        fight(env)
        assert len(np.unique(env.engine.batch.numpy("size"), axis=0)) > 2
        assert len(set(env.results.present.sum(1).tolist())) > 1


@pytest.mark.slow
def test_100v100_battle_keeps_the_invariants():
    with battle((200, 200, 20), 20, 1) as env:
        fight(env)
        assert env.num_mechs == 200


def bytes_per_env(env: VectorEnv) -> float:
    backend = env.engine.batch.backend
    arrays = (backend.arrays[name] for name in backend.per_env)
    return sum(array.capacity for array in arrays) / env.num_envs


def test_environment_memory_is_below_one_megabyte():
    with battle((100, 100, 20), 1, 4) as env:
        each, bank = bytes_per_env(env), env.engine.batch.maps
        world = env.engine.batch.numpy("material")[0].nbytes + env.engine.batch.numpy("voxel_hp")[0].nbytes
        assert world == 3 * 100 * 100 * 20 < each, "the count holds the voxels, at three bytes each"
        assert each <= MAX_ENV_BYTES
        shared = 64 * sum(getattr(bank, name)[0].nbytes for name in ("material", "move_plane", "flow")) * 2
        assert MANY_ENVS * each + shared <= ONE_GPU_BYTES - LEARNER_BYTES


@pytest.mark.slow
def test_4096_environments_run():
    with battle((100, 100, 20), 1, MANY_ENVS) as env:
        env.reset()
        env.step()
        assert env.results.acting.all() and env.num_envs == MANY_ENVS
