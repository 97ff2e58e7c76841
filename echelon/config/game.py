"""Configuration of the environment: world, physics, teams, time and observations.

Values that differ by weapon, mech class or voxel material are tables in ``echelon.sim.arsenal`` and
``echelon.sim.world``. An invalid value raises ``ValueError`` with the field, the value and the valid range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, Any, Literal

from echelon.config.display import DisplayConfig
from echelon.config.ranges import (
    CONNECTIVITY_RANGES,
    ENV_RANGES,
    MIN_WIN_SCORE_S,
    OBS_NORM_RANGES,
    PHYSICS_RANGES,
    STRICT,
    WORLD_RANGES,
    require,
    require_ranges,
    require_span,
)
from echelon.config.reward import RewardConfig

Fairness = Literal["any", "path"]
"""Position of a map's capture zone relative to the teams; ``WorldConfig.fairness`` describes the values."""

PACK_SIZE = 5
"""Mechs per pack; ``echelon.sim.arsenal.ROSTER`` lists their classes by position."""

MIN_MAP_EDGE = 20
"""Minimum horizontal edge of a map [vox]."""

TANH_EPS = 1e-6
"""Distance of squashed actions from -1 and 1, so that their log probability stays finite."""


REPLACED_VALUES: dict[str, dict[str, str]] = {"nav_mode": {"planner": "full"}}
"""Removed values of ``EnvConfig`` fields in older files, and the current value of the same effect."""


def with_fairness(env: EnvConfig, fairness: Fairness) -> EnvConfig:
    """Return the environment with maps of this fairness."""
    return replace(env, world=replace(env.world, fairness=fairness))


def current_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of ``EnvConfig`` with removed values replaced by the current ones."""
    current = dict(fields)
    for name in REPLACED_VALUES.keys() & current:
        if isinstance(current[name], str):
            current[name] = REPLACED_VALUES[name].get(current[name], current[name])
    return current


class _Replaced:
    """Annotation of a field in ``REPLACED_VALUES``: pydantic reads removed values as the current ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def current(value: Any) -> Any:
            return current_values({self.name: value})[self.name]

        return core_schema.no_info_before_validator_function(current, handler(source))


