"""Statistics and events of training, made from the learner's metrics and from finished episodes.

Everything is from the learner's point of view. Averages over the newest episodes are in ``EpisodeStats``, which is
saved with a checkpoint. Shapes: ``E environment, M mech, N learner row``.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.actions import RATED_CONTROLS
from echelon.sim.arsenal import Chassis
from echelon.telemetry.events import EventEpisodes
from echelon.training.batched_env import BatchedEnv
from echelon.training.opponents.outcomes import hp_margin, is_self_play, learner_return, outcome_of
from echelon.training.rollout import RolloutBuffer

WINDOW = 100
"""Number of episodes of running averages."""
MIRRORED = "mirrored"
"""Outcome of an episode in which both sides learned, as checkpoints store it."""
MAX_SAMPLES = 32
"""Largest number of single episodes in one event."""


EPISODE_STATISTICS: dict[str, tuple[str, Callable[[Any, "RowLayout"], float]]] = {
    "avg_return": ("return", lambda record, layout: learner_return(record)),
    "avg_length": ("length", lambda record, layout: int(record.length)),
}
"""Averaged statistics of episodes: field of ``EventUpdate`` -> key in a saved row, and value of a finished episode."""


class EpisodeStats:
    """Running statistics of the newest episodes; to add one, add a row to ``EPISODE_STATISTICS``."""

    def __init__(self, size: int = WINDOW) -> None:
        self.rows: deque[dict[str, Any]] = deque(maxlen=size)

    def add(self, records: Sequence[Any], layout: "RowLayout") -> None:
        for record in records:
            self.rows.append(
                {key: measure(record, layout) for key, measure in EPISODE_STATISTICS.values()}
                | {
                    "outcome": MIRRORED if is_self_play(record) else outcome_of(record),
                    "terms": layout.learner_terms(record),
                }
            )

    def averages(self) -> dict[str, float]:
        """Return the episode fields of ``EventUpdate``; self-play episodes count in no rate."""
        if not self.rows:
            return {}
        outcomes = Counter(row["outcome"] for row in self.rows if row["outcome"] != MIRRORED)
        count = outcomes.total()
        return {name: _mean([row[key] for row in self.rows]) for name, (key, _) in EPISODE_STATISTICS.items()} | {
            "win_rate": outcomes["win"] / count if count else math.nan,
            "loss_rate": outcomes["loss"] / count if count else math.nan,
            "draw_rate": outcomes["draw"] / count if count else math.nan,
            "battles": count,
        }

    def reward_terms(self) -> dict[str, float]:
        """Return the mean sum of each reward term per mech and episode; rows saved before a term do not count in it."""
        return mean_terms([row["terms"] for row in self.rows])

    def state(self) -> list[dict[str, Any]]:
        return list(self.rows)

    def load(self, rows: list[dict[str, Any]]) -> None:
        self.rows.clear()
        self.rows.extend(rows)


class RowLayout:
    """Which mechs of each environment learn, and their classes."""

    def __init__(self, env: BatchedEnv) -> None:
        row_of = env.rows.row_of.cpu().numpy()
        roles = env.rows.roles.cpu().numpy()
        self.learns = row_of >= 0
        """[E, M]"""
        self.role_of = np.where(self.learns, roles[np.clip(row_of, 0, None)], -1)
        """Mech class id [E, M], -1 for mechs that do not learn."""
        self.reward_names = tuple(env.results.names)

    def learner_terms(self, record: Any) -> dict[str, float]:
        """Return each reward term's sum over the episode, averaged over the learner's mechs."""
        terms = np.asarray(record.terms)[self.learns[record.env] & record.present]
        means = terms.mean(0) if len(terms) else np.zeros(len(self.reward_names))
        return {name: float(value) for name, value in zip(self.reward_names, means, strict=True)}

    def returns_by_role(self, records: Sequence[Any]) -> dict[str, list[float]]:
        """Return the returns of the learner's mechs in the episodes, by class."""
        returns: dict[int, list[float]] = {}
        for record in records:
            for role, value, present in zip(self.role_of[record.env], record.returns, record.present, strict=True):
                if role >= 0 and present:
                    returns.setdefault(int(role), []).append(float(value))
        return {role_name(role): values for role, values in sorted(returns.items())}


def role_name(role: int) -> str:
    return Chassis(role).name.lower()


def mean_terms(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each reward term over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _mean([row[name] for row in rows if name in row]) for name in names}


