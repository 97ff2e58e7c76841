"""Model over one flat observation vector: two tanh layers, then the shared recurrent core and heads."""

from typing import Any

from torch import Tensor, nn

from echelon.rl.actor_critic import ActorCritic, init_encoder
from echelon.rl.lstm_state import LSTMState

__all__ = ["ActorCriticLSTM", "LSTMState"]


class ActorCriticLSTM(ActorCritic):
    """Flat observations ``[..., obs_dim]`` to actions ``[..., action_dim]`` in (-1, 1) and a value."""

    def __init__(
        self, obs_dim: int, action_dim: int, hidden_dim: int = 128, lstm_hidden_dim: int = 128, **options: Any
    ) -> None:
        """``options`` are the keyword arguments of ``ActorCritic``."""
        super().__init__(hidden_dim, action_dim, lstm_hidden_dim, **options)
        self.obs_dim = obs_dim
        self.hidden_dim = hidden_dim
        self.encoder = nn.Sequential(
            nn.Linear(obs_dim, hidden_dim), nn.Tanh(), nn.Linear(hidden_dim, hidden_dim), nn.Tanh()
        )
        init_encoder(self.encoder)

    def encode(self, obs: Tensor) -> Tensor:
        """Return features ``[..., hidden_dim]`` of ``obs [..., obs_dim]``."""
        return self.encoder(obs)
