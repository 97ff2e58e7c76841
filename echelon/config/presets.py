"""Presets: functions that return a complete ``RunConfig``.

Presets differ in the task and in the machine they are made for. Their learning parameters are those that measured best
for ``quickstart``, except where a preset overrides them. Add a preset as a function and a line of ``PRESETS``; a test
runs every preset.
"""

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from echelon import config

GAMMA = 0.99
"""Discount factor of all presets, of returns and of the approach potential."""


def quickstart() -> config.RunConfig:
    """Two cores, 10 minutes: 5v5 on 60x60x20 maps; imitates expert pilots, then PPO against three levels."""
    return _run(
        "quickstart",
        num_envs=64,
        total_steps=12_000_000,
        max_minutes=10.0,
        env=_env(60),
        teacher=_expert(0.2),
        ppo=_ppo(rollout_steps=32, num_minibatches=8),
        opponents=_levels(easy=0.5, medium=1.0, expert=4.0),
        eval=_evals(every_updates=100),
    )


def standard() -> config.RunConfig:
    """Two to eight cores, 1 hour: 5v5 on 100x100x20 maps; imitates expert pilots, then PPO against three levels."""
    return _run(
        "standard",
        num_envs=64,
        bank_refresh_every=20,
        total_steps=40_000_000,
        max_minutes=60.0,
        env=_env(100),
        teacher=_expert(0.1),
        opponents=_levels(medium=1.0, hard=1.0, expert=4.0),
        eval=_evals(seeds=20),
    )


def scratch() -> config.RunConfig:
    """Two to eight cores, 1 hour: the task of standard without a teacher, on maps that grow to 100x100x20."""
    return replace(
        standard(),
        preset="scratch",
        total_steps=40_000_000,
        teacher=config.TeacherConfig(),
        opponents=_levels(easy=1.0, medium=2.0, hard=1.0),
        curriculum=config.CurriculumConfig(
            maps=True, map_small_min=50, map_small_max=60, map_large_min=80, map_large_max=100
        ),
    )  # fmt: skip


def gpu() -> config.RunConfig:
    """One large GPU, 1 hour: 10v10 on 100x100x20 maps, 2,048 environments, updates as CUDA graphs."""
    return _run(
        "gpu",
        device="cuda",
        num_envs=2048,
        bank_maps=512,
        bank_spare=64,
        bank_refresh_every=40,
        bank_refresh_maps=32,
        total_steps=2_000_000_000,
        max_minutes=60.0,
        env=_env(100, num_packs=2),
        save_every=200,
        teacher=replace(_expert(0.1), rl_lr_factor=1.0),
        model=_model(hidden_dim=128, lstm_hidden_dim=256),
        ppo=_ppo(capture=True, rollout_steps=16, num_minibatches=16, update_epochs=1, kl_lr_target=0.01),
        opponents=_levels(medium=1.0, hard=1.0, expert=4.0, past=2.0, past_every_updates=200),
        eval=_evals(every_updates=200),
    )


def duel() -> config.RunConfig:
    """Two to eight cores, 30 minutes: 5v5 by self-play and past snapshots only, without scripted opponents."""
    return _run(
        "duel",
        num_envs=48,
        bank_refresh_every=20,
        total_steps=24_000_000,
        max_minutes=30.0,
        env=_env(60),
        opponents=config.OpponentConfig(
            mix=config.MixConfig(scripted=0.0, self_play=1.0, past=2.0), past_every_updates=25
        ),
        eval=_evals(seeds=20),
    )


def skirmish() -> config.RunConfig:
    """Two to eight cores, 2 hours: 10v10 on 100x100x20 maps against three levels and past snapshots."""
    return _run(
        "skirmish",
        num_envs=32,
        bank_refresh_every=20,
        total_steps=60_000_000,
        max_minutes=120.0,
        env=_env(100, num_packs=2),
        teacher=_expert(0.1),
        opponents=_levels(medium=2.0, hard=1.0, expert=1.0, past=1.0),
        curriculum=config.CurriculumConfig(packs=True, packs_two_at=500, packs_all_at=500),
        eval=_evals(seeds=20),
    )


