"""The one signature of everything that acts on batches: ``act(observations, state) -> (actions, state)``.

Trained policies (``FlatPolicy``), their cores and traced policies have it. Shapes: ``B row, D column, A action,
H recurrent state, W noise``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from echelon.rl.lstm_state import LSTMState

Act = Callable[[Tensor, LSTMState, Tensor | None, Tensor | None], tuple[Tensor, LSTMState]]
"""The type of ``Actor.act`` as a function."""


class Actor(Protocol):
    """Anything that turns observations into actions and carries a recurrent state."""

    def act(
        self, observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[B, A]`` in (-1, 1) and the next state for ``observations [B, D]``.

        ``state`` is ``[1, B, H]``; ``done [B]`` is 1 where an episode starts, whose state is reset first. Without
        ``noise [B, W]``, a standard normal draw, the mean action is returned.
        """
        ...
