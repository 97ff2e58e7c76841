"""Results of single evaluation matches, and the statistics of many.

A result is plain values, so that an evaluation job can record it; statistics of recorded results equal those of the
evaluation that wrote them, bit for bit, where both have the same order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from echelon.actions import RATED_CONTROLS
from echelon.sim.arsenal import Chassis
from echelon.statistics import wilson_interval
from echelon.telemetry.events import EvalStats
from echelon.training.opponents.outcomes import hp_margin, learner_return, outcome_of, side_of
from echelon.training.records import RowLayout, mean_terms, role_name


@dataclass(frozen=True)
class Teamwork:
    """Targets and first hits of the policy's team in one match."""

    pairs: float
    """Pairs of living packmates with a target each, summed over environment steps."""
    shared: float
    """Such pairs with the same target."""
    expected: float
    """Such pairs expected where each mech chooses by its own preference among its hostile contacts alone."""
    contacts: list[float]
    """Time of the first hit that each mech dealt [s]; -1 if none."""


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """One match, from the policy's point of view."""

    seed: int
    side: int
    """Side of the policy: 0 blue, 1 red."""
    outcome: str
    """win, loss or draw."""
    reason: str
    """How the match ended."""
    length: int
    """[environment steps]"""
    hp_margin: float
    mean_return: float
    returns_by_role: dict[str, list[float]] = field(default_factory=dict)
    """Return of each of the policy's mechs, by class."""
    reward_terms: dict[str, float] = field(default_factory=dict)
    """Mean sum of each reward term per mech."""
    actions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Steps with the control active, and steps of living mechs, by ``class/control``."""
    replay: str = ""
    """File of its recording; empty without one."""
    teamwork: Teamwork | None = None


def episode_result(
    record: Any, layout: RowLayout | None = None, actions: Mapping[str, tuple[int, int]] | None = None, replay: str = ""
) -> EpisodeResult:
    """Return the result of an episode record; returns by class and reward terms need the ``layout`` of the batch."""
    return EpisodeResult(
        seed=int(record.seed),
        side=side_of(record),
        outcome=outcome_of(record),
        reason=str(record.reason),
        length=int(record.length),
        hp_margin=hp_margin(record),
        mean_return=learner_return(record),
        returns_by_role={} if layout is None else layout.returns_by_role([record]),
        reward_terms={} if layout is None else layout.learner_terms(record),
        actions=dict(actions or {}),
        replay=replay,
    )


def statistics_of(
    results: Sequence[EpisodeResult], duration_s: float = 0.0, actions: Mapping[str, float] | None = None
) -> EvalStats:
    """Return the statistics of results, with the given rates of ``actions`` or those of the results."""
    if not results:
        return EvalStats(win_rate=0.0, episodes=0)
    count = len(results)
    outcomes = Counter(result.outcome for result in results)
    low, high = wilson_interval(outcomes["win"], count)
    return EvalStats(
        win_rate=outcomes["win"] / count,
        mean_hp_margin=sum(result.hp_margin for result in results) / count,
        mean_episode_length=sum(result.length for result in results) / count,
        episodes=count,
        draw_rate=outcomes["draw"] / count,
        loss_rate=outcomes["loss"] / count,
        win_low=low,
        win_high=high,
        mean_return=sum(result.mean_return for result in results) / count,
        duration_s=duration_s,
        reasons=dict(sorted(Counter(result.reason for result in results).items())),
        outcomes=sorted([result.seed, result.side, result.outcome] for result in results),
        returns_by_role=_mean_returns(results),
        reward_terms=mean_terms([result.reward_terms for result in results]),
        actions=_activation_rates(results) if actions is None else dict(actions),
    )


def mean_and_sampled(mean: EvalStats, sampled: EvalStats) -> EvalStats:
    """Return the statistics of mean actions with the win rate of sampled ones."""
    return replace(mean, sampled_win_rate=sampled.win_rate, sampled_low=sampled.win_low, sampled_high=sampled.win_high)


def _mean_returns(results: Sequence[EpisodeResult]) -> dict[str, float]:
    means = {}
    for role in map(role_name, Chassis):
        values = [value for result in results for value in result.returns_by_role.get(role, ())]
        if values:
            means[role] = sum(values) / len(values)
    return means


def _activation_rates(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Return the activation rate by ``class/control``, in single precision as ``ActionCounter.rates``."""
    totals: dict[str, tuple[int, int]] = {}
    for result in results:
        for name, (used, living) in result.actions.items():
            before = totals.get(name, (0, 0))
            totals[name] = before[0] + used, before[1] + living
    names = [f"{role_name(role)}/{control}" for role in Chassis for control in RATED_CONTROLS]
    return {n: float(np.float32(totals[n][0]) / np.float32(max(1, totals[n][1]))) for n in names if n in totals}
