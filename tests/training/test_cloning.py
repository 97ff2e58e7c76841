"""Behaviour cloning from recordings: returns, chunks, and a policy that training starts from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon import demos
from echelon.config import EnvConfig, ModelConfig, TeacherConfig, WorldConfig
from echelon.config.presets import get_preset
from echelon.demos import NO_EPISODE, DemoSide, DemoWriter, Manifest, empty_arrays
from echelon.env import layout
from echelon.rl.weights import load_policy
from echelon.training.cloning import Epoch, clone, discounted
from echelon.training.policy_agent import env_config_of
from tests.training.runs import battle_run, run_battle, weights

ENV = EnvConfig(
    world=WorldConfig(size_x=30, size_y=30, size_z=16), max_episode_seconds=4.0, truncation_bootstraps=False
)
STEPS, ROWS = 40, 12
PRESET = get_preset("standard")
CONFIG = replace(
    PRESET, model=ModelConfig(hidden_dim=16, lstm_hidden_dim=16, action_head="hybrid"), ppo=replace(PRESET.ppo, lr=5e-3)
)


def test_discounted_returns_stop_at_the_end_of_an_episode():
    rewards = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 4.0]], np.float32)
    np.testing.assert_allclose(discounted(rewards, 0.5), [[2.0, 3.0], [2.0, 4.0], [0.0, 4.0]])


@pytest.fixture
def recording(tmp_path) -> Path:
    """A recording whose trigger follows the first column of the observation and whose reward is 1."""
    rng = np.random.default_rng(0)
    sizes = {"obs_dim": layout.obs_dim(ENV), "action_dim": 18}
    arrays = empty_arrays(steps=STEPS, rows=ROWS, **sizes)
    arrays["obs"][..., :] = rng.normal(0, 0.3, arrays["obs"].shape)
    arrays["actions"].fill(-127)
    arrays["actions"][..., 4] = np.where(arrays["obs"][..., 0] > 0, 127, -127)
    arrays["rewards"].fill(1.0)
    arrays["alive"].fill(1)
    arrays["episodes"][:] = np.arange(ROWS) // 6
    arrays["episodes"][30:, :6], arrays["alive"][30:, :6], arrays["rewards"][30:, :6] = NO_EPISODE, 0, 0
    arrays["dones"][[29, 39], :] = [[1] * 6 + [0] * 6, [0] * 6 + [1] * 6]
    request = Manifest(
        **sizes, env=ENV, policy=DemoSide(name="one"), opponent=DemoSide(name="two"),
        weapon_prob=1.0, first_seed=0, matches=2, versions={},
    )  # fmt: skip
    DemoWriter(tmp_path / "demos", request).append(arrays)
    return tmp_path / "demos"


def test_cloned_policy_learns_actions_and_values(recording, tmp_path):
    epochs: list[Epoch] = []
    clone(demos.load(recording), CONFIG, tmp_path / "cloned.safetensors", epochs=5, on_epoch=epochs.append)
    assert [epoch.number for epoch in epochs] == [1, 2, 3, 4, 5]
    assert epochs[-1].imitation_loss < 0.7 * epochs[0].imitation_loss and epochs[-1].vf_loss < epochs[0].vf_loss
    loaded = load_policy(tmp_path / "cloned.safetensors")
    assert env_config_of(loaded.meta) == ENV and float(loaded.meta["return_rms"]["mean"]) > 3.0


@pytest.mark.long
def test_cloned_policy_is_reproducible_and_starts_a_run(recording, tmp_path):
    for name in ("cloned.safetensors", "again.safetensors"):
        clone(demos.load(recording), CONFIG, tmp_path / name, epochs=1)
    first, second = (load_policy(tmp_path / name) for name in ("cloned.safetensors", "again.safetensors"))
    assert first.meta["id"] == second.meta["id"], "a function of data and seed"
    config = battle_run(
        max_updates=1, start_from=str(tmp_path / "cloned.safetensors"), model=CONFIG.model, teacher=TeacherConfig(),
        ppo={"lr": 1e-12},
    )  # fmt: skip
    name = "core.actor_mean.weight"
    trained = weights(run_battle(config, tmp_path / "run")[0])[name]
    torch.testing.assert_close(first.policy.state_dict()[name], trained, atol=1e-6, rtol=0)
