"""The champion in the box as an opponent: of a training run, and as the last level of an evaluation's ladder."""

from __future__ import annotations

from typing import Any

import torch

from echelon import champion
from echelon.config import EnvConfig
from echelon.env import layout
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.training.policy_agent import env_config_of


def interface_of(env: EnvConfig, obs_dim: int) -> tuple[Any, ...]:
    """Return what two policies of ``obs_dim`` columns must share to play in one batch."""
    return obs_dim, env.obs_layout, env.comm_dim


def load_champion(env: EnvConfig, device: torch.device | str = "cpu") -> LoadedPolicy:
    """Return the champion; ``ValueError`` where the game of ``env`` has other observations or actions."""
    # a new network draws its initial weights, which must not advance the generator of training
    with torch.random.fork_rng(devices=[]):
        loaded = load_policy(champion.FOLDER, device)
    found, expected = (interface_of(cfg, layout.obs_dim(cfg)) for cfg in (env, env_config_of(loaded.meta)))
    if found != expected:
        described = "{0[1]} layout, {0[0]} columns, comm_dim {0[2]}".format
        raise ValueError(f"{champion.NAME} cannot play with {described(found)}, expected {described(expected)}")
    return loaded
