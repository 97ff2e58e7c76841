"""Build a policy over flat observations from a model configuration, whatever the layout underneath.

Trainer, evaluation and arena use ``FlatPolicy`` only: observations are ``[B, D]`` rows as the environment writes them.
Nothing here needs an environment. Shapes: ``T step, B row, D column, A action, H recurrent state, W noise``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from echelon.config import ModelConfig
from echelon.env.layout import CONTACT_DIM, EGO_DIM, END_WIDTH, FLAT_OBS_DIM, flat_offsets
from echelon.rl.actor_critic import CRITIC_GAIN, ENCODER_GAIN, SequenceScores, init_linear
from echelon.rl.deepset import packs_rows, room_for_rows
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.packed_obs import PackedRollout, PackedRows, count_entities, pack, packing
from echelon.rl.suite_model import (
    CombatSuiteActorCritic,
    SuiteObservation,
    flat_obs_to_suite_obs,
    join_end_blocks,
    joined_width,
)

CLASSIC_WIDTH_FACTOR = 2
"""Width of the flat encoder relative to a set encoder."""


CENTRAL_HIDDEN = 128
"""Width of the two layers of a central critic."""


class CentralCritic(nn.Module):
    """The value of a central state: two tanh layers and a linear one."""

    def __init__(self, central_dim: int) -> None:
        super().__init__()
        layers = nn.Linear(central_dim, CENTRAL_HIDDEN), nn.Linear(CENTRAL_HIDDEN, CENTRAL_HIDDEN)
        first, second = (init_linear(layer, ENCODER_GAIN) for layer in layers)
        value = init_linear(nn.Linear(CENTRAL_HIDDEN, 1), CRITIC_GAIN)
        self.critic = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), value)

    def forward(self, central: Tensor) -> Tensor:
        """Return the value ``[...]`` of central states ``[..., S]``, in float32."""
        with torch.autocast(central.device.type, enabled=False):
            return self.critic(central.float()).squeeze(-1)


class FlatPolicy(nn.Module):
    """A policy over flat observations, which it normalizes and splits into the blocks of its core; an ``Actor``.

    With a central critic (``central_dim`` above 0) rows may have the central state ``[..., S]`` behind the
    observation: the value reads it and nothing else. Without it actions are the same and the value is 0.
    """

    def __init__(self, core: ActorCriticLSTM | CombatSuiteActorCritic, obs_dim: int, central_dim: int = 0) -> None:
        super().__init__()
        self.core = core
        self.obs_dim = obs_dim
        self._end_at = obs_dim - END_WIDTH
        """Column at which ``END_BLOCKS`` begin in the suite layout."""
        self._packing = packing(obs_dim) if isinstance(core, CombatSuiteActorCritic) else None
        self.action_dim = core.action_dim
        self.noise_dim = core.noise_dim
        self.lstm_hidden_dim = core.lstm_hidden_dim
        self.obs_normalizer = ObsNormalizer(obs_dim)
        self.central_dim = central_dim
        self.central = CentralCritic(central_dim) if central_dim else None

    def set_normalizable(self, columns: Tensor, hidden: Sequence[int] = ()) -> None:
        """Choose the normalized columns ``[D] bool`` and the hidden ones; rows of entities are never normalized.

        Most entity rows are padding, whose zeros would make a real row an outlier; their features are already scaled.
        """
        columns = columns.clone()
        if isinstance(self.core, CombatSuiteActorCritic):
            columns[: flat_offsets()["squad_mask"][1]] = False
        self.obs_normalizer.set_normalizable(columns)
        self.obs_normalizer.set_hidden(hidden)

    def initial_state(self, batch_size: int, device: torch.device | str | None = None) -> LSTMState:
        """Return a zero state ``[1, batch_size, H]``."""
        return self.core.initial_state(batch_size, device)

    def get_action_and_value(
        self, obs: Tensor, lstm_state: LSTMState, done: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, LSTMState]:
        """Return action ``[B, A]``, log-probability, entropy and value ``[B]``, and the next state."""
        action, logprob, entropy, value, state = self.core.get_action_and_value(
            self._unpack(obs), lstm_state, done, action
        )
        return action, logprob, entropy, self._value(obs, value), state

    def sample(
        self, obs: Tensor, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return actions ``[B, A]`` sampled with ``noise [B, W]``, log-probability, value ``[B]`` and next state."""
        action, logprob, value, state = self.core.sample(self._unpack(obs), lstm_state, done, noise)
        return action, logprob, self._value(obs, value), state

    def act(
        self, observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` and the next state ``[1, B, H]``, as ``Actor.act`` does."""
        return self.core.act(self._unpack(observations), state, done, noise)

    def get_value(self, obs: Tensor, lstm_state: LSTMState, done: Tensor) -> tuple[Tensor, LSTMState]:
        """Return the value ``[B]`` and the next state ``[1, B, H]``, without gradient."""
        with torch.no_grad():
            value, state = self.core.get_value(self._unpack(obs), lstm_state, done)
            return self._value(obs, value), state

    def estimate(self, obs: Tensor, lstm_state: LSTMState, done: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the value ``[B]`` and the probabilities of ``CHANCES`` ``[B, C]``, without gradient."""
        with torch.no_grad():
            value, chances = self.core.estimate(self._unpack(obs), lstm_state, done)
            return self._value(obs, value), chances

    def evaluate_actions_sequence(
        self, obs_seq: Tensor, actions_seq: Tensor, dones_seq: Tensor, init_state: LSTMState
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return log-probabilities, entropies and values ``[T, B]`` of a chunk, and its end state ``[1, B, H]``."""
        scores = self.score_sequence(obs_seq, actions_seq, dones_seq, init_state)
        return scores.logprobs, scores.entropies, scores.values, scores.state

    get_chunk_values = evaluate_actions_sequence

    def score_sequence(
        self,
        obs_seq: Tensor | PackedRows,
        actions_seq: Tensor,
        dones_seq: Tensor,
        init_state: LSTMState,
        noise: Tensor | None = None,
        labels_seq: Tensor | None = None,
    ) -> SequenceScores:
        """Return the scores of a chunk ``[T, B, ...]``; ``noise [T, B, A]`` is the draw of the entropy estimate."""
        scores = self.core.score_sequence(self._unpack(obs_seq), actions_seq, dones_seq, init_state, noise, labels_seq)
        if isinstance(obs_seq, PackedRows):
            return scores  # a central critic's rows are never packed
        return scores._replace(values=self._value(obs_seq, scores.values))

    def replay_state(self, obs_seq: Tensor, dones_seq: Tensor, init_state: LSTMState) -> LSTMState:
        """Return the state ``[1, B, H]`` after a chunk ``[T, B, ...]``, without scoring it."""
        return self.core.replay_state(self._unpack(obs_seq), dones_seq, init_state)

    def predict_next(self, features: Tensor) -> Tensor:
        """Return the predicted normalised next observation ``[..., D]`` of recurrent outputs ``[..., H]``."""
        if self.core.obs_predictor is None:
            raise ValueError("model has no next-observation head; build it with build_model(predict=True)")
        return self.core.obs_predictor(features)

    def _value(self, obs: Tensor, own: Tensor) -> Tensor:
        """Return the value ``[...]`` of rows ``obs``, where ``own`` is that of the core."""
        if self.central is None:
            return own
        return self.central(obs[..., self.obs_dim :]) if obs.shape[-1] > self.obs_dim else torch.zeros_like(own)

    def packed(self, obs: Tensor) -> PackedRollout | None:
        """Return the observations ``[T, N, D]`` of a rollout, normalized and packed; None where that gains nothing.

        Rows of it can be scored instead of observations, until the weights of the normalizer change.
        """
        if self._packing is None or self.central is not None or not packs_rows(obs):
            return None
        return PackedRollout(obs[..., : self.obs_dim], self._packing, self.obs_normalizer)

    def count_entities(self, obs: Tensor) -> dict[str, Tensor]:
        """Return the entities of each kind in observations ``[..., D]``, each ``[...]`` int64; none if flat."""
        return {} if self._packing is None else count_entities(obs, self._packing)

    def _unpack(self, obs: Tensor | PackedRows) -> Tensor | SuiteObservation:
        return obs.gather() if isinstance(obs, PackedRows) else self._unpack_flat(obs)

    def _unpack_flat(self, obs: Tensor) -> Tensor | SuiteObservation:
        if obs.shape[-1] not in (self.obs_dim, self.obs_dim + self.central_dim):
            raise ValueError(f"observation has {obs.shape[-1]} columns, expected {self.obs_dim}")
        if self._packing is not None and (packs_rows(obs) or room_for_rows() is not None):
            return pack(obs[..., : self.obs_dim], self._packing, self.obs_normalizer)
        obs = self.obs_normalizer(obs[..., : self.obs_dim])
        if self._packing is None:
            return obs
        suite = flat_obs_to_suite_obs(obs[..., :FLAT_OBS_DIM])
        if self._end_at > FLAT_OBS_DIM:
            suite = replace(suite, tail=obs[..., FLAT_OBS_DIM : self._end_at])
        return join_end_blocks(suite, obs[..., self._end_at :])


def build_model(
    model_cfg: ModelConfig,
    obs_dim: int,
    action_dim: int,
    comm_width: int = 0,
    map_width: int = 0,
    extra_width: int = 0,
    *,
    predict: bool = False,
    central_dim: int = 0,
) -> FlatPolicy:
    """Return a new policy over ``[B, obs_dim]`` rows; ``predict`` adds the next-observation head.

    ``central_dim`` are the columns of the central state that a central critic reads, 0 for none.

    Widths are columns of the suite layout's tail. Raises ``ValueError`` if they do not add up to ``obs_dim``.
    """
    if model_cfg.kind == "classic":
        core: ActorCriticLSTM | CombatSuiteActorCritic = ActorCriticLSTM(
            obs_dim,
            action_dim,
            CLASSIC_WIDTH_FACTOR * model_cfg.hidden_dim,
            model_cfg.lstm_hidden_dim,
            action_head=model_cfg.action_head,
            init_log_std=model_cfg.init_log_std,
            log_std_end=model_cfg.log_std_end,
            predict_obs=predict,
            memory=model_cfg.memory,
            recurrence=model_cfg.recurrence,
        )
        return FlatPolicy(core, obs_dim, central_dim)
    if obs_dim != FLAT_OBS_DIM + comm_width + map_width + extra_width + END_WIDTH:
        sizes = f"{FLAT_OBS_DIM} + {comm_width} comms + {map_width} map + {extra_width} extras + {END_WIDTH} at the end"
        raise ValueError(f"suite observation has {obs_dim} columns, expected {sizes}")
    core = CombatSuiteActorCritic(
        action_dim,
        contact_dim=CONTACT_DIM + joined_width("contacts"),
        ego_dim=EGO_DIM + joined_width("ego_state"),
        hidden_dim=model_cfg.hidden_dim,
        lstm_hidden_dim=model_cfg.lstm_hidden_dim,
        comm_width=comm_width,
        map_width=map_width,
        extra_width=extra_width,
        action_head=model_cfg.action_head,
        init_log_std=model_cfg.init_log_std,
        log_std_end=model_cfg.log_std_end,
        predict_dim=obs_dim if predict else 0,
        memory=model_cfg.memory,
        recurrence=model_cfg.recurrence,
    )
    return FlatPolicy(core, obs_dim, central_dim)
