"""Build a policy over flat observations from a model configuration, whatever the layout underneath.

Training, evaluation and arena use ``FlatPolicy`` only: observations are ``[B, D]`` rows as the environment writes them.
Nothing here needs an environment. Shapes: ``T step, B row, D column, A action, H recurrent state, W noise``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor

from echelon.config import ModelConfig
from echelon.env.layout import CONTACT_DIM, EGO_DIM, END_WIDTH, FLAT_OBS_DIM, flat_offsets
from echelon.rl import host_kernels, suite_model
from echelon.rl.actor_critic import ActorCritic, PolicyCalls, TargetContacts
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import Each, PackedRollout, PackedRows, count_entities, in_turn, pack, packing
from echelon.rl.regime import HOST, Regime, regime_of, set_regime

CLASSIC_WIDTH_FACTOR = 2
"""Width of the flat encoder relative to a set encoder."""


class FlatPolicy(PolicyCalls):
    """A policy over flat observations, which it normalizes and splits into the blocks of its core."""

    regime: Regime = HOST

    def __init__(self, core: ActorCritic, obs_dim: int) -> None:
        super().__init__()
        self.core = core
        self.obs_dim = obs_dim
        self._end_at = obs_dim - END_WIDTH
        """Column at which ``END_BLOCKS`` begin in the suite layout."""
        self._packing = packing(obs_dim) if isinstance(core, suite_model.CombatSuiteActorCritic) else None
        self.action_dim = core.action_dim
        self.noise_dim = core.noise_dim
        self.lstm_hidden_dim = core.lstm_hidden_dim
        self.obs_normalizer = ObsNormalizer(obs_dim)
        self._room: Mapping[str, int] | None = None
        set_regime(self, regime_of(core.actor_logstd.device))

    def _apply(self, fn: Any, recurse: bool = True) -> "FlatPolicy":
        """Move or convert tensors as ``nn.Module`` does, and take the regime of the new device."""
        super()._apply(fn, recurse)
        set_regime(self, regime_of(self.core.actor_logstd.device))
        return self

    def set_normalizable(self, columns: Tensor, hidden: Sequence[int] = ()) -> None:
        """Choose the normalized columns ``[D] bool`` and the hidden ones; rows of entities are never normalized.

        Most entity rows are padding, whose zeros would make a real row an outlier; their features are already scaled.
        """
        columns = columns.clone()
        if isinstance(self.core, suite_model.CombatSuiteActorCritic):
            columns[: flat_offsets()["squad_mask"][1]] = False
        self.obs_normalizer.set_normalizable(columns)
        self.obs_normalizer.set_hidden(hidden)

    def predict_next(self, features: Tensor) -> Tensor:
        """Return the predicted normalised next observation ``[..., D]`` of recurrent outputs ``[..., H]``."""
        if self.core.obs_predictor is None:
            raise ValueError("model has no next-observation head; build it with build_model(predict=True)")
        return self.core.obs_predictor(features)

    def encode(self, obs: Tensor | PackedRows) -> Tensor:
        """Return features ``[..., F]`` of observations ``[..., D]``."""
        return self.core.encode(self._unpack(obs))

    def encode_with_targets(self, obs: Tensor | PackedRows) -> tuple[Tensor, TargetContacts | None]:
        """Return features ``[..., F]`` of observations and the contacts that a pointer head selects from, if any."""
        return self.core.encode_with_targets(self._unpack(obs))

    def packed(self, obs: Tensor, each: Each = in_turn) -> PackedRollout | None:
        """Return the observations ``[T, N, D]`` of a rollout, normalized and packed; None where that gains nothing.

        Rows of it can be scored instead of observations, until the weights of the normalizer change.
        """
        if self._packing is None or not self.regime.packs:
            return None
        if not host_kernels.reads(obs, self.obs_normalizer.scale):
            return None
        return PackedRollout(obs, self._packing, self.obs_normalizer, each)

    def count_entities(self, obs: Tensor) -> dict[str, Tensor]:
        """Return the entities of each kind in observations ``[..., D]``, each ``[...]`` int64; none if flat."""
        return {} if self._packing is None else count_entities(obs, self._packing)

    @contextmanager
    def packing_into(self, room: Mapping[str, int] | None) -> Iterator[None]:
        """Let calls inside pack entities into ``room`` rows for each kind, where shapes must be fixed.

        More entities than that lose the last ones, so ``room`` must be that of a counted batch. None packs nothing.
        """
        before, self._room = self._room, room
        try:
            yield
        finally:
            self._room = before

    def _unpack(self, obs: Tensor | PackedRows) -> Tensor | suite_model.SuiteObservation:
        return obs.gather() if isinstance(obs, PackedRows) else self._unpack_flat(obs)

    def _unpack_flat(self, obs: Tensor) -> Tensor | suite_model.SuiteObservation:
        if obs.shape[-1] != self.obs_dim:
            raise ValueError(f"observation has {obs.shape[-1]} columns, expected {self.obs_dim}")
        if self._packing is not None and (self.regime.packs or self._room is not None):
            return pack(obs, self._packing, self.obs_normalizer, self._room, self.regime)
        obs = self.obs_normalizer(obs)
        if self._packing is None:
            return obs
        suite = suite_model.flat_obs_to_suite_obs(obs[..., :FLAT_OBS_DIM])
        if self._end_at > FLAT_OBS_DIM:
            suite = replace(suite, tail=obs[..., FLAT_OBS_DIM : self._end_at])
        return suite_model.join_end_blocks(suite, obs[..., self._end_at :])


def build_model(
    model_cfg: ModelConfig,
    obs_dim: int,
    action_dim: int,
    map_width: int = 0,
    extra_width: int = 0,
    *,
    predict: bool = False,
) -> FlatPolicy:
    """Return a new policy over ``[B, obs_dim]`` rows; ``predict`` adds the next-observation head.

    Widths are columns of the suite layout's tail. Raises ``ValueError`` if they do not add up to ``obs_dim``.
    """
    options: dict[str, Any] = {
        "action_head": model_cfg.action_head,
        "init_log_std": model_cfg.init_log_std,
        "log_std_min": model_cfg.log_std_min,
        "log_std_end": model_cfg.log_std_end,
        "predict_dim": obs_dim if predict else 0,
        "memory": model_cfg.memory,
        "recurrence": model_cfg.recurrence,
    }
    if model_cfg.kind == "classic":
        hidden_dim = CLASSIC_WIDTH_FACTOR * model_cfg.hidden_dim
        core: ActorCritic = ActorCriticLSTM(obs_dim, action_dim, hidden_dim, model_cfg.lstm_hidden_dim, **options)
        return FlatPolicy(core, obs_dim)
    if obs_dim != FLAT_OBS_DIM + map_width + extra_width + END_WIDTH:
        sizes = f"{FLAT_OBS_DIM} + {map_width} map + {extra_width} extras + {END_WIDTH} at the end"
        raise ValueError(f"suite observation has {obs_dim} columns, expected {sizes}")
    core = suite_model.CombatSuiteActorCritic(
        action_dim,
        contact_dim=CONTACT_DIM + suite_model.joined_width("contacts"),
        ego_dim=EGO_DIM + suite_model.joined_width("ego_state"),
        hidden_dim=model_cfg.hidden_dim,
        lstm_hidden_dim=model_cfg.lstm_hidden_dim,
        map_width=map_width,
        extra_width=extra_width,
        **options,
    )
    return FlatPolicy(core, obs_dim)
