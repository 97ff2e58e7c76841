"""``HeuristicPolicy``: pilots called one by one act like pilots that act in one batch."""

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
def sequential():
    """Actions of ten expert pilots called one by one in each decision of an episode, for two episodes of a seed."""
    env, pilot = EchelonEnv(CFG), HeuristicPolicy(skill="expert")
    episodes = []
    for _ in range(2):
        env.reset(seed=SEED)
        actions_of_decisions, focused = [], 0
        while env.last_outcome is None:
            actions = {aid: pilot.act(env, aid) for aid in env.possible_agents}
            actions_of_decisions.append(np.stack([actions[aid] for aid in env.possible_agents]))
            focused += int((env.engine.batch.numpy("pack_focus") >= 0).sum())
            env.step(actions)
        episodes.append((actions_of_decisions, focused))
    return env, episodes


def test_sequential_calls_match_batched_pilots(sequential):
    env, [(expected, focused), _] = sequential
    batched = Engine(CFG, 1, env.engine.batch.maps, pilots=install, autoreset=False)
    batched.batch["script"].fill_(script_of("expert"))
    batched.batch.set("forced_seed", np.array([SEED], np.int32))
    batched.reset()
    for k, want in enumerate(expected):
        batched.step()
        np.testing.assert_array_equal(batched.batch.numpy("actions")[0], want, err_msg=f"decision {k}")
    batched.close()
    assert focused > 0


def test_second_episode_of_same_seed_is_identical(sequential):
    _, [(first, _), (second, _)] = sequential
    np.testing.assert_array_equal(np.stack(first), np.stack(second))
