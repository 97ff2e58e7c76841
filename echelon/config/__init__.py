"""Configuration: frozen keyword-only dataclasses; a field's docstring is its help text.

``game``, ``display`` and ``reward`` configure the environment; ``opponents`` opponents, curriculum and evaluation;
``learner`` the network, PPO and a whole run. ``checks`` has the types and ranges of fields, ``seeds`` what each
range of episode seeds is for. ``presets`` and ``ablations`` are named configurations. Importing this package loads
neither torch nor warp.
"""

from echelon.config.checks import require
from echelon.config.display import DisplayConfig
from echelon.config.game import (
    MIN_MAP_EDGE,
    PACK_SIZE,
    TANH_EPS,
    ConnectivityConfig,
    EnvConfig,
    Fairness,
    ObsNormConfig,
    WorldConfig,
    with_fairness,
)
from echelon.config.learner import ModelConfig, PPOConfig, RunConfig, TeacherConfig, env_signature
from echelon.config.opponents import (
    LADDER,
    MIX_PROFILES,
    CurriculumConfig,
    EvalConfig,
    LeagueConfig,
    MixConfig,
    OpponentConfig,
    PilotSkill,
)
from echelon.config.reward import RewardConfig
from echelon.config.seeds import EVAL_SEED_BASE

__all__ = [
    "EVAL_SEED_BASE",
    "LADDER",
    "MIN_MAP_EDGE",
    "MIX_PROFILES",
    "PACK_SIZE",
    "TANH_EPS",
    "ConnectivityConfig",
    "CurriculumConfig",
    "DisplayConfig",
    "EnvConfig",
    "EvalConfig",
    "Fairness",
    "LeagueConfig",
    "MixConfig",
    "ModelConfig",
    "ObsNormConfig",
    "OpponentConfig",
    "PPOConfig",
    "PilotSkill",
    "RewardConfig",
    "RunConfig",
    "TeacherConfig",
    "WorldConfig",
    "env_signature",
    "require",
    "with_fairness",
]
