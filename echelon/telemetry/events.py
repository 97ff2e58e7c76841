"""What a run may say about itself: one frozen dataclass per kind of record in ``metrics.jsonl``.

A record is plain numbers, strings, lists and dicts, and ``EVENTS`` is the one table of them. ``lines`` turns records
into lines and back; writing, following and folding these belong to the neighbouring modules. Add a fact by adding a
field with a default, so that older files stay readable.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every record carries."""

    kind: ClassVar[str] = ""
    time: float = field(default_factory=time.time)
    """When it was written [s since the epoch]."""


@dataclass(frozen=True, kw_only=True)
class EventStart(Event):
    """A trainer is ready and about to take its first step (of the run, or after a resume)."""

    kind: ClassVar[str] = "start"
    device: str
    """Device the learner runs on."""
    seed: int = 0
    preset: str = ""
    start_update: int = 0
    """Updates already done, more than zero after a resume."""
    total_steps: int = 0
    """Learner agent-steps planned."""
    max_minutes: float = 0.0
    """Wall-time limit [min]; 0 is none."""
    global_step: int = 0
    """Learner agent-steps already done."""
    episodes: int = 0
    obs_dim: int = 0
    action_dim: int = 0
    parameters: int = 0
    """Trainable parameters of the network."""
    num_envs: int = 0
    rows: int = 0
    """Learner mechs in the batch."""
    threads: int = 0
    rollout_steps: int = 0
    run_dir: str = ""
    resume: str = ""
    """Checkpoint it resumed from; empty for a fresh start."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, Echelon, torch and Warp."""
    git: dict[str, Any] = field(default_factory=dict)
    """Commit, branch and whether the tree was dirty."""
    config: dict[str, Any] = field(default_factory=dict)
    """The whole resolved configuration."""


@dataclass(frozen=True, kw_only=True)
class EventUpdate(Event):
    """One rollout and the update made from it."""

    kind: ClassVar[str] = "update"
    update: int
    """Number of this update, from 1."""
    global_step: int
    """Learner agent-steps so far."""
    episodes: int = 0
    """Episodes finished so far."""
    elapsed_s: float = 0.0
    """Training wall time so far, earlier sessions of the run included [s]."""
    steps_per_s: float = 0.0
    """Learner agent-steps per second over this update."""
    avg_return: float = math.nan
    """Mean return of the newest episodes; not a number before the first one ends."""
    avg_length: float = math.nan
    """Their mean length [decisions]."""
    win_rate: float = math.nan
    loss_rate: float = math.nan
    draw_rate: float = math.nan
    loss: float = 0.0
    pg_loss: float = 0.0
    vf_loss: float = 0.0
    aux_loss: float = 0.0
    entropy: float = 0.0
    approx_kl: float = 0.0
    clip_frac: float = 0.0
    grad_norm: float = 0.0
    """Mean gradient norm before clipping."""
    grad_norm_max: float = 0.0
    grad_clipped_share: float = 0.0
    """Share of optimiser steps whose gradient was clipped."""
    max_grad_norm: float = 0.0
    """The clip line."""
    explained_variance: float = 0.0
    lr: float = 0.0
    ent_coef: float = 0.0
    epochs: int = 0
    """Passes over the rollout that were made."""
    adv_std: float = 0.0
    value_std: float = 0.0
    return_std: float = 0.0
    reward_std: float = 0.0
    nonfinite: int = 0
    """Minibatches whose loss or gradient was not finite, so far."""
    dead_share: float = 0.0
    """Share of learner rows whose mech was dead at the start of a decision."""
    maps_used: int = 0
    """Maps of the run's sequence that episodes were or are played on."""
    map_stalls: int = 0
    """How often training waited for a map so far; 0 where maps are ready in time."""
    map_wait_s: float = 0.0
    """Time it waited for maps [s]."""
    peak_memory_mb: float = 0.0
    """Largest resident memory so far [MiB]."""
    device_memory_mb: float = 0.0
    """Largest accelerator memory so far [MiB]; 0 on a CPU."""
    cpu_cores: float = math.nan
    """Cores that the trainer kept busy since the update before."""
    memory_mb: float = math.nan
    """Resident memory of the trainer [MiB]."""
    memory_free_mb: float = math.nan
    """Memory that the machine can still give [MiB]."""
    disk_free_mb: float = math.nan
    """Room on the disk of the run folder [MiB]."""
    gpu_share: float = math.nan
    """Share of the time that the accelerator was busy; whoever used it."""
    gpu_memory_mb: float = math.nan
    """Memory of the accelerator in use [MiB]; whoever uses it."""
    phases_s: dict[str, float] = field(default_factory=dict)
    """Seconds of this update by phase."""
    reward_terms: dict[str, float] = field(default_factory=dict)
    """Mean sum of each reward term per learner mech and episode, newest episodes."""
    actions: dict[str, float] = field(default_factory=dict)
    """Activation rate per ``role/trigger``."""
    curriculum: dict[str, Any] = field(default_factory=dict)
    """Value of each curriculum lever."""
    opponents: dict[str, int] = field(default_factory=dict)
    """Environments by the opponent met in them; ``self`` where both sides learn."""
    elo: float = math.nan
    """Rating of the newest rated snapshot, the untrained policy being 0; not a number where none is rated."""


