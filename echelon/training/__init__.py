"""Learning: the batched environment, the rollout, the update, evaluation, checkpoints and the loop.

Names are loaded on first use, so that importing the package loads neither torch nor the simulator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.config import PPOConfig
    from echelon.training.evaluation import EvalStats, evaluate_vs_heuristic
    from echelon.training.normalization import ReturnNormalizer, RunningMeanStd
    from echelon.training.ppo import PPOTrainer
    from echelon.training.rollout import RolloutBuffer
    from echelon.training.vec_env import VectorEnv

__all__ = [
    "EvalStats",
    "PPOConfig",
    "PPOTrainer",
    "ReturnNormalizer",
    "RolloutBuffer",
    "RunningMeanStd",
    "VectorEnv",
    "evaluate_vs_heuristic",
]

_HOME = {
    "EvalStats": "echelon.training.evaluation",
    "PPOConfig": "echelon.config",
    "PPOTrainer": "echelon.training.ppo",
    "ReturnNormalizer": "echelon.training.normalization",
    "RolloutBuffer": "echelon.training.rollout",
    "RunningMeanStd": "echelon.training.normalization",
    "VectorEnv": "echelon.training.vec_env",
    "evaluate_vs_heuristic": "echelon.training.evaluation",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
