"""Plays the rounds of an arena job: each is planned, played match by match into the store, then rated as a whole.

A stopped or killed job resumes: stored matches count, the others are played. Replays go to the job's run folder.
Several processes may play one job, each a shard of the matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from echelon.arena.config import ArenaConfig
from echelon.arena.contest import FORFEIT, MatchResult, MatchSession, Pairing
from echelon.arena.entries import KINDS
from echelon.arena.glicko2 import win_probability
from echelon.arena.league import League
from echelon.arena.match_runner import play
from echelon.arena.match_statistics import Cause
from echelon.arena.matchmaking import Fixture, RoundSpec, fixtures
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.policy_runner import GroupedPolicyRunner, PolicyMatchPlan
from echelon.arena.store import MatchRecord, PeriodResult, RatingPeriod, Store
from echelon.arena.style import WEAPON_NAMES, sums_of
from echelon.arena.submit import entry_pilot, league_env_config, load_pilot
from echelon.arena.workers import SINGLE_PROCESS, CallbackRelay, ProcessGroup, shard
from echelon.config import EnvConfig
from echelon.env.referee import WINNERS
from echelon.sim.backend import default_threads

CAUSES = WEAPON_NAMES | {int(cause): cause.name.lower() for cause in Cause if cause is not Cause.LIVES}
"""Names of the causes of death by number."""
PLAYING, RATED = "playing", "rated"


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """Progress of a round."""

    round: int
    state: str
    """``playing`` or ``rated``."""
    matches: int
    played: int
    seconds: float
    """Time since this session started the round [s]."""
    closed: PeriodResult | None = None


@dataclass(frozen=True, kw_only=True)
class RoundCallbacks:
    """Callbacks of ``play_rounds``."""

    on_status: Callable[[str], object] = lambda text: None
    """A one-line description of the current work."""
    should_stop: Callable[[], bool] = lambda: False
    on_progress: Callable[[RoundProgress], object] = lambda progress: None
    on_replay: Callable[[Path, str, str, str, int], object] = lambda path, blue, red, winner, seed: None
    """A replay was written: file, names of blue and red, winner, seed."""
    on_warning: Callable[[str], object] = lambda text: None


def play_rounds(
    store: Store,
    job: str,
    config: ArenaConfig,
    folder: Path,
    callbacks: RoundCallbacks,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> bool:
    """Play every round of ``job`` that is not rated yet; return False where a stop was requested before the end.

    In a process group every process calls this with its own store; the callbacks of the first receive everything.
    """
    env = league_env_config(store)
    cache = LRUPolicyCache(config.cache)
    done = process_group.broadcast({period.round for period in store.periods(job) if period.closed})
    for number in range(1, config.rounds + 1):
        if number in done:
            continue
        opened = (
            store.open_period(job, number, plan_round(store.league(), config, number))
            if process_group.rank == 0
            else None
        )
        period = process_group.broadcast(opened)
        assert period is not None, "the first process opened it"
        if not _RoundRunner(store, period, config, env, cache, folder, callbacks, process_group).run():
            return False
    return True


def plan_round(league: League, config: ArenaConfig, number: int) -> list[Fixture]:
    """Return the fixtures of a round; ``ValueError`` where fewer than two entries play."""
    playing = [entry for entry in league.entries.values() if KINDS[entry.kind].plays]
    if len(playing) < 2:
        raise ValueError(f"league has {len(playing)} entries that play, expected at least 2; try: echelon arena add")
    spec = RoundSpec(
        seed=config.seed, number=number, seeds=config.seeds, opponents=config.opponents, only=frozenset(config.only)
    )
    return fixtures(playing, config.scheme, spec)


class _RoundRunner:
    """One round and this process's shard of it."""

    def __init__(
        self,
        store: Store,
        period: RatingPeriod,
        config: ArenaConfig,
        env: EnvConfig,
        cache: LRUPolicyCache,
        folder: Path,
        callbacks: RoundCallbacks,
        process_group: ProcessGroup,
    ) -> None:
        self.store, self.period, self.config, self.env = store, period, config, env
        self.cache, self.folder, self.callbacks = cache, folder, callbacks
        self.process_group, self.relay = process_group, CallbackRelay(process_group, callbacks)
        self.league = store.league()
        self.pilots = {i: entry_pilot(entry) for i, entry in self.league.entries.items()}
        self.started = time.monotonic()
        self.total = store.read("SELECT count(*) FROM matches WHERE period = ?", (period.id,))[0][0]
        self.differing: set[int] = set()
        """Matches whose result differed when they were played again."""

    def run(self) -> bool:
        """Play the remaining matches and rate the round; return False where a stop was requested before the end."""
        # one list, read before any process plays
        unplayed = self.process_group.broadcast(self.store.unplayed(self.period))
        remaining = self._playable(shard(unplayed, self.process_group))
        recorded = frozenset(f.number for f in remaining if self._is_recorded(f.number))
        if self._is_stopped(self._play(remaining, recorded, self._store_result)):
            return False
        upsets = self.process_group.broadcast(self._upsets() if self.process_group.rank == 0 else [])
        if self._is_stopped(self._record_upsets(shard(upsets, self.process_group))):
            return False
        c = self.config
        if self.process_group.rank == 0:
            closed = self.store.close_period(
                self.period,
                promote_top=c.promote_top,
                conservatism=c.conservatism,
                keep_top=c.keep_top,
                min_games=c.min_games,
                age_idle=c.age_idle,
            )
            self._report(RATED, closed)
        self.process_group.broadcast(True)
        return True

    def _is_stopped(self, ended: bool) -> bool:
        """Wait for all processes, relay their callbacks, and return whether any was stopped before the end."""
        self.relay.flush()
        return self.process_group.any(not ended)

    def _report(self, state: str, closed: PeriodResult | None = None) -> None:
        progress = RoundProgress(
            round=self.period.round,
            state=state,
            matches=self.total,
            played=self.total - self.store.count_unplayed(self.period),
            seconds=time.monotonic() - self.started,
            closed=closed,
        )
        self.callbacks.on_progress(progress)

    def _is_recorded(self, number: int) -> bool:
        """Whether a match is in the recorded fraction, which is spread evenly over the round."""
        fraction = self.config.record_share
        return int((number + 1) * fraction) > int(number * fraction)

    def _playable(self, matches: Sequence[Fixture]) -> list[Fixture]:
        """Load the policies of ``matches``; store matches of a policy that fails as void and return the others."""
        broken: dict[str, str] = {}
        for name in sorted({i for f in matches for i in (f.blue, f.red) if not self.pilots[i].level}):
            try:
                self.cache.put(name, self._load(name).policy)
            except (ValueError, OSError) as error:
                broken[name] = str(error)
                self.relay.call("on_warning", f"{self.pilots[name].label} is excluded from this round: {error}")
        for f in matches:
            if note := "; ".join(broken[i] for i in (f.blue, f.red) if i in broken):
                self.store.record(self.period, f.number, MatchRecord(winner="", reason="void", note=note))
        return [f for f in matches if f.blue not in broken and f.red not in broken]

    def _load(self, name: str) -> Any:
        return load_pilot(self.pilots[name], self.config.device, self.league.env_signature)

    def _play(
        self, matches: Sequence[Fixture], record: frozenset[int], take: Callable[[MatchResult, PolicyMatchPlan], None]
    ) -> bool:
        """Play matches, pass each result to ``take`` and store replay paths; return False where it was stopped."""
        if not matches:
            return True
        seats = {f.number: (f.blue, f.red) for f in matches}
        plan = PolicyMatchPlan(env=self.env, pilots=self.pilots, seats=seats, weapon_prob=self.config.weapon_prob)
        config, callbacks = self.config, self.callbacks
        threads = config.threads or max(1, default_threads() // self.process_group.size)
        prefix, about = f"r{self.period.round:03d}-", {"run": self.period.job}
        policy_runner = GroupedPolicyRunner(
            plan=plan,
            load=lambda pilot: self._load(pilot.id),
            cache=self.cache,
            deterministic=config.deterministic,
            threads=threads,
        )
        session = MatchSession(
            envs=config.envs,
            device=config.device,
            threads=threads,
            folder=self.folder,
            prefix=prefix,
            record=record,
            about=about,
            policy_runner=policy_runner,
            on_status=callbacks.on_status,
            should_stop=callbacks.should_stop,
        )
        with policy_runner:
            for result in play(plan, [Pairing(f.number, f.seed, False) for f in matches], session):
                take(result, plan)
        for error in session.recording_errors:
            self.relay.call("on_warning", error)
        for number, path in session.replays.items():
            if number in self.differing:
                path.unlink(missing_ok=True)
            else:
                self._store_replay(number, path, plan)
        return not session.stopped

    def _store_replay(self, number: int, path: Path, plan: PolicyMatchPlan) -> None:
        self.store.set_replay(self.period, number, f"{path.parent.name}/{path.name}")
        row = self.store.read(
            "SELECT winner, seed FROM matches WHERE period = ? AND number = ?", (self.period.id, number)
        )[0]
        blue, red = (plan.team(name).name for name in plan.seats[number])
        self.relay.call("on_replay", path, blue, red, row["winner"] or "", row["seed"])

    def _store_result(self, result: MatchResult, plan: PolicyMatchPlan) -> None:
        """Store the result of a match."""
        record, number = result.record, result.pairing.number
        note = ""
        if record.reason == FORFEIT:
            losers = [name for side, name in enumerate(plan.seats[number]) if record.winner != side]
            names = " and ".join(plan.team(name).name for name in losers)
            note = f"{names} gave actions that are not finite, after {record.length} decisions"
            self.relay.call("on_warning", f"match {number}: {note}")
        dt = self.env.dt_act
        match_record = MatchRecord(
            winner=WINNERS[record.winner],
            reason=record.reason,
            note=note,
            hp=record.hp,
            score=record.zone_score,
            seconds=record.length * dt,
            styles=(sums_of(result.statistics, 0, CAUSES, dt), sums_of(result.statistics, 1, CAUSES, dt)),
        )
        self.store.record(self.period, number, match_record)
        if self.process_group.rank == 0:
            self._report(PLAYING)

    def _upsets(self) -> list[tuple[Fixture, str]]:
        """Return the most surprising matches without a replay, with their winners."""
        rows = self.store.read(
            "SELECT number, blue, red, seed, winner FROM matches WHERE period = ? AND winner IN ('blue', 'red') "
            "AND replay = '' AND reason <> ? ORDER BY number",
            (self.period.id, FORFEIT),
        )
        chances: list[tuple[float, Fixture, str]] = []
        for row in rows:
            sides = row["blue"], row["red"]
            won, lost = sides if row["winner"] == "blue" else sides[::-1]
            chance = win_probability(self.league.entries[won].rating, self.league.entries[lost].rating)
            if chance < self.config.upset:
                chances.append((chance, Fixture(row["number"], *sides, row["seed"]), row["winner"]))
        chances.sort(key=lambda item: (item[0], item[1].number))
        return [(fixture, winner) for _, fixture, winner in chances[: self.config.most_upsets]]

    def _record_upsets(self, upsets: Sequence[tuple[Fixture, str]]) -> bool:
        """Play matches again to record their replays; return False where it was stopped before the end."""
        expected = {fixture.number: winner for fixture, winner in upsets}

        def check(result: MatchResult, plan: PolicyMatchPlan) -> None:
            number = result.pairing.number
            if WINNERS[result.record.winner] != expected[number]:
                self.differing.add(number)
                self.relay.call(
                    "on_warning", f"match {number} ended differently when it was played again for its replay"
                )

        report = self.callbacks.on_status
        self.callbacks = replace(self.callbacks, on_status=lambda text: report(f"recording upsets: {text}"))
        matches = self._playable([fixture for fixture, _ in upsets])
        return self._play(matches, frozenset(f.number for f in matches), check)
