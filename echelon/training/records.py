"""What the learner reports: plain events made from its metrics and from the episodes that ended.

Everything is seen from the learner's side. Averages over the newest episodes live in ``EpisodeWindow``, which
is saved with a checkpoint. Shapes: ``E env, M mech, N learner row, C reward term``.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from echelon.actions import RATED_CONTROLS
from echelon.sim.arsenal import Chassis
from echelon.telemetry.events import EventEpisodes, EventEval
from echelon.training.opponents.outcomes import hp_margin, is_mirrored, learner_return, outcome_of
from echelon.training.ppo.collect import BatchedEnv
from echelon.training.rollout import RolloutBuffer

if TYPE_CHECKING:
    from echelon.training.evaluation import EvalStats

WINDOW = 20
"""Episodes over which running averages are taken."""
MIRRORED = "mirrored"
"""Outcome of an episode in which both sides learned."""
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
                    "outcome": MIRRORED if is_mirrored(record) else outcome_of(record),
                    "terms": layout.learner_terms(record),
                }
            )

    def averages(self) -> dict[str, float]:
        """Return what an update says about the newest episodes; nobody wins where both sides learn."""
        if not self.rows:
            return {}
        outcomes = Counter(row["outcome"] for row in self.rows if row["outcome"] != MIRRORED)
        met = outcomes.total()
        return {
            "avg_return": _mean([row["return"] for row in self.rows]),
            "avg_length": _mean([row["length"] for row in self.rows]),
            "win_rate": outcomes["win"] / met if met else math.nan,
            "loss_rate": outcomes["loss"] / met if met else math.nan,
            "draw_rate": outcomes["draw"] / met if met else math.nan,
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
    """Return how often living mechs of each class use each control, by ``class/control``."""
    if buffer.actions.shape[-1] <= max(RATED_CONTROLS.values()):
        return {}
    used = (buffer.actions[..., list(RATED_CONTROLS.values())] > 0) * buffer.alive.unsqueeze(-1)
    return _rates(used.sum(0), buffer.alive.sum(0), buffer.roles)


class ActionCounter:
    """Counts how often the learners of a batch use their controls while their first episode lasts."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env = env
        self._counts = env.action_dim > max(RATED_CONTROLS.values())
        self.begin()

    def begin(self) -> None:
        """All episodes begin."""
        env = self._env
        self._going = torch.ones(env.num_envs, dtype=torch.bool, device=env.actions.device)
        self._used = torch.zeros(env.rows, len(RATED_CONTROLS), device=env.actions.device)
        self._living = torch.zeros(env.rows, device=env.actions.device)

    def before_step(self, estimate: Callable[[], torch.Tensor]) -> None:
        """Nothing is counted before a decision is played; ``estimate`` returns values ``[N]``."""

    def after_step(self) -> None:
        """Count the decision just played."""
        env = self._env
        if not self._counts:
            return
        living = (env.acting & self._going[:, None]).view(-1)[env.agent_of_row].float()
        flat = env.actions.view(-1, env.action_dim)[env.agent_of_row]
        self._used += (flat[:, list(RATED_CONTROLS.values())] > 0) * living[:, None]
        self._living += living
        self._going &= ~env.episode_over

    def rates(self) -> dict[str, float]:
        """Return the rates by ``class/control``."""
        return _rates(self._used, self._living, self._env.roles) if self._counts else {}


def _rates(used: Tensor, living: Tensor, roles: Tensor) -> dict[str, float]:
    """Return rates of uses ``[N, controls]`` over living decisions ``[N]`` for rows of classes ``roles [N]``."""
    rates = {}
    for role in roles.unique().tolist():
        mine = roles == role
        shares = used[mine].sum(0) / living[mine].sum().clamp_min(1.0)
        rates |= {f"{role_name(role)}/{name}": float(v) for name, v in zip(RATED_CONTROLS, shares, strict=True)}
    return rates


def episodes_event(
    records: Sequence[Any], layout: RowLayout, *, update: int, global_step: int, met: Sequence[str], full_hp: float
) -> EventEpisodes:
    """Return aggregates of the episodes that ended in an update, and a few samples; ``met`` names their opponents.

    Where both sides learned nobody won, lost or kept more than the other.
    """
    contests = [(r, name) for r, name in zip(records, met, strict=True) if not is_mirrored(r)]
    outcomes = Counter(outcome_of(r) for r, _ in contests)
    return EventEpisodes(
        update=update,
        global_step=global_step,
        count=len(records),
        wins=outcomes["win"],
        losses=outcomes["loss"],
        draws=outcomes["draw"],
        mean_return=_mean([learner_return(r) for r in records]),
        mean_length=_mean([r.length for r in records]),
        hp_margin=_mean([hp_margin(r, full_hp) for r, _ in contests]),
        reasons=dict(Counter(str(r.reason) for r in records)),
        returns_by_role=layout.returns_by_role(records),
        reward_terms=mean_terms([layout.learner_terms(r) for r in records]),
        by_opponent=by_opponent(contests),
        samples=[_sample(r, name) for r, name in zip(records[:MAX_SAMPLES], met, strict=False)],
    )


def by_opponent(contests: Sequence[tuple[Any, str]]) -> dict[str, dict[str, int]]:
    """Return wins, losses and draws against each opponent, from episodes and whom each met."""
    counts: dict[str, Counter[str]] = {}
    for record, name in contests:
        counts.setdefault(name, Counter())[outcome_of(record)] += 1
    return {name: {word: found[word] for word in ("win", "loss", "draw")} for name, found in sorted(counts.items())}


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
        returns_by_role=stats.returns_by_role,
        reward_terms=stats.reward_terms,
        actions=stats.actions,
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


TRAINER_METRICS = (
    "loss", "pg_loss", "vf_loss", "aux_loss", "entropy", "approx_kl", "grad_norm", "grad_norm_max",
    "grad_clipped_share", "explained_variance", "lr", "ent_coef", "epochs", "adv_std", "value_std", "return_std",
    "reward_std", "nonfinite", "dead_share",
)  # fmt: skip
"""Metrics that an update's record carries under the trainer's own names."""