@dataclass(frozen=True, kw_only=True)
class PhysicsConfig:
    """Constants of motion, heat, stability and sensing that are common to all mech classes."""

    __pydantic_config__ = STRICT

    gravity_m_s2: float = 9.81
    """Gravity [m/s^2]; converted to voxels by world.voxel_size_m."""
    damping: float = 0.98
    """Velocity factor per simulator tick."""
    step_height_vox: float = 1.1
    """Height by which a blocked mech is raised to climb a one-voxel ledge [vox]."""
    step_max_vz: float = 1.0
    """Vertical speed above which a moving mech does not climb ledges [vox/s]; 0 disables climbing."""
    legged_speed: float = 0.4
    """Maximum speed factor with destroyed legs."""
    legged_jet: float = 0.5
    """Jet thrust factor with destroyed legs; 0.5 keeps thrust below gravity."""
    water_speed: float = 0.6
    """Maximum speed factor with the feet in water."""
    lava_heat_s: float = 40.0
    """Heat gained in lava [1/s]."""
    lava_damage_s: float = 5.0
    """Body damage taken in lava [1/s]."""
    debris_heat_s: float = 20.0
    """Heat gained on a debris field [1/s]."""
    debris_damage_s: float = 1.25
    """Body damage taken on a debris field [1/s]."""
    water_cooling_s: float = 30.0
    """Heat removed by water [1/s]."""
    vent_factor: float = 2.0
    """Extra heat dissipation while venting, as a multiple of the class dissipation."""
    ecm_heat_s: float = 3.0
    """Heat gained from active ECM [1/s]."""
    eccm_heat_s: float = 2.0
    """Heat gained from active ECCM [1/s]."""
    shutdown_restart: float = 1.0
    """Fraction of the heat capacity below which a shut-down mech restarts; 1 disables hysteresis."""
    max_stability: float = 100.0
    """Maximum stability with intact legs."""
    legged_max_stability: float = 50.0
    """Maximum stability with destroyed legs."""
    stand_up_stability: float = 50.0
    """Stability after standing up from a knockdown."""
    stability_regen_s: float = 10.0
    """Stability regeneration before penalties [1/s]."""
    regen_legged_loss: float = 0.5
    """Fraction of stability regeneration lost with destroyed legs; losses add up."""
    regen_moving_loss: float = 0.5
    """Fraction of stability regeneration lost while moving."""
    regen_suppressed_loss: float = 0.75
    """Fraction of stability regeneration lost while suppressed."""
    regen_min: float = 0.1
    """Minimum fraction of stability regeneration after all losses."""
    moving_vox_s: float = 1.0
    """Speed above which a mech counts as moving [vox/s]."""
    fallen_s: float = 3.0
    """Time on the ground after a knockdown [s]."""
    suppressed_s: float = 1.2
    """Suppression time after an autocannon hit [s]."""
    painted_s: float = 5.0
    """Time for which a painter marks its target [s]."""
    engaged_s: float = 2.0
    """Time for which a mech counts as engaged after firing or being hit [s]."""
    rear_cos: float = 0.707
    """Cosine between attack direction and facing above which a hit is from the rear."""
    rear_factor: float = 1.5
    """Damage factor of hits from the rear."""
    leg_height: float = 0.3
    """Fraction of the mech height below which hits damage the legs."""
    leg_body_share: float = 0.5
    """Fraction of leg damage that is also applied to the body."""
    paint_bonus: float = 0.10
    """Damage bonus against targets painted by the shooter's pack, as a fraction."""
    radar_vox: float = 14.0
    """Radar range at sensor quality 1 [vox]."""
    bloom_heat: float = 0.80
    """Fraction of the heat capacity above which a hostile is visible to thermal sensors."""
    ewar_vox: float = 50.0
    """Range of ECM and ECCM [vox]."""
    ecm_weight: float = 0.85
    """Sensor quality lost to a jammer at distance 0."""
    eccm_weight: float = 0.65
    """Sensor quality regained from friendly ECCM at distance 0."""
    own_eccm: bool = False
    """Apply ECCM to its emitter as well."""
    quality_min: float = 0.25
    """Minimum sensor quality; also the quality of dead and shut-down mechs."""
    quality_max: float = 1.5
    """Maximum sensor quality."""
    paint_quality: float = 0.70
    """Minimum sensor quality for using targets painted by the own pack."""
    targeted_vox: float = 8.0
    """Distance within which a hostile with line of sight counts as targeting [vox]."""
    acoustic_occlusion: float = 0.20
    """Fraction of acoustic intensity that remains without line of sight."""
    smoke_radius_vox: float = 4.0
    """Radius of a smoke cloud [vox]."""
    smoke_life_s: float = 10.0
    """Lifetime of a smoke cloud [s]."""
    ams_vox: float = 5.5
    """Range of point defence [vox]."""
    ams_chance: float = 0.60
    """Probability that a point-defence shot destroys a missile."""
    ams_cooldown_s: float = 1.0
    """Time between point-defence shots [s]."""
    homing_gain_s: float = 4.0
    """Turn rate gain of a missile toward its target [1/s]."""
    loft: float = 0.5
    """Upward component added to a missile's launch direction."""
    kinetic_cone_rad: float = 0.1
    """Auto-aim half angle of gauss and autocannon [rad]."""
    kinetic_focus_cone_rad: float = 0.2
    """Auto-aim half angle toward the focus target [rad]."""
    spawn_jitter_vox: float = 0.25
    """Maximum random offset of a spawn position per axis [vox]."""
    spawn_yaw_jitter_rad: float = 0.15
    """Maximum random rotation of a mech at spawn [rad]."""
    landing: bool = False
    """Enable landing shock and crash damage."""
    landing_free_speed: float = 6.0
    """Impact speed up to which a landing causes no shock [vox/s]."""
    landing_shock: float = 5.0
    """Stability lost per vox/s of impact speed above landing_free_speed."""
    landing_crash: float = 1.0
    """Body damage per vox/s above landing_free_speed for a mech knocked down in the air."""

    def __post_init__(self) -> None:
        require_ranges(self, "physics", PHYSICS_RANGES)
        expected = f"at most quality_max, {self.quality_max:g}"
        require(self.quality_min <= self.quality_max, "physics.quality_min", self.quality_min, expected)
        expected = f"at most max_stability, {self.max_stability:g}"
        for name in ("legged_max_stability", "stand_up_stability"):
            value = getattr(self, name)
            require(value <= self.max_stability, f"physics.{name}", value, expected)


