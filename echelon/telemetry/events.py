"""Kinds of records in ``metrics.jsonl``: one frozen dataclass each, listed in ``EVENTS``.

Fields are plain numbers, strings, lists and dicts. Adding a metric is adding a field with a default, so that older
files stay readable: ``PPOTrainer`` fills the field of the same name (``update_fields``), every numeric field is
exported (``export``), and a chart of the dashboard can draw every numeric field of ``EventUpdate``.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Event:
    """Base of all records. Its methods serve all of them: those that ``dataclass`` compiles for each delay commands."""

    kind: ClassVar[str] = ""
    time: float = field(default_factory=time.time)
    """Time of writing [s since the epoch]."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


EventType = TypeVar("EventType", bound=Event)
EVENTS: dict[str, type[Event]] = {}
"""Kinds of records by name."""


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[EventType]) -> type[EventType]:
    """Make a class one of ``EVENTS``."""
    EVENTS[cls.kind] = cls = dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
    return cls


@record
class EventStart(Event):
    """A worker is ready for its first step of the run, or after a resume."""

    kind: ClassVar[str] = "start"
    device: str
    seed: int = 0
    preset: str = ""
    start_update: int = 0
    """Updates completed before this session; more than 0 after a resume."""
    total_steps: int = 0
    """Learner agent-steps planned."""
    max_minutes: float = 0.0
    """Limit of training time [min]; 0 is none."""
    global_step: int = 0
    """Learner agent-steps completed before this session."""
    episodes: int = 0
    obs_dim: int = 0
    action_dim: int = 0
    parameters: int = 0
    num_envs: int = 0
    rows: int = 0
    """Learner mechs in all environments."""
    threads: int = 0
    rollout_steps: int = 0
    run_dir: str = ""
    resume: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