def activation_rates(buffer: RolloutBuffer) -> dict[str, float]:
    """Return the rate at which living mechs activate each control, by ``class/control``."""
    if buffer.actions.shape[-1] <= max(RATED_CONTROLS.values()):
        return {}
    used = (buffer.actions[..., list(RATED_CONTROLS.values())] > 0) * buffer.alive.unsqueeze(-1)
    return _rates(used.sum(0), buffer.alive.sum(0), buffer.roles)


class Estimates(NamedTuple):
    """What a policy expects before a step, per row."""

    value: Tensor
    """Value ``[N]``."""
    chances: Tensor
    """Probabilities of ``echelon.actions.CHANCES`` ``[N, C]``."""


class EpisodeObserver:
    """Follows the episodes of an evaluation, such as a recording."""

    def begin(self) -> None:
        """Called after the reset of all environments."""

    def before_step(self, estimate: Callable[[], Estimates]) -> None:
        """Called before each step; ``estimate`` computes what the policy expects and how likely its choices are."""

    def after_step(self) -> None:
        """Called after each step."""


class ActionCounter(EpisodeObserver):
    """Counts control activations of a batch's learners in their first episode."""

    def __init__(self, env: BatchedEnv) -> None:
        self._env = env
        self._has_controls = env.sizes.action_dim > max(RATED_CONTROLS.values())
        self.begin()

    def begin(self) -> None:
        env, device = self._env, self._env.rows.obs.device
        self._running = torch.ones(env.sizes.num_envs, dtype=torch.bool, device=device)
        self._used = torch.zeros(env.rows.count, len(RATED_CONTROLS), device=device)
        self._living = torch.zeros(env.rows.count, device=device)

    def after_step(self) -> None:
        env = self._env
        if not self._has_controls:
            return
        living = env.rows.of_mechs(env.results.acting & self._running[:, None]).float()
        flat = env.rows.acted()
        self._used += (flat[:, list(RATED_CONTROLS.values())] > 0) * living[:, None]
        self._living += living
        self._running &= ~env.results.over

    def rates(self) -> dict[str, float]:
        return _rates(self._used, self._living, self._env.rows.roles) if self._has_controls else {}

    def counts(self) -> list[dict[str, tuple[int, int]]]:
        """Return for every environment the active steps and the living steps by ``class/control``."""
        env, found = self._env, [dict[str, tuple[int, int]]() for _ in range(self._env.sizes.num_envs)]
        if not self._has_controls:
            return found
        used, living = self._used.long().tolist(), self._living.long().tolist()
        for row, (e, role) in enumerate(zip(env.rows.env.tolist(), env.rows.roles.tolist(), strict=True)):
            for name, active in zip(RATED_CONTROLS, used[row], strict=True):
                key = f"{role_name(role)}/{name}"
                before = found[e].get(key, (0, 0))
                found[e][key] = before[0] + active, before[1] + living[row]
        return found


def _rates(used: Tensor, living: Tensor, roles: Tensor) -> dict[str, float]:
    """Return rates of uses ``[N, controls]`` over living steps ``[N]`` for rows of classes ``roles [N]``."""
    rates = {}
    for role in roles.unique().tolist():
        rows = roles == role
        shares = used[rows].sum(0) / living[rows].sum().clamp_min(1.0)
        rates |= {f"{role_name(role)}/{name}": float(v) for name, v in zip(RATED_CONTROLS, shares, strict=True)}
    return rates


def episodes_event(
    records: Sequence[Any], layout: RowLayout, *, update: int, global_step: int, opponents: Sequence[str]
) -> EventEpisodes:
    """Return aggregates of the episodes that ended in an update, and a few samples.

    ``opponents`` names the opponent of each episode. Self-play episodes count in no outcome and no HP margin.
    """
    contests = [(r, name) for r, name in zip(records, opponents, strict=True) if not is_self_play(r)]
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
        hp_margin=_mean([hp_margin(r) for r, _ in contests]),
        reasons=dict(Counter(str(r.reason) for r in records)),
        returns_by_role={role: _mean(returns) for role, returns in layout.returns_by_role(records).items()},
        reward_terms=mean_terms([layout.learner_terms(r) for r in records]),
        by_opponent=outcomes_by_opponent(contests),
        samples=[_sample(r, name) for r, name in zip(records[:MAX_SAMPLES], opponents, strict=False)],
    )


def outcomes_by_opponent(contests: Sequence[tuple[Any, str]]) -> dict[str, dict[str, int]]:
    """Return wins, losses and draws against each opponent, from episodes and their opponents."""
    counts: dict[str, Counter[str]] = {}
    for record, name in contests:
        counts.setdefault(name, Counter())[outcome_of(record)] += 1
    return {
        name: {outcome: found[outcome] for outcome in ("win", "loss", "draw")} for name, found in sorted(counts.items())
    }


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
