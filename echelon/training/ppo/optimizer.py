"""The optimizer of an update: Adam, or Muon for hidden matrices beside Adam for the rest.

Muon (Jordan et al., 2024) moves a matrix along its momentum with all singular values made equal. Its steps are scaled
to the size of Adam's, so that one learning rate and schedule serve both. Heads, biases and norms are Adam's.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig

CRITIC = "critic"
HEADS = frozenset((CRITIC, "actor_mean", "actor_logstd_head", "selectors", "obs_predictor"))
"""Modules whose outputs are no hidden features."""


class Optimizer(Protocol):
    """What the trainer and its loss scaler use of an optimizer."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class Combined:
    """Optimizers of disjoint parameters that step as one; their states are saved by name."""

    def __init__(self, parts: dict[str, torch.optim.Optimizer]) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return the groups of all parts."""
        return [group for part in self.parts.values() for group in part.param_groups]

    def step(self) -> None:
        """Step every part."""
        for part in self.parts.values():
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of every part."""
        for part in self.parts.values():
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every part by name."""
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        for name, part in self.parts.items():
            part.load_state_dict(state_dict[name])


def make_optimizer(model: nn.Module, config: PPOConfig) -> Optimizer:
    """Return the optimizer ``ppo.optimizer`` of a model's parameters; groups have their learning-rate factor."""
    if config.optimizer == "adam":
        adam = _adam(model, config, muon=False)
        if config.capture and all(p.is_cuda for p in model.parameters()):
            for group in adam.param_groups:
                group["capturable"] = True
                group["lr"] = torch.tensor(group["lr"], device=group["params"][0].device)
        return adam
    matrices = [p for name, p in model.named_parameters() if _is_hidden_matrix(name, p)]
    group = {"params": matrices, "lr": config.lr * config.muon_lr_mult, "lr_mult": config.muon_lr_mult}
    muon = torch.optim.Muon([group], lr=config.lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return Combined({"adam": _adam(model, config, muon=True), "muon": muon})


def set_lr(group: dict[str, Any], lr: float) -> None:
    """Set the learning rate of a parameter group; a captured optimizer reads it from its tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def saved_state(optimizer: Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer for a checkpoint, with learning rates as numbers."""
    state = optimizer.state_dict()
    for part in (state, *state.values()):
        for group in part.get("param_groups", []) if isinstance(part, dict) else []:
            group["lr"] = float(group["lr"])
    return state


def load_moments(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load the moments of a saved optimizer; options stay those of ``optimizer``.

    Raises ``ValueError`` where ``state`` is another optimizer's.
    """
    parts = optimizer.parts if isinstance(optimizer, Combined) else {"": optimizer}
    states = state if isinstance(optimizer, Combined) else {"": state}
    if not all("param_groups" in states.get(name, {}) for name in parts):
        saved, own = ("muon", "adam") if "muon" in state else ("adam", "muon")
        raise ValueError(f"checkpoint was saved with ppo.optimizer '{saved}', expected {own!r}")
    for name, part in parts.items():
        part.load_state_dict({**states[name], "param_groups": part.state_dict()["param_groups"]})


def _is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """Return whether a parameter is a matrix of several rows between hidden features or from the observation."""
    return parameter.ndim == 2 and min(parameter.shape) > 1 and not HEADS & set(name.split("."))


def _adam(model: nn.Module, config: PPOConfig, *, muon: bool) -> torch.optim.Adam:
    """Return Adam for the base group and that of the value head, without the hidden matrices if they are ``muon``'s."""
    base, critic = [], []
    for name, parameter in model.named_parameters():
        if not (muon and _is_hidden_matrix(name, parameter)):
            (critic if CRITIC in name.split(".") else base).append(parameter)
    groups = [
        {"params": base, "lr": config.lr, "lr_mult": 1.0},
        {"params": critic, "lr": config.lr * config.critic_lr_mult, "lr_mult": config.critic_lr_mult},
    ]
    return torch.optim.Adam(groups, lr=config.lr, eps=config.adam_eps, fused=True)
