"""Opponents of a training run: the pool per environment, the league as a source of them, and ratings against them."""