@dataclass(frozen=True, kw_only=True)
class ConnectivityConfig:
    """Check of a generated map: both teams must reach the capture zone on foot; blocked routes are dug open."""

    __pydantic_config__ = STRICT

    clearance_z: int = 4
    """Headroom of a walkable cell [vox]."""
    obstacle_inflate_radius: int = 1
    """Footprint radius used for digging, and width of the map border kept free of dug paths [vox]."""
    wall_cost: int = 80
    """Additional path cost of a blocked cell when digging."""
    carve_width: int = 5
    """Width of a dug path [vox]."""
    max_digs: int = 3
    """Dig attempts per team before the map is regenerated."""
    max_regenerations: int = 8
    """Regenerations before a flat map flagged open_map is used."""

    def __post_init__(self) -> None:
        require_ranges(self, "world.connectivity", CONNECTIVITY_RANGES)


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """Size of the voxel world and checks of its maps."""

    __pydantic_config__ = STRICT

    size_x: int = 100
    """Voxels along x, 20 to 400."""
    size_y: int = 100
    """Voxels along y, 20 to 400."""
    size_z: int = 20
    """Voxels along z, 12 to 64 (a column is one 64-bit word)."""
    voxel_size_m: float = 1.0
    """Edge of a voxel [m]."""
    ensure_connectivity: bool = True
    """Check that both teams can reach the capture zone, and dig a path where they cannot."""
    connectivity: ConnectivityConfig = field(default_factory=ConnectivityConfig)
    """Parameters of the connectivity check."""
    fairness: Fairness = "any"
    """Position of the zone: anywhere (any), or where the path costs of both teams are nearly equal (path)."""
    max_distance_ratio: float = 0.0
    """Maximum ratio of the teams' distances to the zone, 0 or 1.05 to 1000; 0 sets no limit."""

    def __post_init__(self) -> None:
        require_ranges(self, "world", WORLD_RANGES)
        ratio = self.max_distance_ratio
        expected = "0 for no limit, or 1.05 to 1000"
        require(ratio == 0 or 1.05 <= ratio <= 1000, "world.max_distance_ratio", ratio, expected)


