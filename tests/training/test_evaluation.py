"""Evaluation: held-out seeds, both sides, reproducible statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from echelon import champion
from echelon.actions import RATED_CONTROLS
from echelon.config import (
    EVAL_SEED_BASE,
    LADDER,
    EnvConfig,
    EvalConfig,
    MixConfig,
    ModelConfig,
    OpponentConfig,
    RunConfig,
    WorldConfig,
)
from echelon.config.checks import ranges_of
from echelon.config.seeds import SEED_RANGES, eval_seeds
from echelon.replay.reader import Replay
from echelon.rl.build import build_model
from echelon.rl.weights import load_policy
from echelon.sim.arsenal import CHASSIS, ROSTER, Chassis
from echelon.statistics import wilson_interval
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.episode_results import episode_result, statistics_of
from echelon.training.evaluation import (
    YARDSTICK,
    EvalStats,
    StatelessPolicy,
    evaluate_ladder,
    evaluate_policy,
    evaluate_vs_heuristic,
    make_eval_env,
    play_episodes,
)
from echelon.training.evaluator import best_evaluation
from echelon.training.opponents.outcomes import hp_margin
from echelon.training.records import MIRRORED, WINDOW, ActionCounter, EpisodeStats
from echelon.training.vec_env import VectorEnv
from tests.training.fakes import ACTION_DIM, OBS_DIM, FakeEnv

TINY = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=4.0)


def policy(seed: int = 0):
    torch.manual_seed(seed)
    return build_model(ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8), OBS_DIM, ACTION_DIM)


def test_seed_ranges_of_all_purposes_are_disjoint():
    assert set(SEED_RANGES) == {"training", "report", "rating", "choice"}
    ordered = sorted(SEED_RANGES.values(), key=lambda seeds: seeds.start)
    assert all(a.stop <= b.start for a, b in zip(ordered, ordered[1:], strict=False))
    assert SEED_RANGES["training"] == range(EVAL_SEED_BASE) and ordered[-1].stop <= 2**31
    for purpose, seeds in SEED_RANGES.items():
        assert set(eval_seeds(40, purpose)) == set(seeds[:40]) and len(seeds) > ranges_of(EvalConfig)["seeds"][1]
    assert eval_seeds(40) == eval_seeds(40, "report") == [EVAL_SEED_BASE + s for s in range(40)]


def test_ladder_reports_mean_and_sampled_actions():
    model = policy()
    found = evaluate_ladder(model, EnvConfig(), eval_seeds(3), ["easy", "hard"], make_env=FakeEnv)
    for stats in found.values():
        assert stats.sampled_low <= stats.sampled_win_rate <= stats.sampled_high and stats.episodes == 6
    sampled = evaluate_ladder(model, EnvConfig(), eval_seeds(3), ["easy"], make_env=FakeEnv, deterministic=False)[
        "easy"
    ]
    alone = evaluate_policy(model, EnvConfig(), eval_seeds(3), deterministic=False, make_env=FakeEnv)
    assert math.isnan(sampled.sampled_win_rate) and sampled.outcomes == alone.outcomes
    assert sampled.win_rate == found["easy"].sampled_win_rate
    mean = evaluate_policy(model, EnvConfig(), eval_seeds(3), make_env=FakeEnv)
    assert mean.outcomes == found["easy"].outcomes and math.isnan(mean.sampled_win_rate)


def test_champion_with_mean_actions_is_its_own_mirror_image():
    loaded, env = load_policy(champion.FOLDER), TINY
    played: list[str] = []
    found = evaluate_ladder(loaded.policy, env, eval_seeds(1), ["champion"], threads=1, tell=played.append)["champion"]
    assert found.mean_hp_margin == 0.0 and len({(seed, outcome) for seed, _, outcome in found.outcomes}) == 2
    assert played == ["champion"] and YARDSTICK == (*LADDER, "champion")
    expected = r"champion cannot play with suite layout, 1000 columns, expected suite layout, 994 columns"
    with pytest.raises(ValueError, match=expected):
        evaluate_ladder(loaded.policy, replace(env, observe_target=True), eval_seeds(1), ["champion"])


@pytest.mark.parametrize(
    ("mix", "skill", "expected"),
    [
        ({"scripted": 0.0, "easy": 1.0, "medium": 1.0}, "expert", "medium"),
        ({"scripted": 1.0}, "hard", "hard"),
        ({"scripted": 1.0, "easy": 1.0}, "trivial", "easy"),
        ({"scripted": 0.0, "self_play": 1.0}, "easy", "medium"),
        ({"scripted": 0.1, "league": 1.0}, "easy", "expert"),
    ],
)
def test_evaluations_play_the_hardest_level_among_the_opponents(mix, skill, expected):
    opponents = OpponentConfig(mix=MixConfig(**mix), skill=skill)
    hardest = RunConfig(opponents=opponents, eval=EvalConfig(skill="hardest"))
    assert hardest.eval_level == expected
    assert replace(hardest, eval=EvalConfig(skill="trivial")).eval_level == "trivial"


def test_best_evaluation_is_the_newest_within_a_standard_error_of_the_highest():
    def stats(wins: float, episodes: int = 80) -> EvalStats:
        return EvalStats(win_rate=wins, mean_hp_margin=0.0, mean_episode_length=1.0, episodes=episodes)

    best = best_evaluation({}, stats(0.5), 1, "hard")
    assert best_evaluation(best, stats(0.4), 2, "hard") is best, "the standard error is 0.056"
    later = best_evaluation(best, stats(0.46), 2, "hard")
    assert (later["update"], later["win_rate"], later["highest"]) == (2, 0.46, 0.5)
    assert best_evaluation(later, stats(0.42), 3, "hard") is later, "small losses do not add up"
    assert best_evaluation(best, stats(0.4, 10), 2, "hard")["update"] == 2, "few matches tell less"
    assert best_evaluation(best_evaluation({}, stats(0.0), 1, "hard"), stats(0.0), 2, "hard")["update"] == 2
    assert best_evaluation(best, stats(0.1), 2, "expert")["opponent"] == "expert"


def test_evaluation_plays_both_sides_and_is_reproducible():
    model = policy()
    first, second = (evaluate_policy(model, EnvConfig(), eval_seeds(4), make_env=FakeEnv) for _ in range(2))
    assert first.episodes == 8 and first.outcomes == second.outcomes
    assert (first.win_rate, first.mean_hp_margin) == (second.win_rate, second.mean_hp_margin)
    assert {(seed, side) for seed, side, _ in first.outcomes} == {(s, t) for s in eval_seeds(4) for t in (0, 1)}
    assert first.win_rate + first.draw_rate + first.loss_rate == pytest.approx(1.0)
    assert first.win_low <= first.win_rate <= first.win_high


def test_stochastic_episodes_are_reproducible_by_noise_seed():
    env = make_eval_env(EnvConfig(), eval_seeds(3), weapon_prob=1.0, make_env=FakeEnv)
    runs = [play_episodes(policy(), env, 40, deterministic=False, noise_seed=seed) for seed in (1, 1, 2)]
    returns = [[float(r.returns.sum()) for r in records] for records in runs]
    assert returns[0] == returns[1] != returns[2]


def test_evaluation_uses_inference_mode_and_restores_training_mode():
    model, env = policy(), FakeEnv(2, episodes=Episodes(seeds=[1, 2], autoreset=False))
    modes = []
    model.act = lambda *args, act=model.act: modes.append(torch.is_inference_mode_enabled()) or act(*args)
    model.train()
    play_episodes(model, env, 40)
    assert all(modes) and model.training


def test_hp_margin_is_a_share_of_the_mechs_in_the_match():
    present = np.tile([True, False, False, True, True], 4)
    full = 2 * sum(CHASSIS[ROSTER[position]].hp for position in (0, 3, 4))
    for side, expected in ((0, 0.75), (1, -0.75)):
        assert hp_margin(SimpleNamespace(present=present, hp=(full, full / 4), learner_team=side)) == expected


def test_perfect_policy_wins_and_interval_is_wilson():
    class Follower(StatelessPolicy):
        def act(self, obs, state, done, noise):
            return torch.cat([obs[:, :1], torch.zeros(len(obs), ACTION_DIM - 1)], 1), state

    env = make_eval_env(EnvConfig(), eval_seeds(5), weapon_prob=1.0, make_env=FakeEnv)
    records = play_episodes(Follower(), env, 40)  # type: ignore[arg-type]
    stats = statistics_of([episode_result(record) for record in records])
    assert stats.win_rate == 1.0
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-3)
    assert (stats.win_low, stats.win_high) == wilson_interval(10, 10)


def test_reward_terms_are_averaged_over_the_episodes_that_have_them():
    """A term that was added between two sessions of a run is in the newer episodes only."""
    stats, row = EpisodeStats(), {"return": 2.0, "length": 40, "outcome": "win"}
    stats.load([row | {"terms": {"zone": 1.0, "kill": 3.0}}, row | {"terms": {"zone": 3.0, "alive": 0.5}}])
    assert stats.reward_terms() == {"zone": 2.0, "kill": 3.0, "alive": 0.5}
    stats.load([row] * 300 + [row | {"outcome": MIRRORED}] * 20 + [row | {"outcome": "loss"}] * 20)
    found = stats.averages()
    assert (found["battles"], found["win_rate"]) == (WINDOW - 20, 0.75), "self-play is no battle"


def test_action_counter_counts_living_steps_of_first_episode():
    cfg = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=3.0, zone_win_share=2.0)
    with VectorEnv(
        2, cfg, sides=Sides(["blue", "red"]), maps=Maps(1), pilots=Pilots("hard"), episodes=Episodes(autoreset=False)
    ) as env:
        counter = ActionCounter(env)
        env.reset()
        counter.begin()
        heavy = env.rows.agent[env.rows.roles == Chassis.HEAVY]
        lived = used = 0
        for step in range(cfg.max_steps + 6):
            env.actions.fill_(-0.5)
            flat = env.actions.view(-1, env.sizes.action_dim)
            flat[heavy, RATED_CONTROLS["primary"]] = 1.0
            flat[heavy, RATED_CONTROLS["jets"]] = 1.0 if step % 3 == 0 else -1.0
            env.step()
            counter.after_step()
            if step < cfg.max_steps:
                acting = int(env.results.acting.view(-1)[heavy].sum())
                lived, used = lived + acting, used + acting * (step % 3 == 0)
        rates = counter.rates()
    assert rates["heavy/primary"] == 1.0 and rates["heavy/vent"] == 0.0 and rates["light/primary"] == 0.0
    assert rates["heavy/jets"] == pytest.approx(used / lived) and lived > 0
    assert rates.keys() == {f"{c.name.lower()}/{control}" for c in Chassis for control in RATED_CONTROLS}


def test_evaluate_vs_heuristic_rejects_wrong_number_of_seeds():
    with pytest.raises(ValueError, match="seeds has 2 values"):
        evaluate_vs_heuristic(policy(), EnvConfig(), 3, [1, 2], "cpu")


def test_evaluate_vs_heuristic_returns_replay_of_first_episode(tmp_path):
    model = build_model(ModelConfig(hidden_dim=8, lstm_hidden_dim=8, action_head="hybrid"), 994, 18, 121)
    stats, replay = evaluate_vs_heuristic(model, TINY, 2, eval_seeds(2), "cpu", save_replay=True)
    plain, nothing = evaluate_vs_heuristic(model, TINY, 2, eval_seeds(2), "cpu")
    assert replay is not None and nothing is None
    assert stats.outcomes == plain.outcomes and stats.mean_return == plain.mean_return
    path = tmp_path / "first.ecr"
    path.write_bytes(replay)
    with Replay(path) as match:
        assert [team["name"] for team in match.header["teams"]] == ["policy", "medium"]
        assert match.complete and match.header["seed"] == eval_seeds(2)[0]
        assert match.materials().any(), "the world is in the file"
