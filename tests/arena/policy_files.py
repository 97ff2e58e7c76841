"""Checkpoints of small random policies for a small environment."""

from dataclasses import asdict, replace
from pathlib import Path

import torch

from echelon.actions import ACTION_DIM
from echelon.config import EnvConfig, ModelConfig
from echelon.env import layout
from echelon.env.layout import FLAT_OBS_DIM
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.weights import LoadedPolicy
from echelon.training.checkpoint import save_checkpoint

BASE = EnvConfig()
SMALL = replace(BASE, world=replace(BASE.world, size_x=40, size_y=40, size_z=12), max_episode_seconds=10.0)
MODEL = ModelConfig(hidden_dim=16, lstm_hidden_dim=16)
HYBRID = replace(MODEL, action_head="hybrid")


def shape_of(env: EnvConfig) -> dict[str, int]:
    obs_dim = layout.obs_dim(env)
    return {"obs_dim": obs_dim, "action_dim": ACTION_DIM, "map_width": obs_dim - FLAT_OBS_DIM - layout.END_WIDTH}


def policy(seed: int, *, env: EnvConfig = SMALL, model: ModelConfig = MODEL, broken: bool = False) -> FlatPolicy:
    torch.manual_seed(seed)
    network = build_model(model, **shape_of(env))
    with torch.no_grad():
        network.core.actor_mean.weight.normal_(0, 3.0)
        network.core.actor_mean.bias.normal_(0, 0.5)
        if broken:
            network.core.actor_mean.bias[3] = float("nan")
    return network.eval().requires_grad_(False)


def loaded(seed: int, *, env: EnvConfig = SMALL, model: ModelConfig = MODEL, broken: bool = False) -> LoadedPolicy:
    return LoadedPolicy(
        policy(seed, env=env, model=model, broken=broken), {**shape_of(env), "model_cfg": asdict(model)}
    )


def save(folder: Path, seed: int, *, env: EnvConfig = SMALL, broken: bool = False) -> Path:
    manifest = {"global_step": 1000 + seed, "update": seed, "model_cfg": asdict(MODEL), "env_cfg": asdict(env)}
    return save_checkpoint(
        folder,
        weights=policy(seed, env=env, broken=broken).state_dict(),
        state={},
        environment={},
        carry={"h": torch.zeros(1)},
        manifest={**manifest, **shape_of(env)},
    ).path
