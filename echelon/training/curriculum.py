"""The curriculum: what each lever's value is at a moment of training, and the gate between two levels of pilots.

Schedules are pure functions of the update about to be made and of progress, 0 at the start and 1 at the end, so they
need no saving; the gate remembers its results, which a checkpoint holds. ``CURRICULUM_PARAMETERS`` is the table of all of them. How a
lever is applied belongs to the environment's ``set_curriculum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.arena.intervals import wilson_interval
from echelon.config import LADDER, CurriculumConfig, OpponentConfig, RunConfig

THIRDS = 3
RANGE_SUFFIX = "_range"
"""How the names of levers end that are ranges of maps."""
AHEAD_UPDATES, AHEAD_PROGRESS = 20, 0.05
"""How long before a range moves its maps begin to be made."""
ADVANCED, RETREATED = "gate passed", "gate lost"
"""Why a gate moved."""


@dataclass(frozen=True, kw_only=True)
class RewardPhase:
    """What is paid for over a part of training."""

    until: float
    """Progress at which it ends."""
    name: str
    damage: float
    zone: float
    approach: float


REWARD_PHASES = (
    RewardPhase(until=0.25, name="combat", damage=0.01, zone=0.0, approach=0.0),
    RewardPhase(until=0.5, name="objective introduced", damage=0.005, zone=0.3, approach=0.25),
    RewardPhase(until=0.75, name="objective", damage=0.002, zone=0.5, approach=0.1),
    RewardPhase(until=1.0, name="self-play", damage=0.0, zone=0.5, approach=0.05),
)

MECHANIC_LADDER = (("heat", "missiles", "ewar", "paint"), ("missiles", "ewar", "paint"), ("ewar", "paint"), ())
"""What episodes go without, stage by stage."""


def weapon_probability(cfg: OpponentConfig, update: int, progress: float) -> float:
    """Return the trigger probability of scripted opponents in update ``update``, from 1; without a ramp the end's."""
    if cfg.weapon_ramp_updates:
        share = min(1.0, max(0, update - 1) / cfg.weapon_ramp_updates)
    elif cfg.weapon_ramp_share:
        share = min(1.0, progress / cfg.weapon_ramp_share)
    else:
        share = 1.0
    return cfg.weapon_prob_start + (cfg.weapon_prob_end - cfg.weapon_prob_start) * share


def packs_at(cfg: CurriculumConfig, update: int, packs: int) -> int:
    """Return the packs a side in update ``update``: one, then two, then ``packs``, never more than those."""
    if update < cfg.packs_two_at:
        return 1
    return min(2, packs) if update < cfg.packs_all_at else packs


def map_range_at(cfg: CurriculumConfig, progress: float) -> tuple[int, int]:
    """Return the least and largest map edge [vox] in this third of training; the second lies half way."""
    share = min(THIRDS - 1, int(progress * THIRDS)) / (THIRDS - 1)
    least = cfg.map_small_min + (cfg.map_large_min - cfg.map_small_min) * share
    most = cfg.map_small_max + (cfg.map_large_max - cfg.map_small_max) * share
    return round(least), round(most)


def team_alpha_at(cfg: CurriculumConfig, progress: float) -> float:
    """Return the share of its own reward that a mech keeps: from 1 linearly to the end value, which then stays."""
    end = 1.0 if cfg.team_alpha_end is None else cfg.team_alpha_end
    share = min(1.0, progress / cfg.team_alpha_share) if cfg.team_alpha_share > 0 else 1.0
    return 1.0 + (end - 1.0) * share


def disabled_mechanics(cfg: CurriculumConfig, progress: float) -> tuple[str, ...]:
    """Return what episodes go without at ``progress``: stages of equal length up to ``mechanics_share``, then none."""
    last = len(MECHANIC_LADDER) - 1
    stage = int(progress / cfg.mechanics_share * last) if cfg.mechanics_share > 0 else last
    return MECHANIC_LADDER[min(last, stage)]


def reward_phase_at(progress: float) -> RewardPhase:
    """Return the phase of reward emphasis at ``progress``."""
    return next((phase for phase in REWARD_PHASES if progress < phase.until), REWARD_PHASES[-1])


def _reward_weights(run: RunConfig, update: int, progress: float) -> dict[str, float]:
    phase = reward_phase_at(progress)
    return {"damage": phase.damage, "zone": phase.zone, "approach": phase.approach}


def _packs_range(run: RunConfig, update: int, progress: float) -> tuple[int, int]:
    packs = packs_at(run.curriculum, update, run.env.num_packs)
    return packs, packs


