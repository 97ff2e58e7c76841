"""Schedules: what a dial's value is at a given progress through training, 0 at the start and 1 at the end."""

from __future__ import annotations

import math

from echelon.config import PPOConfig


def lr_factor(kind: str, progress: float) -> float:
    """Return the factor on the step size for schedule ``none``, ``linear`` or ``cosine``."""
    if kind == "none":
        return 1.0
    if kind == "linear":
        return 1.0 - progress
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    raise ValueError(f"lr_schedule is {kind!r}, wanted none, linear or cosine")


def entropy_coefficient(cfg: PPOConfig, progress: float) -> float:
    """Return the weight of the entropy bonus, linear from its start to its end."""
    end = cfg.ent_coef if cfg.ent_coef_end is None else cfg.ent_coef_end
    return cfg.ent_coef + (end - cfg.ent_coef) * progress
