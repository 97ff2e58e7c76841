"""Rollouts and updates that decide everything on the device, so that they can be captured as CUDA graphs."""
