"""Plays a list of matches in a batch of environments; an environment that becomes free starts the next match at once.

A match is defined by its seed, on the map of that seed, and does not depend on its neighbours: results do not change
with the size of the batch or with earlier matches. Matches to be recorded are played first, one batch at a time,
because a recording starts in all environments together. Torch is not loaded here.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from echelon.agents import heuristic
from echelon.arena import match_statistics as statistics
from echelon.arena.commander import Commander, command
from echelon.arena.contest import BLUE, DRAW, FORFEIT, RED, MatchPlan, MatchResult, MatchSession, Pairing
from echelon.arena.episodes import finished_episodes
from echelon.env.engine import Engine
from echelon.files import reason_of
from echelon.gen.bank import MapBank, build_bank_for
from echelon.replay.record import MatchInfo, Recorder

ROSTER_FIELDS = ("team", "chassis", "present")


class _Stopped(Exception):
    """A stop was requested during map generation or compilation."""


def play(plan: MatchPlan, pairings: Sequence[Pairing], session: MatchSession) -> Iterator[MatchResult]:
    if not pairings:
        return
    recorded = [p for p in pairings if p.number in session.record and session.folder is not None]
    numbers = {p.number for p in recorded}
    others = [p for p in pairings if p.number not in numbers]
    num_envs = max(1, min(session.envs, len(pairings)))
    waves = [recorded[start : start + num_envs] for start in range(0, len(recorded), num_envs)]
    engine, done = None, 0
    try:
        maps = _MapPool(plan, [*recorded, *others], num_envs, session)
        engine = _make_engine(plan, num_envs, maps.load_initial(), session)
        for wave in [*waves, others]:
            for result in _MatchLoop(plan, engine, maps, session).run(wave, _recorder(plan, engine, wave, session)):
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


class _MapPool:
    """Maps of a list of matches: those in the slots of the device, and generated ones that are needed next."""

    def __init__(self, plan: MatchPlan, pairings: Sequence[Pairing], num_envs: int, session: MatchSession) -> None:
        self._plan, self._session = plan, session
        self._pending = list(dict.fromkeys(pairing.seed for pairing in pairings))
        """Seeds whose maps are not generated yet, in order of use."""
        self._num_slots = min(num_envs, len(self._pending))
        """Map slots on the device; also the number of maps generated at a time."""
        self._generated: dict[int, MapBank] = {}
        """Maps by seed that wait for a slot."""
        self._slot_of: dict[int, int] = {}
        """Slot by the seed of the map in it."""
        self._users: Counter[int] = Counter()
        """Running matches by the seed of their map."""

    def load_initial(self) -> MapBank:
        seeds = self._pending[: self._num_slots]
        self._slot_of = {seed: slot for slot, seed in enumerate(seeds)}
        bank = self._generate(seeds)
        del self._pending[: self._num_slots]
        return bank

    def acquire(self, engine: Engine, seed: int) -> int:
        """Return the slot of a seed's map, loading it if needed; it stays until its matches are released."""
        if seed not in self._slot_of:
            used = {slot for other, slot in self._slot_of.items() if self._users[other]}
            slot = next(slot for slot in range(self._num_slots) if slot not in used)
            self._slot_of = {other: at for other, at in self._slot_of.items() if at != slot}
            engine.batch.replace_map(slot, self._map_of(seed))
            self._slot_of[seed] = slot
        self._users[seed] += 1
        return self._slot_of[seed]

    def release(self, seed: int) -> None:
        self._users[seed] -= 1

    def _map_of(self, seed: int) -> MapBank:
        """Return one map, generating the maps needed after it in the same batch."""
        if seed not in self._generated:
            seeds = [seed, *(other for other in self._pending if other != seed)][: self._num_slots]
            bank = self._generate(seeds)
            self._generated = {other: bank.take([n]) for n, other in enumerate(seeds)}
            self._pending = [other for other in self._pending if other not in self._generated]
        return self._generated[seed]

    def _generate(self, seeds: Sequence[int]) -> MapBank:
        def progress(done: int, total: int) -> None:
            if self._session.should_stop():
                raise _Stopped
            self._session.on_status(f"map {done} of {total}")

        return build_bank_for(self._plan.env, seeds, progress=progress)


