"""Recurrent PPO: collection, minibatches, losses, gradients and the update."""

from __future__ import annotations

from echelon.training.ppo.trainer import PPOTrainer as PPOTrainer
