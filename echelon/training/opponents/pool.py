"""Opponents of the learner: one per environment, sampled when an episode ends.

An ``OpponentSource`` samples opponents and holds their policies; ``OpponentMix`` is the one without a league: scripted
levels, the champion and snapshots of this run by weight. ``OpponentRunner`` acts for them. Environments in which both
sides learn have no separate opponent, and theirs is called ``self``.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.champion import NAME as CHAMPION
from echelon.config import LADDER, OpponentConfig
from echelon.config.opponents import SCRIPTED as SCRIPTED
from echelon.config.opponents import level_of as level_of
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy, policy_from
from echelon.sim.random import StreamId, draw_u32
from echelon.statistics import wilson_interval
from echelon.training.batch_options import Sides
from echelon.training.opponents.outcomes import SCORES, outcome_of

SELF = "self"
"""Name of the opponent where both sides learn."""
PAST = "past"
"""Prefix of opponent names: ``past:120``, and a field of ``MixConfig``."""
SCRIPTED_KIND = "scripted"
"""Field of ``MixConfig`` for the level ``opponents.skill``."""
SEED_OFFSET = 13371
"""Added to the run's seed, so that opponents are sampled from a separate stream."""
LEVELS = LADDER
PRIOR, PRIOR_EPISODES = 0.5, 2.0
"""Win rate against an opponent not played yet, and the episodes that it counts as."""
MEMORY = 100
"""Newest episodes over which the win rate against an opponent is averaged, since the learner changes."""
FLOOR = 0.05
"""Smallest factor before the exponent, so that opponents which are always beaten are still played now and then."""


def scripted_name(level: str) -> str:
    return f"{SCRIPTED}:{level}"