def _make_engine(plan: MatchPlan, num_envs: int, bank: MapBank, session: MatchSession) -> Engine:
    def progress(name: str, done: int, total: int) -> None:
        if session.should_stop():
            raise _Stopped
        session.on_status(f"compiling kernels, {done} of {total}")

    engine = Engine(
        plan.env,
        num_envs,
        bank,
        device=session.device,
        threads=session.threads,
        autoreset=False,
        pilots=heuristic.install,
    )
    engine.batch.add_fields(statistics.FIELDS)
    engine.programs["decision"] = lambda: statistics.with_statistics(engine.decision())
    engine.programs["after_pilots"] = lambda: statistics.with_statistics(engine.after_pilots())
    try:
        engine.load(progress)
    except BaseException:
        engine.close()
        raise
    return engine


class _MatchLoop:
    """The environments of an engine; each plays one match after another."""

    def __init__(self, plan: MatchPlan, engine: Engine, maps: _MapPool, session: MatchSession) -> None:
        self.plan, self.engine, self.maps, self.session = plan, engine, maps, session
        self._running: dict[int, Pairing] = {}
        """Running match by environment."""
        self._program = "decision"
        """What plays a decision: a shorter program where no scripted pilot plays and nothing is recorded."""
        self._is_recorded = False
        """Whether states are recorded, which have the perception of pilots whoever plays."""
        self._decisions = [0] * engine.num_envs
        """Decisions of the running match by environment."""

    def run(self, pairings: Sequence[Pairing], recorder: Recorder | None) -> Iterator[MatchResult]:
        """Play all pairings; a ``recorder`` records the matches that start first, which must then be all of them."""
        session, waiting = self.session, deque(pairings)
        self._is_recorded = recorder is not None
        self._start(range(self.engine.num_envs), waiting)
        recorder = _record(recorder, session, lambda r: r.begin())
        self.engine.prepare(self._program)
        while self._running and not session.stopped:
            started = time.perf_counter()
            if session.commanders:
                command(self.engine, self._commanded())
            if session.policy_runner is not None:
                session.policy_runner.act()
            self.engine.step(program=self._program)
            session.seconds += time.perf_counter() - started
            recorder = _record(recorder, session, lambda r: r.after_step())
            ended = [e for e in np.flatnonzero(self.engine.batch.numpy("over")).tolist() if e in self._running]
            yield from self._results(ended)
            self._end(ended + self._apply_decision_limit(ended))
            session.stopped = session.should_stop()
            if not session.stopped:
                self._start([e for e in range(self.engine.num_envs) if e not in self._running], waiting)
        recorder = _record(recorder, session, lambda r: r.finish())
        if recorder is not None:
            self._list_replays(pairings, recorder)
        self._end(list(self._running))

    def _start(self, envs: Sequence[int], waiting: deque[Pairing]) -> None:
        starting = {e: waiting.popleft() for e in envs if waiting}
        if not starting:
            return
        batch, team_size = self.engine.batch, self.plan.env.team_size
        mask = np.zeros(self.engine.num_envs, bool)
        mask[list(starting)] = True
        names = ("forced_seed", "forced_slot", "script", *statistics.FIELDS)
        arrays = {name: batch.numpy(name).copy() for name in names}
        for e, pairing in starting.items():
            arrays["forced_seed"][e] = pairing.seed
            arrays["forced_slot"][e] = self.maps.acquire(self.engine, pairing.seed)
            for side, name in enumerate(self.plan.sides(pairing)):
                arrays["script"][e, side * team_size : (side + 1) * team_size] = self.plan.script(name)
            self._decisions[e] = 0
        for name in statistics.FIELDS:
            arrays[name][mask] = -1 if name in statistics.INITIALLY_UNSET else 0
        for name, values in arrays.items():
            batch.set(name, values)
        batch["weapon_prob"].fill_(self.plan.weapon_prob)
        runner = self.session.policy_runner
        if runner is not None:
            seats = {e: (pairing, self.plan.sides(pairing)) for e, pairing in starting.items()}
            runner.start_matches(self.engine, seats)
        scripted = self._is_recorded or arrays["script"].any() or (runner is not None and runner.may_need_scripts)
        self._program = "decision" if scripted else "after_pilots"
        self.engine.clear(mask)
        self.engine.reset(mask=mask)
        self._running |= starting

    def _commanded(self) -> dict[tuple[int, int], Commander]:
        """Return the commanders of the running matches by environment and side."""
        named = {(e, side): n for e, p in self._running.items() for side, n in enumerate(self.plan.sides(p))}
        return {key: self.session.commanders[n] for key, n in named.items() if n in self.session.commanders}

    def _results(self, ended: Sequence[int]) -> Iterator[MatchResult]:
        if not ended:
            return
        batch, index = self.engine.batch, np.array(ended, np.intp)
        columns = {name: batch.numpy(name)[index].copy() for name in (*statistics.FIELDS, *ROSTER_FIELDS)}
        no_learner = np.full(self.engine.num_envs, -1, np.int64)
        runner = self.session.policy_runner
        forfeits = runner.forfeits if runner is not None else {}
        for i, record in enumerate(finished_episodes(batch, index, no_learner)):
            values = {name: column[i] for name, column in columns.items()}
            if losers := forfeits.get(record.env):
                record = replace(record, winner=DRAW if len(losers) > 1 else 1 - min(losers), reason=FORFEIT)
            yield MatchResult(pairing=self._running[record.env], record=record, statistics=values)

    def _apply_decision_limit(self, ended: Sequence[int]) -> list[int]:
        """Count the decision just played and return the environments whose match has reached ``max_decisions``."""
        limited = []
        for e in self._running.keys() - set(ended):
            self._decisions[e] += 1
            if self._decisions[e] == self.session.max_decisions:
                limited.append(e)
                self.session.hp_at_limit[self._running[e].number] = self._hit_points(e)
        return limited

    def _end(self, envs: Sequence[int]) -> None:
        """Remove the mechs of matches that are over, so that they cost no time, and release their maps."""
        if not envs:
            return
        alive = self.engine.batch.numpy("alive").copy()
        alive[envs] = 0
        self.engine.batch.set("alive", alive)
        if self.session.policy_runner is not None:
            self.session.policy_runner.end_matches(envs)
        for e in envs:
            self.maps.release(self._running.pop(e).seed)

    def _hit_points(self, env: int) -> tuple[float, float]:
        hp, team, alive = (self.engine.batch.numpy(name)[env] for name in ("hp", "team", "alive"))
        blue, red = (float(hp[(team == side) & (alive == 1)].sum()) for side in (BLUE, RED))
        return blue, red

    def _list_replays(self, pairings: Sequence[Pairing], recorder: Recorder) -> None:
        """Store the replay paths of matches that reached their end and delete the other files."""
        unfinished = {pairing.number for pairing in self._running.values()}
        for pairing, path in zip(pairings, recorder.paths, strict=True):
            if pairing.number in unfinished | self.session.hp_at_limit.keys():
                path.unlink(missing_ok=True)
            else:
                self.session.replays[pairing.number] = path


