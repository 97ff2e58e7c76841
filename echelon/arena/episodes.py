"""Records of finished episodes, read from the batch's arrays when an environment has ended one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.env.referee import REASONS
from echelon.sim.batch import Batch


@dataclass(frozen=True, kw_only=True)
class EpisodeRecord:
    """One finished episode; M mechs, C reward terms."""

    env: int
    seed: int
    length: int
    """Decisions."""
    winner: int
    """0 blue, 1 red, 2 draw."""
    reason: str
    hp: tuple[float, float]
    zone_score: tuple[float, float]
    returns: NDArray[np.float32]
    """Sum of rewards of each mech ``[M]``."""
    terms: NDArray[np.float32]
    """Sum of each reward term ``[M, C]``."""
    learner_team: int
    """0 blue, 1 red, -1 both or none."""
    deaths: NDArray[np.bool_]
    """Who died ``[M]``."""
    present: NDArray[np.bool_]
    """Who took part ``[M]``; the others were places left empty."""


def finished_episodes(batch: Batch, ended: NDArray[np.intp], learner_team: NDArray[np.int64]) -> list[EpisodeRecord]:
    """Return the last finished episode of each environment in ``ended``."""
    names = ("seed", "length", "winner", "reason", "hp", "score", "return", "terms", "alive", "present")
    got: dict[str, NDArray[Any]] = {name: batch.numpy(f"done_{name}")[ended].copy() for name in names}
    return [
        EpisodeRecord(
            env=int(env),
            seed=int(got["seed"][i]),
            length=int(got["length"][i]),
            winner=int(got["winner"][i]),
            reason=REASONS[int(got["reason"][i])],
            hp=(float(got["hp"][i][0]), float(got["hp"][i][1])),
            zone_score=(float(got["score"][i][0]), float(got["score"][i][1])),
            returns=got["return"][i],
            terms=got["terms"][i],
            learner_team=int(learner_team[env]),
            deaths=(got["alive"][i] == 0) & (got["present"][i] == 1),
            present=got["present"][i] == 1,
        )
        for i, env in enumerate(ended)
    ]
