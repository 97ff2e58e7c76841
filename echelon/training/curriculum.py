"""The curriculum: the value of each curriculum parameter during training, and the gate between scripted levels.

Schedules are pure functions of the coming update and of progress (0 at the start, 1 at the end), so they have no state;
the gate's results are saved with a checkpoint. ``CURRICULUM_PARAMETERS`` is the table of all scheduled parameters; the
environment's ``set_curriculum`` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.config import LADDER, CurriculumConfig, OpponentConfig, RunConfig
from echelon.statistics import wilson_interval

THIRDS = 3
RANGE_SUFFIX = "_range"
"""Suffix of the parameters that are ranges of maps."""
AHEAD_UPDATES, AHEAD_PROGRESS = 20, 0.05
"""Updates and progress before a range changes at which its maps are prefetched."""
ADVANCED, RETREATED = "gate passed", "gate lost"
"""Reasons of a level change, as events have them."""


@dataclass(frozen=True, kw_only=True)
class RewardPhase:
    """Reward weights in a part of training."""

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
"""Disabled mechanics, stage by stage."""


def weapon_probability(cfg: OpponentConfig, update: int, progress: float) -> float:
    """Return the trigger probability of scripted opponents in ``update`` (from 1); without a ramp its end value."""
    if cfg.weapon_ramp_updates:
        share = min(1.0, max(0, update - 1) / cfg.weapon_ramp_updates)
    elif cfg.weapon_ramp_share:
        share = min(1.0, progress / cfg.weapon_ramp_share)
    else:
        share = 1.0
    return cfg.weapon_prob_start + (cfg.weapon_prob_end - cfg.weapon_prob_start) * share


def packs_at(cfg: CurriculumConfig, update: int, packs: int) -> int:
    """Return the packs per team in ``update``: one, then two, then ``packs``; never more than ``packs``."""
    if update < cfg.packs_two_at:
        return 1
    return min(2, packs) if update < cfg.packs_all_at else packs


def map_range_at(cfg: CurriculumConfig, progress: float) -> tuple[int, int]:
    """Return the smallest and largest map edge [vox] in this third of training; the second third is half way."""
    share = min(THIRDS - 1, int(progress * THIRDS)) / (THIRDS - 1)
    smallest = cfg.map_small_min + (cfg.map_large_min - cfg.map_small_min) * share
    largest = cfg.map_small_max + (cfg.map_large_max - cfg.map_small_max) * share
    return round(smallest), round(largest)


def team_alpha_at(cfg: CurriculumConfig, progress: float) -> float:
    """Return the share of its own reward in a mech's reward: linear from 1 to the end value, then constant."""
    end = 1.0 if cfg.team_alpha_end is None else cfg.team_alpha_end
    share = min(1.0, progress / cfg.team_alpha_share) if cfg.team_alpha_share > 0 else 1.0
    return 1.0 + (end - 1.0) * share


def disabled_mechanics(cfg: CurriculumConfig, progress: float) -> tuple[str, ...]:
    """Return the disabled mechanics at ``progress``: stages of equal length up to ``mechanics_share``, then none."""
    last = len(MECHANIC_LADDER) - 1
    stage = int(progress / cfg.mechanics_share * last) if cfg.mechanics_share > 0 else last
    return MECHANIC_LADDER[min(last, stage)]


def reward_phase_at(progress: float) -> RewardPhase:
    """Return the reward weights at ``progress``."""
    return next((phase for phase in REWARD_PHASES if progress < phase.until), REWARD_PHASES[-1])


def _reward_weights(run: RunConfig, update: int, progress: float) -> dict[str, float]:
    phase = reward_phase_at(progress)
    return {"damage": phase.damage, "zone": phase.zone, "approach": phase.approach}


def _packs_range(run: RunConfig, update: int, progress: float) -> tuple[int, int]:
    packs = packs_at(run.curriculum, update, run.env.num_packs)
    return packs, packs


@dataclass(frozen=True)
class CurriculumParameter:
    """A scheduled curriculum parameter."""

    name: str
    """Keyword of ``set_curriculum``."""
    is_enabled: Callable[[RunConfig], bool]
    value: Callable[[RunConfig, int, float], Any]
    """Value for a run, its coming update (from 1) and progress."""


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
    """Chooses the level of scripted opponents by the results against the current one."""

    def __init__(self, cfg: CurriculumConfig) -> None:
        self.cfg = cfg
        self.level: str = cfg.ladder_first
        self.since = 0
        """Update at which the current level was reached."""
        self.results: list[bool] = []
        """Whether each of the newest episodes at the current level was won."""

    def judge(self, wins: Sequence[bool], update: int) -> str:
        """Add results of episodes at the current level; return why the level changed, empty if it did not.

        It rises if the lower 95 % bound of the win rate is at least ``gate_advance`` and falls if the upper bound is
        below ``gate_retreat``, given enough episodes and updates; then the results are cleared.
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
        """Restore what ``state_dict`` returned."""
        self.level, self.since = str(state["level"]), int(state["since"])
        self.results = [bool(won) for won in state["results"]]


class Curriculum:
    """All curriculum parameters of a run."""

    def __init__(self, run: RunConfig) -> None:
        self.run = run
        self.gate = Gate(run.curriculum) if run.curriculum.ladder else None
        self._scheduled = [parameter for parameter in CURRICULUM_PARAMETERS if parameter.is_enabled(run)]

    def parameters(self, update: int, progress: float) -> dict[str, Any]:
        """Return the value of every enabled parameter in ``update`` (from 1), by name."""
        values = {parameter.name: parameter.value(self.run, update, progress) for parameter in self._scheduled}
        return values if self.gate is None else {**values, "skill": self.gate.level}

    def ranges(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return the parameters that decide which maps are needed."""
        parameters = self.parameters(update, progress)
        return {name: value for name, value in parameters.items() if name.endswith(RANGE_SUFFIX)}

    def upcoming_ranges(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return the next ranges if they change soon, so that maps can be prefetched; empty otherwise."""
        now = self.ranges(update, progress)
        soon = self.ranges(update + AHEAD_UPDATES, min(1.0, progress + AHEAD_PROGRESS))
        return soon if soon != now else {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the gate as plain values."""
        return {} if self.gate is None else {"gate": self.gate.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        if self.gate is not None and "gate" in state:
            self.gate.load_state_dict(state["gate"])


def significant_changes(before: dict[str, Any], after: dict[str, Any], minimum: float) -> dict[str, Any]:
    """Return the changed values of ``after``, without numbers that changed by less than ``minimum``.

    A number that reached 0 or 1 always counts as changed.
    """
    changes = {}
    for name, value in after.items():
        old = before.get(name)
        if value == old:
            continue
        if (
            isinstance(value, float)
            and isinstance(old, float)
            and abs(value - old) < minimum
            and value not in (0.0, 1.0)
        ):
            continue
        changes[name] = value
    return changes
