"""Variants of ``echelon sweep start --ablate``: ablations remove one component of a configuration; baselines.

An ablation is a function of the whole configuration, because its changes may depend on it: without a curriculum, a run
trains from the start on the task that the curriculum would end with. Add an ablation as a row of ``ABLATIONS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from echelon.config import RunConfig


@dataclass(frozen=True)
class Ablation:
    """One component that is removed, or one baseline."""

    description: str
    """Description of the removed component, or of the baseline."""
    changes: Callable[[RunConfig], dict[str, Any]]
    """Values of the changed fields by dotted key."""


def _without_curriculum(run: RunConfig) -> dict[str, Any]:
    """Return changes that train on the curriculum's final task from the start."""
    changes: dict[str, Any] = {f"curriculum.{name}": False for name in ("packs", "maps")}
    changes |= {"opponents.weapon_ramp_share": 0.0, "opponents.weapon_ramp_updates": 0}
    return changes


def _without_columns(names: str) -> Callable[[RunConfig], dict[str, Any]]:
    """Return changes that hide observation columns of the suite layout, and none for the classic one."""
    return lambda run: {"model.hidden_columns": names} if run.env.obs_layout == "suite" else {}


ABLATIONS: Mapping[str, Ablation] = {
    "lstm": Ablation("recurrent state between environment steps", lambda run: {"model.memory": False}),
    "curriculum": Ablation("curriculum parameters that change during training", _without_curriculum),
    "team-mixing": Ablation(
        "reward shared within the team", lambda run: {"curriculum.team_alpha_end": None, "env.reward.team_alpha": 1.0}
    ),
    "shaping": Ablation("reward for approaching the zone (PBRS)", lambda run: {"env.reward.approach_mode": "off"}),
    "local-map": Ablation("local map of an observation", lambda run: {"env.observe_local_map": False}),
    "aiming": Ablation(
        "absolute distance and bearing of contacts",
        _without_columns("aiming.range aiming.near aiming.bearing_* aiming.in_reach"),
    ),
    "targets": Ablation(
        "targets that the mech and its packmates chose", _without_columns("aiming.own_target aiming.pack_targets")
    ),
    "zone": Ablation("absolute distance, bearing and radius of the zone", _without_columns("course.zone_*")),
    "path": Ablation("path to the zone", _without_columns("course.path_*")),
    "obs-norm": Ablation("observation normalisation by running statistics", lambda run: {"ppo.obs_norm": False}),
    "entropy": Ablation("entropy bonus", lambda run: {"ppo.ent_coef": 0.0, "ppo.ent_coef_end": None}),
}  # fmt: skip
"""Ablations by name."""

NO_TEACHER = {"teacher.policy": ""}
BASELINES: Mapping[str, Ablation] = {
    "recurrent-ppo": Ablation("recurrent PPO from scratch, each mech by itself", lambda run: NO_TEACHER),
    "feed-forward-ppo": Ablation("the same without recurrent state", lambda run: {**NO_TEACHER, "model.memory": False}),
    "mappo": Ablation(
        "the same with a central critic (MAPPO)", lambda run: {**NO_TEACHER, "model.critic": "central"}
    ),
    "imitation-alone": Ablation(
        "imitation of expert pilots, without reinforcement learning",
        lambda run: {
            "teacher.policy": "heuristic:expert", "teacher.imitation": 1.0, "model.action_head": "hybrid",
        },
    ),
}  # fmt: skip
"""Baselines by name: known algorithms on the task of a configuration."""
