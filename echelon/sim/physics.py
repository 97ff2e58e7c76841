"""Physics that is common to all mech classes. ``echelon.sim.overrides`` changes single values for an environment."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from echelon.config.checks import HOUR_S, TINY, Angle, Fraction, NonNegative, Positive, Seconds, require, require_fields


@dataclass(frozen=True, kw_only=True)
class Physics:
    """Constants of motion, heat, stability and sensing that are common to all mech classes."""

    gravity_m_s2: Annotated[float, Interval(ge=0.0, le=100.0)] = 9.81
    """Gravity [m/s^2]; converted to voxels by world.voxel_size_m."""
    damping: Fraction = 0.98
    """Velocity factor per simulator tick."""
    step_height_vox: Annotated[float, Interval(ge=0.0, le=2.0)] = 1.1
    """Height by which a blocked mech is raised to climb a one-voxel ledge [vox]."""
    step_max_vz: NonNegative = 1.0
    """Vertical speed above which a moving mech does not climb ledges [vox/s]; 0 disables climbing."""
    legged_speed: Fraction = 0.4
    """Maximum speed factor with destroyed legs."""
    legged_jet: Fraction = 0.5
    """Jet thrust factor with destroyed legs; 0.5 keeps thrust below gravity."""
    water_speed: Fraction = 0.6
    """Maximum speed factor with the feet in water."""
    lava_heat_s: NonNegative = 40.0
    """Heat gained in lava [1/s]."""
    lava_damage_s: NonNegative = 5.0
    """Body damage taken in lava [1/s]."""
    debris_heat_s: NonNegative = 20.0
    """Heat gained on a debris field [1/s]."""
    debris_damage_s: NonNegative = 1.25
    """Body damage taken on a debris field [1/s]."""
    water_cooling_s: NonNegative = 30.0
    """Heat removed by water [1/s]."""
    vent_factor: NonNegative = 2.0
    """Extra heat dissipation while venting, as a multiple of the class dissipation."""
    ecm_heat_s: NonNegative = 3.0
    """Heat gained from active ECM [1/s]."""
    eccm_heat_s: NonNegative = 2.0
    """Heat gained from active ECCM [1/s]."""
    shutdown_restart: Fraction = 1.0
    """Fraction of the heat capacity below which a shut-down mech restarts; 1 disables hysteresis."""
    max_stability: Positive = 100.0
    """Maximum stability with intact legs."""
    legged_max_stability: Positive = 50.0
    """Maximum stability with destroyed legs."""
    stand_up_stability: Positive = 50.0
    """Stability after standing up from a knockdown."""
    stability_regen_s: NonNegative = 10.0
    """Stability regeneration before penalties [1/s]."""
    regen_legged_loss: Fraction = 0.5
    """Fraction of stability regeneration lost with destroyed legs; losses add up."""
    regen_moving_loss: Fraction = 0.5
    """Fraction of stability regeneration lost while moving."""
    regen_suppressed_loss: Fraction = 0.75
    """Fraction of stability regeneration lost while suppressed."""
    regen_min: Fraction = 0.1
    """Minimum fraction of stability regeneration after all losses."""
    moving_vox_s: NonNegative = 1.0
    """Speed above which a mech counts as moving [vox/s]."""
    fallen_s: Annotated[float, Interval(ge=TINY, le=HOUR_S)] = 3.0
    """Time on the ground after a knockdown [s]."""
    suppressed_s: Annotated[float, Interval(ge=TINY, le=HOUR_S)] = 1.2
    """Suppression time after an autocannon hit [s]."""
    painted_s: Seconds = 5.0
    """Time for which a painter marks its target [s]."""
    engaged_s: Seconds = 2.0
    """Time for which a mech counts as engaged after firing or being hit [s]."""
    rear_cos: Annotated[float, Interval(ge=-1.0, le=1.0)] = 0.707
    """Cosine between attack direction and facing above which a hit is from the rear."""
    rear_factor: NonNegative = 1.5
    """Damage factor of hits from the rear."""
    leg_height: Fraction = 0.3
    """Fraction of the mech height below which hits damage the legs."""
    leg_body_share: Fraction = 0.5
    """Fraction of leg damage that is also applied to the body."""
    paint_bonus: NonNegative = 0.10
    """Damage bonus against targets painted by the shooter's pack, as a fraction."""
    radar_vox: NonNegative = 14.0
    """Radar range at sensor quality 1 [vox]."""
    bloom_heat: NonNegative = 0.80
    """Fraction of the heat capacity above which a hostile is visible to thermal sensors."""
    ewar_vox: Positive = 50.0
    """Range of ECM and ECCM [vox]."""
    ecm_weight: NonNegative = 0.85
    """Sensor quality lost to a jammer at distance 0."""
    eccm_weight: NonNegative = 0.65
    """Sensor quality regained from friendly ECCM at distance 0."""
    quality_min: NonNegative = 0.25
    """Minimum sensor quality; also the quality of dead and shut-down mechs."""
    quality_max: Positive = 1.5
    """Maximum sensor quality."""
    paint_quality: NonNegative = 0.70
    """Minimum sensor quality for using targets painted by the own pack."""
    targeted_vox: NonNegative = 8.0
    """Distance within which a hostile with line of sight counts as targeting [vox]."""
    acoustic_occlusion: Fraction = 0.20
    """Fraction of acoustic intensity that remains without line of sight."""
    smoke_radius_vox: NonNegative = 4.0
    """Radius of a smoke cloud [vox]."""
    smoke_life_s: Annotated[float, Interval(ge=0.0, le=13.6)] = 10.0
    """Lifetime of a smoke cloud [s].

    A mech has slots for three clouds and a launcher cooldown of 5 s. The fourth smoke round may burst immediately where
    the first flew 1.33 s, so a cloud lives at most three cooldowns less that flight.
    """
    ams_vox: NonNegative = 5.5
    """Range of point defence [vox]."""
    ams_chance: Fraction = 0.60
    """Probability that a point-defence shot destroys a missile."""
    ams_cooldown_s: Seconds = 1.0
    """Time between point-defence shots [s]."""
    homing_gain_s: NonNegative = 4.0
    """Turn rate gain of a missile toward its target [1/s]."""
    loft: NonNegative = 0.5
    """Upward component added to a missile's launch direction."""
    kinetic_cone_rad: Angle = 0.1
    """Auto-aim half angle of gauss and autocannon [rad]."""
    kinetic_focus_cone_rad: Angle = 0.2
    """Auto-aim half angle toward the focus target [rad]."""
    spawn_jitter_vox: Annotated[float, Interval(ge=0.0, le=0.25)] = 0.25
    """Maximum random offset of a spawn position per axis [vox]."""
    spawn_yaw_jitter_rad: Angle = 0.15
    """Maximum random rotation of a mech at spawn [rad]."""
    landing_free_speed: NonNegative = 6.0
    """Impact speed up to which a landing causes no shock [vox/s]."""
    landing_shock: NonNegative = 5.0
    """Stability lost per vox/s of impact speed above landing_free_speed."""
    landing_crash: NonNegative = 1.0
    """Body damage per vox/s above landing_free_speed for a mech knocked down in the air."""

    def __post_init__(self) -> None:
        require_fields(self, "physics")
        expected = f"at most quality_max, {self.quality_max:g}"
        require(self.quality_min <= self.quality_max, "physics.quality_min", self.quality_min, expected)
        expected = f"at most max_stability, {self.max_stability:g}"
        for name in ("legged_max_stability", "stand_up_stability"):
            value = getattr(self, name)
            require(value <= self.max_stability, f"physics.{name}", value, expected)


PHYSICS = Physics()
"""The physics without overrides."""
