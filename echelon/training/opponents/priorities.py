"""Prioritised fictitious self-play (Vinyals et al., 2019): opponents are sampled by how often they are not beaten."""

from __future__ import annotations

from collections.abc import Mapping

from echelon.training.opponents.outcomes import SCORES

PRIOR, PRIOR_EPISODES = 0.5, 2.0
"""Win rate against an opponent not played yet, and the episodes that it counts as."""
MEMORY = 100
"""Episodes against an opponent over which its win rate is averaged."""
FLOOR = 0.05
"""Smallest factor before the exponent, so that opponents which are always beaten are still played now and then."""


class Priorities:
    """Running win rates against opponents by name, and the factors on their sampling weights that follow from them."""

    def __init__(self, exponent: float) -> None:
        """``exponent`` is that of the factor ``1 - win rate``; with 0 every factor is 1 and nothing is recorded."""
        self.exponent = exponent
        self.win_rates: dict[str, tuple[float, int]] = {}
        """Win rate, draws counting half, and episodes up to ``MEMORY``."""

    def record(self, name: str, outcome: str) -> None:
        """Add the outcome of an episode against an opponent."""
        if self.exponent:
            rate, episodes = self.win_rates.get(name, (PRIOR, 0))
            episodes = min(episodes + 1, MEMORY)
            self.win_rates[name] = (rate + (SCORES[outcome] - rate) / (episodes + PRIOR_EPISODES), episodes)

    def factor(self, name: str) -> float:
        """Return the factor on the sampling weight of an opponent."""
        rate, _ = self.win_rates.get(name, (PRIOR, 0))
        return max(1.0 - rate, FLOOR) ** self.exponent

    def forget(self, name: str) -> None:
        """Drop the win rate against an opponent that is no longer sampled."""
        self.win_rates.pop(name, None)

    def state_dict(self) -> dict[str, list[float]]:
        """Return the win rates as plain values."""
        return {name: list(row) for name, row in self.win_rates.items()}

    def load_state_dict(self, state: Mapping[str, list[float]]) -> None:
        """Restore what ``state_dict`` returned."""
        self.win_rates = {name: (float(rate), int(episodes)) for name, (rate, episodes) in state.items()}
