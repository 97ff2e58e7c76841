"""Named whole configurations: each preset is a function that returns a complete ``RunConfig``.

Add one by writing a function and a line in ``PRESETS``; every preset is run by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from echelon.config import (
    EnvConfig,
    EvalConfig,
    ModelConfig,
    OpponentConfig,
    PPOConfig,
    RewardConfig,
    RunConfig,
    WorldConfig,
)


def quickstart() -> RunConfig:
    """Two cores and minutes: 5v5 on 60x60x20 maps against the baseline pilot, partial observation."""
    gamma = 0.99
    reward = RewardConfig(approach=2.0, damage=0.01, death=-1.0, win=2.0, loss=-2.0)
    return RunConfig(
        preset="quickstart",
        num_envs=64,
        bank_maps=64,
        total_steps=8_000_000,
        max_minutes=10.0,
        save_every=25,
        env=EnvConfig(world=WorldConfig(size_x=60, size_y=60, size_z=20), gamma=gamma, reward=reward),
        model=ModelConfig(init_log_std=-0.5),
        ppo=PPOConfig(
            lr=1e-3,
            lr_schedule="linear",
            gamma=gamma,
            ent_coef=0.001,
            ent_coef_end=0.0,
            update_epochs=1,
            rollout_steps=64,
            num_minibatches=16,
            tbptt_chunk_length=32,
            obs_norm=True,
            amp=True,
        ),
        opponents=OpponentConfig(weapon_prob_start=0.2, weapon_prob_end=0.2),
        eval=EvalConfig(every_updates=50, weapon_prob=0.2),
    )


PRESETS: dict[str, Callable[[], RunConfig]] = {
    "quickstart": quickstart,
}


def get_preset(name: str) -> RunConfig:
    """Return the configuration of preset ``name``; ``ValueError`` names the nearest one."""
    if name in PRESETS:
        return PRESETS[name]()
    near = get_close_matches(name, PRESETS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"preset {name!r} does not exist{hint} (have: {', '.join(PRESETS)})")
