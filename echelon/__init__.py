"""Echelon: multi-agent reinforcement learning for mech combat in a destructible voxel world.

The names below are the public API; ``dir(echelon)`` lists them. Importing the package loads nothing heavy: each name is
loaded on first use. Where Gymnasium is imported already, the benchmark tasks are registered with it.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from echelon.version import __version__ as __version__

if TYPE_CHECKING:
    from echelon import runs
    from echelon.config import EnvConfig, RunConfig, WorldConfig
    from echelon.config.presets import PRESETS, get_preset
    from echelon.env.env import EchelonEnv
    from echelon.env.gym_vector import EchelonVectorEnv
    from echelon.jobs.api import train
    from echelon.replay.reader import Replay
    from echelon.server.page import show
    from echelon.tasks import TASKS
    from echelon.training.api import evaluate, load_policy
    from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
    from echelon.training.task_env import make_vec
    from echelon.training.task_parallel import parallel_env
    from echelon.training.vec_env import VectorEnv

__all__ = [
    "PRESETS",
    "TASKS",
    "EchelonEnv",
    "EchelonVectorEnv",
    "EnvConfig",
    "Episodes",
    "Maps",
    "Pilots",
    "Replay",
    "RunConfig",
    "Sides",
    "VectorEnv",
    "WorldConfig",
    "evaluate",
    "get_preset",
    "load_policy",
    "make_vec",
    "parallel_env",
    "runs",
    "show",
    "train",
]

_NAMES = {
    "echelon.config": "EnvConfig RunConfig WorldConfig",
    "echelon.config.presets": "PRESETS get_preset",
    "echelon.env.env": "EchelonEnv",
    "echelon.env.gym_vector": "EchelonVectorEnv",
    "echelon.jobs.api": "train",
    "echelon.replay.reader": "Replay",
    "echelon.server.page": "show",
    "echelon.tasks": "TASKS",
    "echelon.training.api": "evaluate load_policy",
    "echelon.training.batch_options": "Episodes Maps Pilots Sides",
    "echelon.training.task_env": "make_vec",
    "echelon.training.task_parallel": "parallel_env",
    "echelon.training.vec_env": "VectorEnv",
}
"""Public names by the module that has them."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "runs":
        return import_module("echelon.runs")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


if "gymnasium.envs.registration" in sys.modules:
    # importing the module registers its tasks
    import_module("echelon.tasks")
