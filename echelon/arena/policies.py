"""Batched inference of many policies: a bounded cache of loaded policies, and rows that are each assigned to one.

Rows are grouped by policy. A native program reads and writes them where they are, in any number. Other policies compute
blocks of two fixed sizes, padded where needed: in those shapes a row's action is bit-identical whatever else is in the
batch. (Exception: in layers with fewer than 16 outputs, the width of a vector register, some processors sum each
row depending on its index.) Shapes: N rows, D observation columns, A action columns, W noise columns, H hidden units.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.actions import CHANCES
from echelon.config import require
from echelon.rl.build import FlatPolicy
from echelon.rl.host_program import ACTING_ROWS, HostPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.outside import ProcessPolicy
from echelon.rl.traced_policy import Act, TracedPolicies

BLOCK_ROWS = (160, 40)
"""Rows of a block, largest first. Small blocks lose time between operations, large ones on padding."""
CACHE_SIZE = 20
"""Default capacity of the cache [policies]."""


class LRUPolicyCache:
    """Least-recently-used cache of policies by name; pinned policies stay even beyond ``max_size``."""

    def __init__(self, max_size: int = CACHE_SIZE) -> None:
        require(max_size >= 1, "cache size", max_size, "at least 1")
        self.max_size = max_size
        self._policies: OrderedDict[str, FlatPolicy] = OrderedDict()
        self._pins: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._policies)

    def __contains__(self, name: str) -> bool:
        return name in self._policies

    def names(self) -> list[str]:
        """Return the names of cached policies, least recently used first."""
        return list(self._policies)

    def get(self, name: str) -> FlatPolicy | None:
        """Return a policy and mark it as most recently used; None if it is not cached."""
        if name in self._policies:
            self._policies.move_to_end(name)
        return self._policies.get(name)

    def put(self, name: str, policy: FlatPolicy) -> None:
        """Add a policy; the least recently used ones are evicted and moved off the accelerator."""
        if policy.training:
            raise ValueError(f"policy {name!r} is in training mode, expected evaluation mode")
        self._policies[name] = policy
        self._policies.move_to_end(name)
        self._shrink()

    def fetch(self, name: str, load: Callable[[str], FlatPolicy]) -> FlatPolicy:
        found = self.get(name)
        if found is None:
            found = load(name)
            self.put(name, found)
        return found

    def pin(self, name: str) -> None:
        """Prevent eviction of a policy; pins are counted."""
        self._pins[name] = self._pins.get(name, 0) + 1

    def unpin(self, name: str) -> None:
        """Undo one ``pin``."""
        remaining = self._pins.get(name, 0) - 1
        if remaining > 0:
            self._pins[name] = remaining
        else:
            self._pins.pop(name, None)
            self._shrink()

    def _shrink(self) -> None:
        unpinned = [name for name in self._policies if name not in self._pins]
        for name in unpinned[: max(0, len(self._policies) - self.max_size)]:
            self._evict(name)

    def _evict(self, name: str) -> None:
        policy = self._policies.pop(name, None)
        if policy is not None:
            policy.cpu()


@dataclass(frozen=True)
class _Block:
    """Rows of one policy that are computed in one call."""

    policy: FlatPolicy
    act: Act
    device: torch.device
    rows: Tensor
    """Row numbers: ``count`` rows, padded to one of ``BLOCK_ROWS`` by repeating the last; not where a program acts."""
    count: int


class GroupedPolicies:
    """N rows of one observation buffer, each assigned to a policy, with its recurrent state.

    The state of a row is on the device of its policy. ``nonfinite`` marks rows whose actions were not finite.
    """

    def __init__(self, rows: int, action_dim: int, *, device: torch.device | str = "cpu", threads: int = 1) -> None:
        self.rows, self.action_dim = rows, action_dim
        self.device = torch.device(device)
        """Device of observations and actions."""
        self.actions = torch.zeros((rows, action_dim), device=self.device)
        self.nonfinite = torch.zeros(rows, dtype=torch.bool, device=self.device)
        self.lost = torch.zeros(rows, dtype=torch.bool)
        """Rows that acted in the last step for an agent in whose place a scripted pilot has to fly."""
        self._policy_of: list[FlatPolicy | None] = [None] * rows
        self._states: dict[torch.device, LSTMState] = {}
        self._fresh = torch.ones(rows, device=self.device)
        """1 where an episode starts."""
        self.chances: Tensor | None = None
        """Probabilities of ``CHANCES`` at the last step ``[N, C]``, 0 without a policy; None if not reported."""
        self._groups: dict[bool, list[tuple[FlatPolicy, Act, NDArray[np.int64]]]] = {}
        """Policies, their act functions and their rows, by whether actions are sampled."""
        self._traced = TracedPolicies()
        self._threads = threads
        self._pool = ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="policy")
        """The other threads; they start when they are needed."""

    def assign(self, rows: Sequence[int] | Tensor, policy: FlatPolicy | None) -> None:
        """Assign rows to ``policy`` and reset their recurrent state; None unassigns them."""
        chosen = torch.as_tensor(rows, dtype=torch.long).tolist()
        if policy is not None and policy.action_dim != self.action_dim:
            raise ValueError(f"policy has {policy.action_dim} action columns, expected {self.action_dim}")
        for row in chosen:
            self._policy_of[row] = policy
        if self.chances is not None:
            self.chances[chosen] = 0.0
        self._groups.clear()
        self.reset(chosen)

    def reset(self, rows: Sequence[int] | Tensor) -> None:
        chosen = torch.as_tensor(rows, dtype=torch.long, device=self.device)
        self._fresh[chosen] = 1.0
        self.nonfinite[chosen] = False
        self.lost[chosen.cpu()] = False
        for device, state in self._states.items():
            for part in state:
                part[:, chosen.to(device)] = 0.0

    def report_chances(self) -> None:
        """Compute ``chances`` from now on, which takes a second pass of every policy."""
        if self.chances is None:
            self.chances = torch.zeros(len(self._policy_of), len(CHANCES), device=self.device)

    def state_of(self, row: int) -> LSTMState:
        """Return a copy of the recurrent state ``[1, 1, H]`` of an assigned row."""
        policy = self._policy_of[row]
        if policy is None:
            raise ValueError(f"row {row} has no policy, expected an assigned row")
        width = policy.lstm_hidden_dim
        h, c = self._state(_device_of(policy), width)
        return LSTMState(h[:, row : row + 1, :width].clone(), c[:, row : row + 1, :width].clone())

    def continue_from(self, rows: Sequence[int], state: LSTMState) -> None:
        """Give assigned rows, which are about to act, a recurrent state ``[1, 1, H]`` in the middle of an episode."""
        policy = self._policy_of[rows[0]]
        if policy is None:
            raise ValueError(f"row {rows[0]} has no policy, expected an assigned row")
        width, device = policy.lstm_hidden_dim, _device_of(policy)
        chosen = torch.as_tensor(rows, dtype=torch.long)
        for part, value in zip(self._state(device, width), state, strict=True):
            part[:, chosen.to(device), :width] = value.to(device)
        self._fresh[chosen.to(self.device)] = 0.0

    @torch.inference_mode()
    def act(self, obs: Tensor, noise: Tensor | None = None, acting: NDArray[np.bool_] | None = None) -> Tensor:
        """Return the actions ``[N, A]`` of observations ``[N, D]``; unassigned rows keep their previous actions.

        So do, with their recurrent state, rows that are False in ``acting [N]``.
        ``noise [N, W]`` is standard normal; each policy uses the columns it needs. Without noise policies use their
        mean action. Actions that are not finite become 0 and their rows are marked in ``nonfinite``.
        """
        self.lost.zero_()
        blocks = self._grouped(stochastic=noise is not None, acting=acting)
        waiting = iter(blocks)

        @torch.inference_mode()
        def work() -> None:
            for block in waiting:
                self._run_block(block, obs, noise)

        others = min(self._threads, len(blocks)) - 1
        pending = [self._pool.submit(work) for _ in range(others)]
        work()
        for future in pending:
            future.result()
        self._fresh.zero_()
        finite = torch.isfinite(self.actions).all(1)
        torch.logical_not(finite, out=self.nonfinite)
        self.actions.masked_fill_(self.nonfinite.unsqueeze(1), 0.0)
        return self.actions

    def _grouped(self, *, stochastic: bool, acting: NDArray[np.bool_] | None = None) -> list[_Block]:
        if stochastic not in self._groups:
            rows_of: dict[FlatPolicy, list[int]] = {}
            for row, policy in enumerate(self._policy_of):
                if policy is not None:
                    rows_of.setdefault(policy, []).append(row)
            for policy in rows_of:
                self._state(_device_of(policy), policy.lstm_hidden_dim)
            self._groups[stochastic] = [
                (policy, self._traced.act_function(policy, stochastic=stochastic), np.array(rows))
                for policy, rows in rows_of.items()
            ]
        return [
            block
            for policy, act, rows in self._groups[stochastic]
            for block in self._blocks(policy, act, rows if acting is None else rows[acting[rows]])
        ]

    def _blocks(self, policy: FlatPolicy, act: Act, rows: NDArray[np.int64]) -> Iterator[_Block]:
        """Yield the blocks that compute ``rows`` of a policy."""
        while len(rows):
            if isinstance(act, HostPolicy):
                size = min(len(rows), ACTING_ROWS)
            elif isinstance(policy, ProcessPolicy):
                size = len(rows)
            else:
                size = next((size for size in BLOCK_ROWS if size <= len(rows)), BLOCK_ROWS[-1])
            part, rows = rows[:size], rows[size:]
            padded = part if len(part) == size else np.pad(part, (0, size - len(part)), "edge")
            yield _Block(policy, act, _device_of(policy), torch.from_numpy(padded).to(self.device), len(part))

    def _state(self, device: torch.device, width: int) -> LSTMState:
        """Return the states of all rows on a device, at least ``width`` wide."""
        old = self._states.get(device)
        if old is None or old.h.shape[2] < width:
            with torch.inference_mode(False):  # inference tensors cannot be reset in place later
                new = LSTMState(*(torch.zeros((1, self.rows, width), device=device) for _ in range(2)))
            if old is not None:
                for part, before in zip(new, old, strict=True):
                    part[:, :, : before.shape[2]] = before
            self._states[device] = new
        return self._states[device]

    def _run_block(self, block: _Block, obs: Tensor, noise: Tensor | None) -> None:
        policy, rows, width = block.policy, block.rows, block.policy.lstm_hidden_dim
        states = self._state(block.device, width)
        if isinstance(block.act, HostPolicy) and self.device.type == "cpu" and self.chances is None:
            block.act.act_in(rows, obs, states.h[0], noise, self.actions)
            return
        device_rows = rows.to(block.device)
        before = LSTMState(*(part.index_select(1, device_rows)[:, :, :width] for part in states))
        draw = None if noise is None else noise.index_select(0, rows)[:, : policy.noise_dim].to(block.device)
        block_obs = obs.index_select(0, rows).to(block.device)
        fresh = self._fresh.index_select(0, rows).to(block.device)
        action, after = block.act(block_obs, before, fresh, draw)
        valid = rows[: block.count]
        if isinstance(policy, ProcessPolicy):
            self.lost[valid.cpu()] = policy.lost.cpu()
        if self.chances is not None:
            chances = policy.estimate(block_obs, before, fresh)[1]
            self.chances[valid] = chances[: block.count].float().to(self.device)
        self.actions[valid] = action[: block.count].to(self.device)
        for part, new in zip(states, after, strict=True):
            part[:, device_rows[: block.count], :width] = new[:, : block.count]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _device_of(policy: FlatPolicy) -> torch.device:
    return policy.obs_normalizer.scale.device
