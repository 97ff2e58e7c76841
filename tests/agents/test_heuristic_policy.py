"""The policy object: pilots who are asked one by one act as a batch of them does."""

from __future__ import annotations

import numpy as np
import pytest

from echelon.agents.heuristic import HeuristicPolicy, install, script_of
from echelon.config import EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.env.env import EchelonEnv

CFG = EnvConfig(world=WorldConfig(size_x=50, size_y=50, size_z=20))
SEED = 3


@pytest.fixture(scope="module")
def asked():
    """What ten expert pilots do who are asked one by one, in each decision of an episode, twice over."""
    env, pilot = EchelonEnv(CFG), HeuristicPolicy(skill="expert")
    episodes = []
    for _ in range(2):
        env.reset(seed=SEED)
        told, focused = [], 0
        while env.last_outcome is None:
            actions = {aid: pilot.act(env, aid) for aid in env.possible_agents}
            told.append(np.stack([actions[aid] for aid in env.possible_agents]))
            focused += int((env.engine.batch.numpy("pack_focus") >= 0).sum())
            env.step(actions)
        episodes.append((told, focused))
    yield env, episodes
    env.close()


def test_sequential_calls_match_batched_pilots(asked):
    """They share a pack's focus and mind each other's lines of sight, whoever is asked first."""
    env, [(told, focused), _] = asked
    with_all = Engine(CFG, 1, env.engine.batch.maps, pilots=install, autoreset=False)
    with_all.batch["script"].fill_(script_of("expert"))
    with_all.batch.set("forced_seed", np.array([SEED], np.int32))
    with_all.reset()
    for k, want in enumerate(told):
        with_all.step()
        np.testing.assert_array_equal(with_all.batch.numpy("actions")[0], want, err_msg=f"decision {k}")
    with_all.close()
    assert focused > 0


def test_second_episode_of_same_seed_is_identical(asked):
    _, [(first, _), (second, _)] = asked
    np.testing.assert_array_equal(np.stack(first), np.stack(second))
