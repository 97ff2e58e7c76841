"""Behaviour cloning: a policy from demonstrations alone, as a start for training (``echelon demos clone``).

Every row of a shard is the sequence of one match, evaluated in chunks whose recurrent state is carried on and detached.
The loss is that of the imitation phase: the likelihood of the recorded action, and regression of the value on the
discounted rewards. Shapes: ``T step, N row, B sequence``.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from echelon.actions import QUANTISATION_LEVELS
from echelon.config import RunConfig, env_signature
from echelon.demos import Arrays, Demonstrations
from echelon.env import layout
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.lstm_state import LSTMState
from echelon.training.normalization import ReturnNormalizer, update_obs_normalizer
from echelon.training.starting_point import RETURN_STATISTICS, plain_statistics
from echelon.training.weights import export_policy_weights

SEQUENCES = 64
"""Most rows of a minibatch."""
CHUNK = 32
"""Steps of a minibatch."""


@dataclass(frozen=True)
class Epoch:
    """Means of one pass over all demonstrations."""

    number: int
    imitation_loss: float
    vf_loss: float


class _Batch(NamedTuple):
    """A shard as tensors ``[T, N, ...]``."""

    obs: Tensor
    actions: Tensor
    returns: Tensor
    alive: Tensor
    """1 where a living mech acted."""


def clone(
    demos: Demonstrations,
    config: RunConfig,
    target: Path,
    *,
    epochs: int,
    on_epoch: Callable[[Epoch], object] = lambda epoch: None,
) -> Epoch:
    """Train the network of ``config`` on ``demos``, write it as one file for ``--start-from``; return the last epoch.

    Environment and discount are those of the demonstrations; learning rate, coefficients and seed those of ``config``.
    """
    env = demos.manifest.env
    ppo = replace(config.ppo, gamma=env.gamma)
    config = replace(config, env=env, ppo=ppo, start_from="", model=replace(config.model, critic="own"))
    torch.manual_seed(config.seed)
    obs_dim, action_dim = demos.manifest.obs_dim, demos.manifest.action_dim
    widths = layout.tail_widths(config, obs_dim)
    policy = build_model(config.model, obs_dim, action_dim, *widths)
    normalizable = torch.tensor([column.normalizable for column in layout.columns(env)])
    policy.set_normalizable(normalizable & config.ppo.obs_norm, layout.hidden_columns(config))
    learner = _Learner(policy, config)
    result = Epoch(0, float("nan"), float("nan"))
    for number in range(1, epochs + 1):
        result = Epoch(number, *learner.epoch(demos, first=number == 1))
        on_epoch(result)
    meta = {
        "obs_dim": obs_dim,
        "action_dim": action_dim,
        **dict(zip(("map_width", "extra_width"), widths, strict=True)),
        "kind": config.model.kind,
        "model_cfg": asdict(config.model),
        "env_cfg": env_signature(env),
        "args": asdict(config),
        "update": 0,
        "global_step": 0,
        RETURN_STATISTICS: plain_statistics(learner.returns.state_dict()),
    }
    export_policy_weights(policy, meta, target)
    return result


class _Learner:
    """Optimizer and statistics of a policy that is cloned."""

    def __init__(self, policy: FlatPolicy, config: RunConfig) -> None:
        self.policy, self.config = policy, config
        self.returns = ReturnNormalizer()
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.ppo.lr, eps=config.ppo.adam_eps)
        self._generator = torch.Generator().manual_seed(config.seed)

    def epoch(self, demos: Demonstrations, *, first: bool) -> tuple[float, float]:
        """Train once on every step; return the mean losses. The first epoch also fills the normalizers."""
        totals = torch.zeros(3)
        for number in torch.randperm(len(demos), generator=self._generator).tolist():
            batch = _as_batch(demos.shard(number), self.config.ppo.gamma)
            if first:
                update_obs_normalizer(self.policy.obs_normalizer, batch.obs, batch.alive)
                self.returns.update(batch.returns[batch.alive > 0])
            rows = torch.randperm(batch.obs.shape[1], generator=self._generator)
            for group in rows.split(SEQUENCES):
                totals += self._train(batch, group)
        imitation, value, count = totals.tolist()
        return imitation / max(count, 1.0), value / max(count, 1.0)

    def _train(self, batch: _Batch, rows: Tensor) -> Tensor:
        """Train on the sequences ``rows [B]``, chunk by chunk; return summed losses and number of samples ``[3]``."""
        state, totals = self.policy.initial_state(len(rows)), torch.zeros(3)
        for first in range(0, len(batch.obs), CHUNK):
            obs, actions, returns, alive = (part[first : first + CHUNK, rows] for part in batch)
            count = alive.sum()
            if not count:
                break
            scores = self.policy.score_sequence(obs, actions, torch.zeros_like(alive), state, None, actions)
            assert scores.imitation_losses is not None, "labels were given"
            errors = self.returns.normalize(returns) - self.returns.normalize(scores.values)
            losses = torch.stack([scores.imitation_losses, 0.5 * errors.square(), torch.ones_like(alive)]) * alive
            sums = losses.sum((1, 2))
            imitation, value, _ = sums / count
            self.optimizer.zero_grad(set_to_none=True)
            (self.config.teacher.imitation_coef * imitation + self.config.ppo.vf_coef * value).backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.ppo.max_grad_norm)
            self.optimizer.step()
            state = LSTMState(scores.state.h.detach(), scores.state.c.detach())
            totals += sums.detach()
        return totals


def _as_batch(shard: Arrays, gamma: float) -> _Batch:
    return _Batch(
        obs=torch.from_numpy(shard["obs"].astype(np.float32)),
        actions=torch.from_numpy(shard["actions"] / np.float32(QUANTISATION_LEVELS)),
        returns=torch.from_numpy(discounted(shard["rewards"], gamma)),
        alive=torch.from_numpy(shard["alive"].astype(np.float32)),
    )


def discounted(rewards: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
    """Return the discounted sums ``[T, N]`` of later ``rewards [T, N]``, which are 0 after the end of a match."""
    returns = rewards.copy()
    for t in range(len(rewards) - 2, -1, -1):
        returns[t] += gamma * returns[t + 1]
    return returns
