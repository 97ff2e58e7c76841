"""Rollouts and updates in which the host reads every result at once."""
