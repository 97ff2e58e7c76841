"""The central state: what the value of MAPPO's critic reads, the true state of all mechs (Yu et al., 2022).

It is written behind a learner's observation in the rollout, where only the value reads it; policies act without it. The
own mech comes first, then its team, then the other, each in the order of the roster, so every mech has its own view of
the same state. Shapes: ``E environment, M mech, N learner row, F feature of a mech, S column of the central state``.
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


def central_dim(cfg: EnvConfig) -> int:
    return cfg.num_mechs * len(MECH_FEATURES) + len(MATCH_FEATURES)


class CentralState:
    """Reads the central state of the learner rows of a batch from the simulator's arrays."""

    def __init__(self, batch: Batch, cfg: EnvConfig, agent_of_row: Tensor) -> None:
        """``agent_of_row [N]`` is the index of each learner row among the flattened ``[E * M]`` mechs."""
        names = ("alive", "hp", "heat", "stability", "painted", "pos", "vel", "yaw", "chassis")
        self._mechs = {name: wp.to_torch(batch[name]) for name in names}
        self._match = {name: wp.to_torch(batch[name]) for name in ("tick", "score", "zone")}
        self._limits = torch.tensor([cfg.max_steps * cfg.decision_repeat, cfg.max_episode_seconds])
        mechs, device = cfg.num_mechs, agent_of_row.device
        self._hull = torch.tensor([spec.hp for spec in CHASSIS], device=device)
        self._heat = torch.tensor([spec.heat_cap for spec in CHASSIS], device=device)
        self._limits = self._limits.to(device)
        self._classes = torch.arange(len(CHASSIS), device=device)
        self._env, own = agent_of_row // mechs, agent_of_row % mechs
        self._team = own // cfg.team_size
        self._order = torch.tensor(
            [_viewing_order(int(mech), cfg.team_size) for mech in own.tolist()], device=device, dtype=torch.long
        ).view(-1, mechs)
        """Mechs in the order of the columns [N, M]."""

    @torch.inference_mode()
    def write(self, out: Tensor) -> None:
        """Write the central state of the current step into ``out [N, S]``."""
        mechs = self._mech_features()
        rows = mechs[self._env.unsqueeze(1), self._order]
        out.copy_(torch.cat([rows.flatten(1), self._match_features()], 1))

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
        """Return the columns of the match ``[N, 4]``, scores from the side of the row."""
        tick, score, zone = (self._match[name][self._env] for name in ("tick", "score", "zone"))
        own = score.gather(1, self._team.unsqueeze(1))
        other = score.gather(1, 1 - self._team.unsqueeze(1))
        time, seconds = tick.unsqueeze(1) / self._limits[0], self._limits[1]
        return torch.cat([time, own / seconds, other / seconds, zone[:, 2:] / DISTANCE_VOX], 1)


def _viewing_order(mech: int, team_size: int) -> list[int]:
    """Return all mechs of an environment as ``mech`` views them: itself, its team, the other team."""
    first = mech // team_size * team_size
    team = range(first, first + team_size)
    other = range(team_size - first, 2 * team_size - first)
    return [mech, *(mate for mate in team if mate != mech), *other]
