"""The central state: what the critic of teams reads, the true state of all mechs (MAPPO; Yu et al., 2022).

The own team comes first, then the other, each in the order of the roster. Policies act without it.
Shapes: ``E environment, M mech, K mech of a team, B team of learner rows, F feature of a mech, S column``.
"""

import torch
import warp as wp
from torch import Tensor

from echelon.config import EnvConfig
from echelon.sim.arsenal import CHASSIS
from echelon.sim.batch import Batch

MECH_FEATURES = (
    "alive", "hull", "heat", "stability", "painted", "zone_x", "zone_y", "zone_z", "vel_x", "vel_y", "vel_z",
    "yaw_sin", "yaw_cos", *(f"class_{spec.chassis.name.lower()}" for spec in CHASSIS),
)  # fmt: skip
"""Columns of one mech; all 0 where it is dead or absent."""
MATCH_FEATURES = ("time", "own_score", "other_score", "zone_radius")
"""Columns after those of all mechs."""
DISTANCE_VOX, SPEED_VOX_S, STABILITY = 50.0, 10.0, 100.0
"""Position relative to the zone, velocity and stability that read 1."""


class CentralState:
    """Reads the central state of the learners' teams of a batch from the simulator's arrays."""

    def __init__(self, batch: Batch, cfg: EnvConfig, first_agents: Tensor) -> None:
        """``first_agents [B]`` are the indices of the teams' first mechs among the flattened ``[E * M]`` mechs."""
        names = ("alive", "hp", "heat", "stability", "painted", "pos", "vel", "yaw", "chassis")
        self._mechs = {name: wp.to_torch(batch[name]) for name in names}
        self._match = {name: wp.to_torch(batch[name]) for name in ("tick", "score", "zone")}
        self._limits = cfg.max_steps * cfg.decision_repeat, cfg.max_episode_seconds
        mechs, device = cfg.num_mechs, first_agents.device
        self._hull = torch.tensor([spec.hp for spec in CHASSIS], device=device)
        self._heat = torch.tensor([spec.heat_cap for spec in CHASSIS], device=device)
        self._classes = torch.arange(len(CHASSIS), device=device)
        self._env, team = first_agents // mechs, first_agents % mechs // cfg.team_size
        self._sides = torch.stack([team, 1 - team], 1)
        """Own team and other team [B, 2]."""

    def read(self) -> Tensor:
        """Return the central states ``[B, S]`` of the current step."""
        sides = self._mech_features().unflatten(1, (2, -1))[self._env.unsqueeze(1), self._sides]
        return torch.cat([sides.flatten(1), self._match_features()], 1)

    def _mech_features(self) -> Tensor:
        """Return the features of every mech ``[E, M, F]``."""
        m = self._mechs
        chassis = m["chassis"].long().clamp(0, len(CHASSIS) - 1)
        zone = self._match["zone"][:, None]
        ground = torch.zeros_like(zone[..., :1])
        columns = (
            torch.ones_like(m["hp"]), m["hp"] / self._hull[chassis], m["heat"] / self._heat[chassis],
            m["stability"] / STABILITY, (m["painted"] > 0).float(),
            (m["pos"] - torch.cat([zone[..., :2], ground], -1)) / DISTANCE_VOX, m["vel"] / SPEED_VOX_S,
            m["yaw"].sin(), m["yaw"].cos(), (chassis.unsqueeze(-1) == self._classes).float(),
        )  # fmt: skip
        joined = torch.cat([c if c.dim() == 3 else c.unsqueeze(-1) for c in columns], -1)
        return joined.nan_to_num(0.0, 0.0, 0.0) * m["alive"].unsqueeze(-1)

    def _match_features(self) -> Tensor:
        """Return the columns of the match ``[B, 4]``, scores from the side of the team."""
        tick, score, zone = (self._match[name][self._env] for name in ("tick", "score", "zone"))
        ticks, seconds = self._limits
        columns = tick.unsqueeze(1) / ticks, score.gather(1, self._sides) / seconds, zone[:, 2:] / DISTANCE_VOX
        return torch.cat(columns, 1)
