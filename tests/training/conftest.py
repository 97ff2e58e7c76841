"""Shared configuration of small runs on the fake environment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from echelon.config import EnvConfig, EvalConfig, ModelConfig, PPOConfig, RunConfig

GAMMA = 0.5


@pytest.fixture(autouse=True)
def _one_torch_thread():
    torch.set_num_threads(1)
    torch.default_generator.manual_seed(0)


def make_small_run(ppo: dict | None = None, **run) -> RunConfig:
    """Return a run configuration that finishes in a second; ``ppo`` and ``run`` replace fields."""
    ppo_options = {
        "rollout_steps": 16,
        "num_minibatches": 2,
        "tbptt_chunk_length": 8,
        "update_epochs": 2,
        "gamma": GAMMA,
        "lr": 3e-3,
        "ent_coef": 0.0,
    }
    settings = {
        "num_envs": 8,
        "total_steps": 2_000,
        "save_every": 3,
        "threads": 1,
        "device": "cpu",
        "eval": EvalConfig(seeds=3, every_updates=0, at_start=False),
        "model": ModelConfig(kind="classic", hidden_dim=16, lstm_hidden_dim=16, init_log_std=-0.5),
    }
    return RunConfig(env=EnvConfig(gamma=GAMMA), ppo=PPOConfig(**{**ppo_options, **(ppo or {})}), **{**settings, **run})


@pytest.fixture
def small_run() -> Callable[..., RunConfig]:
    """Return ``make_small_run``."""
    return make_small_run
