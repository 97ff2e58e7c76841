"""The dials of the game: world, physics, teams, clock and observation; the reward's are in ``config_reward``, the
display's in ``config_display``.

Import them from ``echelon.config``, which adds the learner's. Tables that differ by weapon, mech class or
voxel material are rows in ``echelon.sim.arsenal`` and ``echelon.sim.world``. A value that makes no sense
raises ``ValueError`` naming field, value and range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, Literal

from echelon.config.display import DisplayConfig
from echelon.config.ranges import (
    CONNECTIVITY_RANGES,
    ENV_RANGES,
    LEAST_WIN_S,
    OBS_NORM_RANGES,
    PHYSICS_RANGES,
    STRICT,
    WORLD_RANGES,
    require,
    require_ranges,
    require_span,
)
from echelon.config.reward import RewardConfig

PACK_SIZE = 5
"""Mechs in a pack; the roster by position is ``echelon.sim.arsenal.ROSTER``."""

EVAL_SEED_BASE = 2**30
"""First seed of the held-out stream; training seeds are always below it."""

SHORTEST_EDGE = 20
"""Shortest horizontal edge of a map [vox]."""

EPS_NORM = 1e-7
EPS_DIV = 1e-9
TANH_EPS = 1e-6


REPLACED_VALUES: dict[str, dict[str, str]] = {"nav_mode": {"planner": "full"}}
"""Values of ``EnvConfig`` fields that are no longer offered, with the value of the same effect; old files have them."""


def current_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of ``EnvConfig`` with replaced values as they are spelled now."""
    read = dict(fields)
    for name in REPLACED_VALUES.keys() & read:
        if isinstance(read[name], str):
            read[name] = REPLACED_VALUES[name].get(read[name], read[name])
    return read


class _Replaced:
    """Annotation of a field with ``REPLACED_VALUES``: pydantic reads old values as the new ones."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def current(value: Any) -> Any:
            return current_values({self.name: value})[self.name]

        return core_schema.no_info_before_validator_function(current, handler(source))


@dataclass(frozen=True, kw_only=True)
class PhysicsConfig:
    """Constants of motion, heat, stability and sensing that hold for every mech."""

    __pydantic_config__ = STRICT

    gravity_m_s2: float = 9.81
    """Gravity [m/s^2]; divided by the voxel edge it is the only thing metres affect."""
    damping: float = 0.98
    """Factor on the whole velocity each tick."""
    step_height_vox: float = 1.1
    """How far a blocked mech is raised to climb a one-voxel ledge."""
    step_max_vz: float = 1.0
    """Vertical speed [vox/s] above which no step-up happens, but for a mech at rest; 0 switches climbing off."""
    legged_speed: float = 0.4
    """Speed factor with destroyed legs."""
    legged_jet: float = 0.5
    """Jet factor with destroyed legs; below gravity, so legged mechs cannot climb."""
    water_speed: float = 0.6
    """Speed factor with feet in water."""
    lava_heat_s: float = 40.0
    """Heat per second standing in lava."""
    lava_damage_s: float = 5.0
    """Body damage per second standing in lava."""
    debris_heat_s: float = 20.0
    """Heat per second standing on a debris field."""
    debris_damage_s: float = 1.25
    """Body damage per second standing on a debris field."""
    water_cooling_s: float = 30.0
    """Heat removed per second by water."""
    vent_factor: float = 2.0
    """Venting adds this many times the class dissipation."""
    ecm_heat_s: float = 3.0
    """Heat per second of a running ECM."""
    eccm_heat_s: float = 2.0
    """Heat per second of a running ECCM."""
    shutdown_restart: float = 1.0
    """Fraction of the heat cap below which a shut-down mech restarts; 1 means no hysteresis."""
    max_stability: float = 100.0
    """Stability of an upright mech with legs."""
    legged_max_stability: float = 50.0
    """Ceiling of stability with destroyed legs."""
    stand_up_stability: float = 50.0
    """Stability after standing up."""
    stability_regen_s: float = 10.0
    """Stability regained per second before penalties."""
    regen_legged_loss: float = 0.5
    """Share of stability regeneration lost with destroyed legs; the losses add up."""
    regen_moving_loss: float = 0.5
    """Share lost while moving."""
    regen_suppressed_loss: float = 0.75
    """Share lost while suppressed."""
    regen_min: float = 0.1
    """Share of stability regeneration that always remains."""
    moving_vox_s: float = 1.0
    """Speed above which a mech counts as moving [vox/s]."""
    fallen_s: float = 3.0
    """Time on the ground after a knockdown [s]."""
    suppressed_s: float = 1.2
    """How long an autocannon hit suppresses [s]."""
    painted_s: float = 5.0
    """How long paint lasts [s]."""
    engaged_s: float = 2.0
    """How long firing or being hit counts as engaged [s]."""
    rear_cos: float = 0.707
    """Attack direction against facing above which a hit is from the rear."""
    rear_factor: float = 1.5
    """Damage factor from the rear."""
    leg_height: float = 0.3
    """Hits below this fraction of the height strike the legs."""
    leg_body_share: float = 0.5
    """Share of a leg hit that also reaches the body."""
    paint_bonus: float = 0.10
    """Extra damage on a target painted by the shooter's pack."""
    radar_vox: float = 14.0
    """Radar range at sensor quality 1 [vox]."""
    bloom_heat: float = 0.80
    """Heat fraction above which a hostile shows thermally."""
    ewar_vox: float = 50.0
    """Reach of ECM and ECCM [vox]."""
    ecm_weight: float = 0.85
    """Quality lost to a jammer at distance zero."""
    eccm_weight: float = 0.65
    """Quality regained from a friendly ECCM at distance zero."""
    own_eccm: bool = False
    """Whether an emitter's ECCM aids itself too."""
    quality_min: float = 0.25
    """Lowest sensor quality; also that of dead and shut-down viewers."""
    quality_max: float = 1.5
    """Highest sensor quality."""
    paint_quality: float = 0.70
    """Sensor quality needed to use own pack's paint."""
    targeted_vox: float = 8.0
    """Distance within which a hostile with sight counts as targeting [vox]."""
    acoustic_occlusion: float = 0.20
    """Share of noise that is heard without line of sight."""
    smoke_radius_vox: float = 4.0
    """Radius of a smoke cloud [vox]."""
    smoke_life_s: float = 10.0
    """Life of a smoke cloud [s]."""
    ams_vox: float = 5.5
    """Reach of point defence [vox]."""
    ams_chance: float = 0.60
    """Chance that one point-defence attempt destroys a missile."""
    ams_cooldown_s: float = 1.0
    """Time between point-defence attempts [s]."""
    homing_gain_s: float = 4.0
    """How fast a missile turns toward its target [1/s]."""
    loft: float = 0.5
    """Upward component added to a missile's launch direction."""
    kinetic_cone_rad: float = 0.1
    """Auto-aim half cone of gauss and autocannon [rad]."""
    kinetic_focus_cone_rad: float = 0.2
    """Auto-aim half cone toward the focus target [rad]."""
    spawn_jitter_vox: float = 0.25
    """Random offset of each mech at spawn, per axis [vox]."""
    spawn_yaw_jitter_rad: float = 0.15
    """Random turn of each mech at spawn [rad]."""
    landing: bool = False
    """Landing shock and crash damage."""
    landing_free_speed: float = 6.0
    """Impact speed without landing shock [vox/s]."""
    landing_shock: float = 5.0
    """Stability lost per vox/s above the free speed."""
    landing_crash: float = 1.0
    """Body damage per vox/s above the free speed when fallen in the air."""

    def __post_init__(self) -> None:
        require_ranges(self, "physics", PHYSICS_RANGES)
        wanted = f"at most quality_max, {self.quality_max:g}"
        require(self.quality_min <= self.quality_max, "physics.quality_min", self.quality_min, wanted)
        top, wanted = self.max_stability, f"at most max_stability, {self.max_stability:g}"
        for name in ("legged_max_stability", "stand_up_stability"):
            require(getattr(self, name) <= top, f"physics.{name}", getattr(self, name), wanted)


