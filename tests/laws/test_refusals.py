"""Invalid configuration values are rejected with a one-line error that names the field.

``INVALID`` lists invalid values of every numeric field.
"""

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from echelon.arena.config import ArenaConfig
from echelon.config import EnvConfig, RunConfig
from echelon.config.checks import ranges_of
from echelon.config.game import MIN_WIN_SCORE_S
from echelon.env.referee import SCORE_ROUNDING
from echelon.sim.arsenal import WEAPONS
from echelon.sim.physics import PHYSICS, Physics
from echelon.sim.state import CLOUDS_PER_MECH
from echelon.sim.tables import duration_ticks, life_ticks
from tests.laws.configs import reward_weights

NAN, INF = math.nan, math.inf
SHARE, POSITIVE, NATURAL = (-0.1, 1.1), (-1.0, 0.0), (-1.0,)
INVALID: dict[str, tuple[Any, ...]] = {
    "env.num_packs": (-1, 0, 21), "env.dt_sim": (-0.05, 0.0, 0.5, 1e9), "env.decision_repeat": (-1, 0, 10**9),
    "env.max_episode_seconds": (-1.0, 0.0), "env.zone_radius_vox": POSITIVE,
    "env.contested_floor": SHARE, "env.zone_win_share": POSITIVE, "env.gamma": SHARE,
    "env.order_rate": SHARE,
    "world.size_x": (0, 19, 401), "world.size_y": (0, 19, 401), "world.size_z": (0, 11, 65),
    "world.voxel_size_m": POSITIVE, "world.max_distance_ratio": (-1.0,),
    "env.min_pack_size": (0, 6),
    "world.connectivity.clearance_z": (-1, 0, 10**9), "world.connectivity.obstacle_inflate_radius": (-1, 10**9),
    "world.connectivity.wall_cost": (-1,), "world.connectivity.carve_width": (-1, 0, 10**9),
    "world.connectivity.max_digs": (-1,), "world.connectivity.max_regenerations": (-1,),
    "obs_norm.vel_scale_xy": POSITIVE, "obs_norm.vel_scale_z": POSITIVE, "obs_norm.heat_max_ratio": POSITIVE,
    "display.memory_s": (-1.0, 61.0), "display.margin": NATURAL, "display.noise": SHARE,
    "display.class_certainty": SHARE, "display.quality_age_s": NATURAL, "display.jam_age_s": NATURAL,
    "display.jam_confidence": SHARE, "display.jam_class": SHARE, "display.eccm_most": SHARE,
    "display.eccm_confidence": NATURAL, "display.eccm_class": NATURAL, "display.faint": (-1.0, 0.0, 1.1),
    "display.collision_s": (-1.0, 1e9), "display.reactor_heat": NATURAL, "display.low_stability": NATURAL,
    "display.attention": (-1,), "display.aim_cone_rad": (-0.1, 4.0),
    **{f"reward.{name}": () for name in reward_weights()}, "reward.assist_period_s": (-1.0, 1e9),
    "reward.contested_offense": NATURAL, "reward.contested_death": NATURAL, "reward.teammate_decay": SHARE,
    "reward.team_alpha": SHARE,
}  # fmt: skip
SECTIONS = ("env", "world", "world.connectivity", "obs_norm", "display", "reward")


def split_name(name: str) -> tuple[list[str], str]:
    """Return the path to a field's dataclass, and the field name."""
    *path, field_name = name.split(".")
    return [w for w in path if w != "env"], field_name


def changed(config: Any, path: list[str], field_name: str, value: Any) -> Any:
    if not path:
        return replace(config, **{field_name: value})
    return replace(config, **{path[0]: changed(getattr(config, path[0]), path[1:], field_name, value)})


