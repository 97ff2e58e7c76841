"""The recurrent state of a policy, defined once for all models."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LSTMState(NamedTuple):
    """Hidden and cell state of a one-layer LSTM, each ``[1, batch, hidden]`` float32.

    Of a MinGRU they are the memories of its first and its second layer, 0 without a second.
    """

    h: Tensor
    c: Tensor
