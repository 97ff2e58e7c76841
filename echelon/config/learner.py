"""Configuration of the network, PPO and a whole training run.

An invalid value raises ``ValueError`` with the field, the value and the valid range.
"""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import Interval

from echelon.config.checks import (
    STRICT,
    TINY,
    Fraction,
    Limit,
    Natural,
    NonNegative,
    Positive,
    ranges_of,
    require,
    require_fields,
)
from echelon.config.game import EnvConfig
from echelon.config.opponents import SCRIPTED, CurriculumConfig, EvalConfig, OpponentConfig, PilotSkill
from echelon.config.seeds import require_seed

SCRIPTED_TEACHER, POLICY_TEACHER = "heuristic", "policy"
"""Kinds of teachers: scripted levels, and policies from files."""
Width = Annotated[int, Interval(ge=1, le=65536)]
"""Width of a layer."""
DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
"""Names of devices."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The policy and value network."""

    __pydantic_config__ = STRICT

    kind: Literal["suite", "classic"] = "suite"
    """Network: set encoders for the suite layout (suite), or one flat encoder (classic)."""
    hidden_dim: Width = 64
    """Width of the set encoders; the flat encoder of classic is twice as wide."""
    lstm_hidden_dim: Width = 128
    """Width of the recurrent state."""
    recurrence: Literal["lstm", "mingru"] = "lstm"
    """Recurrent core: LSTM, or MinGRU, whose chunks cost fewer and larger matrix products."""
    memory: bool = True
    """Keep the recurrent state between environment steps; off resets it to zero before every step."""
    action_head: Literal["gaussian", "hybrid"] = "gaussian"
    """Action distribution: Gaussian in every column, or also Bernoulli switches and categorical selectors (hybrid)."""
    critic: Literal["own", "central"] = "own"
    """What values rollouts: the policy's own value, of what the mech observes (own), or in training a critic of the
    true state of all mechs, by attention over them (central; MAPPO)."""
    hidden_columns: str = ""
    """Observation columns that the network reads as 0, to measure what they contribute: names of ``echelon config
    observation`` without the slot, or whole blocks, separated by spaces; * is a wildcard (course aiming.bearing_*)."""
    init_log_std: Annotated[float, Interval(ge=-20.0, le=2.0)] = 0.0
    """Initial log standard deviation of actions before tanh."""
    log_std_min: Annotated[float, Interval(ge=-20.0, le=2.0)] = -20.0
    """Lower bound of the log standard deviation; narrower actions explore little and have a noisier gradient."""
    log_std_end: float | None = None
    """Upper bound of the log standard deviation at the end of training, reached linearly from init_log_std; none sets
    no bound (hybrid action head only)."""

    def __post_init__(self) -> None:
        require_fields(self, "model")
        hybrid = self.action_head == "hybrid"
        (low, _), end = ranges_of(ModelConfig)["init_log_std"], self.log_std_end
        expected = f"{low:g} to model.init_log_std = {self.init_log_std:g} with model.action_head = 'hybrid', or none"
        require(end is None or (hybrid and low <= end <= self.init_log_std), "model.log_std_end", end, expected)


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Recurrent proximal policy optimisation; defaults are common published values, presets set their own."""

    __pydantic_config__ = STRICT

    lr: Annotated[float, Interval(ge=1e-12, le=1.0)] = 3e-4
    """Learning rate."""
    critic_lr_mult: NonNegative = 1.0
    """Factor on the learning rate of the value head."""
    adam_eps: Annotated[float, Interval(ge=0.0, le=1.0)] = 1e-5
    """Adam epsilon."""
    lr_schedule: Literal["none", "linear", "cosine"] = "none"
    """Decay of the learning rate over the planned training, by steps or time, whichever is further."""
    gamma: Annotated[float, Interval(ge=TINY, le=1.0)] = 0.99
    """Discount factor per environment step."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation."""
    clip_coef: Positive = 0.2
    """Clipping range of the probability ratio: 1 - clip_coef to 1 + clip_coef."""
    ent_coef: NonNegative = 0.01
    """Coefficient of the entropy bonus at the start."""
    ent_coef_end: float | None = None
    """Coefficient of the entropy bonus at the end, reached linearly; none keeps ent_coef."""
    vf_coef: NonNegative = 0.5
    """Coefficient of the value loss."""
    max_grad_norm: Positive = 0.5
    """Maximum gradient norm; the norm before clipping is logged."""
    update_epochs: Natural = 4
    """Epochs over each rollout."""
    rollout_steps: Natural = 512
    """Environment steps per rollout."""
    num_minibatches: Natural = 8
    """Minibatches per epoch."""
    draw_members: bool = False
    """Draw the learner rows of a minibatch at random in every epoch; off takes consecutive rows."""
    tbptt_chunk_length: Limit = 0
    """Environment steps per chunk of truncated backpropagation; 0 divides the rollout by the minibatches."""
    burn_in_steps: Limit = 0
    """Environment steps after an episode start that only initialise the recurrent state and are not trained on."""
    aux_coef: NonNegative = 0.0
    """Coefficient of the next-observation prediction loss."""
    target_kl: NonNegative = 0.0
    """Mean KL divergence above which the remaining epochs are skipped; 0 disables early stopping."""
    kl_lr_target: Positive = 0.02
    """KL divergence at the end of an update that a factor on the learning rate, 0.01 to 1, keeps to."""
    recompute_advantages: bool = False
    """Recompute advantages after every epoch."""
    advantage_share: Annotated[float, Interval(ge=TINY, le=1.0)] = 1.0
    """Fraction of the steps that enter the policy loss, those with the largest magnitude of advantage."""
    per_role_adv_norm: bool = False
    """Normalise advantages per mech class."""
    obs_norm: bool = False
    """Normalise observations with running mean and variance."""
    value_norm: bool = True
    """Normalise returns for the value loss."""
    grad_accum_steps: Natural = 1
    """Minibatches accumulated per optimiser step."""
    amp: bool = False
    """Automatic mixed precision where the device supports it in hardware."""
    amp_dtype: Literal["auto", "bfloat16", "float16"] = "auto"
    """Precision of amp: auto prefers bfloat16 to float16 by device support; the others are used on any device."""
    compile: bool = False
    """Compile the evaluation of a chunk with torch.compile."""
    overlap: bool = False
    """Play each rollout while the one before is trained on, with weights that are one update older (CUDA gains speed);
    needs small updates (kl_lr_target)."""
    capture: bool = False
    """Capture the evaluation of a minibatch as a CUDA graph and replay it (CUDA only)."""
    activation_checkpointing: bool = False
    """Recompute each chunk in the backward pass instead of storing its activations."""
    empty_cache_every: Limit = 50
    """Updates between releases of unused CUDA memory; 0 disables them."""
    ema_decay: Annotated[float, Interval(ge=0.0, le=0.999999)] = 0.0
    """Decay per update of the average of weights that is evaluated, saved and an opponent; 0 disables it."""
    magnet_coef: NonNegative = 0.0
    """Coefficient of the KL divergence to that average in the policy loss; needs ema_decay."""
    nonfinite_policy: Literal["raise", "skip", "reload"] = "raise"
    """Action on a non-finite loss or gradient: stop (raise), skip the minibatch, or reload the last checkpoint."""

    def __post_init__(self) -> None:
        require_fields(self, "ppo")
        low, high = ranges_of(PPOConfig)["ent_coef"]
        end = self.ent_coef if self.ent_coef_end is None else self.ent_coef_end
        require(low <= end <= high, "ppo.ent_coef_end", end, f"{low:g} to {high:g}, or none")
        fits = not self.magnet_coef or self.ema_decay > 0
        require(fits, "ppo.magnet_coef", self.magnet_coef, "0 where ppo.ema_decay is 0")
        conflict = self.capture and (self.compile or self.activation_checkpointing)
        expected = "false where ppo.compile or ppo.activation_checkpointing is on"
        require(not conflict, "ppo.capture", self.capture, expected)

    @classmethod
    def recommended(cls) -> "PPOConfig":
        """Return hyper-parameters recommended in the literature for long runs of recurrent PPO."""
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
class TeacherConfig:
    """A teacher: first its actions are imitated, then PPO continues, with an imitation loss that fades."""

    __pydantic_config__ = STRICT

    policy: str = ""
    """Teacher as KIND:NAME: heuristic:LEVEL is a scripted level, policy:NAME a checkpoint, run, league entry,
    champion or exported file; empty trains without a teacher."""
    imitation: Fraction = 0.2
    """Fraction of the planned training that only imitates; PPO follows."""
    flown: Fraction = 0.5
    """Fraction of the environments in which the learner acts at the end of flown_ramp; the teacher acts in the rest."""
    flown_ramp: Fraction = 0.33
    """Fraction of the imitation over which the learner's share of the environments grows from 0 to flown."""
    imitation_coef: NonNegative = 0.2
    """Coefficient of the imitation loss during the imitation; the value loss keeps ppo.vf_coef."""
    coef: NonNegative = 0.0
    """Coefficient of the imitation loss when PPO begins."""
    fade: Fraction = 0.2
    """Fraction of the planned training, from the end of the imitation, over which coef falls to 0."""
    rl_lr_factor: Positive = 0.3
    """Factor on ppo.lr after the imitation; ppo.lr_schedule begins again there."""

    def __post_init__(self) -> None:
        require_fields(self, "teacher")
        levels = get_args(PilotSkill)
        known = not self.policy or self.level in levels or bool(self.path)
        expected = f"{SCRIPTED_TEACHER}:LEVEL, a level of {', '.join(levels)}, or {POLICY_TEACHER}:PATH"
        require(known, "teacher.policy", self.policy, expected)

    @property
    def level(self) -> str | None:
        """Return the scripted level that teaches, None where none does."""
        return self._name_of(SCRIPTED_TEACHER)

    @property
    def path(self) -> str | None:
        """Return the path of the policy that teaches, None where none does."""
        return self._name_of(POLICY_TEACHER)

    def _name_of(self, kind: str) -> str | None:
        own, _, name = self.policy.partition(":")
        return name if own == kind else None


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A training run."""

    __pydantic_config__ = STRICT

    preset: str = "custom"
    """Name of the preset that the configuration is based on."""
    seed: int = 0
    """Seed of all random draws in training."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    threads: Limit = 0
    """CPU threads shared by simulator and torch; 0 uses all cores."""
    deterministic: bool = False
    """Use only bitwise reproducible operations; slower on CUDA."""
    nproc: Natural = 1
    """Training processes on this machine; each uses its own device or share of the cores."""
    start_from: str = ""
    """Policy with the initial weights: a checkpoint, run, league entry, champion or file; empty is a new network."""
    num_envs: Natural = 64
    """Environments per process; a resume by another number of processes keeps their total."""
    bank_maps: Natural = 64
    """Maps in the pool that resets sample from."""
    bank_spare: Natural = 16
    """Extra slots of the map pool for maps that are exchanged while episodes run."""
    bank_refresh_every: Limit = 0
    """Updates between replacements of the oldest maps, prefetched in the background; 0 keeps the same maps."""
    bank_refresh_maps: Limit = 8
    """Maps replaced per refresh."""
    total_steps: Annotated[int, Interval(ge=1, le=10**12)] = 2_000_000
    """Planned training length [learner agent-steps]; schedules follow the nearest of this and the other limits."""
    max_minutes: Annotated[float, Interval(ge=0, le=10**9)] = 0.0
    """Wall-clock limit of training [min], which schedules follow too; 0 sets no limit."""
    max_updates: Limit = 0
    """Limit of updates; 0 sets no limit."""
    max_episodes: Limit = 0
    """Limit of finished episodes; 0 sets no limit."""
    pause_steps: Annotated[int, Interval(ge=0, le=10**12)] = 0
    """Learner agent-steps after which training is evaluated, saved and stopped, to be resumed with another value;
    schedules ignore it; 0 never pauses."""
    profile_updates: Limit = 0
    """Updates that are profiled into a trace in the run folder, after warm-up; 0 disables profiling."""
    save_every: Natural = 50
    """Updates between checkpoints."""
    keep_replays: Limit = 20
    """Newest recorded evaluation matches that are kept."""
    keep_checkpoints: Annotated[int, Interval(ge=2, le=10**9)] = 3
    """Newest checkpoints that are kept besides the best."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """Environment."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Network."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Learning algorithm."""
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    """Teacher whose actions are imitated first."""
    opponents: OpponentConfig = field(default_factory=OpponentConfig)
    """Opponents."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """Curriculum parameters, which change during training."""
    eval: EvalConfig = field(default_factory=EvalConfig)
    """Evaluation."""

    def __post_init__(self) -> None:
        require_fields(self, "")
        require(bool(DEVICE.fullmatch(self.device)), "device", self.device, "auto, cpu, cuda or cuda:N")
        replaced, expected = self.bank_refresh_maps, f"1 to bank_maps, {self.bank_maps}"
        valid = self.bank_refresh_every == 0 or 1 <= replaced <= self.bank_maps
        require(valid, "bank_refresh_maps", replaced, expected)
        if self.curriculum.maps:
            largest, edge = self.curriculum.map_large_max, min(self.env.world.size_x, self.env.world.size_y)
            require(largest <= edge, "curriculum.map_large_max", largest, f"at most the world's edge, {edge}")
        steps, burn_in = self.env.max_steps, self.ppo.burn_in_steps
        require(burn_in < steps, "ppo.burn_in_steps", burn_in, f"less than the {steps} environment steps of an episode")
        require_seed(self.seed)
        # an episode's final central state is not kept
        fits = self.model.critic == "own" or not self.env.truncation_bootstraps
        require(fits, "model.critic", self.model.critic, "'own' unless env.truncation_bootstraps = false")
        fits = not (self.opponents.value_attack and self.env.truncation_bootstraps)
        expected = "0 unless env.truncation_bootstraps = false"
        require(fits, "opponents.value_attack", self.opponents.value_attack, expected)
        require(self.env.gamma == self.ppo.gamma, "env.gamma", self.env.gamma, f"ppo.gamma = {self.ppo.gamma}")
        require(
            self.model.kind == "classic" or self.env.obs_layout == "suite",
            "model.kind",
            self.model.kind,
            f"'classic' where env.obs_layout is {self.env.obs_layout!r}",
        )

    @property
    def eval_level(self) -> PilotSkill | None:
        """Return the scripted level of the run's evaluations, None where opponents.champion plays."""
        if self.eval.skill == "champion":
            return None
        return self.opponents.hardest_level() if self.eval.skill == "hardest" else self.eval.skill

    @property
    def eval_opponent(self) -> str:
        """Return the name of the opponent of the run's evaluations: that of a level is ``heuristic:LEVEL``."""
        return f"{SCRIPTED}:{self.eval_level}" if self.eval_level else Path(self.opponents.champion).name


def env_signature(cfg: EnvConfig) -> dict[str, Any]:
    """Return the configuration of an environment as nested JSON values."""
    return json.loads(json.dumps(asdict(cfg)))
