"""Evaluation: held-out seeds, both sides, the same figures twice."""

from __future__ import annotations

import pytest
import torch

from echelon.config import EVAL_SEED_BASE, EnvConfig, ModelConfig
from echelon.rl.build import build_model
from echelon.training.evaluation import (
    eval_seeds,
    evaluate_policy,
    evaluate_vs_heuristic,
    make_eval_env,
    play_episodes,
    summarize,
    wilson_interval,
)
from tests.training.fakes import ACTION_DIM, OBS_DIM, FakeEnv


def policy(seed: int = 0):
    torch.manual_seed(seed)
    return build_model(ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8), OBS_DIM, ACTION_DIM)


def test_evaluation_seeds_are_never_training_seeds():
    assert min(eval_seeds(40)) >= EVAL_SEED_BASE and len(set(eval_seeds(40))) == 40


def test_every_seed_is_played_from_both_sides_and_twice_the_same():
    model = policy()
    first, second = (evaluate_policy(model, EnvConfig(), eval_seeds(4), make_env=FakeEnv) for _ in range(2))
    assert first.episodes == 8 and first.outcomes == second.outcomes
    assert (first.win_rate, first.mean_hp_margin) == (second.win_rate, second.mean_hp_margin)
    assert {(seed, side) for seed, side, _ in first.outcomes} == {(s, t) for s in eval_seeds(4) for t in (0, 1)}
    assert first.win_rate + first.draw_rate + first.loss_rate == pytest.approx(1.0)
    assert first.win_low <= first.win_rate <= first.win_high


def test_a_stochastic_policy_repeats_itself_under_the_same_noise_seed():
    env = make_eval_env(EnvConfig(), eval_seeds(3), weapon_prob=1.0, make_env=FakeEnv)
    runs = [play_episodes(policy(), env, 40, deterministic=False, noise_seed=seed) for seed in (1, 1, 2)]
    returns = [[float(r.returns.sum()) for r in records] for records in runs]
    assert returns[0] == returns[1] != returns[2]


def test_evaluation_runs_without_gradient_and_leaves_the_policy_in_its_mode():
    model, env = policy(), FakeEnv(2, seeds=[1, 2], autoreset=False)
    seen = []
    model.act = lambda *args, act=model.act: seen.append(torch.is_inference_mode_enabled()) or act(*args)
    model.train()
    play_episodes(model, env, 40)
    assert all(seen) and model.training


def test_a_perfect_follower_wins_and_the_interval_is_wilsons():
    class Follower:
        training = False

        def eval(self): ...

        def train(self, mode): ...

        def initial_state(self, n, device):
            return None

        def act(self, obs, state, done, noise):
            return torch.cat([obs[:, :1], torch.zeros(len(obs), ACTION_DIM - 1)], 1), state

    env = make_eval_env(EnvConfig(), eval_seeds(5), weapon_prob=1.0, make_env=FakeEnv)
    stats = summarize(play_episodes(Follower(), env, 40), 1.0)  # type: ignore[arg-type]
    assert stats.win_rate == 1.0 and stats.mean_hp_margin == 1.0
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-3)
    assert (stats.win_low, stats.win_high) == wilson_interval(10, 10)


def test_the_number_of_seeds_must_match_the_episodes():
    with pytest.raises(ValueError, match="seeds has 2 values"):
        evaluate_vs_heuristic(policy(), EnvConfig(), 3, [1, 2], "cpu")
