"""Plays a list of matches, some environments at a time, each counted as it ends.

A match is its seed, on the map of the same seed; nothing in it depends on its neighbours, so results do not change with
the size of the batch. Scripted pilots fly on the device; whoever else does is a ``Crew``. Torch is not loaded here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from echelon.agents import heuristic
from echelon.arena import tally
from echelon.arena.episodes import EpisodeRecord, finished
from echelon.config import EnvConfig, require
from echelon.env.engine import Engine
from echelon.gen.bank import MapBank, bank_for
from echelon.replay.header import Team
from echelon.replay.record import Match, Recorder

BLUE, RED, DRAW = 0, 1, 2
FORFEIT = "forfeit"
"""Reason of a match that ended because a side gave no orders that can be followed."""
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


class Card(Protocol):
    """Who plays whom in which game: what ``play`` asks about the matches it is given."""

    @property
    def env(self) -> EnvConfig:
        """The game."""
        ...

    @property
    def weapon_prob(self) -> float:
        """Chance that a scripted pilot's trigger is pulled at all."""
        ...

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        """Return who flies blue and who flies red."""
        ...

    def script(self, name: str) -> int:
        """Return which scripted pilot that is, 0 for none."""
        ...

    def team(self, name: str) -> Team:
        """Return what a replay says about a pilot."""
        ...


class Crew(Protocol):
    """Those who fly what no script flies."""

    def board(self, engine: Engine, wave: Sequence[Pairing], sides: Sequence[tuple[str, str]]) -> None:
        """Take the seats of matches that are about to begin, one per environment."""
        ...

    def act(self) -> None:
        """Write the actions of the next decision; who cannot forfeits there."""
        ...

    def leave(self, envs: NDArray[np.intp]) -> None:
        """Leave the matches that are over."""
        ...

    @property
    def forfeits(self) -> Mapping[int, frozenset[int]]:
        """The sides that forfeited, by environment."""
        ...


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

    def script(self, name: str) -> int:
        """Return the number of a scripted pilot."""
        return heuristic.script_of(ALIASES.get(name, name))

    def team(self, name: str) -> Team:
        """Return what a replay says about a pilot."""
        return Team(name=name, level=f"heuristic:{name}")


@dataclass(frozen=True, kw_only=True)
class MatchResult:
    """One match that was played to its end; arrays have the M mechs as first axis, blue first."""

    pairing: Pairing
    record: EpisodeRecord
    tally: Mapping[str, NDArray[Any]]
    """The fields of ``echelon.arena.tally`` and team, chassis and present."""


