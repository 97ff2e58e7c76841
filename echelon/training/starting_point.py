"""The policy that a run starts from (``--start-from``): its weights, and the statistics of its returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from echelon.rl.checkpoint import find_checkpoint
from echelon.rl.weights import check_dimensions, load_policy

RETURN_STATISTICS = "return_rms"
"""Key of the return statistics in a trainer's state and in a submitted policy."""


def plain_statistics(statistics: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the state of return statistics as plain values, for the metadata of a policy."""
    return {name: float(value) for name, value in statistics.items()}


def initial_weights(path: Path, obs_dim: int, action_dim: int) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Return the weights at ``path``, and return statistics where the file has them.

    Raises ``ValueError`` for a policy of another environment.
    """
    loaded = load_policy(path)
    check_dimensions(loaded.meta, obs_dim=obs_dim, action_dim=action_dim)
    statistics = loaded.meta.get(RETURN_STATISTICS)
    if statistics is None and not path.is_file():
        statistics = find_checkpoint(path).state()["trainer"][RETURN_STATISTICS]
    return loaded.policy.state_dict(), statistics
