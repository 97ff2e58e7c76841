"""Scripted pilots: the legacy baseline and five skill levels as batched kernels, and a policy object over them."""
