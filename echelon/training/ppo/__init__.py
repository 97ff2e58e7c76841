"""Recurrent PPO: collection, minibatches, losses, gradients and the update."""