@record
class EventUpdate(Event):
    """One rollout and its policy update."""

    kind: ClassVar[str] = "update"
    update: int
    global_step: int
    """Learner agent-steps so far."""
    episodes: int = 0
    elapsed_s: float = 0.0
    """Training time so far, earlier sessions included [s]; schedules of the next update follow it."""
    steps_per_s: float = 0.0
    """Learner agent-steps per second in this update."""
    avg_return: float = math.nan
    """Mean return of the newest episodes; NaN before the first one ends."""
    avg_length: float = math.nan
    """Mean length of the newest episodes [decisions]."""
    win_rate: float = math.nan
    loss_rate: float = math.nan
    draw_rate: float = math.nan
    battles: int = 0
    """Newest battles that the three rates are taken over; 0 where unknown."""
    loss: float = 0.0
    pg_loss: float = 0.0
    vf_loss: float = 0.0
    aux_loss: float = 0.0
    imitation_loss: float = 0.0
    """Negative log-likelihood of the teacher's actions, up to a constant; 0 without labels."""
    agreement: float = math.nan
    """Mean of agreement_by_part; NaN without labels."""
    learner_share: float = 1.0
    """Fraction of learner mechs that the learner controls; a teacher controls the others."""
    entropy: float = 0.0
    approx_kl: float = 0.0
    clipfrac: float = 0.0
    """Fraction of samples whose probability ratio was clipped."""
    grad_norm: float = 0.0
    grad_norm_max: float = 0.0
    grad_clipped_share: float = 0.0
    """Fraction of optimiser steps with a clipped gradient."""
    max_grad_norm: float = 0.0
    """Gradient norm above which gradients are clipped."""
    explained_variance: float = 0.0
    """1: the value function predicts returns; 0: no better than the mean."""
    lr: float = 0.0
    """Learning rate of the schedule."""
    lr_factor: float = 1.0
    """Factor on lr at the end of the update, which the KL divergence decides."""
    ent_coef: float = 0.0
    magnet_kl: float = 0.0
    """KL divergence of the collecting policy from the average of its weights, where ppo.magnet_coef is set."""
    epochs: int = 0
    """Completed passes over the rollout."""
    adv_std: float = 0.0
    value_std: float = 0.0
    return_std: float = 0.0
    reward_std: float = 0.0
    nonfinite: int = 0
    """Minibatches with a non-finite loss or gradient so far."""
    dead_share: float = 0.0
    """Fraction of learner rows whose mech was dead at the start of a decision."""
    maps_used: int = 0
    map_stalls: int = 0
    map_wait_s: float = 0.0
    peak_memory_mb: float = 0.0
    device_memory_mb: float = 0.0
    """Peak GPU memory of the worker so far [MiB]; 0 on a CPU."""
    cpu_cores: float = math.nan
    """CPU cores used by the worker since the previous update."""
    memory_mb: float = math.nan
    memory_free_mb: float = math.nan
    disk_free_mb: float = math.nan
    gpu_share: float = math.nan
    """GPU utilisation by all processes, 0 to 1."""
    gpu_memory_mb: float = math.nan
    phases_s: dict[str, float] = field(default_factory=dict)
    reward_terms: dict[str, float] = field(default_factory=dict)
    """Mean sum of each reward term per learner mech and episode over the newest episodes."""
    actions: dict[str, float] = field(default_factory=dict)
    """Activation rate per ``role/trigger``."""
    agreement_by_part: dict[str, float] = field(default_factory=dict)
    """Fraction of steps in which the learner's sample equals the teacher's choice, by switch and selector."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    opponents: dict[str, int] = field(default_factory=dict)
    """Number of environments by opponent; ``self`` is self-play."""
    elo: float = math.nan
    """Elo rating of the newest rated snapshot, 0 for the untrained policy; NaN where none is rated."""


@record
class EventEpisodes(Event):
    """The episodes that ended during one update: aggregates and a few samples.

    Self-play episodes are in ``count``, but not in wins, losses, draws and margin.
    """

    kind: ClassVar[str] = "episodes"
    update: int
    global_step: int
    count: int
    wins: int = 0
    losses: int = 0
    draws: int = 0
    mean_return: float = math.nan
    mean_length: float = math.nan
    """Mean length [decisions]."""
    hp_margin: float = math.nan
    """Mean difference of the remaining hit point fractions, own minus hostile."""
    reasons: dict[str, int] = field(default_factory=dict)
    returns_by_role: dict[str, float] = field(default_factory=dict)
    reward_terms: dict[str, float] = field(default_factory=dict)
    by_opponent: dict[str, dict[str, int]] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    """At most 32 episodes: env, seed, return, length, winner, reason, hp, zone_score, opponent."""


@dataclass(frozen=True, kw_only=True)
class EvalStats:
    """Statistics of an evaluation from the policy's point of view, in results, records and tables."""

    win_rate: float
    mean_hp_margin: float = math.nan
    """Share of hit points remaining at the end, own team minus opponent."""
    mean_episode_length: float = math.nan
    """[environment steps]"""
    episodes: int
    draw_rate: float = 0.0
    loss_rate: float = 0.0
    win_low: float = math.nan
    """Lower bound of the 95 % confidence interval (Wilson) of the win rate."""
    win_high: float = math.nan
    sampled_win_rate: float = math.nan
    """Win rate with sampled actions where both kinds were played; all other fields are of mean actions then."""
    sampled_low: float = math.nan
    """Lower bound of its 95 % confidence interval (Wilson)."""
    sampled_high: float = math.nan
    mean_return: float = math.nan
    duration_s: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    returns_by_role: dict[str, float] = field(default_factory=dict)
    reward_terms: dict[str, float] = field(default_factory=dict)
    """Mean sum of each reward term per mech and episode."""
    actions: dict[str, float] = field(default_factory=dict)
    """Activation rate per ``class/control``, over steps of living mechs."""
    outcomes: list[list[Any]] = field(default_factory=list)
    """Per episode: seed, side of the policy (0 blue, 1 red), and win, loss or draw; empty in records."""


@record
class EventEval(Event, EvalStats):
    """An evaluation on held-out seeds, each played from both sides."""

    kind: ClassVar[str] = "eval"
    update: int
    global_step: int
    opponent: str
    weapon_prob: float = math.nan
    """Trigger probability of the scripted opponent."""
    deterministic: bool = True
    purpose: str = "choice"
    """choice decides which checkpoint is the best; report has seeds of its own and decides nothing."""
    is_best: bool = False
    checkpoint: str = ""
    """Id of the evaluated checkpoint where an evaluation job played it; ``job`` is that job."""
    job: str = ""
    maps: str = ""
    """Kind of the maps: any or path; empty where unknown."""
    map_size: list[int] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


