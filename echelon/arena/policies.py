"""Many policies in one batch: a bounded cache of loaded ones, and rows of observations that each has its own pilot.

Rows are grouped by policy and computed in blocks of one fixed size, padded where need be. A block's shape never
changes, so neither does what comes out of it: a row gets the same action to the last bit whatever it is computed
beside, and many policies of a few rows cost about what one of many rows does. (Of layers with fewer than 16 outputs,
the numbers in a vector register, some processors sum each row by its place.)
Shapes: ``N row, D column, A action, H hidden``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.config import require
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import Act, TracedPolicies

BLOCK_ROWS = 40
"""Rows of a block: eight packs. Smaller ones waste time between operations, larger ones on padding."""
CACHE_SIZE = 20
"""Policies kept loaded unless told otherwise."""


class LRUPolicyCache:
    """The policies used last, by name; at most ``max_size``, but for those that are pinned while they fly."""

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
        """Return what is loaded, that unused for longest first."""
        return list(self._policies)

    def get(self, name: str) -> FlatPolicy | None:
        """Return a policy and count it as just used; None if it is not loaded."""
        if name in self._policies:
            self._policies.move_to_end(name)
        return self._policies.get(name)

    def put(self, name: str, policy: FlatPolicy) -> None:
        """Keep a policy; those unused for longest go, and leave the accelerator's memory at once."""
        if policy.training:
            raise ValueError(f"policy {name!r} is in training mode, wanted evaluation mode")
        self._policies[name] = policy
        self._policies.move_to_end(name)
        self._shrink()

    def fetch(self, name: str, load: Callable[[str], FlatPolicy]) -> FlatPolicy:
        """Return a policy, loading it if need be."""
        found = self.get(name)
        if found is None:
            found = load(name)
            self.put(name, found)
        return found

    def drop(self, name: str) -> None:
        """Forget a policy whose file has changed."""
        self._evict(name)

    @contextmanager
    def pinned(self, names: Iterable[str]) -> Iterator[None]:
        """Keep these loaded, however many they are, for as long as they fly."""
        held = list(names)
        for name in held:
            self.pin(name)
        try:
            yield
        finally:
            for name in held:
                self.unpin(name)

    def pin(self, name: str) -> None:
        """Keep a policy loaded until it is unpinned as often."""
        self._pins[name] = self._pins.get(name, 0) + 1

    def unpin(self, name: str) -> None:
        """Undo one ``pin``."""
        left = self._pins.get(name, 0) - 1
        if left > 0:
            self._pins[name] = left
        else:
            self._pins.pop(name, None)
            self._shrink()

    def _shrink(self) -> None:
        loose = [name for name in self._policies if name not in self._pins]
        for name in loose[: max(0, len(self._policies) - self.max_size)]:
            self._evict(name)

    def _evict(self, name: str) -> None:
        policy = self._policies.pop(name, None)
        if policy is not None:
            policy.cpu()


@dataclass(frozen=True)
class _Block:
    """Rows of one policy that are computed together."""

    policy: FlatPolicy
    act: Act
    device: torch.device
    rows: Tensor
    """Row numbers ``[BLOCK_ROWS]``; behind the first ``count`` the last is repeated."""
    count: int


