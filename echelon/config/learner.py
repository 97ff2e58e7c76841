"""Configuration of the learner and of a whole run.

Impossible values raise ``ValueError`` naming field, value and range.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from echelon.config.game import (
    EVAL_SEED_BASE,
    STRICT,
    EnvConfig,
    require,
)
from echelon.config.opponents import (
    CurriculumConfig,
    EvalConfig,
    OpponentConfig,
)
from echelon.config.ranges import MODEL_RANGES, PPO_RANGES, RUN_RANGES, require_ranges

REMOVED_FIELDS = frozenset({"model.target_temperature"})
"""Dials that never did anything and are gone; older runs and checkpoints still name them."""


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
    memory: bool = True
    """Whether anything is remembered from one decision to the next; without it the recurrent layer starts from zero."""
    target_head: Literal["gaussian", "gumbel"] = "gaussian"
    """How the five target preferences are drawn."""
    film: bool = False
    """Let the suite descriptor scale and shift the set and ego encodings (suite only)."""
    init_log_std: float = 0.0
    """Starting log standard deviation of the pre-squash actions."""

    def __post_init__(self) -> None:
        require_ranges(self, "model", MODEL_RANGES)
        require(not self.film or self.kind == "suite", "model.film", self.film, "model.kind = 'suite'")


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
    """Autocast to a lower precision where the device has one in hardware."""
    amp_dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    """Which one: bfloat16 before float16 with a scaled loss, as the device has them; or one of them anywhere."""
    compile: bool = False
    """Compile the chunk evaluation."""
    capture: bool = False
    """Record the evaluation of a minibatch as a CUDA graph and replay it (CUDA only)."""
    activation_checkpointing: bool = False
    """Evaluate each chunk again in the backward pass instead of keeping its activations."""
    empty_cache_every: int = 50
    """Updates between releases of unused CUDA memory; 0 never releases."""
    nonfinite_policy: Literal["raise", "skip", "reload"] = "raise"
    """What to do when loss or gradient is not finite."""

    def __post_init__(self) -> None:
        require_ranges(self, "ppo", PPO_RANGES)
        low, high = PPO_RANGES["ent_coef"]
        end = self.ent_coef if self.ent_coef_end is None else self.ent_coef_end
        require(low <= end <= high, "ppo.ent_coef_end", end, f"{low:g} to {high:g}, or none")
        twice = self.capture and (self.compile or self.activation_checkpointing)
        require(not twice, "ppo.capture", self.capture, "neither ppo.compile nor ppo.activation_checkpointing with it")

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
            amp=True,
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
    deterministic: bool = False
    """Allow only operations that give the same bits every time, at the price of speed on CUDA."""
    nproc: int = 1
    """Training processes on this machine, each with a device or a share of the cores of its own."""
    start_from: str = ""
    """Policy whose weights training begins with: a checkpoint, a run or an exported file; empty begins from scratch."""
    num_envs: int = 64
    """Environments in the batch of each process."""
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
    max_updates: int = 0
    """Updates after which training ends with a save; 0 sets no limit."""
    max_episodes: int = 0
    """Finished episodes after which training ends with a save; 0 sets no limit."""
    profile_updates: int = 0
    """Updates written as a trace into the run's folder, after the first ones; 0 writes none."""
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
        require_ranges(self, "", RUN_RANGES)
        more, wanted = self.bank_refresh_maps, f"1 to bank_maps, {self.bank_maps}"
        require(self.bank_refresh_every == 0 or 1 <= more <= self.bank_maps, "bank_refresh_maps", more, wanted)
        if self.curriculum.maps:
            largest, room = self.curriculum.map_large_max, min(self.env.world.size_x, self.env.world.size_y)
            require(largest <= room, "curriculum.map_large_max", largest, f"at most the world's edge, {room}")
        decisions, warm_up = self.env.max_steps, self.ppo.burn_in_steps
        require(warm_up < decisions, "ppo.burn_in_steps", warm_up, f"below {decisions}, the decisions of an episode")
        for name, value in (
            ("opponents.mix.scripted", self.opponents.mix.scripted),
            ("eval.every_updates", self.eval.every_updates),
        ):
            require(value > 0 or not self.curriculum.ladder, name, value, "above 0: curriculum.ladder is on")
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


def env_signature(cfg: EnvConfig) -> dict[str, Any]:
    """Return an environment's dials as nested plain values, equal to themselves after being saved as JSON and read."""
    return json.loads(json.dumps(asdict(cfg)))
