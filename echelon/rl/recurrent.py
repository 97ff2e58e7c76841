"""Reset-aware LSTM: one layer over a chunk, whose state is zeroed where an episode starts.

In eager mode the chunk is divided at the steps where any sequence starts an episode, and each span is one fused call.
Under ``torch.compile``, in a captured graph and on a GPU the same recurrence is unrolled step by step without branches
on data.
Shapes: ``T step, B sequence, F feature, H recurrent state``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.rl.lstm_state import LSTMState


def make_lstm(input_dim: int, hidden_dim: int) -> nn.LSTM:
    """Return a one-layer time-major LSTM with orthogonal weights and zero biases."""
    lstm = nn.LSTM(input_dim, hidden_dim)
    for name, weight in lstm.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
        else:
            nn.init.orthogonal_(weight)
    return lstm


def reset_state(state: LSTMState, done: Tensor) -> LSTMState:
    """Return ``state [1, B, H]`` with zeros for every sequence whose ``done [B]`` is 1."""
    keep = (1.0 - done.to(state.h.dtype)).view(1, -1, 1)
    return LSTMState(state.h * keep, state.c * keep)


def run_lstm(lstm: nn.LSTM, x: Tensor, dones: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
    """Return outputs ``[T, B, H]`` of ``x [T, B, F]`` from ``state``, and the state ``[1, B, H]`` after the last step.

    ``dones [T, B]`` is 1 where an episode starts before the step. Nothing is detached: gradients flow through the
    whole chunk and stop only at episode starts.
    """
    outputs = []
    for first, end in _spans(dones):
        state = reset_state(state, dones[first])
        y, (h, c) = lstm(x[first:end], (state.h.to(x.dtype), state.c.to(x.dtype)))
        state = LSTMState(h, c)
        outputs.append(y)
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)), state


def lstm_weights(lstm: nn.LSTM) -> list[Tensor]:
    """Return input weights, recurrent weights and both biases, the inputs of ``run_lstm_unrolled``."""
    return [lstm.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def run_lstm_unrolled(weights: list[Tensor], x: Tensor, dones: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
    """Return what ``run_lstm`` returns for ``x [T, B, F]``, with one masked cell per step and no branch on data.

    It takes plain weights because the compiler does not trace into an LSTM module.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    projected = functional.linear(x, weight_ih, bias_ih + bias_hh)
    keep = 1.0 - dones.to(x.dtype).unsqueeze(-1)
    h, c = state.h[0], state.c[0]
    outputs = []
    for t in range(x.shape[0]):
        h, c = h * keep[t], c * keep[t]
        i, f, g, o = (projected[t] + functional.linear(h, weight_hh)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs), LSTMState(h.unsqueeze(0), c.unsqueeze(0))


def run_lstm_cells(weights: list[Tensor], x: Tensor, dones: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
    """Return what ``run_lstm`` returns for ``x [T, B, F]``, with one cell per step, which a GPU computes fused."""
    keep = 1.0 - dones.to(x.dtype).unsqueeze(-1)
    h, c = (part[0].to(x.dtype) for part in state)
    outputs = []
    for t in range(x.shape[0]):
        h, c = torch.lstm_cell(x[t], (h * keep[t], c * keep[t]), *weights)
        outputs.append(h)
    return torch.stack(outputs), LSTMState(h.unsqueeze(0), c.unsqueeze(0))


def _spans(dones: Tensor) -> list[tuple[int, int]]:
    """Return the spans of ``dones [T, B]`` that have no episode start after their first step."""
    steps = dones.shape[0]
    starts = [0]
    if steps > 1:
        starts += (dones[1:].ne(0).any(1).nonzero().flatten() + 1).tolist()
    return list(zip(starts, [*starts[1:], steps], strict=True))
