"""Train your own network: define the encoder, keep recurrence, heads, action distribution and training.

python examples/custom_policy.py --steps 200000
"""

import argparse
from dataclasses import replace

import torch
from torch import nn

import echelon
from echelon.rl.build import FlatPolicy
from echelon.rl.model import ActorCriticLSTM
from echelon.training import loop


class GatedEncoder(ActorCriticLSTM):
    """Two views of the observation; one gates the other."""

    def __init__(self, obs_dim: int, action_dim: int) -> None:
        super().__init__(obs_dim, action_dim, hidden_dim=64, lstm_hidden_dim=64)
        self.gate = nn.Linear(obs_dim, 64)

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the encoding [B, 64] of observations [B, D]."""
        return self.encoder(obs) * torch.sigmoid(self.gate(obs))


def make_policy(config, obs_dim, action_dim):
    """Return the policy that the loop trains."""
    return FlatPolicy(GatedEncoder(obs_dim, action_dim), obs_dim)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=200_000, help="learner agent-steps")
parser.add_argument("--num-envs", type=int, default=32)
options = parser.parse_args()

preset = echelon.get_preset("quickstart")
config = replace(
    preset,
    num_envs=options.num_envs,
    bank_maps=min(preset.bank_maps, options.num_envs),
    total_steps=options.steps,
    eval=replace(preset.eval, every_updates=0, at_start=False, seeds=1),
)
result = loop.run(config, lambda event: None, lambda: 0, make_policy=make_policy)
print(f"{result.update} updates, {result.global_step:,} steps, win rate {result.evaluation.win_rate:.0%}")