def numeric_fields(config: Any, prefix: str) -> list[str]:
    found: list[str] = []
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            found += numeric_fields(value, f.name if prefix == "env" else f"{prefix}.{f.name}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(f"{prefix}.{f.name}")
    return found


def accepted_values(name: str) -> list[Any]:
    """Return the invalid values that a field accepts, or rejects with an unclear error."""
    path, field_name = split_name(name)
    value = EnvConfig()
    for w in path:
        value = getattr(value, w)
    nonfinite = (NAN, INF, -INF) if isinstance(getattr(value, field_name), float) else ()
    silent = []
    for wrong in (*INVALID[name], *nonfinite):
        try:
            changed(EnvConfig(), path, field_name, wrong)
        except ValueError as refused:
            if field_name in str(refused) and "\n" not in str(refused):
                continue
        silent.append(wrong)
    return silent


def test_every_config_field_has_invalid_values_listed():
    fields = set(numeric_fields(EnvConfig(), "env"))
    assert set(INVALID) == fields, f"add invalid values to INVALID, or remove them: {sorted(set(INVALID) ^ fields)}"


@pytest.mark.parametrize("section", SECTIONS)
def test_invalid_value_error_names_the_config_field(section):
    names = [name for name in INVALID if name.rsplit(".", 1)[0] == section]
    assert {name: accepted_values(name) for name in names if accepted_values(name)} == {}


def test_long_value_is_shortened_in_the_error():
    with pytest.raises(ValueError, match=r"env\.max_episode_seconds is 'é+\.\.\.é+', expected a number") as caught:
        EnvConfig(max_episode_seconds="é" * 10_000)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


WRONG_KINDS: dict[Any, tuple[Any, ...]] = {
    bool: (1, 0.0, "no", None), int: (1.5, 1.0, "2", True, None, [1]), float: ("1", True, None, [0.5], 1j),
    str: (1, None, b"cpu"),
}  # fmt: skip
"""Values of a wrong type, by the type of the field."""


def wrong_type_values(config: Any) -> list[tuple[Any, str, Any]]:
    """Return (section, field name, value of a wrong type) for every field of a configuration tree."""
    found: list[tuple[Any, str, Any]] = []
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        arms = [arm for arm in get_args(hint) if arm is not type(None)]
        if is_dataclass(value):
            found += [*wrong_type_values(value), (config, name, {"size_x": 40})]
        elif get_origin(hint) is Literal:
            found += [(config, name, wrong) for wrong in ("nope", 1, None, ["full"])]
        elif arms == [float]:
            found += [(config, name, wrong) for wrong in ("1", True)]
        elif get_origin(hint) is not tuple and not any(get_origin(arm) is tuple for arm in arms):
            found += [(config, name, wrong) for wrong in WRONG_KINDS[hint]]
    return found


@pytest.mark.parametrize("whole", [RunConfig(), ArenaConfig()], ids=["run", "arena"])
def test_wrong_type_error_names_the_config_field(whole):
    cases = wrong_type_values(whole)
    assert len(cases) > 3 * len(fields(whole))
    for section, name, wrong in cases:
        with pytest.raises(ValueError, match=rf"\b{name} is .*, expected ") as refused:
            replace(section, **{name: wrong})
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("physics", {"legged_max_stability": 101.0}, "physics.legged_max_stability is 101.0, expected at most"),
        ("physics", {"stand_up_stability": 101.0}, "physics.stand_up_stability is 101.0, expected at most"),
        (
            "",
            {"min_episode_seconds": 61.0},
            "env.min_episode_seconds is 61.0, expected 0.25 s to env.max_episode_seconds, 60 s",
        ),
        (
            "",
            {"max_episode_seconds": 0.2},
            "env.max_episode_seconds is 0.2, expected at least one environment step, 0.25 s",
        ),
        ("", {"zone_win_share": 1e-6}, "env.zone_win_share is 1e-06, expected a winning score of at least 0.01 s"),
    ],
)
def test_contradicting_config_fields_are_rejected(section, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(PHYSICS if section else EnvConfig(), **changes)


def test_one_step_episode_is_allowed():
    cfg = EnvConfig(dt_sim=0.1, decision_repeat=3, max_episode_seconds=0.3)
    assert cfg.dt_act > 0.3 and cfg.max_steps == 1


def test_least_winning_score_exceeds_rounding():
    assert MIN_WIN_SCORE_S >= 10 * float(SCORE_ROUNDING)


TICKS_S = (0.001, 0.02, 1 / 60, 0.025, 0.03, 0.05, 0.07, 0.1, 0.25, 1 / 3, 0.48)


@pytest.mark.parametrize("dt", TICKS_S)
def test_rounds_live_a_tick_and_smoke_fits_its_pool(dt):
    low, high = ranges_of(EnvConfig)["dt_sim"]
    assert low <= dt <= high
    longest = duration_ticks(ranges_of(Physics)["smoke_life_s"][1], dt)
    for weapon in WEAPONS:
        if weapon.speed_vox_s:
            assert life_ticks(weapon.life_s, dt) >= 1, weapon.weapon.name
        if weapon.bursts_smoke:
            # the first round bursts at the end of its flight, the last one when it is fired
            last = CLOUDS_PER_MECH * duration_ticks(weapon.cooldown_s, dt)
            assert life_ticks(weapon.life_s, dt) + longest <= last
