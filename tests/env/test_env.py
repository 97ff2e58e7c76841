"""``EchelonEnv`` and ``parallel_env``: the interface others train against."""

from __future__ import annotations

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from echelon.agents.heuristic import HeuristicPolicy
from echelon.config import EnvConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.env.parallel import parallel_env

SMALL = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=10.0)


@pytest.fixture(scope="module")
def env():
    made = EchelonEnv(SMALL)
    yield made
    made.close()


def random_actions(env: EchelonEnv, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {aid: rng.uniform(-1, 1, env.ACTION_DIM).astype(np.float32) for aid in env.possible_agents}


def test_the_parallel_environment_passes_pettingzoos_own_test():
    made = parallel_env(SMALL)
    parallel_api_test(made, num_cycles=120)
    made.close()


def test_the_spaces_contain_every_observation_and_every_sampled_action(env):
    rng = np.random.default_rng(0)
    observations, _ = env.reset(seed=5)
    env.action_space.seed(0)
    assert env.action_space.contains(env.action_space.sample())
    while env.last_outcome is None:
        for aid, row in observations.items():
            assert env.observation_spaces[aid].contains(row), aid
            assert row.dtype == np.float32 and row.size == env._obs_dim()
        observations, *_ = env.step(random_actions(env, rng))


def test_the_same_seed_and_actions_give_the_same_battle(env):
    def play() -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        seen = [np.stack(list(env.reset(seed=9)[0].values()))]
        for _ in range(12):
            observations, rewards, *_ = env.step(random_actions(env, rng))
            seen += [np.stack(list(observations.values())), np.array(list(rewards.values()))]
        return seen

    for a, b in zip(play(), play(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_wrong_action_size_is_explained(env):
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action of blue_0 has 25 values, expected 26: base=9 target=5 ewar=0"):
        env.step({"blue_0": np.zeros(25)})


def test_an_unknown_agent_and_a_seed_out_of_range_are_named(env):
    with pytest.raises(ValueError, match="seed is -1, wanted 0 to"):
        env.reset(seed=-1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="agent 'green_0' does not exist"):
        env.step({"green_0": np.zeros(26)})


def test_the_callers_actions_are_never_changed(env):
    env.reset(seed=0)
    mine = np.full(env.ACTION_DIM, 7.5, dtype=np.float32)
    env.step({"blue_0": mine})
    assert (mine == 7.5).all()


def test_entries_that_are_not_finite_count_as_zero_and_are_counted(env):
    broken = np.zeros(env.ACTION_DIM, dtype=np.float32)
    env.reset(seed=3)
    still, *_ = env.step({})
    broken[:3] = [np.nan, np.inf, -np.inf]
    env.reset(seed=3)
    observations, *_ = env.step({"red_2": broken})
    assert env.stats["red"]["bad_actions"] == 3 and env.stats["blue"]["bad_actions"] == 0
    for aid, row in observations.items():
        np.testing.assert_array_equal(row, still[aid])


def test_an_episode_ends_with_an_outcome_and_must_be_reset(env):
    pilot = HeuristicPolicy(1.0)
    env.reset(seed=3)
    while env.last_outcome is None:
        actions = {aid: pilot.act(env, aid) for aid in env.possible_agents}
        _, rewards, terminated, truncated, infos = env.step(actions)
        assert not any(terminated[aid] and truncated[aid] for aid in env.possible_agents)
        for aid in env.possible_agents:
            assert sum(infos[aid]["reward_components"].values()) == pytest.approx(rewards[aid], abs=1e-5)
    assert env.last_outcome["reason"] in ("zone_control", "elimination", "time_up")
    assert all(infos[aid]["outcome"] == env.last_outcome for aid in env.possible_agents)
    with pytest.raises(ValueError, match="call reset"):
        env.step({})


def test_every_reset_plays_the_map_of_its_seed(env):
    env.reset(seed=11)
    first = env.engine.batch.numpy("material").copy()
    env.reset(seed=12)
    assert (env.engine.batch.numpy("material") != first).any()
    env.reset(seed=11)
    np.testing.assert_array_equal(env.engine.batch.numpy("material"), first)


def test_the_parallel_environment_drops_the_dead():
    made = parallel_env(SMALL)
    observations, _ = made.reset(seed=0)
    hp = made.env.engine.batch.numpy("hp").copy()
    hp[0, 3] = 0.0
    made.env.engine.batch.set("hp", hp)
    made.step({})
    observations, _, terminated, _, _ = made.step({})
    assert len(observations) in (9, 10)
    assert "blue_3" not in made.agents
    made.close()
