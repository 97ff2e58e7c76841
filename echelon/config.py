"""Every dial of Echelon, as frozen keyword-only dataclasses with a unit and a reason per field.

Those of the game are in ``config_game``, ``config_display`` and ``config_reward``, those of opponents, curriculum
and evaluation in ``config_opponents``, and all are re-exported here; those of the learner and of a whole run are below.
Presets are functions in ``echelon.presets`` that return a complete ``RunConfig``. Importing this module loads nothing
heavy. Impossible values raise ``ValueError`` naming field, value and range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from echelon.config_display import DisplayConfig
from echelon.config_game import (
    EPS_DIV,
    EPS_NORM,
    EVAL_SEED_BASE,
    PACK_SIZE,
    SHORTEST_EDGE,
    STRICT,
    TANH_EPS,
    ConnectivityConfig,
    EnvConfig,
    ObsNormConfig,
    PhysicsConfig,
    WorldConfig,
    require,
)
from echelon.config_opponents import (
    LADDER,
    CurriculumConfig,
    EvalConfig,
    LadderSkill,
    MixConfig,
    OpponentConfig,
    PilotSkill,
)
from echelon.config_reward import REWARD_PROFILES, RewardConfig

__all__ = [
    "EPS_DIV",
    "EPS_NORM",
    "EVAL_SEED_BASE",
    "LADDER",
    "PACK_SIZE",
    "REWARD_PROFILES",
    "SHORTEST_EDGE",
    "TANH_EPS",
    "ConnectivityConfig",
    "CurriculumConfig",
    "DisplayConfig",
    "EnvConfig",
    "EvalConfig",
    "LadderSkill",
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
]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The policy and value network."""

    __pydantic_config__ = STRICT

    kind: Literal["suite", "classic"] = "suite"
    """Set encoders over the suite layout, or one flat encoder."""
    hidden_dim: int = 64
    """Width of the set encoders (suite) or of the flat encoder (classic uses twice this)."""
    lstm_hidden_dim: int = 128
    """Width of the recurrent state."""
    target_head: Literal["gaussian", "gumbel"] = "gaussian"
    """How the five target preferences are drawn."""
    target_temperature: float = 0.5
    """Temperature of the Gumbel target head."""
    init_log_std: float = 0.0
    """Starting log standard deviation of the pre-squash actions."""


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Recurrent proximal policy optimisation; the defaults are the classic ones, presets state their own."""

    __pydantic_config__ = STRICT

    lr: float = 3e-4
    """Adam step size."""
    critic_lr_mult: float = 1.0
    """Step-size factor of the value head."""
    adam_eps: float = 1e-5
    """Adam epsilon."""
    lr_schedule: Literal["none", "linear", "cosine"] = "none"
    """How the step size falls over the planned training."""
    gamma: float = 0.99
    """Discount per decision."""
    gae_lambda: float = 0.95
    """Trace decay of the advantage estimate."""
    clip_coef: float = 0.2
    """Half width of the ratio clip."""
    ent_coef: float = 0.01
    """Entropy bonus at the start."""
    ent_coef_end: float | None = None
    """Entropy bonus at the end, reached linearly; none keeps it constant."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradient norm clip; the norm before clipping is logged."""
    update_epochs: int = 4
    """Passes over a rollout."""
    rollout_steps: int = 512
    """Decisions per rollout."""
    num_minibatches: int = 8
    """Minibatches per pass."""
    tbptt_chunk_length: int = 0
    """Decisions per backpropagated chunk; 0 divides the rollout by the minibatches."""
    burn_in_steps: int = 0
    """Decisions after an episode start that only warm the recurrent state."""
    aux_coef: float = 0.0
    """Weight of the next-observation prediction loss."""
    target_kl: float = 0.0
    """Mean KL after which the remaining passes are skipped; 0 never stops."""
    recompute_advantages: bool = False
    """Re-estimate advantages after every pass."""
    per_role_adv_norm: bool = False
    """Normalise advantages within each mech class."""
    obs_norm: bool = False
    """Normalise observations by running statistics."""
    value_norm: bool = True
    """Compute the value loss on normalised returns."""
    grad_accum_steps: int = 1
    """Minibatches per optimiser step."""
    amp: bool = False
    """Autocast to bfloat16 where the device has it in hardware."""
    compile: bool = False
    """Compile the chunk evaluation."""
    nonfinite_policy: Literal["raise", "skip", "reload"] = "raise"
    """What to do when loss or gradient is not finite."""

    def __post_init__(self) -> None:
        require(self.lr > 0, "ppo.lr", self.lr, "> 0")
        require(0 < self.gamma <= 1, "ppo.gamma", self.gamma, "in (0, 1]")
        require(0 <= self.gae_lambda <= 1, "ppo.gae_lambda", self.gae_lambda, "in [0, 1]")
        require(self.clip_coef > 0, "ppo.clip_coef", self.clip_coef, "> 0")
        require(self.max_grad_norm > 0, "ppo.max_grad_norm", self.max_grad_norm, "> 0")
        for name in ("update_epochs", "rollout_steps", "num_minibatches", "grad_accum_steps"):
            require(getattr(self, name) >= 1, f"ppo.{name}", getattr(self, name), "at least 1")
        require(self.tbptt_chunk_length >= 0, "ppo.tbptt_chunk_length", self.tbptt_chunk_length, "at least 0")

    @classmethod
    def recommended(cls) -> PPOConfig:
        """Return the hyper-parameters the reviews of recurrent PPO recommend for long runs."""
        return cls(
            critic_lr_mult=3.0,
            lr_schedule="cosine",
            gamma=0.995,
            ent_coef=0.05,
            ent_coef_end=0.01,
            update_epochs=2,
            rollout_steps=2048,
            tbptt_chunk_length=32,
            burn_in_steps=10,
            aux_coef=0.01,
            target_kl=0.03,
            recompute_advantages=True,
            obs_norm=True,
        )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A whole training run."""

    __pydantic_config__ = STRICT

    preset: str = "custom"
    """Name of the preset it started from."""
    seed: int = 0
    """Seed of everything drawn in training."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    threads: int = 0
    """Threads shared by the simulator and torch; 0 takes every core."""
    num_envs: int = 64
    """Environments in the batch."""
    bank_maps: int = 64
    """Maps prepared ahead; resets draw from them."""
    bank_spare: int = 16
    """Places for maps beside these, so that others come in while battles go on."""
    bank_refresh_every: int = 0
    """Updates after which further maps take the place of the oldest, made ahead in the background; 0 keeps the bank."""
    bank_refresh_maps: int = 8
    """How many do."""
    total_steps: int = 2_000_000
    """Learner agent-steps planned; schedules run over them."""
    max_minutes: float = 0.0
    """Wall time after which training ends with a save [min]; 0 sets no limit."""
    save_every: int = 50
    """Updates between checkpoints."""
    keep_replays: int = 20
    """Recorded evaluation matches kept, the newest."""
    keep_checkpoints: int = 3
    """Newest checkpoints kept, besides the best."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """The environment."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """The learning rule."""
    opponents: OpponentConfig = field(default_factory=OpponentConfig)
    """The other team."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """Levers that move while training goes on."""
    eval: EvalConfig = field(default_factory=EvalConfig)
    """Evaluation."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "bank_maps", "bank_spare", "total_steps", "save_every"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(self.bank_refresh_every >= 0, "bank_refresh_every", self.bank_refresh_every, "at least 0")
        more, wanted = self.bank_refresh_maps, f"1 to bank_maps, {self.bank_maps}"
        require(self.bank_refresh_every == 0 or 1 <= more <= self.bank_maps, "bank_refresh_maps", more, wanted)
        if self.curriculum.maps:
            largest, room = self.curriculum.map_large_max, min(self.env.world.size_x, self.env.world.size_y)
            require(largest <= room, "curriculum.map_large_max", largest, f"at most the world's edge, {room}")
        require(self.keep_checkpoints >= 2, "keep_checkpoints", self.keep_checkpoints, "at least 2")
        require(0 <= self.seed < EVAL_SEED_BASE, "seed", self.seed, f"0 to {EVAL_SEED_BASE - 1}")
        require(
            self.env.gamma == self.ppo.gamma,
            "env.gamma",
            self.env.gamma,
            f"the trainer's discount ppo.gamma = {self.ppo.gamma}",
        )
        require(
            self.model.kind == "classic" or self.env.obs_layout == "suite",
            "model.kind",
            self.model.kind,
            f"'classic', the network that reads env.obs_layout = {self.env.obs_layout!r}",
        )
