"""The recurrent state of a policy, defined once for all models."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LSTMState(NamedTuple):
    """Hidden and cell state of a one-layer LSTM, each ``[1, batch, hidden]`` float32.

    A MinGRU stores its memory in ``h``; its ``c`` is 0.
    """

    h: Tensor
    c: Tensor