@dataclass(frozen=True, kw_only=True)
class EventEpisodes(Event):
    """The episodes that ended during one update: aggregates and a few samples.

    Those in which both sides learned are in ``count``, but nobody's wins, losses, draws or margin.
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
    """Mean share of hit points left, own minus hostile."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Episodes by reason of their end."""
    returns_by_role: dict[str, float] = field(default_factory=dict)
    reward_terms: dict[str, float] = field(default_factory=dict)
    by_opponent: dict[str, dict[str, int]] = field(default_factory=dict)
    """Wins, losses and draws against each opponent."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    """At most 32 episodes: env, seed, return, length, winner, reason, hp, zone_score, opponent."""


@dataclass(frozen=True, kw_only=True)
class EventEval(Event):
    """An evaluation on held-out seeds with sides swapped."""

    kind: ClassVar[str] = "eval"
    update: int
    global_step: int
    opponent: str
    episodes: int
    win_rate: float
    draw_rate: float = 0.0
    loss_rate: float = 0.0
    win_low: float = math.nan
    """Lower end of the 95 % Wilson interval of the win rate."""
    win_high: float = math.nan
    hp_margin: float = math.nan
    mean_return: float = math.nan
    mean_length: float = math.nan
    """Mean length [decisions]."""
    weapon_prob: float = math.nan
    """Trigger probability of the scripted opponent."""
    deterministic: bool = True
    duration_s: float = 0.0
    is_best: bool = False
    seeds: list[int] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    returns_by_role: dict[str, float] = field(default_factory=dict)
    reward_terms: dict[str, float] = field(default_factory=dict)
    actions: dict[str, float] = field(default_factory=dict)
    """Activation rate per ``role/control``."""


@dataclass(frozen=True, kw_only=True)
class EventRating(Event):
    """A snapshot was taken and rated against those before it."""

    kind: ClassVar[str] = "rating"
    update: int
    global_step: int
    name: str
    """The snapshot."""
    elo: float
    """Its rating; the untrained policy is 0."""
    elo_error: float = 0.0
    """Standard error of that, the rivals' ratings taken as they are."""
    rivals: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per older snapshot: its rating, and games and score against it."""
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EventLeague(Event):
    """A snapshot joined the league and was rated there."""

    kind: ClassVar[str] = "league"
    update: int
    global_step: int
    name: str
    """What the league calls it."""
    entry: str = ""
    """Its id there."""
    entry_kind: str = ""
    """candidate, commander or exploiter."""
    rating: float = math.nan
    """As standings show it, the scripted level medium being 1500."""
    rd: float = math.nan
    """Deviation of the rating."""
    games: int = 0
    """Rated games."""
    rank: int = 0
    """Its place among those who play there, 1 being the strongest; 0 where it is not told."""
    ranked: int = 0
    """How many play there."""
    promoted: bool = False
    target: str = ""
    """Whom an exploiter was trained against."""
    target_win_rate: float = math.nan
    """Its share of wins against the target in the newest episodes."""
    results: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per opponent of its matches: games and score."""
    pool: list[str] = field(default_factory=list)
    """Who may be met in training from now on."""
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EventCheckpoint(Event):
    """A checkpoint is complete on disk."""

    kind: ClassVar[str] = "checkpoint"
    update: int
    global_step: int
    path: str
    """Folder, relative to the run."""
    id: str = ""
    """First hex digits of the sha256 of its weights."""
    reason: str = "scheduled"
    """scheduled, requested, best, stop or end."""
    duration_s: float = 0.0
    size_mb: float = 0.0


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class EventRound(Event):
    """How far a round of an arena job has come, and what it changed once it is rated."""

    kind: ClassVar[str] = "round"
    round: int
    """From 1."""
    state: str
    """playing or rated."""
    rounds: int = 0
    """Rounds planned."""
    matches: int = 0
    """Matches of the round."""
    played: int = 0
    seconds: float = 0.0
    """Time that this session has spent on it [s]."""
    ratings: dict[str, float] = field(default_factory=dict)
    """New rating by entry, as stored."""
    promoted: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class EventCurriculum(Event):
    """A curriculum lever moved."""

    kind: ClassVar[str] = "curriculum"
    update: int
    global_step: int
    levers: dict[str, Any] = field(default_factory=dict)
    """Value of each lever after the move."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class EventAlert(Event):
    """Something a person should know."""

    kind: ClassVar[str] = "alert"
    message: str
    level: str = "warning"
    """info, warning or error."""
    update: int = 0
    global_step: int = 0


@dataclass(frozen=True, kw_only=True)
class EventResume(Event):
    """Training goes on from a checkpoint; rows of later updates written before this line are superseded."""

    kind: ClassVar[str] = "resume"
    update: int
    """Update of the checkpoint."""
    global_step: int
    checkpoint: str = ""
    message: str = ""
    """Which damaged checkpoints were passed over, if any."""


@dataclass(frozen=True, kw_only=True)
class EventEnd(Event):
    """Training is over and the last checkpoint is written."""

    kind: ClassVar[str] = "end"
    reason: str
    """completed, stopped or failed."""
    update: int = 0
    global_step: int = 0
    episodes: int = 0
    elapsed_s: float = 0.0
    checkpoint: str = ""
    message: str = ""
    """Cause, where it failed."""


EVENTS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        EventStart,
        EventUpdate,
        EventEpisodes,
        EventEval,
        EventRating,
        EventLeague,
        EventCheckpoint,
        EventMatch,
        EventRound,
        EventCurriculum,
        EventAlert,
        EventResume,
        EventEnd,
    )
}
"""Every kind of record; what is not here cannot be read back."""
