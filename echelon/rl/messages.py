"""Policies of the suite layout that were stored with messages between mechs, as policies without them.

They act as they did where no message came (docs/decisions/0047-no-messages.md). Torch is not loaded here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echelon.actions import ACTION_DIM
from echelon.env.layout import FLAT_OBS_DIM

if TYPE_CHECKING:
    from torch import Tensor

FIELDS = ("comm_dim", "enable_comm", "observe_comms")
"""Former fields of ``EnvConfig``."""
ENCODER, FUSION = "core.encoder.comms_encoder.0", "core.encoder.fusion.0"
OUTPUTS, LATER_OUTPUTS = 32, 48
"""Outputs of the encoder of messages, and of each of the two that follow it."""


@dataclass(frozen=True)
class Messages:
    """Columns of messages in a stored policy."""

    width: int
    """Columns of an observation, after the core."""
    later: int
    """Inputs of the fusion after those of messages."""

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Messages | None:
        """Return the messages of a policy with this metadata; None where its game has none."""
        sizes = [meta.get(name) for name in ("comm_width", "obs_dim", "action_dim", "map_width", "extra_width")]
        env = meta.get("env_cfg")
        if not (isinstance(env, dict) and FIELDS[0] in env and meta.get("kind") == "suite"):
            return None
        width, *_, local_map, extras = sizes
        fits = all(type(size) is int for size in sizes) and meta["action_dim"] - ACTION_DIM == env[FIELDS[0]]
        return cls(width, LATER_OUTPUTS * (bool(local_map) + bool(extras))) if fits else None  # pyright: ignore

    def meta_without(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of the policy without messages."""

        def plain(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            return {key: plain(item) for key, item in value.items() if key not in (*FIELDS, "comm_width")}

        return plain({**meta, "obs_dim": meta["obs_dim"] - self.width, "action_dim": ACTION_DIM})

    def weights_without(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights without messages."""
        cut = {name: self._cut(name, x) for name, x in weights.items() if not name.startswith(ENCODER)}
        if self.width:
            inputs = weights[f"{FUSION}.weight"][:, self._outputs(weights[f"{FUSION}.weight"])]
            cut[f"{FUSION}.bias"] = weights[f"{FUSION}.bias"] + inputs @ weights[f"{ENCODER}.bias"].relu()
        return cut

    def moments_without(self, adam: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Return the moments of Adam, by number, for the parameters ``names`` of the policy without messages."""
        at = 1 + max(i for i, name in enumerate(names) if name.startswith("core.encoder.ego_encoder."))
        rows = [adam.get(str(i)) for i in range(len(names) + 2 * bool(self.width))]
        del rows[at : at + 2 * bool(self.width)]
        found = zip(range(len(names)), names, rows, strict=True)
        return {str(i): {key: self._cut(name, x) for key, x in row.items()} for i, name, row in found if row}

    def _outputs(self, x: Tensor) -> slice:
        end = x.shape[-1] - self.later
        return slice(end - OUTPUTS * bool(self.width), end)

    def _cut(self, name: str, x: Tensor) -> Tensor:
        """Return a weight, or its moment, without rows or columns of messages."""
        observed = slice(FLAT_OBS_DIM, FLAT_OBS_DIM + self.width)
        removed = {"core.actor_": slice(ACTION_DIM, None), "obs_normalizer.": observed, "core.obs_predictor.": observed}
        if x.ndim and name == f"{FUSION}.weight":
            columns = range(x.shape[1])
            return x[:, sorted({*columns} - {*columns[self._outputs(x)]})]
        for prefix, rows in removed.items():
            if x.ndim and name.startswith(prefix):
                return x[sorted({*range(len(x))} - {*range(len(x))[rows]})]
        return x
