"""What the dials of game and learner may be set to; whatever lies outside is refused in one line.

The ends are where the rules lose their meaning (a share above 1, a time below 0) or arithmetic its footing, not where
play stops being interesting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STRICT: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True}
"""Pydantic settings shared by all dataclasses: unknown keys are errors, docstrings become descriptions."""


def require(ok: bool, name: str, value: object, wanted: str) -> None:
    """Raise ``ValueError`` naming the field, its value and what was wanted, unless ``ok``."""
    if not ok:
        raise ValueError(f"{name} is {value!r}, wanted {wanted}")


def require_ranges(config: object, prefix: str, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise ``ValueError`` for the first dial outside its range, both ends included; what is no number is outside.

    A dial of no section has an empty ``prefix``.
    """
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        require(low <= value <= high, f"{prefix}.{name}".lstrip("."), value, f"{low:g} to {high:g}")


def require_span(span: object, name: str, least: int, most: int) -> None:
    """Raise ``ValueError`` unless ``span`` is none, or two whole numbers in order within ``least`` and ``most``."""
    if span is None:
        return
    whole = isinstance(span, (tuple, list)) and len(span) == 2 and all(type(end) is int for end in span)
    require(whole, name, span, "two whole numbers, the least and the most")
    low, high = span  # pyright: ignore[reportGeneralTypeIssues]
    require(low <= high, name, span, "the least first")
    require(least <= low and high <= most, name, span, f"{least} to {most}, the capacity")


TINY, LARGE, HOUR_S = 1e-6, 1e6, 3600.0
SHARE, AMOUNT, POSITIVE, FINITE, ANGLE = (0.0, 1.0), (0.0, LARGE), (TINY, LARGE), (-LARGE, LARGE), (0.0, 3.1416)

