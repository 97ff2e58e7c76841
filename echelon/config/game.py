"""Configuration of the environment: world, teams, time and observations.

Constants of motion, heat and sensing are in ``echelon.sim.physics``; values that differ by weapon, mech class or voxel
material are tables in ``echelon.sim.arsenal`` and ``echelon.sim.world``. An invalid value raises ``ValueError`` with
the field, the value and the valid range.
"""

from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, Literal

from annotated_types import Interval

from echelon.config.checks import STRICT, Fraction, Positive, require, require_fields, require_span
from echelon.config.display import DisplayConfig
from echelon.config.reward import RewardConfig

Fairness = Literal["any", "path"]
"""Position of a map's capture zone relative to the teams; ``WorldConfig.fairness`` describes the values."""

PACK_SIZE = 5
"""Mechs per pack; ``echelon.sim.arsenal.ROSTER`` lists their classes by position."""

MIN_MAP_EDGE = 20
"""Minimum horizontal edge of a map [vox]."""

MIN_WIN_SCORE_S = 0.01
"""Minimum zone score that may win [s], well above the tolerance with which accumulated scores are compared."""

TANH_EPS = 1e-6
"""Distance of squashed actions from -1 and 1, so that their log probability stays finite."""


def with_fairness(env: "EnvConfig", fairness: Fairness) -> "EnvConfig":
    """Return the environment with maps of this fairness."""
    return replace(env, world=replace(env.world, fairness=fairness))


@dataclass(frozen=True, kw_only=True)
class ConnectivityConfig:
    """Check of a generated map: both teams must reach the capture zone on foot; blocked routes are dug open."""

    __pydantic_config__ = STRICT

    clearance_z: Annotated[int, Interval(ge=1, le=16)] = 4
    """Headroom of a walkable cell [vox]."""
    obstacle_inflate_radius: Annotated[int, Interval(ge=0, le=8)] = 1
    """Footprint radius used for digging, and width of the map border kept free of dug paths [vox]."""
    wall_cost: Annotated[int, Interval(ge=0, le=10**6)] = 80
    """Additional path cost of a blocked cell when digging."""
    carve_width: Annotated[int, Interval(ge=1, le=64)] = 5
    """Width of a dug path [vox]."""
    max_digs: Annotated[int, Interval(ge=0, le=64)] = 3
    """Dig attempts per team before the map is regenerated."""
    max_regenerations: Annotated[int, Interval(ge=0, le=64)] = 8
    """Regenerations before a flat map flagged open_map is used."""

    def __post_init__(self) -> None:
        require_fields(self, "world.connectivity")


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """Size of the voxel world and checks of its maps."""

    __pydantic_config__ = STRICT

    size_x: Annotated[int, Interval(ge=20, le=400)] = 100
    """Voxels along x, 20 to 400."""
    size_y: Annotated[int, Interval(ge=20, le=400)] = 100
    """Voxels along y, 20 to 400."""
    size_z: Annotated[int, Interval(ge=12, le=64)] = 20
    """Voxels along z, 12 to 64 (a column is one 64-bit word)."""
    voxel_size_m: Annotated[float, Interval(ge=0.01, le=1000.0)] = 1.0
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
        require_fields(self, "world")
        ratio = self.max_distance_ratio
        expected = "0 for no limit, or 1.05 to 1000"
        require(ratio == 0 or 1.05 <= ratio <= 1000, "world.max_distance_ratio", ratio, expected)


