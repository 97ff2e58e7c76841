"""Recurrent PPO: collection, minibatches, losses, gradients and the update.

``PPOTrainer`` and the other names of ``trainer`` are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.training.ppo.trainer import PPOTrainer

__all__ = ["PPOTrainer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("echelon.training.ppo.trainer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
