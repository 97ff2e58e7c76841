"""The simulator: arrays, rules and kernels of a batch of battles."""
