"""Base of all models: the recurrent core and the heads.

A model adds only ``encode``, which turns its observations into features, and ``encode_with_targets`` if it can point at
contacts. ``echelon.rl.action_distribution`` samples and scores actions. Heads and distribution run in float32, also
under autocast. Shapes: ``T step, B sequence, A action, H recurrent state, S target slot, K key, W noise``; observations
are what ``encode`` takes, with the same leading axes.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from echelon.rl import squash
from echelon.rl.action_distribution import GAUSSIAN, HYBRID, UNAVAILABLE, ActionDistribution, ActionParameters
from echelon.rl.lstm_state import LSTMState
from echelon.rl.recurrent import (
    MinGRU,
    lstm_weights,
    make_lstm,
    reset_state,
    run_lstm,
    run_lstm_cells,
    run_lstm_unrolled,
    spread,
)
from echelon.rl.regime import HOST, Regime

ENCODER_GAIN = math.sqrt(2.0)
ACTOR_GAIN = 0.01
CRITIC_GAIN = 1.0


class TargetContacts(NamedTuple):
    """Contacts in the slots that an action can target."""

    keys: Tensor
    """Encodings of the contacts ``[..., S, K]``, 0 for an empty slot."""
    selectable: Tensor
    """Whether the slot has a contact that can be targeted ``[..., S]``."""


class HeadOutputs(NamedTuple):
    """Outputs of the heads per row: parameters of the action distribution, and value ``[...]``."""

    action: ActionParameters
    value: Tensor


class SequenceScores(NamedTuple):
    """Scores of a chunk ``[T, B]``, the state ``[1, B, H]`` after it, and the recurrent outputs ``[T, B, H]``."""

    logprobs: Tensor
    entropies: Tensor
    values: Tensor
    state: LSTMState
    features: Tensor
    imitation_losses: Tensor | None = None
    """Negative log-likelihood of the labels ``[T, B]``; None without labels."""


def init_linear(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialize a linear layer with orthogonal weights of ``gain`` and a zero bias, and return it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def init_encoder(encoder: nn.Module) -> None:
    for layer in encoder.modules():
        if isinstance(layer, nn.Linear):
            init_linear(layer, ENCODER_GAIN)


class PolicyCalls(nn.Module):
    """The calls of a policy: an encoding, one step or a chunk of the recurrence of ``core``, its heads.

    A subclass has ``core`` and provides ``encode``, and ``encode_with_targets`` where it can point at contacts.
    """

    core: "ActorCritic"
    takes_mean: bool = False
    """Whether ``act`` ignores the noise, for an opponent with mean actions among those that sample."""

    def encode(self, obs: Any) -> Tensor:
        """Return features ``[..., F]`` of observations."""
        raise TypeError(f"{type(self).__name__} does not implement encode")

    def encode_with_targets(self, obs: Any) -> tuple[Tensor, TargetContacts | None]:
        """Return features ``[..., F]`` of observations and the contacts that a pointer head selects from, if any."""
        return self.encode(obs), None

    def initial_state(self, batch_size: int, device: torch.device | str | None = None) -> LSTMState:
        """Return a zero state ``[1, batch_size, H]`` on ``device``, by default the parameters' device."""
        device = self.core.actor_logstd.device if device is None else device
        shape = (1, batch_size, self.core.lstm_hidden_dim)
        return LSTMState(h=torch.zeros(shape, device=device), c=torch.zeros(shape, device=device))

    def get_action_and_value(
        self, obs: Any, lstm_state: LSTMState, done: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, LSTMState]:
        """Return action ``[B, A]``, log-probability, entropy and value ``[B]``, and the next state.

        ``done [B]`` of 1 resets the state before the step. Without ``action [B, A]`` one is sampled, without gradient.
        """
        out, state = self._step(obs, lstm_state, done)
        distribution = self.core.distribution
        if action is None:
            action = distribution.sample(out.action, self._noise(out)).detach()
        logprob, entropies = distribution.score(out.action, action, torch.randn_like(out.action.location))
        return action, logprob, entropies, out.value, state

    def sample(
        self, obs: Any, lstm_state: LSTMState, done: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return sampled actions ``[B, A]``, log-probability and value ``[B]``, and the next state ``[1, B, H]``.

        ``noise [B, W]`` is a standard normal draw, made here if None.
        """
        out, state = self._step(obs, lstm_state, done)
        distribution = self.core.distribution
        action = distribution.sample(out.action, self._noise(out) if noise is None else noise).detach()
        return action, distribution.log_prob(out.action, action), out.value, state

    def act(
        self, observations: Any, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` and the next state: the mean action, or the sample of ``noise [B, W]``."""
        out, state = self._step(observations, state, done)
        if noise is None or self.takes_mean:
            return self.core.distribution.mode(out.action), state
        return self.core.distribution.sample(out.action, noise), state

    @torch.no_grad()
    def estimate(self, obs: Any, lstm_state: LSTMState, done: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the value ``[B]`` and the probabilities of ``CHANCES`` ``[B, C]``, without gradient."""
        out, _ = self._step(obs, lstm_state, done)
        return out.value, self.core.distribution.chances(out.action)

    @torch.no_grad()
    def get_value(self, obs: Any, lstm_state: LSTMState, done: Tensor) -> tuple[Tensor, LSTMState]:
        """Return the value ``[B]`` and the next state ``[1, B, H]``, without gradient; ``done [B]`` resets it first."""
        features, state = self.core.recur_once(self.encode(obs), lstm_state, done)
        return self.core.value(features), state

    def evaluate_actions_sequence(
        self, obs_seq: Any, actions_seq: Tensor, dones_seq: Tensor, init_state: LSTMState
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return log-probabilities, entropies and values ``[T, B]`` of a chunk, and its end state ``[1, B, H]``."""
        scores = self.score_sequence(obs_seq, actions_seq, dones_seq, init_state)
        return scores.logprobs, scores.entropies, scores.values, scores.state

    get_chunk_values = evaluate_actions_sequence

    def score_sequence(
        self,
        obs_seq: Any,
        actions_seq: Tensor,
        dones_seq: Tensor,
        init_state: LSTMState,
        noise: Tensor | None = None,
        labels_seq: Tensor | None = None,
        living: Tensor | None = None,
    ) -> SequenceScores:
        """Return the scores of ``actions_seq [T, B, A]``: one encoding, one recurrence, one call of the heads.

        ``noise [T, B, A or W]`` is the draw of the entropy estimate, made here if None. ``labels_seq [T, B, A]`` are
        the actions of a teacher. With ``living [K]``, indices into the flattened steps of ``dones_seq [T, B]``, inputs
        and results are ``[K, ...]``, not ``[T, B, ...]``; after a step that is left out nothing lives until a reset.
        On a device an index of T * B stands for padding.
        """
        x, targets = self.encode_with_targets(obs_seq)
        features, state = self.core.recur(x, dones_seq, init_state, living)
        out = self.core.heads(features, targets)
        noise = torch.randn_like(out.action.location) if noise is None else noise
        distribution = self.core.distribution
        logprobs, entropies = distribution.score(out.action, actions_seq, noise)
        imitation = None if labels_seq is None else distribution.imitation_loss(out.action, labels_seq)
        return SequenceScores(logprobs, entropies, out.value, state, features, imitation)

    def replay_state(self, obs_seq: Any, dones_seq: Tensor, init_state: LSTMState) -> LSTMState:
        """Return the state ``[1, B, H]`` after a chunk, ``dones_seq [T, B]``, without scoring it."""
        return self.core.recur(self.encode(obs_seq), dones_seq, init_state)[1]

    def _step(self, obs: Any, state: LSTMState, done: Tensor | None) -> tuple[HeadOutputs, LSTMState]:
        x, targets = self.encode_with_targets(obs)
        features, state = self.core.recur_once(x, state, done)
        return self.core.heads(features, targets), state

    def _noise(self, out: HeadOutputs) -> Tensor:
        return torch.randn(*out.value.shape, self.core.noise_dim, device=out.value.device)


class ActorCritic(PolicyCalls):
    """Recurrent core and heads; a subclass provides ``encode``."""

    regime: Regime = HOST

    log_std_max: Tensor | None
    """Upper bound of the log standard deviation ``[]``, saved with the weights; None for the Gaussian action head."""

    def __init__(
        self,
        feature_dim: int,
        action_dim: int,
        lstm_hidden_dim: int,
        *,
        action_head: str = "gaussian",
        target_key_dim: int = 0,
        init_log_std: float = 0.0,
        log_std_min: float = squash.LOG_STD_MIN,
        log_std_end: float | None = None,
        predict_dim: int = 0,
        memory: bool = True,
        recurrence: str = "lstm",
    ) -> None:
        """``target_key_dim`` is the width of the keys of ``encode_with_targets``, 0 if the model has none."""
        super().__init__()
        self.action_dim = action_dim
        self.memory = memory
        """Whether recurrent state is carried from step to step; without it every step starts from a zero state."""
        self.lstm_hidden_dim = lstm_hidden_dim
        self.mingru: MinGRU | None = None
        if recurrence == "mingru":
            self.mingru = MinGRU(feature_dim, lstm_hidden_dim)
        else:
            self.lstm = make_lstm(feature_dim, lstm_hidden_dim)
            self._lstm_weights = lstm_weights(self.lstm)
        self.actor_mean = init_linear(nn.Linear(lstm_hidden_dim, action_dim), ACTOR_GAIN)
        self.actor_logstd_head = init_linear(nn.Linear(lstm_hidden_dim, action_dim, bias=False), 1.0)
        nn.init.zeros_(self.actor_logstd_head.weight)
        self.actor_logstd = nn.Parameter(torch.full((action_dim,), init_log_std))
        self.critic = init_linear(nn.Linear(lstm_hidden_dim, 1), CRITIC_GAIN)
        hybrid = action_head == "hybrid"
        self.distribution = ActionDistribution(action_dim, HYBRID if hybrid else GAUSSIAN)
        self.noise_dim = self.distribution.noise_dim
        self.selectors: nn.Linear | None = None
        self.target_key_dim = 0
        """Width of the keys of contacts that the target head points at; 0 if it scores slots by number."""
        if hybrid:
            self.target_key_dim = target_key_dim
            self.selectors = init_linear(nn.Linear(lstm_hidden_dim, sum(self._selector_widths())), ACTOR_GAIN)
        self.log_std_min = log_std_min
        self.log_std_span = (init_log_std, log_std_end)
        self.register_buffer("log_std_max", torch.tensor(squash.LOG_STD_MAX) if hybrid else None)
        self.obs_predictor = nn.Linear(lstm_hidden_dim, predict_dim) if predict_dim else None

    def set_progress(self, progress: float) -> None:
        """Lower the bound of the log standard deviation for ``progress`` in [0, 1] through training.

        The bound falls linearly from ``init_log_std`` to ``log_std_end``; without the latter nothing changes. The bias
        of the log standard deviation is lowered with it: above the bound it would have no gradient.
        """
        start, end = self.log_std_span
        if self.log_std_max is None or end is None:
            return
        bound = start + (end - start) * progress
        with torch.no_grad():
            self.log_std_max.fill_(bound)
            self.actor_logstd.clamp_(max=bound)

    @property
    def core(self) -> "ActorCritic":  # pyright: ignore[reportIncompatibleVariableOverride]
        return self

    def recur(
        self, x: Tensor, dones_seq: Tensor, state: LSTMState, living: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return outputs ``[T, B, H]`` of features ``x [T, B, F]``, and the state ``[1, B, H]`` after them.

        With ``living [K]`` both are ``[K, ...]``, as in ``score_sequence``.
        """
        if living is not None and not self.regime.packs:
            y, state = self.recur(spread(x, living, dones_seq), dones_seq, state)
            return y.flatten(0, 1).index_select(0, living.clamp(max=dones_seq.numel() - 1)), state
        if living is not None:
            if self.memory and self.mingru is not None:
                y, state = self.mingru(x, dones_seq, state, living)
            else:
                y, state = self.recur(spread(x, living, dones_seq), dones_seq, state)
            return y.flatten(0, 1)[living], state
        if not self.memory:
            return self._recur_memoryless(x, dones_seq, state)
        return self._run(x, dones_seq, state)

    def _run(self, x: Tensor, dones_seq: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        if self.mingru is not None:
            return self.mingru(x, dones_seq, state)
        if self.regime.lstm == "cells":
            return run_lstm_cells(self._lstm_weights, x, dones_seq, state)
        if self.regime.lstm == "unrolled":
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

    def recur_once(self, x: Tensor, state: LSTMState, done: Tensor | None) -> tuple[Tensor, LSTMState]:
        """Return the output ``[B, H]`` of features ``x [B, F]`` and the next state; ``done [B]`` resets it first."""
        if done is None or not self.memory:
            done = state.h.new_full((state.h.shape[1],), 0.0 if self.memory else 1.0)
        state = reset_state(state, done)
        if self.mingru is not None:
            return self.mingru.step(x, state)
        before = LSTMState(state.h.to(x.dtype), state.c.to(x.dtype))
        if self.regime.lstm == "cells":
            y, (h, c) = run_lstm_cells(self._lstm_weights, x.unsqueeze(0), torch.zeros_like(done).unsqueeze(0), before)
        else:
            y, (h, c) = self.lstm(x.unsqueeze(0), before)
        return y[0], LSTMState(h.to(state.h.dtype), c.to(state.c.dtype))

    def heads(self, features: Tensor, targets: TargetContacts | None = None) -> HeadOutputs:
        """Return the outputs of the heads for recurrent outputs ``[..., H]``, in float32."""
        with torch.autocast(features.device.type, enabled=False):
            y = squash.full_precision(features)
            log_std = (self.actor_logstd_head(y) + self.actor_logstd).clamp(self.log_std_min, squash.LOG_STD_MAX)
            if self.log_std_max is not None:
                log_std = log_std.clamp(max=self.log_std_max)
            logits = self._logits(y, targets)
            return HeadOutputs(ActionParameters(self.actor_mean(y), log_std, logits), self.critic(y).squeeze(-1))

    def _selector_widths(self) -> list[int]:
        """Return the outputs of ``selectors`` for each selector: its logits, or for a pointer query and no target."""
        target, *others = (len(selector.codes) for selector in HYBRID.selectors)
        return [self.target_key_dim + 1 if self.target_key_dim else target, *others]

    def _logits(self, y: Tensor, targets: TargetContacts | None) -> Tensor | None:
        if self.selectors is None:
            return None
        target, *others = self.selectors(y).split(self._selector_widths(), -1)
        if targets is not None:
            query, none = target[..., :-1].unsqueeze(-2), target[..., -1:]
            scores = (targets.keys * query).sum(-1) / math.sqrt(self.target_key_dim)
            target = torch.cat([scores.masked_fill(~targets.selectable, UNAVAILABLE), none], -1)
        return HYBRID.stack([target, *others])

    def value(self, features: Tensor) -> Tensor:
        """Return the value ``[...]`` of recurrent outputs ``[..., H]``, in float32."""
        with torch.autocast(features.device.type, enabled=False):
            return self.critic(squash.full_precision(features)).squeeze(-1)
