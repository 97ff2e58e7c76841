"""Valid ranges of the configuration fields, and the checks that raise ``ValueError`` for values outside them.

A range excludes values that have no meaning (a fraction above 1, a negative time) or break the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

STRICT: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True}
"""Pydantic settings of all configuration classes: unknown keys are errors, field docstrings become descriptions."""


SHOWN_CHARS = 80
"""Characters of an invalid value in a message."""
LARGE = 1e6
"""Limit from which all of its digits are written."""


def require(ok: bool, name: str, value: object, expected: str) -> None:
    """Raise ``ValueError`` with field name, value and expected values in one line, unless ``ok``."""
    if not ok:
        shown = shorten(" ".join(repr(value).split()))
        raise ValueError(f"{name} is {shown}, expected {expected}")


def shorten(text: str) -> str:
    """Return a text with its middle left out where it has more than ``SHOWN_CHARS`` characters."""
    half = SHOWN_CHARS // 2
    return text if len(text) <= SHOWN_CHARS else f"{text[: half - 1]}...{text[2 - half :]}"


TypeCheck = Callable[[object], bool]
"""Whether a value has a type."""
TYPE_CHECKS: Mapping[type, tuple[TypeCheck, str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "an integer"),
    float: (lambda value: isinstance(value, (int, float)) and not isinstance(value, bool), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
}
"""Check and description of each field type; a bool is not accepted as a number, although Python's bool is an int."""


def _type_check(hint: Any) -> tuple[TypeCheck, str]:
    """Return the check and the description of a type annotation; tuples are checked by ``require_span``."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in args, f"one of: {', '.join(map(str, args))}"
    if origin in (Union, UnionType):
        checks = [_type_check(arm) for arm in args if arm is not NoneType]
        optional = NoneType in args
        description = ", or ".join([text for _, text in checks] + ["none"] * optional)
        return lambda value: (optional and value is None) or any(check(value) for check, _ in checks), description
    if hint in TYPE_CHECKS:
        return TYPE_CHECKS[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: isinstance(value, hint), f"a {hint.__name__}"
    return lambda value: True, "anything"


@cache
def _field_checks(config_type: type) -> tuple[tuple[str, TypeCheck, str], ...]:
    """Return name, type check and type description of every field; cached because reading annotations is slow."""
    return tuple((name, *_type_check(hint)) for name, hint in get_type_hints(config_type).items())


def require_types(config: object, prefix: str) -> None:
    """Raise ``ValueError`` for the first field whose value does not have the annotated type."""
    for name, check, expected in _field_checks(type(config)):
        value = getattr(config, name)
        require(check(value), f"{prefix}.{name}".lstrip("."), value, expected)


def require_ranges(config: object, prefix: str, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raise ``ValueError`` for the first field of a wrong type, then for the first outside its range, ends included.

    ``prefix`` is the dotted key of the section, empty for fields of the run itself. NaN is outside every range.
    """
    require_types(config, prefix)
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        require(low <= value <= high, f"{prefix}.{name}".lstrip("."), value, f"{_bound(low)} to {_bound(high)}")


def _bound(limit: float) -> str:
    """Return an end of a range as text, a large one with all of its digits."""
    return f"{limit:,.0f}" if limit >= LARGE else f"{limit:g}"


def require_span(span: object, name: str, least: int, most: int) -> None:
    """Raise ``ValueError`` unless ``span`` is None or two ascending integers from ``least`` to ``most``."""
    if span is None:
        return
    valid = isinstance(span, (tuple, list)) and len(span) == 2 and all(type(end) is int for end in span)
    require(valid, name, span, "two integers, minimum and maximum")
    low, high = span  # pyright: ignore[reportGeneralTypeIssues]
    require(low <= high, name, span, "the minimum first")
    require(least <= low and high <= most, name, span, f"{least} to {most}, the capacity")


TINY, LARGE, HOUR_S = 1e-6, 1e6, 3600.0
FRACTION, NON_NEGATIVE, POSITIVE, FINITE, ANGLE = (
    (0.0, 1.0),
    (0.0, LARGE),
    (TINY, LARGE),
    (-LARGE, LARGE),
    (0.0, 3.1416),
)

