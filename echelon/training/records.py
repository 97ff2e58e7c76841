"""What the learner reports: plain events made from its metrics and from the episodes that ended.

Everything is seen from the learner's side. Averages over the newest episodes live in ``EpisodeWindow``, which
is saved with a checkpoint. Shapes: ``E env, M mech, N learner row, C reward term``.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from echelon.actions import TRIGGER_COLUMNS, TRIGGER_NAMES
from echelon.sim.arsenal import Chassis
from echelon.telemetry.events import EventEpisodes, EventEval
from echelon.training.collect import BatchedEnv
from echelon.training.evaluation import EvalStats, hp_margin, learner_return, outcome_of
from echelon.training.rollout import RolloutBuffer

WINDOW = 20
"""Episodes over which running averages are taken."""
MAX_SAMPLES = 32
"""Most single episodes in one record."""


class EpisodeWindow:
    """The newest episodes, as plain rows."""

    def __init__(self, size: int = WINDOW) -> None:
        self.rows: deque[dict[str, Any]] = deque(maxlen=size)

    def add(self, records: Sequence[Any], layout: RowLayout) -> None:
        for record in records:
            self.rows.append(
                {
                    "return": learner_return(record),
                    "length": int(record.length),
                    "outcome": outcome_of(record),
                    "terms": layout.learner_terms(record),
                }
            )

    def averages(self) -> dict[str, float]:
        """Return what an update says about the newest episodes."""
        if not self.rows:
            return {}
        outcomes = Counter(row["outcome"] for row in self.rows)
        return {
            "avg_return": _mean([row["return"] for row in self.rows]),
            "avg_length": _mean([row["length"] for row in self.rows]),
            "win_rate": outcomes["win"] / len(self.rows),
            "loss_rate": outcomes["loss"] / len(self.rows),
            "draw_rate": outcomes["draw"] / len(self.rows),
        }

    def reward_terms(self) -> dict[str, float]:
        """Return the mean sum of each reward term per mech and episode."""
        return mean_terms([row["terms"] for row in self.rows])

    def state(self) -> list[dict[str, Any]]:
        return list(self.rows)

    def load(self, rows: list[dict[str, Any]]) -> None:
        self.rows.clear()
        self.rows.extend(rows)


class RowLayout:
    """Which mechs of each environment learn, and of which class they are."""

    def __init__(self, env: BatchedEnv) -> None:
        row_of = env.row_of.cpu().numpy()
        roles = env.roles.cpu().numpy()
        self.learns = row_of >= 0
        self.role_of = np.where(self.learns, roles[np.clip(row_of, 0, None)], -1)
        self.reward_names = tuple(env.reward_names)

    def learner_terms(self, record: Any) -> dict[str, float]:
        """Return each reward term's sum over the episode, averaged over the learner's mechs."""
        mine = np.asarray(record.terms)[self.learns[record.env] & record.present]
        means = mine.mean(0) if len(mine) else np.zeros(len(self.reward_names))
        return {name: float(value) for name, value in zip(self.reward_names, means, strict=True)}

    def returns_by_role(self, records: Sequence[Any]) -> dict[str, float]:
        """Return the mean return of the learner's mechs of each class."""
        found: dict[int, list[float]] = {}
        for record in records:
            for role, value, there in zip(self.role_of[record.env], record.returns, record.present, strict=True):
                if role >= 0 and there:
                    found.setdefault(int(role), []).append(float(value))
        return {role_name(role): _mean(values) for role, values in sorted(found.items())}


def role_name(role: int) -> str:
    """Return the name of a mech class id."""
    return Chassis(role).name.lower()


def mean_terms(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each reward term over ``rows``."""
    return {name: _mean([row[name] for row in rows]) for name in rows[0]} if rows else {}


def activation_rates(buffer: RolloutBuffer) -> dict[str, float]:
    """Return how often living mechs of each class pull each trigger, by ``role/trigger``."""
    if buffer.actions.shape[-1] <= max(TRIGGER_COLUMNS):
        return {}
    pulled = (buffer.actions[..., list(TRIGGER_COLUMNS)] > 0) * buffer.alive.unsqueeze(-1)
    per_row, living = pulled.sum(0), buffer.alive.sum(0)
    rates = {}
    for role in buffer.roles.unique().tolist():
        mine = buffer.roles == role
        shares = per_row[mine].sum(0) / living[mine].sum().clamp_min(1.0)
        rates |= {f"{role_name(role)}/{n}": float(v) for n, v in zip(TRIGGER_NAMES, shares, strict=True)}
    return rates


def episodes_event(
    records: Sequence[Any], layout: RowLayout, *, update: int, global_step: int, opponent: str, full_hp: float
) -> EventEpisodes:
    """Return aggregates of the episodes that ended in an update, and a few samples."""
    outcomes = Counter(outcome_of(r) for r in records)
    return EventEpisodes(
        update=update,
        global_step=global_step,
        count=len(records),
        wins=outcomes["win"],
        losses=outcomes["loss"],
        draws=outcomes["draw"],
        mean_return=_mean([learner_return(r) for r in records]),
        mean_length=_mean([r.length for r in records]),
        hp_margin=_mean([hp_margin(r, full_hp) for r in records]),
        reasons=dict(Counter(str(r.reason) for r in records)),
        returns_by_role=layout.returns_by_role(records),
        reward_terms=mean_terms([layout.learner_terms(r) for r in records]),
        samples=[_sample(r, opponent) for r in records[:MAX_SAMPLES]],
    )


def eval_event(
    stats: EvalStats,
    seeds: Sequence[int],
    *,
    update: int,
    global_step: int,
    opponent: str,
    weapon_prob: float,
    deterministic: bool,
    is_best: bool,
) -> EventEval:
    """Return the record of an evaluation."""
    return EventEval(
        update=update,
        global_step=global_step,
        opponent=opponent,
        episodes=stats.episodes,
        win_rate=stats.win_rate,
        draw_rate=stats.draw_rate,
        loss_rate=stats.loss_rate,
        win_low=stats.win_low,
        win_high=stats.win_high,
        hp_margin=stats.mean_hp_margin,
        mean_return=stats.mean_return,
        mean_length=stats.mean_episode_length,
        weapon_prob=weapon_prob,
        deterministic=deterministic,
        duration_s=stats.duration_s,
        is_best=is_best,
        seeds=list(seeds),
        reasons=dict(stats.reasons),
    )


def _sample(record: Any, opponent: str) -> dict[str, Any]:
    return {
        "env": int(record.env),
        "seed": int(record.seed),
        "return": learner_return(record),
        "length": int(record.length),
        "winner": int(record.winner),
        "reason": str(record.reason),
        "hp": [float(x) for x in record.hp],
        "zone_score": [float(x) for x in record.zone_score],
        "opponent": opponent,
    }


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values)) if values else math.nan