def battle() -> config.RunConfig:
    """Eight cores or a GPU, 8 hours: 10v10 to 100v100 on 200x200x20 maps, 2-minute episodes, three levels."""
    return _run(
        "battle",
        num_envs=4,
        bank_maps=8,
        bank_spare=4,
        bank_refresh_every=50,
        bank_refresh_maps=2,
        total_steps=100_000_000,
        max_minutes=480.0,
        keep_replays=8,
        env=_env(200, num_packs=20, packs_per_team_range=(2, 20), max_episode_seconds=120.0),
        teacher=_expert(0.1),
        opponents=_levels(easy=1.0, medium=2.0, hard=1.0),
        eval=_evals(every_updates=200, seeds=4, at_start=False),
    )


def league() -> config.RunConfig:
    """Two cores, 1 hour: the environment of quickstart against league opponents, without a teacher."""
    base = quickstart()
    return replace(
        base,
        preset="league",
        teacher=config.TeacherConfig(),
        total_steps=30_000_000,
        max_minutes=60.0,
        ppo=_ppo(lr=5e-4),
        opponents=config.OpponentConfig(
            mix=config.MIX_PROFILES["league"],
            pfsp=1.0,
            skill="medium",
            weapon_prob_start=1.0,
            weapon_prob_end=1.0,
            rating_seeds=0,
        ),
        eval=_evals(every_updates=100),
    )


def _run(preset: str, **settings: Any) -> config.RunConfig:
    """Return a run with these settings; network and PPO parameters are those of quickstart unless given."""
    shared = {"bank_maps": 64, "save_every": 50, "model": _model(), "ppo": _ppo()}
    return config.RunConfig(preset=preset, **{**shared, **settings})


def _model(**changes: Any) -> config.ModelConfig:
    """Return the network of all presets, with ``changes``."""
    return config.ModelConfig(**{"init_log_std": -0.5, "action_head": "hybrid", "recurrence": "mingru", **changes})


def _expert(imitation: float) -> config.TeacherConfig:
    """Return the teacher of presets: expert pilots, imitated for a fraction ``imitation`` of the plan."""
    return config.TeacherConfig(policy="heuristic:expert", imitation=imitation)


def _env(edge: int, **changes: Any) -> config.EnvConfig:
    """Return the environment on fair square maps of ``edge`` voxels, with the reward weights of quickstart.

    The time limit is an end: a winner is named and rewarded there, and a bootstrapped value would cancel that reward.
    """
    reward = config.RewardConfig(approach=2.0, damage=0.01, death=-1.0, win=2.0, loss=-2.0)
    return config.EnvConfig(
        world=config.WorldConfig(size_x=edge, size_y=edge, size_z=20, fairness="path"),
        gamma=GAMMA,
        truncation_bootstraps=False,
        reward=reward,
        **changes,
    )


def _ppo(**changes: Any) -> config.PPOConfig:
    """Return the PPO parameters of quickstart, with ``changes``."""
    values: dict[str, Any] = {
        "lr": 1e-3,
        "lr_schedule": "linear",
        "gamma": GAMMA,
        "ent_coef": 0.001,
        "ent_coef_end": 0.0,
        "update_epochs": 2,
        "rollout_steps": 64,
        "num_minibatches": 16,
        "draw_members": True,
        "tbptt_chunk_length": 32,
        "obs_norm": True,
        "amp": True,
    }
    return config.PPOConfig(**{**values, **changes})


def _evals(**changes: Any) -> config.EvalConfig:
    """Return evaluations against the hardest level among the opponents, which is not saturated, with ``changes``."""
    return config.EvalConfig(**{"every_updates": 50, "report": True, "skill": "hardest", **changes})


def _levels(past_every_updates: int = 25, **weights: float) -> config.OpponentConfig:
    """Return opponents with these weights of ``MixConfig``; scripted pilots fire with probability 1.

    All levels are played from the start: this learned faster than a ladder of levels.
    """
    return config.OpponentConfig(
        skill="easy",
        mix=config.MixConfig(**{"scripted": 0.0, **weights}),
        past_every_updates=past_every_updates,
        weapon_prob_start=1.0,
        weapon_prob_end=1.0,
    )


PRESETS: dict[str, Callable[[], config.RunConfig]] = {
    "quickstart": quickstart,
    "league": league,
    "standard": standard,
    "scratch": scratch,
    "gpu": gpu,
    "duel": duel,
    "skirmish": skirmish,
    "battle": battle,
}


def get_preset(name: str) -> config.RunConfig:
    """Return the configuration of preset ``name``; raise ``ValueError`` with the closest name if there is none."""
    if name in PRESETS:
        return PRESETS[name]()
    near = get_close_matches(name, PRESETS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"preset {name!r} does not exist{hint} (have: {', '.join(PRESETS)})")
