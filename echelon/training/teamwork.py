"""Teamwork of a policy: teams that it controls in part, shared targets, times of first hits.

``echelon eval --teamwork`` plays the same seeds in every condition of a plan and compares them with the usual one.
Intervals are over seeds. Shapes: ``N row, E environment, T mech of the team, H hostile, S step, D column``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.actions import TARGET_DIM
from echelon.config import PACK_SIZE
from echelon.rl.build import FlatPolicy
from echelon.rl.traced_policy import trace_act
from echelon.statistics import Estimate, jackknife, paired_difference, team_excess, time_spread, wilson_interval
from echelon.training.episode_results import EpisodeResult, Teamwork
from echelon.training.eval_plan import Condition, EvalPart
from echelon.training.evaluation import StatelessPolicy
from echelon.training.records import EpisodeObserver

ROUNDS = 30
"""Iterations of the fit of preferences, which then change by less than 1 %."""


class TeamPolicy(StatelessPolicy):
    """A policy in one condition: another policy or a scripted level controls some of its mechs.

    The policy's mechs of a pack are consecutive in the roster, from one that rotates with the seed.
    """

    def __init__(self, env: Any, policy: FlatPolicy, condition: Condition, mate: Any, positions: Sequence[int]) -> None:
        """``mate`` is a policy or a level, ``positions`` those of the batch's seeds in the plan."""
        rows = env.rows
        seed = torch.tensor([*positions, *positions], device=rows.env.device)[rows.env]
        own = (rows.agent - seed) % PACK_SIZE < condition.own
        others = torch.zeros_like(rows.row_of, dtype=torch.bool)
        others.view(-1)[rows.agent] = ~own
        is_policy = isinstance(mate, FlatPolicy)
        self.others = others.cpu().numpy()
        """Mechs that the mate controls ``[E, M]``."""
        env.pilots.set_teacher(None if is_policy else mate, self.others)
        pilots = [(policy, own), (mate, ~own)] if is_policy else [(policy, own)]
        self._pilots = [(each, mine.unsqueeze(1)) for each, mine in pilots if mine.any()]
        self._acts = [[trace_act(each, stochastic=s) for each, _ in self._pilots] for s in (False, True)]
        self.noise_dim = max((each.noise_dim for each, _ in self._pilots), default=0)
        self._env = env

    def initial_state(self, rows: int, device: torch.device) -> Any:
        return [each.initial_state(rows, device) for each, _ in self._pilots]

    def act(self, obs: Tensor, state: Any, done: Tensor, noise: Tensor | None) -> tuple[Tensor, Any]:
        """Return actions ``[N, A]`` and the next state for ``obs [N, D]``, ``done [N]``, ``noise [N, W]`` or none."""
        actions, states = self._env.rows.acted(), []
        for (policy, mine), act, before in zip(self._pilots, self._acts[noise is not None], state, strict=True):
            chosen, after = act(obs, before, done, None if noise is None else noise[:, : policy.noise_dim])
            actions = torch.where(mine, chosen, actions)
            states.append(after)
        return actions, states