@dataclass(frozen=True, kw_only=True)
class ConnectivityConfig:
    """How a map is checked, and dug open, so that both teams can walk to the zone."""

    __pydantic_config__ = STRICT

    clearance_z: int = 4
    """Headroom of a standable cell [vox]."""
    obstacle_inflate_radius: int = 1
    """Footprint radius of the dig grid and width of its forbidden border [vox]."""
    wall_cost: int = 80
    """Extra cost of digging through a blocked cell."""
    carve_width: int = 5
    """Width of a dug path [vox]."""
    max_digs: int = 3
    """Dig attempts before a map is regenerated."""
    max_regenerations: int = 8
    """Regenerations before an open map is used and flagged."""

    def __post_init__(self) -> None:
        require_ranges(self, "world.connectivity", CONNECTIVITY_RANGES)


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """Size and kind of the voxel world."""

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
    """Check that both teams can reach the zone, and dig where they cannot."""
    connectivity: ConnectivityConfig = field(default_factory=ConnectivityConfig)
    """How that is done."""
    max_distance_ratio: float = 0.0
    """Largest allowed ratio of the teams' distances to the zone; 0 allows any."""

    def __post_init__(self) -> None:
        require_ranges(self, "world", WORLD_RANGES)
        ratio = self.max_distance_ratio
        wanted = "0 for any, else 1.05 to 1000"
        require(ratio == 0 or 1.05 <= ratio <= 1000, "world.max_distance_ratio", ratio, wanted)


