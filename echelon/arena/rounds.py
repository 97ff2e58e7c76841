"""Plays the rounds of an arena job: each is planned, played match by match into the store, and rated at once.

A job that was stopped or killed goes on where it was: what is written counts, what is not is played. Replays go to the
job's own folder. Several processes may play a job together, each its share of the matches.
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
from echelon.arena.style import NAMES, sums_of
from echelon.arena.submit import entry_pilot, league_env_config, load_pilot
from echelon.arena.workers import SINGLE_PROCESS, CallbackRelay, ProcessGroup, share
from echelon.config import EnvConfig
from echelon.env.referee import WINNERS
from echelon.sim.backend import default_threads

CAUSES = NAMES | {int(cause): cause.name.lower() for cause in Cause if cause is not Cause.LIVES}
"""What mechs die of, by number."""
PLAYING, RATED = "playing", "rated"


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """How far a round has come."""

    round: int
    state: str
    """``playing`` or ``rated``."""
    matches: int
    played: int
    seconds: float
    """Time since this session began with the round [s]."""
    closed: PeriodResult | None = None


@dataclass(frozen=True, kw_only=True)
class RoundCallbacks:
    """Who hears what happens."""

    on_status: Callable[[str], object] = lambda text: None
    """What is being done now, in a few words."""
    should_stop: Callable[[], bool] = lambda: False
    news: Callable[[RoundProgress], object] = lambda news: None
    replay: Callable[[Path, str, str, str, int], object] = lambda path, blue, red, winner, seed: None
    """A match can be watched: file, names of blue and red, winner, seed."""
    warn: Callable[[str], object] = lambda text: None


def play_rounds(
    store: Store,
    job: str,
    config: ArenaConfig,
    folder: Path,
    listeners: RoundCallbacks,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> bool:
    """Play every round of ``job`` that is not rated yet; return whether it came to its end and was not stopped.

    Of several processes each calls this with a store of its own; the first one's listeners hear everything.
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
        assert period is not None, "the first process has opened it"
        if not _Session(store, period, config, env, cache, folder, listeners, process_group).run():
            return False
    return True


def plan_round(league: League, config: ArenaConfig, number: int) -> list[Fixture]:
    """Return the matches of a round between all who play; ``ValueError`` where nobody could meet."""
    playing = [entry for entry in league.entries.values() if KINDS[entry.kind].plays]
    if len(playing) < 2:
        raise ValueError(f"league has {len(playing)} entries that play, wanted at least 2; see: echelon arena add")
    wanted = RoundSpec(
        seed=config.seed, number=number, seeds=config.seeds, opponents=config.opponents, only=frozenset(config.only)
    )
    return fixtures(playing, config.scheme, wanted)


