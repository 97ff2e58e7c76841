"""Recurrent PPO: collection, minibatches, losses, gradients and the update.

``PPOTrainer`` is loaded on first use, so that each module of the package can be imported alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.training.ppo.trainer import PPOTrainer as PPOTrainer


def __getattr__(name: str) -> Any:
    if name == "PPOTrainer":
        from echelon.training.ppo.trainer import PPOTrainer

        return PPOTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