class OpponentSource(Protocol):
    """Samples opponents and holds the policies of those that are not scripted."""

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        """Return the name of the opponent of each episode: its environment and its number there."""
        ...

    def policy(self, name: str) -> FlatPolicy: ...

    def is_ready(self, name: str) -> bool:
        """Return whether the policy of an opponent is available; one that is not is never sampled again."""
        ...

    def release(self, in_use: Collection[str]) -> None:
        """Release policies that are neither in the pool nor named in ``in_use``."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Priorities:
    """Running win rates against opponents by name, and the factors on their sampling weights that follow from them.

    This is prioritised fictitious self-play (Vinyals et al., 2019): opponents are sampled by how often they win.
    """

    def __init__(self, exponent: float) -> None:
        """``exponent`` is that of the factor ``1 - win rate``; with 0 every factor is 1."""
        self.exponent = exponent
        self.win_rates: dict[str, tuple[float, int]] = {}
        """Win rate, draws counting half, and episodes up to ``MEMORY``."""

    def record(self, name: str, outcome: str) -> None:
        rate, episodes = self.win_rates.get(name, (PRIOR, 0))
        episodes = min(episodes + 1, MEMORY)
        self.win_rates[name] = (rate + (SCORES[outcome] - rate) / (episodes + PRIOR_EPISODES), episodes)

    def expect(self, name: str, score: float, matches: int) -> None:
        """Begin with the score of matches against an opponent, unless an episode against it has ended."""
        rate = (score + PRIOR * PRIOR_EPISODES) / (matches + PRIOR_EPISODES)
        self.win_rates.setdefault(name, (rate, min(matches, MEMORY)))

    def factor(self, name: str) -> float:
        """Return the factor on the sampling weight of an opponent."""
        rate, _ = self.win_rates.get(name, (PRIOR, 0))
        return max(1.0 - rate, FLOOR) ** self.exponent

    def least_win_rate(self, name: str) -> float:
        """Return the lower bound of the 95 % interval of the win rate against an opponent."""
        rate, episodes = self.win_rates.get(name, (PRIOR, 0))
        return wilson_interval(rate * episodes, episodes)[0]

    def forget(self, name: str) -> None:
        self.win_rates.pop(name, None)

    def state_dict(self) -> dict[str, list[float]]:
        """Return the win rates as plain values."""
        return {name: list(row) for name, row in self.win_rates.items()}

    def load_state_dict(self, state: Mapping[str, list[float]]) -> None:
        self.win_rates = {name: (float(rate), int(episodes)) for name, (rate, episodes) in state.items()}


class OpponentMix:
    """Scripted levels, the champion and snapshots of this run, sampled by weight."""

    def __init__(
        self,
        cfg: OpponentConfig,
        seed: int,
        make_policy: Callable[[], FlatPolicy],
        champion: LoadedPolicy | None = None,
    ) -> None:
        """``make_policy`` returns a policy of the right shape, whose weights are then loaded.

        ``champion`` is that of the mix, None where it has none.
        """
        self.cfg = cfg
        self.level: str = cfg.skill
        """Level of the opponents sampled as ``scripted``."""
        self.seed = seed + SEED_OFFSET
        self.snapshots: list[str] = []
        """Names of the snapshots in the pool, oldest first."""
        self.ratings: dict[str, float] = {}
        """Elo by snapshot."""
        self._policies: dict[str, FlatPolicy] = {}
        self._make_policy, self.champion = make_policy, champion
        self._restore_champion(None)
        self._weights = {name: share for name, share in cfg.mix.shares.items() if share > 0 and name != "self_play"}
        self.priorities = Priorities(cfg.pfsp)

    def draw(self, env: int, episode: int) -> str:
        """Return an opponent sampled by weight, a function of seed, environment, episode, pool and priorities alone."""
        return self.draw_many([(env, episode)])[0]

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        """Return what ``draw`` returns for every environment and episode."""
        return [self.draw_of_kind(kind, *key) for kind, key in zip(self._kinds(episodes), episodes, strict=True)]

    def kind(self, env: int, episode: int) -> str:
        """Return the kind of the opponent of an episode, a field of ``MixConfig``, whatever the pool contains."""
        return self._kinds([(env, episode)])[0]

    def _kinds(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        if not episodes:
            return []
        weights = {kind: share * self._priority(kind) for kind, share in self._weights.items()}
        return sample_weighted(weights, self._uniform(episodes, 0))

    def draw_of_kind(self, kind: str, env: int, episode: int) -> str:
        """Return the opponent of an episode, of a kind that is a field of ``MixConfig``."""
        names = self._names_of(kind)
        if len(names) == 1:
            return names[0]
        return sample_weighted({name: self._factor(name) for name in names}, self._uniform([(env, episode)], 1))[0]

    def record_outcomes(self, episodes: Sequence[Any], opponents: Sequence[str]) -> None:
        for record, name in zip(episodes, opponents, strict=True):
            if name != SELF:
                self.record_outcome(name, outcome_of(record))

    def record_outcome(self, name: str, outcome: str) -> None:
        """Record the outcome of an episode against an opponent, which its priority follows."""
        self.priorities.record(name, outcome)

    def policy(self, name: str) -> FlatPolicy:
        return self.champion.policy if self.champion and name == CHAMPION else self._policies[name]

    def is_ready(self, name: str) -> bool:
        return name in self._policies or (self.champion is not None and name == CHAMPION)

    def add(self, policy: FlatPolicy, update: int) -> str:
        """Add a frozen copy of ``policy`` and return its name; beyond ``past_keep`` the pool is thinned evenly."""
        name = f"{PAST}:{update}"
        self._policies[name] = copy.deepcopy(policy).eval().requires_grad_(False)
        self.snapshots = [*(n for n in self.snapshots if n != name), name]
        if len(self.snapshots) > self.cfg.past_keep:
            del self.snapshots[most_redundant([int(n.rpartition(":")[2]) for n in self.snapshots])]
        return name

    def release(self, in_use: Collection[str]) -> None:
        """Release snapshots that are neither in the pool nor in use."""
        for name in [n for n in self._policies if n not in self.snapshots and n not in in_use]:
            del self._policies[name]
            self.ratings.pop(name, None)
            self.priorities.forget(name)

    def rating_opponents(self, count: int) -> list[str]:
        """Return at most ``count`` snapshots of the pool, spread from the oldest to the newest."""
        last = len(self.snapshots) - 1
        if last < count:
            return list(self.snapshots)
        steps = max(1, count - 1)
        return [self.snapshots[round(last * i / steps)] for i in range(count)] if count > 1 else [self.snapshots[-1]]

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as tensors and plain values, weights included."""
        weights = {name: policy.state_dict() for name, policy in self._policies.items()}
        state = {"level": self.level, "kept": list(self.snapshots), "ratings": dict(self.ratings), "weights": weights}
        if self.champion is not None:
            # Echelon may come with another champion by the time the run is resumed
            state["champion"] = {"meta": self.champion.meta, "weights": self.champion.policy.state_dict()}
        return {**state, "win_rates": self.priorities.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level, self.snapshots, self.ratings = state["level"], list(state["kept"]), dict(state["ratings"])
        self.priorities.load_state_dict(state.get("win_rates", {}))
        self._policies = {}
        for name, weights in state["weights"].items():
            policy = self._make_policy()
            policy.load_state_dict(weights)
            self._policies[name] = policy.eval().requires_grad_(False)
        self._restore_champion(state.get("champion"))

    def _restore_champion(self, saved: Mapping[str, Any] | None) -> None:
        """Take the champion of a checkpoint where it is another one than the current; set which actions it plays."""
        if self.champion is None:
            return
        if saved is not None and saved["meta"].get("id") != self.champion.meta.get("id"):
            device = self.champion.policy.obs_normalizer.scale.device
            with torch.random.fork_rng(devices=[]):
                self.champion = LoadedPolicy(policy_from(saved["meta"], saved["weights"], device), saved["meta"])
        self.champion.policy.takes_mean = self.cfg.champion_mean

    def _names_of(self, kind: str) -> list[str]:
        """Return the opponents of a kind: snapshots, else the champion or a scripted level."""
        if kind == PAST:
            return self.snapshots
        return [CHAMPION if kind == CHAMPION else scripted_name(self.level if kind == SCRIPTED_KIND else kind)]

    def _factor(self, name: str) -> float:
        return self.priorities.factor(name)

    def _priority(self, kind: str) -> float:
        """Return the factor on the share of a kind: the mean of its opponents, without any that of a new one."""
        factors = [self._factor(name) for name in self._names_of(kind) or [""]]
        return sum(factors) / len(factors)

    def _uniform(self, episodes: Sequence[tuple[int, int]], draw: int) -> NDArray[np.float64]:
        """Return a uniform number in [0, 1) for each environment and episode ``[n]``."""
        env, episode = np.array(episodes, np.int64).reshape(-1, 2).T
        return draw_u32(self.seed, StreamId.AGENT, episode, env, draw) / 2.0**32


def sample_weighted(weights: Mapping[str, float], at: NDArray[np.float64]) -> list[str]:
    """Return the names at the shares ``at [n]`` in [0, 1) of the sum of ``weights``."""
    names = list(weights)
    bounds = np.cumsum(np.array(list(weights.values()), np.float64))
    found = np.searchsorted(bounds, at * bounds[-1], side="right")
    return [names[i] for i in np.minimum(found, len(names) - 1)]


def most_redundant(updates: Sequence[int]) -> int:
    """Return the index whose removal leaves the updates most evenly spread; neither the first nor the last of many."""
    if len(updates) < 3:
        return 0
    return min(range(1, len(updates) - 1), key=lambda i: (updates[i + 1] - updates[i - 1], i))


def assign_sides(num_envs: int, cfg: OpponentConfig) -> Sides:
    """Return the learning side and the side of policy opponents of each environment; self-play has the last ones."""
    share = cfg.mix.shares["self_play"]
    self_play = round(num_envs * share)
    if 0 < share < 1:
        self_play = min(max(1, self_play), num_envs - 1)
    against_opponents = num_envs - self_play
    opponents = "red" if cfg.mix.uses_frozen_policies else "none"
    return Sides(
        ["blue"] * against_opponents + ["both"] * self_play, [opponents] * against_opponents + ["none"] * self_play
    )
