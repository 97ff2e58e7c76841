"""Records of finished episodes, read from the batch arrays."""

from collections.abc import Mapping
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
    """Length [decisions]."""
    winner: int
    """0 blue, 1 red, 2 draw."""
    reason: str
    hp: tuple[float, float]
    zone_score: tuple[float, float]
    returns: NDArray[np.float32]
    """Return of each mech ``[M]``."""
    terms: NDArray[np.float32]
    """Sum of each reward term ``[M, C]``."""
    learner_team: int
    """0 blue, 1 red, -1 both or neither."""
    deaths: NDArray[np.bool_]
    """Mechs that died ``[M]``."""
    present: NDArray[np.bool_]
    """Mechs that took part ``[M]``; the other slots were empty."""


COLUMNS = ("seed", "length", "winner", "reason", "hp", "score", "return", "terms", "alive", "present")
"""Arrays ``done_<name>`` of the last finished episode of each environment."""


def finished_episodes(batch: Batch, ended: NDArray[np.intp], learner_team: NDArray[np.int64]) -> list[EpisodeRecord]:
    """Return the last finished episode of each environment in ``ended``; ``learner_team [E]`` as in the record."""
    return episode_records({name: batch.numpy(f"done_{name}")[ended].copy() for name in COLUMNS}, ended, learner_team)


def episode_records(
    columns: Mapping[str, NDArray[Any]], envs: NDArray[np.intp], learner_team: NDArray[np.int64]
) -> list[EpisodeRecord]:
    """Return the episodes of ``columns``, each ``[K, ...]``, that environments ``envs [K]`` finished."""
    return [
        EpisodeRecord(
            env=int(env),
            seed=int(columns["seed"][i]),
            length=int(columns["length"][i]),
            winner=int(columns["winner"][i]),
            reason=REASONS[int(columns["reason"][i])],
            hp=(float(columns["hp"][i][0]), float(columns["hp"][i][1])),
            zone_score=(float(columns["score"][i][0]), float(columns["score"][i][1])),
            returns=columns["return"][i],
            terms=columns["terms"][i],
            learner_team=int(learner_team[env]),
            deaths=(columns["alive"][i] == 0) & (columns["present"][i] == 1),
            present=columns["present"][i] == 1,
        )
        for i, env in enumerate(envs)
    ]
