"""Opponents that training does not change: fixed policies, opponents given by name, and the champion in the box."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from echelon import champion
from echelon.arena.standings import policy_path
from echelon.config import EnvConfig, PilotSkill, require
from echelon.env import layout
from echelon.rl.build import FlatPolicy
from echelon.rl.fitting import fitted
from echelon.rl.weights import LoadedPolicy, load_policy
from echelon.runs import RunNotFoundError
from echelon.sim.random import StreamId, draw_u32
from echelon.training.batched_env import BatchedEnv
from echelon.training.eval_plan import interface_of
from echelon.training.opponents.pool import SCRIPTED, SEED_OFFSET, level_of, sample_weighted, scripted_name
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.policy_agent import env_config_of
from echelon.training.runtime.threads import ThreadPool
from echelon.training.weights import kept_policy

NAME = "opponent"
"""Name of a single opponent within its batch."""


class FixedOpponents:
    """An opponent source that gives every environment one opponent for all episodes."""

    def __init__(self, names: Sequence[str], policies: Mapping[str, FlatPolicy]) -> None:
        self._names, self._policies = list(names), dict(policies)

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        return [self._names[env] for env, _ in episodes]

    def policy(self, name: str) -> FlatPolicy:
        return self._policies[name]

    def is_ready(self, name: str) -> bool:
        return name in self._policies

    def release(self, in_use: Collection[str]) -> None:
        """Do nothing: every policy stays in use."""

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self._names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._names = list(state["names"])


def play_against(env: BatchedEnv, policy: FlatPolicy, *, seed: int = 0, deterministic: bool = False) -> OpponentRunner:
    """Return a runner that plays ``policy`` in every episode: sampled actions, or with ``deterministic`` the mean."""
    source = FixedOpponents([NAME] * env.sizes.num_envs, {NAME: policy})
    return OpponentRunner(env, source, ThreadPool(1), seed=seed, deterministic=deterministic)


def load_champion(
    env: EnvConfig,
    device: torch.device | str = "cpu",
    name: str = champion.NAME,
    stored: Path | None = None,
    *,
    stores: bool = True,
    find: Callable[[str, str], Path] = policy_path,
) -> LoadedPolicy:
    """Return the policy ``name``, the shipped champion or that of ``opponents.champion``, which a run keeps.

    ``ValueError`` where the game of ``env`` has other observations or actions.
    """
    # a new network draws its initial weights, which must not advance the generator of training
    with torch.random.fork_rng(devices=[]):
        if name == champion.NAME:
            loaded = load_policy(champion.FOLDER, device)
        else:
            loaded = kept_policy("opponents.champion", name, name, stored, device, stores=stores, find=find)
    found, expected = (interface_of(cfg, layout.obs_dim(cfg)) for cfg in (env, env_config_of(loaded.meta)))
    if found != expected:
        described = "{0[1]} layout, {0[0]} columns".format
        raise ValueError(f"{name} cannot play with {described(found)}, expected {described(expected)}")
    return fitted(loaded, layout.obs_dim(env))


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

    def source(self, seed: int) -> "WeightedOpponents":
        """Return the opponents as a source that samples them by weight."""
        policies = {name: loaded.policy for name, loaded in self.policies.items()}
        return WeightedOpponents(self.weights, policies, seed)

    def fitted(self, env: EnvConfig, obs_dim: int) -> "NamedOpponents":
        """Return opponents for ``env`` with its ``obs_dim`` columns; ``ValueError`` for a policy of another game."""
        for name, loaded in self.policies.items():
            if interface_of(env_config_of(loaded.meta), loaded.policy.obs_dim) != interface_of(env, obs_dim):
                raise ValueError(f"opponent {name!r} has another observation layout than the environment")
        return NamedOpponents(self.weights, {name: fitted(each, obs_dim) for name, each in self.policies.items()})


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


def find_opponents(opponent: Opponent, device: torch.device | str = "cpu", what: str = "opponent") -> NamedOpponents:
    """Return the opponents that the argument names, loaded; ``ValueError`` calls an unknown one ``what``."""
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
        if (level := scripted_level(name)) is not None:
            weights[scripted_name(level)] = float(weight)
            continue
        levels = ", ".join(get_args(PilotSkill))
        require(not name.startswith(f"{SCRIPTED}:"), what, name, f"a scripted level of {levels}")
        try:
            policies[name] = load_policy(policy_path(name, what), device)
        except RunNotFoundError as error:
            raise RunNotFoundError(f"{error}, nor is it a scripted level ({levels})") from None
        weights[name] = float(weight)
    return NamedOpponents(weights, policies)


def scripted_level(name: object) -> str | None:
    """Return the level that ``name`` is, with or without its prefix; None for anything else."""
    level = (level_of(name) or name) if isinstance(name, str) else None
    return level if level in get_args(PilotSkill) else None


def plays_mean(name: str) -> bool:
    """Whether an opponent plays mean actions in evaluations, as the champion does; other policies sample theirs."""
    return name == champion.NAME