@dataclass(frozen=True, kw_only=True)
class ObsNormConfig:
    """Scales that bring observations into [-1, 1]."""

    __pydantic_config__ = STRICT

    vel_scale_xy: float = 7.0
    """Horizontal speed scale [vox/s], the fastest class; relative velocities use twice this."""
    vel_scale_z: float = 10.0
    """Vertical speed scale [vox/s]."""
    heat_max_ratio: float = 2.0
    """Heat over capacity at which the heat feature saturates."""

    def __post_init__(self) -> None:
        require_ranges(self, "obs_norm", OBS_NORM_RANGES)


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """One environment: the world, the teams, the clock, and what pilots see and may do."""

    __pydantic_config__ = STRICT

    world: WorldConfig = field(default_factory=WorldConfig)
    """Map size and kind."""
    num_packs: int = 1
    """Packs of five per team, 1 to 20."""
    map_size_range: tuple[int, int] | None = None
    """Shortest and longest x edge of the maps [vox], drawn for each map; none takes world.size_x. y keeps its share."""
    packs_per_team_range: tuple[int, int] | None = None
    """Fewest and most packs per team, drawn for each map; none takes num_packs, which is the most there can be."""
    dt_sim: float = 0.05
    """Simulation tick [s]."""
    decision_repeat: int = 5
    """Ticks per decision; the action is held."""
    max_episode_seconds: float = 60.0
    """Time limit of an episode [s]."""
    observation_mode: Literal["full", "partial"] = "partial"
    """Whether pilots see everything or only what their sensors give."""
    obs_layout: Literal["suite", "classic"] = "suite"
    """What pilots are shown: the display of their class, or the same contacts, maps and scalars for all."""
    observe_target: bool = False
    """Append the chosen target slot, and whether it is locked."""
    observe_scope: bool = False
    """Append the sound scope to the suite layout: loudness ahead, right, behind and left, and how it changed."""
    observe_telemetry: bool = False
    """Append the 16x16 map of the whole field to the suite layout; the classic one always has it."""
    observe_comms: bool = True
    """Append the pack's messages to the suite layout."""
    observe_local_map: bool = True
    """Append the 11x11 local map to the suite layout; without it pilots are blind to walls."""
    comm_dim: int = 8
    """Floats in a pack message; 0 disables."""
    enable_target_selection: bool = True
    """Whether the target preferences set a focus target."""
    enable_ewar: bool = True
    """Whether scouts may run ECM and ECCM."""
    enable_obs_control: bool = True
    """Whether pilots may sort and filter their contacts."""
    enable_comm: bool = True
    """Whether messages are delivered."""
    nav_mode: Annotated[Literal["off", "assist", "full"], _Replaced("nav_mode")] = "off"
    """Navigation assist: share of the throttle that follows the path to the zone; off 0, assist 0.3, full 1."""
    zone_radius_vox: float = 7.5
    """Mean radius of the capture zone [vox]; sampled 0.5 to 1.5 times this."""
    contested_floor: float = 0.25
    """Least zone tick of a team present in a contested zone."""
    zone_win_share: float = 0.5
    """Share of the time limit that a score must reach to win."""
    truncation_bootstraps: bool = True
    """Whether the time limit bootstraps from the value of the final observation."""
    gamma: float = 0.99
    """Discount of the approach potential; presets keep it equal to ppo.gamma."""
    physics: PhysicsConfig = field(default_factory=PhysicsConfig)
    """Constants of motion, heat and sensing."""
    obs_norm: ObsNormConfig = field(default_factory=ObsNormConfig)
    """Observation scales."""
    display: DisplayConfig = field(default_factory=DisplayConfig)
    """What displays make of what sensors find."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Reward weights."""

    def __post_init__(self) -> None:
        for name in REPLACED_VALUES:
            object.__setattr__(self, name, current_values({name: getattr(self, name)})[name])
        require_ranges(self, "env", ENV_RANGES)
        require_span(self.map_size_range, "env.map_size_range", SHORTEST_EDGE, self.world.size_x)
        require_span(self.packs_per_team_range, "env.packs_per_team_range", 1, self.num_packs)
        limit, wanted = self.max_episode_seconds, f"at least one decision, {self.dt_act:g} seconds"
        require(limit / self.dt_act >= 1 - 1e-6, "env.max_episode_seconds", limit, wanted)
        wanted = f"a winning score of at least {LEAST_WIN_S:g} seconds, which {self.zone_score_to_win:g} is not"
        require(self.zone_score_to_win >= LEAST_WIN_S, "env.zone_win_share", self.zone_win_share, wanted)

    @property
    def dt_act(self) -> float:
        """Seconds per decision."""
        return self.dt_sim * self.decision_repeat

    @property
    def max_steps(self) -> int:
        """Decisions in an episode."""
        return ceil(self.max_episode_seconds / self.dt_act - 1e-6)

    @property
    def team_size(self) -> int:
        """Mechs per team."""
        return self.num_packs * PACK_SIZE

    @property
    def num_mechs(self) -> int:
        """Mechs in an environment, both teams."""
        return 2 * self.team_size

    @property
    def zone_score_to_win(self) -> float:
        """Zone score that wins at once."""
        return self.zone_win_share * self.max_episode_seconds
