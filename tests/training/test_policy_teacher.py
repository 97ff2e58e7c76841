"""Policies as teachers: labels, gradients, versions of the observation, copies in the run folder, resumes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from echelon import champion
from echelon.arena.store import Store, league_path
from echelon.arena.submit import submit
from echelon.config import EnvConfig, TeacherConfig, WorldConfig
from echelon.env import layout
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.telemetry.events import EventUpdate
from echelon.training.ppo.teacher import Teaching
from echelon.training.session import Session
from echelon.training.teachers import PolicyTeacher, load_teacher, teacher_policy
from echelon_cli.commands.demos import player
from echelon_cli.commands.train import teacher_reference
from tests.training.conftest import make_small_run
from tests.training.fakes import ACTION_DIM, OBS_DIM, FakeEnv
from tests.training.runs import assert_resumes_exactly, of, run

IMITATES = {"imitation": 1.0, "flown": 0.5, "imitation_coef": 1.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run that has learned the task of ``FakeEnv``."""
    own = TeacherConfig(policy="heuristic:expert", **IMITATES)
    config = make_small_run(total_steps=1_500, ppo={"lr": 1e-2}, teacher=own)
    folder = tmp_path_factory.mktemp("trained") / "teacher"
    run(config, folder)
    return folder


@pytest.fixture
def teacher_dir(trained, tmp_path) -> Path:
    """A copy of that run, to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "teacher"))


def taught_by(path: Path | str, **fields) -> TeacherConfig:
    return TeacherConfig(policy=f"policy:{path}", **{**IMITATES, **fields})


def test_labels_are_the_mean_actions_of_the_policy_with_its_own_recurrent_state(small_run, teacher_dir):
    """A policy that teaches itself agrees with its own mode in every step, also across episodes and rollouts."""
    config = small_run(teacher=taught_by(teacher_dir, flown=1.0, flown_ramp=0.0))
    with Session(config, None, FakeEnv) as session:
        policy = load_policy(teacher_dir).policy
        session.policy.load_state_dict(policy.state_dict())
        session.policy.eval()
        session.collector.reset()
        session.set_progress()
        assert bool(session.collector.actor._learner_acts.all())
        buffer, state = session.buffer, policy.initial_state(session.env.rows.count)
        for _ in range(3):
            session.collector.collect()
            assert buffer.dones[1:].any()
            for t in range(buffer.num_steps):
                mode, state = policy.act(buffer.obs[t], state, buffer.dones[t])
                torch.testing.assert_close(buffer.labels[t], mode, rtol=0, atol=1e-6)
            assert (buffer.actions - buffer.labels).abs().max() > 0.1, "the learner acts by samples"
            # the teacher's states are the learner's, whose weights are equal
            torch.testing.assert_close(session.collector.actor.teacher.state.h, session.collector.actor.state.h)


def test_teacher_acts_where_the_learner_does_not(small_run, teacher_dir):
    config = small_run(teacher=taught_by(teacher_dir))
    with Session(config, None, FakeEnv) as session:
        session.collector.reset()
        session.collector.set_teaching(Teaching(imitates=True, has_labels=True, learner_share=0.5))
        session.collector.collect()
        rows = session.env.rows.agent
        played, flies = session.env.actions.view(-1, ACTION_DIM)[rows], session.collector.actor._learner_acts[:, 0]
        assert 0 < int(flies.sum()) < len(flies)
        assert torch.equal(played[~flies], session.buffer.labels[-1][~flies])
        assert torch.equal(played[flies], session.buffer.actions[-1][flies])


def test_learner_follows_a_policy_teacher(small_run, teacher_dir):
    config = small_run(num_envs=16, total_steps=3_000, ppo={"lr": 1e-2}, teacher=taught_by(teacher_dir))
    updates = of(run(config)[1], EventUpdate)
    first, last = updates[0], updates[-1]
    assert last.imitation_loss < 0.5 * first.imitation_loss and last.pg_loss == 0.0
    assert first.learner_share == 0.0 and 0.4 < last.learner_share < 0.6


def test_run_with_policy_teacher_resumes_bit_exact_without_the_teachers_run(small_run, teacher_dir, tmp_path):
    teacher = taught_by(teacher_dir, imitation=0.5, coef=0.1, fade=0.33)
    config = small_run(num_envs=4, total_steps=10**6, max_updates=6, teacher=teacher)
    names = ("imitation_loss", "agreement_by_part", "learner_share")
    gone = lambda: shutil.rmtree(teacher_dir)  # noqa: E731
    whole, *_ = assert_resumes_exactly(config, tmp_path, 2, 2, 1, fields=names, between=gone)
    assert [u.imitation_loss > 0 for u in of(whole, EventUpdate)] == [True] * 5 + [False]


def test_stored_copy_is_used_only_for_the_same_teacher_and_replaced_where_damaged(teacher_dir, tmp_path):
    stored = tmp_path / "run" / "teacher.safetensors"
    cfg = taught_by(teacher_dir)
    weights = load_teacher(cfg, stored, "cpu").policy.state_dict()
    assert load_policy(stored).meta["teacher"] == cfg.policy
    gone = taught_by(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"^teacher.policy is '.*gone', expected a checkpoint"):
        load_teacher(gone, stored, "cpu")
    stored.write_bytes(b"damaged")
    assert torch.equal(load_teacher(cfg, stored, "cpu").policy.state_dict()["core.actor_mean.weight"],
                       weights["core.actor_mean.weight"])  # fmt: skip
    assert load_policy(stored).meta["teacher"] == cfg.policy


def test_teacher_with_other_columns_is_refused():
    def teacher(cfg: EnvConfig) -> LoadedPolicy:
        from echelon.config import env_signature

        policy = SimpleNamespace(obs_dim=layout.obs_dim(cfg))
        return LoadedPolicy(policy, {"env_cfg": env_signature(cfg), "action_dim": 18})

    world = WorldConfig(size_x=40, size_y=40)
    early, late = EnvConfig(), EnvConfig(world=world, observe_scope=True, observe_target=True)
    env = SimpleNamespace(sizes=SimpleNamespace(obs_dim=layout.obs_dim(late), action_dim=18))
    assert teacher_policy(teacher(late), late, env)
    for cfg in (
        early,
        EnvConfig(observe_telemetry=True),
        EnvConfig(obs_layout="classic"),
        EnvConfig(observe_local_map=False),
    ):
        with pytest.raises(ValueError, match=f"teacher observes {layout.obs_dim(cfg)} columns in another order"):
            teacher_policy(teacher(cfg), late, env)
    with pytest.raises(ValueError, match="action_dim 18, expected 9"):
        teacher_policy(
            teacher(early), late, SimpleNamespace(sizes=SimpleNamespace(obs_dim=env.sizes.obs_dim, action_dim=9))
        )


def test_policy_teacher_ignores_later_columns(teacher_dir):
    policy = load_policy(teacher_dir).policy
    env, obs = FakeEnv(3), torch.rand(6, OBS_DIM + 2)
    labels, other, done = torch.zeros(6, ACTION_DIM), torch.zeros(6, ACTION_DIM), torch.ones(6)
    PolicyTeacher(policy, env).label(obs, done, labels)
    PolicyTeacher(policy, env).label(torch.cat([obs[:, :OBS_DIM], torch.rand(6, 2)], 1), done, other)
    assert torch.equal(labels, other) and labels.any()


def test_recurrent_state_of_another_teacher_is_not_carried(teacher_dir):
    teacher = PolicyTeacher(load_policy(teacher_dir).policy, FakeEnv(3))
    teacher.state.h.fill_(1.0)
    carry = teacher.carry()
    teacher.load_carry({**carry, "teacher_c": torch.zeros(1, 6, 3)})
    assert teacher.state.h.all() and not teacher.state.c.any()
    teacher.load_carry({})
    assert not teacher.state.h.any()


def test_teacher_reference_resolves_levels_paths_and_runs(teacher_dir, monkeypatch):
    assert teacher_reference("expert") == teacher_reference("heuristic:expert") == "heuristic:expert"
    monkeypatch.setenv("ECHELON_HOME", str(teacher_dir.parent))
    (teacher_dir / "spec.json").write_text("{}")
    for name in (str(teacher_dir), f"policy:{teacher_dir}", "teacher", "policy:teacher"):
        assert teacher_reference(name) == f"policy:{teacher_dir}"
    assert replace(TeacherConfig(), policy=teacher_reference("teacher")).path == str(teacher_dir)


def test_league_entries_are_teachers_and_pilots_of_demonstrations(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    with Store(league_path()) as store:
        stored = Path(submit(store, champion.FOLDER, label="boss").ckpt_path)
    assert teacher_reference("boss") == f"policy:{stored}"
    assert player("boss", "cpu").loaded.meta["id"] == load_policy(stored).meta["id"]
