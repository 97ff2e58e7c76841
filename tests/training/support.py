"""Small models, random rollouts and trainers for tests of the update."""

from __future__ import annotations

import torch

from echelon.actions import ACTION_DIM
from echelon.config import ModelConfig, PPOConfig
from echelon.rl.build import build_model
from echelon.training import rollout
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime.process_group import ProcessGroup

T, N, D, A = 24, 6, 5, 3


def model_of(seed: int = 0, head: str = "gaussian", recurrence: str = "lstm", **options):
    torch.manual_seed(seed)
    config = ModelConfig(kind="classic", hidden_dim=8, lstm_hidden_dim=8, action_head=head, recurrence=recurrence)
    return build_model(config, D, A if head == "gaussian" else ACTION_DIM, **options)


def rollout_of(model, seed: int = 1) -> RolloutBuffer:
    """Return a random rollout of the model itself, so that ratios are one."""
    torch.manual_seed(seed)
    buffer = RolloutBuffer.create(T, N, D, model.action_dim)
    buffer.obs_rows.normal_()
    buffer.rewards.normal_()
    buffer.dones.copy_((torch.rand(T, N) < 0.1).float())
    buffer.alive.copy_((torch.rand(T, N) < 0.9).float())
    buffer.set_roles(torch.arange(N) % 3)
    state = model.initial_state(N)
    with torch.no_grad():
        for t in range(T):
            action, logprob, value, state = model.sample(buffer.obs[t], state, buffer.dones[t])
            buffer.actions[t], buffer.logprobs[t], buffer.values[t] = action, logprob, value
        next_value, _ = model.get_value(buffer.obs_rows[-1], state, torch.zeros(N))
    buffer.compute_gae(next_value, torch.zeros(N), 0.99, 0.95)
    return buffer


def trainer_of(model, group: ProcessGroup | None = None, magnet=None, **options) -> PPOTrainer:
    """Return a trainer whose learning rate is that of the schedule from the first step on."""
    config = PPOConfig(**{"tbptt_chunk_length": 8, "num_minibatches": 3, **options})
    trainer = PPOTrainer(model, config, group=group, magnet=magnet)
    trainer.learning_rate.factor.fill_(1.0)
    trainer.learning_rate.set(trainer.lr)
    return trainer


def batch_of(trainer, buffer, counted):
    """The whole rollout as one minibatch."""
    states = trainer.chunk_states(buffer, trainer.model.initial_state(N))
    return rollout.gather_minibatch(buffer, states, buffer.returns, counted, [rollout.Unit(0, 0, T, torch.arange(N))])


def weights_of(model) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]
