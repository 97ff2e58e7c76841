"""Plays scripted pilots against each other: a list of matches, some environments at a time, each counted as it ends.

A match is its seed, on the map of the same seed; nothing in it depends on its neighbours, so results do not change with
the size of the batch. No policy is involved and torch is not loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena import tally
from echelon.arena.episodes import EpisodeRecord, finished
from echelon.config import EnvConfig, require
from echelon.env.engine import Engine
from echelon.gen.bank import bank_for
from echelon.replay.header import Team
from echelon.replay.record import Match, Recorder

BLUE, RED, DRAW = 0, 1, 2
MOST_ENVS = 64
"""Environments played at a time unless told otherwise."""
SEED_LIMIT = 2**31
"""Seeds are below this: the simulator is handed them as 32-bit integers."""
ALIASES = {"baseline": "legacy"}
"""Further names of pilots."""
ROSTER_FIELDS = ("team", "chassis", "present")
UNSET = ("tally_cause", "tally_killer")
"""Counts that begin at -1."""


def pilot_names() -> tuple[str, ...]:
    """Return every name that a pilot answers to."""
    return (*ALIASES, *heuristic.SKILLS)


@dataclass(frozen=True)
class Pairing:
    """One match to play."""

    number: int
    seed: int
    swapped: bool
    """Whether the first pilot flies red."""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Who plays whom, how often, and in which game; a wrong value is a ``ValueError``."""

    env: EnvConfig
    pilots: tuple[str, str]
    """The first, who flies blue unless sides are swapped, and the second."""
    matches: int
    first_seed: int = 0
    swap: bool = False
    """Whether every seed is played from both sides."""
    weapon_prob: float = 1.0
    """Chance that a trigger is pulled at all."""

    def __post_init__(self) -> None:
        names = pilot_names()
        for name in self.pilots:
            require(name in names, "pilot", name, f"one of: {', '.join(names)}")
        require(self.matches >= 1, "matches", self.matches, "at least 1")
        require(
            not self.swap or self.matches % 2 == 0, "matches", self.matches, "an even number, for sides are swapped"
        )
        last = SEED_LIMIT - self.matches
        require(0 <= self.first_seed <= last, "seed", self.first_seed, f"0 to {last}")
        require(0.0 <= self.weapon_prob <= 1.0, "weapon_prob", self.weapon_prob, "0 to 1")

    def pairings(self) -> list[Pairing]:
        """Return every match in order; the two of a swapped pair share a seed and follow each other."""
        return [
            Pairing(n, self.first_seed + (n // 2 if self.swap else n), self.swap and n % 2 == 1)
            for n in range(self.matches)
        ]

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        """Return who flies blue and who flies red."""
        first, second = self.pilots
        return (second, first) if pairing.swapped else (first, second)


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """One match that was played to its end; arrays have the M mechs as first axis, blue first."""

    pairing: Pairing
    record: EpisodeRecord
    tally: Mapping[str, NDArray[Any]]
    """The fields of ``echelon.arena.tally`` and team, chassis and present."""


@dataclass(kw_only=True)
class Play:
    """How matches are played, and what became of that; the last four are filled in by ``play``."""

    envs: int = MOST_ENVS
    device: str = "cpu"
    threads: int = 0
    folder: Path | None = None
    """Where replays go."""
    record: frozenset[int] = frozenset()
    """Numbers of the matches to record."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the replays' headers."""
    tell: Callable[[str], object] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False
    stopped: bool = False
    """Whether it ended before all were played."""
    seconds: float = 0.0
    """Time spent playing, without compiling and without making maps [s]."""
    replays: dict[int, Path] = field(default_factory=dict)
    """Files of the recorded matches that were played to their end, by number."""
    fault: str = ""
    """Why recording ended early, if it did."""


class _Stopped(Exception):
    """Somebody asked for an end while maps were made."""


def play(contest: Contest, pairings: Sequence[Pairing], how: Play) -> Iterator[MatchResult]:
    """Play matches and yield each when it has ended; in no particular order."""
    engine: Engine | None = None
    count = max(1, min(how.envs, len(pairings)))
    done = 0
    try:
        for start in range(0, len(pairings), count):
            wave = pairings[start : start + count]
            bank = _maps(contest, [*wave, *([wave[0]] * (count - len(wave)))], how)
            if engine is None:
                engine = _engine(contest, count, bank, how)
            else:
                engine.batch.replace_maps(bank)
            for result in _play_wave(contest, engine, wave, how):
                done += 1
                how.tell(f"{done} of {len(pairings)} matches played")
                yield result
            if how.stopped:
                return
    except _Stopped:
        how.stopped = True
    finally:
        if engine is not None:
            engine.close()


def _maps(contest: Contest, wave: Sequence[Pairing], how: Play) -> Any:
    def progress(done: int, total: int) -> None:
        if how.should_stop():
            raise _Stopped
        how.tell(f"map {done} of {total}")

    return bank_for(contest.env, [pairing.seed for pairing in wave], progress=progress)


def _engine(contest: Contest, count: int, bank: Any, how: Play) -> Engine:
    """Return an engine whose decisions are counted, its kernels compiled."""

    def progress(name: str, done: int, total: int) -> None:
        if how.should_stop():
            raise _Stopped
        how.tell(f"compiling kernels, {done} of {total}")

    engine = Engine(
        contest.env, count, bank, device=how.device, threads=how.threads, autoreset=False, pilots=heuristic.install
    )
    engine.batch.add_fields(tally.FIELDS)
    engine.programs["decision"] = lambda: tally.counted(engine.decision())
    try:
        engine.load(progress)
    except BaseException:
        engine.close()
        raise
    return engine


def _play_wave(contest: Contest, engine: Engine, wave: Sequence[Pairing], how: Play) -> Iterator[MatchResult]:
    """Play one match in each of the first environments and yield them as they end."""
    _begin(contest, engine, wave)
    recorder = _recorder(contest, engine, wave, how)
    _guarded(recorder, how, lambda r: r.begin())
    batch, left = engine.batch, set(range(len(wave)))
    nobody_learns = np.full(engine.num_envs, -1, np.int64)
    while left and not how.stopped:
        began = time.perf_counter()
        engine.step()
        how.seconds += time.perf_counter() - began
        _guarded(recorder, how, lambda r: r.after_step())
        over = np.flatnonzero(batch.numpy("over"))
        ended = np.array([e for e in over.tolist() if e in left], np.intp)
        yield from _results(engine, ended, wave, nobody_learns)
        left -= set(ended.tolist())
        if len(ended):
            _lay_down(engine, ended)
        how.stopped = how.should_stop()
    _guarded(recorder, how, lambda r: r.finish())
    if recorder is not None and not how.fault:
        for pairing, path in zip(_recorded(wave, how), recorder.paths, strict=True):
            if wave.index(pairing) in left:
                path.unlink(missing_ok=True)
            else:
                how.replays[pairing.number] = path


def _begin(contest: Contest, engine: Engine, wave: Sequence[Pairing]) -> None:
    """Give every environment its match, clear the counts, and reset."""
    batch, envs, team_size = engine.batch, engine.num_envs, contest.env.team_size
    used = np.arange(envs) < len(wave)
    seeds, script = np.zeros(envs, np.int32), np.zeros((envs, engine.num_mechs), np.int32)
    for e, pairing in enumerate(wave):
        seeds[e] = pairing.seed
        for side, name in enumerate(contest.sides(pairing)):
            flown = slice(side * team_size, (side + 1) * team_size)
            script[e, flown] = heuristic.script_of(ALIASES.get(name, name))
    batch.set("forced_seed", seeds)
    batch.set("forced_slot", np.arange(envs, dtype=np.int32))
    batch.set("script", script)
    batch["weapon_prob"].fill_(contest.weapon_prob)
    for name in tally.FIELDS:
        batch[name].fill_(-1 if name in UNSET else 0)
    engine.reset(mask=used)


def _results(
    engine: Engine, ended: NDArray[np.intp], wave: Sequence[Pairing], learners: NDArray[np.int64]
) -> Iterator[MatchResult]:
    """Yield the matches that have just ended."""
    if not len(ended):
        return
    batch = engine.batch
    rows = {name: batch.numpy(name)[ended].copy() for name in (*tally.FIELDS, *ROSTER_FIELDS)}
    for i, record in enumerate(finished(batch, ended, learners)):
        counts = {name: values[i] for name, values in rows.items()}
        yield MatchResult(pairing=wave[record.env], record=record, tally=counts)


def _lay_down(engine: Engine, ended: NDArray[np.intp]) -> None:
    """Take the mechs of matches that are over out of the game, so that they cost nothing while others play on."""
    alive = engine.batch.numpy("alive").copy()
    alive[ended] = 0
    engine.batch.set("alive", alive)


def _recorded(wave: Sequence[Pairing], how: Play) -> list[Pairing]:
    return [pairing for pairing in wave if pairing.number in how.record]


def _recorder(contest: Contest, engine: Engine, wave: Sequence[Pairing], how: Play) -> Recorder | None:
    chosen = _recorded(wave, how)
    if not chosen or how.folder is None or how.fault:
        return None
    matches = []
    for pairing in chosen:
        blue, red = contest.sides(pairing)
        teams = Team(name=blue, level=f"heuristic:{blue}"), Team(name=red, level=f"heuristic:{red}")
        name = f"m{pairing.number:05d}-s{pairing.seed}-{blue}-{red}"
        matches.append(Match(name=name, teams=teams, about=how.about))
    return Recorder(engine, [wave.index(pairing) for pairing in chosen], how.folder, matches)


def _guarded(recorder: Recorder | None, how: Play, act: Callable[[Recorder], object]) -> None:
    """Let the recorder act; a disk that refuses ends the recording, never the matches."""
    if recorder is None or how.fault:
        return
    try:
        act(recorder)
    except OSError as error:
        how.fault = f"matches could not be recorded: {error.strerror or error}"
        recorder.abandon()
