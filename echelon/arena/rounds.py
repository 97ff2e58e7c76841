"""Plays the rounds of an arena job: each is planned, played match by match into the store, then rated as a whole.

A stopped or killed job resumes: stored matches count, the others are played. Replays go to the job's run folder.
Several processes may play one job, each a shard of the matches.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from echelon.arena.batches import BatchPlayer, LocalPlayer, MatchBatch, Take
from echelon.arena.config import ArenaConfig
from echelon.arena.contest import FORFEIT
from echelon.arena.glicko2 import win_probability
from echelon.arena.league import KINDS, League
from echelon.arena.matchmaking import Fixture, RoundSpec, fixtures
from echelon.arena.policies import LRUPolicyCache
from echelon.arena.standings import rating_shift
from echelon.arena.store import MatchRecord, PeriodResult, RatingPeriod, Store
from echelon.arena.submit import entry_pilot, league_env_config, load_pilot
from echelon.arena.workers import SINGLE_PROCESS, CallbackRelay, WorkerGroup, shard
from echelon.config import EnvConfig
from echelon.files import error_text
from echelon.machine import cores

PLAYING, RATED = "playing", "rated"


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """Progress of a round."""

    round: int
    state: str
    matches: int
    played: int
    seconds: float
    """Time since this session started the round [s]."""
    closed: PeriodResult | None = None


@dataclass(frozen=True, kw_only=True)
class RoundCallbacks:
    """Callbacks of ``play_rounds``."""

    on_status: Callable[[str], object] = lambda text: None
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
    process_group: WorkerGroup = SINGLE_PROCESS,
    player: BatchPlayer | None = None,
) -> bool:
    """Play every round of ``job`` that is not rated yet; return False where a stop was requested before the end.

    In a process group every process calls this with its own store; the callbacks of the first receive everything.
    Without a ``player`` each process plays its matches itself.
    """
    env = league_env_config(store)
    cache = LRUPolicyCache(config.cache)
    threads = config.threads or max(1, cores() // process_group.size)
    player = player or LocalPlayer(folder=folder, cache=cache, device=config.device, threads=threads)
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
        if not _RoundRunner(store, period, config, env, cache, player, callbacks, process_group).run():
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
        player: BatchPlayer,
        callbacks: RoundCallbacks,
        process_group: WorkerGroup,
    ) -> None:
        self.store, self.period, self.config, self.env = store, period, config, env
        self.cache, self.player, self.callbacks = cache, player, callbacks
        self.process_group, self.relay = process_group, CallbackRelay(process_group, callbacks)
        self.league = store.league()
        shift = rating_shift(store)
        self.pilots = {i: entry_pilot(entry, shift) for i, entry in self.league.entries.items()}
        self.started = time.monotonic()
        self.total = store.read("SELECT count(*) FROM matches WHERE period = ?", (period.id,))[0][0]
        self.differing: set[int] = set()
        """Matches whose result differed when they were played again."""

    def run(self) -> bool:
        """Play the remaining matches and rate the round; return False where a stop was requested before the end."""
        # one list, read before any process plays
        unplayed = self.process_group.broadcast(self.store.unplayed(self.period))
        remaining = self._playable(shard(unplayed, self.process_group))
        # the recorded share is spread evenly over the round
        share = self.config.record_share
        recorded = frozenset(f.number for f in remaining if int((f.number + 1) * share) > int(f.number * share))
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

    def _playable(self, matches: Sequence[Fixture]) -> list[Fixture]:
        """Load the policies of ``matches``; store matches of a policy that fails as void and return the others."""
        broken: dict[str, str] = {}
        for name in sorted({i for f in matches for i in (f.blue, f.red) if not self.pilots[i].level}):
            try:
                loaded = load_pilot(self.pilots[name], self.player.device, self.league.env_signature)
                self.cache.put(name, loaded.policy)
            except (ValueError, OSError) as error:
                broken[name] = error_text(error)
                self.relay.call("on_warning", f"{self.pilots[name].label} is excluded from this round: {broken[name]}")
        for f in matches:
            if note := "; ".join(broken[i] for i in (f.blue, f.red) if i in broken):
                self.store.record(self.period, f.number, MatchRecord(winner="", reason="void", note=note))
        return [f for f in matches if f.blue not in broken and f.red not in broken]

    def _play(self, matches: Sequence[Fixture], record: frozenset[int], take: Take, *, repeated: bool = False) -> bool:
        """Play matches, pass each result to ``take`` and store replay paths; return False where it was stopped."""
        if not matches:
            return True
        batch = MatchBatch(
            env=self.env,
            signature=self.league.env_signature,
            config=self.config,
            pilots=self.pilots,
            fixtures=matches,
            record=record,
            repeated=repeated,
            job=self.period.job,
            round=self.period.round,
        )
        played = self.player(batch, take, self.callbacks.on_status, self.callbacks.should_stop)
        for warning in played.warnings:
            self.relay.call("on_warning", warning)
        seats = {f.number: (f.blue, f.red) for f in matches}
        for number, path in played.replays.items():
            if number in self.differing:
                path.unlink(missing_ok=True)
            else:
                self._store_replay(number, path, seats[number])
        return not played.stopped

    def _store_replay(self, number: int, path: Path, seats: tuple[str, str]) -> None:
        self.store.set_replay(self.period, number, f"{path.parent.name}/{path.name}")
        row = self.store.read(
            "SELECT winner, seed FROM matches WHERE period = ? AND number = ?", (self.period.id, number)
        )[0]
        blue, red = (self.pilots[name].label for name in seats)
        self.relay.call("on_replay", path, blue, red, row["winner"] or "", row["seed"])

    def _store_result(self, number: int, record: MatchRecord) -> None:
        if self.store.record(self.period, number, record):
            if record.reason == FORFEIT:
                self.relay.call("on_warning", f"match {number}: {record.note}")
            if self.process_group.rank == 0:
                self._report(PLAYING)

    def _upsets(self) -> list[tuple[Fixture, str]]:
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

        def check(number: int, record: MatchRecord) -> None:
            if record.winner != expected[number]:
                self.differing.add(number)
                self.relay.call(
                    "on_warning", f"match {number} ended differently when it was played again for its replay"
                )

        report = self.callbacks.on_status
        self.callbacks = replace(self.callbacks, on_status=lambda text: report(f"recording upsets: {text}"))
        matches = self._playable([fixture for fixture, _ in upsets])
        return self._play(matches, frozenset(f.number for f in matches), check, repeated=True)
