"""Learning: the batched environment, the rollout, the update, evaluation, checkpoints and the loop.

Names are loaded on first use, so that importing the package loads neither torch nor the simulator. ``docs/api.md``
shows them at work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.config import PPOConfig
    from echelon.training.api import load_policy
    from echelon.training.evaluation import EvalStats, evaluate_ladder, evaluate_policy, evaluate_vs_heuristic
    from echelon.training.normalization import ReturnNormalizer, RunningMeanStd
    from echelon.training.policy_agent import PolicyAgent, PolicyPilot, env_config_of
    from echelon.training.ppo.trainer import PPOTrainer
    from echelon.training.rollout import RolloutBuffer
    from echelon.training.spatial import SpatialAccumulator
    from echelon.training.vec_env import VectorEnv

__all__ = [
    "EvalStats",
    "PPOConfig",
    "PPOTrainer",
    "PolicyAgent",
    "PolicyPilot",
    "ReturnNormalizer",
    "RolloutBuffer",
    "RunningMeanStd",
    "SpatialAccumulator",
    "VectorEnv",
    "env_config_of",
    "evaluate_ladder",
    "evaluate_policy",
    "evaluate_vs_heuristic",
    "load_policy",
]

_NAMES = {
    "echelon.config": "PPOConfig",
    "echelon.training.api": "load_policy",
    "echelon.training.evaluation": "EvalStats evaluate_ladder evaluate_policy evaluate_vs_heuristic",
    "echelon.training.normalization": "ReturnNormalizer RunningMeanStd",
    "echelon.training.policy_agent": "PolicyAgent PolicyPilot env_config_of",
    "echelon.training.ppo.trainer": "PPOTrainer",
    "echelon.training.rollout": "RolloutBuffer",
    "echelon.training.spatial": "SpatialAccumulator",
    "echelon.training.vec_env": "VectorEnv",
}
"""Public names by the module that has them."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
