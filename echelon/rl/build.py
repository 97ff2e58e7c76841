"""From a model configuration to a policy over flat observations, whatever the layout underneath.

Trainer, evaluation and arena talk to ``FlatPolicy`` only: observations are ``[B, D]`` rows as the environment
writes them. Nothing here needs an environment.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echelon.config import ModelConfig
from echelon.env.layout import FLAT_OBS_DIM, flat_offsets
from echelon.rl.actor_critic import SequenceScores
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.obs_norm import ObsNormalizer
from echelon.rl.suite_model import CombatSuiteActorCritic, SuiteObservation, flat_obs_to_suite_obs

CLASSIC_WIDTH_FACTOR = 2
"""The flat encoder is this many times as wide as a set encoder."""


class FlatPolicy(nn.Module):
    """A policy whose methods all take flat observations; it normalises and takes them apart for its core."""

    def __init__(self, core: ActorCriticLSTM | CombatSuiteActorCritic, obs_dim: int) -> None:
        super().__init__()
        self.core = core
        self.obs_dim = obs_dim
        self.action_dim = core.action_dim
        self.noise_dim = core.noise_dim
        self.lstm_hidden_dim = core.lstm_hidden_dim
        self.obs_normalizer = ObsNormalizer(obs_dim)

    def set_normalizable(self, columns: Tensor) -> None:
        """Normalise these columns ``[D] bool`` from now on, entity rows of the suite layout excepted.

        Most entity rows are padding, whose zeros would make a real row look like an outlier, and their
        features are scaled already.
        """
        columns = columns.clone()
        if isinstance(self.core, CombatSuiteActorCritic):
            columns[: flat_offsets()["squad_mask"][1]] = False
        self.obs_normalizer.set_normalizable(columns)

    def initial_state(self, batch_size: int, device: torch.device | str | None = None) -> LSTMState:
        """Return a zero state for ``batch_size`` sequences."""
        return self.core.initial_state(batch_size, device)

    def get_action_and_value(
        self, obs: Tensor, lstm_state: LSTMState, done: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, LSTMState]:
        """Return action ``[B, A]``, log-probability, entropy and value ``[B]``, and the next state."""
        return self.core.get_action_and_value(self._unpack(obs), lstm_state, done, action)

    def sample(
        self, obs: Tensor, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Draw actions ``[B, A]``; return them, log-probability and value ``[B]``, and the next state."""
        return self.core.sample(self._unpack(obs), lstm_state, done, noise)

    def act(
        self, obs: Tensor, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` and the next state: the mean action, or that of ``noise [B, noise_dim]``."""
        return self.core.act(self._unpack(obs), lstm_state, done, noise)

    def get_value(self, obs: Tensor, lstm_state: LSTMState, done: Tensor) -> tuple[Tensor, LSTMState]:
        """Return the value ``[B]`` and the next state, without gradient."""
        with torch.no_grad():
            return self.core.get_value(self._unpack(obs), lstm_state, done)

    def evaluate_actions_sequence(
        self, obs_seq: Tensor, actions_seq: Tensor, dones_seq: Tensor, init_state: LSTMState
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return log-probabilities, entropies and values ``[T, B]`` of a chunk, and the state after it."""
        return self.core.evaluate_actions_sequence(self._unpack(obs_seq), actions_seq, dones_seq, init_state)

    get_chunk_values = evaluate_actions_sequence

    def score_sequence(
        self,
        obs_seq: Tensor,
        actions_seq: Tensor,
        dones_seq: Tensor,
        init_state: LSTMState,
        noise: Tensor | None = None,
    ) -> SequenceScores:
        """Score a chunk ``[T, B, ...]``, recurrent outputs included; ``noise [T, B, A]`` is for the entropy."""
        return self.core.score_sequence(self._unpack(obs_seq), actions_seq, dones_seq, init_state, noise)

    def replay_state(self, obs_seq: Tensor, dones_seq: Tensor, init_state: LSTMState) -> LSTMState:
        """Return the state after a chunk ``[T, B, ...]`` without scoring it."""
        return self.core.replay_state(self._unpack(obs_seq), dones_seq, init_state)

    def predict_next(self, features: Tensor) -> Tensor:
        """Return the predicted normalised next observation ``[..., D]`` of recurrent outputs ``[..., H]``."""
        if self.core.obs_predictor is None:
            raise ValueError("this model was built without a next-observation head, wanted build_model(predict=True)")
        return self.core.obs_predictor(features)

    def _unpack(self, obs: Tensor) -> Tensor | SuiteObservation:
        if obs.shape[-1] != self.obs_dim:
            raise ValueError(f"observation has {obs.shape[-1]} columns, expected {self.obs_dim}")
        obs = self.obs_normalizer(obs)
        if isinstance(self.core, ActorCriticLSTM):
            return obs
        suite = flat_obs_to_suite_obs(obs[..., :FLAT_OBS_DIM])
        if self.obs_dim == FLAT_OBS_DIM:
            return suite
        return SuiteObservation(**{**suite.__dict__, "tail": obs[..., FLAT_OBS_DIM:]})


def build_model(
    model_cfg: ModelConfig,
    obs_dim: int,
    action_dim: int,
    comm_width: int = 0,
    map_width: int = 0,
    extra_width: int = 0,
    *,
    predict: bool = False,
) -> FlatPolicy:
    """Build a fresh policy over ``[B, obs_dim]`` rows; ``predict`` adds the next-observation head.

    ``ValueError`` when the suite layout with this tail is not ``obs_dim`` wide.
    """
    if model_cfg.kind == "classic":
        core: ActorCriticLSTM | CombatSuiteActorCritic = ActorCriticLSTM(
            obs_dim,
            action_dim,
            CLASSIC_WIDTH_FACTOR * model_cfg.hidden_dim,
            model_cfg.lstm_hidden_dim,
            target_head=model_cfg.target_head,
            init_log_std=model_cfg.init_log_std,
            predict_obs=predict,
            memory=model_cfg.memory,
        )
        return FlatPolicy(core, obs_dim)
    if obs_dim != FLAT_OBS_DIM + comm_width + map_width + extra_width:
        wanted = f"{FLAT_OBS_DIM} + {comm_width} comms + {map_width} map + {extra_width} extras"
        raise ValueError(f"suite observation has {obs_dim} columns, expected {wanted}")
    core = CombatSuiteActorCritic(
        action_dim,
        hidden_dim=model_cfg.hidden_dim,
        lstm_hidden_dim=model_cfg.lstm_hidden_dim,
        comm_width=comm_width,
        map_width=map_width,
        extra_width=extra_width,
        target_head=model_cfg.target_head,
        init_log_std=model_cfg.init_log_std,
        predict_dim=obs_dim if predict else 0,
        film=model_cfg.film,
        memory=model_cfg.memory,
    )
    return FlatPolicy(core, obs_dim)