class TeamworkObserver(EpisodeObserver):
    """Follows targets and first hits of the evaluated teams."""

    def __init__(self, env: Any, dt_act: float) -> None:
        self._env, self._batch, self._dt = env, env.engine.batch, dt_act
        mechs = env.rows.row_of.shape[1]
        own = env.rows.agent.cpu().numpy().reshape(env.sizes.num_envs, -1) % mechs
        self._hostile = (own + mechs // 2) % mechs
        self._own, self._hostiles = ((np.arange(len(own))[:, None], team) for team in (own, self._hostile))

    def begin(self) -> None:
        self._running = np.ones((len(self._hostile), 1), bool)
        self._choices, self._chosen = list[NDArray[np.bool_]](), list[NDArray[np.bool_]]()
        self._contact = np.full(self._hostile.shape, -1.0)

    def before_step(self, estimate: Any) -> None:
        shown = self._batch.numpy("contact")[self._own][..., :TARGET_DIM, None] == self._hostile[:, None, None]
        self._choices.append(shown.any(2) & (self._batch.numpy("alive")[self._hostiles] > 0)[:, None])

    def after_step(self) -> None:
        target = np.where(self._running, self._batch.numpy("focus")[self._own], -1)
        self._chosen.append(target[..., None] == self._hostile[:, None])
        is_first = (self._batch.numpy("dealt")[self._own] > 0) & (self._contact < 0) & self._running
        self._contact[is_first] = len(self._chosen) * self._dt
        self._running &= ~self._env.results.over.cpu().numpy()[:, None]

    def results(self) -> list[Teamwork]:
        """Return the teamwork of each environment."""
        chosen = np.array(self._chosen)
        has_target, expected = np.asarray(chosen.any(-1)), np.zeros(chosen.shape)
        member = np.nonzero(has_target)[2] % PACK_SIZE
        expected[has_target] = independent_choices(chosen[has_target], np.array(self._choices)[has_target], member)

        def pairs(weights: NDArray[Any]) -> NDArray[Any]:
            """Return the pairs of packmates [E] with equal choices, from ``weights [S, E, T, X]`` of X choices."""
            packs = weights.reshape(*weights.shape[:2], -1, PACK_SIZE, weights.shape[-1]).astype(float)
            return (packs.sum(3) ** 2 - (packs**2).sum(3)).sum((0, 2, 3)) / 2

        columns = pairs(has_target[..., None]), pairs(chosen), pairs(expected), self._contact
        return [Teamwork(float(n), float(s), float(x), times.tolist()) for n, s, x, times in zip(*columns, strict=True)]


def independent_choices(chosen: NDArray[Any], choices: NDArray[Any], member: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability of each of the possible ``choices [R, H]`` of R mechs that choose independently.

    Each roster position ``member [R]`` has a preference for each position of hostiles, to which the probabilities are
    proportional (Luce, 1959): the likeliest ones for what was ``chosen [R, H]`` (Hunter, 2004).
    """
    kind = np.arange(chosen.shape[1]) % PACK_SIZE
    cells = (member[:, None] * PACK_SIZE + kind).ravel()

    def totals(weights: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(cells, weights.ravel(), PACK_SIZE**2).reshape(PACK_SIZE, PACK_SIZE).astype(float)

    counts, preference, shares = totals(chosen), np.ones((PACK_SIZE, PACK_SIZE)), choices.astype(float)
    for _ in range(ROUNDS):
        shares = choices * preference[member][:, kind]
        shares /= shares.sum(1, keepdims=True)
        preference *= counts / np.maximum(totals(shares), 1e-300)
    return shares


def summary(conditions: Mapping[str, Condition], results: Mapping[str, Sequence[EpisodeResult]]) -> dict[str, Any]:
    """Return the measures of each condition, and what mixed teams show by mate, as plain values."""
    wins, rows, teams = {}, [], {}
    for title, condition in conditions.items():
        ordered = sorted(results[title], key=lambda result: (result.seed, result.side))
        wins[title] = np.array([result.outcome == "win" for result in ordered]).reshape(-1, 2)
        found = [result.teamwork for result in ordered if result.teamwork]
        rows.append({"condition": title, **_measures(found, wins[title], wins[EvalPart.condition])})
        teams.setdefault(condition.mate, []).append(wins[title])
    mates = [{"mate": mate, **_mixed([*won, wins[EvalPart.condition]])} for mate, won in teams.items() if mate]
    return {"conditions": rows, "mates": mates}


def _measures(found: Sequence[Teamwork], wins: NDArray[Any], usual: NDArray[Any]) -> dict[str, Any]:
    low, high = wilson_interval(int(wins.sum()), wins.size)
    shared = np.array([[work.shared, work.expected] for work in found]).reshape(-1, 2, 2)
    times = np.array([work.contacts for work in found])
    times = np.where(times < 0, math.nan, times).reshape(len(wins), 2, -1)
    spread, permuted = time_spread(np.concatenate(times))
    return {
        **Estimate(float(wins.mean()), low, high)._asdict(),
        "difference": None if wins is usual else paired_difference(wins.mean(1) - usual.mean(1))._asdict(),
        "pairs": sum(work.pairs for work in found),
        "focus_fire": _ratio(lambda counts: counts.sum((0, 1)), shared),
        "spread_s": spread,
        "permuted_s": permuted,
        "spread": _ratio(lambda t: time_spread(np.concatenate(t)), times),
    }


def _mixed(wins: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """Return the excess of whole teams over single mechs in logits, and how mixed teams win compared with pure ones."""
    teams = np.stack(wins, axis=1)
    excess, p_value = jackknife(team_excess, teams)
    rates = teams.mean(2)
    mixing, _ = jackknife(np.mean, rates[:, 1:-1].mean(1) - rates[:, [0, -1]].mean(1))
    return {"excess": excess._asdict(), "p_value": p_value, "mixing": mixing._asdict()}


def _ratio(parts: Callable[[NDArray[Any]], Any], samples: NDArray[Any]) -> dict[str, float]:
    """Return the ratio of the two ``parts`` of samples with its interval, which is one of its logarithm."""
    with np.errstate(all="ignore"):
        found, _ = jackknife(lambda chosen: float(np.log(np.divide(*parts(chosen)))), samples)
    return Estimate(*np.exp(found).tolist())._asdict()
