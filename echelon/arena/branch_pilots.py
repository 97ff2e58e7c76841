"""Policies that fly single mechs of matches in progress, each match with noise of its own."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from echelon.arena.policy_runner import PolicyRows, checked_policy
from echelon.closing import Closing
from echelon.env.engine import Engine
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import LoadedPolicy


class BranchPilots(Closing):
    """Flies the mechs of ``policies`` (by mech) in every environment of an engine; a context manager.

    ``attach`` is called before the engine's first observation. Without ``start`` policies begin with the recurrent
    state zero; ``states`` returns and ``start`` sets those of one environment. The engine also writes observations of
    the mechs ``observed``.
    """

    def __init__(self, policies: Mapping[int, LoadedPolicy], threads: int = 1, *, observed: Sequence[int] = ()) -> None:
        self._policies, self._threads, self._observed = dict(policies), threads, list(observed)
        self._attached: PolicyRows | None = None
        self._sampled: list[int] = []
        """Environments in which policies sample their actions."""

    def attach(self, engine: Engine) -> None:
        """Let ``engine`` write observations of the policies' mechs, and assign the policies."""
        if not self._policies and not self._observed:
            return
        self._envs, self._mechs = engine.num_envs, engine.num_mechs
        self._attached = PolicyRows(engine, self._threads)
        row_of = np.full((self._envs, self._mechs), -1, np.int32)
        numbers = np.arange(self._envs * self._mechs, dtype=np.int32).reshape(row_of.shape)
        for loaded in {id(policy): policy for policy in self._policies.values()}.values():
            flown = [mech for mech, policy in self._policies.items() if policy is loaded]
            row_of[:, flown] = numbers[:, flown]
            rows = numbers[:, flown].reshape(-1).tolist()
            self._attached.grouped.assign(rows, checked_policy(loaded, engine))
        self._rows = torch.as_tensor(row_of[row_of >= 0], dtype=torch.long)
        row_of[:, self._observed] = numbers[:, self._observed]
        engine.batch.set("row_of", row_of)

    @property
    def observations(self) -> torch.Tensor:
        """Return the observations ``[N, D]`` of all mechs, by environment and mech; those not written are 0."""
        assert self._attached is not None, "attach() comes first"
        return self._attached.observations

    def states(self) -> dict[int, LSTMState]:
        return {mech: self._attached.grouped.state_of(mech) for mech in self._policies} if self._attached else {}

    def start(self, states: Mapping[int, LSTMState], seeds: Sequence[int] | None) -> None:
        """Start every environment from these recurrent states, by mech, and with noise of its seed.

        Mechs without a state start from zero. Policies use their mean action without ``seeds``.
        """
        if self._attached is None:
            return
        self.go_on(range(self._envs), states)
        self._sampled = [] if seeds is None else list(range(self._envs))
        for env, seed in enumerate(seeds or ()):
            self._attached.start_noise(env, seed)

    def go_on(self, envs: Sequence[int], states: Mapping[int, LSTMState]) -> None:
        """Give environments recurrent states, by mech."""
        if self._attached is None:
            return
        for mech, state in states.items():
            self._attached.grouped.continue_from([env * self._mechs + mech for env in envs], state)

    def warm_up(self) -> None:
        """Compute an action of every policy, so that the first step takes no longer than others; states become zero."""
        if self._attached is None:
            return
        for env in range(self._envs):
            self._attached.start_noise(env, 0)
        self._attached.act(self._rows[:0], range(self._envs), dead=True)
        self._attached.grouped.reset(range(self._attached.grouped.rows))

    def act(self) -> None:
        """Write the policies' actions into the engine; those that are not finite become 0."""
        if self._attached is not None:
            self._attached.act(self._rows, self._sampled)
            self._attached.grouped.nonfinite.zero_()

    def stop(self, envs: Sequence[int]) -> None:
        if self._attached is None or not len(envs):
            return
        rows = [env * self._mechs + mech for env in envs for mech in self._policies]
        self._attached.grouped.assign(rows, None)
        self._rows = self._rows[~torch.isin(self._rows, torch.as_tensor(rows))]

    def close(self) -> None:
        if self._attached is not None:
            self._attached.grouped.close()
