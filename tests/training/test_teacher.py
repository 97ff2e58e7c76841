"""Teachers: labels, phases of a run with a teacher, the imitation loss, exact resumes."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from echelon.config import EnvConfig, MixConfig, ModelConfig, OpponentConfig, RunConfig, TeacherConfig, WorldConfig
from echelon.telemetry.events import EventUpdate
from echelon.training.batch_options import Maps, Pilots
from echelon.training.ppo.teacher import Teaching, environments_of_learner, teaching_at
from echelon.training.session import Session
from echelon.training.vec_env import VectorEnv
from echelon_cli.main import run as echelon
from tests.training.fakes import FakeEnv
from tests.training.runs import assert_resumes_exactly, battle_run, of, run, run_battle

ENVS = 4
BATTLE = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=6.0)


def battle(**options) -> VectorEnv:
    env = VectorEnv(ENVS, BATTLE, maps=Maps(2), pilots=Pilots("hard", weapon_prob=1.0), **options)
    env.reset()
    return env


def draw_actions(env: VectorEnv, generator: torch.Generator) -> torch.Tensor:
    return torch.rand((env.rows.count, env.sizes.action_dim), generator=generator) * 2 - 1


def test_labels_flown_throughout_equal_scripted_battle():
    with battle() as taught, battle() as scripted:
        taught.pilots.set_teacher("expert")
        scripted.engine.batch.set("script", _scripts_of(taught))
        for _ in range(BATTLE.max_steps + 5):
            taught.pilots.label()
            labels = taught.actions.clone()
            taught.step()
            scripted.step()
            np.testing.assert_array_equal(labels.numpy(), scripted.actions.numpy())
            np.testing.assert_array_equal(taught.rows.obs[0].numpy(), scripted.rows.obs[0].numpy())
        assert len(taught.episodes.pop()) == ENVS


@pytest.mark.parametrize("threads", [1, 2])
def test_labels_of_states_that_learner_reaches_equal_scripted_actions(threads):
    generator = torch.Generator().manual_seed(3)
    with battle(threads=threads) as taught, battle() as scripted:
        taught.pilots.set_teacher("expert")
        scripted.pilots.set_teacher("expert")
        labels = torch.zeros_like(taught.actions)
        for step in range(40):
            if step % 8 == 0:
                scripted.load_state_dict(taught.state_dict())
                scripted.step()
            taught.pilots.label()
            labels.copy_(taught.actions)
            if step % 8 == 0:
                living = taught.results.alive
                assert living.any() and torch.equal(labels[living], scripted.actions[living])
            taught.rows.act(draw_actions(taught, generator))
            taught.step()
        assert taught.results.alive.any() and not torch.equal(labels, taught.actions)


def test_labelled_step_plays_the_callers_actions_like_a_plain_step():
    generator = torch.Generator().manual_seed(5)
    with battle() as taught, battle() as plain:
        taught.pilots.set_teacher("expert")
        for _ in range(30):
            actions = draw_actions(plain, generator)
            taught.pilots.label()
            for env in (taught, plain):
                env.rows.act(actions)
                env.step()
            np.testing.assert_array_equal(taught.rows.obs[0].numpy(), plain.rows.obs[0].numpy())
            np.testing.assert_array_equal(taught.results.rewards.numpy(), plain.results.rewards.numpy())
        taught.pilots.set_teacher(None)
        np.testing.assert_array_equal(_scripts_of(taught), _scripts_of(plain))


def _scripts_of(env: VectorEnv) -> np.ndarray:
    return env.engine.batch.numpy("script").copy()


def test_teaching_without_teacher_changes_nothing():
    assert teaching_at(TeacherConfig(), 0.3) == Teaching(lr_progress=0.3)


def test_teaching_follows_progress():
    cfg = TeacherConfig(
        policy="heuristic:expert", imitation=0.4, flown=0.5, flown_ramp=0.25, coef=0.1, fade=0.3, rl_lr_factor=0.2
    )
    at = [teaching_at(cfg, progress) for progress in (0.0, 0.05, 0.1, 0.39, 0.4, 0.55, 0.75, 1.0)]
    assert [t.imitates for t in at] == [True] * 4 + [False] * 4
    assert [t.has_labels for t in at] == [True] * 6 + [False] * 2
    assert [t.learner_share for t in at] == pytest.approx([0.0, 0.25, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0])
    assert [t.coef for t in at] == pytest.approx([0.2] * 4 + [0.1, 0.05, 0.0, 0.0], abs=1e-9)
    assert [t.lr_factor for t in at] == [1.0] * 4 + [0.2] * 4
    assert [t.lr_progress for t in at] == pytest.approx(
        [0.0, 0.85 / 8, 0.85 / 4, 0.85 * 0.975, 0.0, 0.25, 0.35 / 0.6, 1.0]
    )


def test_teaching_accepts_extreme_fractions():
    whole = TeacherConfig(policy="heuristic:easy", imitation=1.0, flown_ramp=0.0)
    assert teaching_at(whole, 0.0).learner_share == 0.5 and not teaching_at(whole, 1.0).imitates
    none = TeacherConfig(policy="heuristic:easy", imitation=0.0, coef=0.1, fade=0.0)
    assert not teaching_at(none, 0.0).imitates and not teaching_at(none, 0.0).has_labels


def test_flown_environments_grow_with_the_share_and_continue_over_ranks():
    before = torch.zeros(64, dtype=torch.bool)
    for share in (0.0, 0.1, 0.25, 0.5, 1.0):
        flown = environments_of_learner(64, 0, share)
        assert abs(float(flown.float().mean()) - share) <= 1 / 64 + 0.02 and bool((flown | ~before).all())
        parts = [environments_of_learner(16, first, share) for first in (0, 16, 32, 48)]
        assert torch.equal(torch.cat(parts), flown)
        before = flown


def test_learner_imitates_teacher_of_tiny_task(small_run):
    teacher = TeacherConfig(policy="heuristic:expert", imitation=1.0, imitation_coef=1.0)
    config = small_run(num_envs=16, total_steps=6_000, ppo={"lr": 1e-2, "obs_norm": True}, teacher=teacher)
    result, events = run(config)
    updates = of(events, EventUpdate)
    first, last = updates[0], updates[-1]
    assert last.imitation_loss < 0.2 * first.imitation_loss
    assert first.learner_share == 0.0 and 0.4 < last.learner_share < 0.6 and last.pg_loss == 0.0
    assert last.vf_loss < 0.5 * first.vf_loss, "the value is learned too"
    assert first.episodes > 0 and math.isnan(first.win_rate), "the teacher's matches are not the learner's"
    assert math.isfinite(last.win_rate)
    assert result.evaluation is not None and result.evaluation.win_rate > 0.8, "judged without the teacher"


def test_statistics_have_only_episodes_that_the_learner_began(small_run):
    with Session(small_run(), None, FakeEnv) as session:
        collector, envs = session.collector, session.env.num_envs
        ended = [SimpleNamespace(env=e) for e in range(envs)]

        def counted() -> list[int]:
            collector.episodes.add(ended, [""] * envs)
            taken = collector.episodes.take()
            assert taken.count == envs and len(taken.opponents) == len(taken.records)
            return [record.env for record in taken.records]

        half = environments_of_learner(envs, 0, 0.5).nonzero().flatten().tolist()
        assert 0 < len(half) < envs
        collector.set_teaching(Teaching(learner_share=0.5))
        collector.reset()
        assert counted() == half
        collector.set_teaching(Teaching())
        carry = collector.carry()
        assert counted() == half, "a teacher acted in the others"
        assert counted() == list(range(envs))
        collector.load_carry(carry)
        assert counted() == half


@pytest.fixture
def taught() -> RunConfig:
    """Six updates of battles: three imitate, two are PPO with labels, one is PPO alone."""
    return battle_run(
        "standard",
        num_envs=ENVS,
        max_updates=6,
        opponents=OpponentConfig(mix=MixConfig(scripted=0.0, easy=1.0, past=1.0, self_play=1.0), rating_seeds=0),
        teacher=TeacherConfig(policy="heuristic:expert", imitation=0.5, coef=0.1, fade=0.33),
    )


@pytest.mark.long
def test_run_with_teacher_resumes_bit_exact_in_every_phase(taught, tmp_path):
    names = ("imitation_loss", "agreement_by_part", "learner_share", "reward_std")
    whole, *_ = assert_resumes_exactly(taught, tmp_path, 2, 2, 1, fields=names, make_env=VectorEnv)
    updates = of(whole, EventUpdate)
    assert [u.imitation_loss > 0 for u in updates] == [True] * 5 + [False]
    assert [u.pg_loss != 0 for u in updates] == [False] * 3 + [True] * 3
    assert updates[0].learner_share == 0.0 and 0.3 < updates[2].learner_share < 0.7
    assert all(u.agreement_by_part.keys() >= {"primary", "target", "sort"} for u in updates[:5])
    assert not updates[5].agreement_by_part and math.isnan(updates[5].agreement)


def test_gaussian_head_learns_from_labels_with_other_update_options(taught):
    ppo = replace(taught.ppo, activation_checkpointing=True, target_kl=1e-9, grad_accum_steps=2)
    model = ModelConfig(hidden_dim=16, lstm_hidden_dim=16)
    updates = of(run_battle(replace(taught, ppo=ppo, model=model, max_updates=2))[1], EventUpdate)
    assert [u.pg_loss != 0 for u in updates] == [False, True] and all(math.isfinite(u.loss) for u in updates)
    assert updates[0].epochs == taught.ppo.update_epochs, "KL divergence does not stop an imitating update"
    assert all(u.imitation_loss > 0 and 0 < u.agreement < 1 for u in updates)


def test_train_command_rejects_unknown_teacher_in_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    for name, code, message in (
        ("heuristic:wizard", 2, "teacher.policy is 'heuristic:wizard', expected heuristic:LEVEL"),
        ("policy:some-run", 3, "teacher.policy is 'some-run', expected a checkpoint, a run or a league entry"),
        ("wizard", 3, "teacher.policy is 'wizard', expected a checkpoint, a run or a league entry"),
    ):
        assert echelon(["train", "--set", f"teacher.policy={name}", "--detach"]) == code
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not list((tmp_path / "runs").glob("*"))
