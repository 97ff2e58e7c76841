"""Base of all models: the recurrent core, the heads, and how actions are sampled and scored.

A model adds only ``encode``, which turns its observations into features. Heads and distribution run in float32, also
under autocast. Shapes: ``T step, B sequence, A action, H recurrent state, W noise``; observations are what ``encode``
takes, with the same leading axes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from echelon.actions import TARGET_DIM, TARGET_START
from echelon.rl import squash
from echelon.rl.lstm_state import LSTMState
from echelon.rl.recurrent import lstm_weights, make_lstm, reset_state, run_lstm, run_lstm_unrolled

ENCODER_GAIN = math.sqrt(2.0)
ACTOR_GAIN = 0.01
CRITIC_GAIN = 1.0


class HeadOutputs(NamedTuple):
    """Outputs of the heads per row: Gaussian ``[..., A]``, value ``[...]``, target logits ``[..., 6]`` or None."""

    mean: Tensor
    log_std: Tensor
    value: Tensor
    target_logits: Tensor | None


class SequenceScores(NamedTuple):
    """Scores of a chunk ``[T, B]``, the state ``[1, B, H]`` after it, and the recurrent outputs ``[T, B, H]``."""

    logprobs: Tensor
    entropies: Tensor
    values: Tensor
    state: LSTMState
    features: Tensor


def init_linear(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialize a linear layer with orthogonal weights of ``gain`` and a zero bias, and return it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def init_encoder(encoder: nn.Module) -> None:
    """Initialize every linear layer of an encoder with ``ENCODER_GAIN``."""
    for layer in encoder.modules():
        if isinstance(layer, nn.Linear):
            init_linear(layer, ENCODER_GAIN)


class ActorCritic(nn.Module):
    """Recurrent core and heads; a subclass provides ``encode``."""

    def __init__(
        self,
        feature_dim: int,
        action_dim: int,
        lstm_hidden_dim: int,
        *,
        target_head: str = "gaussian",
        init_log_std: float = 0.0,
        predict_dim: int = 0,
        memory: bool = True,
    ) -> None:
        super().__init__()
        self.action_dim = action_dim
        self.memory = memory
        """Whether recurrent state is carried from step to step; without it every step starts from a zero state."""
        self.branchless = False
        """Whether chunks are evaluated without a branch on data, as a captured graph requires."""
        self.lstm_hidden_dim = lstm_hidden_dim
        self.lstm = make_lstm(feature_dim, lstm_hidden_dim)
        self._lstm_weights = lstm_weights(self.lstm)
        self.actor_mean = init_linear(nn.Linear(lstm_hidden_dim, action_dim), ACTOR_GAIN)
        self.actor_logstd_head = init_linear(nn.Linear(lstm_hidden_dim, action_dim, bias=False), 1.0)
        nn.init.zeros_(self.actor_logstd_head.weight)
        self.actor_logstd = nn.Parameter(torch.full((action_dim,), init_log_std))
        self.critic = init_linear(nn.Linear(lstm_hidden_dim, 1), CRITIC_GAIN)
        self.target_selector: nn.Linear | None = None
        if target_head == "gumbel" and action_dim >= TARGET_START + TARGET_DIM:
            self.target_selector = init_linear(nn.Linear(lstm_hidden_dim, TARGET_DIM + 1), ACTOR_GAIN)
        self.noise_dim = action_dim + (0 if self.target_selector is None else TARGET_DIM + 1)
        self.obs_predictor = nn.Linear(lstm_hidden_dim, predict_dim) if predict_dim else None

    def encode(self, obs: Any) -> Tensor:
        """Return features ``[..., F]`` of observations."""
        raise TypeError(f"{type(self).__name__} does not implement encode")

    def initial_state(self, batch_size: int, device: torch.device | str | None = None) -> LSTMState:
        """Return a zero state ``[1, batch_size, H]`` on ``device``, by default the parameters' device."""
        device = self.actor_logstd.device if device is None else device
        shape = (1, batch_size, self.lstm_hidden_dim)
        return LSTMState(h=torch.zeros(shape, device=device), c=torch.zeros(shape, device=device))

    def get_action_and_value(
        self, obs: Any, lstm_state: LSTMState, done: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, LSTMState]:
        """Return action ``[B, A]``, log-probability, entropy and value ``[B]``, and the next state.

        ``done [B]`` of 1 resets the state before the step. Without ``action [B, A]`` one is sampled, without gradient.
        """
        features, state = self._recur_once(obs, lstm_state, done)
        out = self._heads(features)
        if action is None:
            action = self._draw(out, self._fresh_noise(out)).detach()
        logprob, entropy = self._score(out, action)
        return action, logprob, entropy, out.value, state

    def sample(
        self, obs: Any, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return sampled actions ``[B, A]``, log-probability and value ``[B]``, and the next state ``[1, B, H]``.

        ``noise [B, W]`` is a standard normal draw, made here if None.
        """
        features, state = self._recur_once(obs, lstm_state, done)
        out = self._heads(features)
        action = self._draw(out, self._fresh_noise(out) if noise is None else noise).detach()
        return action, self._logprob(out, action), out.value, state

    def act(
        self, observations: Any, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` and the next state: the mean action, or the sample of ``noise [B, W]``."""
        features, state = self._recur_once(observations, state, done)
        return self._draw(self._heads(features), noise), state

    @torch.no_grad()
    def get_value(self, obs: Any, lstm_state: LSTMState, done: Tensor) -> tuple[Tensor, LSTMState]:
        """Return the value ``[B]`` and the next state ``[1, B, H]``, without gradient; ``done [B]`` resets it first."""
        features, state = self._recur_once(obs, lstm_state, done)
        return self._value(features), state

    def evaluate_actions_sequence(
        self, obs_seq: Any, actions_seq: Tensor, dones_seq: Tensor, init_state: LSTMState
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return log-probabilities, entropies and values ``[T, B]`` of a chunk, and its end state ``[1, B, H]``."""
        scores = self.score_sequence(obs_seq, actions_seq, dones_seq, init_state)
        return scores.logprobs, scores.entropies, scores.values, scores.state

    get_chunk_values = evaluate_actions_sequence

    def score_sequence(
        self, obs_seq: Any, actions_seq: Tensor, dones_seq: Tensor, init_state: LSTMState, noise: Tensor | None = None
    ) -> SequenceScores:
        """Return the scores of ``actions_seq [T, B, A]``: one encoding, one recurrence, one call of the heads.

        ``noise [T, B, A or W]`` is the draw of the entropy estimate, made here if None.
        """
        features, state = self._recur(obs_seq, dones_seq, init_state)
        out = self._heads(features)
        logprobs, entropies = self._score(out, actions_seq, noise)
        return SequenceScores(logprobs, entropies, out.value, state, features)

    def replay_state(self, obs_seq: Any, dones_seq: Tensor, init_state: LSTMState) -> LSTMState:
        """Return the state ``[1, B, H]`` after a chunk, ``dones_seq [T, B]``, without scoring it."""
        return self._recur(obs_seq, dones_seq, init_state)[1]

    def _recur(self, obs_seq: Any, dones_seq: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        x = self.encode(obs_seq)
        if not self.memory:
            return self._recur_memoryless(x, dones_seq, state)
        return self._run(x, dones_seq, state)

    def _run(self, x: Tensor, dones_seq: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        if self.branchless or torch.compiler.is_compiling():
            return run_lstm_unrolled(self._lstm_weights, x, dones_seq, state)
        return run_lstm(self.lstm, x, dones_seq, state)

    def _recur_memoryless(self, x: Tensor, dones_seq: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Run all steps of ``x [T, B, F]`` in one batch, each from a zero state."""
        steps, sequences = dones_seq.shape
        zero_state = LSTMState(*(part.new_zeros(1, steps * sequences, part.shape[-1]) for part in state))
        y, end_state = self._run(
            x.reshape(1, steps * sequences, -1), torch.zeros_like(dones_seq).view(1, -1), zero_state
        )
        h, c = (part.view(steps, sequences, -1)[-1:] for part in end_state)
        return y.view(steps, sequences, -1), LSTMState(h, c)

    def _recur_once(self, obs: Any, state: LSTMState, done: Tensor | None) -> tuple[Tensor, LSTMState]:
        x = self.encode(obs)
        if done is None or not self.memory:
            done = state.h.new_full((state.h.shape[1],), 0.0 if self.memory else 1.0)
        state = reset_state(state, done)
        y, (h, c) = self.lstm(x.unsqueeze(0), (state.h.to(x.dtype), state.c.to(x.dtype)))
        return y[0], LSTMState(h.to(state.h.dtype), c.to(state.c.dtype))

    def _heads(self, features: Tensor) -> HeadOutputs:
        with torch.autocast(features.device.type, enabled=False):
            y = squash.full_precision(features)
            log_std = (self.actor_logstd_head(y) + self.actor_logstd).clamp(squash.LOG_STD_MIN, squash.LOG_STD_MAX)
            logits = None if self.target_selector is None else self.target_selector(y)
            return HeadOutputs(self.actor_mean(y), log_std, self.critic(y).squeeze(-1), logits)

    def _value(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            return self.critic(squash.full_precision(features)).squeeze(-1)

    def _fresh_noise(self, out: HeadOutputs) -> Tensor:
        return torch.randn(*out.mean.shape[:-1], self.noise_dim, device=out.mean.device)

    def _draw(self, out: HeadOutputs, noise: Tensor | None) -> Tensor:
        if noise is None:
            action = squash.squash(out.mean)
        else:
            action = squash.sample(out.mean, out.log_std, noise[..., : self.action_dim])
        if out.target_logits is None:
            return action
        logits = out.target_logits
        if noise is not None:
            logits = logits + squash.gumbel(noise[..., self.action_dim :])
        one_hot = nn.functional.one_hot(logits.argmax(-1), TARGET_DIM + 1)[..., :TARGET_DIM]
        first, end = TARGET_START, TARGET_START + TARGET_DIM
        return torch.cat([action[..., :first], one_hot * 2.0 - 1.0, action[..., end:]], -1)

    def _score(self, out: HeadOutputs, action: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(out.mean) if noise is None else noise[..., : self.action_dim]
        mean, log_std, noise = self._gaussian(out.mean), self._gaussian(out.log_std), self._gaussian(noise)
        entropy = squash.entropy(mean, log_std, noise)
        if out.target_logits is not None:
            log_choice = torch.log_softmax(out.target_logits, -1)
            entropy = entropy - (log_choice.exp() * log_choice).sum(-1)
        return self._logprob(out, action), entropy

    def _logprob(self, out: HeadOutputs, action: Tensor) -> Tensor:
        logprob = squash.log_prob(self._gaussian(out.mean), self._gaussian(out.log_std), self._gaussian(action))
        if out.target_logits is None:
            return logprob
        best, slot = action[..., TARGET_START : TARGET_START + TARGET_DIM].max(-1)
        slot = torch.where(best > 0, slot, TARGET_DIM)
        log_choice = torch.log_softmax(out.target_logits, -1)
        return logprob + log_choice.gather(-1, slot.unsqueeze(-1)).squeeze(-1)

    def _gaussian(self, x: Tensor) -> Tensor:
        """Return the columns ``[..., A]`` that the squashed Gaussian samples: all but those of a target head."""
        if self.target_selector is None:
            return x
        return torch.cat([x[..., :TARGET_START], x[..., TARGET_START + TARGET_DIM :]], -1)
