"""Plays a list of matches, some environments at a time; one that is over makes room for the next at once.

A match is its seed, on the map of the same seed; nothing in it depends on its neighbours, so results do not change with
the size of the batch or with what was played there before. Matches to be recorded are played first, a batch at a time,
because a recording begins everywhere at once. Torch is not loaded here.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from echelon.agents import heuristic
from echelon.arena import match_statistics as statistics
from echelon.arena.contest import BLUE, DRAW, FORFEIT, RED, MatchPlan, MatchResult, MatchSession, Pairing
from echelon.arena.episodes import finished_episodes
from echelon.env.engine import Engine
from echelon.gen.bank import MapBank, build_bank_for
from echelon.replay.record import MatchInfo, Recorder

ROSTER_FIELDS = ("team", "chassis", "present")


class _Stopped(Exception):
    """Somebody asked for an end while maps were made."""


def play(plan: MatchPlan, pairings: Sequence[Pairing], session: MatchSession) -> Iterator[MatchResult]:
    """Play matches and yield each when it has ended; in no particular order."""
    if not pairings:
        return
    recorded = [p for p in pairings if p.number in session.record and session.folder is not None]
    numbers = {p.number for p in recorded}
    others = [p for p in pairings if p.number not in numbers]
    count = max(1, min(session.envs, len(pairings)))
    waves = [recorded[start : start + count] for start in range(0, len(recorded), count)]
    engine, done = None, 0
    try:
        maps = _Maps(plan, [*recorded, *others], count, session)
        engine = _engine(plan, count, maps.begin(), session)
        for wave in [*waves, others]:
            for result in _Lanes(plan, engine, maps, session).run(wave, _recorder(plan, engine, wave, session)):
                done += 1
                session.on_status(f"{done} of {len(pairings)} matches played")
                yield result
            if session.stopped:
                return
    except _Stopped:
        session.stopped = True
    finally:
        if engine is not None:
            engine.close()


class _Maps:
    """The maps of a list of matches: some on the device, each in a place, and those that come next."""

    def __init__(self, plan: MatchPlan, pairings: Sequence[Pairing], count: int, session: MatchSession) -> None:
        self._card, self._how = plan, session
        self._left = list(dict.fromkeys(pairing.seed for pairing in pairings))
        """Seeds that are wanted, in order, whose maps were not made yet."""
        self._count = min(count, len(self._left))
        """Places on the device; as many maps are made at a time."""
        self._stock: dict[int, MapBank] = {}
        self._place_of: dict[int, int] = {}
        """By the seed of the map that lies there."""
        self._players: Counter[int] = Counter()
        """Matches under way, by the seed of their map."""

    def begin(self) -> MapBank:
        """Return the maps that the device begins with."""
        seeds = self._left[: self._count]
        self._place_of = {seed: place for place, seed in enumerate(seeds)}
        bank = self._made(seeds)
        del self._left[: self._count]
        return bank

    def enter(self, engine: Engine, seed: int) -> int:
        """Return the place of a seed's map, which stays there until its match is left."""
        if seed not in self._place_of:
            taken = {place for other, place in self._place_of.items() if self._players[other]}
            place = next(place for place in range(self._count) if place not in taken)
            self._place_of = {other: at for other, at in self._place_of.items() if at != place}
            engine.batch.put_map(place, self._of(seed))
            self._place_of[seed] = place
        self._players[seed] += 1
        return self._place_of[seed]

    def end_matches(self, seed: int) -> None:
        """Say that a match on a seed's map is over."""
        self._players[seed] -= 1

    def _of(self, seed: int) -> MapBank:
        """Return one map; those that come after it are made with it."""
        if seed not in self._stock:
            wanted = [seed, *(other for other in self._left if other != seed)][: self._count]
            bank = self._made(wanted)
            self._stock = {other: bank.take([n]) for n, other in enumerate(wanted)}
            self._left = [other for other in self._left if other not in self._stock]
        return self._stock[seed]

    def _made(self, seeds: Sequence[int]) -> MapBank:
        def progress(done: int, total: int) -> None:
            if self._how.should_stop():
                raise _Stopped
            self._how.on_status(f"map {done} of {total}")

        return build_bank_for(self._card.env, seeds, progress=progress)