PHYSICS_RANGES: dict[str, tuple[float, float]] = {
    "gravity_m_s2": (0.0, 100.0),
    "damping": FRACTION,
    "step_height_vox": (0.0, 2.0),
    "step_max_vz": NON_NEGATIVE,
    "legged_speed": FRACTION,
    "legged_jet": FRACTION,
    "water_speed": FRACTION,
    "lava_heat_s": NON_NEGATIVE,
    "lava_damage_s": NON_NEGATIVE,
    "debris_heat_s": NON_NEGATIVE,
    "debris_damage_s": NON_NEGATIVE,
    "water_cooling_s": NON_NEGATIVE,
    "vent_factor": NON_NEGATIVE,
    "ecm_heat_s": NON_NEGATIVE,
    "eccm_heat_s": NON_NEGATIVE,
    "shutdown_restart": FRACTION,
    "max_stability": POSITIVE,
    "legged_max_stability": POSITIVE,
    "stand_up_stability": POSITIVE,
    "stability_regen_s": NON_NEGATIVE,
    "regen_legged_loss": FRACTION,
    "regen_moving_loss": FRACTION,
    "regen_suppressed_loss": FRACTION,
    "regen_min": FRACTION,
    "moving_vox_s": NON_NEGATIVE,
    "fallen_s": (TINY, HOUR_S),
    "suppressed_s": (TINY, HOUR_S),
    "painted_s": (0.0, HOUR_S),
    "engaged_s": (0.0, HOUR_S),
    "rear_cos": (-1.0, 1.0),
    "rear_factor": NON_NEGATIVE,
    "leg_height": FRACTION,
    "leg_body_share": FRACTION,
    "paint_bonus": NON_NEGATIVE,
    "radar_vox": NON_NEGATIVE,
    "bloom_heat": NON_NEGATIVE,
    "ewar_vox": POSITIVE,
    "ecm_weight": NON_NEGATIVE,
    "eccm_weight": NON_NEGATIVE,
    "quality_min": NON_NEGATIVE,
    "quality_max": POSITIVE,
    "paint_quality": NON_NEGATIVE,
    "targeted_vox": NON_NEGATIVE,
    "acoustic_occlusion": FRACTION,
    "smoke_radius_vox": NON_NEGATIVE,
    "smoke_life_s": (0.0, 13.6),
    "ams_vox": NON_NEGATIVE,
    "ams_chance": FRACTION,
    "ams_cooldown_s": (0.0, HOUR_S),
    "homing_gain_s": NON_NEGATIVE,
    "loft": NON_NEGATIVE,
    "kinetic_cone_rad": ANGLE,
    "kinetic_focus_cone_rad": ANGLE,
    "spawn_jitter_vox": (0.0, 0.25),
    "spawn_yaw_jitter_rad": ANGLE,
    "landing_free_speed": NON_NEGATIVE,
    "landing_shock": NON_NEGATIVE,
    "landing_crash": NON_NEGATIVE,
}
"""Minimum and maximum of each field.

The limit of ``smoke_life_s``: a mech has slots for three clouds and a launcher cooldown of 5 s. The fourth smoke round
may burst immediately where the first flew 1.33 s, so a cloud lives at most three cooldowns less that flight.
"""
CONNECTIVITY_RANGES = {
    "clearance_z": (1, 16),
    "obstacle_inflate_radius": (0, 8),
    "wall_cost": (0, 10**6),
    "carve_width": (1, 64),
    "max_digs": (0, 64),
    "max_regenerations": (0, 64),
}
ENV_RANGES: dict[str, tuple[float, float]] = {
    "num_packs": (1, 20),
    "dt_sim": (0.001, 0.48),
    "decision_repeat": (1, 1000),
    "contested_floor": FRACTION,
    "comm_dim": (0, 64),
    "gamma": FRACTION,
    "max_episode_seconds": (0.001, 86400.0),
    "zone_radius_vox": (0.01, 400.0),
    "zone_win_share": POSITIVE,
}
"""Minimum and maximum of each field; a tick is at most the shortest flight of a round, that of the autocannon."""
MIN_WIN_SCORE_S = 0.01
"""Minimum zone score that may win [s], well above the tolerance with which accumulated scores are compared."""
WORLD_RANGES = {"size_x": (20, 400), "size_y": (20, 400), "size_z": (12, 64), "voxel_size_m": (0.01, 1000.0)}
DISPLAY_RANGES: dict[str, tuple[float, float]] = {
    "memory_s": (0.0, 60.0),
    "margin": NON_NEGATIVE,
    "noise": FRACTION,
    "class_certainty": FRACTION,
    "quality_age_s": NON_NEGATIVE,
    "jam_age_s": NON_NEGATIVE,
    "jam_confidence": FRACTION,
    "jam_class": FRACTION,
    "eccm_most": FRACTION,
    "eccm_confidence": NON_NEGATIVE,
    "eccm_class": NON_NEGATIVE,
    "faint": (TINY, 1.0),
    "collision_s": (0.0, HOUR_S),
    "reactor_heat": NON_NEGATIVE,
    "low_stability": NON_NEGATIVE,
    "attention": (0, 10**6),
    "aim_cone_rad": ANGLE,
}
OBS_NORM_RANGES = {"vel_scale_xy": POSITIVE, "vel_scale_z": POSITIVE, "heat_max_ratio": POSITIVE}
REWARD_RANGES = {
    "assist_period_s": (0.0, HOUR_S),
    "contested_offense": NON_NEGATIVE,
    "contested_death": NON_NEGATIVE,
    "teammate_decay": FRACTION,
    "team_alpha": FRACTION,
}
COUNT = (0, 10**6)
OPPONENT_RANGES = {
    "weapon_prob_start": FRACTION,
    "weapon_prob_end": FRACTION,
    "weapon_ramp_share": FRACTION,
    "weapon_ramp_updates": COUNT,
    "past_every_updates": COUNT,
    "past_keep": (1, 256),
    "pfsp": (0.0, 8.0),
    "rating_seeds": (0, 1000),
    "rating_rivals": (1, 64),
}
LEAGUE_RANGES = {
    **dict.fromkeys(("commanders", "candidates", "warmup_games", "submit_every_updates", "promote_top"), COUNT),
    **dict.fromkeys(("sigma", "warmup_range"), POSITIVE),
    **dict.fromkeys(("refresh_episodes", "keep_top", "target_episodes"), (1, 10**6)),
    "cache": (1, 10**4),
    "match_opponents": (0, 1000),
    "match_seeds": (1, 1000),
    "conservatism": (0.0, 3.0),
    "target_win_rate": FRACTION,
}
EDGE = (20, 200)
CURRICULUM_RANGES = {
    "packs_two_at": COUNT,
    "packs_all_at": COUNT,
    "map_small_min": EDGE,
    "map_small_max": EDGE,
    "map_large_min": EDGE,
    "map_large_max": EDGE,
    "team_alpha_share": FRACTION,
    "mechanics_share": FRACTION,
    "gate_seeds": (1, 10**4),
    "gate_episodes": (1, 10**5),
    "gate_window": (1, 10**5),
    "gate_advance": FRACTION,
    "gate_retreat": FRACTION,
    "gate_dwell_updates": COUNT,
}
EVAL_RANGES = {
    "every_updates": COUNT,
    "seeds": (1, 10**5),
    "weapon_prob": FRACTION,
    "record_seeds": (0, 10**5),
    "heat_cells": (0, 512),
}

