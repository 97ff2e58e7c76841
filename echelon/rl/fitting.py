"""Policies in environments whose rows have the block of orders where their own have none, or the other way round."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from echelon.env.layout import END_WIDTH, ORDERS
from echelon.rl.actor_critic import init_encoder
from echelon.rl.suite_model import EXTRAS_WIDTH
from echelon.rl.weights import LoadedPolicy, policy_from

ENCODER, FUSION = "core.encoder.extras_encoder.0", "core.encoder.fusion.0"


def fitted(loaded: LoadedPolicy, obs_dim: int) -> LoadedPolicy:
    """Return a policy that reads rows of ``obs_dim`` columns, and acts as before where no mech has an order.

    Where its own rows differ by anything else it is returned as it is.
    """
    meta, policy = loaded.meta, loaded.policy
    added, before = obs_dim - policy.obs_dim, int(meta.get("extra_width", 0))
    has_orders = bool(meta.get("env_cfg", {}).get("observe_orders"))
    if added != ORDERS.width * (-1 if has_orders else 1) or meta.get("kind") != "suite" or meta.get("predict"):
        return loaded
    after, weights = before + added, policy.state_dict()
    meta = {**meta, "obs_dim": obs_dim, "extra_width": after,
            "env_cfg": {**meta["env_cfg"], "observe_orders": not has_orders}}  # fmt: skip
    at, fusion = policy.obs_dim - END_WIDTH, weights[f"{FUSION}.weight"]
    for name, value in (("mean", 0), ("var", 1), ("normalizable", False), ("scale", 1), ("shift", 0)):
        key = f"obs_normalizer.{name}"
        weights[key] = _resized(weights[key], at, added, value)
    if added > 0 and not before:
        # its outputs have no effect yet; a drawn encoder lets them learn one
        with torch.random.fork_rng(devices=[]):
            drawn = nn.Linear(after, EXTRAS_WIDTH)
            init_encoder(drawn)
        weights |= {f"{ENCODER}.{key}": value.to(fusion.device) for key, value in drawn.state_dict().items()}
        weights[f"{FUSION}.weight"] = pad(fusion, (0, EXTRAS_WIDTH))
    else:
        encoder, bias = weights.pop(f"{ENCODER}.weight"), weights.pop(f"{ENCODER}.bias")
        if added < 0:
            row = torch.zeros(policy.obs_dim, device=fusion.device)
            bias = bias + encoder[:, added:] @ policy.obs_normalizer.part(row, at + added, at)
        if after:
            weights |= {f"{ENCODER}.weight": _resized(encoder, before, added, 0), f"{ENCODER}.bias": bias}
        else:
            weights[f"{FUSION}.bias"] = weights[f"{FUSION}.bias"] + fusion[:, -EXTRAS_WIDTH:] @ bias.relu()
            weights[f"{FUSION}.weight"] = fusion[:, :-EXTRAS_WIDTH]
    return LoadedPolicy(policy_from(meta, weights, fusion.device), meta)


def _resized(x: Tensor, at: int, added: int, value: float) -> Tensor:
    """Return ``x [..., D]`` with ``added`` columns of ``value`` from column ``at`` on, or without as many before it."""
    new = x.new_full((*x.shape[:-1], max(0, added)), value)
    return torch.cat([x[..., : at + min(0, added)], new, x[..., at:]], -1)
