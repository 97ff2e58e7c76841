"""Recording demonstrations: what is stored is what was observed, done and achieved, from both sides."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from echelon import demos
from echelon.config import EnvConfig, WorldConfig
from echelon.demos import NO_EPISODE
from echelon.training import demonstrations
from echelon.training.batch_options import Episodes, Pilots, Sides
from echelon.training.demonstrations import DemoPlan, DemoPlayer, record
from echelon.training.vec_env import VectorEnv
from echelon_cli import output
from tests.arena.policy_files import loaded, save
from tests.cli.conftest import echelon as echelon
from tests.cli.conftest import parsed

ENV = EnvConfig(world=WorldConfig(size_x=40, size_y=40, size_z=12), max_episode_seconds=3.0)
EXPERT, EASY = DemoPlayer("heuristic:expert", level="expert"), DemoPlayer("heuristic:easy", level="easy")


def plan(**changes) -> DemoPlan:
    return DemoPlan(**{"env": ENV, "policy": EXPERT, "opponent": EASY, "matches": 4, **changes})


def test_recorded_battle_replays_to_the_same_observations_rewards_and_outcomes(tmp_path):
    """Playing the recorded actions in fresh environments gives the recorded observations and rewards, bit for bit."""
    manifest = record(plan(), tmp_path, threads=1)
    (arrays,) = demos.load(tmp_path)
    shard = SimpleNamespace(**arrays)
    assert manifest.counts.episodes == 4 and manifest.counts.steps == int((shard.episodes != NO_EPISODE).sum()) // 5
    with VectorEnv(
        4,
        ENV,
        sides=Sides(["blue", "red", "blue", "red"]),
        pilots=Pilots("easy", weapon_prob=1.0),
        episodes=Episodes(seeds=[0, 0, 1, 1], autoreset=False),
    ) as env:
        env.reset()
        actions, episodes = torch.from_numpy(shard.actions / np.float32(127)), []
        for t in range(len(shard.obs)):
            rows = shard.episodes[t] != NO_EPISODE
            np.testing.assert_array_equal(env.rows.obs[0].numpy()[rows].astype(np.float16), shard.obs[t, rows])
            assert not shard.obs[t, ~rows].any()
            env.rows.act(actions[t])
            env.step()
            rewards = env.rows.of_mechs(env.results.rewards).numpy()
            np.testing.assert_array_equal(rewards[rows], shard.rewards[t, rows])
            np.testing.assert_array_equal(env.rows.of_mechs(env.results.acting).numpy()[rows], shard.alive[t, rows] > 0)
            ended = env.episodes.pop()
            episodes += ended
            over = {e for e in range(4) if shard.dones[t].reshape(4, 5)[e].all()}
            assert over == {record.env for record in ended}
        assert len(episodes) == 4
        for episode in episodes:
            won = {episode.learner_team: 1, 2: 0}.get(episode.winner, -1)
            assert set(shard.outcomes[shard.episodes == episode.env]) == {won}
    totals = [int((shard.outcomes[shard.dones > 0] == value).sum()) // 5 for value in (1, 0, -1)]
    assert totals == [manifest.counts.wins, manifest.counts.draws, manifest.counts.losses]
    assert np.abs(shard.actions[shard.alive > 0]).max() == 127 and shard.alive.sum() == manifest.counts.agent_steps


def test_waves_and_interrupts_do_not_change_what_is_recorded(tmp_path, monkeypatch):
    players = {"policy": DemoPlayer("one", loaded=loaded(1, env=ENV), samples=True),
               "opponent": DemoPlayer("two", loaded=loaded(2, env=ENV), samples=True)}  # fmt: skip
    short = replace(ENV, max_episode_seconds=1.0)
    for player in players.values():
        player.loaded.meta["id"] = player.name
    monkeypatch.setattr(demonstrations, "MAX_MATCHES_AT_ONCE", 2)
    whole = record(plan(env=short, **players), tmp_path / "whole", threads=1)
    assert [set(np.unique(shard["episodes"])) - {NO_EPISODE} for shard in demos.load(tmp_path / "whole")] == [
        {0, 1}, {2, 3},
    ]  # fmt: skip

    def interrupt(recorded: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(plan(env=short, **players), tmp_path / "cut", threads=1, on_wave=interrupt)
    assert len(demos.load(tmp_path / "cut", partial=True)) == 1
    assert record(plan(env=short, **players), tmp_path / "cut", threads=1) == whole, "hashes of all shards included"
    assert {side.checkpoint for side in (whole.policy, whole.opponent)} == {"one", "two"} and whole.policy.samples


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"matches": 3}, "matches is 3, expected an even number from 2"),
        ({"first_seed": 2**64}, "seed is 18446744073709551616, expected an integer from 0 to"),
    ],
)
def test_impossible_plans_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(**changes)


def test_policy_of_another_environment_is_rejected(tmp_path):
    other = DemoPlayer("other", loaded=loaded(1, env=replace(ENV, observe_target=True)))
    with pytest.raises(ValueError, match="checkpoint does not fit: obs_dim"):
        record(plan(policy=other), tmp_path / "demos")
    assert not (tmp_path / "demos").exists()


def test_matches_of_a_wave_fill_about_one_shard():
    large = EnvConfig(num_packs=20)
    widths = {"obs_dim": 994, "action_dim": 18}
    assert plan(matches=1000).matches_at_once(widths) == 64
    assert plan(env=EnvConfig(), matches=1000).matches_at_once(widths) == 26
    assert plan(env=EnvConfig(), matches=6).matches_at_once(widths) == 6
    assert plan(env=large, matches=100).matches_at_once(widths) == 2


def test_demos_commands_record_verify_and_report(echelon, tmp_path):
    folder = str(tmp_path / "demos")
    words = ("demos", "record", folder, "--matches", "2", "--threads", "1", "--set", "env.max_episode_seconds=1",
             "--set", "env.world.size_x=40", "--set", "env.world.size_y=40")  # fmt: skip
    code, out, err = echelon(*words, "--opponent", "easy")
    assert code == output.DONE and "heuristic:expert against heuristic:easy" in out, err
    facts = parsed(echelon("demos", "record", folder, "--verify", "--json")[1])
    assert facts["complete"] and facts["counts"]["episodes"] == 2
    assert facts["env"]["world"]["size_x"] == 40 and facts["shards"] == 1
    code, _, err = echelon(*words, "--opponent", "hard")
    assert code == output.FAILED and "another opponent" in err and err.count("\n") == 1
    shard = tmp_path / "demos" / "shard-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    code, _, err = echelon("demos", "record", folder, "--verify")
    assert code == output.FAILED and "is damaged" in err and err.count("\n") == 1
    for name, code in (("heuristic:wizard", output.FAILED), ("nosuch", output.NOT_FOUND)):
        failed, _, err = echelon("demos", "record", str(tmp_path / "new"), "--policy", name)
        assert failed == code and err.startswith(f"error: pilot is '{name}', expected a ") and err.count("\n") == 1


def test_demos_of_a_checkpoint_use_its_environment(echelon, tmp_path):
    path = str(save(tmp_path / "one", 1, env=replace(ENV, max_episode_seconds=1.0)))
    words = ("demos", "record", str(tmp_path / "demos"), "--policy", path, "--opponent", "medium", "--matches", "2")
    facts = parsed(echelon(*words, "--threads", "1", "--json")[1])
    assert facts["env"]["world"]["size_x"] == 40 and facts["policy"]["checkpoint"]
