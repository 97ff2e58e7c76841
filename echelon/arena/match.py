"""One match between two loaded policies."""

from dataclasses import dataclass

from echelon.arena.contest import MatchPlan, MatchSession, Pairing, Pilot
from echelon.arena.match_runner import play
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.config import EnvConfig
from echelon.env.referee import WINNERS
from echelon.rl.weights import LoadedPolicy, load_policy

__all__ = ["LoadedPolicy", "MatchOutcome", "load_policy", "play_match"]


@dataclass(frozen=True)
class MatchOutcome:
    """How a single match ended."""

    winner: str
    """``blue``, ``red`` or ``draw``."""
    hp: tuple[float, float]
    seed: int


def play_match(
    *,
    env_cfg: EnvConfig,
    blue_policy: LoadedPolicy,
    red_policy: LoadedPolicy,
    seed: int,
    device: str = "cpu",
    max_steps: int | None = None,
    deterministic: bool = False,
) -> MatchOutcome:
    """Play one match between two policies from zero recurrent states; each policy runs on its own device.

    Equal weights and seeds give equal outcomes. A match that reaches ``max_steps`` environment steps is a draw with
    the hit points at that step.
    """
    policies = {"blue": blue_policy, "red": red_policy}
    pilots = {side: Pilot(id=side, label=side, path=side) for side in policies}
    plan = MatchPlan(env=env_cfg, pilots=pilots, seats={0: ("blue", "red")})
    with GroupedPolicyRunner(
        plan=plan, load=lambda pilot: policies[pilot.path], deterministic=deterministic
    ) as policy_runner:
        session = MatchSession(
            envs=1, device=device, threads=1, policy_runner=policy_runner, max_decisions=max_steps or 0
        )
        for result in play(plan, [Pairing(0, seed, False)], session):
            return MatchOutcome(WINNERS[result.record.winner], result.record.hp, seed)
    return MatchOutcome("draw", session.hp_at_limit[0], seed)
