"""The recurrent state of a policy, defined once for all models."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LSTMState(NamedTuple):
    """Hidden and cell state of a one-layer LSTM, each ``[1, batch, hidden]`` float32."""

    h: Tensor
    c: Tensor
