"""Batches of a round's matches: plain data, which this process plays or a process of another host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from echelon.arena.config import ArenaConfig
from echelon.arena.contest import BLUE, FORFEIT, RED, MatchPlan, MatchResult, MatchSession, Pairing, Pilot
from echelon.arena.match_runner import play
from echelon.arena.matchmaking import Fixture
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.arena.results_table import sums_of
from echelon.arena.store import MatchRecord
from echelon.arena.submit import load_pilot
from echelon.config import EnvConfig
from echelon.env.referee import WINNERS

Take = Callable[[int, MatchRecord], None]


@dataclass(frozen=True, kw_only=True)
class MatchBatch:
    """Matches of a round, with everything that decides their results."""

    env: EnvConfig
    signature: dict[str, Any] | None
    config: ArenaConfig
    pilots: Mapping[str, Pilot]
    fixtures: Sequence[Fixture]
    record: frozenset[int] = frozenset()
    repeated: bool = False
    """Whether the matches have results and are played again for their replays."""
    job: str
    round: int

    def as_dict(self) -> dict[str, Any]:
        playing = {name for fixture in self.fixtures for name in (fixture.blue, fixture.red)}
        pilots = {name: asdict(self.pilots[name]) for name in sorted(playing)}
        return {**asdict(self), "pilots": pilots, "record": sorted(self.record)}


@dataclass(frozen=True, kw_only=True)
class Played:
    """What playing a batch left beside the results."""

    stopped: bool = False
    replays: Mapping[int, Path] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class BatchPlayer(Protocol):
    """Plays batches."""

    @property
    def device(self) -> str: ...

    def __call__(
        self, batch: MatchBatch, take: Take, on_status: Callable[[str], object], should_stop: Callable[[], bool]
    ) -> Played:
        """Play a batch, pass each result to ``take`` and return the rest."""
        ...


@dataclass(frozen=True, kw_only=True)
class LocalPlayer:
    """Plays batches in this process."""

    folder: Path
    cache: LRUPolicyCache
    device: str
    threads: int

    def __call__(
        self, batch: MatchBatch, take: Take, on_status: Callable[[str], object], should_stop: Callable[[], bool]
    ) -> Played:
        seats = {f.number: (f.blue, f.red) for f in batch.fixtures}
        config = batch.config
        plan = MatchPlan(env=batch.env, pilots=batch.pilots, seats=seats, weapon_prob=config.weapon_prob)
        policy_runner = GroupedPolicyRunner(
            plan=plan,
            load=lambda pilot: load_pilot(pilot, self.device, batch.signature),
            cache=self.cache,
            deterministic=config.deterministic,
            threads=self.threads,
        )
        session = MatchSession(
            envs=config.envs,
            device=self.device,
            threads=self.threads,
            folder=self.folder,
            prefix=f"r{batch.round:03d}-",
            record=batch.record,
            about={"run": batch.job},
            policy_runner=policy_runner,
            on_status=on_status,
            should_stop=should_stop,
        )
        with policy_runner:
            for result in play(plan, [Pairing(f.number, f.seed, False) for f in batch.fixtures], session):
                take(result.pairing.number, match_record(result, plan))
        warnings = [*session.recording_errors, *policy_runner.reports()]
        return Played(stopped=session.stopped, replays=session.replays, warnings=warnings)


def match_record(result: MatchResult, plan: MatchPlan) -> MatchRecord:
    record, note, dt = result.record, "", plan.env.dt_act
    if record.reason == FORFEIT:
        losers = [name for side, name in enumerate(plan.seats[result.pairing.number]) if record.winner != side]
        names = " and ".join(plan.team(name).name for name in losers)
        note = f"{names} gave actions that are not finite, after {record.length} decisions"
    return MatchRecord(
        winner=WINNERS[record.winner],
        reason=record.reason,
        note=note,
        hp=record.hp,
        score=record.zone_score,
        seconds=record.length * dt,
        styles=(_style(result, BLUE, dt), _style(result, RED, dt)),
    )


def _style(result: MatchResult, side: int, dt: float) -> dict[str, float]:
    counts = result.statistics
    return sums_of(counts, (counts["team"] == side) & (counts["present"] == 1), dt)
