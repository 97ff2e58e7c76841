"""The policy that a run starts from (``--start-from``): its weights, and the trainer's state as far as it is stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from echelon.rl.checkpoint import STATE, find_checkpoint
from echelon.rl.fitting import fitted
from echelon.rl.weights import check_dimensions, load_policy
from echelon.training.ppo.optimizer import CRITIC

RETURN_STATISTICS = "return_rms"
"""Key of the return statistics in a trainer's state and in a submitted policy."""


def plain_statistics(statistics: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the state of return statistics as plain values, for the metadata of a policy."""
    return {name: float(value) for name, value in statistics.items()}


def initial_weights(path: Path, obs_dim: int, action_dim: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights at ``path`` and the trainer's state: that of a checkpoint, of a policy at most statistics.

    Raises ``ValueError`` for a policy of another environment.
    """
    source = load_policy(path)
    loaded = fitted(source, obs_dim)
    check_dimensions(loaded.meta, obs_dim=obs_dim, action_dim=action_dim)
    state = {name: loaded.meta[name] for name in (RETURN_STATISTICS,) if name in loaded.meta}
    if loaded is source and not path.is_file() and STATE in loaded.meta["files"]:
        checkpoint = find_checkpoint(path)
        state = checkpoint.state()["trainer"]
        if checkpoint.messages is not None:
            # in the order of the optimizer's groups
            names = sorted(dict(loaded.policy.named_parameters()), key=lambda name: CRITIC in name.split("."))
            moments = checkpoint.messages.moments_without(state["optimizer"]["adam"], names)
            state = {**state, "optimizer": {"adam": moments}}
    return loaded.policy.state_dict(), state
