"""A critic of teams that values rollouts beside the policy, which keeps a value of its own and acts without it.

Each mech of both teams is a token and the match is another; none has a number, so the order of the mechs of a side does
not matter. A mech that is dead or absent is not read. One pass values all mechs of a team, each at its own token.

Shapes: ``T step, N learner row, B state of a team, K mech of the own team, V token, S column of the central state,
W width``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.config import PPOConfig
from echelon.rl.actor_critic import CRITIC_GAIN, init_linear
from echelon.rl.packed_obs import in_turn
from echelon.rl.regime import Regime
from echelon.training.ppo.optimizer import load_moments, saved_state
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime.devices import upload
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool

WIDTH, HEADS = 64, 4
"""Width of a token, and heads of attention."""
STATES_OF_THREAD, STATES_OF_DEVICE = 256, 16_384
"""Most states of a pass on a thread of the host, and on a device."""


class AttentionBlock(nn.Module):
    """Attention of tokens to others, then two layers, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.source_norm, self.inner_norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.source, self.out = (nn.Linear(WIDTH, n * WIDTH) for n in (1, 2, 1))
        self.inner = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, sources: Tensor, visible: Tensor) -> Tensor:
        """Return tokens ``x [B, K, W]`` that have read ``sources [B, V, W]`` where ``visible [B, 1, 1, V]``."""
        columns = self.query(self.norm(x)), *self.source(self.source_norm(sources)).chunk(2, -1)
        heads = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in columns)
        x = x + self.out(functional.scaled_dot_product_attention(*heads, attn_mask=visible).transpose(1, 2).flatten(2))
        return x + self.inner(self.inner_norm(x))


class TeamCritic(nn.Module):
    """Values of all mechs of a team."""

    def __init__(self, central_dim: int, mechs: int) -> None:
        """Of ``central_dim`` columns each of the ``mechs`` has equally many, the match the rest, fewer than mechs."""
        super().__init__()
        self.mechs = mechs
        self.features, match = divmod(central_dim, mechs)
        self.own, self.other = (nn.Linear(self.features, WIDTH) for _ in range(2))
        self.match = nn.Linear(match, WIDTH)
        self.first, self.second = (AttentionBlock() for _ in range(2))
        self.value = nn.Sequential(nn.LayerNorm(WIDTH), init_linear(nn.Linear(WIDTH, 1), CRITIC_GAIN))

    def forward(self, central: Tensor) -> Tensor:
        """Return values ``[B, K]`` of the states ``[B, S]`` that first mechs view."""
        with torch.autocast(central.device.type, enabled=False):
            size = self.mechs // 2
            states, match = central.float().tensor_split([self.mechs * self.features], 1)
            states = states.unflatten(1, (2, size, self.features))
            x = torch.cat([self.match(match).unsqueeze(1), self.own(states[:, 0]), self.other(states[:, 1])], 1)
            visible = functional.pad(states[..., 0].flatten(1) != 0, (1, 0), value=True)[:, None, None]
            x = self.first(x, x, visible)
            return self.value(self.second(x[:, 1 : size + 1], x, visible)).squeeze(-1)


class CriticTrainer:
    """A ``TeamCritic`` and its optimizer, which are a part of the trainer's state and of no policy."""

    def __init__(
        self, critic: TeamCritic, config: PPOConfig, regime: Regime, pool: ThreadPool, group: ProcessGroup
    ) -> None:
        self.critic, self._config, self._group = critic, config, group
        group.broadcast_module(critic)
        self._parameters = list(critic.parameters())
        self._optimizer = torch.optim.Adam(self._parameters, eps=config.adam_eps, fused=True)
        # a device has one queue of work, that of the calling thread
        self._each, self._most = (pool.map, STATES_OF_THREAD) if regime.packs else (in_turn, STATES_OF_DEVICE)

    def value(self, buffer: RolloutBuffer) -> None:
        """Write the values of a rollout into it."""

        def evaluate(central: Tensor) -> Tensor:
            with torch.no_grad():
                return self.critic(central)

        found = self._each(evaluate, self._states(buffer).split(self._most))
        values = torch.cat(found).view(buffer.num_steps + 1, -1)
        buffer.values.copy_(values[:-1])
        buffer.next_value.copy_(values[-1])

    def train(self, buffer: RolloutBuffer, returns: Tensor, scaled: Callable[[Tensor], Tensor], lr: float) -> None:
        """Regress ``scaled`` values on ``returns [T, N]``."""
        central = self._states(buffer)
        targets, weights = (x.view(-1, buffer.team_size) for x in (returns, buffer.alive * buffer.present))
        for group in self._optimizer.param_groups:
            group["lr"] = lr * self._config.critic_lr_mult

        def gradient(chosen: Tensor, share: Tensor) -> tuple[Tensor, ...]:
            with torch.enable_grad():
                errors = (scaled(self.critic(central[chosen])) - targets[chosen]).square()
                return torch.autograd.grad((errors * weights[chosen]).sum() * share, self._parameters)

        for _ in range(self._config.update_epochs):
            order = upload(torch.randperm(len(targets), device="cpu"), central.device)
            for chosen in order.tensor_split(min(len(order), self._config.num_minibatches)):
                share = 0.5 / weights[chosen].sum().clamp_min(1.0)
                parts = self._each(lambda part, share=share: gradient(part, share), chosen.split(self._most))
                self._step([torch.stack(of).sum(0) for of in zip(*parts, strict=True)])

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.critic.state_dict(), "optimizer": saved_state(self._optimizer)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.critic.load_state_dict(state["weights"])
        load_moments(self._optimizer, state["optimizer"])

    def _step(self, gradient: list[Tensor]) -> None:
        """Step along a gradient; one that is not finite is 0: the policy's own, from the same returns, is reported."""
        self._group.average(gradient)
        for parameter, part in zip(self._parameters, gradient, strict=True):
            parameter.grad = part
        nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        for part in gradient:
            part.nan_to_num_(0.0, 0.0, 0.0)
        self._optimizer.step()

    def _states(self, buffer: RolloutBuffer) -> Tensor:
        """Return states ``[B, S]`` of T + 1 steps."""
        assert buffer.central is not None, "a critic needs the true states of a rollout"
        return buffer.central.flatten(0, 1)
