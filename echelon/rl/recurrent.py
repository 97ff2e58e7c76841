"""The two recurrences over a chunk, whose state is zeroed where an episode starts: an LSTM and a MinGRU.

In eager mode the LSTM's chunk is divided at the steps where any sequence starts an episode, and each span is one fused
call. Under ``torch.compile``, in a captured graph and on a GPU it is unrolled step by step without branches on data.

The MinGRU (Feng et al., 2024) is linear in its state, since its gates depend on the input alone:

    update, output = sigmoid(W_u x + b_u), sigmoid(W_o x + b_o);  candidate = W_c x + b_c
    memory_t = (1 - update_t) * memory_{t-1} + update_t * candidate_t
    y_t = (1 - output_t) * candidate_t + output_t * memory_t

All matrix products of a chunk are one product over its T * B rows. A loop over steps does the elementwise rest: on a
CPU this is 8 times as fast as a scan by doubling (Hillis and Steele, 1986), which passes log2(T) times over the chunk.
Shapes: ``T step, B sequence, F feature, H recurrent state``.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.rl import squash
from echelon.rl.lstm_state import LSTMState
from echelon.rl.regime import HOST, Regime


def make_lstm(input_dim: int, hidden_dim: int) -> nn.LSTM:
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


def spread(rows: Tensor, steps: Tensor, dones: Tensor) -> Tensor:
    """Return zeros ``[T, B, F]`` with ``rows [K, F]`` at the flattened ``steps [K]`` of ``dones [T, B]``.

    Rows of step T * B are left out.
    """
    return rows.new_zeros(dones.numel() + 1, rows.shape[-1]).index_copy(0, steps, rows)[:-1].unflatten(0, dones.shape)


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


SHORTEST_MEMORY, LONGEST_MEMORY = 2.0, 64.0
"""Range of the initial time constants of the memory [environment steps], spread evenly by ratio."""


class MinGRU(nn.Module):
    """One layer of the recurrence; its memory is the state's ``h``, ``c`` is 0."""

    regime: Regime = HOST

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_gates(input_dim, hidden_dim))

    def forward(
        self, x: Tensor, dones: Tensor, state: LSTMState, living: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return outputs ``[T, B, H]`` of ``x [T, B, F]`` from ``state``, and the state ``[1, B, H]`` after them.

        With ``living [K]``, the flattened steps that ``x [K, F]`` has, the others have gates of 0.

        ``dones [T, B]`` is 1 where an episode starts before the step: memories are exactly 0 there, and no gradient
        flows back across it.
        """
        keep = 1.0 - dones.to(state.h.dtype).unsqueeze(-1)
        gates = self.layers(x)
        if living is not None:
            gates = spread(gates, living, dones)
        y, memory = self._scan(gates, keep, state.h[0])
        return y, LSTMState(memory.unsqueeze(0), torch.zeros_like(state.c))

    def step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Return output ``[B, H]`` of one step ``x [B, F]`` and the next state ``[1, B, H]``; nothing is reset."""
        gates = self.layers(x).unsqueeze(0)
        y, memory = self._scan(gates, torch.ones_like(gates[..., :1], dtype=state.h.dtype), state.h[0])
        return y[0], LSTMState(memory.unsqueeze(0), torch.zeros_like(state.c))

    def _scan(self, gates: Tensor, keep: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return what ``scan_stepwise`` returns, by the fastest way."""
        if self.regime.scan == "device":
            from echelon.rl import device_kernels

            return device_kernels.scan(gates, keep, memory)
        return scan_stepwise(squash.full_precision(gates), keep, memory)


def scan_stepwise(gates: Tensor, keep: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs ``[T, B, H]`` and the last memory ``[B, H]`` of ``gates [T, B, 3 H]`` before their sigmoids.

    ``keep [T, B, 1]`` is 0 where the memory, at first ``memory [B, H]``, is reset before the step, else 1.
    """
    update, output, candidate = gates.chunk(3, -1)
    update, output = torch.sigmoid(update), torch.sigmoid(output)
    memories = []
    for t in range(gates.shape[0]):
        memory = torch.lerp(memory * keep[t], candidate[t], update[t])
        memories.append(memory)
    return torch.lerp(candidate, torch.stack(memories), output), memory


def _gates(input_dim: int, hidden_dim: int) -> nn.Linear:
    """Return the layer of update gate, output gate and candidate: orthogonal weights, spread time constants."""
    layer = nn.Linear(input_dim, 3 * hidden_dim)
    for weight in layer.weight.data.chunk(3):
        nn.init.orthogonal_(weight)
    nn.init.zeros_(layer.bias)
    steps = torch.logspace(math.log2(SHORTEST_MEMORY), math.log2(LONGEST_MEMORY), hidden_dim, base=2.0)
    layer.bias.data[:hidden_dim] = -torch.log(steps - 1.0)
    return layer