@dataclass(frozen=True, kw_only=True)
class ObsNormConfig:
    """Scales that map observations to [-1, 1]."""

    __pydantic_config__ = STRICT

    vel_scale_xy: Positive = 7.0
    """Horizontal speed scale [vox/s], the top speed of the fastest class; relative velocities use twice this."""
    vel_scale_z: Positive = 10.0
    """Vertical speed scale [vox/s]."""
    heat_max_ratio: Positive = 2.0
    """Ratio of heat to heat capacity at which the heat feature saturates."""

    def __post_init__(self) -> None:
        require_fields(self, "obs_norm")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """One environment: world, teams, time, observations, enabled mechanics and rewards."""

    __pydantic_config__ = STRICT

    world: WorldConfig = field(default_factory=WorldConfig)
    """Map size and connectivity."""
    num_packs: Annotated[int, Interval(ge=1, le=20)] = 1
    """Packs of five mechs per team, 1 to 20."""
    map_size_range: tuple[int, int] | None = None
    """Range of the x edge [vox], sampled per map; none uses world.size_x. The y edge keeps its ratio."""
    packs_per_team_range: tuple[int, int] | None = None
    """Range of packs per team, sampled per map, at most num_packs; none uses num_packs."""
    min_pack_size: Annotated[int, Interval(ge=1, le=PACK_SIZE)] = PACK_SIZE
    """Fewest mechs of a pack: each episode samples how many of the five, and which, are in all of its packs."""
    dt_sim: Annotated[float, Interval(ge=0.001, le=0.48)] = 0.05
    """Duration of a simulator tick [s]."""
    decision_repeat: Annotated[int, Interval(ge=1, le=1000)] = 5
    """Simulator ticks per environment step; the action is held."""
    max_episode_seconds: Annotated[float, Interval(ge=0.001, le=86400.0)] = 60.0
    """Time limit of an episode [s]."""
    min_episode_seconds: Annotated[float, Interval(ge=0.001, le=86400.0)] | None = None
    """Shortest time limit [s]: each episode samples one up to max_episode_seconds; none uses max_episode_seconds."""
    observation_mode: Literal["full", "partial"] = "partial"
    """Observe all mechs (full) or only those the sensors detect (partial)."""
    obs_layout: Literal["suite", "classic"] = "suite"
    """Observation layout: display of the mech's class (suite), or one layout for all classes (classic)."""
    observe_target: bool = False
    """Append the selected target slot and whether it is locked."""
    observe_scope: bool = False
    """Append acoustic intensity ahead, right, behind and left, and its change, to the suite layout."""
    observe_telemetry: bool = False
    """Append the 16x16 map of the world to the suite layout; the classic layout always has it."""
    observe_orders: bool = False
    """Append the order of the mech, and where it leads."""
    order_rate: Fraction = 0.0
    """Probability that a learning mech gets a random order, drawn every 10 s of training; reward.obey rewards it."""
    observe_local_map: bool = True
    """Append the 11x11 local map of blocked cells to the suite layout; walls are observed only there."""
    enable_target_selection: bool = True
    """Let the target preferences of an action select a focus target."""
    enable_ewar: bool = True
    """Let scouts use ECM and ECCM."""
    enable_obs_control: bool = True
    """Let actions sort and filter the contact slots."""
    nav_mode: Literal["off", "assist", "full"] = "off"
    """Navigation assist: fraction of the throttle that follows the path to the zone; off 0, assist 0.3, full 1."""
    zone_radius_vox: Annotated[float, Interval(ge=0.01, le=400.0)] = 7.5
    """Mean radius of the capture zone [vox]; each map samples 0.5 to 1.5 times this."""
    contested_floor: Fraction = 0.25
    """Minimum zone score rate of a team in a contested zone, as a fraction of the full rate."""
    zone_win_share: Positive = 0.5
    """Zone score that wins, as a fraction of the time limit."""
    truncation_bootstraps: bool = True
    """Bootstrap from the value and potential of the final observation at the time limit; off makes it an end."""
    gamma: Fraction = 0.99
    """Discount factor of the approach potential; must equal ppo.gamma."""
    landing: bool = False
    """Enable landing shock and crash damage."""
    own_eccm: bool = False
    """Apply ECCM to its emitter as well."""
    obs_norm: ObsNormConfig = field(default_factory=ObsNormConfig)
    """Observation scales."""
    display: DisplayConfig = field(default_factory=DisplayConfig)
    """Display manager of the suite layout."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        require_fields(self, "env")
        require_span(self.map_size_range, "env.map_size_range", MIN_MAP_EDGE, self.world.size_x)
        require_span(self.packs_per_team_range, "env.packs_per_team_range", 1, self.num_packs)
        limit, expected = self.max_episode_seconds, f"at least one environment step, {self.dt_act:g} s"
        require(limit / self.dt_act >= 1 - 1e-6, "env.max_episode_seconds", limit, expected)
        shortest = limit if self.min_episode_seconds is None else self.min_episode_seconds
        expected = f"{self.dt_act:g} s to env.max_episode_seconds, {limit:g} s"
        require(self.dt_act <= shortest + 1e-6 and shortest <= limit, "env.min_episode_seconds", shortest, expected)
        least = self.zone_score_to_win * self.min_steps / self.max_steps
        expected = f"a winning score of at least {MIN_WIN_SCORE_S:g} s, not {least:g} s"
        require(least >= MIN_WIN_SCORE_S, "env.zone_win_share", self.zone_win_share, expected)

    @property
    def dt_act(self) -> float:
        """Duration of an environment step [s]."""
        return self.dt_sim * self.decision_repeat

    @property
    def max_steps(self) -> int:
        return self._steps(self.max_episode_seconds)

    @property
    def min_steps(self) -> int:
        """Environment steps of the shortest time limit."""
        return self._steps(self.min_episode_seconds or self.max_episode_seconds)

    def _steps(self, seconds: float) -> int:
        return ceil(seconds / self.dt_act - 1e-6)

    def without_ranges(self) -> "EnvConfig":
        """Return the same with the largest map, team, pack and time limit in every episode."""
        ranges = {"map_size_range": None, "packs_per_team_range": None, "min_episode_seconds": None}
        return replace(self, **ranges, min_pack_size=PACK_SIZE)

    @property
    def team_size(self) -> int:
        return self.num_packs * PACK_SIZE

    @property
    def num_mechs(self) -> int:
        return 2 * self.team_size

    @property
    def zone_score_to_win(self) -> float:
        """Zone score at which a team wins [s]."""
        return self.zone_win_share * self.max_episode_seconds