def _recorder(plan: MatchPlan, engine: Engine, wave: Sequence[Pairing], session: MatchSession) -> Recorder | None:
    """Return a recorder of a wave, whose matches start in the first environments; None where nothing is recorded."""
    if session.folder is None or not wave or wave[0].number not in session.record:
        return None
    matches, runner = [], session.policy_runner
    for pairing in wave:
        blue, red = (plan.team(name, mean=runner is not None and runner.deterministic) for name in plan.sides(pairing))
        stem = "-".join(filter(None, re.split(r"[^\w.]+", f"{blue.name} {red.name}")))
        name = f"{session.prefix}m{pairing.number:05d}-s{pairing.seed}-{stem}"
        matches.append(MatchInfo(name=name, teams=(blue, red), about=session.about))
    policy = "acts" if session.policy_columns else "actions"
    return Recorder(engine, range(len(wave)), session.folder, matches, policy=policy)


def _record(recorder: Recorder | None, session: MatchSession, action: Callable[[Recorder], object]) -> Recorder | None:
    """Apply ``action`` to a recorder and return it; an ``OSError`` ends it, not the matches nor later recordings."""
    if recorder is None:
        return None
    try:
        action(recorder)
    except OSError as error:
        names = ", ".join(path.name for path in recorder.paths)
        session.recording_errors.append(f"matches could not be recorded: {reason_of(error)} ({names})")
        recorder.abandon()
        return None
    return recorder
