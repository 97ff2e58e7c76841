"""The recurrent state of a policy, defined once for all models."""

from typing import NamedTuple

import torch
from torch import Tensor


class LSTMState(NamedTuple):
    """Hidden and cell state of a one-layer LSTM, each ``[1, batch, hidden]`` float32.

    A MinGRU stores its memory in ``h``; its ``c`` is 0.
    """

    h: Tensor
    c: Tensor

    def stored(self, dtype: torch.dtype) -> "LSTMState":
        """Return a copy in another precision; its ``c`` is empty where it is 0."""
        cell = self.c if self.c.any() else self.c[..., :0]
        return LSTMState(self.h.to(dtype, copy=True), cell.to(dtype, copy=True))
