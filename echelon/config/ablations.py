"""What a run can do without: each ablation is a row that says which dials take one thing away.

A row is a function of the whole configuration, since what remains without a thing may depend on it: without its
curriculum a run plays from the start what it would have ended with. Add one by adding a row to ``ABLATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from echelon.config import RunConfig


@dataclass(frozen=True)
class Ablation:
    """One thing taken away."""

    what: str
    """What is gone."""
    changes: Callable[[RunConfig], dict[str, Any]]
    """The dials that take it away, by dotted key."""


def _without_curriculum(run: RunConfig) -> dict[str, Any]:
    """Return the task at the end of the curriculum, from the start."""
    changes: dict[str, Any] = {
        f"curriculum.{name}": False for name in ("packs", "maps", "mechanics", "reward_phases", "ladder")
    }
    changes |= {"opponents.weapon_ramp_share": 0.0, "opponents.weapon_ramp_updates": 0}
    if run.curriculum.ladder:
        # the level that evaluations measure: without a ladder the last one would be met by an untrained policy
        changes["opponents.skill"] = run.eval.skill
    return changes


ABLATIONS: Mapping[str, Ablation] = {
    "lstm": Ablation("memory from one decision to the next", lambda run: {"model.memory": False}),
    "curriculum": Ablation("levers that move while training goes on", _without_curriculum),
    "team-mixing": Ablation(
        "pay shared within the team", lambda run: {"curriculum.team_alpha_end": None, "env.reward.team_alpha": 1.0}
    ),
    "shaping": Ablation("pay for approaching the zone (PBRS)", lambda run: {"env.reward.approach_mode": "off"}),
    "local-map": Ablation("the walls around a mech", lambda run: {"env.observe_local_map": False}),
    "comms": Ablation(
        "messages within a pack", lambda run: {"env.enable_comm": False, "env.observe_comms": False}
    ),
    "obs-norm": Ablation("observations scaled by running statistics", lambda run: {"ppo.obs_norm": False}),
    "entropy": Ablation("the bonus for trying things", lambda run: {"ppo.ent_coef": 0.0, "ppo.ent_coef_end": None}),
}  # fmt: skip
"""What is taken away by ``echelon ablate``, by name."""