class GroupedPolicies:
    """N rows of one observation buffer, each flown by a policy of its own, with its recurrent state.

    States live on the device of the policy that a row has. ``bad`` says which rows got something that is not finite.
    """

    def __init__(self, rows: int, action_dim: int, *, device: torch.device | str = "cpu", threads: int = 1) -> None:
        self.rows, self.action_dim = rows, action_dim
        self.device = torch.device(device)
        """Where observations and actions are."""
        self.actions = torch.zeros((rows, action_dim), device=self.device)
        self.bad = torch.zeros(rows, dtype=torch.bool, device=self.device)
        self._flown_by: list[FlatPolicy | None] = [None] * rows
        self._states: dict[torch.device, LSTMState] = {}
        self._fresh = torch.ones(rows, device=self.device)
        """1 where an episode begins."""
        self._blocks: dict[bool, list[_Block]] = {}
        """By whether actions are drawn."""
        self._recordings = TracedPolicies()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="policy") if threads > 1 else None

    def assign(self, rows: Sequence[int] | Tensor, policy: FlatPolicy | None) -> None:
        """Have these rows flown by ``policy`` from the next decision on, as from an episode's start; None by nobody."""
        chosen = torch.as_tensor(rows, dtype=torch.long).tolist()
        if policy is not None and policy.action_dim != self.action_dim:
            raise ValueError(f"policy has {policy.action_dim} action columns, wanted {self.action_dim}")
        for row in chosen:
            self._flown_by[row] = policy
        self._blocks.clear()
        self.begin(chosen)

    def begin(self, rows: Sequence[int] | Tensor) -> None:
        """Forget what these rows remember: an episode begins there."""
        chosen = torch.as_tensor(rows, dtype=torch.long, device=self.device)
        self._fresh[chosen] = 1.0
        self.bad[chosen] = False
        for device, state in self._states.items():
            for part in state:
                part[:, chosen.to(device)] = 0.0

    def state_of(self, row: int) -> LSTMState:
        """Return a copy of the recurrent state ``[1, 1, H]`` of a row that somebody flies."""
        policy = self._flown_by[row]
        if policy is None:
            raise ValueError(f"row {row} is flown by nobody, wanted one that was assigned")
        width = policy.lstm_hidden_dim
        h, c = self._state(_device_of(policy), width)
        return LSTMState(h[:, row : row + 1, :width].clone(), c[:, row : row + 1, :width].clone())

    @torch.inference_mode()
    def act(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the actions ``[N, A]`` of observations ``[N, D]``; rows that nobody flies keep theirs.

        ``noise [N, W]`` is the standard normal draw, of which each policy takes the columns it needs; without it
        policies fly their mean action. Actions that are not finite become 0 and their rows ``bad``.
        """
        blocks = self._grouped(stochastic=noise is not None)

        def fly(block: _Block) -> None:
            with torch.inference_mode():
                self._fly(block, obs, noise)

        if self._pool is None or len(blocks) < 2:
            for block in blocks:
                fly(block)
        else:
            list(self._pool.map(fly, blocks))
        self._fresh.zero_()
        return self.actions

    def _grouped(self, *, stochastic: bool) -> list[_Block]:
        if stochastic not in self._blocks:
            of: dict[int, tuple[FlatPolicy, list[int]]] = {}
            for row, policy in enumerate(self._flown_by):
                if policy is not None:
                    of.setdefault(id(policy), (policy, []))[1].append(row)
            self._blocks[stochastic] = [
                self._block(policy, rows[start : start + BLOCK_ROWS], stochastic)
                for policy, rows in of.values()
                for start in range(0, len(rows), BLOCK_ROWS)
            ]
        return self._blocks[stochastic]

    def _block(self, policy: FlatPolicy, rows: list[int], stochastic: bool) -> _Block:
        device = _device_of(policy)
        self._state(device, policy.lstm_hidden_dim)
        padded = rows + [rows[-1]] * (BLOCK_ROWS - len(rows))
        return _Block(
            policy,
            self._recordings.act_function(policy, stochastic=stochastic),
            device,
            torch.tensor(padded, device=self.device),
            len(rows),
        )

    def _state(self, device: torch.device, width: int) -> LSTMState:
        """Return the states of all rows on a device, at least ``width`` wide."""
        old = self._states.get(device)
        if old is None or old.h.shape[2] < width:
            with torch.inference_mode(False):  # else they could not be cleared outside of it
                new = LSTMState(*(torch.zeros((1, self.rows, width), device=device) for _ in range(2)))
            if old is not None:
                for part, before in zip(new, old, strict=True):
                    part[:, :, : before.shape[2]] = before
            self._states[device] = new
        return self._states[device]

    def _fly(self, block: _Block, obs: Tensor, noise: Tensor | None) -> None:
        policy, rows, there = block.policy, block.rows, block.rows.to(block.device)
        width = policy.lstm_hidden_dim
        states = self._state(block.device, width)
        before = LSTMState(*(part.index_select(1, there)[:, :, :width] for part in states))
        drawn = None if noise is None else noise.index_select(0, rows)[:, : policy.noise_dim].to(block.device)
        seen, fresh = obs.index_select(0, rows).to(block.device), self._fresh.index_select(0, rows).to(block.device)
        action, after = block.act(seen, before, fresh, drawn)
        mine, action = rows[: block.count], action[: block.count].to(self.device)
        finite = torch.isfinite(action).all(1)
        self.bad[mine] = ~finite
        self.actions[mine] = torch.where(finite.unsqueeze(1), action, 0.0)
        for part, new in zip(states, after, strict=True):
            part[:, there[: block.count], :width] = new[:, : block.count]

    def close(self) -> None:
        """Release the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _device_of(policy: FlatPolicy) -> torch.device:
    return policy.obs_normalizer.scale.device