@record
class EventEvalBatch(Event):
    """An evaluation job has played one batch of matches against one opponent."""

    kind: ClassVar[str] = "eval_batch"
    batch: int
    """Number of the batch, from 0: a part of the seeds."""
    opponent: str
    deterministic: bool = True
    """Whether the policy played its mean actions; otherwise it sampled."""
    condition: str = "usual"
    """Who controlled the team where teamwork is measured."""
    played: int = 0
    matches: int = 0
    episodes: int = 0
    """Matches so far against this opponent with these actions."""
    episodes_planned: int = 0
    wins: int = 0
    win_low: float = math.nan
    """Lower bound of the 95 % confidence interval (Wilson) of the win rate so far."""
    win_high: float = math.nan
    duration_s: float = 0.0
    results: list[dict[str, Any]] = field(default_factory=list)
    """Result of each match of the batch; in ``matches.jsonl`` only."""
    commanders: dict[str, Any] = field(default_factory=dict)
    """Calls of commanders by name of the player; in ``matches.jsonl`` only."""

    @property
    def win_rate(self) -> float:
        """Win rate so far against this opponent with these actions."""
        return self.wins / self.episodes if self.episodes > 0 else math.nan

    @property
    def progress(self) -> float:
        """Played fraction of the job, 0 to 1."""
        return min(1.0, self.played / self.matches) if self.matches > 0 else 0.0


@record
class EventRating(Event):
    """A policy snapshot was rated against older snapshots."""

    kind: ClassVar[str] = "rating"
    update: int
    global_step: int
    name: str
    elo: float
    """Elo rating of the snapshot; the untrained policy is 0."""
    elo_error: float = 0.0
    """Standard error of the rating for fixed ratings of the opponents."""
    opponents: dict[str, dict[str, float]] = field(default_factory=dict)
    duration_s: float = 0.0


@record
class EventLeague(Event):
    """A policy snapshot joined the league and was rated."""

    kind: ClassVar[str] = "league"
    update: int
    global_step: int
    name: str
    entry: str = ""
    entry_kind: str = ""
    """candidate, commander or exploiter."""
    rating: float = math.nan
    """Displayed rating; the scripted level medium has 1500."""
    rd: float = math.nan
    """Rating deviation [points]."""
    games: int = 0
    rank: int = 0
    """Rank among active entries from 1; 0 where unknown."""
    ranked: int = 0
    promoted: bool = False
    target: str = ""
    target_win_rate: float = math.nan
    results: dict[str, dict[str, float]] = field(default_factory=dict)
    pool: list[str] = field(default_factory=list)
    """Opponent pool of training from now on."""
    retired: list[str] = field(default_factory=list)
    """Exploiters of the pool that seldom play, since the run beats them."""
    duration_s: float = 0.0


@record
class EventCheckpoint(Event):
    """A checkpoint is complete on disk."""

    kind: ClassVar[str] = "checkpoint"
    update: int
    global_step: int
    path: str
    """Folder, relative to the run."""
    id: str = ""
    """First hex digits of the SHA-256 of the weights."""
    reason: str = "scheduled"
    """scheduled, requested, best, stop or end."""
    duration_s: float = 0.0
    size_mb: float = 0.0


@record
class EventMatch(Event):
    """A recorded match is complete on disk."""

    kind: ClassVar[str] = "match"
    update: int
    global_step: int
    path: str
    """Replay file, relative to the run."""
    blue: str = ""
    red: str = ""
    winner: str = ""
    seed: int = 0


@record
class EventShardMatch(Event):
    """A host has played or recorded a match of an arena job; in ``matches.jsonl`` of its shard only."""

    kind: ClassVar[str] = "shard_match"
    number: int
    result: dict[str, Any] = field(default_factory=dict)
    """Fields of ``MatchRecord``; empty where only the replay is reported."""
    replay: str = ""
    """File in the replays of the arena job."""