PHYSICS_RANGES: dict[str, tuple[float, float]] = {
    "gravity_m_s2": (0.0, 100.0), "damping": SHARE, "step_height_vox": (0.0, 2.0), "step_max_vz": AMOUNT,
    "legged_speed": SHARE, "legged_jet": SHARE, "water_speed": SHARE, "lava_heat_s": AMOUNT,
    "lava_damage_s": AMOUNT, "debris_heat_s": AMOUNT, "debris_damage_s": AMOUNT, "water_cooling_s": AMOUNT,
    "vent_factor": AMOUNT, "ecm_heat_s": AMOUNT, "eccm_heat_s": AMOUNT, "shutdown_restart": SHARE,
    "max_stability": POSITIVE, "legged_max_stability": POSITIVE, "stand_up_stability": POSITIVE,
    "stability_regen_s": AMOUNT, "regen_legged_loss": SHARE, "regen_moving_loss": SHARE,
    "regen_suppressed_loss": SHARE, "regen_min": SHARE, "moving_vox_s": AMOUNT, "fallen_s": (TINY, HOUR_S),
    "suppressed_s": (TINY, HOUR_S), "painted_s": (0.0, HOUR_S), "engaged_s": (0.0, HOUR_S), "rear_cos": (-1.0, 1.0),
    "rear_factor": AMOUNT, "leg_height": SHARE, "leg_body_share": SHARE, "paint_bonus": AMOUNT, "radar_vox": AMOUNT,
    "bloom_heat": AMOUNT, "ewar_vox": POSITIVE, "ecm_weight": AMOUNT, "eccm_weight": AMOUNT, "quality_min": AMOUNT,
    "quality_max": POSITIVE, "paint_quality": AMOUNT, "targeted_vox": AMOUNT, "acoustic_occlusion": SHARE,
    "smoke_radius_vox": AMOUNT, "smoke_life_s": (0.0, 15.0), "ams_vox": AMOUNT, "ams_chance": SHARE,
    "ams_cooldown_s": (0.0, HOUR_S), "homing_gain_s": AMOUNT, "loft": AMOUNT, "kinetic_cone_rad": ANGLE,
    "kinetic_focus_cone_rad": ANGLE, "spawn_jitter_vox": (0.0, 0.25), "spawn_yaw_jitter_rad": ANGLE,
    "landing_free_speed": AMOUNT, "landing_shock": AMOUNT, "landing_crash": AMOUNT,
}  # fmt: skip
"""Least and most of each dial; smoke lives for three launcher cooldowns at most, since a mech has three clouds."""
CONNECTIVITY_RANGES = {
    "clearance_z": (1, 16), "obstacle_inflate_radius": (0, 8), "wall_cost": (0, 10**6), "carve_width": (1, 64),
    "max_digs": (0, 64), "max_regenerations": (0, 64),
}  # fmt: skip
DISPLAY_RANGES: dict[str, tuple[float, float]] = {
    "memory_s": (0.0, 60.0), "margin": AMOUNT, "noise": SHARE, "class_certainty": SHARE, "quality_age_s": AMOUNT,
    "jam_age_s": AMOUNT, "jam_confidence": SHARE, "jam_class": SHARE, "eccm_most": SHARE, "eccm_confidence": AMOUNT,
    "eccm_class": AMOUNT, "faint": (TINY, 1.0), "collision_s": (0.0, HOUR_S), "reactor_heat": AMOUNT,
    "low_stability": AMOUNT, "attention": (0, 10**6),
}  # fmt: skip
OBS_NORM_RANGES = {"vel_scale_xy": POSITIVE, "vel_scale_z": POSITIVE, "heat_max_ratio": POSITIVE}
REWARD_RANGES = {
    **dict.fromkeys(("approach", "zone", "damage", "kill", "assist", "death", "win", "loss", "draw"), FINITE),
    "assist_period_s": (0.0, HOUR_S), "contested_offense": AMOUNT, "contested_death": AMOUNT, "teammate_decay": SHARE,
    "team_alpha": SHARE,
}  # fmt: skip
COUNT = (0, 10**6)
OPPONENT_RANGES = {
    "weapon_prob_start": SHARE, "weapon_prob_end": SHARE, "weapon_ramp_share": SHARE, "weapon_ramp_updates": COUNT,
    "past_every_updates": COUNT, "past_keep": (1, 256), "rating_seeds": (0, 1000), "rating_rivals": (1, 64),
}  # fmt: skip
EDGE = (20, 200)
CURRICULUM_RANGES = {
    "packs_two_at": COUNT, "packs_all_at": COUNT, "map_small_min": EDGE, "map_small_max": EDGE, "map_large_min": EDGE,
    "map_large_max": EDGE, "team_alpha_share": SHARE, "gate_seeds": (1, 10**4), "gate_episodes": (1, 10**5),
    "gate_window": (1, 10**5), "gate_advance": SHARE, "gate_retreat": SHARE, "gate_dwell_updates": COUNT,
}  # fmt: skip
EVAL_RANGES = {
    "every_updates": COUNT, "seeds": (1, 10**5), "weapon_prob": SHARE, "record_seeds": (0, 10**5),
    "heat_cells": (0, 512),
}  # fmt: skip

NATURAL, LIMIT, WIDTH = (1, 10**9), (0, 10**9), (1, 65536)
MODEL_RANGES = {"hidden_dim": WIDTH, "lstm_hidden_dim": WIDTH, "init_log_std": (-20.0, 2.0)}
PPO_RANGES = {
    **dict.fromkeys(("update_epochs", "rollout_steps", "num_minibatches", "grad_accum_steps"), NATURAL),
    **dict.fromkeys(("tbptt_chunk_length", "burn_in_steps", "empty_cache_every"), LIMIT),
    **dict.fromkeys(("ent_coef", "vf_coef", "aux_coef", "target_kl"), AMOUNT),
    **dict.fromkeys(("clip_coef", "max_grad_norm"), POSITIVE),
    "lr": (1e-12, 1.0), "adam_eps": (0.0, 1.0), "critic_lr_mult": AMOUNT, "gamma": (TINY, 1.0), "gae_lambda": SHARE,
}  # fmt: skip
RUN_RANGES = {
    **dict.fromkeys(("num_envs", "bank_maps", "bank_spare", "total_steps", "save_every", "nproc"), NATURAL),
    **dict.fromkeys(("max_minutes", "max_updates", "max_episodes"), LIMIT),
    **dict.fromkeys(("threads", "profile_updates", "keep_replays", "bank_refresh_every", "bank_refresh_maps"), LIMIT),
    "keep_checkpoints": (2, 10**9),
}  # fmt: skip
