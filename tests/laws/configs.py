"""Hypothesis strategies: environment configurations and random actions.

Sizes are weighted to small maps and few mechs, so that hundreds of battles fit into a minute.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from echelon.actions import ACTION_DIM
from echelon.config import ConnectivityConfig, DisplayConfig, EnvConfig, ObsNormConfig, RewardConfig, WorldConfig
from echelon.config.checks import Finite, ranges_of
from echelon.env import layout
from echelon.sim.physics import PHYSICS, Physics

MOST = {"step_height_vox": 1.8, "step_max_vz": 2.0, "memory_s": 10.0, "aim_cone_rad": 3.0, "low_stability": 100.0}
"""Largest value drawn of fields with a wider range."""
FACTORS = (0.5, 0.75, 1.0, 1.0, 1.25, 2.0)
"""Factors on the default of a field."""
KINDS = ("uniform", "full", "held", "broken", "huge", "still", "duel")
"""Kinds of random actions."""
JUNK = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0, 2.0], np.float32)
Ranges = Mapping[str, tuple[float, float]]
REWARD_FIELDS: Ranges = ranges_of(RewardConfig)
OPTIONAL_BLOCKS = [block.config_field for block in (layout.LOCAL_MAP, *layout.OPTIONAL_BLOCKS)]
"""Fields of ``EnvConfig`` that include an observation block."""


def reward_weights() -> tuple[str, ...]:
    """Return the fields of ``RewardConfig`` that may have either sign."""
    return tuple(f.name for f in fields(RewardConfig) if f.type == Finite)


def scaled_fields(
    draw: st.DrawFn, base: Any, ranges: Ranges, most: int, negative: Sequence[str] = ()
) -> dict[str, float]:
    """Return up to ``most`` fields scaled by a factor, within their range; ``negative`` ones of either sign."""
    changed: dict[str, float] = {}
    for name in draw(st.lists(st.sampled_from(sorted(ranges)), max_size=most, unique=True)):
        low, high = ranges[name]
        sign = draw(st.sampled_from((1.0, -1.0))) if name in negative else 1.0
        value = sign * getattr(base, name) * draw(st.sampled_from(FACTORS))
        changed[name] = max(low, min(value, high, MOST.get(name, high)))
    return changed


@st.composite
def physics(draw: st.DrawFn) -> dict[str, float]:
    """A few changed values of the physics, by parameter."""
    base = PHYSICS
    changed = scaled_fields(draw, base, ranges_of(Physics), 8)
    top = changed.get("max_stability", base.max_stability)
    for name in ("legged_max_stability", "stand_up_stability"):
        changed[name] = min(changed.get(name, getattr(base, name)), top)
    return {f"physics.{name}": value for name, value in changed.items()}


@st.composite
def displays(draw: st.DrawFn) -> DisplayConfig:
    """A display with a few fields changed, some set to the ends of their range, and parts switched off."""
    base = DisplayConfig()
    ranges = {name: ends for name, ends in ranges_of(DisplayConfig).items() if name != "attention"}
    changed: dict[str, Any] = scaled_fields(draw, base, ranges, 4)
    for name in draw(st.lists(st.sampled_from(sorted(ranges)), max_size=2, unique=True)):
        low, high = ranges[name]
        changed[name] = draw(st.sampled_from((low, min(high, MOST.get(name, high)))))
    for name in ("keeps_slots", "alerts", "reports", "scope", "descriptor", "degrades"):
        changed[name] = draw(st.sampled_from((True, True, False)))
    oracle, attention = draw(st.sampled_from((False, False, True))), draw(st.sampled_from((0, 0, 1, 20, 100)))
    suites = draw(st.sampled_from(("own", "own", "swapped", "scout", "light", "medium", "heavy")))
    fill = draw(st.sampled_from(("quotas", "quotas", "suite")))
    return replace(base, oracle=oracle, attention=attention, suites=suites, fill=fill, **changed)


@st.composite
def rewards(draw: st.DrawFn) -> RewardConfig:
    """Weights of either sign, with every approach mode."""
    base = RewardConfig()
    mode = draw(st.sampled_from(("pbrs", "pbrs", "decay", "off")))
    return replace(base, approach_mode=mode, **scaled_fields(draw, base, REWARD_FIELDS, 5, negative=reward_weights()))


@st.composite
def worlds(draw: st.DrawFn) -> WorldConfig:
    """Maps of 20 to 200 voxels, most of them small."""
    edge = st.one_of(st.integers(20, 32), st.integers(24, 48), st.integers(20, 64), st.integers(20, 200))
    x = draw(edge)
    y = draw(edge) if x <= 64 else draw(st.integers(20, 48))
    z = draw(st.one_of(st.integers(12, 15), st.integers(16, 24), st.integers(12, 64)))
    ratio = draw(st.sampled_from((0.0, 0.0, 1.5)))
    fairness = draw(st.sampled_from(("any", "any", "path")))
    rules = ConnectivityConfig(clearance_z=draw(st.integers(4, 6)))
    checked = draw(st.booleans()) if x * y > 2500 else True
    metres = draw(st.sampled_from((1.0, 1.0, 0.5, 5.0)))
    return WorldConfig(
        size_x=x, size_y=y, size_z=z, ensure_connectivity=checked, connectivity=rules, max_distance_ratio=ratio,
        voxel_size_m=metres, fairness=fairness,
    )  # fmt: skip


@dataclass(frozen=True)
class Game:
    """A configuration whose repr lists what differs from the defaults."""

    cfg: EnvConfig
    changes: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Game({', '.join(changed_fields(self.cfg, EnvConfig()))}, {self.changes})"


def changed_fields(one: Any, base: Any) -> Iterator[str]:
    """Yield dotted ``field=value`` for every changed field."""
    for f in fields(base):
        value, default = getattr(one, f.name), getattr(base, f.name)
        if is_dataclass(default):
            yield from (f"{f.name}.{text}" for text in changed_fields(value, default))
        elif value != default:
            yield f"{f.name}={value!r}"


@st.composite
def environments(draw: st.DrawFn) -> Game:
    """An environment configuration; its spawns may not fit on the map."""
    flag = st.booleans()
    cfg = EnvConfig(
        world=draw(worlds()),
        num_packs=draw(st.sampled_from((1, 1, 1, 1, 1, 2, 2, 3))),
        dt_sim=draw(st.sampled_from((0.05, 0.05, 0.02, 0.025, 0.1))),
        decision_repeat=draw(st.sampled_from((1, 2, 2, 3, 5))),
        max_episode_seconds=draw(st.sampled_from((5.0, 20.0, 60.0))),
        observation_mode=draw(st.sampled_from(("partial", "full"))),
        obs_layout=draw(st.sampled_from(("suite", "suite", "classic"))),
        nav_mode=draw(st.sampled_from(("off", "off", "assist", "full"))),
        **{name: draw(flag) for name in OPTIONAL_BLOCKS},
        enable_target_selection=draw(flag),
        enable_ewar=draw(flag),
        enable_obs_control=draw(flag),
        zone_radius_vox=draw(st.sampled_from((2.0, 5.0, 7.5, 12.0))),
        contested_floor=draw(st.sampled_from((0.0, 0.25, 1.0))),
        zone_win_share=draw(st.sampled_from((0.1, 0.5, 1.0))),
        truncation_bootstraps=draw(flag),
        landing=draw(flag),
        own_eccm=draw(flag),
        display=draw(displays()),
        obs_norm=ObsNormConfig(**scaled_fields(draw, ObsNormConfig(), ranges_of(ObsNormConfig), 3)),
        reward=draw(rewards()),
    )
    return Game(cfg, draw(physics()))


class RandomActions:
    """Generates action arrays ``[E, M, A]`` from a seed."""

    def __init__(self, cfg: EnvConfig, envs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = (envs, cfg.num_mechs, ACTION_DIM)
        self.held = np.zeros(self.shape, np.float32)

    def draw(self, kind: str) -> np.ndarray:
        """Return the actions of one environment step, of one of ``KINDS``."""
        rng, shape = self.rng, self.shape
        if kind == "held":
            return self.held
        if kind == "still":
            self.held = np.zeros(shape, np.float32)
            return self.held
        values = rng.uniform(-1, 1, shape).astype(np.float32)
        if kind == "full":
            values = np.sign(values)
        elif kind == "huge":
            values = values * np.float32(3e38)
        elif kind == "duel":
            values[..., 0] = 1.0
            values[..., 4:9] = np.abs(values[..., 4:9])
        elif kind == "broken":
            junk = rng.random(shape) < 0.2
            values = np.where(junk, rng.choice(JUNK, shape), values)
        self.held = np.ascontiguousarray(values, np.float32)
        return self.held