class _Session:
    """One round, as far as this process plays it."""

    def __init__(
        self,
        store: Store,
        period: RatingPeriod,
        config: ArenaConfig,
        env: EnvConfig,
        cache: LRUPolicyCache,
        folder: Path,
        listeners: RoundCallbacks,
        process_group: ProcessGroup,
    ) -> None:
        self.store, self.period, self.config, self.env = store, period, config, env
        self.cache, self.folder, self.listeners = cache, folder, listeners
        self.process_group, self.spokesman = process_group, CallbackRelay(process_group, listeners)
        self.league = store.league()
        self.pilots = {i: entry_pilot(entry) for i, entry in self.league.entries.items()}
        self.began = time.monotonic()
        self.total = store.read("SELECT count(*) FROM matches WHERE period = ?", (period.id,))[0][0]
        self.differing: set[int] = set()
        """Matches that went another way when they were played again."""

    def run(self) -> bool:
        """Play what is left and rate the round; return False where somebody asked for a stop before."""
        unplayed = self.process_group.broadcast(self.store.unplayed(self.period))  # one list, read before anybody plays
        left = self._without_broken(share(unplayed, self.process_group))
        kept = frozenset(f.number for f in left if self._chosen(f.number))
        if self._is_stopped(self._play(left, kept, self._write)):
            return False
        chosen = self.process_group.broadcast(self._upsets() if self.process_group.rank == 0 else [])
        if self._is_stopped(self._record_upsets(share(chosen, self.process_group))):
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
            self._news(RATED, closed)
        self.process_group.broadcast(True)
        return True

    def _is_stopped(self, ended: bool) -> bool:
        """Wait for the others, let them speak, and return whether anybody was stopped before the end."""
        self.spokesman.meet()
        return self.process_group.any(not ended)

    def _news(self, state: str, closed: PeriodResult | None = None) -> None:
        news = RoundProgress(
            round=self.period.round,
            state=state,
            matches=self.total,
            played=self.total - self.store.count_unplayed(self.period),
            seconds=time.monotonic() - self.began,
            closed=closed,
        )
        self.listeners.news(news)

    def _chosen(self, number: int) -> bool:
        """Whether a match is among the share whose replays are kept, spread evenly over the round."""
        share = self.config.record_share
        return int((number + 1) * share) > int(number * share)

    def _without_broken(self, left: Sequence[Fixture]) -> list[Fixture]:
        """Open every policy that is to play; matches of those that cannot are void, and the rest goes on."""
        broken: dict[str, str] = {}
        for name in sorted({i for f in left for i in (f.blue, f.red) if not self.pilots[i].level}):
            try:
                self.cache.put(name, self._load(name).policy)
            except (ValueError, OSError) as error:
                broken[name] = str(error)
                self.spokesman.say("warn", f"{self.pilots[name].label} does not play this round: {error}")
        for f in left:
            if note := "; ".join(broken[i] for i in (f.blue, f.red) if i in broken):
                self.store.record(self.period, f.number, MatchRecord(winner="", reason="void", note=note))
        return [f for f in left if f.blue not in broken and f.red not in broken]

    def _load(self, name: str) -> Any:
        return load_pilot(self.pilots[name], self.config.device, self.league.env_signature)

    def _play(
        self, wanted: Sequence[Fixture], record: frozenset[int], take: Callable[[MatchResult, PolicyMatchPlan], None]
    ) -> bool:
        """Play matches, ``take`` each that ends, note their replays; return False where it was stopped before."""
        if not wanted:
            return True
        seats = {f.number: (f.blue, f.red) for f in wanted}
        plan = PolicyMatchPlan(env=self.env, pilots=self.pilots, seats=seats, weapon_prob=self.config.weapon_prob)
        config, listeners = self.config, self.listeners
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
            on_status=listeners.on_status,
            should_stop=listeners.should_stop,
        )
        with policy_runner:
            for result in play(plan, [Pairing(f.number, f.seed, False) for f in wanted], session):
                take(result, plan)
        if session.recording_error:
            self.spokesman.say("warn", session.recording_error)
        for number, path in session.replays.items():
            if number in self.differing:
                path.unlink(missing_ok=True)
            else:
                self._note_replay(number, path, plan)
        return not session.stopped

    def _note_replay(self, number: int, path: Path, plan: PolicyMatchPlan) -> None:
        self.store.set_replay(self.period, number, f"{path.parent.name}/{path.name}")
        row = self.store.read(
            "SELECT winner, seed FROM matches WHERE period = ? AND number = ?", (self.period.id, number)
        )[0]
        blue, red = (plan.team(name).name for name in plan.seats[number])
        self.spokesman.say("replay", path, blue, red, row["winner"] or "", row["seed"])

    def _write(self, result: MatchResult, plan: PolicyMatchPlan) -> None:
        """Write down a match that has ended."""
        record, number = result.record, result.pairing.number
        note = ""
        if record.reason == FORFEIT:
            blamed = [name for side, name in enumerate(plan.seats[number]) if record.winner != side]
            who = " and ".join(plan.team(name).name for name in blamed)
            note = f"{who} gave actions that are not finite, after {record.length} decisions"
            self.spokesman.say("warn", f"match {number}: {note}")
        dt = self.env.dt_act
        played = MatchRecord(
            winner=WINNERS[record.winner],
            reason=record.reason,
            note=note,
            hp=record.hp,
            score=record.zone_score,
            seconds=record.length * dt,
            styles=(sums_of(result.statistics, 0, CAUSES, dt), sums_of(result.statistics, 1, CAUSES, dt)),
        )
        self.store.record(self.period, number, played)
        if self.process_group.rank == 0:
            self._news(PLAYING)

    def _upsets(self) -> list[tuple[Fixture, str]]:
        """Return the most surprising matches without a replay, and who won them."""
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

    def _record_upsets(self, chosen: Sequence[tuple[Fixture, str]]) -> bool:
        """Play matches again for their replays; return False where it was stopped before."""
        expected = {fixture.number: winner for fixture, winner in chosen}

        def check(result: MatchResult, plan: PolicyMatchPlan) -> None:
            number = result.pairing.number
            if WINNERS[result.record.winner] != expected[number]:
                self.differing.add(number)
                self.spokesman.say("warn", f"match {number} went another way when it was played for its replay")

        told = self.listeners.on_status
        self.listeners = replace(self.listeners, on_status=lambda text: told(f"recording upsets: {text}"))
        wanted = self._without_broken([fixture for fixture, _ in chosen])
        return self._play(wanted, frozenset(f.number for f in wanted), check)