@dataclass(frozen=True)
class CurriculumParameter:
    """A scheduled lever: the name the environment knows it by, whether a run moves it, and its value."""

    name: str
    moves: Callable[[RunConfig], bool]
    value: Callable[[RunConfig, int, float], Any]


CURRICULUM_PARAMETERS: tuple[CurriculumParameter, ...] = (
    CurriculumParameter("weapon_prob", lambda run: True, lambda run, u, p: weapon_probability(run.opponents, u, p)),
    CurriculumParameter("packs_per_team_range", lambda run: run.curriculum.packs, _packs_range),
    CurriculumParameter(
        "map_size_range", lambda run: run.curriculum.maps, lambda run, u, p: map_range_at(run.curriculum, p)
    ),
    CurriculumParameter(
        "team_alpha",
        lambda run: run.curriculum.team_alpha_end is not None,
        lambda run, u, p: team_alpha_at(run.curriculum, p),
    ),
    CurriculumParameter(
        "without", lambda run: run.curriculum.mechanics, lambda run, u, p: disabled_mechanics(run.curriculum, p)
    ),
    CurriculumParameter("reward_weights", lambda run: run.curriculum.reward_phases, _reward_weights),
)


class Gate:
    """Which level of scripted pilots is next, judged by episodes against the present one."""

    def __init__(self, cfg: CurriculumConfig) -> None:
        self.cfg = cfg
        self.level: str = cfg.ladder_first
        self.since = 0
        """Update at which the level was reached."""
        self.results: list[bool] = []
        """Whether each of the newest episodes at this level was won."""

    def judge(self, wins: Sequence[bool], update: int) -> str:
        """Take in new episodes at this level; return why the level changed, empty if it did not.

        It rises when the lower 95 % bound of the win rate reaches ``gate_advance`` and falls when the upper bound is
        below ``gate_retreat``, with enough episodes and after enough updates; then the results count anew.
        """
        cfg = self.cfg
        self.results = [*self.results, *wins][-cfg.gate_window :]
        if len(self.results) < cfg.gate_episodes or update - self.since < cfg.gate_dwell_updates:
            return ""
        low, high = wilson_interval(sum(self.results), len(self.results))
        at = LADDER.index(self.level)
        if low >= cfg.gate_advance and self.level != cfg.ladder_last:
            return self._move(LADDER[at + 1], update, ADVANCED)
        if high < cfg.gate_retreat and self.level != cfg.ladder_first:
            return self._move(LADDER[at - 1], update, RETREATED)
        return ""

    def _move(self, level: str, update: int, reason: str) -> str:
        self.level, self.since, self.results = level, update, []
        return reason

    def state_dict(self) -> dict[str, Any]:
        """Return level, update and results as plain values."""
        return {"level": self.level, "since": self.since, "results": list(self.results)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level, self.since = str(state["level"]), int(state["since"])
        self.results = [bool(won) for won in state["results"]]


class Curriculum:
    """All levers of a run."""

    def __init__(self, run: RunConfig) -> None:
        self.run = run
        self.gate = Gate(run.curriculum) if run.curriculum.ladder else None
        self._moving = [lever for lever in CURRICULUM_PARAMETERS if lever.moves(run)]

    def levers(self, update: int, progress: float) -> dict[str, Any]:
        """Return the value of every lever that this run moves, in update ``update`` (from 1)."""
        values = {lever.name: lever.value(self.run, update, progress) for lever in self._moving}
        return values if self.gate is None else {**values, "skill": self.gate.level}

    def ranges(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return those levers that decide which maps are wanted."""
        return {name: value for name, value in self.levers(update, progress).items() if name.endswith(RANGE_SUFFIX)}

    def ranges_ahead(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return the ranges that come next if they come soon, so that maps can be made; empty if they do not."""
        now = self.ranges(update, progress)
        soon = self.ranges(update + AHEAD_UPDATES, min(1.0, progress + AHEAD_PROGRESS))
        return soon if soon != now else {}

    def state_dict(self) -> dict[str, Any]:
        return {} if self.gate is None else {"gate": self.gate.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.gate is not None and "gate" in state:
            self.gate.load_state_dict(state["gate"])


def moved(before: dict[str, Any], after: dict[str, Any], least: float) -> dict[str, Any]:
    """Return the levers worth telling of: numbers that differ by ``least`` or reached 0 or 1, other values at all."""
    told = {}
    for name, value in after.items():
        old = before.get(name)
        if value == old:
            continue
        if isinstance(value, float) and isinstance(old, float) and abs(value - old) < least and value not in (0.0, 1.0):
            continue
        told[name] = value
    return told