@record
class EventRound(Event):
    """Progress of a round of an arena job, and its changes once it is rated."""

    kind: ClassVar[str] = "round"
    round: int
    state: str
    """playing or rated."""
    rounds: int = 0
    matches: int = 0
    played: int = 0
    seconds: float = 0.0
    """Time this session has spent on the round [s]."""
    ratings: dict[str, float] = field(default_factory=dict)
    promoted: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)

    @property
    def progress(self) -> float:
        """Completed fraction of the job's rounds, 0 to 1; 0 where their number is unknown."""
        of_round = self.played / self.matches if self.matches else float(self.state == "rated")
        return min(1.0, (self.round - 1 + of_round) / self.rounds) if self.rounds else 0.0


@record
class EventCurriculum(Event):
    """Curriculum parameters changed."""

    kind: ClassVar[str] = "curriculum"
    update: int
    global_step: int
    parameters: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


@record
class EventAlert(Event):
    """A message for the user."""

    kind: ClassVar[str] = "alert"
    message: str
    level: str = "warning"
    """info, warning or error."""
    update: int = 0
    global_step: int = 0


@record
class EventResume(Event):
    """Training resumed from a checkpoint; earlier records of later updates are superseded."""

    kind: ClassVar[str] = "resume"
    update: int
    global_step: int
    elapsed_s: float = 0.0
    """Training time from which the run's clock continues [s]."""
    checkpoint: str = ""
    message: str = ""


@record
class EventTrial(Event):
    """A sweep has chosen the options of a trial; written before the trial's run exists."""

    kind: ClassVar[str] = "trial"
    number: int
    """Number of the trial in its sweep, from 0."""
    run: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    """Value of each changed option by dotted key."""
    seed: int = 0
    name: str = ""
    """Name of the configuration that it repeats with another seed; empty for a trial of the search."""


@record
class EventRung(Event):
    """A trial of a sweep has started towards a rung, or has reached it."""

    kind: ClassVar[str] = "rung"
    trial: int
    rung: int
    """Number of the rung, from 0."""
    share: float = 0.0
    """Part of an attacker's training at the rung; 0 in a sweep."""
    state: str
    """started, evaluated or failed."""
    global_step: int = 0
    """Learner agent-steps at the evaluation."""
    before: list[float] = field(default_factory=list)
    """``rates`` of an attacker before its training."""
    rates: list[float] = field(default_factory=list)
    """Win rate of an attacker with mean actions, the bounds of its 95 % interval, and the same with sampled ones."""
    value: float = math.nan
    """Metric of the sweep, of an attacker the better win rate of both; NaN unless evaluated."""
    low: float = math.nan
    """Lower bound of its 95 % confidence interval where the metric is a win rate."""
    high: float = math.nan
    hp_margin: float = math.nan
    """Mean difference of the remaining hit point fractions, which orders equal values."""
    opponent: str = ""
    message: str = ""
    done: int = 0
    """Learner agent-steps of the rungs reached so far by all trials, and of a red team the time of evaluations."""
    planned: int = 0
    """The same at the end of the sweep."""

    @property
    def progress(self) -> float:
        """Completed fraction of the sweep, 0 to 1; 0 where its length is unknown."""
        return min(1.0, self.done / self.planned) if self.planned > 0 else 0.0


@record
class EventFresh(Event, EvalStats):
    """The best attacker at a rung of a red team plays the target on fresh seeds: it has been planned, or has ended."""

    kind: ClassVar[str] = "fresh"
    win_rate: float = math.nan
    episodes: int = 0
    trial: int
    rung: int
    share: float = 0.0
    state: str
    """started, evaluated or failed."""
    is_usual: bool = False
    """Whether the target plays itself."""
    run: str = ""
    """The evaluation job."""
    checkpoint: str = ""
    global_step: int = 0
    message: str = ""


@record
class EventEnd(Event):
    """Training has ended and the last checkpoint is written."""

    kind: ClassVar[str] = "end"
    reason: str
    """completed, stopped or failed."""
    update: int = 0
    global_step: int = 0
    episodes: int = 0
    elapsed_s: float = 0.0
    checkpoint: str = ""
    message: str = ""


_UPDATE_FIELDS = frozenset(f.name for f in fields(EventUpdate))


def update_fields(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``metrics`` that are fields of ``EventUpdate``."""
    return {name: value for name, value in metrics.items() if name in _UPDATE_FIELDS}
