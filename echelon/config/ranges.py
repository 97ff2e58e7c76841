"""What the dials of game and learner may be set to; whatever lies outside is refused in one line.

The ends are where the rules lose their meaning (a share above 1, a time below 0) or arithmetic its footing, not where
play stops being interesting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

STRICT: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True}
"""Pydantic settings shared by all dataclasses: unknown keys are errors, docstrings become descriptions."""


def require(ok: bool, name: str, value: object, wanted: str) -> None:
    """Raise ``ValueError`` naming in one line the field, its value and what was wanted, unless ``ok``."""
    if not ok:
        raise ValueError(f"{name} is {' '.join(repr(value).split())}, wanted {wanted}")


Fits = Callable[[object], bool]
"""Whether a value is of a kind."""
KINDS: Mapping[type, tuple[Fits, str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number (int)"),
    float: (lambda value: isinstance(value, (int, float)) and not isinstance(value, bool), "a number (float)"),
    str: (lambda value: isinstance(value, str), "a text (str)"),
}
"""Kinds of dials by their annotation; truth is no number here, although Python counts it as one."""


def _kind_of(hint: Any) -> tuple[Fits, str]:
    """Return what fits an annotation, and how to say so; spans are left to ``require_span``, which says more."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in inside, f"one of: {', '.join(map(str, inside))}"
    if origin in (Union, UnionType):
        kinds = [_kind_of(arm) for arm in inside if arm is not NoneType]
        words = [wanted for _, wanted in kinds] + ["none"] * (NoneType in inside)
        absent = NoneType in inside
        return lambda value: (absent and value is None) or any(fits(value) for fits, _ in kinds), ", or ".join(words)
    if hint in KINDS:
        return KINDS[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: isinstance(value, hint), f"a {hint.__name__}"
    return lambda value: True, "anything"


@cache
def _kinds(config_type: type) -> tuple[tuple[str, Fits, str], ...]:
    """Return name, test and wording of every field; once per class, for reading annotations is slow."""
    return tuple((name, *_kind_of(hint)) for name, hint in get_type_hints(config_type).items())


def require_kinds(config: object, prefix: str) -> None:
    """Raise ``ValueError`` for the first field that is not what its annotation says; see ``require_ranges``.

    Names are members of their ``Literal``, sections are dataclasses, and what may be absent is None.
    """
    for name, fits, wanted in _kinds(type(config)):
        value = getattr(config, name)
        require(fits(value), f"{prefix}.{name}".lstrip("."), value, wanted)


def require_ranges(config: object, prefix: str, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise ``ValueError`` for the first dial of another kind than annotated, then for the first outside its range.

    Both ends are included; what is no number is outside. A dial of no section has an empty ``prefix``.
    """
    require_kinds(config, prefix)
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
    "smoke_radius_vox": AMOUNT, "smoke_life_s": (0.0, 13.6), "ams_vox": AMOUNT, "ams_chance": SHARE,
    "ams_cooldown_s": (0.0, HOUR_S), "homing_gain_s": AMOUNT, "loft": AMOUNT, "kinetic_cone_rad": ANGLE,
    "kinetic_focus_cone_rad": ANGLE, "spawn_jitter_vox": (0.0, 0.25), "spawn_yaw_jitter_rad": ANGLE,
    "landing_free_speed": AMOUNT, "landing_shock": AMOUNT, "landing_crash": AMOUNT,
}  # fmt: skip
"""Least and most of each dial.

A mech has room for three clouds and a launcher cooldown of 5 s. The fourth round may burst at once where the first flew
its 1.33 s, so that clouds may live for three cooldowns less that flight; rounding to ticks never adds to it.
"""
CONNECTIVITY_RANGES = {
    "clearance_z": (1, 16), "obstacle_inflate_radius": (0, 8), "wall_cost": (0, 10**6), "carve_width": (1, 64),
    "max_digs": (0, 64), "max_regenerations": (0, 64),
}  # fmt: skip
ENV_RANGES: dict[str, tuple[float, float]] = {
    "num_packs": (1, 20), "dt_sim": (0.001, 0.48), "decision_repeat": (1, 1000), "contested_floor": SHARE,
    "comm_dim": (0, 64), "gamma": SHARE, "max_episode_seconds": (0.001, 86400.0), "zone_radius_vox": (0.01, 400.0),
    "zone_win_share": POSITIVE,
}  # fmt: skip
"""Least and most of each dial; a tick is no longer than the shortest flight of a round, that of the autocannon."""
LEAST_WIN_S = 0.01
"""Least zone score that may win [s]: well above the slack with which summed scores are compared."""
WORLD_RANGES = {"size_x": (20, 400), "size_y": (20, 400), "size_z": (12, 64), "voxel_size_m": (0.01, 1000.0)}
DISPLAY_RANGES: dict[str, tuple[float, float]] = {
    "memory_s": (0.0, 60.0), "margin": AMOUNT, "noise": SHARE, "class_certainty": SHARE, "quality_age_s": AMOUNT,
    "jam_age_s": AMOUNT, "jam_confidence": SHARE, "jam_class": SHARE, "eccm_most": SHARE, "eccm_confidence": AMOUNT,
    "eccm_class": AMOUNT, "faint": (TINY, 1.0), "collision_s": (0.0, HOUR_S), "reactor_heat": AMOUNT,
    "low_stability": AMOUNT, "attention": (0, 10**6), "aim_cone_rad": ANGLE,
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
LEAGUE_RANGES = {
    **dict.fromkeys(("commanders", "candidates", "warmup_games", "submit_every_updates", "promote_top"), COUNT),
    **dict.fromkeys(("sigma", "warmup_range"), POSITIVE),
    **dict.fromkeys(("refresh_episodes", "keep_top", "target_episodes"), (1, 10**6)),
    "cache": (1, 10**4), "match_opponents": (0, 1000), "match_seeds": (1, 1000), "conservatism": (0.0, 3.0),
    "target_win_rate": SHARE,
}  # fmt: skip
EDGE = (20, 200)
CURRICULUM_RANGES = {
    "packs_two_at": COUNT, "packs_all_at": COUNT, "map_small_min": EDGE, "map_small_max": EDGE, "map_large_min": EDGE,
    "map_large_max": EDGE, "team_alpha_share": SHARE, "mechanics_share": SHARE, "gate_seeds": (1, 10**4),
    "gate_episodes": (1, 10**5), "gate_window": (1, 10**5),
    "gate_advance": SHARE, "gate_retreat": SHARE, "gate_dwell_updates": COUNT,
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
    **dict.fromkeys(("num_envs", "bank_maps", "bank_spare", "save_every", "nproc"), NATURAL),
    **dict.fromkeys(("max_minutes", "max_updates", "max_episodes"), LIMIT),
    **dict.fromkeys(("threads", "profile_updates", "keep_replays", "bank_refresh_every", "bank_refresh_maps"), LIMIT),
    "keep_checkpoints": (2, 10**9), "total_steps": (1, 10**12),
}  # fmt: skip