@dataclass(kw_only=True)
class Play:
    """How matches are played, and what became of that; those from ``stopped`` on are filled in by ``play``."""

    envs: int = MOST_ENVS
    device: str = "cpu"
    threads: int = 0
    folder: Path | None = None
    """Where replays go."""
    prefix: str = ""
    """First part of their names."""
    record: frozenset[int] = frozenset()
    """Numbers of the matches to record."""
    policy_columns: bool = False
    """Whether what pilots were shown, did and were paid is recorded too."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the replays' headers."""
    crew: Crew | None = None
    """Who flies what no script flies."""
    most_decisions: int = 0
    """Decisions after which a match counts as drawn; 0 plays to the end."""
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
    left_over: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Hit points of blue and red in the matches that ``most_decisions`` cut off, by number."""


class _Stopped(Exception):
    """Somebody asked for an end while maps were made."""


def play(card: Card, pairings: Sequence[Pairing], how: Play) -> Iterator[MatchResult]:
    """Play matches and yield each when it has ended; in no particular order."""
    engine: Engine | None = None
    count = max(1, min(how.envs, len(pairings)))
    done = 0
    try:
        for start in range(0, len(pairings), count):
            wave = pairings[start : start + count]
            bank = _maps(card, [*wave, *([wave[0]] * (count - len(wave)))], how)
            if engine is None:
                engine = _engine(card, count, bank, how)
            else:
                engine.batch.replace_maps(bank)
            for result in _play_wave(card, engine, wave, how):
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


def _maps(card: Card, wave: Sequence[Pairing], how: Play) -> MapBank:
    def progress(done: int, total: int) -> None:
        if how.should_stop():
            raise _Stopped
        how.tell(f"map {done} of {total}")

    seeds = list(dict.fromkeys(pairing.seed for pairing in wave))
    bank = bank_for(card.env, seeds, progress=progress)
    return bank.take([seeds.index(pairing.seed) for pairing in wave])


def _engine(card: Card, count: int, bank: Any, how: Play) -> Engine:
    """Return an engine whose decisions are counted, its kernels compiled."""

    def progress(name: str, done: int, total: int) -> None:
        if how.should_stop():
            raise _Stopped
        how.tell(f"compiling kernels, {done} of {total}")

    engine = Engine(
        card.env, count, bank, device=how.device, threads=how.threads, autoreset=False, pilots=heuristic.install
    )
    engine.batch.add_fields(tally.FIELDS)
    engine.programs["decision"] = lambda: tally.counted(engine.decision())
    try:
        engine.load(progress)
    except BaseException:
        engine.close()
        raise
    return engine


def _play_wave(card: Card, engine: Engine, wave: Sequence[Pairing], how: Play) -> Iterator[MatchResult]:
    """Play one match in each of the first environments and yield them as they end."""
    _begin(card, engine, wave, how)
    recorder = _recorder(card, engine, wave, how)
    _guarded(recorder, how, lambda r: r.begin())
    left, decisions = set(range(len(wave))), 0
    while left and not how.stopped:
        began = time.perf_counter()
        if how.crew is not None:
            how.crew.act()
        engine.step()
        how.seconds += time.perf_counter() - began
        decisions += 1
        _guarded(recorder, how, lambda r: r.after_step())
        over = np.flatnonzero(engine.batch.numpy("over"))
        ended = np.array([e for e in over.tolist() if e in left], np.intp)
        yield from _results(engine, ended, wave, how)
        left -= set(ended.tolist())
        if len(ended):
            _lay_down(engine, ended)
            if how.crew is not None:
                how.crew.leave(ended)
        if decisions == how.most_decisions:
            how.left_over |= {wave[e].number: _hit_points(engine, e) for e in left}
            break
        how.stopped = how.should_stop()
    _guarded(recorder, how, lambda r: r.finish())
    if recorder is not None and not how.fault:
        for pairing, path in zip(_recorded(wave, how), recorder.paths, strict=True):
            if wave.index(pairing) in left:
                path.unlink(missing_ok=True)
            else:
                how.replays[pairing.number] = path


def _begin(card: Card, engine: Engine, wave: Sequence[Pairing], how: Play) -> None:
    """Give every environment its match, clear the counts, and reset."""
    batch, envs, team_size = engine.batch, engine.num_envs, card.env.team_size
    used = np.arange(envs) < len(wave)
    seeds, script = np.zeros(envs, np.int32), np.zeros((envs, engine.num_mechs), np.int32)
    for e, pairing in enumerate(wave):
        seeds[e] = pairing.seed
        for side, name in enumerate(card.sides(pairing)):
            flown = slice(side * team_size, (side + 1) * team_size)
            script[e, flown] = card.script(name)
    batch.set("forced_seed", seeds)
    batch.set("forced_slot", np.arange(envs, dtype=np.int32))
    batch.set("script", script)
    batch["weapon_prob"].fill_(card.weapon_prob)
    for name in tally.FIELDS:
        batch[name].fill_(-1 if name in UNSET else 0)
    if how.crew is not None:
        how.crew.board(engine, wave, [card.sides(pairing) for pairing in wave])
    engine.reset(mask=used)


def _results(engine: Engine, ended: NDArray[np.intp], wave: Sequence[Pairing], how: Play) -> Iterator[MatchResult]:
    """Yield the matches that have just ended."""
    if not len(ended):
        return
    batch = engine.batch
    rows = {name: batch.numpy(name)[ended].copy() for name in (*tally.FIELDS, *ROSTER_FIELDS)}
    nobody_learns = np.full(engine.num_envs, -1, np.int64)
    forfeits = how.crew.forfeits if how.crew is not None else {}
    for i, record in enumerate(finished(batch, ended, nobody_learns)):
        counts = {name: values[i] for name, values in rows.items()}
        if lost := forfeits.get(record.env):
            record = replace(record, winner=DRAW if len(lost) > 1 else 1 - min(lost), reason=FORFEIT)
        yield MatchResult(pairing=wave[record.env], record=record, tally=counts)


def _lay_down(engine: Engine, ended: NDArray[np.intp]) -> None:
    """Take the mechs of matches that are over out of the game, so that they cost nothing while others play on."""
    alive = engine.batch.numpy("alive").copy()
    alive[ended] = 0
    engine.batch.set("alive", alive)


def _hit_points(engine: Engine, env: int) -> tuple[float, float]:
    """Return what blue and red have left."""
    hp, team, alive = (engine.batch.numpy(name)[env] for name in ("hp", "team", "alive"))
    blue, red = (float(hp[(team == side) & (alive == 1)].sum()) for side in (BLUE, RED))
    return blue, red


def _recorded(wave: Sequence[Pairing], how: Play) -> list[Pairing]:
    return [pairing for pairing in wave if pairing.number in how.record]


def _recorder(card: Card, engine: Engine, wave: Sequence[Pairing], how: Play) -> Recorder | None:
    chosen = _recorded(wave, how)
    if not chosen or how.folder is None or how.fault:
        return None
    matches = []
    for pairing in chosen:
        blue, red = (card.team(name) for name in card.sides(pairing))
        stem = "-".join(filter(None, re.split(r"[^\w.]+", f"{blue.name} {red.name}")))
        name = f"{how.prefix}m{pairing.number:05d}-s{pairing.seed}-{stem}"
        matches.append(Match(name=name, teams=(blue, red), about=how.about))
    envs = [wave.index(pairing) for pairing in chosen]
    return Recorder(engine, envs, how.folder, matches, policy="acts" if how.policy_columns else "none")


def _guarded(recorder: Recorder | None, how: Play, act: Callable[[Recorder], object]) -> None:
    """Let the recorder act; a disk that refuses ends the recording, never the matches."""
    if recorder is None or how.fault:
        return
    try:
        act(recorder)
    except OSError as error:
        how.fault = f"matches could not be recorded: {error.strerror or error}"
        recorder.abandon()


def __getattr__(name: str) -> Any:
    """Give the names of ``crew`` that belong to single matches; it loads torch, which scripted pilots do not need."""
    if name in ("LoadedPolicy", "MatchOutcome", "load_policy", "play_match"):
        from echelon.arena import crew

        return getattr(crew, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
