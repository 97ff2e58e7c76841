"""The curriculum: the value of each curriculum parameter during training.

Schedules are pure functions of the coming update and of progress (0 at the start, 1 at the end), so they have no state.
``CURRICULUM_PARAMETERS`` is the table of all scheduled parameters; the environment's ``set_curriculum`` applies them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echelon.config import CurriculumConfig, OpponentConfig, RunConfig

THIRDS = 3
RANGE_SUFFIX = "_range"
"""Suffix of the parameters that are ranges of maps."""
AHEAD_UPDATES, AHEAD_PROGRESS = 20, 0.05
"""Updates and progress before a range changes at which its maps are prefetched."""


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
)


class Curriculum:
    """All curriculum parameters of a run."""

    def __init__(self, run: RunConfig) -> None:
        self.run = run
        self._scheduled = [parameter for parameter in CURRICULUM_PARAMETERS if parameter.is_enabled(run)]

    def parameters(self, update: int, progress: float) -> dict[str, Any]:
        """Return the value of every enabled parameter in ``update`` (from 1), by name."""
        return {parameter.name: parameter.value(self.run, update, progress) for parameter in self._scheduled}

    def ranges(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return the parameters that decide which maps are needed."""
        parameters = self.parameters(update, progress)
        return {name: value for name, value in parameters.items() if name.endswith(RANGE_SUFFIX)}

    def upcoming_ranges(self, update: int, progress: float) -> dict[str, tuple[int, int]]:
        """Return the next ranges if they change soon, so that maps can be prefetched; empty otherwise."""
        now = self.ranges(update, progress)
        soon = self.ranges(update + AHEAD_UPDATES, min(1.0, progress + AHEAD_PROGRESS))
        return soon if soon != now else {}


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
