"""Policies as opponents that do not change: one per environment for all episodes, as evaluations and ratings need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from echelon.rl.build import FlatPolicy
from echelon.training.batched_env import BatchedEnv
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.threads import ThreadPool

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
