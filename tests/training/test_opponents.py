"""Opponents: sampled by weight when an episode ends, run in groups with separate states, resumed exactly."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from dataclasses import asdict, replace

import pytest
import torch

from echelon import champion
from echelon.config import MIX_PROFILES, EnvConfig, EvalConfig, MixConfig, ModelConfig, OpponentConfig, WorldConfig
from echelon.replay.reader import Replay
from echelon.rl.build import build_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import trace_act
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.telemetry.events import EventEpisodes, EventEval, EventRating, EventUpdate
from echelon.training import loop
from echelon.training.batch_options import Maps, Sides
from echelon.training.opponents.pool import SELF, OpponentMix, assign_sides, level_of, most_redundant
from echelon.training.opponents.rating import FixedOpponents
from echelon.training.session import Session
from echelon.training.vec_env import VectorEnv
from tests.training.conftest import make_small_run
from tests.training.fakes import ACTION_DIM, OBS_DIM, FakeEnv
from tests.training.runs import advance, assert_resumes_exactly, battle_run, of, opposed, run, run_battle

MODEL = ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8, init_log_std=-0.5)
ENVS = 6
SHORT = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=4.0, zone_win_share=2.0)


def policy(seed: int = 0):
    torch.manual_seed(seed)
    return build_model(MODEL, OBS_DIM, ACTION_DIM).eval()


def mix(**weights) -> OpponentConfig:
    return OpponentConfig(mix=MixConfig(**{"scripted": 0.0, **weights}), skill="medium", past_every_updates=1)


def source(**weights) -> OpponentMix:
    return OpponentMix(mix(**weights), 5, policy)


EPISODES = [(env, episode) for env in range(40) for episode in range(100)]


def test_opponent_mix_samples_by_weight_reproducibly():
    pool = source(scripted=1, easy=2, past=1)
    pool.add(policy(), 0)
    pool.add(policy(), 7)
    drawn = pool.draw_many(EPISODES)
    counts = Counter(drawn)
    expected = {"heuristic:medium": 0.25, "heuristic:easy": 0.5, "past:0": 0.125, "past:7": 0.125}
    assert counts.keys() == expected.keys()
    chi_square = sum((counts[n] - 4000 * share) ** 2 / (4000 * share) for n, share in expected.items())
    assert chi_square < 16.3, "three degrees of freedom, one in a thousand"
    assert drawn[::99] == [pool.draw(env, episode) for env, episode in EPISODES[::99]]


def champion_of(seed: int) -> LoadedPolicy:
    meta = {"obs_dim": OBS_DIM, "action_dim": ACTION_DIM, "map_width": 0, "model_cfg": asdict(MODEL)}
    return LoadedPolicy(policy(seed).requires_grad_(False), {**meta, "id": f"champion-{seed}"})


def champion_pool(seed: int = 1) -> OpponentMix:
    return OpponentMix(replace(mix(easy=1, champion=1), pfsp=1.0), 5, policy, champion_of(seed))


def test_champion_is_sampled_by_weight_and_results():
    pool = champion_pool()
    drawn = Counter(pool.draw_many(EPISODES))
    assert drawn.keys() == {"heuristic:easy", "champion"} and 1850 < drawn["champion"] < 2150
    for _ in range(200):
        pool.record_outcome("champion", "loss")
        pool.record_outcome("heuristic:easy", "win")
    drawn = Counter(pool.draw_many(EPISODES))
    assert drawn["champion"] > 3600, "it is hardly beaten, the level always"
    assert pool.is_ready("champion") and not source(easy=1).is_ready("champion")
    assert "champion" not in source(easy=1).state_dict()
    pool.release(set())
    assert pool.policy("champion") is not None


def test_run_keeps_the_champion_that_it_began_with():
    before, other = champion_pool(1), champion_pool(2)
    state = before.state_dict()
    other.load_state_dict(state)
    old, new = (pool.policy("champion").state_dict() for pool in (before, other))
    assert old.keys() == new.keys() and all(torch.equal(value, new[name]) for name, value in old.items())
    assert other.state_dict()["champion"]["meta"]["id"] == "champion-1"
    del state["champion"]
    champion_pool(2).load_state_dict(state)


def test_run_against_champion_counts_it_and_resumes_bit_exactly(small_run, tmp_path, monkeypatch):
    champions = iter((1, 1, 2, 3))
    monkeypatch.setattr("echelon.training.session.load_champion", lambda *_, **__: champion_of(next(champions)))
    opponents = replace(mix(easy=1, champion=2), pfsp=1.0)
    whole, resumed, _ = assert_resumes_exactly(small_run(opponents=opponents, max_updates=4), tmp_path, 2)
    assert next(champions) == 3, "Echelon came with another one at the resume"
    assert any("champion" in event.opponents for event in of(resumed, EventUpdate))
    counted = [event.by_opponent.get("champion", {}) for event in of(whole, EventEpisodes)]
    assert sum(sum(outcomes.values()) for outcomes in counted) > 0


@pytest.mark.long
def test_run_plays_against_champion(tmp_path):
    config = battle_run(env={"max_episode_seconds": 2.0}, opponents=mix(easy=1, champion=3), num_envs=4, max_updates=2)
    _, events = run_battle(config, tmp_path)
    assert all("champion" in event.opponents for event in of(events, EventUpdate))
    assert any("champion" in event.by_opponent for event in of(events, EventEpisodes))
    with pytest.raises(ValueError, match="champion cannot play with"):
        run_battle(replace(config, env=replace(config.env, observe_target=True)))


@pytest.mark.parametrize("mean", [True, False])
def test_run_against_a_named_policy_is_evaluated_against_it_and_resumes_without_it(tmp_path, mean):
    first, _ = run_battle(battle_run(env={"max_episode_seconds": 2.0}, num_envs=2, max_updates=1), tmp_path / "first")
    assert first.checkpoint is not None
    target = first.checkpoint.rename(tmp_path / "target")
    opponents = replace(mix(champion=1), champion=str(target), champion_mean=mean)
    evals = EvalConfig(seeds=1, every_updates=2, at_start=False, skill="champion", record_seeds=1, report=True)
    evals = replace(evals, sampled=True)
    config = battle_run(env={"max_episode_seconds": 2.0}, opponents=opponents, eval=evals, num_envs=2)
    identity = load_policy(target).meta["id"]
    whole, resumed, _ = assert_resumes_exactly(
        config, tmp_path, 2, make_env=VectorEnv, between=lambda: shutil.rmtree(target)
    )
    assert [event.opponents for event in of(resumed, EventUpdate)] == [{"champion": 2}] * 4
    played, again = ([(e.purpose, e.opponent, e.mean_return) for e in of(x, EventEval)] for x in (whole, resumed))
    assert played == again and all(math.isfinite(e.sampled_win_rate) for e in of(whole, EventEval))
    assert [row[:2] for row in played] == [("choice", "target"), ("choice", "target"), ("report", "target")]
    with Replay(next((tmp_path / "cut" / "replays").glob("*.ecr"))) as replay:
        assert {team["name"] for team in replay.header["teams"]} in ({"update 2", "target"}, {"update 4", "target"})
    assert load_policy(tmp_path / "cut" / "champion.safetensors").meta["id"] == identity


def test_policy_that_takes_the_mean_ignores_noise():
    chosen, free = policy(), policy()
    chosen.takes_mean = True
    obs, state, noise = torch.zeros(2, OBS_DIM), chosen.initial_state(2), torch.ones(2, chosen.noise_dim)
    mean = free.act(obs, state)[0]
    acts = [trace_act(chosen, stochastic=True)(obs, state, None, noise)[0], chosen.act(obs, state, None, noise)[0]]
    assert all(torch.equal(mean, each) for each in acts) and not torch.equal(mean, free.act(obs, state, None, noise)[0])
    loaded = load_policy(champion.FOLDER).policy
    zeros, state = torch.zeros(2, loaded.obs_dim), loaded.initial_state(2)
    sampled, loaded.takes_mean = trace_act(loaded, stochastic=True), True
    noise, act = torch.ones(2, loaded.noise_dim), trace_act(loaded, stochastic=True)
    mean = sampled(zeros, state, None, None)[0]
    assert torch.equal(act(zeros, state, None, noise)[0], mean) and not torch.equal(
        sampled(zeros, state, None, noise)[0], mean
    )


def test_snapshot_pool_stays_spread_and_keeps_both_ends():
    pool = source(past=1)
    pool.cfg = replace(pool.cfg, past_keep=4)
    for update in range(0, 101, 5):
        pool.add(policy(), update)
        pool.release(set())
    updates = [int(name.partition(":")[2]) for name in pool.snapshots]
    assert len(updates) == 4 and updates[0] == 0 and updates[-1] == 100
    assert max(b - a for a, b in zip(updates, updates[1:], strict=False)) <= 70
    assert pool.state_dict()["weights"].keys() == set(pool.snapshots)
    assert most_redundant([0, 10, 11, 30]) == 1 and most_redundant([0, 1]) == 0
    assert pool.rating_opponents(2) == [pool.snapshots[0], pool.snapshots[-1]]


def test_snapshot_in_use_is_retained_after_leaving_the_pool():
    pool = source(past=1)
    pool.cfg = replace(pool.cfg, past_keep=1)
    pool.add(policy(), 0)
    pool.add(policy(), 1)
    pool.release({"past:0"})
    assert pool.policy("past:0") is not None and pool.snapshots == ["past:1"]
    pool.release(set())
    with pytest.raises(KeyError):
        pool.policy("past:0")


def test_snapshot_is_independent_of_the_learner():
    learner, pool = policy(), source(past=1)
    before = learner.core.actor_mean.weight.detach().clone()
    pool.add(learner, 3)
    with torch.no_grad():
        learner.core.actor_mean.weight += 1.0
    frozen = pool.policy("past:3")
    assert torch.equal(frozen.core.actor_mean.weight, before) and not frozen.training
    assert not any(p.requires_grad for p in frozen.parameters())


def test_opponent_is_resampled_only_where_episode_ended():
    pool = source(easy=1, hard=1, past=1)
    pool.add(policy(), 0)
    env, runner = opposed(8, pool)
    assert len(set(runner.names)) > 1
    over = torch.zeros(8, dtype=torch.bool)
    for _ in range(30):
        before = list(runner.names)
        over[:] = False
        over[3] = True
        runner.after_step(over, True)
        assert runner.names[:3] + runner.names[4:] == before[:3] + before[4:]
        assert [level is None for level in env.pilots.skills] == [name == "past:0" for name in runner.names]
    assert runner.episodes == [1, 1, 1, 31, 1, 1, 1, 1]


def test_opponent_reset_resamples_all_from_zero_states():
    pool = source(past=1)
    pool.add(policy(), 0)
    env, runner = opposed(4, pool)
    advance(env, runner, 3)
    recurrent = runner.state_dict()["recurrent"]
    assert recurrent[0].any() and not runner.done.any() and runner.names == ["past:0"] * 4
    runner.reset()
    h, c = runner.state_dict()["recurrent"]
    assert not h.any() and not c.any() and runner.done.all() and runner.episodes == [2] * 4


@pytest.fixture(scope="module")
def mixed() -> tuple[loop.RunResult, list]:
    """A run against scripted levels, snapshots and itself."""
    opponents = mix(easy=0.5, hard=0.5, past=1, self_play=1)
    return run(make_small_run(num_envs=12, threads=2, opponents=opponents, total_steps=2000))


def test_rollout_contains_more_than_one_opponent(mixed):
    sampled = [set(e.by_opponent) for e in of(mixed[1], EventEpisodes)]
    assert sum(len(names) > 1 for names in sampled) >= len(sampled) / 2


def test_grouped_opponents_act_as_each_alone():
    names = ["past:1", "heuristic:easy", "past:2", "past:1", "past:2", "past:2"]
    policies = {"past:1": policy(1), "past:2": policy(2)}
    env, runner = opposed(ENVS, FixedOpponents(names, policies), threads=2, seed=9)
    noise_of = torch.Generator().manual_seed(9 + 13371)
    zero = policies["past:1"].initial_state(2)
    state = [LSTMState(zero.h.clone(), zero.c.clone()) for _ in names]
    over = torch.zeros(ENVS, dtype=torch.bool)
    for step in range(20):
        env.actions.fill_(9.0)
        seen, done = env.opponents.obs.clone(), over.clone() if step else torch.ones(ENVS, dtype=torch.bool)
        runner.act()
        noise = torch.randn(env.opponents.count, ACTION_DIM, generator=noise_of)
        for e, name in enumerate(names):
            rows_of_env = slice(2 * e, 2 * e + 2)
            if level_of(name) is not None:
                assert (env.actions[e] == 9.0).all(), "scripted mechs are not written"
                continue
            with torch.no_grad():
                start = torch.full((2,), float(done[e]))
                action, state[e] = policies[name].act(seen[rows_of_env], state[e], start, noise[rows_of_env])
            torch.testing.assert_close(env.actions[e, 2:], action, rtol=1e-5, atol=1e-6)
        env.actions.zero_()
        env.step()
        over = env.results.over.clone()
        runner.after_step(over, bool(over.any()))


def test_opponents_of_different_state_widths_share_a_batch():
    wide = build_model(replace(MODEL, lstm_hidden_dim=12), OBS_DIM, ACTION_DIM).eval()
    env, runner = opposed(2, FixedOpponents(["past:1", "past:2"], {"past:1": policy(1), "past:2": wide}))
    advance(env, runner, 3)
    recurrent = runner.state_dict()["recurrent"]
    assert recurrent[0].shape == (1, 4, 12) and not recurrent[0][:, :2, 8:].any() and recurrent[0][:, 2:, 8:].any()


@pytest.mark.parametrize("weights", [{"exploiters": 0.3}, {"league": 0.0, "past": 5.0}, {}])
def test_shares_of_a_mix_sum_to_one(weights):
    mixed = replace(MIX_PROFILES["league"], **weights)
    assert sum(mixed.shares.values()) == pytest.approx(1.0)
    if weights.get("exploiters"):
        assert mixed.shares["exploiters"] == pytest.approx(0.3 / 1.1), "the weights sum to 1.1"
    with pytest.raises(ValueError, match=r"sum of opponents.mix is 0.0, expected above 0; shares are weights divided"):
        MixConfig(scripted=0.0)


def test_named_mixes_sum_to_one():
    assert all(sum(asdict(named).values()) == pytest.approx(1.0) for named in MIX_PROFILES.values())


def test_assign_sides_reserves_self_play_environments():
    assert assign_sides(8, mix(self_play=1)) == Sides(["both"] * 8, ["none"] * 8)
    assert assign_sides(8, mix(scripted=3, self_play=1)) == Sides(["blue"] * 6 + ["both"] * 2, ["none"] * 8)
    assert assign_sides(4, mix(past=1, self_play=1e-3)) == Sides(["blue"] * 3 + ["both"], ["red"] * 3 + ["none"])
    assert assign_sides(4, OpponentConfig()) == Sides(["blue"] * 4, ["none"] * 4)


@pytest.mark.parametrize(("side", "other"), [("blue", "red"), ("red", "blue")])
def test_rows_where_both_sides_learn_equal_those_of_each_side_alone(side, other):
    def of_row(env, rows):
        results = env.results
        names = ("rewards", "acting", "present", "alive", "terminated", "truncated")
        values = [rows.of_mechs(getattr(results, name)).float() for name in names]
        return torch.stack([*values, rows.of_envs(results.final_mask).float()], 1)

    both = VectorEnv(3, SHORT, sides=Sides("both"), maps=Maps(2))
    alone = VectorEnv(3, SHORT, sides=Sides(side, opponents=other), maps=Maps(2))
    with both, alone:
        alone.pilots.set_skills([None] * 3)
        draws, ended = torch.Generator().manual_seed(0), 0
        teams = [team.flatten().long() for team in both.rows.row_of.unflatten(1, (2, -1)).unbind(1)]
        own, others = teams if side == "blue" else teams[::-1]
        both.reset()
        alone.reset()
        for _ in range(2 * SHORT.max_steps + 2):
            assert torch.equal(alone.rows.obs[0], both.rows.obs[0, own])
            assert torch.equal(alone.opponents.obs, both.rows.obs[0, others])
            actions = torch.rand(both.actions.shape, generator=draws) * 2 - 1
            both.actions.copy_(actions)
            alone.actions.copy_(actions)
            both.step()
            alone.step()
            assert torch.equal(of_row(alone, alone.rows), of_row(both, both.rows)[own])
            timed_out = alone.rows.of_envs(alone.results.final_mask)
            assert torch.equal(alone.rows.final_obs[timed_out], both.rows.final_obs[own][timed_out])
            ended += len(alone.episodes.pop())
        assert ended > 3, "episodes ended on the way, by the time limit and otherwise"
        assert both.rows.count == 2 * alone.rows.count


def test_scripted_and_policy_opponents_share_a_batch():
    with VectorEnv(3, SHORT, sides=Sides(opponents="red"), maps=Maps(2)) as env:
        env.pilots.set_skills(["easy", None, "hard"])
        env.reset()
        env.actions.zero_()
        for _ in range(6):
            env.step()
        assert env.actions[0, 5:].any() and env.actions[2, 5:].any() and not env.actions[1, 5:].any()


def test_metrics_count_outcomes_by_opponent(mixed):
    result, events = mixed
    updates, episodes = of(events, EventUpdate), of(events, EventEpisodes)
    assert all(sum(u.opponents.values()) == 12 and u.opponents[SELF] == 4 for u in updates)
    assert {name.partition(":")[0] for u in updates for name in u.opponents} == {SELF, "heuristic", "past"}
    for event in episodes:
        judged = event.wins + event.losses + event.draws
        assert sum(sum(found.values()) for found in event.by_opponent.values()) == judged <= event.count
        assert all(sample["opponent"] in {SELF, *event.by_opponent} for sample in event.samples)
    assert any(e.wins + e.losses + e.draws < e.count for e in episodes)
    assert not any(SELF in e.by_opponent for e in episodes)
    assert sum(e.count for e in episodes) == result.episodes


def test_self_play_episodes_have_no_winner(small_run):
    _, events = run(small_run(opponents=mix(self_play=1), total_steps=1000))
    update = of(events, EventUpdate)[-1]
    assert math.isnan(update.win_rate) and not math.isnan(update.avg_return)
    assert update.opponents == {SELF: 8}
    _, alone = run(small_run(total_steps=1000))
    steps, of_one_side = (of(found, EventUpdate)[0].global_step for found in (events, alone))
    assert steps > 1.9 * of_one_side, "the rows of both sides are counted"
    for event in of(events, EventEpisodes):
        assert (event.wins, event.losses, event.draws, event.by_opponent) == (0, 0, 0, {}) and event.count > 0
        assert math.isnan(event.hp_margin) and not math.isnan(event.mean_return)


@pytest.mark.long
def test_self_play_elo_rises(small_run):
    opponents = replace(mix(self_play=1), past_every_updates=5, rating_seeds=12)
    config = small_run(num_envs=12, total_steps=12_000, opponents=opponents, ppo={"lr": 1e-2, "obs_norm": True})
    _, events = run(config)
    ratings, updates = of(events, EventRating), of(events, EventUpdate)
    assert ratings[0].opponents["past:0"]["rating"] == 0.0 and ratings[0].opponents["past:0"]["games"] >= 24
    assert ratings[-1].elo > 200 and ratings[-1].elo > ratings[0].elo
    assert all(r.name not in r.opponents and r.elo_error > 0 for r in ratings)
    assert updates[-1].elo in {r.elo for r in ratings} and math.isnan(updates[0].elo)


def test_opponent_state_of_other_environment_count_is_rejected(small_run, tmp_path):
    run(small_run(opponents=mix(past=1)), tmp_path, stop_after=1)
    with Session(small_run(opponents=mix(past=1), num_envs=4), None, FakeEnv) as session:
        with pytest.raises(ValueError, match="8 opponents, expected 4"):
            session.opponents.load_state_dict({"names": [""] * 8})


def test_resume_rejects_mix_that_adds_policy_opponents(small_run, tmp_path):
    run(small_run(opponents=mix(easy=1)), tmp_path, stop_after=1)
    with pytest.raises(
        ValueError, match="0 mechs controlled by policies, expected 16: opponents.mix has policy opponents in only"
    ):
        run(small_run(opponents=mix(easy=1, past=1)), tmp_path, resume="latest")
