"""Small policies of every network, and observations for them."""

from __future__ import annotations

import torch

from echelon.config import ModelConfig
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM, flat_offsets
from echelon.rl.build import FlatPolicy, build_model

MAP_WIDTH, HIDDEN = 40, 32
OBS_DIM = FLAT_OBS_DIM + MAP_WIDTH + END_WIDTH
ACTIONS = 18
ENTITIES = ("contact_mask", "squad_mask")
NETWORKS = {
    "suite": {},
    "hybrid": {"action_head": "hybrid"},
    "without memory": {"memory": False},
    "classic": {"kind": "classic"},
    "mingru": {"recurrence": "mingru"},
    "hybrid mingru": {"action_head": "hybrid", "recurrence": "mingru"},
    "mingru without memory": {"recurrence": "mingru", "memory": False},
    "classic hybrid": {"kind": "classic", "action_head": "hybrid"},
    "classic mingru": {"kind": "classic", "recurrence": "mingru"},
}


def small_policy(network: str, seed: int = 3, *, hidden_dim: int = 16, **options: int) -> FlatPolicy:
    """Return a policy for rows with messages, whose weights and normalizer follow from the seed."""
    torch.manual_seed(seed)
    config = ModelConfig(hidden_dim=hidden_dim, lstm_hidden_dim=HIDDEN, **NETWORKS[network])
    policy = build_model(config, OBS_DIM, ACTIONS, MAP_WIDTH, **options)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        policy.obs_normalizer.scale.uniform_(0.5, 2.0)
    return policy


def frozen(policy: FlatPolicy) -> FlatPolicy:
    return policy.eval().requires_grad_(False)


def observations(*lead: int, share: float, scale: float = 1.0) -> torch.Tensor:
    """Return observations ``[*lead, D]`` in which this share of the entity slots is filled."""
    obs = scale * torch.randn(*lead, OBS_DIM)
    for name in ENTITIES:
        first, end = flat_offsets()[name]
        obs[..., first:end] = (torch.rand(*lead, end - first) >= share).float()
    return obs
