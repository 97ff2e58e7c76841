"""A run starts from a policy of an earlier observation version, and says what to do about a later one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from echelon.config import EnvConfig, EvalConfig, MixConfig, OpponentConfig, PPOConfig, RunConfig
from echelon.env import layout
from echelon.rl.checkpoint import open_checkpoint
from echelon.training.session import Session
from echelon.training.weights import export_checkpoint, load_policy
from tests.arena.policy_files import MODEL, SMALL, save


def exported(folder: Path, env: EnvConfig) -> Path:
    """Return an exported policy that plays this environment."""
    target = folder / "policy.safetensors"
    export_checkpoint(open_checkpoint(save(folder / "policy", 1, env=env)), target)
    return target


def run_of(env: EnvConfig, start: Path) -> RunConfig:
    return RunConfig(
        num_envs=2, bank_maps=1, bank_spare=1, threads=1, device="cpu", start_from=str(start), env=env, model=MODEL,
        ppo=PPOConfig(rollout_steps=4, num_minibatches=1, tbptt_chunk_length=4, obs_norm=True),
        opponents=OpponentConfig(mix=MixConfig(easy=1.0), past_every_updates=0),
        eval=EvalConfig(seeds=1, every_updates=0, at_start=False),
    )  # fmt: skip


def test_run_of_version_2_starts_from_a_policy_of_version_1(tmp_path):
    start, env = exported(tmp_path, SMALL), layout.newest(SMALL)
    with Session(run_of(env, start)) as session:
        session.begin()
        assert session.manifest()["obs_version"] == 2 and session.manifest()["env_cfg"]["obs_version"] == 2
        old, new = load_policy(start).policy, session.policy
        obs, state = session.env.obs[0], new.initial_state(session.env.rows)
        assert obs.shape[1] == new.obs_dim == old.obs_dim + 167 and obs[:, old.obs_dim :].any()
        expected, _ = old.act(obs[:, : old.obs_dim], state)
        found, _ = new.act(obs, state)
        assert torch.allclose(expected, found, atol=1e-5) and expected.abs().max() > 0.1


def test_run_of_version_1_rejects_a_policy_of_version_2(tmp_path):
    start = exported(tmp_path, layout.newest(SMALL))
    assert load_policy(start).policy.obs_version == 2
    with (
        Session(run_of(replace(SMALL, obs_version=1), start)) as session,
        pytest.raises(ValueError, match=r"reads observations of version 2, .* try --set env.obs_version=2"),
    ):
        session.begin()
