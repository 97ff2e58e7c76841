"""Configuration: frozen keyword-only dataclasses with a unit and a reason per field.

``game``, ``display`` and ``reward`` configure the environment, ``opponents`` the opponents, the curriculum and the
evaluation, ``learner`` the network, PPO and a whole run; ``ranges`` bounds the values. ``presets`` and ``ablations`` are
named configurations. Importing this package loads nothing heavy.
"""

from __future__ import annotations

from echelon.config.display import DisplayConfig
from echelon.config.game import (
    EPS_DIV,
    EPS_NORM,
    EVAL_SEED_BASE,
    PACK_SIZE,
    SHORTEST_EDGE,
    TANH_EPS,
    ConnectivityConfig,
    EnvConfig,
    ObsNormConfig,
    PhysicsConfig,
    WorldConfig,
    current_values,
    require,
)
from echelon.config.learner import REMOVED_FIELDS, ModelConfig, PPOConfig, RunConfig, env_signature
from echelon.config.opponents import (
    LADDER,
    MIX_PROFILES,
    CurriculumConfig,
    EvalConfig,
    LadderSkill,
    LeagueConfig,
    MixConfig,
    OpponentConfig,
    PilotSkill,
)
from echelon.config.reward import REWARD_PROFILES, RewardConfig

__all__ = [
    "EPS_DIV",
    "EPS_NORM",
    "EVAL_SEED_BASE",
    "LADDER",
    "MIX_PROFILES",
    "PACK_SIZE",
    "REMOVED_FIELDS",
    "REWARD_PROFILES",
    "SHORTEST_EDGE",
    "TANH_EPS",
    "ConnectivityConfig",
    "CurriculumConfig",
    "DisplayConfig",
    "EnvConfig",
    "EvalConfig",
    "LadderSkill",
    "LeagueConfig",
    "MixConfig",
    "ModelConfig",
    "ObsNormConfig",
    "OpponentConfig",
    "PPOConfig",
    "PhysicsConfig",
    "PilotSkill",
    "RewardConfig",
    "RunConfig",
    "WorldConfig",
    "current_values",
    "env_signature",
    "require",
]