NATURAL, LIMIT, WIDTH = (1, 10**9), (0, 10**9), (1, 65536)
MODEL_RANGES = {"hidden_dim": WIDTH, "lstm_hidden_dim": WIDTH, "init_log_std": (-20.0, 2.0)}
PPO_RANGES = {
    **dict.fromkeys(("update_epochs", "rollout_steps", "num_minibatches", "grad_accum_steps"), NATURAL),
    **dict.fromkeys(("tbptt_chunk_length", "burn_in_steps", "empty_cache_every"), LIMIT),
    **dict.fromkeys(("ent_coef", "vf_coef", "aux_coef", "target_kl"), NON_NEGATIVE),
    **dict.fromkeys(("ent_factor_switches", "ent_factor_selectors"), NON_NEGATIVE),
    **dict.fromkeys(("clip_coef", "max_grad_norm"), POSITIVE),
    "lr": (1e-12, 1.0),
    "adam_eps": (0.0, 1.0),
    "critic_lr_mult": NON_NEGATIVE,
    "gamma": (TINY, 1.0),
    "gae_lambda": FRACTION,
    "ema_decay": (0.0, 0.999999),
    "muon_lr_mult": NON_NEGATIVE,
    "advantage_share": (TINY, 1.0),
}
TEACHER_RANGES = {
    **dict.fromkeys(("imitation", "flown", "flown_ramp", "fade"), FRACTION),
    **dict.fromkeys(("imitation_coef", "coef"), NON_NEGATIVE),
    "rl_lr_factor": POSITIVE,
}
RUN_RANGES = {
    **dict.fromkeys(("num_envs", "bank_maps", "bank_spare", "save_every", "nproc"), NATURAL),
    **dict.fromkeys(("max_minutes", "max_updates", "max_episodes"), LIMIT),
    **dict.fromkeys(("threads", "profile_updates", "keep_replays", "bank_refresh_every", "bank_refresh_maps"), LIMIT),
    "keep_checkpoints": (2, 10**9),
    "pause_steps": (0, 10**12),
    "total_steps": (1, 10**12),
}
