"""Policies that fly single mechs of matches in progress, each match with noise of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import warp as wp

from echelon.actions import TARGET_DIM
from echelon.arena.policies import GroupedPolicies
from echelon.arena.policy_runner import NOISE_DECISIONS, checked_policy
from echelon.env.engine import Engine
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import LoadedPolicy


class BranchPilots:
    """Flies the mechs of ``policies`` (by mech) in every environment of an engine; a context manager.

    ``attach`` is called before the engine's first observation. Without ``start`` policies begin with the recurrent
    state zero; ``states`` returns and ``start`` sets those of one environment. The engine also writes observations of
    the mechs ``observed``.
    """

    def __init__(self, policies: Mapping[int, LoadedPolicy], threads: int = 1, *, observed: Sequence[int] = ()) -> None:
        self._policies, self._threads, self._observed = dict(policies), threads, list(observed)
        self._grouped: GroupedPolicies | None = None
        self._generators: list[torch.Generator] = []

    def attach(self, engine: Engine) -> None:
        """Let ``engine`` write observations of the policies' mechs, and assign the policies."""
        if not self._policies and not self._observed:
            return
        envs, mechs, device = engine.num_envs, engine.num_mechs, torch.device(engine.batch.device)
        total = envs * mechs
        self._obs = torch.zeros((1, total, engine.obs_dim), device=device)
        self._final = torch.zeros((1, total, engine.obs_dim), device=device)
        engine.attach(wp.from_torch(self._obs), wp.from_torch(self._final))
        row_of = np.full((envs, mechs), -1, np.int32)
        numbers = np.arange(total, dtype=np.int32).reshape(envs, mechs)
        self._grouped = GroupedPolicies(total, engine.action_dim, device=device, threads=self._threads)
        for loaded in {id(policy): policy for policy in self._policies.values()}.values():
            flown = [mech for mech, policy in self._policies.items() if policy is loaded]
            row_of[:, flown] = numbers[:, flown]
            self._grouped.assign(numbers[:, flown].reshape(-1).tolist(), checked_policy(loaded, engine))
        flown_rows = row_of[row_of >= 0]
        row_of[:, self._observed] = numbers[:, self._observed]
        engine.batch.set("row_of", row_of)
        self._rows = torch.as_tensor(flown_rows.reshape(-1), dtype=torch.long, device=device)
        self._actions = wp.to_torch(engine.batch["actions"]).view(total, engine.action_dim)
        width = engine.action_dim + TARGET_DIM + 1
        self._noise_buffer = torch.zeros((envs, NOISE_DECISIONS, mechs, width))
        self._drawn = 0

    @property
    def observations(self) -> torch.Tensor:
        """Return the observations ``[N, D]`` of all mechs, by environment and mech; those not written are 0."""
        return self._obs[0]

    def states(self) -> dict[int, LSTMState]:
        assert self._grouped is not None or not self._policies
        return {mech: self._grouped.state_of(mech) for mech in self._policies} if self._grouped else {}

    def start(self, states: Mapping[int, LSTMState], seeds: Sequence[int] | None) -> None:
        """Start every environment from these recurrent states, by mech, and with noise of its seed.

        Mechs without a state start from zero. Policies use their mean action without ``seeds``.
        """
        if self._grouped is None:
            return
        envs, mechs = self._noise_buffer.shape[0], self._noise_buffer.shape[2]
        for mech, state in states.items():
            self._grouped.continue_from([env * mechs + mech for env in range(envs)], state)
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds] if seeds is not None else []
        self._drawn = 0

    def warm_up(self) -> None:
        """Compute an action of every policy, so that the first step takes no longer than others; states become zero."""
        if self._grouped is None:
            return
        self._grouped.act(self._obs[0], self._noise_buffer[:, 0].flatten(0, 1).to(self._obs.device))
        self._grouped.reset(range(self._grouped.rows))

    def act(self) -> None:
        """Write the policies' actions into the engine; those that are not finite become 0."""
        if self._grouped is None:
            return
        actions = self._grouped.act(self._obs[0], self._noise())
        self._actions.index_copy_(0, self._rows, actions.index_select(0, self._rows))
        self._grouped.nonfinite.zero_()

    def stop(self, envs: Sequence[int]) -> None:
        if self._grouped is None or not len(envs):
            return
        mechs = self._noise_buffer.shape[2]
        rows = [env * mechs + mech for env in envs for mech in self._policies]
        self._grouped.assign(rows, None)
        remaining = ~torch.isin(self._rows, torch.as_tensor(rows, device=self._rows.device))
        self._rows = self._rows[remaining]

    def _noise(self) -> torch.Tensor | None:
        """Return this step's noise ``[N, W]``, from a sequence per environment; None for mean actions."""
        if not self._generators:
            return None
        index = self._drawn % NOISE_DECISIONS
        if index == 0:
            for buffer, generator in zip(self._noise_buffer, self._generators, strict=True):
                buffer.normal_(generator=generator)
        self._drawn += 1
        return self._noise_buffer[:, index].flatten(0, 1).to(self._obs.device)

    def close(self) -> None:
        if self._grouped is not None:
            self._grouped.close()

    def __enter__(self) -> BranchPilots:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
