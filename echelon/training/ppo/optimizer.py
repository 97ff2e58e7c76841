"""The optimizer of an update, and the moving average of the weights that it changes.

The optimizer is Adam, or Muon for hidden matrices beside Adam for the rest. Muon (Jordan et al., 2024) moves a matrix
along its momentum with all singular values made equal. Its steps are scaled to the size of Adam's, so that one learning
rate and schedule serve both. Heads, biases and norms are Adam's. The average is that of Polyak and Juditsky (1992).
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import load_weights

CRITIC = "critic"
HEADS = frozenset((CRITIC, "actor_mean", "actor_logstd_head", "selectors", "obs_predictor"))
"""Modules whose outputs are no hidden features."""


class Optimizer(Protocol):
    """What the trainer and its loss scaler use of an optimizer."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...

    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...


class Combined:
    """Optimizers of disjoint parameters that step as one."""

    def __init__(self, parts: dict[str, torch.optim.Optimizer]) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts.values() for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts.values():
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts.values():
            part.zero_grad(set_to_none)


def make_optimizer(model: nn.Module, config: PPOConfig, *, capturable: bool = False) -> Optimizer:
    """Return the optimizer ``ppo.optimizer`` of a model's parameters; groups have their learning-rate factor.

    ``capturable`` lets a captured graph step Adam, which then reads learning rates from the device.
    """
    if config.optimizer == "adam":
        adam = _adam(model, config, muon=False)
        if capturable:
            for group in adam.param_groups:
                group["capturable"] = True
                group["lr"] = torch.tensor(group["lr"], device=group["params"][0].device)
        return adam
    matrices = [p for name, p in model.named_parameters() if _is_hidden_matrix(name, p)]
    group = {"params": matrices, "lr": config.lr * config.muon_lr_mult, "lr_mult": config.muon_lr_mult}
    muon = torch.optim.Muon([group], lr=config.lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return Combined({"adam": _adam(model, config, muon=True), "muon": muon})


def set_lr(group: dict[str, Any], lr: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def saved_state(optimizer: Optimizer) -> dict[str, Any]:
    states = {name: part.state_dict()["state"] for name, part in _parts(optimizer).items()}
    return {name: {str(number): row for number, row in state.items()} for name, state in states.items()}


def load_moments(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load the moments of a saved optimizer; options stay those of ``optimizer``.

    Raises ``ValueError`` where ``state`` is another optimizer's.
    """
    parts = _parts(optimizer)
    if state.keys() != parts.keys():
        saved, own = ("muon" if "muon" in names else "adam" for names in (state, parts))
        raise ValueError(f"checkpoint was saved with ppo.optimizer {saved!r}, expected {own!r}")
    for name, part in parts.items():
        moments = {int(number): row for number, row in state[name].items()}
        part.load_state_dict({"state": moments, "param_groups": part.state_dict()["param_groups"]})


def _parts(optimizer: Optimizer) -> dict[str, torch.optim.Optimizer]:
    if isinstance(optimizer, Combined):
        return optimizer.parts
    assert isinstance(optimizer, torch.optim.Optimizer)
    return {"adam": optimizer}


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


RAW_WEIGHTS = "raw_weights"
"""Key of the weights that training continues from in a learner's state, where a checkpoint has averaged weights."""


class WeightAverage:
    """The policy that is evaluated, saved, submitted and an opponent: the trained one, or its averaged copy."""

    def __init__(self, trained: FlatPolicy, decay: float) -> None:
        """``decay`` is that of an update; with 0 ``policy`` is the trained one itself."""
        self.trained, self.decay = trained, decay
        self.policy = copy.deepcopy(trained).eval().requires_grad_(False) if decay else trained

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Add the newest weights after ``updates`` earlier ones; buffers, such as statistics, become the newest.

        Until ``decay`` forgets more than that, the average is the plain mean of all updates.
        """
        if not self.decay:
            return
        share = 1.0 - min(self.decay, updates / (updates + 1))
        for own, new in zip(self.policy.parameters(), self.trained.parameters(), strict=True):
            own.lerp_(new, share)
        for own, new in zip(self.policy.buffers(), self.trained.buffers(), strict=True):
            own.copy_(new)

    def state_dict(self) -> dict[str, Any]:
        """Return what a learner's state has beside the weights of ``policy``: the trained ones, if they differ."""
        return {RAW_WEIGHTS: self.trained.state_dict()} if self.decay else {}

    def load_state_dict(self, weights: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from the weights of ``policy`` by name and a learner's ``state``, saved with or without averages.

        Which columns are normalized is part of the weights, but stays as it is.
        """
        for policy, own in ((self.policy, weights), (self.trained, state.get(RAW_WEIGHTS, weights))):
            columns = policy.obs_normalizer.normalizable.clone()
            load_weights(policy, own)
            policy.obs_normalizer.set_normalizable(columns)
