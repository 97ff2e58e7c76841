"""Scripted pilots: five skill levels as batched kernels, and a policy object over them."""