def _engine(plan: MatchPlan, count: int, bank: MapBank, session: MatchSession) -> Engine:
    """Return an engine whose decisions are counted, its kernels compiled."""

    def progress(name: str, done: int, total: int) -> None:
        if session.should_stop():
            raise _Stopped
        session.on_status(f"compiling kernels, {done} of {total}")

    engine = Engine(
        plan.env, count, bank, device=session.device, threads=session.threads, autoreset=False, pilots=heuristic.install
    )
    engine.batch.add_fields(statistics.FIELDS)
    engine.programs["decision"] = lambda: statistics.with_statistics(engine.decision())
    try:
        engine.load(progress)
    except BaseException:
        engine.close()
        raise
    return engine


class _Lanes:
    """The environments of an engine, each of which plays one match after another."""

    def __init__(self, plan: MatchPlan, engine: Engine, maps: _Maps, session: MatchSession) -> None:
        self.plan, self.engine, self.maps, self.session = plan, engine, maps, session
        self._playing: dict[int, Pairing] = {}
        """By environment."""
        self._decisions = [0] * engine.num_envs
        """Of the match under way, by environment."""

    def run(self, pairings: Sequence[Pairing], recorder: Recorder | None) -> Iterator[MatchResult]:
        """Play all of these; a ``recorder`` records those that begin first, which must be all."""
        session, waiting = self.session, deque(pairings)
        self._fill(range(self.engine.num_envs), waiting)
        _guarded(recorder, session, lambda r: r.begin())
        self.engine.prepare("decision")
        while self._playing and not session.stopped:
            began = time.perf_counter()
            if session.policy_runner is not None:
                session.policy_runner.act()
            self.engine.step()
            session.seconds += time.perf_counter() - began
            _guarded(recorder, session, lambda r: r.after_step())
            ended = [e for e in np.flatnonzero(self.engine.batch.numpy("over")).tolist() if e in self._playing]
            yield from self._results(ended)
            self._vacate(ended + self._cut_off(ended))
            session.stopped = session.should_stop()
            if not session.stopped:
                self._fill([e for e in range(self.engine.num_envs) if e not in self._playing], waiting)
        _guarded(recorder, session, lambda r: r.finish())
        if recorder is not None and not session.recording_error:
            self._keep(pairings, recorder)
        self._vacate(list(self._playing))

    def _fill(self, envs: Sequence[int], waiting: deque[Pairing]) -> None:
        """Let the next matches begin in environments that play none."""
        fresh = {e: waiting.popleft() for e in envs if waiting}
        if not fresh:
            return
        batch, team_size = self.engine.batch, self.plan.env.team_size
        masked = np.zeros(self.engine.num_envs, bool)
        masked[list(fresh)] = True
        written = {
            name: batch.numpy(name).copy() for name in ("forced_seed", "forced_slot", "script", *statistics.FIELDS)
        }
        for e, pairing in fresh.items():
            written["forced_seed"][e] = pairing.seed
            written["forced_slot"][e] = self.maps.enter(self.engine, pairing.seed)
            for side, name in enumerate(self.plan.sides(pairing)):
                written["script"][e, side * team_size : (side + 1) * team_size] = self.plan.script(name)
            self._decisions[e] = 0
        for name in statistics.FIELDS:
            written[name][masked] = -1 if name in statistics.INITIALLY_UNSET else 0
        for name, values in written.items():
            batch.set(name, values)
        batch["weapon_prob"].fill_(self.plan.weapon_prob)
        if self.session.policy_runner is not None:
            self.session.policy_runner.start_matches(
                self.engine, {e: (p, self.plan.sides(p)) for e, p in fresh.items()}
            )
        self.engine.reset(mask=masked)
        self._playing |= fresh

    def _results(self, ended: Sequence[int]) -> Iterator[MatchResult]:
        """Yield the matches that have just ended."""
        if not ended:
            return
        batch, at = self.engine.batch, np.array(ended, np.intp)
        rows = {name: batch.numpy(name)[at].copy() for name in (*statistics.FIELDS, *ROSTER_FIELDS)}
        nobody_learns = np.full(self.engine.num_envs, -1, np.int64)
        forfeits = self.session.policy_runner.forfeits if self.session.policy_runner is not None else {}
        for i, record in enumerate(finished_episodes(batch, at, nobody_learns)):
            counts = {name: values[i] for name, values in rows.items()}
            if lost := forfeits.get(record.env):
                record = replace(record, winner=DRAW if len(lost) > 1 else 1 - min(lost), reason=FORFEIT)
            yield MatchResult(pairing=self._playing[record.env], record=record, statistics=counts)

    def _cut_off(self, ended: Sequence[int]) -> list[int]:
        """Count the decision just played; return where a match has had all that it is given."""
        cut = []
        for e in self._playing.keys() - set(ended):
            self._decisions[e] += 1
            if self._decisions[e] == self.session.max_decisions:
                cut.append(e)
                self.session.hp_at_limit[self._playing[e].number] = self._hit_points(e)
        return cut

    def _vacate(self, envs: Sequence[int]) -> None:
        """Take the mechs of matches that are over out of the game, so that they cost nothing while others play on."""
        if not envs:
            return
        alive = self.engine.batch.numpy("alive").copy()
        alive[envs] = 0
        self.engine.batch.set("alive", alive)
        if self.session.policy_runner is not None:
            self.session.policy_runner.end_matches(envs)
        for e in envs:
            self.maps.end_matches(self._playing.pop(e).seed)

    def _hit_points(self, env: int) -> tuple[float, float]:
        """Return what blue and red have left."""
        hp, team, alive = (self.engine.batch.numpy(name)[env] for name in ("hp", "team", "alive"))
        blue, red = (float(hp[(team == side) & (alive == 1)].sum()) for side in (BLUE, RED))
        return blue, red

    def _keep(self, pairings: Sequence[Pairing], recorder: Recorder) -> None:
        """Note the files of the matches that were played to their end, and remove the others."""
        unfinished = {pairing.number for pairing in self._playing.values()}
        for pairing, path in zip(pairings, recorder.paths, strict=True):
            if pairing.number in unfinished | self.session.hp_at_limit.keys():
                path.unlink(missing_ok=True)
            else:
                self.session.replays[pairing.number] = path


def _recorder(plan: MatchPlan, engine: Engine, wave: Sequence[Pairing], session: MatchSession) -> Recorder | None:
    """Return what records a wave, in which the first environments play one match each; None where nobody asked."""
    if session.folder is None or session.recording_error or not wave or wave[0].number not in session.record:
        return None
    matches = []
    for pairing in wave:
        blue, red = (plan.team(name) for name in plan.sides(pairing))
        stem = "-".join(filter(None, re.split(r"[^\w.]+", f"{blue.name} {red.name}")))
        name = f"{session.prefix}m{pairing.number:05d}-s{pairing.seed}-{stem}"
        matches.append(MatchInfo(name=name, teams=(blue, red), about=session.about))
    return Recorder(
        engine, range(len(wave)), session.folder, matches, policy="acts" if session.policy_columns else "none"
    )


def _guarded(recorder: Recorder | None, session: MatchSession, act: Callable[[Recorder], object]) -> None:
    """Let the recorder act; a disk that refuses ends the recording, never the matches."""
    if recorder is None or session.recording_error:
        return
    try:
        act(recorder)
    except OSError as error:
        session.recording_error = f"matches could not be recorded: {error.strerror or error}"
        recorder.abandon()
