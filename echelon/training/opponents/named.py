"""The one opponent argument of the Python interfaces: a scripted level, a policy, or a mix of such names by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from echelon import champion
from echelon.arena.standings import policy_path
from echelon.config import EnvConfig, PilotSkill, require
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.sim.random import StreamId, draw_u32
from echelon.training.opponents.champion import interface_of
from echelon.training.opponents.fixed import FixedOpponents
from echelon.training.opponents.pool import SCRIPTED, SEED_OFFSET, level_of, sample_weighted, scripted_name
from echelon.training.policy_agent import env_config_of

Opponent = str | Path | LoadedPolicy | Mapping[str, float]
"""A scripted level (``medium`` or ``heuristic:medium``), ``champion``, a run, a checkpoint, an exported file, a league
entry, a loaded policy; or a mix, weights by such names: ``{"easy": 1, "champion": 3}``."""
LOADED = "policy"
"""Name of a loaded policy among opponents."""


@dataclass(frozen=True)
class NamedOpponents:
    """Opponents with their weights and policies, by the names that an ``OpponentRunner`` uses."""

    weights: Mapping[str, float]
    policies: Mapping[str, LoadedPolicy]

    @property
    def single_level(self) -> str | None:
        """The scripted level that is the only opponent, None for policies and mixes."""
        return level_of(next(iter(self.weights))) if len(self.weights) == 1 else None

    def source(self, seed: int) -> WeightedOpponents:
        """Return the opponents as a source that samples them by weight."""
        policies = {name: loaded.policy for name, loaded in self.policies.items()}
        return WeightedOpponents(self.weights, policies, seed)

    def check(self, env: EnvConfig, obs_dim: int) -> None:
        """Raise ``ValueError`` for a policy of another game than ``env`` with its ``obs_dim`` columns."""
        for name, loaded in self.policies.items():
            if interface_of(env_config_of(loaded.meta), loaded.policy.obs_dim) != interface_of(env, obs_dim):
                raise ValueError(f"opponent {name!r} has another observation layout than the environment")


class WeightedOpponents(FixedOpponents):
    """An opponent source that samples every episode's opponent by weight."""

    def __init__(self, weights: Mapping[str, float], policies: Mapping[str, FlatPolicy], seed: int) -> None:
        super().__init__(list(weights), policies)
        self._weights, self._seed = dict(weights), seed + SEED_OFFSET

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        """Return the opponent of each (environment, episode), a function of them and the seed alone."""
        if not episodes:
            return []
        env, episode = np.array(episodes, np.int64).T
        draws = np.asarray(draw_u32(self._seed, StreamId.AGENT, episode, env, 0), np.float64)
        return sample_weighted(self._weights, draws / 2.0**32)


def find_opponents(opponent: Opponent, device: torch.device | str = "cpu") -> NamedOpponents:
    """Return the opponents that the argument names, with their policies loaded; ``ValueError`` for an unknown name."""
    if isinstance(opponent, LoadedPolicy):
        return NamedOpponents({LOADED: 1.0}, {LOADED: opponent})
    if isinstance(opponent, (str, Path)):
        opponent = {str(opponent): 1.0}
    require(isinstance(opponent, Mapping) and len(opponent) > 0, "opponent", opponent, "a name, or weights by name")
    weights: dict[str, float] = {}
    policies: dict[str, LoadedPolicy] = {}
    for name, weight in opponent.items():
        positive = isinstance(weight, (int, float)) and 0 < weight <= 1e6
        require(positive, f"weight of opponent {name!r}", weight, "a number above 0, at most 1e6")
        level = level_of(name) or name
        if level in get_args(PilotSkill):
            weights[scripted_name(level)] = float(weight)
            continue
        levels = ", ".join(get_args(PilotSkill))
        require(not name.startswith(f"{SCRIPTED}:"), "opponent", name, f"a scripted level of {levels}")
        try:
            policies[name] = load_policy(policy_path(name, "opponent"), device)
        except ValueError as error:
            raise ValueError(f"{error}, nor is it a scripted level ({levels})") from None
        weights[name] = float(weight)
    return NamedOpponents(weights, policies)


def plays_mean(name: str) -> bool:
    """Whether an opponent plays mean actions in evaluations, as the champion does; other policies sample theirs."""
    return name == champion.NAME
