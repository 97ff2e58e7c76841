"""``VectorEnv``: rows, views, resets and exact resumes of the batched environment."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from echelon.agents.levels import script_of
from echelon.config import EVAL_SEED_BASE, EnvConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.batched_env import BatchedEnv
from echelon.training.map_pool import training_map_seed
from echelon.training.vec_env import VectorEnv

SHORT = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=4.0, zone_win_share=2.0)
ENVS = 6


def vector(**options) -> VectorEnv:
    return VectorEnv(ENVS, SHORT, maps=Maps(4), **options)


def play(env: VectorEnv, decisions: int, seed: int = 0) -> list[np.ndarray]:
    """Play random learner actions; return observations, rewards and episode ends of every step."""
    draws = torch.Generator().manual_seed(seed)
    seen = []
    for _ in range(decisions):
        flat = env.actions.view(-1, env.sizes.action_dim)
        flat[env.rows.agent] = torch.rand((env.rows.count, env.sizes.action_dim), generator=draws) * 2 - 1
        env.step()
        seen += [env.rows.obs[0].numpy().copy(), env.results.rewards.numpy().copy(), env.results.over.numpy().copy()]
    return seen


def test_vec_env_rows_belong_to_learning_side_in_order():
    with vector(sides=Sides("red")) as env:
        assert env.rows.count == ENVS * SHORT.team_size
        assert (env.rows.row_of[:, : SHORT.team_size] == -1).all()
        assert env.rows.agent.tolist() == [e * 10 + m for e in range(ENVS) for m in range(5, 10)]
        assert env.rows.roles.tolist()[:5] == [3, 2, 2, 1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sides": Sides("green")}, "learners is 'green', expected one of blue, red, both, none"),
        ({"sides": Sides(["blue"])}, "learners is 1, expected one side per environment, 6"),
        ({"sides": Sides("blue", opponents="blue")}, "opponents is 'blue', expected a side that does not learn"),
        ({"pilots": Pilots(weapon_prob=1.5)}, "weapon_prob is 1.5, expected 0 to 1"),
        ({"episodes": Episodes(seeds=[1, 2])}, "seeds is 2, expected one per environment, 6"),
    ],
)
def test_vec_env_rejects_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        vector(**options)


def test_get_curriculum_returns_merged_copy():
    with vector(pilots=Pilots(weapon_prob=0.25)) as env:
        env.set_curriculum(team_alpha=0.5)
        parameters = env.get_curriculum()
        parameters["weapon_prob"] = 9
        assert env.get_curriculum() == {
            "map_size_range": (40, 40),
            "packs_per_team_range": (1, 1),
            "skill": "medium",
            "weapon_prob": 0.25,
            "team_alpha": 0.5,
        }


def test_skill_parameter_changes_scripted_mechs_only():
    with vector(pilots=Pilots("medium")) as env:
        assert (env.engine.batch.numpy("script") == [[0] * 5 + [script_of("medium")] * 5] * ENVS).all()
        env.set_curriculum(skill="hard")
        assert (env.engine.batch.numpy("script") == [[0] * 5 + [script_of("hard")] * 5] * ENVS).all()


def test_vec_env_is_independent_of_thread_count():
    with vector(threads=1) as one, vector(threads=2) as two:
        one.reset()
        two.reset()
        for a, b in zip(play(one, 40), play(two, 40), strict=True):
            np.testing.assert_array_equal(a, b)


def test_vec_env_episode_equals_single_environment():
    single = EchelonEnv(SHORT)
    expected, _ = single.reset(seed=77)
    with vector(sides=Sides("both"), episodes=Episodes(seeds=[70, 71, 77, 73, 74, 75])) as env:
        env.reset()
        rows = slice(20, 30)
        np.testing.assert_array_equal(env.rows.obs[0, rows].numpy(), np.stack(list(expected.values())))
        draws = np.random.default_rng(3)
        for _ in range(10):
            actions = draws.uniform(-1, 1, (10, env.sizes.action_dim)).astype(np.float32)
            env.actions[2] = torch.from_numpy(actions)
            env.step()
            observations, rewards, *_ = single.step(dict(zip(single.possible_agents, actions, strict=True)))
            np.testing.assert_array_equal(env.rows.obs[0, rows].numpy(), np.stack(list(observations.values())))
            np.testing.assert_array_equal(env.results.rewards[2].numpy(), np.array(list(rewards.values()), np.float32))
    single.close()


def test_time_limit_truncates_and_keeps_final_observation():
    with vector() as env:
        env.reset()
        for _ in range(SHORT.max_steps):
            assert not env.results.final_mask.any()
            before = env.rows.obs[0].clone()
            env.step()
        assert env.results.final_mask.all() and env.results.over.all()
        assert (env.results.truncated == env.results.alive)[:, :5].all()
        time_column = [row.index for row in env.layout if row.name == "ego.time"][0]
        alive = env.rows.final_obs[:, time_column] > 0
        assert alive.any() and (env.rows.final_obs[alive, time_column] == 1.0).all()
        assert (env.rows.obs[0][:, time_column] == 0.0).all()
        assert (before[alive, time_column] < 1.0).all()


def test_pop_episodes_returns_each_episode_once():
    with vector() as env:
        env.reset()
        summed = torch.zeros((ENVS, env.num_mechs))
        for _ in range(SHORT.max_steps):
            env.step()
            summed += env.results.rewards
        records = env.episodes.pop()
        assert [r.env for r in records] == list(range(ENVS)) and env.episodes.pop() == []
        for r in records:
            assert r.length == SHORT.max_steps and r.reason == "time_up" and r.learner_team == 0
            np.testing.assert_allclose(r.returns, summed[r.env].numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(r.terms.sum(1), r.returns, rtol=1e-4, atol=1e-4)


def test_batched_env_protocol_has_at_most_14_members():
    members = {name for name in vars(BatchedEnv) if not name.startswith("_")} | BatchedEnv.__annotations__.keys()
    assert len(members) <= 14, sorted(members)


def test_episode_ends_once_without_autoreset():
    with vector(episodes=Episodes(autoreset=False)) as env:
        env.reset()
        ends = torch.zeros(ENVS)
        for _ in range(SHORT.max_steps + 5):
            env.step()
            ends += env.results.over.float()
        assert ends.tolist() == [1.0] * ENVS


def test_vec_env_state_dict_resumes_exactly():
    with vector() as env:
        env.reset()
        play(env, 9, seed=1)
        state = env.state_dict()
        expected_outputs = play(env, 14, seed=2)
        with vector() as other:
            other.reset()
            other.load_state_dict(state)
            for a, b in zip(play(other, 14, seed=2), expected_outputs, strict=True):
                np.testing.assert_array_equal(a, b)


def test_step_writes_observations_to_given_row():
    with vector() as env:
        buffer = torch.zeros((4, env.rows.count, env.sizes.obs_dim))
        env.rows.attach(buffer)
        env.reset(0)
        env.step(2)
        assert buffer[0].any() and buffer[2].any() and not buffer[1].any() and not buffer[3].any()
        with pytest.raises(ValueError, match="obs is"):
            env.rows.attach(torch.zeros((4, env.rows.count, 3)))


def test_training_seeds_stay_below_held_out_range():
    assert all(0 <= training_map_seed(123, i) < EVAL_SEED_BASE for i in range(64))
    with vector(episodes=Episodes(2**29, first_env=100_000)) as env:
        env.reset()
        assert (env.engine.batch.numpy("seed") < EVAL_SEED_BASE).all()


def test_zero_weapon_probability_stops_scripted_fire():
    with vector(pilots=Pilots(weapon_prob=0.0)) as env:
        env.reset()
        env.actions.zero_()
        fired = 0
        for _ in range(16):
            env.step()
            fired += int((env.engine.batch.numpy("fired")[:, 5:] != 0).sum())
        assert fired == 0