@dataclass(frozen=True, kw_only=True)
class ObsNormConfig:
    """Scales that map observations to [-1, 1]."""

    __pydantic_config__ = STRICT

    vel_scale_xy: float = 7.0
    """Horizontal speed scale [vox/s], the top speed of the fastest class; relative velocities use twice this."""
    vel_scale_z: float = 10.0
    """Vertical speed scale [vox/s]."""
    heat_max_ratio: float = 2.0
    """Ratio of heat to heat capacity at which the heat feature saturates."""

    def __post_init__(self) -> None:
        require_ranges(self, "obs_norm", OBS_NORM_RANGES)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """One environment: world, teams, time, observations, enabled mechanics and rewards."""

    __pydantic_config__ = STRICT

    world: WorldConfig = field(default_factory=WorldConfig)
    """Map size and connectivity."""
    num_packs: int = 1
    """Packs of five mechs per team, 1 to 20."""
    map_size_range: tuple[int, int] | None = None
    """Range of the x edge [vox], sampled per map; none uses world.size_x. The y edge keeps its ratio."""
    packs_per_team_range: tuple[int, int] | None = None
    """Range of packs per team, sampled per map, at most num_packs; none uses num_packs."""
    dt_sim: float = 0.05
    """Duration of a simulator tick [s]."""
    decision_repeat: int = 5
    """Simulator ticks per environment step; the action is held."""
    max_episode_seconds: float = 60.0
    """Time limit of an episode [s]."""
    observation_mode: Literal["full", "partial"] = "partial"
    """Observe all mechs (full) or only those the sensors detect (partial)."""
    obs_layout: Literal["suite", "classic"] = "suite"
    """Observation layout: display of the mech's class (suite), or one layout for all classes (classic)."""
    observe_target: bool = False
    """Append the selected target slot and whether it is locked."""
    observe_scope: bool = False
    """Append acoustic intensity of the four quadrants and its change to the suite layout."""
    observe_telemetry: bool = False
    """Append the 16x16 map of the world to the suite layout; the classic layout always has it."""
    observe_comms: bool = True
    """Append messages of the pack to the suite layout."""
    observe_local_map: bool = True
    """Append the 11x11 local map of blocked cells to the suite layout; walls are observed only there."""
    comm_dim: int = 8
    """Floats per pack message; 0 disables messages."""
    enable_target_selection: bool = True
    """Let the target preferences of an action select a focus target."""
    enable_ewar: bool = True
    """Let scouts use ECM and ECCM."""
    enable_obs_control: bool = True
    """Let actions sort and filter the contact slots."""
    enable_comm: bool = True
    """Deliver messages within a pack."""
    nav_mode: Annotated[Literal["off", "assist", "full"], _Replaced("nav_mode")] = "off"
    """Navigation assist: fraction of the throttle that follows the path to the zone; off 0, assist 0.3, full 1."""
    zone_radius_vox: float = 7.5
    """Mean radius of the capture zone [vox]; each map samples 0.5 to 1.5 times this."""
    contested_floor: float = 0.25
    """Minimum zone score rate of a team in a contested zone, as a fraction of the full rate."""
    zone_win_share: float = 0.5
    """Zone score that wins, as a fraction of the time limit."""
    truncation_bootstraps: bool = True
    """Bootstrap from the value and potential of the final observation at the time limit; off makes it an end."""
    gamma: float = 0.99
    """Discount factor of the approach potential; must equal ppo.gamma."""
    physics: PhysicsConfig = field(default_factory=PhysicsConfig)
    """Constants of motion, heat, stability and sensing."""
    obs_norm: ObsNormConfig = field(default_factory=ObsNormConfig)
    """Observation scales."""
    display: DisplayConfig = field(default_factory=DisplayConfig)
    """Display manager of the suite layout."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        for name in REPLACED_VALUES:
            object.__setattr__(self, name, current_values({name: getattr(self, name)})[name])
        require_ranges(self, "env", ENV_RANGES)
        require_span(self.map_size_range, "env.map_size_range", MIN_MAP_EDGE, self.world.size_x)
        require_span(self.packs_per_team_range, "env.packs_per_team_range", 1, self.num_packs)
        limit, expected = self.max_episode_seconds, f"at least one environment step, {self.dt_act:g} s"
        require(limit / self.dt_act >= 1 - 1e-6, "env.max_episode_seconds", limit, expected)
        expected = f"a winning score of at least {MIN_WIN_SCORE_S:g} s, not {self.zone_score_to_win:g} s"
        require(self.zone_score_to_win >= MIN_WIN_SCORE_S, "env.zone_win_share", self.zone_win_share, expected)

    @property
    def dt_act(self) -> float:
        """Duration of an environment step [s]."""
        return self.dt_sim * self.decision_repeat

    @property
    def max_steps(self) -> int:
        """Environment steps per episode."""
        return ceil(self.max_episode_seconds / self.dt_act - 1e-6)

    @property
    def team_size(self) -> int:
        """Mechs per team."""
        return self.num_packs * PACK_SIZE

    @property
    def num_mechs(self) -> int:
        """Mechs of both teams."""
        return 2 * self.team_size

    @property
    def zone_score_to_win(self) -> float:
        """Zone score at which a team wins [s]."""
        return self.zone_win_share * self.max_episode_seconds
